//! One message on its way into the log: to its queue, or held until its time. On the core of its queue.

use std::rc::Rc;
use std::slice;

use base::QueueId;
use remoting::name::TIMER_TOPIC;
use remoting::record::RecordDraft;
use runtime::clock;
use storage::Ticket;

use super::{append, reached, record_bytes};
use crate::call::Refusal;
use crate::core::Core;
use crate::delay::{Due, Held};
use crate::light;
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
    let held = match Held::of(message, due)? {
        Some(held) => {
            light::reserve(core, message).await?;
            append(core, log, || core.delays.hold(log.id(), message, &held)).await?
        }
        None => None,
    };
    if let Some(ticket) = held {
        // In its own topic it counts when it is delivered.
        if let Some(timer_topic) = core.topics.get(TIMER_TOPIC) {
            core.stats.sent(&timer_topic, QueueId(0), 1, record_bytes(&ticket));
        }
        reached(log, &ticket, waits_for_flush).await?;
        return Ok(ticket);
    }
    let told = light::dispatched(core, slice::from_ref(message), waits_for_flush).await?;
    let message = RecordDraft { properties: told[0].as_deref().unwrap_or(message.properties), ..*message };
    let target = log.queue(message.topic, message.queue_id);
    let ticket = append(core, log, || log.append(&target, &message, clock::now_ms())).await?;
    core.stats.sent(topic, message.queue_id, 1, record_bytes(&ticket));
    reached(log, &ticket, waits_for_flush).await?;
    Ok(ticket)
}
