//! Receipts of popped messages, made of the answer to a pop as official clients make them. Pure.
//!
//! A receipt is a text of eight parts: `startOffset popTime invisibleTime reviveQueue kind broker queue offset`. The answer's
//! header tells the start of each queue and lists its offsets; a message that comes again brings its receipt with it.

use bytes::BytesMut;
use remoting::command::Command;
use remoting::frame::LENGTH_BYTES;
use remoting::header::pop::PopMessageResponse;
use remoting::name::{pop_retry_topic, pop_retry_topic_new};
use remoting::properties::POP_CHECKPOINT;
use remoting::record::RecordView;

/// Kinds of topics that receipts name: the topic itself, and those by which its messages come again.
const KIND_NORMAL: &str = "0";
const KIND_RETRY: &str = "1";
const KIND_RETRY_NEW: &str = "2";

/// What a message is acknowledged by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Receipt {
    pub(super) text: String,
    /// The topic that it was popped from, if it came again.
    pub(super) retry_topic: Option<String>,
    pub(super) queue_id: i32,
    pub(super) offset: i64,
}

/// A queue that an answer has messages of.
#[derive(Debug)]
struct Part {
    queue_id: i64,
    start: i64,
    /// In the order in which the messages come.
    offsets: Vec<i64>,
    /// Of these, how many came.
    taken: usize,
}

/// What an answer to a pop tells of its messages.
#[derive(Debug)]
pub(super) struct Receipts {
    header: PopMessageResponse,
    parts: Vec<Part>,
}

impl Receipts {
    /// Of the frame's part before its body; `None` when it cannot be read.
    pub(super) fn of(head: &[u8]) -> Option<Receipts> {
        let command = Command::decode(BytesMut::from(head.get(LENGTH_BYTES..)?)).ok()?;
        let header = PopMessageResponse::decode(&command.fields).ok()?;
        let mut parts = Vec::new();
        for (queue_id, start) in entries(header.start_offset_info.as_deref()) {
            let mut listed = entries(header.message_offset_info.as_deref());
            let (_, offsets) = listed.find(|(other, _)| *other == queue_id)?;
            let offsets = offsets.split(',').map(|offset| offset.parse().ok()).collect::<Option<_>>()?;
            parts.push(Part { queue_id, start: start.parse().ok()?, offsets, taken: 0 });
        }
        Some(Receipts { header, parts })
    }

    /// Of the next message; `None` when the answer has none for it.
    pub(super) fn next(&mut self, record: &RecordView<'_>, group: &str, broker: &str) -> Option<Receipt> {
        if let Some(text) = record.property(POP_CHECKPOINT) {
            return came_again(text, group, record.topic());
        }
        let (queue_id, offset) = (record.queue_id().0 as i32, record.queue_offset().0 as i64);
        let start = if self.header.start_offset_info.is_none() {
            // As old brokers tell: each message begins its own batch.
            offset
        } else {
            let part = self.parts.iter_mut().find(|part| part.queue_id == i64::from(queue_id))?;
            let listed = part.offsets.get(part.taken)?;
            part.taken += 1;
            if *listed != offset {
                return None;
            }
            part.start
        };
        let PopMessageResponse { pop_time_ms, invisible_time_ms, revive_queue_id, .. } = &self.header;
        let text = format!(
            "{start} {pop_time_ms} {invisible_time_ms} {revive_queue_id} {KIND_NORMAL} {broker} {queue_id} {offset}"
        );
        Some(Receipt { text, retry_topic: None, queue_id, offset })
    }
}

/// Queues and values of `kind queue value;…`, of the topic itself. What comes again has receipts of its own.
fn entries(text: Option<&str>) -> impl Iterator<Item = (i64, &str)> {
    text.into_iter().flat_map(|text| text.split(';')).filter_map(|entry| {
        let mut parts = entry.split(' ');
        let (kind, queue, value) = (parts.next()?, parts.next()?, parts.next()?);
        (kind == KIND_NORMAL).then_some((queue.parse().ok()?, value))
    })
}

