//! One message on its way into the log: to its queue, or held until its time. On the core of its queue.

use std::rc::Rc;

use base::QueueId;
use remoting::name::TIMER_TOPIC;
use remoting::record::RecordDraft;
use runtime::clock;
use storage::Ticket;

use super::{append, reached, record_bytes};
use crate::call::Refusal;
use crate::core::Core;
use crate::delay::{Due, Held};
use crate::topic::Topic;

/// Stores a message and waits for what its sender was promised. The ticket is that of the record that was appended now:
/// of a held message, the one under which it waits.
pub(crate) async fn put(
    core: &Rc<Core>,
    topic: &Topic,
    message: &RecordDraft<'_>,
    due: Due,
    waits_for_flush: bool,
) -> Result<Ticket, Refusal> {
    let log = core.log_of_topic_queue(topic, message.queue_id);
    let held = Held::of(message, due)?;
    let try_append = || {
        if let Some(held) = &held
            && let Some(ticket) = core.delays.hold(log.id(), message, held)?
        {
            return Ok((ticket, true));
        }
        let target = log.queue(message.topic, message.queue_id);
        Ok((log.append(&target, message, clock::now_ms())?, false))
    };
    let (ticket, is_held) = append(core, log, try_append).await?;
    if !is_held {
        core.stats.sent(topic, message.queue_id, 1, record_bytes(&ticket));
    } else if let Some(timer_topic) = core.topics.get(TIMER_TOPIC) {
        // In its own topic it counts when it is delivered.
        core.stats.sent(&timer_topic, QueueId(0), 1, record_bytes(&ticket));
    }
    reached(log, &ticket, waits_for_flush).await?;
    Ok(ticket)
}
