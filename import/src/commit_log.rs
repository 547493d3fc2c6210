//! The commit log of the other broker: files of one size, named by the offset they start at.
//!
//! Read-only, a window at a time. The log ends where no valid record follows and no consume queue knows of any; in front of
//! that what cannot be read is damage, and passed over up to the next valid record.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base::PhysicalOffset;
use remoting::record::{
    self, BLANK_BYTES, FIXED_BYTES, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PHYSICAL_OFFSET_AT, RecordView, verify_foreign,
};
use runtime::file::ReadFile;

use crate::error::{ImportError, IoContext};

/// Digits of a file's name.
const NAME_DIGITS: usize = 20;
/// Bytes read at once; more when a record is longer. Of those who read on, and of those who look single records up.
const SCAN_BYTES: u64 = 4 << 20;
const LOOKUP_BYTES: u64 = 64 << 10;
/// Bytes without a record are passed over so many at a time.
const ZEROS: [u8; 4096] = [0; 4096];
/// Behind a start after a crash the other broker writes over what lay behind the log's end: records there that are older
/// than the log's last by more than this are remains, none of its messages.
const OLDER_MS_MAX: i64 = 3_000;
/// A damaged length is not followed further than this.
const RECORD_BYTES_MAX: u64 = 128 << 20;

/// The files of a log.
#[derive(Debug, Default)]
pub struct CommitLog {
    files: Vec<(u64, PathBuf)>,
    file_bytes: u64,
    /// The bytes of files that were cut, by their starts. What they lack reads as zeros.
    cut: BTreeMap<u64, u64>,
}

/// What lies at a place of the log.
#[derive(Debug)]
pub enum Found<'a> {
    Record {
        at: u64,
        view: RecordView<'a>,
    },
    /// Nothing up to `limit` can be read.
    Damage {
        start: u64,
        limit: u64,
        reason: String,
    },
}

impl CommitLog {
    /// Looks at the files of one or several folders.
    ///
    /// # Errors
    /// When they are not those of one log without a gap.
    pub fn open(folders: &[PathBuf]) -> Result<CommitLog, ImportError> {
        let mut files = Vec::new();
        for folder in folders {
            files.extend(offset_files(folder)?);
        }
        files.sort_unstable();
        // A broker that was killed while it made its next file leaves an empty one.
        if let Some((_, path)) = files.last()
            && file_bytes(path)? == 0
        {
            files.pop();
        }
        let Some((first, first_path)) = files.first() else { return Ok(CommitLog::default()) };
        let lengths = files.iter().map(|(_, path)| file_bytes(path)).collect::<Result<Vec<_>, _>>()?;
        // All were made with one size; some may be cut.
        let bytes = lengths.iter().max().copied().unwrap_or(0);
        if bytes == 0 || first % bytes != 0 {
            return Err(ImportError::Source(format!(
                "{} has {bytes} bytes, and its name is no multiple of that: it is cut, or no file of a commit log; put the \
                 whole file back",
                first_path.display()
            )));
        }
        let (mut expected, mut cut) = (*first, BTreeMap::new());
        for ((start, path), found) in files.iter().zip(lengths) {
            if found != bytes {
                cut.insert(*start, found);
            }
            if *start != expected {
                return Err(ImportError::Source(format!(
                    "the file {expected:020} in front of {} is missing: put it back (a log in several folders: name all of \
                     them with --commit-log); if it is lost, move the files in front of the gap away, and go on without \
                     their messages",
                    path.display()
                )));
            }
            expected += bytes;
        }
        Ok(CommitLog { file_bytes: bytes, files, cut })
    }

    /// The parts that files lack which were cut: start, limit and file.
    pub(crate) fn cut_off(&self) -> impl Iterator<Item = (u64, u64, &Path)> {
        let parts = self.cut.iter().map(|(start, found)| (start + found, start + self.file_bytes));
        parts.filter_map(|(from, limit)| self.file_of(from).map(|(_, path)| (from, limit, &**path)))
    }

    pub fn min(&self) -> u64 {
        self.files.first().map_or(0, |(start, _)| *start)
    }

    /// Behind the last byte of the last file.
    pub fn limit(&self) -> u64 {
        self.files.last().map_or(0, |(start, _)| start + self.file_bytes)
    }

