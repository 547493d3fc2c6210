//! Clients that say goodbye (35).

use std::rc::Rc;

use remoting::header::client::UnregisterClient;

use crate::call::{Answer, Outcome, Request};
use crate::core::Core;
use crate::group;

/// Takes the client out of the groups that it names; on its connection's core. A stranger is told the same.
pub(crate) async fn unregister_client(core: Rc<Core>, request: Request) -> Outcome {
    let UnregisterClient { client_id, producer_group, consumer_group } =
        UnregisterClient::decode(&request.command.fields)?;
    if let Some(group) = producer_group.filter(|group| !group.is_empty()) {
        group::unregister_producer(&core, group, client_id.clone(), request.connection).await;
    }
    if let Some(group) = consumer_group.filter(|group| !group.is_empty()) {
        group::unregister_consumer(&core, group, client_id, request.connection).await;
    }
    Ok(Answer::success())
}
