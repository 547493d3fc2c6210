//! Why a store cannot be taken over, told with the cure.

use std::io;
use std::path::{Path, PathBuf};

use storage::StorageError;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum ImportError {
    /// The source is not what can be taken over.
    #[error("{0}")]
    Source(String),
    /// The place for the new store cannot be used.
    #[error("{0}")]
    Target(String),
    #[error("cannot {operation} {file}: {source}{cure}", file = file.display(), cure = cure_of(source))]
    Io { operation: &'static str, file: PathBuf, source: io::Error },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

fn cure_of(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (run it as the user who owns the files)",
        io::ErrorKind::StorageFull => " (free space there, or import to another disk: it takes as much as the source)",
        _ => "",
    }
}

/// Adds operation and file to the errors of a call.
pub(crate) trait IoContext<T> {
    fn context(self, operation: &'static str, file: &Path) -> Result<T, ImportError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, operation: &'static str, file: &Path) -> Result<T, ImportError> {
        self.map_err(|source| ImportError::Io { operation, file: file.to_owned(), source })
    }
}
