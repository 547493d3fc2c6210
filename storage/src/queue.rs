//! The queues of a log: which record is which message.
//!
//! A queue is a list of runs of consecutive offsets. The last run grows as records become visible; older ones are
//! frozen, then stored in a derived extent, then dropped from memory. Where records were lost, offsets are missing
//! between two runs: readers pass over them, and no message ever changes its offset.

mod active_index;
mod chunks;
mod entry;
pub(crate) mod extent;
pub(crate) mod extent_file;
mod read;
mod search_time;
mod span;
pub(crate) mod table;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use base::{LogOffset, QueueId, QueueOffset};

pub(crate) use active_index::{ActiveIndex, IndexBuilder, RunBuilder};
pub(crate) use chunks::Chunks;
pub use entry::{Entry, Indexed, key_hash};
pub(crate) use entry::{KeyEntry, KeyHash};
pub(crate) use extent::{CACHED_ENTRIES_BYTES_MAX, Extent, Extents};
pub use read::{Found, LogRange, QueueRead, ReadLimits};
pub use search_time::Bound;
pub(crate) use span::Span;
pub(crate) use table::QueueTable;

use crate::error::StorageError;

/// A queue of a log, shared by all on its core. Stays valid when its topic is deleted, but is then empty for ever.
pub type QueueRef = Rc<Queue>;

pub struct Queue {
    topic: Arc<str>,
    key_hash: KeyHash,
    id: QueueId,
    /// In the order of their offsets; all in front of `active`.
    runs: RefCell<VecDeque<Run>>,
    active: RefCell<RunBuilder>,
    /// The first offset that may still be read.
    min: Cell<u64>,
    /// The offset of the next record appended.
    next: Cell<u64>,
    deleted: Cell<bool>,
    /// Listed among those that have entries which lie in no extent yet.
    is_growing: Cell<bool>,
    /// Where the extent begins that has its newest entry; `u64::MAX` when there was none since the log was opened.
    newest_extent: Cell<u64>,
    /// The end of the newest extent that has entries of it, while those are in memory too.
    decoded: Cell<u64>,
    extents: Rc<Extents>,
}

/// Consecutive messages that get no more.
struct Run {
    first: u64,
    count: u64,
    /// Where the record of the first lies.
    log_offset_first: LogOffset,
    memory: Option<Arc<Chunks<Entry>>>,
    stored: Option<StoredPlace>,
}

#[derive(Clone)]
struct StoredPlace {
    extent: Rc<Extent>,
    place: u64,
}

impl Queue {
    pub(crate) fn new(topic: Arc<str>, id: QueueId, first: u64, extents: Rc<Extents>) -> Queue {
        Queue {
            key_hash: KeyHash::in_topic(&topic),
            topic,
            id,
            runs: RefCell::new(VecDeque::new()),
            active: RefCell::new(RunBuilder::new(first)),
            min: Cell::new(first),
            next: Cell::new(first),
            deleted: Cell::new(false),
            is_growing: Cell::new(false),
            newest_extent: Cell::new(u64::MAX),
            decoded: Cell::new(0),
            extents,
        }
    }

    /// Asks the processor to bring close what an append will touch.
    pub fn prefetch(&self) {
        runtime::buffer::prefetch(std::slice::from_ref(self));
    }

    /// As [`Queue::prefetch`], for who shows a record soon.
    pub(crate) fn prefetch_newest(&self) {
        runtime::buffer::prefetch(self.active.borrow().entries.last().map_or(&[], std::slice::from_ref));
    }

    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Hashes of keys of its topic.
    pub(crate) fn key_hash(&self) -> KeyHash {
        self.key_hash
    }

    pub(crate) fn topic_shared(&self) -> &Arc<str> {
        &self.topic
    }

    pub fn id(&self) -> QueueId {
        self.id
    }

    /// The first offset that can be read; equal to [`Queue::max`] when there is none.
    pub fn min(&self) -> QueueOffset {
        QueueOffset(self.min.get())
    }

    /// Behind the last visible message.
    pub fn max(&self) -> QueueOffset {
        QueueOffset(self.active.borrow().limit())
    }

    /// The offset that the next appended record gets.
    pub fn next(&self) -> QueueOffset {
        QueueOffset(self.next.get())
    }

    pub fn is_deleted(&self) -> bool {
        self.deleted.get()
    }

