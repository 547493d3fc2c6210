//! How far a group has come in one queue: asked (14) and told (15) by consumers.

use std::rc::Rc;

use base::{QueueId, QueueOffset};
use remoting::code::ResponseCode;
use remoting::header::consumer_offset::{QueryConsumerOffset, QueryConsumerOffsetResponse, UpdateConsumerOffset};
use remoting::text::Text;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::group::{self, queue_ends};

/// The committed offset; on the group's owner.
///
/// Without one the answer is where to begin, or QUERY_NOT_FOUND, upon which the client decides:
/// - a group that committed in other queues of the topic begins at the first message: the queue is new to it, and what
///   came into it meanwhile must not be skipped;
/// - any other group begins at 0 on a queue that is young ([`queue_ends::is_young_here`]): nobody wishes to skip what
///   was sent just before the group began.
pub(crate) async fn query_offset(core: Rc<Core>, request: Request) -> Outcome {
    let header = QueryConsumerOffset::decode(&request.command.fields)?;
    let (group, topic) = (&header.consumer_group, &header.topic);
    let queue = queue_id(header.queue_id)?;
    let (known, knows_topic) = core
        .groups
        .with(group, |group| (group.offsets.get(topic, queue), group.offsets.knows(topic)))
        .unwrap_or_default();
    let offset = match known {
        Some(offset) => Some(offset),
        None if header.set_zero_if_not_found == Some(false) => None,
        None => beginning(&core, topic, queue, knows_topic).await?,
    };
    let Some(offset) = offset else {
        let remark = format!("group {group} has committed no offset of queue {queue} of topic {topic} yet");
        return Err(Refusal::new(ResponseCode::QUERY_NOT_FOUND, remark));
    };
    let answer = QueryConsumerOffsetResponse { offset: offset.0 as i64 };
    Ok(Answer::success().with_fields(answer.to_fields()))
}

async fn beginning(
    core: &Rc<Core>,
    topic: &Text,
    queue: QueueId,
    knows_topic: bool,
) -> Result<Option<QueueOffset>, Refusal> {
    let (owner, topic) = (core.placement.core_of_queue(topic, queue), topic.clone());
    core.on(owner, move |core| async move {
        let ends = queue_ends::ends_here(&core, &topic, queue);
        if knows_topic {
            return Ok(Some(ends.min));
        }
        if ends.max == QueueOffset::ZERO {
            return Ok(None);
        }
        let young = ends.min == QueueOffset::ZERO && queue_ends::is_young_here(&core, &topic, queue).await?;
        Ok(young.then_some(QueueOffset::ZERO))
    })
    .await
}

/// Commits an offset; on the group's owner.
pub(crate) async fn update_offset(core: Rc<Core>, request: Request) -> Outcome {
    let header = UpdateConsumerOffset::decode(&request.command.fields)?;
    let (group, topic) = (&header.consumer_group, &header.topic);
    if core.group_configs.get(group).is_none() {
        let remark = format!("group {group} does not exist on this broker: it is made by its first heartbeat or pull");
        return Err(Refusal::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    if core.topics.get(topic).is_none() {
        let remark = format!("topic {topic} does not exist on this broker: there is nothing to commit");
        return Err(Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark));
    }
    let queue = queue_id(header.queue_id)?;
    let Ok(offset) = u64::try_from(header.commit_offset) else {
        let remark = format!("offset {} is none: the first message of a queue has offset 0", header.commit_offset);
        return Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark));
    };
    group::commit(&core, group, topic, queue, QueueOffset(offset)).await;
    Ok(Answer::success())
}

fn queue_id(queue: i32) -> Result<QueueId, Refusal> {
    let invalid = || Refusal::new(ResponseCode::INVALID_PARAMETER, format!("{queue} is no queue: they count from 0"));
    u32::try_from(queue).map(QueueId).map_err(|_| invalid())
}
