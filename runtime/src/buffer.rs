//! Memory that direct I/O, readers on other cores and sockets share without copying.
//!
//! A [`Slab`] is filled from front to back by its one [`SlabWriter`]. What was filled never changes again and may be
//! read by anybody who holds a [`SlabSlice`]; what was not is seen by the writer alone.

use std::alloc::Layout;
use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use libc::{MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE};

/// Alignment that direct I/O asks of memory, offsets and lengths: the largest that usual devices have.
pub const BLOCK_BYTES: usize = 4096;

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A piece of anonymous memory of a whole number of blocks, aligned to a block, zero when new.
#[derive(Debug)]
pub struct Slab {
    start: NonNull<u8>,
    bytes: usize,
    is_mapped: bool,
}

// SAFETY: a slab owns its memory; who may touch which part is ruled by the writer and the slices.
unsafe impl Send for Slab {}
// SAFETY: as above; shared access happens only through slices, which cover bytes that no longer change.
unsafe impl Sync for Slab {}

impl Slab {
    fn allocate(bytes: usize) -> io::Result<Slab> {
        assert!(bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES), "a slab of {bytes} bytes is not a number of blocks");
        // SAFETY: a new anonymous mapping touches no existing memory.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        };
        if start == MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range is the mapping just made. Advice may be refused, which harms nothing.
        unsafe { libc::madvise(start, bytes, MADV_HUGEPAGE) };
        let start = NonNull::new(start.cast::<u8>()).expect("a mapping is never at address 0");
        Ok(Slab { start, bytes, is_mapped: true })
    }

    fn allocate_on_heap(bytes: usize) -> Slab {
        let layout = heap_layout(bytes);
        // SAFETY: the layout is not empty.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { std::alloc::handle_alloc_error(layout) };
        Slab { start, bytes, is_mapped: false }
    }
}

/// Makes pages of a mapping writable at once, as far as the kernel can; their content stays. Step by step, since whoever
/// maps or unmaps memory waits for the end of a step.
pub(crate) fn populate(start: *mut u8, bytes: usize, step_bytes: usize) {
    for at in (0..bytes).step_by(step_bytes) {
        let step_bytes = step_bytes.min(bytes - at);
        // SAFETY: the kernel looks at addresses alone: it refuses those that are not mapped, and changes no content.
        unsafe { libc::madvise(start.wrapping_add(at).cast(), step_bytes, libc::MADV_POPULATE_WRITE) };
    }
}

fn heap_layout(bytes: usize) -> Layout {
    assert!(bytes > 0, "an empty slab");
    Layout::from_size_align(bytes, BLOCK_BYTES).expect("a block is a power of two")
}

impl Drop for Slab {
    fn drop(&mut self) {
        if self.is_mapped {
            // SAFETY: the mapping is ours, and nobody holds a slice of it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        } else {
            // SAFETY: it was allocated with this layout, and nobody holds a slice of it any more.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), heap_layout(self.bytes)) };
        }
    }
}

/// The one who fills a slab.
#[derive(Debug)]
pub struct SlabWriter {
    slab: Arc<Slab>,
    filled: usize,
}

impl SlabWriter {
    /// A slab that is used for a moment only: without a mapping of its own.
    pub fn allocate_small(bytes: usize) -> io::Result<SlabWriter> {
        Ok(SlabWriter { slab: Arc::new(Slab::allocate_on_heap(bytes)), filled: 0 })
    }

    pub fn allocate(bytes: usize) -> io::Result<SlabWriter> {
        Ok(SlabWriter { slab: Arc::new(Slab::allocate(bytes)?), filled: 0 })
    }

    /// As [`SlabWriter::allocate`], with its memory behind it: filling it waits for nothing. Blocks.
    pub fn allocate_ready(bytes: usize) -> io::Result<SlabWriter> {
        let writer = SlabWriter::allocate(bytes)?;
        populate(writer.slab.start.as_ptr(), bytes, HUGE_PAGE_BYTES);
        Ok(writer)
    }

    /// Fills a used slab again, if nobody else still holds a part of it.
    pub fn reuse(slab: SlabSlice) -> Option<SlabWriter> {
        let SlabSlice { slab, .. } = slab;
        let slab = Arc::try_unwrap(slab).ok()?;
        Some(SlabWriter { slab: Arc::new(slab), filled: 0 })
    }

    pub fn filled(&self) -> usize {
        self.filled
    }

    pub fn room(&self) -> usize {
        self.slab.bytes - self.filled
    }

