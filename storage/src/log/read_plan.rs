//! Finding the bytes of a range: in the tail cache, or in a file.
//!
//! The newest bytes are slices of the memory they were written from. What left the cache becomes a range of a file;
//! before it is sent it is brought into the page cache off the core, so that sending never waits for a disk. Records
//! that an earlier process wrote are verified when they are read for the first time: a record that went bad on disk
//! is passed over like one that is not there, and the records around it stay.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use base::{LogOffset, QueueOffset};
use runtime::file::FileRange;
use runtime::net::Part;

use super::Log;
use super::append::block_start;
use super::read_tiers::ReadTier;
use super::segment::Segment;
use crate::error::{IoContext, StorageError};
use crate::queue::{LogRange, QueueRead, QueueRef, ReadLimits};
use crate::recovery::Damage;
use crate::scan::{ScanRange, ScanSegment, scan};

/// Bytes brought into the page cache behind a cold range: the next read will want them.
const READ_AHEAD_BYTES: u64 = 1 << 20;
/// Ranges of a read that lie closer together than this are brought in by one call …
const GAP_BYTES_MAX: u64 = 256 << 10;
/// … of at most so many bytes.
const STRETCH_BYTES_MAX: u64 = 4 << 20;
/// Separate verified stretches remembered; beyond it all are forgotten and verified again.
const VERIFIED_MAX: usize = 100_000;
/// Damages kept to be told. More are passed over alike.
const DAMAGES_MAX: usize = 1000;

/// Stretches of the log whose records were found good since it was opened.
#[derive(Debug, Default)]
pub(super) struct Verified {
    by_start: BTreeMap<u64, u64>,
}

impl Verified {
    fn contains(&self, start: u64, limit: u64) -> bool {
        self.by_start.range(..=start).next_back().is_some_and(|(_, known)| limit <= *known)
    }

    fn add(&mut self, start: u64, limit: u64) {
        if self.by_start.len() >= VERIFIED_MAX {
            self.by_start.clear();
        }
        let (mut start, mut limit) = (start, limit);
        if let Some((&before, &known)) = self.by_start.range(..=start).next_back()
            && known >= start
        {
            start = before;
            limit = limit.max(known);
        }
        while let Some((&next, &known)) = self.by_start.range(start..).next()
            && next <= limit
        {
            limit = limit.max(known);
            self.by_start.remove(&next);
        }
        self.by_start.insert(start, limit);
    }

    /// The log lost everything in front of an offset.
    pub(super) fn forget_before(&mut self, offset: u64) {
        self.by_start.retain(|_, limit| *limit > offset);
    }
}

/// Part of a range that lies in a file.
struct InFile {
    segment: Rc<Segment>,
    start: u64,
    limit: u64,
}

impl Log {
    /// Reads messages of a queue and finds their bytes, ready to be sent. See [`crate::Queue::read`].
    ///
    /// Does not suspend while everything is in memory.
    pub async fn pull(
        &self,
        queue: &QueueRef,
        from: QueueOffset,
        limits: ReadLimits,
        matches: impl Fn(i64) -> bool,
    ) -> Result<(QueueRead, Vec<Part>), StorageError> {
        loop {
            let read = queue.read(from, limits, &matches).await?;
            let QueueRead::Found(found) = &read else { return Ok((read, Vec::new())) };
            let is_gone = || found.ranges.iter().any(|range| range.offset < self.min_offset());
            if is_gone() {
                queue.drop_before(self.min_offset()).await?;
                continue;
            }
            let tier = match self.make_resident(&found.ranges).await {
                Err(error) if !is_gone() => return Err(error),
                outcome => outcome.unwrap_or(None),
            };
            // A segment may have left the log meanwhile.
            if let Some(tier) = tier
                && !is_gone()
            {
                self.counts.borrow_mut().read.of(tier).messages += u64::from(found.messages);
                let mut parts = Vec::with_capacity(found.ranges.len());
                for range in &found.ranges {
                    self.push_parts(*range, &mut parts)?;
                }
                return Ok((read, parts));
            }
        }
    }

