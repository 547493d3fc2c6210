//! Messages that a consumer could not consume, sent back for another try (36): to come again later, or to the dead letters.

use std::rc::Rc;
use std::sync::Arc;

use base::{PhysicalOffset, QueueId};
use remoting::body::group::SubscriptionGroupConfig;
use remoting::code::ResponseCode;
use remoting::header::send_back::ConsumerSendMessageBack;
use remoting::message_id::OffsetId;
use remoting::properties::{self, Builder, DELAY_LEVEL, ORIGIN_MESSAGE_ID, PROPERTIES_BYTES_MAX, RETRY_TOPIC};
use remoting::record::{RecordDraft, RecordView};

use super::send;
use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::delay::Due;
use crate::topic::Topic;
use crate::{group, topic};

/// The level of the first retry when the consumer names none; each further retry has the next one.
const FIRST_LEVEL: i32 = 3;

/// What becomes of a message that was sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hop {
    /// It comes again after the delay of a level.
    Retry { level: i32 },
    /// It had all its tries, or the consumer wants no other.
    Dead,
}

/// On the core of the message's log.
pub(crate) async fn send_back(core: Rc<Core>, request: Request) -> Outcome {
    let header = ConsumerSendMessageBack::decode(&request.command.fields)?;
    let group = group::ensure(&core, &header.group).await?;
    if !core.config().registration.permission.writes() {
        let remark = format!("broker {} may not be written: brokerPermission lacks 2", core.config().identity.broker);
        return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
    }
    core.retention.admits_any(core.own_logs().map(|log| log.id()))?;
    // A group without a retry topic wants no retries.
    let queues = u32::try_from(group.retry_queue_nums).unwrap_or(0);
    let Some(retry_topic) = topic::ensure_retry_topic(&core, &header.group, queues).await? else {
        return Ok(Answer::success());
    };
    let record = load(&core, &header).await?;
    let hop = {
        let record = decode(&record)?;
        check_topic(&header, &record)?;
        next_hop(&header, &group, record.reconsume_times())
    };
    let target = match hop {
        Hop::Retry { .. } => retry_topic,
        Hop::Dead => topic::ensure_dlq_topic(&core, &header.group).await?,
    };
    if !target.is_writable() {
        let remark = format!("topic {} may not be written: its perm {} lacks 2", target.name(), target.config.perm);
        return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
    }
    let queue = match hop {
        Hop::Retry { .. } => QueueId(core.draw_below(queues.min(target.write_queues()).max(1))),
        Hop::Dead => send::DLQ_QUEUE,
    };
    let owner = core.placement.core_of_queue(target.name(), queue);
    let target = Topic::clone(&target);
    core.on(owner, move |core| async move { store(&core, &record, hop, &target, queue).await }).await?;
    Ok(Answer::success())
}

/// The record of the message, whose place the client names.
async fn load(core: &Rc<Core>, header: &ConsumerSendMessageBack) -> Result<Vec<u8>, Refusal> {
    let missing = || failed(format!("no message begins at offset {}: send it to the retry topic", header.offset));
    let physical = PhysicalOffset(u64::try_from(header.offset).map_err(|_| missing())?);
    if core.core_of_offset(physical) != Some(core.id) {
        return Err(missing());
    }
    let record = core.log(physical.log()).record_at(physical.offset()).await;
    record.map_err(|error| failed(error.to_string()))?.ok_or_else(missing)
}

/// Refuses an offset at which another message lies than the client means.
fn check_topic(header: &ConsumerSendMessageBack, record: &RecordView<'_>) -> Result<(), Refusal> {
    let Some(wanted) = &header.origin_topic else { return Ok(()) };
    let is_it = **wanted == *record.topic() || record.property(RETRY_TOPIC) == Some(wanted);
    if wanted.is_empty() || is_it {
        return Ok(());
    }
    let remark = format!("the message at offset {} is of topic {}, not of {wanted}", header.offset, record.topic());
    Err(failed(remark))
}

