//! A file in memory: what was put into it survives the end of the process, though not a loss of power.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{MAP_FAILED, MAP_SHARED, PROT_READ, PROT_WRITE};

use crate::buffer::{BLOCK_BYTES, populate, prefetch_to_fill};
use crate::file::{copies_on_write, remove_if_there, reserve};

/// A file of a fixed length, all of it mapped. The kernel writes it back in its own time.
#[derive(Debug)]
pub struct MappedFile {
    mapping: Arc<Mapping>,
}

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping owns its memory. Changes go through the one file and its unique reference.
unsafe impl Send for Mapping {}
// SAFETY: as above; whoever else shares it does not touch the content.
unsafe impl Sync for Mapping {}

impl MappedFile {
    /// Makes the file anew, zero but for its front, and with its space reserved: a store into a file without space would
    /// end the process, which is why file systems that copy on write are refused. An older file of this name stays as it was until the new one is whole.
    pub fn create(path: &Path, bytes: usize, front: &[u8]) -> io::Result<MappedFile> {
        assert!(bytes > 0, "an empty mapping");
        if copies_on_write(path.parent().unwrap_or(path)) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this file system cannot reserve space for overwriting",
            ));
        }
        let fresh = path.with_extension("new");
        let mut mapped = MappedFile::create_as(&fresh, bytes)?;
        mapped.put(0, front);
        std::fs::rename(&fresh, path)?;
        Ok(mapped)
    }

    fn create_as(path: &Path, bytes: usize) -> io::Result<MappedFile> {
        remove_if_there(path)?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        if let Err(error) = reserve(&file, 0, bytes as u64) {
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        // SAFETY: a new mapping of a file that is open touches no existing memory.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.as_raw_fd(), 0) };
        if start == MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).expect("a mapping is never at address 0");
        Ok(MappedFile { mapping: Arc::new(Mapping { start, bytes }) })
    }

    pub fn bytes(&self) -> usize {
        self.mapping.bytes
    }

    /// Some of its pages, to be made ready by another thread.
    ///
    /// # Panics
    /// When they lie outside.
    pub fn pages(&self, at: usize, bytes: usize) -> Pages {
        assert!(at <= self.bytes() && bytes <= self.bytes() - at, "{bytes} bytes at {at}");
        Pages { mapping: self.mapping.clone(), at, bytes }
    }

    /// Puts content at a place.
    ///
    /// # Panics
    /// When it does not fit there.
    pub fn put(&mut self, at: usize, content: &[u8]) {
        assert!(at <= self.bytes() && content.len() <= self.bytes() - at, "{} bytes at {at}", content.len());
        // SAFETY: the range lies in the mapping, which is ours alone; the content lies outside of it.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), self.mapping.start.as_ptr().add(at), content.len()) };
        let end = at + content.len();
        let ahead_bytes = content.len().min(self.bytes() - end);
        prefetch_to_fill(self.mapping.start.as_ptr().wrapping_add(end), ahead_bytes);
    }

    /// Puts a number at a place, after everything that was put before: who finds it finds that as well.
    ///
    /// # Panics
    /// When the place is not a multiple of 8, or lies outside.
    pub fn publish(&mut self, at: usize, number: u64) {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes(), "a number at {at}");
        // SAFETY: the eight bytes lie in the mapping, which is ours alone, and are aligned as the mapping is.
        let place = unsafe { AtomicU64::from_ptr(self.mapping.start.as_ptr().add(at).cast()) };
        place.store(number.to_be(), Ordering::Release);
    }
}

/// Pages of a mapped file.
#[derive(Debug)]
pub struct Pages {
    mapping: Arc<Mapping>,
    at: usize,
    bytes: usize,
}

impl Pages {
    /// Does now what a store into each page would have to wait for. Blocks. Changes no content; where the kernel refuses,
    /// the stores wait.
    pub fn make_ready(&self) {
        let start = self.at / BLOCK_BYTES * BLOCK_BYTES;
        let bytes = self.at + self.bytes - start;
        // SAFETY: the range lies in the mapping, which lives as long as we hold it.
        let start = unsafe { self.mapping.start.as_ptr().add(start) };
        populate(start, bytes, 16 * BLOCK_BYTES);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody else points into it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::TempFolder;

    #[test]
    fn what_was_put_is_in_the_file() {
        let folder = TempFolder::new("mapped");
        let path = folder.path().join("m");
        for _ in 0..2 {
            let mut mapped = MappedFile::create(&path, 8192, b"front").expect("mapped");
            let content = std::fs::read(&path).expect("read");
            assert!(content[..5] == *b"front" && content[5..] == [0; 8187], "a file made anew is zero");
            mapped.pages(4096, 4096).make_ready();
            mapped.put(8190, b"ab");
            mapped.publish(16, 0x0102);
            drop(mapped);
            let content = std::fs::read(&path).expect("read");
            assert_eq!((&content[16..24], &content[8190..]), (&[0, 0, 0, 0, 0, 0, 1, 2][..], &b"ab"[..]));
        }
    }
}
