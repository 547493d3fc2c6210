//! The checkpoint of a log: how far it is known to be durable, and how far its blocks may hold anything.
//!
//! One file of two slots. A write goes to the slot of the older generation, so a torn write leaves the other one; of
//! two valid slots the newer wins. A bad record below the durable mark is damage, above it is the torn tail.
//!
//! ```text
//! slot: u64 magic, u32 version, u16 log, u16 clean, u64 generation, u64 durable, u64 written limit,
//!       u64 segment bytes, u64 tail, u128 boot, u32 crc
//! ```

use std::path::Path;

use base::LogId;
use runtime::file;

use crate::boot::Boot;
use crate::disk;
use crate::error::{IoContext, StorageError};

const MAGIC: u64 = 0x524d_5143_4845_434b;
const VERSION: u32 = 2;
const SLOT_BYTES: usize = 4096;

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = MAGIC_AT + 8;
const LOG_AT: usize = VERSION_AT + 4;
const CLEAN_AT: usize = LOG_AT + 2;
const GENERATION_AT: usize = CLEAN_AT + 2;
const DURABLE_AT: usize = GENERATION_AT + 8;
const WRITTEN_LIMIT_AT: usize = DURABLE_AT + 8;
const SEGMENT_BYTES_AT: usize = WRITTEN_LIMIT_AT + 8;
const TAIL_AT: usize = SEGMENT_BYTES_AT + 8;
const BOOT_AT: usize = TAIL_AT + 8;
const CRC_AT: usize = BOOT_AT + 16;
const _: () = assert!(CRC_AT + 4 == 76);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) generation: u64,
    /// The end of a record, or 0: everything in front of it was made durable.
    pub(crate) durable: u64,
    /// No byte but zeros was ever written from here on.
    pub(crate) written_limit: u64,
    /// What all segments were made with.
    pub(crate) segment_bytes: u64,
    /// The generation of the tail file that the log is run with; 0: it has none.
    pub(crate) tail: u64,
    /// When the tail file was made.
    pub(crate) boot: Boot,
    /// The log was stopped in order and ends at `durable`.
    pub(crate) clean: bool,
}

impl Checkpoint {
    /// The newest valid slot; `None` when there is none, which is not an error: the log tells everything but marks.
    ///
    /// # Errors
    /// When it cannot be read, or is another log's. Then the records beside it may be another log's too, and what
    /// belongs to no log would be taken for a torn tail and erased.
    pub(crate) fn read(path: &Path, log: LogId) -> Result<Option<Checkpoint>, StorageError> {
        let Some(content) = file::read_whole(path).context("read", path)? else { return Ok(None) };
        let newest = content.chunks_exact(SLOT_BYTES).filter_map(decode).max_by_key(|(_, slot)| slot.generation);
        match newest {
            Some((found, _)) if found != log => {
                let what = format!(
                    "it belongs to log {found}, not to log {log}: put the folders of the logs where they were; if only \
                     this file is out of place, remove it"
                );
                Err(StorageError::Damaged { file: path.to_owned(), offset: None, what })
            }
            newest => Ok(newest.map(|(_, slot)| slot)),
        }
    }

    /// Blocks until the checkpoint is durable.
    pub(crate) fn write(&self, path: &Path, log: LogId) -> Result<(), StorageError> {
        let slot = (self.generation % 2) * SLOT_BYTES as u64;
        disk::write_part(path, slot, &encode(self, log)).context("write", path)
    }

    /// Writes the checkpoint past the page cache, without a flush of its own: the next flush of anything on the device
    /// makes it durable. Should it be lost, the one before it holds, and a start has more to scan.
    pub(crate) fn note(&self, path: &Path, log: LogId) -> Result<(), StorageError> {
        let slot = (self.generation % 2) * SLOT_BYTES as u64;
        file::overwrite_block(path, slot, &encode(self, log)).context("write", path)
    }
}

