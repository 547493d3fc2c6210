//! Small durable tables: a text that is replaced as a whole, or added to, and survives a crash at any instant.
//!
//! A file holds one line `ringmq-table 2 GENERATION CRC32 BYTES ROOM`, then the text of so many bytes, then what ROOM counts.
//! The checksum covers the numbers and the text. The newest generation is `NAME`, the one before it `NAME.bak`, the one that
//! is being written `NAME.new`, and the last one that was damaged `NAME.damaged`. A reader takes the newest that is whole:
//! what was written survives the end of the process at once, and a loss of power when the disk has taken it, which may be
//! seconds later on a busy one. When files are there but none is whole, that is damage and an error, never an empty table.
//! (In files of version 1 the checksum covers the text alone, and ROOM is not there.)
//!
//! Behind the text may come changes, each a line break, `CRC32 NUMBER CHANGE` and CR, numbered from 1. More line breaks are
//! room that was written before it was needed, since a flush of 200 bytes then takes 0.1 ms, where one that makes the file
//! longer took 0.5 to 2.7 ms, and a replacement of a small table 4 ms. ROOM counts the bytes of both that were written with
//! the text, so a file that ends in front of them was cut. What a change means is the caller's.
//!
//! What a crash left of a change is passed over, since nobody was told of that change. All else that is not whole, or that
//! the numbers miss, is damage, which a reader is told of. What a crash leaves is known by this:
//!
//! - Only the last change can be half. The disk takes its sectors in any order, and one that it did not take is room still,
//!   while no change contains a line break. So whole sectors are missing: in front, in between, or behind, where the change
//!   stops at the end of a sector without its CR.
//! - Room that was being made may be short, or zeros, but has no change in it yet: each waits until its room is flushed.
//!
//! Only when the last changes are gone without a trace, with room in their place, nobody can tell.

use std::fs::{self, File};
use std::io::{self, Write};
use std::iter;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::ballast::{self, Lent};
use crate::file::{read_whole, sync_folder};

const MAGIC: &str = "ringmq-table ";
/// No table comes to it: a file that has it is damaged.
const GENERATION_LIMIT: u64 = 1 << 63;
/// Room for changes is made in such steps.
const ROOM_BYTES: usize = 64 << 10;
/// What a disk takes as a whole or not at all; larger sectors are made of it.
const SECTOR_BYTES: usize = 512;
/// Ends a change and is in none, so that the end of one is known.
const END: char = '\r';
/// A table is replaced when its changes have outgrown its text, and are more than so much.
const CHANGES_BYTES_MIN: u64 = 256 << 10;

const DAMAGED: &str = "it is damaged, the checksum does not fit";

/// A table's text with its generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    pub generation: u64,
    pub text: String,
    /// What came to the text, in order.
    pub changes: Vec<String>,
    /// Set when the newest file was damaged: this is the generation before it with its changes, or lacks a change.
    pub fell_back: bool,
}

/// The one who writes a table. All of it blocks.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    generation: u64,
    /// Of the newest generation, if this writer made it. A table of before may end with half a change.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// The next change's.
    number: u64,
    /// Where the next change goes, and where the room for changes ends.
    next: u64,
    limit: u64,
    /// From here on the table is to be replaced.
    full: u64,
}

impl Writer {
    /// `generation` is that of the newest file, 0 without one.
    pub fn new(path: PathBuf, generation: u64) -> Writer {
        Writer { path, generation, open: None }
    }

    /// Whether a change can be added. If not, the table must be replaced by one that has the change.
    pub fn can_add(&self) -> bool {
        self.open.is_some()
    }

