//! POP consumption as a client does it: pops, the receipts that their answers are made of, and what is done with them.

use std::collections::BTreeMap;
use std::io;

use crate::frame::{Frame, bad};
use crate::now_ms;
use crate::record::{Record, decode_all};

pub const POP: i32 = 200_050;
pub const ACK: i32 = 200_051;
pub const PEEK: i32 = 200_052;
pub const CHANGE_INVISIBLE: i32 = 200_053;
pub const NOTIFICATION: i32 = 200_054;
pub const BATCH_ACK: i32 = 200_151;
pub const QUERY_ASSIGNMENT: i32 = 400;
pub const SET_REQUEST_MODE: i32 = 401;
pub const CODE_POLLING_TIMEOUT: i32 = 210;

/// A pop of any queue of a topic, from its first message on.
pub fn pop(group: &str, topic: &str, invisible_ms: u64, poll_ms: u64) -> Frame {
    Frame::request(POP)
        .field("consumerGroup", group)
        .field("topic", topic)
        .field("queueId", -1)
        .field("maxMsgNums", 32)
        .field("invisibleTime", invisible_ms)
        .field("pollTime", poll_ms)
        .field("bornTime", now_ms())
        .field("initMode", 0)
        .field("expType", "TAG")
        .field("exp", "*")
        .field("order", false)
}

/// A message with its receipt.
#[derive(Clone, Debug)]
pub struct Popped {
    pub record: Record,
    pub receipt: String,
    /// How often it came before, where it was popped in order.
    pub times: u32,
}

impl Popped {
    /// The messages of an answer; none when it says that there were none.
    ///
    /// # Errors
    /// When the answer is none of a pop, or a message has no receipt.
    pub fn all_of(answer: &Frame) -> io::Result<Vec<Popped>> {
        if answer.code == CODE_POLLING_TIMEOUT {
            return Ok(Vec::new());
        }
        if answer.code != 0 {
            return Err(bad(format!("a pop is answered with {}: {}", answer.code, answer.remark)));
        }
        let starts = entries(answer, "startOffsetInfo")?;
        let offsets = entries(answer, "msgOffsetInfo")?;
        let counts = entries(answer, "orderCountInfo").unwrap_or_default();
        let (pop_time, invisible) = (answer.text("popTime")?, answer.text("invisibleTime")?);
        let revive_queue = answer.text("reviveQid")?;
        let mut all = Vec::new();
        for record in decode_all(&answer.body)? {
            let (queue, offset) = (record.queue_id, record.queue_offset);
            let receipt = match property(&record, "POP_CK") {
                Some(receipt) => receipt.to_owned(),
                None => {
                    let key = ("0".to_owned(), queue.to_string());
                    let start = starts.get(&key).ok_or_else(|| bad(format!("no start of {record:?}")))?;
                    let listed = offsets.get(&key).ok_or_else(|| bad(format!("no offsets of {record:?}")))?;
                    if !listed.split(',').any(|listed| listed == offset.to_string()) {
                        return Err(bad(format!("{offset} is not among {listed}")));
                    }
                    format!("{start} {pop_time} {invisible} {revive_queue} 0 broker {queue} {offset}")
                }
            };
            let counted = counts.get(&("0".to_owned(), format!("qo{queue}%{offset}")));
            let times = counted.and_then(|times| times.parse().ok()).unwrap_or(0);
            all.push(Popped { record, receipt, times });
        }
        Ok(all)
    }

    pub fn body(&self) -> String {
        String::from_utf8_lossy(&self.record.body).into_owned()
    }

    /// The topic that it was popped from.
    fn source(&self, group: &str) -> String {
        match self.receipt.split(' ').nth(4) {
            Some("1") => format!("%RETRY%{group}_{}", self.record.topic),
            Some("2") => format!("%RETRY%{group}+{}", self.record.topic),
            _ => self.record.topic.clone(),
        }
    }

    pub fn ack(&self, group: &str) -> Frame {
        self.about(ACK, group)
    }

    pub fn hold(&self, group: &str, invisible_ms: u64) -> Frame {
        self.about(CHANGE_INVISIBLE, group).field("invisibleTime", invisible_ms)
    }

    /// As it is after [`Popped::hold`] was answered.
    pub fn held(&self, answer: &Frame) -> io::Result<Popped> {
        let mut parts: Vec<&str> = self.receipt.split(' ').collect();
        let offset = self.record.queue_offset.to_string();
        (parts[0], parts[1], parts[2]) = (&offset, answer.text("popTime")?, answer.text("invisibleTime")?);
        Ok(Popped { receipt: parts.join(" "), ..self.clone() })
    }

    fn about(&self, code: i32, group: &str) -> Frame {
        Frame::request(code)
            .field("consumerGroup", group)
            .field("topic", self.source(group))
            .field("queueId", self.record.queue_id)
            .field("extraInfo", &self.receipt)
            .field("offset", self.record.queue_offset)
    }
}

/// A property of a message.
pub fn property<'a>(record: &'a Record, name: &str) -> Option<&'a str> {
    let entries = record.properties.split('\u{2}').filter_map(|entry| entry.split_once('\u{1}'));
    entries.filter(|(found, _)| *found == name).map(|(_, value)| value).next_back()
}

/// Entries `kind name value`, by kind and name.
fn entries(answer: &Frame, name: &str) -> io::Result<BTreeMap<(String, String), String>> {
    let mut all = BTreeMap::new();
    for entry in answer.text(name)?.split(';') {
        let parts: Vec<&str> = entry.split(' ').collect();
        let [kind, key, value] = parts[..] else { return Err(bad(format!("{entry:?} in {name}"))) };
        if all.insert((kind.to_owned(), key.to_owned()), value.to_owned()).is_some() {
            return Err(bad(format!("{kind} {key} twice in {name}: {answer:?}")));
        }
    }
    Ok(all)
}