fn encode(checkpoint: &Checkpoint, log: LogId) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[MAGIC_AT..VERSION_AT].copy_from_slice(&MAGIC.to_be_bytes());
    slot[VERSION_AT..LOG_AT].copy_from_slice(&VERSION.to_be_bytes());
    slot[LOG_AT..CLEAN_AT].copy_from_slice(&log.0.to_be_bytes());
    slot[CLEAN_AT..GENERATION_AT].copy_from_slice(&u16::from(checkpoint.clean).to_be_bytes());
    slot[GENERATION_AT..DURABLE_AT].copy_from_slice(&checkpoint.generation.to_be_bytes());
    slot[DURABLE_AT..WRITTEN_LIMIT_AT].copy_from_slice(&checkpoint.durable.to_be_bytes());
    slot[WRITTEN_LIMIT_AT..SEGMENT_BYTES_AT].copy_from_slice(&checkpoint.written_limit.to_be_bytes());
    slot[SEGMENT_BYTES_AT..TAIL_AT].copy_from_slice(&checkpoint.segment_bytes.to_be_bytes());
    slot[TAIL_AT..BOOT_AT].copy_from_slice(&checkpoint.tail.to_be_bytes());
    slot[BOOT_AT..CRC_AT].copy_from_slice(&checkpoint.boot.0.to_be_bytes());
    let crc = crc32fast::hash(&slot[..CRC_AT]);
    slot[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
    slot
}

fn decode(slot: &[u8]) -> Option<(LogId, Checkpoint)> {
    let u64_at = |at: usize| u64::from_be_bytes(slot[at..at + 8].try_into().expect("eight bytes"));
    let u32_at = |at: usize| u32::from_be_bytes(slot[at..at + 4].try_into().expect("four bytes"));
    let u16_at = |at: usize| u16::from_be_bytes(slot[at..at + 2].try_into().expect("two bytes"));
    let valid = u64_at(MAGIC_AT) == MAGIC
        && u32_at(VERSION_AT) == VERSION
        && u32_at(CRC_AT) == crc32fast::hash(&slot[..CRC_AT]);
    let checkpoint = Checkpoint {
        generation: u64_at(GENERATION_AT),
        durable: u64_at(DURABLE_AT),
        written_limit: u64_at(WRITTEN_LIMIT_AT),
        segment_bytes: u64_at(SEGMENT_BYTES_AT),
        tail: u64_at(TAIL_AT),
        boot: Boot(u128::from_be_bytes(slot[BOOT_AT..CRC_AT].try_into().expect("sixteen bytes"))),
        clean: u16_at(CLEAN_AT) == 1,
    };
    valid.then(|| (LogId(u16_at(LOG_AT)), checkpoint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::file::TempFolder;

    #[test]
    fn the_newer_valid_slot_wins_and_a_torn_one_is_passed_over() {
        let folder = TempFolder::new("checkpoint");
        let path = folder.path().join("checkpoint");
        assert_eq!(Checkpoint::read(&path, LogId(1)).expect("no error"), None);
        for generation in 1..=3 {
            let durable = generation * 10;
            let (boot, clean) = (Boot(1 << 100), false);
            let checkpoint =
                Checkpoint { generation, durable, written_limit: 99, segment_bytes: 7, tail: 2, boot, clean };
            checkpoint.write(&path, LogId(1)).expect("written");
            assert_eq!(Checkpoint::read(&path, LogId(1)).expect("no error"), Some(checkpoint));
        }
        let whole = std::fs::read(&path).expect("read");
        for at in 0..CRC_AT + 4 {
            let mut torn = whole.clone();
            torn[SLOT_BYTES + at] ^= 0x10;
            std::fs::write(&path, &torn).expect("torn");
            let found = Checkpoint::read(&path, LogId(1)).expect("no error").expect("the older slot");
            assert_eq!(found.generation, 2, "byte {at}");
        }
        let refused = Checkpoint::read(&path, LogId(2)).expect_err("another log's").to_string();
        assert!(refused.contains("belongs to log 1, not to log 2"), "{refused}");
    }
}
