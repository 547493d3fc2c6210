//! Segments that were found shorter or longer than they were made, and got their length again: `ROOT/log-NN/resized.json`.
//!
//! What is added is zeros, so nothing else tells afterwards that something was cut off, how much, and when it was seen. It is
//! for people; no start needs it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::StorageError;
use crate::queue::table::{read_table, write_table};

/// Notes kept, the newest: a file system that cuts files may do so at each start.
const NOTES_MAX: usize = 100;

/// One such file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resized {
    pub file: String,
    pub bytes_found: u64,
    pub bytes_given: u64,
    pub seen_ms: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Notes {
    files: Vec<Resized>,
}

/// Adds notes, durably. Blocks.
pub(crate) fn note(path: &Path, files: &[Resized]) -> Result<(), StorageError> {
    if files.is_empty() {
        return Ok(());
    }
    let (mut notes, generation): (Notes, u64) = read_table(path)?;
    notes.files.extend_from_slice(files);
    notes.files.drain(..notes.files.len().saturating_sub(NOTES_MAX));
    match write_table(path, generation + 1, &notes) {
        // The start tells it all the same.
        Err(error) if error.is_full() => Ok(()),
        written => written,
    }
}

/// All notes, oldest first. Blocks.
pub(crate) fn read(path: &Path) -> Result<Vec<Resized>, StorageError> {
    read_table(path).map(|(notes, _): (Notes, u64)| notes.files)
}