    /// Whether the table has grown so much by changes that it is to be replaced, which costs as much as there is in it.
    pub fn is_full(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.next >= open.full)
    }

    /// Replaces the table, as [`write`] does, with room for changes.
    ///
    /// # Errors
    /// When it cannot be written; the table before it is still there.
    pub fn replace(&mut self, text: &str) -> io::Result<()> {
        self.open = None;
        write_content(&self.path, &content(self.generation + 1, text, &[], ROOM_BYTES))?;
        self.generation += 1;
        let file = File::options().write(true).open(&self.path).map_err(|error| of_file(&self.path, &error))?;
        let limit = file.metadata()?.len();
        let next = limit - ROOM_BYTES as u64;
        self.open = Some(Open { file, number: 1, next, limit, full: next + CHANGES_BYTES_MIN.max(text.len() as u64) });
        Ok(())
    }

    /// Adds a change, a text without line breaks. When this returns, it survives a loss of power.
    ///
    /// # Errors
    /// When it cannot be written. The table must be replaced then.
    ///
    /// # Panics
    /// When no change can be added.
    pub fn add(&mut self, change: &str) -> io::Result<()> {
        assert!(!change.contains(['\0', '\n', END]), "a change is one line: {change:?}");
        let mut open = self.open.take().expect("the table was replaced before");
        let line = change_line(open.number, change);
        ballast::lend(&self.path, Lent::All, || open.write(line.as_bytes()))
            .map_err(|error| of_file(&self.path, &error))?;
        self.open = Some(open);
        Ok(())
    }
}

impl Open {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let end = self.next + line.len() as u64;
        let mut limit = self.limit;
        while limit < end {
            self.file.write_all_at(&[b'\n'; ROOM_BYTES], limit)?;
            limit += ROOM_BYTES as u64;
        }
        if self.limit < limit {
            self.file.sync_data()?;
            self.limit = limit;
        }
        let written = self.file.write_all_at(line, self.next).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // It is refused, so nobody may find it: it is room again.
            let _ = self.file.write_all_at(&vec![b'\n'; line.len()], self.next);
        }
        written?;
        self.number += 1;
        self.next = end;
        Ok(())
    }
}

/// Reads a table; `None` when it was never written.
///
/// # Errors
/// When it cannot be read, or files are there and none is whole. They don't name the path, but tell of it.
pub fn read(path: &Path) -> io::Result<Option<Stored>> {
    let settled = read_settled(path)?;
    Ok(newer(path, settled.as_ref()).or(settled))
}

/// What was being written, if it is whole and newer. If it is half, nobody was told of it, and it is no damage.
fn newer(path: &Path, settled: Option<&Stored>) -> Option<Stored> {
    let fresh = read_one(&fresh_path(path)).ok().flatten()?;
    (!fresh.fell_back && settled.is_none_or(|settled| settled.generation < fresh.generation)).then_some(fresh)
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
        (_, Ok(Some(mut stored))) => {
            // The damage may be in the text alone.
            stored.changes.extend(parse_changes(&read_whole(path)?.unwrap_or_default(), 0, 0).0);
            Ok(Some(Stored { fell_back: true, ..stored }))
        }
        (Err(error), Ok(None)) => Err(error),
        (Err(error), Err(of_backup)) => Err(io::Error::new(error.kind(), format!("{error}; its .bak: {of_backup}"))),
        (Ok(None), Err(error)) => Err(io::Error::new(error.kind(), format!("it is not there; its .bak: {error}"))),
    }
}

/// Replaces a table. When this returns, the new text survives a loss of power. A full disk has the store's ballast.
pub fn write(path: &Path, generation: u64, text: &str) -> io::Result<()> {
    write_content(path, &content(generation, text, &[], 0))
}

/// Makes what stands in for a damaged table its newest generation, so that the damage is told once. Where the damaged file
/// lies then, if there was one.
///
/// # Errors
/// When it cannot be written; what is read is the same then.
pub fn restore(path: &Path, stored: &mut Stored) -> io::Result<Option<PathBuf>> {
    let room = if stored.changes.is_empty() { 0 } else { ROOM_BYTES };
    let is_there = path.exists();
    write_content(path, &content(stored.generation + 1, &stored.text, &stored.changes, room))?;
    stored.generation += 1;
    Ok(is_there.then(|| damaged_path(path)))
}

