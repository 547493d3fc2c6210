//! The newest bytes of a log in memory: written from here, and read from here by consumers that keep up.
//!
//! A list of slabs, each at its place in the log, of which the last is being filled. No slab crosses a segment. The
//! oldest are given up when the budget is used, but never bytes that are not written yet, nor the last, partly filled
//! block, which the next write needs again. Slabs are filled anew when nobody reads them any more, so that memory
//! is not faulted in for each message.

use std::collections::VecDeque;
use std::io;

use runtime::buffer::{BLOCK_BYTES, SlabSlice, SlabWriter};

/// Bytes of a slab, and the most that one write takes.
pub(crate) const SLAB_BYTES: usize = 4 << 20;
/// Slabs kept to be filled next: a write that comes late leaves one. More are given back to the system.
const FREE_SLABS_MAX: usize = 2;

struct Sealed {
    start: u64,
    slice: SlabSlice,
}

pub(crate) struct TailCache {
    slab_bytes: usize,
    budget_bytes: u64,
    sealed: VecDeque<Sealed>,
    start: u64,
    writer: SlabWriter,
    free: Vec<SlabWriter>,
}

impl TailCache {
    /// Starts with the bytes between the beginning of a block and the end of the log.
    pub(crate) fn new(start: u64, head: &[u8], segment_bytes: u64, budget_bytes: u64) -> io::Result<TailCache> {
        assert!(start.is_multiple_of(BLOCK_BYTES as u64), "a slab at {start} is not at the beginning of a block");
        assert!(head.len() < BLOCK_BYTES, "{} bytes are a block or more", head.len());
        let slab_bytes = SLAB_BYTES.min(segment_bytes as usize);
        let mut writer = SlabWriter::allocate(slab_bytes)?;
        writer.write(head.len(), |target| target.copy_from_slice(head));
        Ok(TailCache { slab_bytes, budget_bytes, sealed: VecDeque::new(), start, writer, free: Vec::new() })
    }

