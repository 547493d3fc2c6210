//! Retries that clients send by themselves: consumers in order, and those whose send-back was refused.

use std::rc::Rc;

use base::QueueId;
use remoting::header::send::SendMessage;
use remoting::name;
use remoting::properties::{self, DELAY_LEVEL};
use remoting::text::Text;

use super::{Stored, store_one};
use crate::call::{Refusal, Request};
use crate::core::Core;
use crate::topic::Topic;
use crate::{group, topic};

/// The one queue of a dead letter topic.
pub(crate) const DLQ_QUEUE: QueueId = QueueId(0);

/// Stores a retry among the dead letters of its group when it had all its tries; `None` when it is to be stored as sent.
pub(super) async fn bury_exhausted(
    core: &Rc<Core>,
    header: &SendMessage,
    request: &Request,
) -> Result<Option<Stored>, Refusal> {
    let Some(group) = name::group_of_retry_topic(&header.topic) else { return Ok(None) };
    let config = group::ensure(core, group).await?;
    let times_max = header.max_reconsume_times.unwrap_or(config.retry_max_times);
    if header.reconsume_times <= times_max && !consumes_in_order(core, group).await {
        return Ok(None);
    }
    let dlq = topic::ensure_dlq_topic(core, group).await?;
    let header = SendMessage {
        topic: dlq.name().clone(),
        queue_id: DLQ_QUEUE.0 as i32,
        // A dead letter is not delayed.
        properties: Text::from(properties::with(&header.properties, DELAY_LEVEL, -1)),
        ..header.clone()
    };
    let owner = core.placement.core_of_queue(dlq.name(), DLQ_QUEUE);
    let (dlq, request) = (Topic::clone(&dlq), request.clone());
    let stored = core.on(owner, move |core| async move { store_one(&core, &header, &dlq, DLQ_QUEUE, &request).await });
    stored.await.map(Some)
}

/// A consumer that holds queues tries again by itself, in order: what it sends, it has given up.
async fn consumes_in_order(core: &Rc<Core>, group: &str) -> bool {
    let group = Text::from(group);
    let owner = core.placement.core_of_group(&group);
    core.on(owner, move |core| async move { core.groups.holds_locks(&group) }).await
}
