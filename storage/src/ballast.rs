//! Space that a store keeps for the moments in which its disk is full: a start, a stop and cleaning must write small files.
//!
//! A file that holds nothing. It is given back when one of those finds the disk without space, and made again when there is
//! some. Blocks; a store without it works, but for those moments.

use std::path::{Path, PathBuf};

use runtime::file::{self, DirectFile};

use crate::disk;
use crate::error::{IoContext, StorageError};

const BALLAST_BYTES: u64 = 16 << 20;
/// With less than this left the disk counts as full.
const FULL_BYTES: u64 = BALLAST_BYTES;
/// The ballast is made when so much is left.
const ROOM_BYTES: u64 = 4 * BALLAST_BYTES;

/// The ballast of a store.
#[derive(Clone, Debug)]
pub struct Ballast {
    root: PathBuf,
}

impl Ballast {
    pub(crate) fn of(root: &Path) -> Ballast {
        Ballast { root: root.to_owned() }
    }

    /// Gives the space back if the disk is full.
    pub fn give_back_if_full(&self) -> Result<(), StorageError> {
        if self.bytes_available()? < FULL_BYTES { disk::remove(&self.path()) } else { Ok(()) }
    }

    /// Takes the space again if the disk has room.
    pub fn keep_if_room(&self) -> Result<(), StorageError> {
        let path = self.path();
        if path.exists() || self.bytes_available()? < ROOM_BYTES {
            return Ok(());
        }
        match DirectFile::create(&path, BALLAST_BYTES).context("reserve space in", &path) {
            // Somebody was faster.
            Err(error) if error.is_full() => disk::remove(&path),
            outcome => outcome.map(|_| ()),
        }
    }

    fn path(&self) -> PathBuf {
        self.root.join("ballast")
    }

    fn bytes_available(&self) -> Result<u64, StorageError> {
        Ok(file::space(&self.root).context("look at", &self.root)?.bytes_available)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::file::TempFolder;

    #[test]
    fn it_is_kept_once_where_there_is_room() {
        let folder = TempFolder::new("ballast");
        let ballast = Ballast::of(folder.path());
        for _ in 0..2 {
            ballast.keep_if_room().expect("kept");
            ballast.give_back_if_full().expect("there is room");
            assert_eq!(std::fs::metadata(ballast.path()).expect("there").len(), BALLAST_BYTES);
        }
        assert!(Ballast::of(&folder.path().join("missing")).keep_if_room().is_err());
    }
}