fn came_again(text: &str, group: &str, topic: &str) -> Option<Receipt> {
    let parts: Vec<&str> = text.split(' ').collect();
    let [_, _, _, _, kind, _, queue, offset, ..] = parts[..] else { return None };
    let retry_topic = match kind {
        KIND_RETRY => Some(pop_retry_topic(group, topic)),
        KIND_RETRY_NEW => Some(pop_retry_topic_new(group, topic)),
        _ => None,
    };
    Some(Receipt { text: text.to_owned(), retry_topic, queue_id: queue.parse().ok()?, offset: offset.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use base::{LogId, LogOffset, PhysicalOffset, QueueId, QueueOffset};
    use remoting::record::{Placement, RecordDraft, Records, encode, record_bytes};
    use remoting::text::Text;

    fn host() -> SocketAddr {
        "127.0.0.1:1".parse().expect("an address")
    }

    /// Records of these queues and offsets.
    fn body(messages: &[(u32, u64)], properties: &str) -> Vec<u8> {
        let mut all = Vec::new();
        for (queue, offset) in messages {
            let draft = RecordDraft {
                topic: "T",
                queue_id: QueueId(*queue),
                flag: 0,
                sys_flag: 0,
                born_timestamp_ms: 0,
                born_host: host(),
                store_host: host(),
                reconsume_times: 0,
                prepared_transaction_offset: 0,
                body: b"body",
                properties,
            };
            let at = all.len();
            all.resize(at + record_bytes(&draft), 0);
            let placement = Placement {
                queue_offset: QueueOffset(*offset),
                physical_offset: PhysicalOffset::new(LogId(0), LogOffset(0)),
                store_timestamp_ms: 0,
            };
            encode(&draft, placement, &mut all[at..]);
        }
        all
    }

    fn receipts(starts: Option<&'static str>, offsets: Option<&'static str>) -> Option<Receipts> {
        let header = PopMessageResponse {
            pop_time_ms: 1000,
            invisible_time_ms: 60_000,
            revive_queue_id: 3,
            rest_count: 0,
            start_offset_info: starts.map(Text::from_static),
            message_offset_info: offsets.map(Text::from_static),
            order_count_info: None,
        };
        let mut frame = BytesMut::new();
        Command::reply(7, 0).with_fields(header.to_fields()).encode(&mut frame);
        Receipts::of(&frame)
    }

    fn texts(receipts: &mut Receipts, body: &[u8]) -> Vec<Option<String>> {
        let records = Records::new(body).map(|record| record.expect("a record"));
        records.map(|record| receipts.next(&record, "g", "b").map(|receipt| receipt.text)).collect()
    }

    #[test]
    fn each_message_has_the_start_of_its_queue() {
        let mut told = receipts(Some("0 2 5;1 2 70;0 0 9"), Some("0 2 5,7;1 2 70;0 0 9")).expect("it can be read");
        let made = texts(&mut told, &body(&[(2, 5), (0, 9), (2, 7)], ""));
        let expected = ["5 1000 60000 3 0 b 2 5", "9 1000 60000 3 0 b 0 9", "5 1000 60000 3 0 b 2 7"];
        assert_eq!(made, expected.map(|text| Some(text.to_owned())));
    }

    #[test]
    fn what_is_not_listed_has_none() {
        for (messages, expected) in
            [(&[(2, 6)][..], &[false][..]), (&[(2, 5), (2, 7), (2, 8)], &[true, true, false]), (&[(1, 5)], &[false])]
        {
            let mut told = receipts(Some("0 2 5"), Some("0 2 5,7")).expect("it can be read");
            let made: Vec<bool> = texts(&mut told, &body(messages, "")).iter().map(Option::is_some).collect();
            assert_eq!(made, expected, "{messages:?}");
        }
        assert!(receipts(Some("0 2 5"), Some("0 1 5")).is_none(), "a queue without offsets");
        assert!(receipts(Some("0 2 x"), Some("0 2 5")).is_none());
        assert!(Receipts::of(b"\0\0").is_none());
        // Old brokers tell nothing.
        let made = texts(&mut receipts(None, None).expect("it can be read"), &body(&[(2, 6)], ""));
        assert_eq!(made, [Some("6 1000 60000 3 0 b 2 6".to_owned())]);
    }

    #[test]
    fn what_comes_again_brings_its_own() {
        for (kind, topic) in [("0", None), ("1", Some("%RETRY%g_T")), ("2", Some("%RETRY%g+T"))] {
            let text = format!("4 1 2 0 {kind} b 0 17");
            let body = body(&[(0, 17)], &format!("POP_CK\u{1}{text}\u{2}"));
            let record = Records::new(&body).next().expect("one").expect("a record");
            let mut told = receipts(Some("1 0 4"), Some("1 0 17")).expect("it can be read");
            let receipt = told.next(&record, "g", "b").expect("it has one");
            let expected = Receipt { text, retry_topic: topic.map(str::to_owned), queue_id: 0, offset: 17 };
            assert_eq!(receipt, expected);
        }
        assert_eq!(came_again("4 1 2 0 1", "g", "T"), None);
    }
}
