//! Questions to the owners of queues: where a queue begins and ends, and when its messages were stored.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{CoreId, QueueId, QueueOffset};
use remoting::code::ResponseCode;
use remoting::text::Text;
use storage::{Bound, StorageError};

use crate::call::Refusal;
use crate::core::Core;

/// A queue is young while its log has grown by no more than this since the queue's first message.
const YOUNG_BYTES: u64 = 256 << 20;

/// Where a queue begins and ends; both 0 when nothing was ever stored in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueEnds {
    pub(crate) min: QueueOffset,
    /// Behind the last message.
    pub(crate) max: QueueOffset,
}

/// The ends of a queue, on its owner.
pub(crate) fn ends_here(core: &Core, topic: &str, queue: QueueId) -> QueueEnds {
    match core.log_of_queue(topic, queue).find_queue(topic, queue) {
        Some(queue) => QueueEnds { min: queue.min(), max: queue.max() },
        None => QueueEnds::default(),
    }
}

/// When a message was stored, on its queue's owner; milliseconds since 1970.
///
/// # Errors
/// When what must be read for it cannot be.
pub(crate) async fn store_time_here(
    core: &Core,
    topic: &str,
    queue: QueueId,
    at: QueueOffset,
) -> Result<Option<u64>, Refusal> {
    let Some(queue) = core.log_of_queue(topic, queue).find_queue(topic, queue) else { return Ok(None) };
    let entry = queue.entry(at).await.map_err(|error| unreadable(&error))?;
    Ok(entry.map(|entry| entry.store_timestamp_ms))
}

/// The first offset stored at a time or later, on the queue's owner; the end of the queue if there is none.
///
/// # Errors
/// When what must be read for it cannot be.
pub(crate) async fn offset_by_time_here(
    core: &Core,
    topic: &str,
    queue: QueueId,
    time_ms: u64,
) -> Result<QueueOffset, Refusal> {
    let Some(queue) = core.log_of_queue(topic, queue).find_queue(topic, queue) else { return Ok(QueueOffset::ZERO) };
    queue.offset_by_time(time_ms, Bound::Lower).await.map_err(|error| unreadable(&error))
}

/// Whether a queue has its first message, and its log grew by no more than [`YOUNG_BYTES`] since then; on the queue's
/// owner. The answer is the same after a restart.
///
/// # Errors
/// When what must be read for it cannot be.
pub(crate) async fn is_young_here(core: &Core, topic: &str, queue: QueueId) -> Result<bool, Refusal> {
    let log = core.log_of_queue(topic, queue).clone();
    let Some(queue) = log.find_queue(topic, queue) else { return Ok(false) };
    let first = queue.entry(QueueOffset::ZERO).await.map_err(|error| unreadable(&error))?;
    Ok(first.is_some_and(|first| log.visible_end().since(first.offset) <= YOUNG_BYTES))
}

/// The ends of a queue, asked from any core.
pub(crate) async fn ends(core: &Rc<Core>, topic: &Text, queue: QueueId) -> QueueEnds {
    let owner = core.placement.core_of_queue(topic, queue);
    if owner == core.id {
        return ends_here(core, topic, queue);
    }
    let topic = topic.clone();
    core.on(owner, move |core| async move { ends_here(&core, &topic, queue) }).await
}

/// Asks the owners of queues a question about each, and gathers the answers in the order of the queues.
pub(crate) async fn ask<Ask, T, Made>(
    core: &Rc<Core>,
    queues: Vec<(Text, QueueId, Ask)>,
    question: impl Fn(Rc<Core>, Text, QueueId, Ask) -> Made + Clone + Send + 'static,
) -> Vec<T>
where
    Ask: Send + 'static,
    T: Send + 'static,
    Made: Future<Output = T> + 'static,
{
    let mut by_owner: BTreeMap<CoreId, Vec<(usize, Text, QueueId, Ask)>> = BTreeMap::new();
    for (place, (topic, queue, ask)) in queues.into_iter().enumerate() {
        let owner = core.placement.core_of_queue(&topic, queue);
        by_owner.entry(owner).or_default().push((place, topic, queue, ask));
    }
    let mut answers = Vec::new();
    for (owner, asks) in by_owner {
        let question = question.clone();
        let answered = core.on(owner, move |core| async move {
            let mut answered = Vec::with_capacity(asks.len());
            for (place, topic, queue, ask) in asks {
                answered.push((place, question(core.clone(), topic, queue, ask).await));
                runtime::yield_if_needed().await;
            }
            answered
        });
        answers.extend(answered.await);
    }
    answers.sort_unstable_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn unreadable(error: &StorageError) -> Refusal {
    Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string())
}
