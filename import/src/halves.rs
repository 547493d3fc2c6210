//! Half messages: which of them are pending.
//!
//! Ends are told by records of the op topic, which name offsets of the half queue and may come some seconds late. A
//! committed message names its half as well. Before a half is checked it is stored again; of its copies the last counts.

use std::collections::{BTreeMap, HashMap};

use base::stable_hash;
use remoting::body::consume::ConsumerOffsetTable;
use remoting::name::HALF_TOPIC;
use remoting::properties::{TAGS, UNIQUE_KEY};
use remoting::record::RecordView;

/// The group whose offset says how far halves were looked at.
const CHECK_GROUP: &str = "CID_RMQ_SYS_TRANS";
const TAG_ENDED: &str = "d";

#[derive(Debug, Default)]
pub(crate) struct Halves {
    /// What lies in front of it is ended.
    from: u64,
    /// Offset in the half queue and place.
    pending: BTreeMap<u64, u64>,
    /// Offset in the half queue by place.
    by_place: HashMap<u64, u64>,
    /// The last copy of each message.
    last: HashMap<u64, u64>,
}

impl Halves {
    pub(crate) fn new(offsets: &ConsumerOffsetTable) -> Halves {
        let key = format!("{HALF_TOPIC}@{CHECK_GROUP}");
        let queues = offsets.offset_table.get(key.as_str());
        let from = queues.and_then(|queues| queues.get(&0)).copied().unwrap_or(0);
        Halves { from: from.max(0) as u64, ..Halves::default() }
    }

    /// A record of the half topic.
    pub(crate) fn meet(&mut self, view: &RecordView<'_>, at: u64) {
        let offset = view.queue_offset().0;
        if offset < self.from {
            return;
        }
        if let Some(key) = view.property(UNIQUE_KEY)
            && let Some(earlier) = self.last.insert(stable_hash(key), offset)
        {
            self.end(earlier);
        }
        self.pending.insert(offset, at);
        self.by_place.insert(at, offset);
    }

    /// A record of the op topic.
    pub(crate) fn meet_end(&mut self, view: &RecordView<'_>) {
        if view.property(TAGS) != Some(TAG_ENDED) {
            return;
        }
        let body = std::str::from_utf8(view.body()).unwrap_or_default();
        body.split(',').filter_map(|offset| offset.trim().parse().ok()).for_each(|offset| self.end(offset));
    }

    /// A message that was committed.
    pub(crate) fn meet_committed(&mut self, view: &RecordView<'_>) {
        let half = u64::try_from(view.prepared_transaction_offset()).ok().and_then(|at| self.by_place.get(&at));
        if let Some(offset) = half.copied() {
            self.end(offset);
        }
    }

    /// The places of those that are pending, oldest first.
    pub(crate) fn pending(&self) -> Vec<u64> {
        self.pending.values().copied().collect()
    }

    fn end(&mut self, offset: u64) {
        if let Some(at) = self.pending.remove(&offset) {
            self.by_place.remove(&at);
        }
    }
}
