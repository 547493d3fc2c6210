//! Reading pieces of segments into memory: those that a read wants, and the next ones of who reads on.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use runtime::buffer::{BLOCK_BYTES, SlabWriter};

use super::Log;
use super::append::block_start;
use super::cold_share::ColdRead;
use super::read_cache::{PIECE_BYTES, Piece};
use super::read_plan::InFile;
use super::read_tiers::ReadTier;
use super::segment::Segment;
use crate::error::{IoContext, StorageError};

/// Pieces to be read ahead that wait for it. With more, the oldest are not.
const AHEAD_MAX: usize = 8;
/// Memory that nothing was loaded into for so long, and up to twice as long, goes back to the system.
const IDLE: Duration = Duration::from_secs(60);

/// Pieces on their way.
#[derive(Debug, Default)]
pub(super) struct Loading {
    /// The starts of those that are being read.
    begun: BTreeSet<u64>,
    /// Where a reader is about to go on.
    ahead: VecDeque<u64>,
}

/// The range of a segment that a load reads: whole blocks, of which the end may not count yet.
#[derive(Clone, Copy)]
struct Extract {
    start: u64,
    limit: u64,
}

impl Extract {
    fn bytes(self) -> usize {
        (self.limit - self.start) as usize
    }

    fn block_bytes(self) -> usize {
        self.bytes().next_multiple_of(BLOCK_BYTES)
    }
}

