//! A held message: the record under which it waits in the timer topic, and the message that comes out of it.
//!
//! The record is the message itself but for its address, which stands in properties until the delivery puts it back.

use base::{Millis, QueueId};
use remoting::code::ResponseCode;
use remoting::name::TIMER_TOPIC;
use remoting::properties::{
    self, Builder, DELAY_LEVEL, PROPERTIES_BYTES_MAX, REAL_QUEUE_ID, REAL_TOPIC, TIMER_DELAY_MS, TIMER_DELAY_SECONDS,
    TIMER_DELIVER_MS, TIMER_DEQUEUE_MS, TIMER_ENQUEUE_MS, TIMER_OUT_MS,
};
use remoting::record::{RecordDraft, RecordView};

use super::slot::Slot;
use super::wish::Due;
use crate::call::Refusal;

/// The properties that hold the address of a held message and its time.
const ADDRESS: [&str; 3] = [REAL_TOPIC, REAL_QUEUE_ID, TIMER_OUT_MS];
/// The wishes that a delay level overrides.
const OVERRIDDEN: [&str; 3] = [TIMER_DELAY_SECONDS, TIMER_DELAY_MS, TIMER_DELIVER_MS];
/// What a delivery may add to the properties: two times, of 20 digits at most.
const DELIVERY_BYTES_MAX: usize = TIMER_ENQUEUE_MS.len() + TIMER_DEQUEUE_MS.len() + 2 * (20 + 2);

/// A message that is to be held, under its address in the timer topic.
pub(crate) struct Held {
    pub(super) due: Millis,
    pub(super) queue: QueueId,
    properties: String,
}

impl Held {
    /// `None` for a message that is to be delivered now.
    ///
    /// # Errors
    /// When its properties leave no room for the address.
    pub(crate) fn of(message: &RecordDraft<'_>, due: Due) -> Result<Option<Held>, Refusal> {
        let Some(time) = due.later() else { return Ok(None) };
        let mut left_out = ADDRESS.to_vec();
        if matches!(due, Due::Level(_)) {
            left_out.extend(OVERRIDDEN);
        }
        let mut builder = Builder::from_text(&properties::without(message.properties, &left_out), 64);
        builder.push(REAL_TOPIC, message.topic);
        builder.push(REAL_QUEUE_ID, message.queue_id.0 as i32);
        builder.push(TIMER_OUT_MS, time.0 as i64);
        let properties = builder.finish();
        let bytes = properties.len() + DELIVERY_BYTES_MAX;
        if bytes > PROPERTIES_BYTES_MAX {
            let remark = format!(
                "the properties take {bytes} bytes with what a later delivery adds, the limit is {PROPERTIES_BYTES_MAX}: send \
                 fewer or shorter properties"
            );
            return Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark));
        }
        Ok(Some(Held { due: time, queue: Slot::of(time).queue(), properties }))
    }

    /// The record under which `message` waits.
    pub(crate) fn draft<'a>(&'a self, message: &RecordDraft<'a>) -> RecordDraft<'a> {
        RecordDraft { topic: TIMER_TOPIC, queue_id: self.queue, properties: &self.properties, ..*message }
    }
}

/// What comes out of a held record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Restored<'a> {
    pub(super) topic: &'a str,
    pub(super) queue: QueueId,
    pub(super) properties: String,
}

impl<'a> Restored<'a> {
    /// `None` when the record has no address, so was never held.
    pub(super) fn of(record: &RecordView<'a>, now: Millis) -> Option<Restored<'a>> {
        let topic = record.property(REAL_TOPIC)?;
        let queue = QueueId(record.property(REAL_QUEUE_ID)?.parse().ok()?);
        let text = record.properties();
        let by_level = properties::get(text, DELAY_LEVEL)
            .and_then(|level| level.parse::<i64>().ok())
            .is_some_and(|level| level > 0);
        // The address stays visible to consumers, as they know it.
        let properties = if by_level {
            properties::without(text, &[TIMER_OUT_MS])
        } else {
            let text = properties::without(text, &[TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS]);
            let mut builder = Builder::from_text(&text, DELIVERY_BYTES_MAX);
            builder.push(TIMER_ENQUEUE_MS, record.store_timestamp_ms());
            builder.push(TIMER_DEQUEUE_MS, now.0 as i64);
            builder.finish()
        };
        Some(Restored { topic, queue, properties })
    }

    /// The message to be delivered.
    pub(super) fn draft<'b>(&'b self, record: &RecordView<'b>, topic: &'b str) -> RecordDraft<'b> {
        RecordDraft { topic, queue_id: self.queue, properties: &self.properties, ..RecordDraft::of(record) }
    }
}

