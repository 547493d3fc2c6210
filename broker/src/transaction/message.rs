//! What becomes of a half message: the message that consumers get, the copy for operators, the question to a producer.
//! Pure.

use std::net::SocketAddr;

use base::{Millis, QueueId};
use remoting::name::CHECK_MAX_TIME_TOPIC;
use remoting::properties::{self, CHECK_IMMUNITY_TIME_SECONDS, REAL_QUEUE_ID, REAL_TOPIC, TRANSACTION_CHECK_TIMES};
use remoting::record::{self, Placement, RecordDraft, RecordView, sys_flag};

/// A message made of a half message: what differs from it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) topic: String,
    pub(super) queue: QueueId,
    sys_flag: i32,
    prepared_transaction_offset: i64,
    properties: String,
}

impl Message {
    /// The message that consumers get. It keeps the properties of its half, as clients know it; the one that marks a
    /// half means nothing in it, since only a send makes halves. `None` when the half does not say where it is meant for.
    pub(super) fn committed(half: &RecordView<'_>) -> Option<Message> {
        let (topic, queue) = target(half)?;
        Some(Message {
            topic: topic.to_owned(),
            queue,
            sys_flag: without_kind(half) | sys_flag::TRANSACTION_COMMIT,
            prepared_transaction_offset: half.physical_offset().0 as i64,
            properties: half.properties().to_owned(),
        })
    }

    /// The copy that is kept for operators when nobody knew the end.
    pub(super) fn given_up(half: &RecordView<'_>, queue: QueueId, checks: u32) -> Message {
        Message {
            topic: CHECK_MAX_TIME_TOPIC.to_owned(),
            queue,
            sys_flag: without_kind(half),
            prepared_transaction_offset: 0,
            properties: properties::with(half.properties(), TRANSACTION_CHECK_TIMES, i64::from(checks)),
        }
    }

    /// What a producer is asked about: the message as it was sent.
    pub(super) fn asked(half: &RecordView<'_>, checks: u32) -> Option<Message> {
        let properties = properties::with(half.properties(), TRANSACTION_CHECK_TIMES, i64::from(checks));
        Some(Message {
            sys_flag: without_kind(half),
            prepared_transaction_offset: 0,
            properties,
            ..Message::committed(half)?
        })
    }

    pub(super) fn draft<'a>(&'a self, half: &RecordView<'a>, store_host: SocketAddr) -> RecordDraft<'a> {
        RecordDraft {
            topic: &self.topic,
            queue_id: self.queue,
            sys_flag: self.sys_flag,
            store_host,
            prepared_transaction_offset: self.prepared_transaction_offset,
            properties: &self.properties,
            ..RecordDraft::of(half)
        }
    }

    /// A record at the place of its half, as the body of a request.
    pub(super) fn encode(&self, half: &RecordView<'_>) -> Vec<u8> {
        let draft = self.draft(half, half.store_host());
        let mut bytes = vec![0; record::record_bytes(&draft)];
        let placement = Placement {
            queue_offset: half.queue_offset(),
            physical_offset: half.physical_offset(),
            store_timestamp_ms: half.store_timestamp_ms(),
        };
        record::encode(&draft, placement, &mut bytes);
        bytes
    }
}

/// Topic and queue that a half message is meant for.
pub(super) fn target<'a>(half: &RecordView<'a>) -> Option<(&'a str, QueueId)> {
    let queue = half.property(REAL_QUEUE_ID)?.parse().ok()?;
    Some((half.property(REAL_TOPIC)?, QueueId(queue)))
}

/// How long producers are left in peace, if the sender of the half message chose a time. Never shorter than what holds
/// for all.
pub(super) fn chosen_immunity(half: &RecordView<'_>, for_all: Millis) -> Option<Millis> {
    let seconds = half.property(CHECK_IMMUNITY_TIME_SECONDS)?.parse::<u64>().unwrap_or(0);
    Some(Millis(seconds.saturating_mul(1000)).max(for_all))
}

fn without_kind(half: &RecordView<'_>) -> i32 {
    half.sys_flag() & !sys_flag::TRANSACTION_MASK
}

#[cfg(test)]
mod tests {
    use base::PhysicalOffset;

    use super::super::samples::{self, draft, stored};
    use super::*;

    const PROPERTIES: &str = "TAGS\u{1}a\u{2}TRAN_MSG\u{1}true\u{2}REAL_TOPIC\u{1}T\u{2}REAL_QID\u{1}3\u{2}";

    fn half(properties: &str) -> Vec<u8> {
        let sys_flag = sys_flag::COMPRESSED | sys_flag::COMPRESSION_ZSTD;
        stored(&RecordDraft { sys_flag, ..draft("body", properties) })
    }

    #[test]
    fn a_committed_message_is_its_half_at_its_target() {
        let bytes = half(PROPERTIES);
        let half = RecordView::decode(&bytes).expect("a record");
        let message = Message::committed(&half).expect("it says its target");
        let draft = message.draft(&half, "127.0.0.1:9".parse().expect("an address"));
        assert_eq!((draft.topic, draft.queue_id, draft.flag, draft.body), ("T", QueueId(3), 5, &b"body"[..]));
        let half_offset = PhysicalOffset::new(samples::LOG, samples::OFFSET);
        assert_eq!(draft.prepared_transaction_offset, half_offset.0 as i64);
        assert_eq!(draft.properties, PROPERTIES);
        let compression = sys_flag::COMPRESSED | sys_flag::COMPRESSION_ZSTD;
        assert_eq!(draft.sys_flag, compression | sys_flag::TRANSACTION_COMMIT, "compression stays");
        assert_eq!((draft.born_timestamp_ms, draft.born_host.port(), draft.store_host.port()), (11, 7, 9));
    }

    #[test]
    fn a_question_shows_the_message_at_the_place_of_its_half() {
        let bytes = half(PROPERTIES);
        let half = RecordView::decode(&bytes).expect("a record");
        let body = Message::asked(&half, 2).expect("it says its target").encode(&half);
        let asked = RecordView::decode(&body).expect("a record");
        assert_eq!((asked.topic(), asked.queue_id(), asked.transaction_kind()), ("T", QueueId(3), 0));
        assert_eq!((asked.queue_offset(), asked.physical_offset()), (half.queue_offset(), half.physical_offset()));
        assert_eq!((asked.property(TRANSACTION_CHECK_TIMES), asked.property("TAGS")), (Some("2"), Some("a")));
        let copy = Message::given_up(&half, QueueId(0), 15);
        assert_eq!(copy.topic, "TRANS_CHECK_MAX_TIME_TOPIC");
        assert_eq!(properties::get(&copy.properties, TRANSACTION_CHECK_TIMES), Some("15"));
        assert_eq!(properties::get(&copy.properties, REAL_TOPIC), Some("T"));
    }

    #[test]
    fn a_chosen_immunity_only_lengthens() {
        let for_all = Millis(6000);
        for (text, expected) in [("30", 30_000), ("1", 6000), ("-1", 6000), ("x", 6000)] {
            let bytes = half(&properties::with(PROPERTIES, CHECK_IMMUNITY_TIME_SECONDS, text));
            let half = RecordView::decode(&bytes).expect("a record");
            assert_eq!(chosen_immunity(&half, for_all), Some(Millis(expected)), "{text}");
        }
        let bytes = half("REAL_TOPIC\u{1}T\u{2}");
        let half = RecordView::decode(&bytes).expect("a record");
        assert_eq!((chosen_immunity(&half, for_all), target(&half)), (None, None));
    }
}