    /// Fills the next `bytes` bytes. `fill` sees old content, and all of it becomes readable afterwards. As many behind them
    /// are brought close, for who fills a slab piece by piece.
    ///
    /// # Panics
    /// When there is not that much room.
    pub fn write<T>(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8]) -> T) -> T {
        assert!(bytes <= self.room(), "{bytes} bytes do not fit into the {} left of a slab", self.room());
        // SAFETY: the range lies in the slab and past `filled`, where no slice reaches; there is one writer only.
        let target = unsafe { std::slice::from_raw_parts_mut(self.slab.start.as_ptr().add(self.filled), bytes) };
        let result = fill(target);
        self.filled += bytes;
        prefetch_to_fill(target.as_ptr().wrapping_add(bytes), bytes.min(self.room()));
        result
    }

    /// Where the next `bytes` bytes will be, for the kernel to fill.
    ///
    /// # Panics
    /// When there is not that much room.
    pub(crate) fn next_bytes(&mut self, bytes: usize) -> *mut u8 {
        assert!(bytes <= self.room(), "{bytes} bytes do not fit into the {} left of a slab", self.room());
        // SAFETY: the place lies in the slab, or at its end.
        unsafe { self.slab.start.as_ptr().add(self.filled) }
    }

    /// The kernel has filled the next `bytes` bytes.
    pub(crate) fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.room(), "{bytes} bytes do not fit into the {} left of a slab", self.room());
        self.filled += bytes;
    }

    /// A part of what was filled.
    pub fn slice(&self, range: Range<usize>) -> SlabSlice {
        assert!(range.start <= range.end && range.end <= self.filled, "{range:?} is not within 0..{}", self.filled);
        SlabSlice { slab: self.slab.clone(), start: range.start, limit: range.end }
    }

    /// All that was filled; the rest is given up.
    pub fn finish(self) -> SlabSlice {
        SlabSlice { start: 0, limit: self.filled, slab: self.slab }
    }
}

/// A part of a slab that no longer changes. Cheap to clone, may go to any core.
#[derive(Clone, Debug)]
pub struct SlabSlice {
    slab: Arc<Slab>,
    start: usize,
    limit: usize,
}

impl SlabSlice {
    /// A part of this part.
    pub fn slice(&self, range: Range<usize>) -> SlabSlice {
        let limit = self.start + range.end;
        assert!(range.start <= range.end && limit <= self.limit, "{range:?} is not within {} bytes", self.len());
        SlabSlice { slab: self.slab.clone(), start: self.start + range.start, limit }
    }
}

impl Deref for SlabSlice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: start..limit was filled when this slice was made, and filled bytes never change.
        unsafe { std::slice::from_raw_parts(self.slab.start.as_ptr().add(self.start), self.limit - self.start) }
    }
}

impl AsRef<[u8]> for SlabSlice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// What the processor moves between its caches at once.
const LINE_BYTES: usize = 64;
/// More is not brought close before it is filled: it would be gone again by then.
const FILL_AHEAD_BYTES_MAX: usize = 4 << 10;

/// Asks the processor to bring memory close that is about to be filled: stores to memory that is in no cache would have to
/// wait for it.
#[inline]
pub(crate) fn prefetch_to_fill(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    prefetch_lines::<{ std::arch::x86_64::_MM_HINT_ET0 }>(start, bytes.min(FILL_AHEAD_BYTES_MAX));
}

/// Asks the processor to bring memory close that is about to be read, from another core's cache mostly.
#[inline]
pub fn prefetch<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    prefetch_lines::<{ std::arch::x86_64::_MM_HINT_T0 }>(values.as_ptr().cast(), size_of_val(values));
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_lines<const HINT: i32>(start: *const u8, bytes: usize) {
    for at in (0..bytes).step_by(LINE_BYTES) {
        // SAFETY: a hint; it reads and changes nothing that the program could see, and faults nowhere.
        unsafe { std::arch::x86_64::_mm_prefetch::<HINT>(start.cast::<i8>().wrapping_add(at)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_filled_is_read_and_a_free_slab_is_reused() {
        let mut writer = SlabWriter::allocate(2 * BLOCK_BYTES).expect("memory");
        writer.write(3, |target| target.copy_from_slice(b"abc"));
        let slice = writer.slice(1..3);
        writer.write(3, |target| target.copy_from_slice(b"def"));
        assert_eq!(&slice[..], b"bc");
        assert_eq!(&writer.slice(0..6).slice(2..5)[..], b"cde");
        assert_eq!(writer.room(), 2 * BLOCK_BYTES - 6);
        let all = writer.finish();
        assert!(SlabWriter::reuse(all.clone()).is_none(), "somebody still reads it");
        drop(slice);
        assert_eq!(SlabWriter::reuse(all).expect("nobody else holds it").filled(), 0);
    }

    #[test]
    #[should_panic(expected = "do not fit")]
    fn a_slab_is_not_overrun() {
        let mut writer = SlabWriter::allocate(BLOCK_BYTES).expect("memory");
        writer.write(BLOCK_BYTES + 1, |_| ());
    }
}