/// What is said of a restored table.
pub fn told_of_restored(path: &Path, damaged: Option<&Path>, content: &str) -> String {
    let kept = damaged.map(|damaged| format!("; the damaged file is kept as {}", damaged.display()));
    format!(
        "{} was damaged or missing: it was made anew of what is left of it and of the one before it, so changes of {content} \
         may be lost{}",
        path.display(),
        kept.unwrap_or_default()
    )
}

/// A whole file: the changes are there already, and `room` bytes at least are for them and others.
fn content(generation: u64, text: &str, changes: &[String], room: usize) -> Vec<u8> {
    let mut behind: String = (1..).zip(changes).map(|(number, change)| change_line(number, change)).collect();
    let room = behind.len().next_multiple_of(ROOM_BYTES).max(room);
    behind.extend(iter::repeat_n('\n', room - behind.len()));
    let (generation, bytes, room) = (generation.to_string(), text.len().to_string(), room.to_string());
    let crc = checksum([&generation, &bytes, &room], text.as_bytes());
    [&format!("{MAGIC}2 {generation} {crc:08X} {bytes} {room}\n"), text, &behind].concat().into_bytes()
}

fn checksum(numbers: [&str; 3], text: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(numbers.join(" ").as_bytes());
    hasher.update(text);
    hasher.finalize()
}

fn change_line(number: u64, change: &str) -> String {
    let numbered = format!("{number} {change}");
    format!("\n{:08X} {numbered}{END}", crc32fast::hash(numbered.as_bytes()))
}

fn write_content(path: &Path, content: &[u8]) -> io::Result<()> {
    ballast::lend(path, Lent::All, || write_once(path, content))
}

fn write_once(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().expect("a table lies in a folder");
    fs::create_dir_all(folder)?;
    if let Ok(settled) = read_settled(path)
        && newer(path, settled.as_ref()).is_some()
    {
        // It was read as the newest, and stays so until the next is whole.
        settle(path)?;
    }
    let fresh = fresh_path(path);
    let written = write_fresh(&fresh, content).and_then(|()| settle(path));
    if written.is_err() && (path.exists() || !backup_path(path).exists()) {
        // Whoever reads it would find what is refused now.
        let _ = fs::remove_file(&fresh);
    }
    written?;
    sync_folder(folder)
}

fn write_fresh(fresh: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(fresh).map_err(|error| of_file(fresh, &error))?;
    file.write_all(content)?;
    file.sync_all()
}

/// Makes what was being written the newest generation. Only a whole table may become the backup; one with damage is kept.
fn settle(path: &Path) -> io::Result<()> {
    let (backup, damaged) = (backup_path(path), damaged_path(path));
    match read_one(path) {
        Ok(Some(newest)) => {
            if newest.fell_back {
                keep_as(path, &damaged).map_err(|error| of_file(&damaged, &error))?;
            }
            fs::rename(path, &backup).map_err(|error| of_file(&backup, &error))?;
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            fs::rename(path, &damaged).map_err(|error| of_file(&damaged, &error))?;
        }
        _ => {}
    }
    fs::rename(fresh_path(path), path).map_err(|error| of_file(path, &error))
}

/// Gives a file a second name, which takes no space.
fn keep_as(path: &Path, name: &Path) -> io::Result<()> {
    match fs::remove_file(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::hard_link(path, name),
    }
}

/// Tells which of a table's files it is about.
fn of_file(path: &Path, error: &io::Error) -> io::Error {
    let cure = if path.is_dir() { "; a folder is where the file belongs: move it away" } else { "" };
    io::Error::new(error.kind(), format!("{}: {error}{cure}", path.display()))
}

