//! Popped messages: which of them nobody acknowledged.
//!
//! The other broker commits the offset when it gives messages out. What it gave out it notes in its revive topic, and so it
//! does each acknowledgement; both wait in the timer topic before. A message that was not acknowledged comes again through
//! the retry topic of its group, when its time is over.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::QueueId;
use remoting::body::consume::ConsumerOffsetTable;
use remoting::json;
use remoting::name::REVIVE_TOPIC_PREFIX;
use remoting::properties::TAGS;
use remoting::record::RecordView;
use serde::Deserialize;

/// The group whose offsets say how far a revive topic was looked at.
const REVIVE_GROUP: &str = "CID_RMQ_SYS_REVIVE_GROUP";
const TAG_POPPED: &str = "ck";
const TAG_ACKNOWLEDGED: [&str; 2] = ["ack", "bAck"];

/// Messages that were given out together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Batch {
    #[serde(flatten)]
    of: BatchName,
    #[serde(rename = "it")]
    invisible_ms: u64,
    #[serde(rename = "n")]
    count: u32,
    /// Of each message, behind the first offset; without them they follow each other.
    #[serde(rename = "d")]
    places: Vec<u64>,
    /// Those that were acknowledged, by their numbers.
    #[serde(rename = "bm")]
    bits: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(default)]
struct BatchName {
    #[serde(rename = "t")]
    topic: String,
    #[serde(rename = "c")]
    group: String,
    #[serde(rename = "q")]
    queue: u32,
    #[serde(rename = "so")]
    start: u64,
    #[serde(rename = "pt")]
    pop_ms: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Acknowledged {
    #[serde(flatten)]
    of: BatchName,
    #[serde(rename = "ao")]
    offset: Option<u64>,
    #[serde(rename = "aol")]
    offsets: Vec<u64>,
}

/// A message that was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unacknowledged {
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) queue: QueueId,
    pub(crate) offset: u64,
    pub(crate) pop_ms: u64,
    pub(crate) due_ms: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Popped {
    /// By queue of the revive topic: what lies in front of it is done.
    from: BTreeMap<u32, u64>,
    batches: BTreeMap<BatchName, Batch>,
    acknowledged: HashMap<BatchName, BTreeSet<u64>>,
}

impl Popped {
    pub(crate) fn new(offsets: &ConsumerOffsetTable) -> Popped {
        let mut from = BTreeMap::new();
        for (name, queues) in &offsets.offset_table {
            if name.starts_with(REVIVE_TOPIC_PREFIX) && name.ends_with(&format!("@{REVIVE_GROUP}")) {
                from.extend(queues.iter().map(|(queue, offset)| (*queue as u32, (*offset).max(0) as u64)));
            }
        }
        Popped { from, ..Popped::default() }
    }

    /// A record of a revive topic.
    pub(crate) fn meet(&mut self, view: &RecordView<'_>) {
        let from = self.from.get(&view.queue_id().0).copied().unwrap_or(0);
        if view.queue_offset().0 >= from {
            self.note(view);
        }
    }

    /// A note, which lies in the revive topic or still waits for its time.
    pub(crate) fn note(&mut self, view: &RecordView<'_>) {
        let tag = view.property(TAGS).unwrap_or_default();
        if tag == TAG_POPPED {
            if let Ok(batch) = json::decode::<Batch>(view.body()) {
                self.batches.insert(batch.of.clone(), batch);
            }
        } else if TAG_ACKNOWLEDGED.contains(&tag)
            && let Ok(done) = json::decode::<Acknowledged>(view.body())
        {
            self.acknowledged.entry(done.of).or_default().extend(done.offsets.into_iter().chain(done.offset));
        }
    }

    pub(crate) fn unacknowledged(&self) -> Vec<Unacknowledged> {
        let none = BTreeSet::new();
        let mut all = Vec::new();
        for (name, batch) in &self.batches {
            let done = self.acknowledged.get(name).unwrap_or(&none);
            for (number, offset) in batch.offsets().enumerate() {
                if !done.contains(&offset) && (number >= 31 || batch.bits & 1 << number == 0) {
                    all.push(Unacknowledged {
                        topic: name.topic.clone(),
                        group: name.group.clone(),
                        queue: QueueId(name.queue),
                        offset,
                        pop_ms: name.pop_ms,
                        due_ms: name.pop_ms + batch.invisible_ms,
                    });
                }
            }
        }
        all
    }
}

impl Batch {
    fn offsets(&self) -> impl Iterator<Item = u64> {
        let place = |number: u32| self.places.get(number as usize).copied().unwrap_or(u64::from(number));
        (0..self.count).map(move |number| self.of.start + place(number))
    }
}