    /// Of each file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Reads on from a place.
    pub fn scan(&self, from: u64) -> Scanner<'_> {
        self.reader(from, SCAN_BYTES)
    }

    /// For [`Scanner::record_at`].
    pub(crate) fn lookup(&self) -> Scanner<'_> {
        self.reader(0, LOOKUP_BYTES)
    }

    fn reader(&self, from: u64, window_bytes: u64) -> Scanner<'_> {
        let at = from.max(self.min());
        let window = Window { file: None, start: 0, bytes: Vec::new(), bytes_wanted: window_bytes };
        Scanner { log: self, window, at, end: at, stored_ms: i64::MIN }
    }

    fn file_of(&self, offset: u64) -> Option<&(u64, PathBuf)> {
        let at = self.files.partition_point(|(start, _)| *start <= offset).checked_sub(1)?;
        self.files.get(at).filter(|(start, _)| offset < start + self.file_bytes)
    }
}

/// Reads a log from a place on, or single records of it.
pub struct Scanner<'a> {
    log: &'a CommitLog,
    window: Window,
    at: u64,
    /// Behind the last valid record.
    end: u64,
    /// The latest time at which one was stored.
    stored_ms: i64,
}

struct Window {
    file: Option<(u64, PathBuf, ReadFile)>,
    start: u64,
    bytes: Vec<u8>,
    bytes_wanted: u64,
}

impl Window {
    /// The bytes from `offset` on: at least so many, or all up to the end of the file.
    fn at(&mut self, log: &CommitLog, offset: u64, bytes: u64) -> Result<&[u8], ImportError> {
        let (file_start, path) = log.file_of(offset).expect("an offset of the log lies in a file");
        let file_limit = file_start + log.file_bytes;
        let limit = file_limit.min(offset + bytes);
        if offset < self.start || limit > self.start + self.bytes.len() as u64 {
            if self.file.as_ref().is_none_or(|(start, _, _)| start != file_start) {
                let file = ReadFile::open(path).context("open", path)?;
                self.file = Some((*file_start, path.clone(), file));
            }
            let (_, path, file) = self.file.as_ref().expect("it was just opened");
            let wanted = self.bytes_wanted.min(file_limit - offset).max(limit - offset);
            self.bytes.clear();
            self.bytes.resize(wanted as usize, 0);
            self.start = offset;
            let from = offset - file_start;
            let there = log.cut.get(file_start).copied().unwrap_or(log.file_bytes).saturating_sub(from).min(wanted);
            file.read_exact_at(&mut self.bytes[..there as usize], from).context("read", path)?;
        }
        Ok(&self.bytes[(offset - self.start) as usize..])
    }
}

enum Step {
    Record(u64),
    Blank,
    Wrong(String),
}