#[cfg(test)]
mod tests {
    use base::{LogId, LogOffset, PhysicalOffset, QueueOffset};
    use remoting::record::{Placement, encode, record_bytes};

    use super::*;

    fn message<'a>(topic: &'a str, properties: &'a str) -> RecordDraft<'a> {
        RecordDraft {
            topic,
            queue_id: QueueId(3),
            flag: 7,
            sys_flag: 1,
            born_timestamp_ms: 11,
            born_host: "127.0.0.1:1".parse().expect("an address"),
            store_host: "127.0.0.1:2".parse().expect("an address"),
            reconsume_times: 2,
            prepared_transaction_offset: 5,
            body: b"body",
            properties,
        }
    }

    fn stored(draft: &RecordDraft<'_>) -> Vec<u8> {
        let mut bytes = vec![0; record_bytes(draft)];
        let placement = Placement {
            queue_offset: QueueOffset(0),
            physical_offset: PhysicalOffset::new(LogId(0), LogOffset(0)),
            store_timestamp_ms: 50,
        };
        encode(draft, placement, &mut bytes);
        bytes
    }

    #[test]
    fn what_was_held_comes_out_as_it_was_sent() {
        let level = "DELAY\u{1}2\u{2}TIMER_DELAY_MS\u{1}9\u{2}TAGS\u{1}a\u{2}";
        let timer = "TIMER_DELAY_MS\u{1}9\u{2}REAL_TOPIC\u{1}old\u{2}TIMER_OUT_MS\u{1}1\u{2}";
        for (properties, due, out) in [
            (level, Due::Level(Millis(60)), "DELAY\u{1}2\u{2}TAGS\u{1}a\u{2}REAL_TOPIC\u{1}T\u{2}REAL_QID\u{1}3\u{2}"),
            (
                timer,
                Due::Timer(Millis(60)),
                "TIMER_DELAY_MS\u{1}9\u{2}REAL_TOPIC\u{1}T\u{2}REAL_QID\u{1}3\u{2}TIMER_OUT_MS\u{1}60\u{2}\
                 TIMER_ENQUEUE_MS\u{1}50\u{2}TIMER_DEQUEUE_MS\u{1}61\u{2}",
            ),
        ] {
            let message = message("T", properties);
            let held = Held::of(&message, due).expect("fits").expect("held");
            let draft = held.draft(&message);
            assert_eq!((draft.topic, draft.queue_id), (TIMER_TOPIC, Slot::of(Millis(60)).queue()));
            let bytes = stored(&draft);
            let record = RecordView::decode(&bytes).expect("a record");
            let restored = Restored::of(&record, Millis(61)).expect("an address");
            assert_eq!((restored.topic, restored.queue), ("T", QueueId(3)));
            assert_eq!(restored.properties, out);
            let back = restored.draft(&record, "T");
            assert_eq!((back.body, back.flag, back.sys_flag, back.reconsume_times), (&b"body"[..], 7, 1, 2));
            assert_eq!((back.born_timestamp_ms, back.born_host), (11, message.born_host));
        }
        assert!(Held::of(&message("T", level), Due::Now).expect("fits").is_none());
        let plain = stored(&message("T", "TAGS\u{1}a\u{2}"));
        assert_eq!(Restored::of(&RecordView::decode(&plain).expect("a record"), Millis(1)), None);
    }

    #[test]
    fn what_a_delivery_adds_always_fits() {
        let of_bytes = |bytes: usize| format!("a\u{1}{}\u{2}", "x".repeat(bytes - 3));
        let longest = (30_000..PROPERTIES_BYTES_MAX)
            .rev()
            .find(|bytes| Held::of(&message("T", &of_bytes(*bytes)), Due::Timer(Millis(60))).is_ok())
            .expect("some fit");
        let text = of_bytes(longest);
        let message = message("T", &text);
        let held = Held::of(&message, Due::Timer(Millis(60))).expect("fits").expect("held");
        let bytes = stored(&held.draft(&message));
        let record = RecordView::decode(&bytes).expect("a record");
        let restored = Restored::of(&record, Millis(u64::MAX >> 1)).expect("an address");
        assert!(restored.properties.len() <= PROPERTIES_BYTES_MAX);
        record_bytes(&restored.draft(&record, "T"));
    }
}
