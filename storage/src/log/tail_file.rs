//! The tail file: the newest records once more, in a file that is mapped into memory.
//!
//! Under asynchronous flushes an acknowledged record has to survive the end of the process, not a loss of power. The
//! log itself is written past the page cache, and its device may stand still for a flush of anything on it: a sender
//! that waits for it waits for tens of milliseconds. A copy in the page cache survives the process just as well. So a
//! record is copied here as it is appended and counts as safe at once; the write to the log follows.
//!
//! A ring: the byte of log offset N lies at N modulo the file's length. A record tells its own offset and has a
//! checksum, so after a crash nothing else is needed to find the records that the log does not have yet.

use std::io;
use std::path::Path;

use base::{LogId, LogOffset, PhysicalOffset};
use remoting::record::{self, BLANK_BYTES};
use runtime::buffer::BLOCK_BYTES;
use runtime::mapped::MappedFile;

use crate::scan::RECORD_BYTES_MAX;

/// Bytes of the file, unless fewer may be unwritten at all. With more than that unwritten, senders wait for the log.
const BYTES_MAX: u64 = 32 << 20;

pub(crate) struct TailFile {
    ring: MappedFile,
}

impl TailFile {
    /// Makes the file anew. What the last one held must be in the log by now.
    pub(crate) fn create(path: &Path, unwritten_bytes_max: u64) -> io::Result<TailFile> {
        let bytes = BYTES_MAX.min(unwritten_bytes_max.next_multiple_of(BLOCK_BYTES as u64)).max(BLOCK_BYTES as u64);
        Ok(TailFile { ring: MappedFile::create(path, bytes as usize)? })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.ring.bytes() as u64
    }

    /// Copies what lies at this offset of the log. It must fit.
    pub(crate) fn put(&mut self, offset: u64, content: &[u8]) {
        let at = (offset % self.bytes()) as usize;
        let (front, rest) = content.split_at(content.len().min(self.ring.bytes() - at));
        self.ring.put(at, front);
        if !rest.is_empty() {
            self.ring.put(0, rest);
        }
    }
}

/// The content of a tail file that a crash left.
pub(crate) struct Kept {
    ring: Vec<u8>,
}

/// Records, one behind the other, and the fillers between them.
pub(crate) struct KeptRun {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Kept {
    /// `None`: no file was left, or one that was being made.
    ///
    /// # Errors
    /// Also when its length is none that a tail file has: acknowledged records may be in what was cut off.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Kept>> {
        let ring = crate::disk::read_whole(path)?.unwrap_or_default();
        if !ring.len().is_multiple_of(BLOCK_BYTES) {
            let what = format!(
                "it has {} bytes, which is no number of blocks: put it back whole, or remove it and lose what only it has",
                ring.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok((!ring.is_empty()).then_some(Kept { ring }))
    }

    /// The records from `end` on, where the log ends: a run for each segment.
    pub(crate) fn runs_from(&self, log: LogId, end: u64, segment_bytes: u64) -> Vec<KeptRun> {
        let mut runs: Vec<KeptRun> = Vec::new();
        let mut at = end;
        loop {
            let segment_limit = (at / segment_bytes + 1) * segment_bytes;
            let (next, bytes) = if let Some(record) = self.record_at(log, at, segment_limit) {
                (at + record.len() as u64, record)
            } else if self.is_filler_at(at, segment_limit) {
                (segment_limit, self.copy(at, BLANK_BYTES))
            } else {
                return runs;
            };
            match runs.last_mut() {
                Some(run) if run.start + run.bytes.len() as u64 == at => run.bytes.extend_from_slice(&bytes),
                _ => runs.push(KeptRun { start: at, bytes }),
            }
            at = next;
        }
    }

    fn record_at(&self, log: LogId, at: u64, segment_limit: u64) -> Option<Vec<u8>> {
        let total = u64::from(u32::from_be_bytes(*self.copy(at, 4).first_chunk()?));
        if total > RECORD_BYTES_MAX.min(segment_limit - at).min(self.ring.len() as u64) {
            return None;
        }
        let bytes = self.copy(at, total as usize);
        let is_whole = record::verify(&bytes, PhysicalOffset::new(log, LogOffset(at))).is_ok();
        is_whole.then_some(bytes)
    }

    /// A filler does not tell its offset; one of an earlier round of the ring only leaves a segment before it is full.
    fn is_filler_at(&self, at: u64, segment_limit: u64) -> bool {
        let room = segment_limit - at;
        room >= BLANK_BYTES as u64 && record::blank_bytes(&self.copy(at, BLANK_BYTES)).map(u64::from) == Some(room)
    }

    fn copy(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let at = (offset % self.ring.len() as u64) as usize;
        let front = &self.ring[at..self.ring.len().min(at + bytes)];
        let mut copied = front.to_vec();
        copied.extend_from_slice(&self.ring[..bytes - front.len()]);
        copied
    }
}