    /// The end of what is in it.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.writer.filled() as u64
    }

    /// The beginning of what is in it.
    pub(crate) fn oldest(&self) -> u64 {
        self.sealed.front().map_or(self.start, |sealed| sealed.start)
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        ((self.sealed.len() + self.free.len() + 1) * self.slab_bytes) as u64
    }

    pub(crate) fn slab_bytes(&self) -> usize {
        self.slab_bytes
    }

    /// Whether another slab would exceed the budget.
    fn is_full(&self) -> bool {
        self.bytes() + self.slab_bytes as u64 > self.budget_bytes
    }

    /// Whether the next slab should be got now: the last is half full, and none is free.
    pub(crate) fn wants_slab(&self) -> bool {
        self.free.is_empty() && self.writer.room() < self.slab_bytes / 2
    }

    pub(crate) fn add_free(&mut self, slab: SlabWriter) {
        self.free.push(slab);
    }

    /// Makes sure that so many bytes can be pushed.
    pub(crate) fn reserve(&mut self, bytes: usize) -> io::Result<()> {
        self.reserve_beside(self.writer.room(), bytes)
    }

    /// Makes sure that a filler can be pushed, and so many bytes after the roll behind it.
    pub(crate) fn reserve_rolled(&mut self, filler_bytes: usize, bytes: usize) -> io::Result<()> {
        // A filler that does not fit takes a slab, and the roll takes the next.
        let for_filler = if self.writer.room() < filler_bytes { self.slab_bytes } else { 0 };
        self.reserve_beside(0, for_filler + bytes)
    }

    fn reserve_beside(&mut self, room: usize, bytes: usize) -> io::Result<()> {
        let mut room = room + self.free.len() * self.slab_bytes;
        while room <= bytes {
            self.free.push(SlabWriter::allocate(self.slab_bytes)?);
            room += self.slab_bytes;
        }
        Ok(())
    }

    /// Appends what `fill` makes in place. Room must have been reserved.
    pub(crate) fn push(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        if bytes <= self.writer.room() {
            self.writer.write(bytes, fill);
            return;
        }
        // A record across two slabs is made beside them: one in some thousands.
        let mut scratch = vec![0; bytes];
        fill(&mut scratch);
        let mut rest = &scratch[..];
        while !rest.is_empty() {
            if self.writer.room() == 0 {
                let next = self.start + self.slab_bytes as u64;
                self.seal(next);
            }
            let (now, later) = rest.split_at(rest.len().min(self.writer.room()));
            self.writer.write(now.len(), |target| target.copy_from_slice(now));
            rest = later;
        }
    }

    /// Goes on at the beginning of the next segment.
    pub(crate) fn roll(&mut self, segment_start: u64) {
        assert!(segment_start >= self.end(), "a segment at {segment_start} begins in front of {}", self.end());
        self.seal(segment_start);
    }

    fn seal(&mut self, next_start: u64) {
        let fresh = self.free.pop().expect("room was reserved");
        let full = std::mem::replace(&mut self.writer, fresh);
        let slice = full.finish();
        if !slice.is_empty() {
            self.sealed.push_back(Sealed { start: self.start, slice });
        }
        self.start = next_start;
    }

    /// Gives up the oldest slabs while the budget is exceeded, and keeps the oldest to be filled next where another would
    /// exceed it; only those that end at or in front of `written_block`.
    pub(crate) fn trim(&mut self, written_block: u64) {
        while self.bytes() > self.budget_bytes || (self.is_full() && self.free.len() < FREE_SLABS_MAX) {
            let Some(oldest) = self.sealed.front() else { return };
            if oldest.start + oldest.slice.len() as u64 > written_block {
                return;
            }
            let oldest = self.sealed.pop_front().expect("just seen");
            self.recycle(oldest.slice);
        }
    }

    /// A slab that somebody still reads goes back to the system when its last reader is done.
    fn recycle(&mut self, slice: SlabSlice) {
        if self.free.len() < FREE_SLABS_MAX
            && let Some(writer) = SlabWriter::reuse(slice)
        {
            self.free.push(writer);
        }
    }

    /// Whether the whole range is in the cache: it may lie behind the filler of a segment, where nothing is.
    pub(crate) fn covers(&self, start: u64, limit: u64) -> bool {
        let mut at = start;
        let first = self.sealed.partition_point(|sealed| sealed.start + sealed.slice.len() as u64 <= start);
        for sealed in self.sealed.range(first..).take_while(|sealed| sealed.start < limit) {
            if sealed.start > at {
                return false;
            }
            at = sealed.start + sealed.slice.len() as u64;
        }
        at >= limit || (self.start <= at && limit <= self.end())
    }

    /// The bytes from `start` to `limit`, as neighbouring slices.
    ///
    /// # Panics
    /// When the range is not in the cache.
    pub(crate) fn slices(&self, start: u64, limit: u64) -> Vec<SlabSlice> {
        assert!(start >= self.oldest() && limit <= self.end(), "{start}..{limit} is not cached");
        let mut slices = Vec::with_capacity(2);
        let mut at = start;
        let first = self.sealed.partition_point(|sealed| sealed.start + sealed.slice.len() as u64 <= start);
        for sealed in self.sealed.range(first..) {
            if at >= limit {
                break;
            }
            assert!(at >= sealed.start, "{at} lies between two slabs");
            let from = (at - sealed.start) as usize;
            let to = sealed.slice.len().min((limit - sealed.start) as usize);
            slices.push(sealed.slice.slice(from..to));
            at = sealed.start + to as u64;
        }
        if at < limit {
            assert!(at >= self.start, "{at} lies in front of the newest slab at {}", self.start);
            slices.push(self.writer.slice((at - self.start) as usize..(limit - self.start) as usize));
        }
        slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(slices: &[SlabSlice]) -> Vec<u8> {
        slices.iter().flat_map(|slice| slice.iter().copied()).collect()
    }

    #[test]
    fn pieces_across_slabs_come_back_whole_and_the_budget_holds() {
        const SEGMENT: u64 = 4 * BLOCK_BYTES as u64;
        let mut cache = TailCache::new(0, b"head", SEGMENT, 3 * SEGMENT).expect("memory");
        let mut expected = b"head".to_vec();
        for number in 0..100_u32 {
            let piece = vec![number as u8; 1000 + number as usize];
            cache.reserve(piece.len()).expect("memory");
            cache.push(piece.len(), |target| target.copy_from_slice(&piece));
            expected.extend_from_slice(&piece);
            assert_eq!(cache.end(), expected.len() as u64);
            let start = cache.oldest() as usize;
            assert_eq!(bytes_of(&cache.slices(start as u64, cache.end())), expected[start..]);
            cache.trim(cache.end());
            assert!(cache.bytes() <= 5 * SEGMENT, "{} bytes", cache.bytes());
        }
        let before = cache.oldest();
        cache.trim(0);
        assert_eq!(cache.oldest(), before, "what is not written stays");
        assert!(before > 0);
    }

    #[test]
    fn a_full_cache_fills_its_oldest_slabs_again_and_asks_for_no_memory() {
        const SLAB: u64 = BLOCK_BYTES as u64;
        let mut cache = TailCache::new(0, b"", SLAB, 4 * SLAB).expect("memory");
        let mut asked = 0;
        for number in 0..400_u64 {
            if cache.wants_slab() {
                asked += 1;
                cache.add_free(SlabWriter::allocate(SLAB as usize).expect("memory"));
            }
            cache.push(1000, |target| target.fill(number as u8));
            cache.trim(cache.end() / SLAB * SLAB);
        }
        assert_eq!((asked, cache.bytes()), (3, 4 * SLAB));
    }
}