fn fresh_path(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Where the generation before lies.
pub fn backup_path(path: &Path) -> PathBuf {
    with_ending(path, ".bak")
}

/// Where the last generation lies that was damaged and has been replaced.
pub fn damaged_path(path: &Path) -> PathBuf {
    with_ending(path, ".damaged")
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn read_one(path: &Path) -> io::Result<Option<Stored>> {
    let Some(bytes) = read_whole(path)? else { return Ok(None) };
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, DAMAGED);
    parse(&bytes).map(Some).ok_or_else(damaged)
}

fn parse(bytes: &[u8]) -> Option<Stored> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?.strip_prefix(MAGIC)?;
    let words: Vec<&str> = head.split(' ').collect();
    let [version, generation, crc, bytes_of_text, ref rest @ ..] = words[..] else { return None };
    let length: usize = bytes_of_text.parse().ok()?;
    let (text, _) = bytes[end + 1..].split_at_checked(length)?;
    let (found, room) = match (version, rest) {
        ("1", []) => (crc32fast::hash(text), "0"),
        ("2", [room]) => (checksum([generation, bytes_of_text, room], text), *room),
        _ => return None,
    };
    if found != u32::from_str_radix(crc, 16).ok()? {
        return None;
    }
    let generation = generation.parse().ok().filter(|generation| *generation < GENERATION_LIMIT)?;
    let (changes, fell_back) = parse_changes(bytes, end + 1 + length, room.parse().ok()?);
    Some(Stored { generation, text: String::from_utf8(text.to_vec()).ok()?, changes, fell_back })
}

/// The changes in a file whose text ends at `start` and was written with so many bytes behind it, and whether there is
/// damage.
fn parse_changes(file: &[u8], start: usize, room: u32) -> (Vec<String>, bool) {
    let mut changes = Vec::new();
    let (mut line_start, mut whole_limit, mut is_damaged) = (start, start, false);
    for line in file[start..].split(|byte| *byte == b'\n') {
        let line_limit = line_start + line.len();
        if let Some((number, change)) = parse_change(line) {
            changes.push(change);
            is_damaged |= number != changes.len();
            whole_limit = line_limit;
        }
        line_start = line_limit + 1;
    }
    (changes, is_damaged || !is_of_crash(file, start + room as usize, start, whole_limit))
}

/// A change with its number. It is whole whatever became of its CR.
fn parse_change(line: &[u8]) -> Option<(usize, String)> {
    let (_, line) = line.split_last()?;
    let (crc, numbered) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let is_whole = u32::from_str_radix(crc, 16).ok()? == crc32fast::hash(numbered.as_bytes());
    let (number, change) = numbered.split_once(' ')?;
    is_whole.then_some((number.parse().ok()?, change.to_owned()))
}

/// Whether what lies behind the last whole change, from `start` on, is room, or what a crash leaves of one more change.
fn is_of_crash(file: &[u8], room_limit: usize, text_limit: usize, start: usize) -> bool {
    let flushed_limit = room_limit.max(text_limit + (start - text_limit).next_multiple_of(ROOM_BYTES));
    let Some(unflushed) = file.get(flushed_limit..) else { return false };
    let is_unused = is_room(&file[start..flushed_limit]) && unflushed.iter().all(|byte| matches!(byte, 0 | b'\n'));
    is_unused || is_half_change(file, start)
}

fn is_half_change(file: &[u8], start: usize) -> bool {
    let Some(rest) = file[start..].strip_prefix(b"\n") else { return false };
    let bytes = rest.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
    let (change, limit) = (&rest[..bytes], start + 1 + bytes);
    let (first, others) = change.split_at(bytes.min(SECTOR_BYTES - (start + 1) % SECTOR_BYTES));
    let mut sectors = iter::once(first).chain(others.chunks(SECTOR_BYTES));
    let is_as_written = |sector: &[u8]| !sector.iter().any(|byte| matches!(byte, 0 | b'\n'));
    let lacks_end = limit.is_multiple_of(SECTOR_BYTES) && !change.contains(&(END as u8));
    sectors.clone().all(|sector| is_room(sector) || is_as_written(sector)) && (lacks_end || sectors.any(is_room))
}