    pub(crate) fn advance_next(&self, count: u64) {
        self.next.set(self.next.get() + count);
    }

    pub(crate) fn mark_deleted(&self) {
        self.deleted.set(true);
        self.runs.borrow_mut().clear();
        let next = self.next.get();
        *self.active.borrow_mut() = RunBuilder::new(next);
        self.min.set(next);
    }

    /// A record became visible. Whether the queue is to be listed among those that grow.
    pub(crate) fn push_visible(&self, queue_offset: u64, entry: Entry) -> bool {
        if self.deleted.get() {
            return false;
        }
        let mut active = self.active.borrow_mut();
        let limit = active.limit();
        assert!(queue_offset == limit, "{} {}: entry {queue_offset} follows {limit}", self.topic, self.id);
        if let Some(last) = active.entries.last() {
            assert!(entry.offset > last.offset, "{} {}: {entry:?} lies behind {last:?}", self.topic, self.id);
        }
        active.entries.push(entry);
        !self.is_growing.replace(true)
    }

    /// Its next entries are of the extent that begins there. Whether it has none of it yet.
    pub(crate) fn enters(&self, extent_start: u64) -> bool {
        self.newest_extent.replace(extent_start) != extent_start
    }

    /// Whether it stays listed: it has entries that lie in no extent.
    pub(crate) fn stays_growing(&self) -> bool {
        let unstored = self.runs.borrow().back().is_some_and(|run| run.stored.is_none());
        self.is_growing.set(unstored || !self.active.borrow().entries.is_empty());
        self.is_growing.get()
    }

    /// Adds a recovered run. If its offsets do not follow those before, the older ones are of a former life.
    pub(crate) fn load_run(&self, run: LoadedRun) {
        let mut runs = self.runs.borrow_mut();
        if runs.back().is_some_and(|last| last.first + last.count > run.first) {
            runs.clear();
        }
        let limit = run.first + run.count;
        runs.push_back(Run::from(run));
        self.min.set(runs[0].first);
        self.next.set(limit);
        *self.active.borrow_mut() = RunBuilder::new(limit);
    }

    /// Adds a recovered run that may grow. What grew before it does no more.
    pub(crate) fn load_growing(&self, run: RunBuilder) {
        self.freeze_before(u64::MAX);
        let (first, limit) = (run.first, run.limit());
        let mut runs = self.runs.borrow_mut();
        if runs.back().is_some_and(|last| last.first + last.count > first) {
            runs.clear();
        }
        self.min.set(runs.front().map_or(first, |run| run.first));
        self.next.set(limit);
        *self.active.borrow_mut() = run;
    }

    /// All messages of a queue may be gone, yet its offsets go on where they were.
    pub(crate) fn raise_next(&self, floor: u64) {
        if self.next.get() < floor {
            self.freeze_before(u64::MAX);
            self.next.set(floor);
            let empty = self.runs.borrow().is_empty();
            if empty {
                self.min.set(floor);
            }
            *self.active.borrow_mut() = RunBuilder::new(floor);
        }
    }

    /// Ends the growing run in front of an offset of the log: its entries there are to be stored.
    pub(crate) fn freeze_before(&self, log_limit: u64) {
        let mut active = self.active.borrow_mut();
        let count = active.entries.partition_point(|entry| entry.offset.0 < log_limit);
        if count == 0 {
            return;
        }
        let behind = RunBuilder { first: active.first + count as u64, entries: active.entries.split_off(count) };
        let full = std::mem::replace(&mut *active, behind);
        let entries = Arc::new(full.entries);
        self.runs.borrow_mut().push_back(Run {
            first: full.first,
            count: entries.len() as u64,
            log_offset_first: entries[0].offset,
            memory: Some(entries),
            stored: None,
        });
    }

    /// The frozen runs in front of an offset of the log that lie in no extent yet.
    pub(crate) fn unstored_before(&self, log_limit: u64) -> Vec<(u64, Arc<Chunks<Entry>>)> {
        let runs = self.runs.borrow();
        let newest = runs.iter().rev().take_while(|run| run.stored.is_none());
        let unstored = newest.filter(|run| run.log_offset_first.0 < log_limit);
        let mut unstored: Vec<_> = unstored
            .map(|run| (run.first, run.memory.clone().expect("a run lies in memory or in an extent")))
            .collect();
        unstored.reverse();
        unstored
    }

