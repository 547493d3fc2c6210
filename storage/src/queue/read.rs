//! Reading messages of a queue by offset: which bytes of the log they are.

use std::rc::Rc;
use std::sync::Arc;

use base::{LogOffset, QueueOffset};

use super::Queue;
use super::chunks::Chunks;
use super::entry::Entry;
use super::extent::{Extent, Extents};
use super::extent_file::CHUNK_COUNT;
use crate::error::StorageError;

/// How much one read may give and look at.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    pub messages_max: u32,
    /// The first message is given even if it is larger.
    pub bytes_max: u64,
    /// Messages looked at, matching or not.
    pub scan_max: u32,
}

/// Bytes of the log: one or more neighbouring records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRange {
    pub offset: LogOffset,
    pub bytes: u64,
}

/// Messages that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// In the order of their offsets; neighbours are merged.
    pub ranges: Vec<LogRange>,
    pub messages: u32,
    pub bytes: u64,
    /// Where to read on: behind the last message looked at.
    pub next: QueueOffset,
    pub store_timestamp_ms_last: u64,
}

/// What a read came to. `min` and `max` are those of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueRead {
    Found(Found),
    /// Nothing matched up to `next`; more may.
    NoMatch {
        next: QueueOffset,
    },
    /// The queue never held a message.
    Empty,
    /// Exactly behind the last message.
    AtEnd {
        max: QueueOffset,
    },
    /// In front of the first message.
    TooSmall {
        min: QueueOffset,
    },
    /// Further behind the last message.
    TooLarge {
        max: QueueOffset,
    },
}

/// Where a message is to be looked for.
enum Located {
    Active,
    Memory { first: u64, entries: Arc<Chunks<Entry>> },
    Stored { first: u64, extent: Rc<Extent>, place: u64, count: u32 },
    Missing { next: u64 },
    End,
}

struct Collector<'a, M> {
    extents: &'a Extents,
    limits: ReadLimits,
    matches: M,
    found: Found,
    scanned: u32,
    /// Passed over, since their records are lost.
    lost: u64,
    full: bool,
}

impl<M: Fn(i64) -> bool> Collector<'_, M> {
    /// Looks at the next message; false when it did not fit any more.
    fn offer(&mut self, queue_offset: u64, entry: &Entry) -> bool {
        let bytes = u64::from(entry.bytes);
        if self.scanned >= self.limits.scan_max {
            self.full = true;
            return false;
        }
        if self.extents.is_bad(entry.offset.0) {
            self.lost += 1;
        } else if (self.matches)(entry.tags_code) {
            let found = &mut self.found;
            let fits = found.messages < self.limits.messages_max && found.bytes + bytes <= self.limits.bytes_max;
            if found.messages > 0 && !fits {
                self.full = true;
                return false;
            }
            match found.ranges.last_mut() {
                Some(last) if last.offset.plus(last.bytes) == entry.offset => last.bytes += bytes,
                _ => found.ranges.push(LogRange { offset: entry.offset, bytes }),
            }
            found.messages += 1;
            found.bytes += bytes;
            found.store_timestamp_ms_last = entry.store_timestamp_ms;
        }
        self.scanned += 1;
        self.found.next = QueueOffset(queue_offset + 1);
        true
    }

    /// The offset behind those taken from `entries`, whose first has the offset `at`.
    fn offer_all(&mut self, at: u64, entries: &[Entry]) -> u64 {
        let taken = (at..).zip(entries).take_while(|(at, entry)| self.offer(*at, entry)).count();
        at + taken as u64
    }
}

impl Queue {
    /// Reads visible messages from `from` on, of which those count whose tags code `matches`.
    ///
    /// Does not suspend while all it needs is in memory.
    pub async fn read(
        &self,
        from: QueueOffset,
        limits: ReadLimits,
        matches: impl Fn(i64) -> bool,
    ) -> Result<QueueRead, StorageError> {
        self.read_counting(from, limits, matches).await.map(|(read, _)| read)
    }

