//! Finding the bytes of a range: in the tail cache, or in a file.
//!
//! The newest bytes are slices of the memory they were written from. What left the tail cache is read into memory by
//! [`super::load`], or is sent out of the page cache when it lies there in long parts. Records that an
//! earlier process wrote are verified on their way: a record that went bad on disk is passed over like one that is not
//! there, and the records around it stay.

use std::ops::{ControlFlow, Range};
use std::rc::Rc;

use base::{LogOffset, PhysicalOffset, QueueOffset};
use remoting::record;
use runtime::file::FileRange;
use runtime::net::Part;

use super::Log;
use super::append::block_start;
use super::read_cache::Piece;
use super::read_tiers::ReadTier;
use super::segment::Segment;
use crate::error::{IoContext, StorageError};
use crate::queue::{LogRange, QueueRead, QueueRef, ReadLimits};
use crate::recovery::Damage;
use crate::scan::{ScanRange, ScanSegment, Scanned, Seen, scan};

/// Ranges of a read that lie closer together than this are one stretch …
const GAP_BYTES_MAX: u64 = 256 << 10;
/// … of at most so many bytes.
const STRETCH_BYTES_MAX: u64 = 4 << 20;
/// A read of more stretches than this is scattered: its neighbourhood is of no use to the next one.
const SCATTERED_STRETCHES: usize = 4;
/// What lies in the page cache is sent from there when its ranges are this long on average. Shorter ones are quicker out of
/// memory, many in one call.
const SENDFILE_BYTES_MIN: u64 = 64 << 10;
/// Stretches found good that are remembered; beyond it all are forgotten and verified again.
const VERIFIED_MAX: usize = 100_000;
/// Damages kept to be told. More are passed over alike.
const DAMAGES_MAX: usize = 1000;

/// Part of a range that lies in a file, or of neighbouring ranges.
pub(super) struct InFile {
    pub(super) segment: Rc<Segment>,
    pub(super) start: u64,
    pub(super) limit: u64,
    /// The ranges, by their places in the read, and how long they are without the gaps.
    ranges: Range<usize>,
    wanted_bytes: u64,
}