impl Log {
    /// Adds the pieces that hold a stretch, in the order of the log. Gives the slowest tier that was needed. `read` is the
    /// place among those who load, once it was needed.
    pub(super) async fn load<'a>(
        &'a self,
        stretch: &InFile,
        is_scattered: bool,
        read: &mut Option<ColdRead<'a>>,
        pieces: &mut Vec<Piece>,
    ) -> Result<ReadTier, StorageError> {
        let (mut at, mut slowest) = (stretch.start, ReadTier::ReadCache);
        while at < stretch.limit {
            let (piece, tier) = if is_scattered {
                self.load_blocks(&stretch.segment, at, stretch.limit, read).await?
            } else {
                self.load_piece(&stretch.segment, at, stretch.limit, read).await?
            };
            slowest = slowest.max(tier);
            at = piece.limit();
            pieces.push(piece);
        }
        if !is_scattered {
            self.ask_ahead(stretch);
        }
        Ok(slowest)
    }

    /// Reads blocks for one reader alone, unless they are at hand.
    async fn load_blocks<'a>(
        &'a self,
        segment: &Segment,
        offset: u64,
        wanted: u64,
        read: &mut Option<ColdRead<'a>>,
    ) -> Result<(Piece, ReadTier), StorageError> {
        loop {
            let cached = self.read_cache.borrow().piece(offset);
            match (cached, &read) {
                (Some(piece), _) => return Ok((piece, ReadTier::ReadCache)),
                (None, None) => *read = Some(self.cold_share.enter().await),
                (None, Some(read)) => {
                    let start = block_start(offset);
                    let extract = Extract { start, limit: wanted.min(start + PIECE_BYTES) };
                    let slab = SlabWriter::allocate_small(extract.block_bytes());
                    return self.read_in(segment, extract, slab, read).await;
                }
            }
        }
    }

    /// Reads the piece that holds a byte, up to `wanted` at least, or waits while another does so.
    async fn load_piece<'a>(
        &'a self,
        segment: &Rc<Segment>,
        offset: u64,
        wanted: u64,
        read: &mut Option<ColdRead<'a>>,
    ) -> Result<(Piece, ReadTier), StorageError> {
        let start = piece_start(segment, offset);
        let (read, begun) = loop {
            if let Some(piece) = self.read_cache.borrow().piece(offset) {
                return Ok((piece, ReadTier::ReadCache));
            }
            // Whoever reads it may load already, so this waits for no one in line.
            if self.loading.borrow().begun.contains(&start) {
                self.loaded.notified().await;
            } else if let Some(read) = read {
                self.loading.borrow_mut().begun.insert(start);
                break (read, Begun { log: self, start });
            } else {
                *read = Some(self.cold_share.enter().await);
            }
        };
        let end = (start + PIECE_BYTES).min(segment.limit);
        let limit = end.min(block_start(self.marks.written())).max(end.min(wanted));
        let free = self.read_cache.borrow_mut().take_free();
        let slab = match free {
            Some(slab) => Ok(slab),
            None => runtime::blocking(|| SlabWriter::allocate_ready(PIECE_BYTES as usize)).await,
        };
        let (piece, tier) = self.read_in(segment, Extract { start, limit }, slab, read).await?;
        if start >= self.min_offset().0 {
            self.read_cache.borrow_mut().insert(piece.clone());
        }
        drop(begun);
        Ok((piece, tier))
    }

    /// Reads past the page cache, or out of it what it has. Has its share of the disk's time.
    async fn read_in(
        &self,
        segment: &Segment,
        extract: Extract,
        slab: io::Result<SlabWriter>,
        read: &ColdRead<'_>,
    ) -> Result<(Piece, ReadTier), StorageError> {
        let mut slab = slab.context("get memory for", &segment.path)?;
        read.pace(extract.bytes() as u64, || self.marks.appended()).await;
        self.counts.borrow_mut().cold_loads += 1;
        let (from, bytes) = (extract.start - segment.start, extract.block_bytes());
        let is_resident = self.options.tiers.resident && segment.read.is_resident(from, from + bytes as u64);
        let read = if is_resident || self.options.page_cache {
            let file = segment.read.clone();
            runtime::blocking(move || slab.write(bytes, |target| file.read_exact_at(target, from)).map(|()| slab)).await
        } else {
            self.ring.read(&segment.direct, from, slab, bytes).await
        };
        let slab = read.map_err(|error| StorageError::io_at("read", &segment.path, from, error))?;
        let piece = Piece { start: extract.start, bytes: slab.finish().slice(0..extract.bytes()) };
        Ok((piece, if is_resident { ReadTier::Resident } else { ReadTier::Cold }))
    }

    /// Who has read the first half of a piece will want the next one.
    fn ask_ahead(&self, stretch: &InFile) {
        let start = piece_start(&stretch.segment, stretch.limit - 1);
        let next = (start + PIECE_BYTES).min(stretch.segment.limit);
        let is_near = stretch.limit - start >= PIECE_BYTES / 2;
        let is_in_files = next < self.tail.borrow().oldest().min(block_start(self.marks.written()));
        if !is_near || !is_in_files || !self.read_cache.borrow().has_room() || self.read_cache.borrow().holds(next) {
            return;
        }
        let Loading { begun, ahead } = &mut *self.loading.borrow_mut();
        if begun.contains(&next) || ahead.contains(&next) {
            return;
        }
        if ahead.len() >= AHEAD_MAX {
            ahead.pop_front();
        }
        ahead.push_back(next);
        self.ahead_wanted.notify();
    }

    /// The task that reads ahead.
    pub(super) async fn read_ahead_on(self: &Rc<Log>) {
        let mut loads_before = 0;
        while !self.ended.get() && !self.marks.has_failed() {
            let next = self.loading.borrow_mut().ahead.pop_front();
            let Some(next) = next else {
                let is_idle = runtime::clock::within(IDLE, self.ahead_wanted.notified()).await.is_none();
                let loads = self.counts.borrow().cold_loads;
                if is_idle && loads == std::mem::replace(&mut loads_before, loads) {
                    self.read_cache.borrow_mut().clear();
                }
                continue;
            };
            let segment = self.segments.borrow().containing(next);
            if let Some(segment) = segment
                && !self.read_cache.borrow().holds(next)
            {
                // A failure is told to the one who needs the piece.
                let _ = self.load_piece(&segment, next, next, &mut None).await;
            }
        }
    }
}

/// Ends the reading of a piece, whether it was read or not.
struct Begun<'a> {
    log: &'a Log,
    start: u64,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.log.loading.borrow_mut().begun.remove(&self.start);
        self.log.loaded.notify();
    }
}

fn piece_start(segment: &Segment, offset: u64) -> u64 {
    offset - (offset - segment.start) % PIECE_BYTES
}
