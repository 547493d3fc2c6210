//! Small durable tables: a text that is replaced as a whole and survives a crash at any instant.
//!
//! A file holds one line `ringmq-table 1 GENERATION CRC32 BYTES`, then the text. The newest generation is `NAME`, the
//! one before it `NAME.bak`, and the one that is being written `NAME.new`. A reader takes the newest that is whole: what
//! was written survives the end of the process at once, and a loss of power when the disk has taken it, which may be seconds
//! later on a busy one. When files are there but none is whole, that is damage and an error, never an empty table.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::ballast;
use crate::file::{read_whole, sync_folder};

const MAGIC: &str = "ringmq-table 1";

/// A table's text with its generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub generation: u64,
    pub text: String,
    /// Set when the newest file was damaged and this is the generation before it.
    pub fell_back: bool,
}

/// Reads a table; `None` when it was never written.
pub fn read(path: &Path) -> io::Result<Option<Stored>> {
    let settled = read_settled(path)?;
    let fresh = read_one(&fresh_path(path)).ok().flatten();
    Ok(match fresh {
        Some(fresh) if settled.as_ref().is_none_or(|settled| settled.generation < fresh.generation) => Some(fresh),
        _ => settled,
    })
}

/// Whether a table was ever written here, be it whole or not.
pub fn is_there(path: &Path) -> bool {
    [path, &backup_path(path), &fresh_path(path)].iter().any(|path| path.exists())
}

/// The newest generation that was not being written any more.
fn read_settled(path: &Path) -> io::Result<Option<Stored>> {
    match (read_one(path), read_one(&backup_path(path))) {
        (Ok(Some(newest)), _) => Ok(Some(newest)),
        (Ok(None), Ok(None)) => Ok(None),
        (_, Ok(Some(stored))) => Ok(Some(Stored { fell_back: true, ..stored })),
        (Err(error), _) | (Ok(None), Err(error)) => Err(error),
    }
}

/// Replaces a table. When this returns, the new text survives a loss of power. On a full disk the store's ballast is spent.
pub fn write(path: &Path, generation: u64, text: &str) -> io::Result<()> {
    match write_once(path, generation, text) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull && ballast::spend_for(path) => {
            write_once(path, generation, text)
        }
        outcome => outcome,
    }
}

fn write_once(path: &Path, generation: u64, text: &str) -> io::Result<()> {
    let folder = path.parent().expect("a table lies in a folder");
    fs::create_dir_all(folder)?;
    let fresh = fresh_path(path);
    if let Ok(Some(left)) = read_one(&fresh)
        && let Ok(settled) = read_settled(path)
        && settled.is_none_or(|settled| settled.generation < left.generation)
    {
        // It was read as the newest, and stays so until the next is whole.
        settle(path)?;
    }
    let mut file = File::create(&fresh).map_err(|error| of_file(&fresh, &error))?;
    let crc = crc32fast::hash(text.as_bytes());
    file.write_all(format!("{MAGIC} {generation} {crc:08X} {}\n", text.len()).as_bytes())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    settle(path)?;
    sync_folder(folder)
}

/// Makes what was being written the newest generation. Only a whole table may become the backup.
fn settle(path: &Path) -> io::Result<()> {
    let backup = backup_path(path);
    if let Ok(Some(_)) = read_one(path) {
        fs::rename(path, &backup).map_err(|error| of_file(&backup, &error))?;
    }
    fs::rename(fresh_path(path), path).map_err(|error| of_file(path, &error))
}

/// Tells which of a table's files it is about.
fn of_file(path: &Path, error: &io::Error) -> io::Error {
    let cure = if path.is_dir() { "; a folder is where the file belongs: move it away" } else { "" };
    io::Error::new(error.kind(), format!("{}: {error}{cure}", path.display()))
}

fn fresh_path(path: &Path) -> PathBuf {
    path.with_extension("new")
}

fn backup_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".bak");
    PathBuf::from(name)
}

fn read_one(path: &Path) -> io::Result<Option<Stored>> {
    let Some(bytes) = read_whole(path)? else { return Ok(None) };
    parse(&bytes).map(Some).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged: its checksum does not fit", path.display()))
    })
}

fn parse(bytes: &[u8]) -> Option<Stored> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?.strip_prefix(MAGIC)?;
    let mut words = head.split_ascii_whitespace();
    let generation = words.next()?.parse().ok()?;
    let crc = u32::from_str_radix(words.next()?, 16).ok()?;
    let length: usize = words.next()?.parse().ok()?;
    let text = bytes.get(end + 1..)?;
    (text.len() == length && crc32fast::hash(text) == crc)
        .then(|| Some(Stored { generation, text: String::from_utf8(text.to_vec()).ok()?, fell_back: false }))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::TempFolder;

    #[test]
    fn the_newest_whole_generation_is_read() {
        let folder = TempFolder::new("table");
        let path = folder.path().join("t.json");
        assert_eq!(read(&path).expect("no error"), None);
        write(&path, 1, "one").expect("written");
        write(&path, 2, "two").expect("written");
        let stored = read(&path).expect("no error").expect("there");
        assert_eq!((stored.generation, stored.text.as_str(), stored.fell_back), (2, "two", false));
        let whole = fs::read(&path).expect("read");
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).expect("cut");
            let stored = read(&path).expect("no error").expect("the generation before");
            assert_eq!((stored.generation, stored.fell_back), (1, true), "cut at {cut}");
        }
        fs::remove_file(&path).expect("a crash between the two renames");
        assert_eq!(read(&path).expect("no error").expect("the generation before").generation, 1);
        fs::write(&path, "nonsense").expect("damaged");
        fs::remove_file(backup_path(&path)).expect("removed");
        assert!(read(&path).is_err(), "a damaged table is not an empty one");
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_folder_in_the_place_of_a_file_is_named() {
        for name in ["t.new", "t.json.bak"] {
            let folder = TempFolder::new("table");
            let path = folder.path().join("t.json");
            assert!(!is_there(&path));
            write(&path, 1, "one").expect("written");
            fs::create_dir(folder.path().join(name)).expect("made");
            let error = write(&path, 2, "two").expect_err("it cannot be written").to_string();
            assert!(error.contains(name) && error.contains("move it away"), "{error}");
            assert!(is_there(&path));
        }
    }

    /// The process ends while the disk has not taken the newest generation yet.
    #[test]
    fn a_generation_that_was_being_written_counts_if_it_is_whole() {
        let folder = TempFolder::new("table");
        let (path, other) = (folder.path().join("t.json"), folder.path().join("o.json"));
        write(&other, 2, "two").expect("written");
        let two = fs::read(&other).expect("read");
        let read = || read(&path).expect("no error").map(|stored| (stored.generation, stored.fell_back));
        fs::write(fresh_path(&path), &two).expect("written");
        assert_eq!(read(), Some((2, false)), "the first one");
        write(&path, 1, "one").expect("written");
        fs::write(fresh_path(&path), &two[..two.len() - 1]).expect("torn");
        assert_eq!(read(), Some((1, false)));
        fs::write(fresh_path(&path), &two).expect("written");
        assert_eq!(read(), Some((2, false)));
        write(&path, 3, "three").expect("written");
        assert_eq!(read_one(&backup_path(&path)).expect("whole").map(|stored| stored.generation), Some(2));
        fs::write(fresh_path(&path), &two).expect("an old one");
        assert_eq!(read(), Some((3, false)));
    }
}