    /// The bytes of a range of visible records of one segment, in order.
    pub fn read(&self, range: LogRange) -> Result<Vec<Part>, StorageError> {
        let mut parts = Vec::with_capacity(2);
        self.push_parts(range, &mut parts)?;
        Ok(parts)
    }

    fn push_parts(&self, range: LogRange, parts: &mut Vec<Part>) -> Result<(), StorageError> {
        let limit = range.offset.0 + range.bytes;
        let visible = self.dispatched.get();
        assert!(limit <= visible, "a read up to {limit} passes the visible end {visible}");
        let mut memory_start = range.offset.0;
        if let Some(in_file) = self.in_file(range)? {
            let base = in_file.segment.start;
            let (start, limit) = (in_file.start - base, in_file.limit - base);
            parts.push(Part::File(FileRange { file: in_file.segment.read.clone(), start, limit }));
            memory_start = in_file.limit;
        }
        if memory_start < limit {
            let slices = self.tail.borrow().slices(memory_start, limit);
            parts.extend(slices.into_iter().map(Part::Slab));
            self.counts.borrow_mut().read.tail_cache.bytes += limit - memory_start;
        }
        Ok(())
    }

    /// The front part of a range that is no longer in the tail cache.
    fn in_file(&self, range: LogRange) -> Result<Option<InFile>, StorageError> {
        let (start, limit) = (range.offset.0, range.offset.0 + range.bytes);
        // The front of the tail cache was read back at open, unverified: it is taken from the file like all before it.
        let ours = if start < self.opened_end { self.opened_end } else { 0 };
        let mut memory_start = self.tail.borrow().oldest().max(ours);
        if !self.options.tiers.tail_cache {
            memory_start = memory_start.max(block_start(self.marks.written()));
        }
        if start >= memory_start {
            return Ok(None);
        }
        let limit = limit.min(memory_start);
        let written = self.marks.written();
        assert!(limit <= written, "{start}..{limit} left the cache before it was written up to {written}");
        let Some(segment) = self.segments.borrow().containing(start) else {
            let what = "no segment holds this offset".to_owned();
            return Err(StorageError::Damaged { file: self.folders.commit_log.clone(), offset: Some(start), what });
        };
        assert!(limit <= segment.limit, "{start}..{limit} crosses the segment that ends at {}", segment.limit);
        Ok(Some(InFile { segment, start, limit }))
    }

    /// Brings ranges into the page cache, off the core, where they are not in memory yet. Gives the slowest tier that was
    /// needed. `None`: records among them turned out to be bad and are passed over from now on, so read the queue again.
    async fn make_resident(&self, ranges: &[LogRange]) -> Result<Option<ReadTier>, StorageError> {
        let (mut slowest, mut is_good) = (ReadTier::TailCache, true);
        let tiers = self.options.tiers;
        for stretch in self.stretches(ranges)? {
            let (start, limit, base) = (stretch.start, stretch.limit, stretch.segment.start);
            let ours = limit.min(self.opened_end);
            let known = start >= ours || self.verified.borrow().contains(start, ours);
            let is_resident = || stretch.segment.read.is_resident(start - base, limit - base);
            let tier = if known && (!tiers.cold || tiers.resident && is_resident()) {
                ReadTier::Resident
            } else {
                ReadTier::Cold
            };
            self.counts.borrow_mut().read.of(tier).bytes += limit - start;
            slowest = slowest.max(tier);
            if tier == ReadTier::Cold {
                self.counts.borrow_mut().cold_loads += 1;
                let damages = self.load(&stretch, known).await?;
                is_good &= damages.is_empty();
                self.note_damages(damages);
            }
        }
        Ok(is_good.then_some(slowest))
    }

    /// What lies in files, neighbours taken together: the records between are for others who will read on here.
    fn stretches(&self, ranges: &[LogRange]) -> Result<Vec<InFile>, StorageError> {
        let mut stretches: Vec<InFile> = Vec::new();
        for range in ranges {
            let Some(in_file) = self.in_file(*range)? else { continue };
            match stretches.last_mut() {
                Some(last)
                    if Rc::ptr_eq(&last.segment, &in_file.segment)
                        && in_file.start - last.limit <= GAP_BYTES_MAX
                        && in_file.limit - last.start <= STRETCH_BYTES_MAX =>
                {
                    last.limit = in_file.limit;
                }
                _ => stretches.push(in_file),
            }
        }
        Ok(stretches)
    }

