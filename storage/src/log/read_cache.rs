//! What was read from the disk lately, in memory of our own: whole pieces of segments, read past the page cache into slabs
//! that are used again and again.
//!
//! A page cache has to find and clear a page for each that it reads, and drops another; where memory is dear that takes
//! longer than the disk does. Messages of many queues lie among each other, so a piece that one reader brought in serves
//! the others of its topic. The pieces that came first go first.

use std::collections::{BTreeMap, VecDeque};

use runtime::buffer::{SlabSlice, SlabWriter};

/// Bytes of a piece, at a multiple of as many in its segment. The last of a segment may be shorter.
pub(super) const PIECE_BYTES: u64 = 1 << 20;
/// Slabs kept to be filled next. More are given back to the system.
const FREE_SLABS_MAX: usize = 2;

/// Neighbouring bytes of the log in memory.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) bytes: SlabSlice,
}

impl Piece {
    pub(super) fn limit(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The part of it from `start` on, up to `limit` at most; `None` when it doesn't hold `start`.
    pub(super) fn part(&self, start: u64, limit: u64) -> Option<SlabSlice> {
        let limit = limit.min(self.limit());
        let is_within = self.start <= start && start < limit;
        is_within.then(|| self.bytes.slice((start - self.start) as usize..(limit - self.start) as usize))
    }
}

#[derive(Debug)]
pub(super) struct ReadCache {
    pieces_max: usize,
    by_start: BTreeMap<u64, SlabSlice>,
    /// The starts of all pieces, in the order they came.
    order: VecDeque<u64>,
    free: Vec<SlabWriter>,
}

/// The most that a cache of this budget holds.
pub(crate) fn bytes_max(budget_bytes: u64) -> u64 {
    match budget_bytes / PIECE_BYTES {
        0 => 0,
        pieces => (pieces + FREE_SLABS_MAX as u64) * PIECE_BYTES,
    }
}

impl ReadCache {
    pub(super) fn new(budget_bytes: u64) -> ReadCache {
        let pieces_max = (budget_bytes / PIECE_BYTES) as usize;
        ReadCache { pieces_max, by_start: BTreeMap::new(), order: VecDeque::new(), free: Vec::new() }
    }

    /// The piece that holds a byte.
    pub(super) fn piece(&self, offset: u64) -> Option<Piece> {
        let (start, bytes) = self.by_start.range(..=offset).next_back()?;
        let is_within = offset < start + bytes.len() as u64;
        is_within.then(|| Piece { start: *start, bytes: bytes.clone() })
    }

    pub(super) fn holds(&self, offset: u64) -> bool {
        self.piece(offset).is_some()
    }

    /// Whether it keeps anything at all.
    pub(super) fn has_room(&self) -> bool {
        self.pieces_max > 0
    }

    /// Memory to read a piece into, if some is at hand.
    pub(super) fn take_free(&mut self) -> Option<SlabWriter> {
        self.free.pop()
    }

    /// Keeps a piece, in the place of one that begins at the same offset.
    pub(super) fn insert(&mut self, piece: Piece) {
        assert!(piece.bytes.len() as u64 <= PIECE_BYTES, "a piece of {} bytes", piece.bytes.len());
        match self.by_start.insert(piece.start, piece.bytes) {
            Some(before) => self.recycle(before),
            None => self.order.push_back(piece.start),
        }
        while self.order.len() > self.pieces_max {
            self.drop_oldest();
        }
    }

    /// The log lost everything in front of an offset.
    pub(super) fn forget_before(&mut self, offset: u64) {
        self.order.retain(|start| *start >= offset);
        self.by_start = self.by_start.split_off(&offset);
    }

    /// Gives all memory back.
    pub(super) fn clear(&mut self) {
        *self = ReadCache::new(self.pieces_max as u64 * PIECE_BYTES);
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.order.len() + self.free.len()) as u64 * PIECE_BYTES
    }

    fn drop_oldest(&mut self) {
        let oldest = self.order.pop_front().and_then(|start| self.by_start.remove(&start));
        self.recycle(oldest.expect("each start has its piece"));
    }

    /// A slab that somebody still sends goes back to the system when the sender is done.
    fn recycle(&mut self, bytes: SlabSlice) {
        if self.free.len() < FREE_SLABS_MAX
            && let Some(writer) = SlabWriter::reuse(bytes)
        {
            self.free.push(writer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(cache: &mut ReadCache, start: u64, bytes: usize, fill: u8) -> Piece {
        let slab = cache.take_free().map_or_else(|| SlabWriter::allocate(PIECE_BYTES as usize), Ok);
        let mut slab = slab.expect("memory");
        slab.write(bytes, |target| target.fill(fill));
        Piece { start, bytes: slab.finish() }
    }

    #[test]
    fn pieces_are_found_by_what_they_hold_and_the_budget_holds() {
        let mut cache = ReadCache::new(3 * PIECE_BYTES);
        for number in 0..10_u64 {
            let made = piece(&mut cache, number * PIECE_BYTES, 5000, number as u8);
            cache.insert(made);
            assert!(cache.bytes() <= 5 * PIECE_BYTES, "{} bytes", cache.bytes());
        }
        let found = |cache: &ReadCache, offset| cache.piece(offset).map(|piece| (piece.start, piece.bytes[0]));
        assert_eq!(found(&cache, 6 * PIECE_BYTES), None, "three came later");
        assert_eq!(found(&cache, 7 * PIECE_BYTES), Some((7 * PIECE_BYTES, 7)));
        assert_eq!(found(&cache, 7 * PIECE_BYTES + 4999), Some((7 * PIECE_BYTES, 7)));
        assert_eq!(found(&cache, 7 * PIECE_BYTES + 5000), None);
        let longer = piece(&mut cache, 7 * PIECE_BYTES, 6000, 77);
        cache.insert(longer);
        assert_eq!(found(&cache, 7 * PIECE_BYTES + 5000), Some((7 * PIECE_BYTES, 77)));
        cache.forget_before(8 * PIECE_BYTES);
        assert_eq!(found(&cache, 7 * PIECE_BYTES), None);
        assert_eq!(found(&cache, 9 * PIECE_BYTES), Some((9 * PIECE_BYTES, 9)));
    }

    #[test]
    fn a_piece_that_is_being_sent_outlives_its_place() {
        let mut cache = ReadCache::new(PIECE_BYTES);
        let first = piece(&mut cache, 0, 10, 1);
        cache.insert(first);
        let sent = cache.piece(3).and_then(|piece| piece.part(3, 100)).expect("within");
        for number in 1..4 {
            let next = piece(&mut cache, number * PIECE_BYTES, 10, 2);
            cache.insert(next);
        }
        assert_eq!(&sent[..], [1; 7]);
    }

    #[test]
    fn nothing_is_kept_without_a_budget() {
        let mut cache = ReadCache::new(0);
        let made = piece(&mut cache, 0, 10, 1);
        cache.insert(made);
        assert!(cache.piece(0).is_none());
    }
}
