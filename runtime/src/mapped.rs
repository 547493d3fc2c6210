//! A file in memory: what was put into it survives the end of the process, though not a loss of power.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

use libc::{MAP_FAILED, MAP_SHARED, PROT_READ, PROT_WRITE};

/// A file of a fixed length, all of it mapped. The kernel writes it back in its own time.
#[derive(Debug)]
pub struct MappedFile {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping owns its memory, and changes go through a unique reference.
unsafe impl Send for MappedFile {}

impl MappedFile {
    /// Makes the file anew, zero and with its space reserved: a store into a file without space would end the process.
    pub fn create(path: &Path, bytes: usize) -> io::Result<MappedFile> {
        assert!(bytes > 0, "an empty mapping");
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        // SAFETY: a plain call on a descriptor that is open.
        let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) };
        if code != 0 {
            let _ = std::fs::remove_file(path);
            return Err(io::Error::from_raw_os_error(code));
        }
        // SAFETY: a new mapping of a file that is open touches no existing memory.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.as_raw_fd(), 0) };
        if start == MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).expect("a mapping is never at address 0");
        Ok(MappedFile { start, bytes })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts content at a place.
    ///
    /// # Panics
    /// When it does not fit there.
    pub fn put(&mut self, at: usize, content: &[u8]) {
        assert!(at <= self.bytes && content.len() <= self.bytes - at, "{} bytes at {at}", content.len());
        // SAFETY: the range lies in the mapping, which is ours alone; the content lies outside of it.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), self.start.as_ptr().add(at), content.len()) };
    }
}

impl Drop for MappedFile {
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
            let mut mapped = MappedFile::create(&path, 8192).expect("mapped");
            assert!(std::fs::read(&path).expect("read") == [0; 8192], "a file made anew is zero");
            mapped.put(8190, b"ab");
            drop(mapped);
            assert_eq!(std::fs::read(&path).expect("read")[8190..], *b"ab");
        }
    }
}
