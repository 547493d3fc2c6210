//! What can be wrong with a store, told with its cause and its cure.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

/// A failure of the store. Cheap to clone: the first failure of a log is handed to all who wait.
#[derive(Clone, Debug, Error)]
pub enum StorageError {
    #[error("cannot {operation} {file}{offset}: {source}{cure}", file = file.display(), offset = At(*offset), cure = cure_of(source))]
    Io { operation: &'static str, file: PathBuf, offset: Option<u64>, source: Arc<io::Error> },
    #[error("the store {root} is in use by another process, which holds {file}: stop it, or give this one another folder", root = root.display(), file = file.display())]
    Locked { root: PathBuf, file: PathBuf },
    #[error("the store {root} was made with {found} logs and cannot be opened with {wanted}: leave the number out, or make a new store", root = root.display())]
    LogCount { root: PathBuf, found: u16, wanted: u16 },
    #[error("{file} has format version {found}, this program knows up to {known}: use the program that wrote it, or a newer one", file = file.display())]
    FormatVersion { file: PathBuf, found: u32, known: u32 },
    #[error("{file} has {found} bytes, but segments are configured to have {wanted}: set mappedFileSizeCommitLog={found}, or use a new store", file = file.display())]
    SegmentBytes { file: PathBuf, found: u64, wanted: u64 },
    #[error("{file} is damaged{offset}: {what}", file = file.display(), offset = At(*offset))]
    Damaged { file: PathBuf, offset: Option<u64>, what: String },
    #[error("{what}")]
    Options { what: String },
    #[error("log {log} is stopped")]
    Stopped { log: u16 },
}

struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |offset| write!(out, " at {offset}"))
    }
}

fn cure_of(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (give this user write permission there, or choose another folder)",
        io::ErrorKind::StorageFull => " (free space on that disk; sends resume by themselves)",
        io::ErrorKind::IsADirectory => " (a folder is where the file belongs: move it away)",
        io::ErrorKind::NotADirectory => " (a file is where a folder belongs: move it away)",
        io::ErrorKind::ReadOnlyFilesystem => " (mount it writable, or choose another folder)",
        _ => "",
    }
}

impl StorageError {
    pub(crate) fn io(operation: &'static str, file: &Path, source: io::Error) -> StorageError {
        StorageError::Io { operation, file: file.to_owned(), offset: None, source: Arc::new(source) }
    }

    pub(crate) fn io_at(operation: &'static str, file: &Path, offset: u64, source: io::Error) -> StorageError {
        StorageError::Io { operation, file: file.to_owned(), offset: Some(offset), source: Arc::new(source) }
    }

    /// Whether the cause is a full disk.
    pub fn is_full(&self) -> bool {
        matches!(self, StorageError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }

    /// Whether the cause is that this user may not do it.
    pub fn is_about_permission(&self) -> bool {
        let kinds = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
        matches!(self, StorageError::Io { source, .. } if kinds.contains(&source.kind()))
    }
}

/// Adds operation and file to the errors of a call.
pub(crate) trait IoContext<T> {
    fn context(self, operation: &'static str, file: &Path) -> Result<T, StorageError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, operation: &'static str, file: &Path) -> Result<T, StorageError> {
        self.map_err(|source| StorageError::io(operation, file, source))
    }
}

/// Why a record was not accepted. Nothing has changed then.
#[derive(Clone, Debug, Error)]
pub enum AppendError {
    /// Wait for `Log::room` and try again.
    #[error("{0}")]
    Busy(BusyCause),
    /// The disk is full. Preparation is retried each second, and appends succeed again once it worked.
    #[error(
        "the disk of {folder} is full: a segment of {segment_bytes} bytes is needed and {available_bytes} bytes are available; \
         {left_bytes} bytes are left in the last one: free space there, sends resume by themselves",
        folder = folder.display()
    )]
    Full { folder: PathBuf, segment_bytes: u64, available_bytes: u64, left_bytes: u64 },
    #[error("a record of {record_bytes} bytes does not fit into a segment of {segment_bytes} bytes")]
    TooLarge { record_bytes: u64, segment_bytes: u64 },
    #[error("the log has failed: {0}")]
    Failed(StorageError),
    #[error("the log is stopped")]
    Stopped,
}

/// What a log that is too busy for a record is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BusyCause {
    #[error("{unwritten_bytes} bytes wait to be written, and no more than {limit_bytes} may")]
    Writes { unwritten_bytes: u64, limit_bytes: u64 },
    #[error("the next segment of {segment_bytes} bytes is still being made")]
    NextSegment { segment_bytes: u64 },
}