/// What a read needs is at hand.
#[derive(Default)]
struct AtHand {
    slowest: ReadTier,
    /// Of files, in memory. The rest is in the tail cache, or is sent out of the page cache.
    pieces: Vec<Piece>,
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
            let (read, lost) = queue.read_counting(from, limits, &matches).await?;
            let QueueRead::Found(found) = &read else {
                self.counts.borrow_mut().passed_over += lost;
                return Ok((read, Vec::new()));
            };
            let is_gone = || found.ranges.iter().any(|range| range.offset < self.min_offset());
            if is_gone() {
                queue.drop_before(self.min_offset()).await?;
                continue;
            }
            let at_hand = match self.bring(&found.ranges).await {
                Err(error) if !is_gone() => return Err(error),
                outcome => outcome.unwrap_or(None),
            };
            // A segment may have left the log meanwhile.
            if let Some(at_hand) = at_hand
                && !is_gone()
            {
                {
                    let mut counts = self.counts.borrow_mut();
                    counts.read.of(at_hand.slowest).messages += u64::from(found.messages);
                    counts.passed_over += lost;
                }
                let mut parts = Vec::with_capacity(found.ranges.len());
                for range in &found.ranges {
                    self.push_parts(*range, &at_hand.pieces, &mut parts)?;
                }
                return Ok((read, parts));
            }
        }
    }

    /// The bytes of a range of visible records of one segment, in order.
    fn push_parts(&self, range: LogRange, pieces: &[Piece], parts: &mut Vec<Part>) -> Result<(), StorageError> {
        let limit = range.offset.0 + range.bytes;
        let visible = self.dispatched.get();
        assert!(limit <= visible, "a read up to {limit} passes the visible end {visible}");
        let mut memory_start = range.offset.0;
        if let Some(in_file) = self.in_file(range)? {
            let (base, mut at) = (in_file.segment.start, in_file.start);
            while let Some(part) = piece_at(pieces, at).and_then(|piece| piece.part(at, in_file.limit)) {
                at += part.len() as u64;
                parts.push(Part::Slab(part));
            }
            if at < in_file.limit {
                let (start, limit) = (at - base, in_file.limit - base);
                parts.push(Part::File(FileRange { file: in_file.segment.read.clone(), start, limit }));
            }
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
        Ok(Some(InFile { segment, start, limit, ranges: 0..1, wanted_bytes: limit - start }))
    }

    /// Brings what is needed of files into memory. `None`: records among them turned out to be bad and are passed over from
    /// now on, so read the queue again.
    async fn bring(&self, ranges: &[LogRange]) -> Result<Option<AtHand>, StorageError> {
        let (mut at_hand, mut is_good) = (AtHand::default(), true);
        let stretches = self.stretches(ranges)?;
        let is_scattered = stretches.len() > SCATTERED_STRETCHES;
        let mut read = None;
        for stretch in &stretches {
            let known = self.is_known(stretch);
            let tier = if known && self.is_sent_from_file(stretch) {
                ReadTier::Resident
            } else {
                self.load(stretch, is_scattered, &mut read, &mut at_hand.pieces).await?
            };
            self.counts.borrow_mut().read.of(tier).bytes += stretch.wanted_bytes;
            at_hand.slowest = at_hand.slowest.max(tier);
            let is_sound = |range: &LogRange| self.is_sound(*range, &at_hand.pieces);
            if !known && !ranges[stretch.ranges.clone()].iter().all(is_sound) {
                let damages = self.look_for_damage(stretch).await?;
                is_good &= damages.is_empty();
                self.note_damages(damages);
            }
        }
        Ok(is_good.then_some(at_hand))
    }

    /// What lies in files, neighbours taken together: the records between are for others who will read on here.
    fn stretches(&self, ranges: &[LogRange]) -> Result<Vec<InFile>, StorageError> {
        let mut stretches: Vec<InFile> = Vec::new();
        for (place, range) in ranges.iter().enumerate() {
            let Some(in_file) = self.in_file(*range)? else { continue };
            match stretches.last_mut() {
                Some(last)
                    if Rc::ptr_eq(&last.segment, &in_file.segment)
                        && in_file.start - last.limit <= GAP_BYTES_MAX
                        && in_file.limit - last.start <= STRETCH_BYTES_MAX =>
                {
                    last.limit = in_file.limit;
                    last.ranges.end = place + 1;
                    last.wanted_bytes += in_file.wanted_bytes;
                }
                _ => stretches.push(InFile { ranges: place..place + 1, ..in_file }),
            }
        }
        Ok(stretches)
    }

    /// Whether this process wrote a stretch, or has scanned it.
    fn is_known(&self, stretch: &InFile) -> bool {
        let ours = stretch.limit.min(self.opened_end);
        stretch.start >= ours || self.verified.borrow().cover(stretch.start, ours)
    }

    /// Whether a stretch need not pass through our memory: the kernel has it, in long parts.
    fn is_sent_from_file(&self, stretch: &InFile) -> bool {
        let tiers = self.options.tiers;
        if !tiers.cold {
            return true;
        }
        let base = stretch.segment.start;
        tiers.resident
            && stretch.wanted_bytes >= SENDFILE_BYTES_MIN * stretch.ranges.len() as u64
            && !self.read_cache.borrow().holds(stretch.start)
            && stretch.segment.read.is_resident(stretch.start - base, stretch.limit - base)
    }

    /// Whether records that an earlier process wrote are as they were written.
    fn is_sound(&self, range: LogRange, pieces: &[Piece]) -> bool {
        let (mut at, limit) = (range.offset.0, (range.offset.0 + range.bytes).min(self.opened_end));
        let mut joined = Vec::new();
        while at < limit {
            let Some(piece) = piece_at(pieces, at) else { return false };
            let first = piece.part(at, limit).expect("it holds the offset");
            // A record across pieces is looked at beside them.
            let is_whole = |bytes: &[u8]| {
                let verified = record::verify(bytes, PhysicalOffset::new(self.id, LogOffset(at)));
                verified.ok().map(|view| view.total_bytes() as u64)
            };
            let bytes = is_whole(&first).or_else(|| {
                joined.clear();
                let mut end = at;
                while let Some(part) = piece_at(pieces, end).and_then(|piece| piece.part(end, limit)) {
                    joined.extend_from_slice(&part);
                    end += part.len() as u64;
                }
                is_whole(&joined)
            });
            let Some(bytes) = bytes else { return false };
            at += bytes;
        }
        true
    }

    /// Scans a stretch whose records do not verify: which of them are bad, and where the next good one begins.
    async fn look_for_damage(&self, stretch: &InFile) -> Result<Vec<Damage>, StorageError> {
        let segment = ScanSegment::from(&*stretch.segment);
        let (log, start) = (self.id, stretch.start);
        let (wanted, limit) = (stretch.limit, stretch.segment.limit.min(self.opened_end));
        let scanned = runtime::blocking(move || {
            let range = ScanRange { start, limit, durable: limit };
            // A hole is looked at to its end, so that it is one for all who come to it.
            scan(log, std::slice::from_ref(&segment), range, |seen| match seen {
                Seen::Record(_, at) if at.0 >= wanted => Ok(ControlFlow::Break(())),
                _ => Ok(ControlFlow::Continue(())),
            })
        });
        let Scanned { end, damages, .. } = scanned.await?;
        if end > start {
            let mut verified = self.verified.borrow_mut();
            if verified.count() >= VERIFIED_MAX {
                verified.clear();
            }
            // Bad records among them are known by their offsets.
            verified.add(start, end);
        }
        Ok(damages)
    }

    pub(super) fn note_damages(&self, damages: Vec<Damage>) {
        let mut counts = self.counts.borrow_mut();
        for damage in damages {
            assert!(damage.start < damage.limit, "an empty damage at {}", damage.start);
            if !self.extents.add_bad(damage.start.0, damage.limit.0) {
                continue;
            }
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

/// Of pieces in the order of the log, the one that holds a byte.
fn piece_at(pieces: &[Piece], offset: u64) -> Option<&Piece> {
    let behind = pieces.partition_point(|piece| piece.start <= offset);
    pieces[..behind].last().filter(|piece| offset < piece.limit())
}