    /// Reads a stretch and some of what follows it, and verifies the records that an earlier process wrote.
    async fn load(&self, stretch: &InFile, known: bool) -> Result<Vec<Damage>, StorageError> {
        let segment = ScanSegment::from(&*stretch.segment);
        let (log, start, limit) = (self.id, stretch.start, stretch.limit);
        let readable = block_start(self.marks.written()).min(segment.limit);
        let ahead = (limit + READ_AHEAD_BYTES).min(readable).max(limit);
        let opened_end = self.opened_end;
        let _load = self.cold_share.begin(ahead - start, self.marks.appended()).await;
        let (verified_limit, damages) = runtime::blocking(move || -> Result<_, StorageError> {
            let (mut verified_limit, mut damages) = (start, Vec::new());
            if !known {
                let range = ScanRange { start, limit: ahead.min(opened_end), durable: limit.min(opened_end) };
                let scanned = scan(log, std::slice::from_ref(&segment), range, |_| Ok(ControlFlow::Continue(())))?;
                (verified_limit, damages) = (scanned.end, scanned.damages);
            }
            if verified_limit < ahead {
                let (from, to) = (verified_limit - segment.start, ahead - segment.start);
                segment.file.load(from, to).context("read", &segment.path)?;
            }
            Ok((verified_limit, damages))
        })
        .await?;
        if verified_limit > start {
            // Bad records among them are known by their offsets.
            self.verified.borrow_mut().add(start, verified_limit);
        }
        Ok(damages)
    }

    pub(super) fn note_damages(&self, damages: Vec<Damage>) {
        let mut counts = self.counts.borrow_mut();
        for damage in damages {
            assert!(damage.start < damage.limit, "an empty damage at {}", damage.start);
            self.extents.add_bad(damage.start.0, damage.limit.0);
            if counts.damages.len() < DAMAGES_MAX {
                if let Some(damaged) = &self.options.damaged {
                    damaged(self.id, &damage);
                }
                counts.damages.push(damage);
            }
        }
    }

    /// Copies bytes of the visible log, of one segment.
    pub(super) async fn copy(&self, offset: LogOffset, bytes: u64) -> Result<Vec<u8>, StorageError> {
        let range = LogRange { offset, bytes };
        let mut content = Vec::with_capacity(bytes as usize);
        if let Some(in_file) = self.in_file(range)? {
            // Memory first: it may leave the cache while the file is read.
            let limit = offset.0 + bytes;
            let in_memory = in_file.limit < limit;
            let behind = if in_memory { self.tail.borrow().slices(in_file.limit, limit) } else { Vec::new() };
            let segment = ScanSegment::from(&*in_file.segment);
            let (start, wanted) = (in_file.start - segment.start, (in_file.limit - in_file.start) as usize);
            let read = runtime::blocking(move || {
                let mut front = vec![0; wanted];
                segment.file.read_exact_at(&mut front, start).context("read", &segment.path).map(|()| front)
            });
            content.extend_from_slice(&read.await?);
            behind.iter().for_each(|slice| content.extend_from_slice(slice));
            return Ok(content);
        }
        for slice in self.tail.borrow().slices(offset.0, offset.0 + bytes) {
            content.extend_from_slice(&slice);
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verified_stretches_grow_together() {
        let mut verified = Verified::default();
        for (start, limit) in [(10, 20), (30, 40), (20, 30), (50, 60), (5, 8), (7, 55)] {
            verified.add(start, limit);
            assert!(verified.contains(start, limit));
        }
        assert_eq!(verified.by_start.into_iter().collect::<Vec<_>>(), [(5, 60)]);
        let mut verified = Verified::default();
        verified.add(10, 20);
        for (start, limit, known) in [(10, 20, true), (12, 13, true), (9, 12, false), (15, 21, false), (20, 21, false)]
        {
            assert_eq!(verified.contains(start, limit), known, "{start}..{limit}");
        }
    }
}
