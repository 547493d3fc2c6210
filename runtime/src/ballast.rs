//! Space that a store keeps for the moments in which its disk is full: a start, a stop, cleaning and tables must write small
//! files.
//!
//! A file that holds nothing. Whoever finds the disk without space is lent some of it, in small pieces, and what was not
//! used is taken back at once: a table that is replaced needs its space twice for a moment only, and what others may take
//! in that moment is little. When the disk has room the file is made as long again as it was. Blocks; a store without it
//! works, but for those moments.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::file::{self, keep_in_place};

const NAME: &str = "ballast";
/// A file's own folder and so many above it are looked at for the ballast of its store.
const FOLDERS_ABOVE_MAX: usize = 2;

const BALLAST_BYTES: u64 = 16 << 20;
/// So much is lent at once.
const LOAN_BYTES: u64 = 1 << 20;
/// What is left of the ballast for tables.
const FOR_TABLES_BYTES: u64 = 4 << 20;
/// The ballast is made when so much is left.
const ROOM_BYTES: u64 = 4 * BALLAST_BYTES;

/// One is lent to at a time, or each would take back what another was lent.
static LENDING: Mutex<()> = Mutex::new(());

/// The ballast of a store.
#[derive(Clone, Debug)]
pub struct Ballast {
    root: PathBuf,
}

/// How much of the ballast is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lent {
    All,
    /// To those whose files can be made anew.
    ButForTables,
}

/// What was lent; taken back with the value.
#[derive(Debug)]
pub struct Loan {
    ballast: Ballast,
    bytes: u64,
}

impl Ballast {
    pub fn of(root: &Path) -> Ballast {
        Ballast { root: root.to_owned() }
    }

    /// Lends a piece if the disk is full.
    pub fn lend_if_full(&self) -> io::Result<Loan> {
        let bytes = self.bytes();
        if self.bytes_available()? < LOAN_BYTES {
            self.shorten(bytes.saturating_sub(LOAN_BYTES))?;
        }
        Ok(Loan { ballast: self.clone(), bytes })
    }

    /// Takes all of the space if the disk has room.
    pub fn keep_if_room(&self) -> io::Result<()> {
        if self.bytes() < BALLAST_BYTES && self.bytes_available()? >= ROOM_BYTES {
            let _lending = LENDING.lock().unwrap_or_else(PoisonError::into_inner);
            self.lengthen(BALLAST_BYTES)?;
        }
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.root.join(NAME)
    }

    /// 0 when it is not there.
    fn bytes(&self) -> u64 {
        fs::metadata(self.path()).map_or(0, |metadata| metadata.len())
    }

    fn bytes_available(&self) -> io::Result<u64> {
        Ok(file::space(&self.root)?.bytes_available)
    }

    fn shorten(&self, bytes: u64) -> io::Result<()> {
        if bytes < self.bytes() { File::options().write(true).open(self.path())?.set_len(bytes) } else { Ok(()) }
    }

    /// As far as there is space.
    fn lengthen(&self, limit: u64) -> io::Result<()> {
        let file = File::options().write(true).create(true).truncate(false).open(self.path())?;
        let mut bytes = file.metadata()?.len();
        if bytes == 0 {
            keep_in_place(&file);
        }
        while bytes < limit {
            let piece = LOAN_BYTES.min(limit - bytes);
            match file::reserve(&file, bytes, piece) {
                Ok(()) => bytes += piece,
                Err(error) => {
                    // The file system may have kept a part of it.
                    file.set_len(bytes)?;
                    return if error.kind() == io::ErrorKind::StorageFull { Ok(()) } else { Err(error) };
                }
            }
        }
        Ok(())
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // Less of it is still a ballast.
        let _ = self.ballast.lengthen(self.bytes);
    }
}

/// Writes a small file of a store. When it finds no space it is tried again with more and more of the ballast, which takes
/// back what is left of that.
///
/// # Errors
/// As `write`.
pub fn lend<T>(path: &Path, lent: Lent, mut write: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let is_full = |written: &io::Result<T>| {
        written.as_ref().is_err_and(|error: &io::Error| error.kind() == io::ErrorKind::StorageFull)
    };
    let mut written = write();
    if !is_full(&written) {
        return written;
    }
    let _lending = LENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut folders = path.ancestors().skip(1).take(1 + FOLDERS_ABOVE_MAX).map(Ballast::of);
    let Some(ballast) = folders.find(|ballast| ballast.bytes() > 0) else { return written };
    let kept_bytes = if lent == Lent::ButForTables { FOR_TABLES_BYTES } else { 0 };
    let loan = Loan { bytes: ballast.bytes(), ballast };
    let mut left = loan.bytes;
    while left > kept_bytes && is_full(&written) {
        left = left.saturating_sub(LOAN_BYTES).max(kept_bytes);
        loan.ballast.shorten(left)?;
        written = write();
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::TempFolder;

    fn full() -> io::Error {
        io::Error::from(io::ErrorKind::StorageFull)
    }

    #[test]
    fn it_is_kept_where_there_is_room_and_lent_for_as_long_as_it_is_needed() {
        let folder = TempFolder::new("ballast");
        let ballast = Ballast::of(folder.path());
        let table = folder.path().join("config/table.json");
        assert!(lend(&table, Lent::All, || Err::<(), _>(full())).is_err(), "there is none");
        for _ in 0..2 {
            ballast.keep_if_room().expect("kept");
            drop(ballast.lend_if_full().expect("there is room"));
            assert_eq!(ballast.bytes(), BALLAST_BYTES);
        }
        assert!(Ballast::of(&folder.path().join("missing")).keep_if_room().is_err());
        for (lent, kept_bytes) in [(Lent::All, 0), (Lent::ButForTables, FOR_TABLES_BYTES)] {
            let mut seen = Vec::new();
            let outcome = lend(&table, lent, || {
                seen.push(ballast.bytes());
                Err::<(), _>(full())
            });
            assert!(outcome.is_err());
            let left: Vec<u64> = (kept_bytes / LOAN_BYTES..=16).rev().map(|pieces| pieces * LOAN_BYTES).collect();
            assert_eq!((seen, ballast.bytes()), (left, BALLAST_BYTES));
            let with_one = lend(&table, lent, || if ballast.bytes() < BALLAST_BYTES { Ok(()) } else { Err(full()) });
            assert_eq!((with_one.is_ok(), ballast.bytes()), (true, BALLAST_BYTES));
        }
    }
}
