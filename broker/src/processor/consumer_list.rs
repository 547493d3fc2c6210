//! The client ids of a group's members (38), which clients divide the queues by.

use std::rc::Rc;

use remoting::body::heartbeat::ConsumerList;
use remoting::code::ResponseCode;
use remoting::header::client::ConsumerListByGroup;
use remoting::json;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;

/// Client ids, each once and sorted; on the group's owner.
pub(crate) async fn consumer_list(core: Rc<Core>, request: Request) -> Outcome {
    let ConsumerListByGroup { consumer_group: group } = ConsumerListByGroup::decode(&request.command.fields)?;
    let ids = core.groups.with(&group, |group| group.members.client_ids()).unwrap_or_default();
    if ids.is_empty() {
        let remark = format!("no consumer of group {group} is online here: a member appears with its first heartbeat");
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
    }
    Ok(Answer::success().with_body(json::encode(&ConsumerList { consumer_id_list: ids })))
}
