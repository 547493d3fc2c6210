//! Which store a folder of a log belongs to: a number that is drawn when the store is made, and that lies in `store.json` and
//! in each folder of each log. So the folders of one store are not taken for another's, however the configuration names them.
//!
//! Blocks.

use std::path::Path;

use runtime::file::read_whole;

use crate::disk;
use crate::error::{IoContext, StorageError};

/// The file with it, in each folder.
const FILE: &str = "store-id";

/// A new one: nobody has had it.
pub(crate) fn draw() -> Result<String, StorageError> {
    let source = Path::new("/proc/sys/kernel/random/uuid");
    std::fs::read_to_string(source).map(|id| id.trim().to_owned()).context("read", source)
}

/// Refuses a folder that another store has, and marks one that nobody has. Stores of earlier programs have no marks.
///
/// # Errors
/// When it is another store's, or cannot be marked.
pub(crate) fn settle(folder: &Path, id: &str) -> Result<(), StorageError> {
    let path = folder.join(FILE);
    let Some(found) = read_whole(&path).context("read", &path)? else {
        return match disk::write_whole(&path, id.as_bytes()) {
            // On a full disk nothing hangs on it: the next start does it.
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => Ok(()),
            written => written.context("write", &path),
        };
    };
    let found = String::from_utf8_lossy(&found);
    if found.trim() == id {
        return Ok(());
    }
    let what = format!(
        "the folder belongs to store {:.40}, not to store {id}: name the folders of one store (storePathRootDir, \
         storePathCommitLog); if its messages are to be this store's, remove this file",
        found.trim()
    );
    Err(StorageError::Damaged { file: path, offset: None, what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::file::TempFolder;

    #[test]
    fn a_folder_belongs_to_the_store_that_came_first() {
        let folder = TempFolder::new("identity");
        let (mine, other) = (draw().expect("drawn"), draw().expect("drawn"));
        assert_ne!(mine, other);
        settle(folder.path(), &mine).expect("nobody's");
        settle(folder.path(), &mine).expect("mine");
        let refused = settle(folder.path(), &other).expect_err("another's").to_string();
        assert!(refused.contains(&format!("belongs to store {mine}, not to store {other}")), "{refused}");
    }
}
