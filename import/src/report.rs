//! What an import did, and what it left out.

use std::collections::BTreeMap;

/// Why a record was not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// Of a topic that is not there any more.
    NoTopic,
    /// Its queue knows nothing of it: of a topic that was deleted and made again.
    NotInQueue,
    /// Records of the broker's own: what was delivered, ended or acknowledged already.
    Done,
    /// A kind of record that belongs to no queue.
    NoQueue,
    /// Batches that cannot be taken apart, since they are compressed as a whole or malformed.
    Batch,
}

impl LeftOut {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            LeftOut::NoTopic => "of topics that do not exist any more",
            LeftOut::NotInQueue => "of queues that do not know them: their topic was deleted and made again",
            LeftOut::Done => {
                "of the broker's own, done with: delayed messages that were delivered, ends of transactions"
            }
            LeftOut::NoQueue => "marked as parts of transactions, in no queue",
            LeftOut::Batch => "batches that cannot be taken apart",
        }
    }
}

/// A part of the source that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub start: u64,
    pub limit: u64,
    pub reason: String,
}

/// A queue that has not as many messages as its consume queue says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub topic: String,
    pub queue: u32,
    pub expected: u64,
    pub taken: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub logs: u16,
    pub segment_bytes: u64,
    pub source_bytes: u64,
    /// Messages that were taken over under their offsets.
    pub records: u64,
    pub queues: u64,
    pub topics: u64,
    pub groups: u64,
    /// Committed offsets: one for each group and queue.
    pub offsets: u64,
    /// Messages with a delay level that wait.
    pub delayed: u64,
    /// Messages with a time that wait.
    pub timed: u64,
    /// Half messages that are pending.
    pub halves: u64,
    /// Messages that were popped and not acknowledged.
    pub popped: u64,
    pub left_out: BTreeMap<LeftOut, u64>,
    pub damages: Vec<Lost>,
    /// Bytes of a torn tail.
    pub cut_bytes: u64,
    pub differences: Vec<Difference>,
    /// Messages that were taken over although their consume queue has lost them.
    pub unknown: u64,
    /// Tables that were damaged: the copy was taken, which may be older.
    pub restored: Vec<String>,
    /// By topic and queue, records that are left out since no consume queue knows anything of the topic.
    pub without_queue: BTreeMap<(String, u32), u64>,
    /// What else is not taken over, in sentences.
    pub notes: Vec<String>,
}

impl Report {
    pub(crate) fn leave_out(&mut self, why: LeftOut) {
        *self.left_out.entry(why).or_default() += 1;
    }

    /// Whether every message that the source's queues know was taken over.
    pub fn is_whole(&self) -> bool {
        self.damages.is_empty()
            && self.differences.is_empty()
            && self.without_queue.is_empty()
            && self.restored.is_empty()
    }
}
