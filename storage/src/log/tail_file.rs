//! The tail file: the newest records once more, in a file that is mapped into memory.
//!
//! Under asynchronous flushes an acknowledged record has to survive the end of the process, not a loss of power. The
//! log itself is written past the page cache, and its device may stand still for a flush of anything on it: a sender
//! that waits for it waits for tens of milliseconds. A copy in the page cache survives the process just as well. So a
//! record is copied here as it is appended and counts as safe at once; the write to the log follows.
//!
//! A block that says what the file is, and a ring: the byte of log offset N lies at N modulo its length. The block also
//! says how far the ring goes, so after a crash it is known whether all that was acknowledged is there.
//!
//! ```text
//! block: u64 magic, u32 version, u16 log, u16 0, u64 generation, u64 ring bytes, u32 crc, u32 0, u64 end
//! ```

use std::io;
use std::path::Path;

use base::LogId;
use runtime::buffer::BLOCK_BYTES;
use runtime::mapped::{MappedFile, Pages};

const MAGIC: u64 = 0x524d_515f_5441_494c;
const VERSION: u32 = 1;

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = MAGIC_AT + 8;
const LOG_AT: usize = VERSION_AT + 4;
const GENERATION_AT: usize = LOG_AT + 4;
const RING_BYTES_AT: usize = GENERATION_AT + 8;
const CRC_AT: usize = RING_BYTES_AT + 8;
const END_AT: usize = CRC_AT + 8;
const RING_AT: usize = BLOCK_BYTES;

/// Bytes of the file, unless fewer may be unwritten at all. With more than that unwritten, senders wait for the log.
const BYTES_MAX: u64 = 32 << 20;

/// Pages are made ready so far in front of what is put. The kernel makes each wait again once it has written it back.
const READY_BYTES: u64 = 2 << 20;

pub(crate) struct TailFile {
    file: MappedFile,
    /// Offset of the log up to which pages were made ready, or are about to be.
    ready: u64,
}

impl TailFile {
    /// Makes the file anew for a log that ends at `end`. What the last one held must be in the log by now.
    pub(crate) fn create(path: &Path, head: Head, end: u64) -> io::Result<TailFile> {
        let mut file = MappedFile::create(path, RING_AT + head.ring_bytes as usize, &head.encode())?;
        file.publish(END_AT, end);
        Ok(TailFile { file, ready: end })
    }

    /// The bytes that the ring takes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.file.bytes() - RING_AT) as u64
    }

    fn ready_bytes(&self) -> u64 {
        READY_BYTES.min(self.bytes())
    }

    /// Whether a log that ends at `end` has come close to pages that are not ready.
    pub(crate) fn wants_pages(&self, end: u64) -> bool {
        end + self.ready_bytes() / 2 > self.ready
    }

    /// The next pages to make ready, up to the end of the ring.
    pub(crate) fn pages_ahead(&mut self, end: u64) -> Option<Pages> {
        if !self.wants_pages(end) {
            return None;
        }
        let start = self.ready.max(end);
        let at = start % self.bytes();
        let bytes = (end + self.ready_bytes() - start).min(self.bytes() - at);
        self.ready = start + bytes;
        Some(self.file.pages(RING_AT + at as usize, bytes as usize))
    }

    /// Copies what lies at this offset of the log. It must fit.
    pub(crate) fn put(&mut self, offset: u64, content: &[u8]) {
        let at = (offset % self.bytes()) as usize;
        let (front, rest) = content.split_at(content.len().min(self.bytes() as usize - at));
        self.file.put(RING_AT + at, front);
        if !rest.is_empty() {
            self.file.put(RING_AT, rest);
        }
        self.file.publish(END_AT, offset + content.len() as u64);
    }
}

/// What a tail file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) log: LogId,
    /// That of the checkpoint under which the file was made.
    pub(crate) generation: u64,
    pub(crate) ring_bytes: u64,
}

impl Head {
    pub(crate) fn new(log: LogId, generation: u64, unwritten_bytes_max: u64) -> Head {
        Head { log, generation, ring_bytes: ring_bytes(unwritten_bytes_max) }
    }

    pub(crate) fn encode(self) -> [u8; END_AT] {
        let mut head = [0; END_AT];
        head[MAGIC_AT..VERSION_AT].copy_from_slice(&MAGIC.to_be_bytes());
        head[VERSION_AT..LOG_AT].copy_from_slice(&VERSION.to_be_bytes());
        head[LOG_AT..LOG_AT + 2].copy_from_slice(&self.log.0.to_be_bytes());
        head[GENERATION_AT..RING_BYTES_AT].copy_from_slice(&self.generation.to_be_bytes());
        head[RING_BYTES_AT..CRC_AT].copy_from_slice(&self.ring_bytes.to_be_bytes());
        let crc = crc32fast::hash(&head[..CRC_AT]);
        head[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
        head
    }
}

/// What the ring of a log holds of which so many bytes may wait for their write.
pub(crate) fn ring_bytes(unwritten_bytes_max: u64) -> u64 {
    let block = BLOCK_BYTES as u64;
    BYTES_MAX.min(unwritten_bytes_max.next_multiple_of(block)).max(block)
}

/// The head, the end, and the ring of a file; `None` if it is no whole tail file.
pub(crate) fn decode(content: &[u8]) -> Option<(Head, u64, &[u8])> {
    let u64_at = |at: usize| Some(u64::from_be_bytes(*content.get(at..)?.first_chunk()?));
    let log = LogId(u16::from_be_bytes(*content.get(LOG_AT..)?.first_chunk()?));
    let head = Head { log, generation: u64_at(GENERATION_AT)?, ring_bytes: u64_at(RING_BYTES_AT)? };
    let ring = content.get(RING_AT..)?;
    let is_whole = content[..END_AT] == head.encode() && ring.len() as u64 == head.ring_bytes;
    is_whole.then_some((head, u64_at(END_AT)?, ring))
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::file::TempFolder;

    #[test]
    fn pages_are_made_ready_in_front_of_what_is_put() {
        for ring_bytes in [BLOCK_BYTES as u64, 3 * READY_BYTES] {
            let folder = TempFolder::new("tail-file");
            let head = Head { log: LogId(1), generation: 1, ring_bytes };
            let mut end = 12_345;
            let mut file = TailFile::create(&folder.path().join("tail"), head, end).expect("made");
            for step in (1..2000).map(|number| number * 7 % 9001) {
                end += step;
                while let Some(pages) = file.pages_ahead(end) {
                    pages.make_ready();
                }
                let in_front = file.ready - end;
                assert!(in_front >= file.ready_bytes() / 2 && in_front <= ring_bytes, "{in_front} ready at {end}");
            }
        }
    }
}