fn is_room(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == b'\n')
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

    #[test]
    fn changes_come_to_the_text_until_it_is_replaced() {
        let folder = TempFolder::new("table");
        let path = folder.path().join("t.json");
        write(&path, 1, "zero").expect("written");
        let mut writer = Writer::new(path.clone(), 1);
        assert!(!writer.can_add(), "what another left may end anyhow");
        writer.replace("one").expect("written");
        let changes = ["a", "b c", "d é"];
        for count in 0..changes.len() {
            let stored = read(&path).expect("no error").expect("there");
            assert_eq!((stored.generation, stored.text.as_str(), stored.fell_back), (2, "one", false));
            assert_eq!(stored.changes, changes[..count]);
            writer.add(changes[count]).expect("added");
        }
        let room = "x".repeat(ROOM_BYTES - 5);
        let mut added: u64 = 0;
        while !writer.is_full() {
            writer.add(&room).expect("added");
            added += 1;
        }
        assert_eq!(added, CHANGES_BYTES_MIN / ROOM_BYTES as u64);
        writer.replace("two").expect("written");
        writer.add("e").expect("added");
        let stored = read(&path).expect("no error").expect("there");
        assert_eq!((stored.generation, stored.text.as_str(), stored.changes), (3, "two", vec!["e".to_owned()]));
        let large = "y".repeat(CHANGES_BYTES_MIN as usize + 1);
        writer.replace(&large).expect("written");
        writer.add(&large[100..]).expect("added");
        assert!(!writer.is_full(), "it may double");
    }

    /// The file of a table with these changes.
    fn file_of(changes: &[&str]) -> Vec<u8> {
        let folder = TempFolder::new("table");
        let path = folder.path().join("t.json");
        let mut writer = Writer::new(path.clone(), 0);
        writer.replace("[1]").expect("written");
        for change in changes {
            writer.add(change).expect("added");
        }
        fs::read(&path).expect("read")
    }

    fn limit_of(file: &[u8]) -> usize {
        file.iter().rposition(|byte| *byte != b'\n').expect("more than room") + 1
    }

    /// The changes that are read, and whether damage is told.
    fn read_file(file: &[u8]) -> (Vec<String>, bool) {
        let stored = parse(file).expect("a whole text");
        (stored.changes, stored.fell_back)
    }

    #[test]
    fn no_flipped_bit_loses_a_change_unseen() {
        let up_to_sector = SECTOR_BYTES - limit_of(&file_of(&["{2}", "{J*}", ""])) % SECTOR_BYTES;
        for last_bytes in [3, up_to_sector - 1, up_to_sector, up_to_sector + 1, up_to_sector + SECTOR_BYTES] {
            let changes = ["{2}", "{J*}", &"J".repeat(last_bytes)];
            let whole = file_of(&changes);
            assert_eq!(read_file(&whole), (changes.map(str::to_owned).to_vec(), false));
            for at in 0..limit_of(&whole) + 2 {
                for bit in (0..8).filter(|bit| last_bytes == 3 || *bit == 6) {
                    let mut file = whole.clone();
                    file[at] ^= 1 << bit;
                    let is_told = parse(&file).is_none_or(|read| read.fell_back || read.changes == changes);
                    assert!(is_told, "bit {bit} at {at}, the last change has {last_bytes} bytes");
                }
            }
        }
    }

    #[test]
    fn a_change_that_is_gone_is_told() {
        let whole = file_of(&["{2}", "{3}", "{4}"]);
        let text = std::str::from_utf8(&whole).expect("text");
        let line = |change| text.split_inclusive('\n').find(|line| line.contains(change)).expect("there");
        for (change, rest) in [("{2}", ["{3}", "{4}"]), ("{3}", ["{2}", "{4}"])] {
            let blank = "\n".repeat(line(change).len());
            for instead in ["", &blank, &line(change).replace('}', "]"), line("{4}")] {
                let (changes, is_told) = read_file(text.replacen(line(change), instead, 1).as_bytes());
                assert!(is_told, "{change} became {instead:?}");
                assert!(rest.iter().all(|kept| changes.iter().any(|change| change == kept)), "{changes:?}");
            }
        }
        let zeros = text.replacen(line("{4}"), &"\0".repeat(line("{4}").len()), 1);
        assert!(read_file(zeros.as_bytes()).1, "no crash makes zeros of room that was there");
        for cut in text.find("[1]").expect("there") + 3..whole.len() {
            assert!(read_file(&whole[..cut]).1, "room is there before a change is: cut at {cut}");
        }
    }

    /// Any of the sectors that a change lies in may still be the room that it was.
    #[test]
    fn what_a_crash_left_of_a_change_is_no_damage() {
        let before = file_of(&["{2}"]);
        let start = limit_of(&before);
        let up_to_sector = SECTOR_BYTES - limit_of(&file_of(&["{2}", ""])) % SECTOR_BYTES;
        for bytes in [1, up_to_sector - 1, up_to_sector, up_to_sector + 1, SECTOR_BYTES, 3 * SECTOR_BYTES] {
            let change = "x".repeat(bytes);
            let whole = file_of(&["{2}", &change]);
            let sectors = start / SECTOR_BYTES..limit_of(&whole).div_ceil(SECTOR_BYTES);
            for taken in 0_u32..1 << sectors.len() {
                let mut file = before.clone();
                for place in (0..sectors.len()).filter(|place| taken & 1 << place != 0) {
                    let start = (sectors.start + place) * SECTOR_BYTES;
                    let sector = start..start + SECTOR_BYTES;
                    file[sector.clone()].copy_from_slice(&whole[sector]);
                }
                let (changes, is_told) = read_file(&file);
                assert!(!is_told, "{bytes} bytes, sectors {taken:b}");
                assert!(changes == ["{2}"] || changes == ["{2}", &change] && file == whole, "{changes:?}");
            }
        }
    }

    #[test]
    fn room_that_a_crash_left_is_no_damage() {
        let full = "x".repeat(ROOM_BYTES - 100);
        for before in [file_of(&[]), file_of(&[&full])] {
            let (changes, _) = read_file(&before);
            for filling in [b'\n', 0] {
                for bytes in [1, SECTOR_BYTES, ROOM_BYTES] {
                    let file = [&before[..], &vec![filling; bytes], b"\n\n\n"].concat();
                    assert_eq!(read_file(&file), (changes.clone(), false), "{bytes} bytes of {filling}");
                }
            }
        }
    }

    #[test]
    fn the_generation_before_and_all_changes_stand_in_for_a_damaged_text() {
        let folder = TempFolder::new("table");
        let path = folder.path().join("t.json");
        let mut writer = Writer::new(path.clone(), 0);
        writer.replace("[1]").expect("written");
        writer.add("2").expect("added");
        writer.replace("[1,2]").expect("written");
        writer.add("33").expect("added");
        writer.add("44").expect("added");
        let damaged = fs::read_to_string(&path).expect("read").replace("[1,2]", "[1,9]");
        fs::write(&path, damaged).expect("written");
        let stored = read(&path).expect("no error").expect("there");
        assert_eq!((stored.text.as_str(), stored.changes.join(" "), stored.fell_back), ("[1]", "2 33 44".into(), true));
    }

    #[test]
    fn the_head_is_checked_as_the_text_is() {
        let folder = TempFolder::new("table");
        let path = folder.path().join("t.json");
        let whole = file_of(&["{2}"]);
        for at in 0..whole.iter().position(|byte| *byte == b'\n').expect("a head") {
            for bit in 0..8 {
                let mut file = whole.clone();
                file[at] ^= 1 << bit;
                assert!(parse(&file).is_none_or(|read| read == parse(&whole).expect("whole")), "bit {bit} at {at}");
            }
        }
        // What the build before wrote, whose checksum is of the text alone.
        let of_before = |generation: u64, end: &str| {
            format!("ringmq-table 1 {generation} {:08X} 3\n[1]{end}", crc32fast::hash(b"[1]")).into_bytes()
        };
        let stored = parse(&of_before(7, &change_line(1, "{2}"))).expect("whole");
        assert_eq!((stored.generation, stored.text.as_str(), stored.changes.join(" ")), (7, "[1]", "{2}".into()));
        assert!(!parse(&of_before(7, "")).expect("whole").fell_back);
        fs::write(&path, of_before(u64::MAX, "")).expect("written");
        assert_eq!(read(&path).expect_err("no generation has that number").to_string(), DAMAGED);
    }

    #[test]
    fn a_table_is_restored_with_its_changes_and_what_was_damaged_is_kept() {
        let folder = TempFolder::new("table");
        let path = folder.path().join("t.json");
        let changes: Vec<String> = (0..ROOM_BYTES / 16).map(|number| format!("change {number}")).collect();
        for (damage, count) in [("[1]", 0), ("change 7\r", 1)] {
            let (before, whole) = (content(1, "[1]", &[], 0), content(2, "[1]", &changes, ROOM_BYTES));
            fs::write(backup_path(&path), &before).expect("written");
            let damaged = String::from_utf8(whole).expect("text").replacen(damage, "?", 1);
            fs::write(&path, &damaged).expect("written");
            let mut stored = read(&path).expect("no error").expect("there");
            assert_eq!((stored.fell_back, stored.changes.len()), (true, changes.len() - count));
            assert_eq!(restore(&path, &mut stored).expect("written"), Some(damaged_path(&path)));
            assert_eq!(fs::read_to_string(damaged_path(&path)).expect("there"), damaged);
            let again = read(&path).expect("no error").expect("there");
            assert_eq!(again, Stored { fell_back: false, ..stored });
        }
    }

    #[test]
    fn an_error_names_only_what_is_there() {
        let folder = TempFolder::new("table");
        let path = folder.path().join("t.json");
        let told = || read(&path).expect_err("damaged").to_string();
        fs::write(&path, "nonsense").expect("written");
        assert_eq!(told(), DAMAGED);
        fs::write(backup_path(&path), "nonsense").expect("written");
        assert_eq!(told(), format!("{DAMAGED}; its .bak: {DAMAGED}"));
        fs::remove_file(&path).expect("removed");
        assert_eq!(told(), format!("it is not there; its .bak: {DAMAGED}"));
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

    /// As a full disk, or the end of the process, leaves it: of a table with room behind it the text may be whole.
    #[test]
    fn half_of_what_was_being_written_is_neither_read_nor_kept_nor_damage() {
        let folder = TempFolder::new("table");
        let path = folder.path().join("t.json");
        write(&path, 1, "one").expect("written");
        let two = content(2, "two", &["{2}".to_owned()], ROOM_BYTES);
        for cut in (0..two.len()).step_by(SECTOR_BYTES) {
            fs::write(fresh_path(&path), &two[..cut]).expect("torn");
            assert_eq!(read(&path).expect("no error").map(|read| (read.generation, read.fell_back)), Some((1, false)));
        }
        write(&path, 2, "next").expect("written");
        assert_eq!(read_one(&backup_path(&path)).expect("whole").map(|stored| stored.generation), Some(1));
        assert!(!damaged_path(&path).exists());
    }

    #[test]
    fn what_could_not_be_written_is_never_read() {
        let folder = TempFolder::new("table");
        let path = folder.path().join("t.json");
        write(&path, 1, "one").expect("written");
        write(&path, 2, "two").expect("written");
        fs::write(&path, "nonsense").expect("damaged");
        fs::create_dir_all(damaged_path(&path).join("in the way")).expect("made");
        write(&path, 3, "three").expect_err("the damaged one cannot be kept");
        assert_eq!(read(&path).expect("no error").map(|read| (read.generation, read.fell_back)), Some((1, true)));
    }
}
