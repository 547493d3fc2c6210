//! Questions of tools to clients, passed on over the client's own connection (223, 307, 309).
//!
//! Bodies of clients go through as they are: they can hold what is no JSON, and only the tool needs to read them.

use std::rc::Rc;
use std::time::Duration;

use remoting::body::consume::GetConsumerStatusBody;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::Command;
use remoting::header::client::ConsumerStatusFromClient;
use remoting::header::connection::{ConsumeMessageDirectly, ConsumerRunningInfo, InvokeGetConsumerStatus};
use remoting::json;
use remoting::message_id::OffsetId;
use remoting::text::Text;
use transport::{CallError, ConnectionId};

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;

/// How long a client may take to tell its offsets.
const STATUS_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a client may take for anything else.
const RELAY_TIME_MAX: Duration = Duration::from_secs(10);

/// What a member does right now (307); on the group's owner.
pub(crate) async fn running_info(core: Rc<Core>, request: Request) -> Outcome {
    let header = ConsumerRunningInfo::decode(&request.command.fields)?;
    let connection = member(&core, &header.consumer_group, Some(&header.client_id))?;
    let question = Command::request(RequestCode::GET_CONSUMER_RUNNING_INFO, request.command.fields.clone());
    relay(&core, connection, question.with_body(request.command.body.clone()), &header.consumer_group).await
}

/// Has a member consume one stored message (309); on the group's owner.
pub(crate) async fn consume_directly(core: Rc<Core>, request: Request) -> Outcome {
    let header = ConsumeMessageDirectly::decode(&request.command.fields)?;
    let group = &header.consumer_group;
    let client_id = header.client_id.as_ref().filter(|id| !id.is_empty());
    let connection = member(&core, group, client_id)?;
    let mut fields = request.command.fields.clone();
    fields.set("brokerName", &core.config().identity.broker);
    if let Some(config) = core.group_configs.get(group) {
        fields.set("groupSysFlag", config.group_sys_flag);
    }
    if let Some(topic) = header.topic.as_ref().and_then(|topic| core.topics.get(topic)) {
        fields.set("topicSysFlag", topic.config.topic_sys_flag);
    }
    let mut order = Command::request(RequestCode::CONSUME_MESSAGE_DIRECTLY, fields);
    if let Some(id) = header.message_id.as_ref().filter(|id| !id.is_empty()) {
        order = order.with_body(record(&core, id).await?);
    }
    relay(&core, connection, order, group).await
}

/// The stored bytes of a message, by its id.
async fn record(core: &Rc<Core>, id: &Text) -> Result<Vec<u8>, Refusal> {
    let missing = |why: &str| {
        let remark = format!("no message with id {id} is stored here: {why}");
        Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
    };
    let parsed = OffsetId::decode(id).map_err(|error| missing(&error.to_string()))?;
    let offset = parsed.physical_offset;
    let owner = core.core_of_offset(offset).ok_or_else(|| missing("there is no such log"))?;
    let found = core.on(owner, move |core| async move { core.log(offset.log()).record_at(offset.offset()).await });
    let found = found.await.map_err(|error| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string()))?;
    found.ok_or_else(|| missing("its time is over, or it was never there"))
}

/// How far each member has come, as the members themselves say (223); on the group's owner. Members that do not answer
/// are left out.
pub(crate) async fn consumer_status(core: Rc<Core>, request: Request) -> Outcome {
    let InvokeGetConsumerStatus { topic, group, client_addr } =
        InvokeGetConsumerStatus::decode(&request.command.fields)?;
    let wanted = client_addr.filter(|id| !id.is_empty());
    let members = core.groups.with(&group, |known| {
        let members = known.members.iter().map(|(connection, member)| (connection, member.client.id.clone()));
        members.filter(|(_, id)| wanted.as_ref().is_none_or(|wanted| wanted == id)).collect::<Vec<_>>()
    });
    let members = members.unwrap_or_default();
    if members.is_empty() {
        return Err(offline(&group, wanted.as_ref()));
    }
    let fields = ConsumerStatusFromClient { topic, group, client_addr: None }.to_fields();
    let question = Command::request(RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT, fields);
    let mut body = GetConsumerStatusBody::default();
    for (connection, id) in members {
        let Ok(answer) = core.call_client(connection, question.clone(), STATUS_TIME_MAX).await else { continue };
        if answer.code == ResponseCode::SUCCESS.0
            && let Ok(told) = json::decode::<GetConsumerStatusBody>(&answer.body)
        {
            body.consumer_table.insert(id, told.message_queue_table);
        }
    }
    Ok(Answer::success().with_body(json::encode(&body)))
}

/// The connection of a member: of that client id, or of any.
fn member(core: &Core, group: &Text, client_id: Option<&Text>) -> Result<ConnectionId, Refusal> {
    let connection = core.groups.with(group, |known| match client_id {
        Some(id) => known.members.connections_of(id).last(),
        None => known.members.iter().next().map(|(connection, _)| connection),
    });
    connection.flatten().ok_or_else(|| offline(group, client_id))
}

fn offline(group: &Text, client_id: Option<&Text>) -> Refusal {
    let remark = match client_id {
        Some(id) => format!("consumer {id} of group {group} is not online here"),
        None => format!("no consumer of group {group} is online here"),
    };
    Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
}

/// Passes a question on, and the answer back as it is.
async fn relay(core: &Rc<Core>, connection: ConnectionId, question: Command, group: &Text) -> Outcome {
    match core.call_client(connection, question, RELAY_TIME_MAX).await {
        Ok(answer) => {
            let relayed = Answer::of(ResponseCode(answer.code)).with_fields(answer.fields).with_body(answer.body);
            Ok(Answer { remark: answer.remark, ..relayed })
        }
        Err(Some(error @ CallError::Late { .. })) => {
            let remark = format!("the consumer of group {group} is silent: {error}");
            Err(Refusal::new(ResponseCode::CONSUME_MSG_TIMEOUT, remark))
        }
        Err(Some(error)) => Err(Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string())),
        Err(None) => Err(Refusal::new(ResponseCode::SYSTEM_ERROR, format!("the consumer of group {group} just left"))),
    }
}