    /// An extent was made anew: its runs are these now. Records that are damaged meanwhile have left it.
    pub(crate) fn replace_runs(&self, extent: &Rc<Extent>, fresh: Vec<LoadedRun>) {
        if self.deleted.get() {
            return;
        }
        let mut runs = self.runs.borrow_mut();
        let of_extent = |run: &Run| run.stored.as_ref().is_some_and(|stored| Rc::ptr_eq(&stored.extent, extent));
        let at = runs.iter().position(of_extent).unwrap_or(runs.len());
        runs.retain(|run| !of_extent(run));
        for (number, run) in fresh.into_iter().enumerate() {
            runs.insert(at + number, Run::from(run));
        }
        let sorted = runs.iter().zip(runs.iter().skip(1)).all(|(run, next)| run.first + run.count <= next.first);
        assert!(sorted, "{} {}: runs overlap after a repair", self.topic, self.id);
    }

    /// The run that begins at `first` now lies in an extent, or at another place of it.
    pub(crate) fn attach(&self, first: u64, extent: &Rc<Extent>, place: u64) {
        let mut runs = self.runs.borrow_mut();
        let mut newest = runs.iter_mut().rev().take_while(|run| run.first >= first);
        let Some(run) = newest.find(|run| run.first == first) else { return };
        run.stored = Some(StoredPlace { extent: extent.clone(), place });
        self.decoded.set(extent.limit);
    }

    /// Gives up the decoded entries of extents in front of `log_offset`; they are read again when asked for.
    pub(crate) fn shed_memory(&self, log_offset: u64) {
        if self.decoded.get() <= log_offset {
            self.decoded.set(0);
        }
        let mut runs = self.runs.borrow_mut();
        // What is older than a run without memory has none either.
        for run in runs.iter_mut().rev() {
            if run.stored.as_ref().is_some_and(|stored| stored.extent.limit <= log_offset)
                && run.memory.take().is_none()
            {
                return;
            }
        }
    }

    /// Whether [`Queue::shed_memory`] was not called since the last extent in front of `log_offset`.
    pub(crate) fn is_decoded_before(&self, log_offset: u64) -> bool {
        (1..=log_offset).contains(&self.decoded.get())
    }

    /// The log lost everything in front of `log_min`: so does the queue.
    pub(crate) async fn drop_before(&self, log_min: LogOffset) -> Result<(), StorageError> {
        loop {
            let first = {
                let mut runs = self.runs.borrow_mut();
                // A run whose successor begins in front of the limit lies wholly in front of it.
                while runs.len() > 1 && runs[1].log_offset_first <= log_min {
                    runs.pop_front();
                }
                match runs.front() {
                    None => None,
                    Some(run) if run.log_offset_first >= log_min => {
                        self.min.set(run.first.max(self.min.get()));
                        return Ok(());
                    }
                    Some(run) => Some((run.first, run.count)),
                }
            };
            let Some((first, count)) = first else { break };
            let (mut low, mut high) = (first, first + count);
            while low < high {
                let middle = low + (high - low) / 2;
                let in_front = match self.entry(QueueOffset(middle)).await? {
                    Some(entry) => entry.offset < log_min,
                    None => true,
                };
                if in_front {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            let mut runs = self.runs.borrow_mut();
            if low < first + count {
                self.min.set(low.max(self.min.get()));
                return Ok(());
            }
            if runs.front().is_some_and(|run| run.first == first) {
                runs.pop_front();
            }
        }
        let active = self.active.borrow();
        let skip = active.entries.partition_point(|entry| entry.offset < log_min);
        self.min.set((active.first + skip as u64).max(self.min.get()));
        Ok(())
    }

    /// Whether a message of it can still be read.
    pub fn is_empty(&self) -> bool {
        self.min() == self.max()
    }
}

/// A run found by recovery.
pub(crate) struct LoadedRun {
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) log_offset_first: LogOffset,
    pub(crate) memory: Option<Arc<Chunks<Entry>>>,
    pub(crate) extent: Option<(Rc<Extent>, u64)>,
}

impl From<LoadedRun> for Run {
    fn from(run: LoadedRun) -> Run {
        let stored = run.extent.map(|(extent, place)| StoredPlace { extent, place });
        assert!(stored.is_some() || run.memory.is_some(), "a run that lies nowhere");
        let LoadedRun { first, count, log_offset_first, memory, .. } = run;
        Run { first, count, log_offset_first, memory, stored }
    }
}
