//! Offsets reset by an operator (222), for groups online or not.
//!
//! By default the broker stores the new offset, and the next pull of each queue is told to go on there. With
//! `useServerSideResetOffset=false` the members are told instead (220), and must be online.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{QueueId, QueueOffset};
use remoting::body::consume::{QueueOffsetForCpp, ResetOffsetBody, ResetOffsetBodyForCpp};
use remoting::body::{MessageQueue, QueueMap};
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::{Command, Language};
use remoting::header::client::ResetConsumerOffset;
use remoting::header::consume::InvokeResetOffset;
use remoting::json;
use remoting::text::Text;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::group::{self, queue_ends};
use crate::topic::{Topic, no_topic};

/// One reset; on the group's owner. The answer tells the new offset of each queue.
pub(crate) async fn reset_offset(core: Rc<Core>, request: Request) -> Outcome {
    let header = InvokeResetOffset::decode(&request.command.fields)?;
    let topic = core.topics.get(&header.topic).ok_or_else(|| no_topic(&header.topic))?;
    let offsets = if core.config().consumers.server_side_reset_offset {
        reset_here(&core, &header, &topic).await?
    } else {
        tell_members(&core, &header, &topic).await?
    };
    let body = ResetOffsetBody { offset_table: by_message_queue(&core, &topic, &offsets) };
    Ok(Answer::success().with_body(json::encode(&body)))
}

async fn reset_here(
    core: &Rc<Core>,
    header: &InvokeResetOffset,
    topic: &Rc<Topic>,
) -> Result<BTreeMap<QueueId, QueueOffset>, Refusal> {
    if core.group_configs.get(&header.group).is_none() {
        let remark = format!("group {} does not exist on this broker", header.group);
        return Err(Refusal::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    let offsets = match u32::try_from(header.queue_id) {
        Ok(queue) => targets(core, header, topic, vec![QueueId(queue)]).await?,
        Err(_) => targets(core, header, topic, readable_queues(topic)).await?,
    };
    group::reset_offsets(core, &header.group, topic.name(), &offsets).await?;
    Ok(offsets)
}

/// Where each queue is to be reset to.
async fn targets(
    core: &Rc<Core>,
    header: &InvokeResetOffset,
    topic: &Topic,
    queues: Vec<QueueId>,
) -> Result<BTreeMap<QueueId, QueueOffset>, Refusal> {
    let wanted = u64::try_from(header.offset).ok().filter(|_| header.queue_id >= 0).map(QueueOffset);
    let time_ms = u64::try_from(header.timestamp_ms).ok();
    let asks = queues.iter().map(|queue| (topic.name().clone(), *queue, (wanted, time_ms))).collect();
    let answers = queue_ends::ask(core, asks, |core, topic, queue, (wanted, time_ms)| async move {
        target_here(&core, &topic, queue, wanted, time_ms).await
    })
    .await;
    queues.into_iter().zip(answers).map(|(queue, answer)| Ok((queue, answer?))).collect()
}

/// Where one queue is to be reset to, on its owner: the wanted offset, or the first of a time, or the end.
async fn target_here(
    core: &Core,
    topic: &str,
    queue: QueueId,
    wanted: Option<QueueOffset>,
    time_ms: Option<u64>,
) -> Result<QueueOffset, Refusal> {
    let ends = queue_ends::ends_here(core, topic, queue);
    match (wanted, time_ms) {
        (Some(wanted), _) => {
            // One behind the end is what tools may send; it means the end.
            if wanted < ends.min || wanted > ends.max.plus(1) {
                let remark = format!(
                    "offset {wanted} of queue {queue} of topic {topic} is not between {} and {}",
                    ends.min, ends.max
                );
                return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
            }
            Ok(wanted.min(ends.max))
        }
        (None, Some(time_ms)) => queue_ends::offset_by_time_here(core, topic, queue, time_ms).await,
        (None, None) => Ok(ends.max),
    }
}

/// Tells the members of the group, which then begin anew at these offsets.
async fn tell_members(
    core: &Rc<Core>,
    header: &InvokeResetOffset,
    topic: &Rc<Topic>,
) -> Result<BTreeMap<QueueId, QueueOffset>, Refusal> {
    let mut offsets = targets(core, header, topic, readable_queues(topic)).await?;
    let committed = core.groups.with(&header.group, |group| group.offsets.of_topic(topic.name())).unwrap_or_default();
    for (queue, to) in &mut offsets {
        let Some(current) = committed.get(queue) else {
            let remark = format!(
                "group {} has committed no offset of queue {queue} of topic {} yet: there is nothing to reset",
                header.group, header.topic
            );
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        };
        if !header.force && *to > *current {
            *to = *current;
        }
    }
    let members = core.groups.with(&header.group, |group| {
        group.members.iter().map(|(connection, member)| (connection, member.client.language)).collect::<Vec<_>>()
    });
    let members = members.unwrap_or_default();
    if members.is_empty() {
        let remark = format!("no consumer of group {} is online here to be told", header.group);
        return Err(Refusal::new(ResponseCode::CONSUMER_NOT_ONLINE, remark));
    }
    let fields = ResetConsumerOffset {
        topic: header.topic.clone(),
        group: header.group.clone(),
        timestamp_ms: header.timestamp_ms,
        force: header.force,
        queue_id: None,
    }
    .to_fields();
    let order = Command::request(RequestCode::RESET_CONSUMER_CLIENT_OFFSET, fields).oneway();
    let table = by_message_queue(core, topic, &offsets);
    let for_cpp = json::encode(&body_for_cpp(&table));
    let for_others = json::encode(&ResetOffsetBody { offset_table: table });
    for (connection, language) in members {
        let body = if language == Language::Cpp { &for_cpp } else { &for_others };
        core.send_to(connection, order.clone().with_body(body.clone()));
    }
    Ok(offsets)
}

fn body_for_cpp(table: &QueueMap<i64>) -> ResetOffsetBodyForCpp {
    let entry = |(queue, offset): (&MessageQueue, &i64)| QueueOffsetForCpp {
        broker_name: queue.broker_name.clone(),
        offset: *offset,
        queue_id: queue.queue_id,
        topic: queue.topic.clone(),
    };
    ResetOffsetBodyForCpp { offset_table: table.iter().map(entry).collect() }
}

fn readable_queues(topic: &Topic) -> Vec<QueueId> {
    (0..topic.read_queues()).map(QueueId).collect()
}

fn by_message_queue(core: &Core, topic: &Topic, offsets: &BTreeMap<QueueId, QueueOffset>) -> QueueMap<i64> {
    let broker_name = Text::from(&core.config().identity.broker);
    let entry = |(queue, offset): (&QueueId, &QueueOffset)| {
        let queue_id = queue.0 as i32;
        let queue = MessageQueue { broker_name: broker_name.clone(), queue_id, topic: topic.name().clone() };
        (queue, offset.0 as i64)
    };
    offsets.iter().map(entry).collect()
}