    /// As [`Queue::read`], and how many messages were passed over since their records are lost.
    pub(crate) async fn read_counting(
        &self,
        from: QueueOffset,
        limits: ReadLimits,
        matches: impl Fn(i64) -> bool,
    ) -> Result<(QueueRead, u64), StorageError> {
        let (min, max) = (self.min(), self.max());
        if max.0 == 0 {
            return Ok((QueueRead::Empty, 0));
        }
        if from < min {
            return Ok((QueueRead::TooSmall { min }, 0));
        }
        if from == max {
            return Ok((QueueRead::AtEnd { max }, 0));
        }
        if from > max {
            return Ok((QueueRead::TooLarge { max }, 0));
        }
        let found = Found { next: from, ..Found::default() };
        let mut collector =
            Collector { extents: &self.extents, limits, matches, found, scanned: 0, lost: 0, full: false };
        let mut at = from.0;
        while !collector.full {
            match self.locate(at) {
                Located::End => break,
                Located::Missing { next } => {
                    collector.lost += next - at;
                    at = next;
                    collector.found.next = QueueOffset(next);
                }
                Located::Active => {
                    let active = self.active.borrow();
                    at = collector.offer_all(at, active.entries.piece_from((at - active.first) as usize));
                }
                Located::Memory { first, entries } => {
                    at = collector.offer_all(at, entries.piece_from((at - first) as usize));
                }
                Located::Stored { first, extent, place, count } => {
                    let chunk = (at - first) / CHUNK_COUNT;
                    if let Some(entries) = self.chunk(&extent, (place, count), chunk).await? {
                        at = collector.offer_all(at, &entries[((at - first) % CHUNK_COUNT) as usize..]);
                    }
                }
            }
        }
        let Collector { found, lost, .. } = collector;
        let read = if found.messages > 0 { QueueRead::Found(found) } else { QueueRead::NoMatch { next: found.next } };
        Ok((read, lost))
    }

    /// The entry of one message, `None` where there is none.
    pub async fn entry(&self, at: QueueOffset) -> Result<Option<Entry>, StorageError> {
        let found = self.entry_from(at).await?;
        Ok(found.and_then(|(queue_offset, entry)| (queue_offset == at).then_some(entry)))
    }

    /// Visible messages from `from` on: some of those that lie together, none where the queue ends. The next call begins
    /// behind the last of them.
    pub async fn entries(&self, from: QueueOffset) -> Result<Vec<(QueueOffset, Entry)>, StorageError> {
        let numbered =
            |first: u64, entries: &[Entry]| (first..).map(QueueOffset).zip(entries.iter().copied()).collect::<Vec<_>>();
        let mut at = from.0;
        loop {
            match self.locate(at) {
                Located::End => return Ok(Vec::new()),
                Located::Missing { next } => at = next,
                Located::Active => {
                    let active = self.active.borrow();
                    return Ok(numbered(at, active.entries.piece_from((at - active.first) as usize)));
                }
                Located::Memory { first, entries } => {
                    return Ok(numbered(at, entries.piece_from((at - first) as usize)));
                }
                Located::Stored { first, extent, place, count } => {
                    let chunk = (at - first) / CHUNK_COUNT;
                    if let Some(entries) = self.chunk(&extent, (place, count), chunk).await? {
                        return Ok(numbered(at, &entries[((at - first) % CHUNK_COUNT) as usize..]));
                    }
                }
            }
        }
    }

    /// The first message at or behind an offset.
    pub(super) async fn entry_from(&self, at: QueueOffset) -> Result<Option<(QueueOffset, Entry)>, StorageError> {
        let mut at = at.0;
        loop {
            let found = match self.locate(at) {
                Located::End => return Ok(None),
                Located::Missing { next } => {
                    at = next;
                    continue;
                }
                Located::Active => {
                    let active = self.active.borrow();
                    active.entries[(at - active.first) as usize]
                }
                Located::Memory { first, entries } => entries[(at - first) as usize],
                Located::Stored { first, extent, place, count } => {
                    let chunk = (at - first) / CHUNK_COUNT;
                    let Some(entries) = self.chunk(&extent, (place, count), chunk).await? else { continue };
                    entries[((at - first) % CHUNK_COUNT) as usize]
                }
            };
            return Ok(Some((QueueOffset(at), found)));
        }
    }

    /// Store time of the first message that can be read.
    pub async fn store_timestamp_ms_first(&self) -> Result<Option<u64>, StorageError> {
        Ok(self.entry_from(self.min()).await?.map(|(_, entry)| entry.store_timestamp_ms))
    }

    async fn chunk(
        &self,
        extent: &Rc<Extent>,
        run: (u64, u32),
        chunk: u64,
    ) -> Result<Option<Arc<Vec<Entry>>>, StorageError> {
        match self.extents.cached(extent, run.0, chunk) {
            Some(entries) => Ok(Some(entries)),
            None => self.extents.load(extent, run, chunk).await,
        }
    }

    fn locate(&self, at: u64) -> Located {
        let active = self.active.borrow();
        if at >= active.first {
            return if at < active.limit() { Located::Active } else { Located::End };
        }
        let runs = self.runs.borrow();
        let behind = runs.partition_point(|run| run.first <= at);
        if let Some(run) = behind.checked_sub(1).map(|index| &runs[index])
            && at < run.first + run.count
        {
            return match (&run.memory, &run.stored) {
                (Some(entries), _) => Located::Memory { first: run.first, entries: entries.clone() },
                (None, Some(stored)) => Located::Stored {
                    first: run.first,
                    extent: stored.extent.clone(),
                    place: stored.place,
                    count: run.count as u32,
                },
                (None, None) => unreachable!("a run lies in memory or in an extent"),
            };
        }
        Located::Missing { next: runs.get(behind).map_or(active.first, |run| run.first) }
    }
}