impl<'a> Scanner<'a> {
    /// The next record or damage. `known` is an offset that the log once reached: behind it, what is wrong is the end if no
    /// record follows.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn next(&mut self, known: u64) -> Result<Option<Found<'_>>, ImportError> {
        loop {
            let at = self.at;
            if at >= self.log.limit() {
                return Ok(None);
            }
            match self.step(at)? {
                Step::Record(bytes) => {
                    self.at = at + bytes;
                    self.end = self.at;
                    let found = self.window.at(self.log, at, bytes)?;
                    let view = RecordView::decode(&found[..bytes as usize]).expect("it was just verified");
                    self.stored_ms = self.stored_ms.max(view.store_timestamp_ms());
                    return Ok(Some(Found::Record { at, view }));
                }
                Step::Blank => self.at = self.file_limit(at),
                Step::Wrong(reason) => {
                    let next = if at < known { Some(self.next_valid(at + 1)?) } else { self.next_behind(at + 1)? };
                    let Some(limit) = next else { return Ok(None) };
                    self.at = limit;
                    return Ok(Some(Found::Damage { start: at, limit, reason }));
                }
            }
        }
    }

    /// Where it reads next.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Behind the last valid record.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The valid record at an offset.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn record_at(&mut self, offset: u64) -> Result<Option<RecordView<'_>>, ImportError> {
        if offset < self.log.min() || offset >= self.log.limit() {
            return Ok(None);
        }
        let Step::Record(bytes) = self.step(offset)? else { return Ok(None) };
        let found = self.window.at(self.log, offset, bytes)?;
        Ok(RecordView::decode(&found[..bytes as usize]).ok())
    }

    /// Bytes as they are; all of them lie in one file.
    pub(crate) fn raw(&mut self, at: u64, bytes: usize) -> Result<&[u8], ImportError> {
        Ok(&self.window.at(self.log, at, bytes as u64)?[..bytes])
    }

    fn file_limit(&self, offset: u64) -> u64 {
        (offset / self.log.file_bytes + 1) * self.log.file_bytes
    }

    fn step(&mut self, at: u64) -> Result<Step, ImportError> {
        let remaining = self.file_limit(at) - at;
        if remaining < BLANK_BYTES as u64 {
            return Ok(Step::Wrong(format!("{remaining} bytes in front of the end of a file are no record")));
        }
        let head = self.window.at(self.log, at, BLANK_BYTES as u64)?;
        let (total, magic) = head_of(head);
        if magic == MAGIC_BLANK && total == remaining {
            return Ok(Step::Blank);
        }
        if magic != MAGIC_V1 && magic != MAGIC_V2 {
            return Ok(Step::Wrong(format!("the magic {magic:#010x} is none of a record")));
        }
        if total < FIXED_BYTES as u64 || total > remaining.min(RECORD_BYTES_MAX) {
            return Ok(Step::Wrong(format!("{total} bytes are no length of a record")));
        }
        let bytes = self.window.at(self.log, at, total)?;
        Ok(match verify_foreign(&bytes[..total as usize], PhysicalOffset(at)) {
            Ok(_) => Step::Record(total),
            Err(error) => Step::Wrong(error.to_string()),
        })
    }

    /// The next place from `from` on, in this file or a later one, at which a record of this log verifies.
    fn next_behind(&mut self, from: u64) -> Result<Option<u64>, ImportError> {
        let mut at = from;
        while at < self.log.limit() {
            at = self.next_valid(at)?;
            if at < self.log.limit()
                && let Step::Record(bytes) = self.step(at)?
            {
                let found = self.window.at(self.log, at, bytes)?;
                let view = RecordView::decode(&found[..bytes as usize]).expect("it was just verified");
                if view.store_timestamp_ms() >= self.stored_ms.saturating_sub(OLDER_MS_MAX) {
                    return Ok(Some(at));
                }
                at += bytes;
            } else {
                at += 1;
            }
        }
        Ok(None)
    }

    /// The next place from `from` on at which a record verifies; the start of the next file if there is none in this one.
    fn next_valid(&mut self, from: u64) -> Result<u64, ImportError> {
        let limit = self.file_limit(from - 1);
        let mut at = from;
        while at + FIXED_BYTES as u64 <= limit {
            let bytes = self.window.at(self.log, at, FIXED_BYTES as u64)?;
            if bytes.starts_with(&ZEROS) {
                // The length of a record may begin with zeros.
                at += (ZEROS.len() - size_of::<u32>()) as u64;
                continue;
            }
            let places = bytes.len() + 1 - FIXED_BYTES;
            let candidate = (0..places).find(|&skip| may_start_here(&bytes[skip..], at + skip as u64));
            match candidate {
                Some(skip) => {
                    at += skip as u64;
                    if matches!(self.step(at)?, Step::Record(_)) {
                        return Ok(at);
                    }
                    at += 1;
                }
                None => at += places as u64,
            }
        }
        Ok(limit)
    }
}

fn head_of(bytes: &[u8]) -> (u64, u32) {
    let u32_at = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    (u64::from(u32_at(record::TOTAL_BYTES_AT)), u32_at(record::MAGIC_AT))
}

/// A cheap look before a checksum is computed.
fn may_start_here(bytes: &[u8], at: u64) -> bool {
    let (_, magic) = head_of(bytes);
    (magic == MAGIC_V1 || magic == MAGIC_V2) && bytes[PHYSICAL_OFFSET_AT..PHYSICAL_OFFSET_AT + 8] == at.to_be_bytes()
}

/// The files of a folder whose names are offsets, in order.
pub(crate) fn offset_files(folder: &Path) -> Result<Vec<(u64, PathBuf)>, ImportError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).context("list", folder)? {
        let path = entry.context("list", folder)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.len() == NAME_DIGITS
            && let Ok(start) = name.parse()
            && path.is_file()
        {
            files.push((start, path));
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn file_bytes(path: &Path) -> Result<u64, ImportError> {
    Ok(fs::metadata(path).context("look at", path)?.len())
}

#[cfg(test)]
mod tests;