fn next_hop(header: &ConsumerSendMessageBack, group: &Arc<SubscriptionGroupConfig>, times: i32) -> Hop {
    let times_max = header.max_reconsume_times.unwrap_or(group.retry_max_times);
    match header.delay_level {
        _ if times >= times_max => Hop::Dead,
        0 => Hop::Retry { level: times.saturating_add(FIRST_LEVEL) },
        level if level > 0 => Hop::Retry { level },
        _ => Hop::Dead,
    }
}

/// Stores the message anew, on the core of its queue.
async fn store(core: &Rc<Core>, record: &[u8], hop: Hop, topic: &Topic, queue: QueueId) -> Result<(), Refusal> {
    core.retention.admits(core.log_of_topic_queue(topic, queue).id())?;
    let record = decode(record)?;
    let level = match hop {
        Hop::Retry { level } => level,
        Hop::Dead => 0,
    };
    let properties = properties_of_hop(&record, level)?;
    let message = RecordDraft {
        topic: topic.name(),
        queue_id: queue,
        store_host: core.advertised(),
        reconsume_times: record.reconsume_times().saturating_add(1),
        properties: &properties,
        ..RecordDraft::of(&record)
    };
    let due = Due::after_level(i64::from(level), &core.config().delays, core.delays.now());
    // The consumer forgets the message once it is told that it was taken.
    let waits_for_flush = true;
    send::put(core, topic, &message, due, waits_for_flush).await.map(|_| ())
}

/// All properties of the message, and where it came from at first.
fn properties_of_hop(record: &RecordView<'_>, level: i32) -> Result<String, Refusal> {
    let mut builder = Builder::from_text(&properties::without(record.properties(), &[DELAY_LEVEL]), 128);
    if record.property(RETRY_TOPIC).is_none() {
        builder.push(RETRY_TOPIC, record.topic());
    }
    if record.property(ORIGIN_MESSAGE_ID).is_none() {
        let id = OffsetId { host: record.store_host(), physical_offset: record.physical_offset() };
        builder.push(ORIGIN_MESSAGE_ID, id.encode());
    }
    builder.push(DELAY_LEVEL, level);
    let properties = builder.finish();
    if properties.len() > PROPERTIES_BYTES_MAX {
        let bytes = properties.len();
        let remark =
            format!("the properties take {bytes} bytes with what a retry adds, the limit is {PROPERTIES_BYTES_MAX}");
        return Err(failed(remark));
    }
    Ok(properties)
}

fn decode(record: &[u8]) -> Result<RecordView<'_>, Refusal> {
    RecordView::decode(record).map_err(|error| failed(error.to_string()))
}

fn failed(remark: String) -> Refusal {
    Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
}

#[cfg(test)]
mod tests {
    use remoting::text::Text;

    use super::*;

    #[test]
    fn each_try_has_its_level_until_there_is_none_left() {
        let group = Arc::new(SubscriptionGroupConfig { retry_max_times: 3, ..SubscriptionGroupConfig::default() });
        // Level asked for, the client's limit, tries so far.
        for (delay_level, max_reconsume_times, times, hop) in [
            (0, None, 0, Hop::Retry { level: 3 }),
            (0, None, 2, Hop::Retry { level: 5 }),
            (0, None, 3, Hop::Dead),
            (0, Some(16), 3, Hop::Retry { level: 6 }),
            (1, Some(1), 0, Hop::Retry { level: 1 }),
            (1, Some(1), 1, Hop::Dead),
            (1, Some(0), 0, Hop::Dead),
            (-1, None, 0, Hop::Dead),
            (7, None, 0, Hop::Retry { level: 7 }),
        ] {
            let header = ConsumerSendMessageBack {
                offset: 0,
                group: Text::from("g"),
                delay_level,
                origin_message_id: None,
                origin_topic: None,
                unit_mode: false,
                max_reconsume_times,
            };
            assert_eq!(next_hop(&header, &group, times), hop, "{delay_level} {max_reconsume_times:?} {times}");
        }
    }
}
