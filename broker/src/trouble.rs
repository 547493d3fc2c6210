//! What can go wrong where a log is read and appended to in one go.

use storage::{AppendError, StorageError};

use crate::call::Refusal;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Read(#[from] StorageError),
    #[error(transparent)]
    Append(#[from] AppendError),
    /// Another log takes nothing.
    #[error("{}", .0.remark)]
    Refused(Refusal),
}
