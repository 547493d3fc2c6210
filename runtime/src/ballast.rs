//! Space that a store keeps for the moments in which its disk is full: a start, a stop, cleaning and tables must write small
//! files.
//!
//! A file that holds nothing. It is given back when one of those finds the disk without space, and made again when there is
//! some. Blocks; a store without it works, but for those moments.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::file::{self, DirectFile};

const NAME: &str = "ballast";
/// A file's own folder and so many above it are looked at for the ballast of its store.
const FOLDERS_ABOVE_MAX: usize = 2;

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
    pub fn of(root: &Path) -> Ballast {
        Ballast { root: root.to_owned() }
    }

    /// Gives the space back if the disk is full.
    pub fn give_back_if_full(&self) -> io::Result<()> {
        if self.bytes_available()? < FULL_BYTES { remove(&self.path()).map(|_| ()) } else { Ok(()) }
    }

    /// Takes the space again if the disk has room.
    pub fn keep_if_room(&self) -> io::Result<()> {
        let path = self.path();
        if path.exists() || self.bytes_available()? < ROOM_BYTES {
            return Ok(());
        }
        match DirectFile::create(&path, BALLAST_BYTES) {
            // Somebody was faster.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => remove(&path).map(|_| ()),
            outcome => outcome.map(|_| ()),
        }
    }

    fn path(&self) -> PathBuf {
        self.root.join(NAME)
    }

    fn bytes_available(&self) -> io::Result<u64> {
        Ok(file::space(&self.root)?.bytes_available)
    }
}

/// Gives back the ballast of the store that a file belongs to, which finds no space. False when there is none.
pub(crate) fn spend_for(path: &Path) -> bool {
    let folders = path.ancestors().skip(1).take(1 + FOLDERS_ABOVE_MAX);
    let mut spent = folders.map(|folder| remove(&folder.join(NAME)));
    spent.any(|spent| matches!(spent, Ok(true)))
}

/// Whether there was such a file.
fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::TempFolder;

    #[test]
    fn it_is_kept_once_where_there_is_room() {
        let folder = TempFolder::new("ballast");
        let ballast = Ballast::of(folder.path());
        for _ in 0..2 {
            ballast.keep_if_room().expect("kept");
            ballast.give_back_if_full().expect("there is room");
            assert_eq!(fs::metadata(ballast.path()).expect("there").len(), BALLAST_BYTES);
        }
        assert!(Ballast::of(&folder.path().join("missing")).keep_if_room().is_err());
        let table = folder.path().join("config/table.json");
        assert_eq!((spend_for(&table), ballast.path().exists(), spend_for(&table)), (true, false, false));
    }
}
