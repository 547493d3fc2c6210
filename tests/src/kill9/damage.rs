//! Damage between kill and start, only to bytes after the last record of a log: a restart must cut it and lose nothing.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::Random;

const DAMAGE_BYTES_MAX: u64 = 8 * 1024;
const SCAN_BYTES: u64 = 64 * 1024;
const RECORD_MAGIC: [u8; 4] = [0xda, 0xa3, 0x20, 0xa7];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    None,
    /// Random bytes, as a drive leaves them that tore a write.
    Random,
    /// 0xFF bytes, as erased flash reads.
    Ones,
    /// The last record once more: old bytes at a wrong place, with a good checksum.
    Repeat,
}

impl Damage {
    pub fn draw(random: &mut Random) -> Damage {
        [Damage::None, Damage::Random, Damage::Ones, Damage::Repeat][usize::try_from(random.below(4)).expect("below 4")]
    }

    /// Damages every log of a store; returns a line for the report.
    ///
    /// # Errors
    /// The store's files could not be read or written.
    pub fn apply(self, store: &Path, random: &mut Random) -> io::Result<String> {
        if self == Damage::None {
            return Ok("untouched".to_owned());
        }
        let logs = log_folders(store)?;
        let mut damaged = Vec::new();
        for folder in &logs {
            let bytes = self.apply_to_log(folder, random)?;
            damaged.push(bytes.to_string());
        }
        Ok(format!("bytes in {} logs: {}", logs.len(), damaged.join(", ")))
    }

    fn apply_to_log(self, folder: &Path, random: &mut Random) -> io::Result<u64> {
        let Some((path, end)) = end_of_log(folder)? else { return Ok(0) };
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let room = file.metadata()?.len() - end;
        let length = (1 + random.below(DAMAGE_BYTES_MAX)).min(room);
        let mut bytes = vec![0u8; usize::try_from(length).expect("a small number")];
        match self {
            Damage::None => return Ok(0),
            Damage::Random => bytes.fill_with(|| random.next_u64().to_le_bytes()[0]),
            Damage::Ones => bytes.fill(0xff),
            Damage::Repeat => bytes = last_record(&file, end)?,
        }
        bytes.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        file.write_all_at(&bytes, end)?;
        file.sync_all()?;
        Ok(bytes.len() as u64)
    }
}

/// The bytes of the last record before `end`; of the last block if no record's beginning is found.
fn last_record(file: &File, end: u64) -> io::Result<Vec<u8>> {
    let start = end.saturating_sub(SCAN_BYTES);
    let mut tail = vec![0u8; usize::try_from(end - start).expect("a small number")];
    file.read_exact_at(&mut tail, start)?;
    // A record is its length, in four bytes, and then its magic number.
    let magic = tail.windows(RECORD_MAGIC.len()).rposition(|window| window == RECORD_MAGIC);
    let from = magic.and_then(|place| place.checked_sub(4)).unwrap_or(tail.len().saturating_sub(4096));
    Ok(tail.split_off(from))
}

/// Every folder called `commitlog` in a store.
fn log_folders(store: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![store.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            if entry.file_name() == "commitlog" { found.push(entry.path()) } else { folders.push(entry.path()) }
        }
    }
    found.sort();
    Ok(found)
}

/// The segment in which the log ends and the place after its last byte that is not zero. None for an empty log.
///
/// Segments are prepared with zeros, so what is not zero was written. (A record ends with text, never with a zero.)
fn end_of_log(folder: &Path) -> io::Result<Option<(PathBuf, u64)>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // Segments are named by their first offset, in 20 digits; other files are none of ours.
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit()) {
            segments.push(path);
        }
    }
    segments.sort();
    for path in segments.into_iter().rev() {
        let end = end_of_file(&File::open(&path)?)?;
        if end > 0 {
            return Ok(Some((path, end)));
        }
    }
    Ok(None)
}

fn end_of_file(file: &File) -> io::Result<u64> {
    let mut limit = file.metadata()?.len();
    while limit > 0 {
        let start = limit.saturating_sub(SCAN_BYTES);
        let mut bytes = vec![0u8; usize::try_from(limit - start).expect("a small number")];
        file.read_exact_at(&mut bytes, start)?;
        if let Some(index) = bytes.iter().rposition(|byte| *byte != 0) {
            return Ok(start + index as u64 + 1);
        }
        limit = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn damage_starts_after_the_last_byte() {
        let folder = Folder::new("damage");
        let log = folder.path().join("log-00/commitlog");
        fs::create_dir_all(&log).unwrap();
        let mut content = vec![0u8; 100_000];
        content[..70_000].fill(b'r');
        content[69_004..69_008].copy_from_slice(&RECORD_MAGIC);
        fs::write(log.join("00000000000000000000"), &content).unwrap();
        fs::write(log.join("00000000000000100000"), vec![0u8; 100_000]).unwrap();
        for damage in [Damage::Random, Damage::Ones, Damage::Repeat] {
            damage.apply(folder.path(), &mut Random::new(3)).unwrap();
            let after = fs::read(log.join("00000000000000000000")).unwrap();
            assert_eq!(after.len(), 100_000);
            assert_eq!(after[..70_000], content[..70_000], "{damage:?} changed a record");
            assert!(after[70_000..].iter().any(|byte| *byte != 0), "{damage:?} did nothing");
            if damage == Damage::Repeat {
                assert_eq!(after[70_000..71_000], content[69_000..70_000], "the last record once more");
                assert!(after[71_000..].iter().all(|byte| *byte == 0));
            }
            fs::write(log.join("00000000000000000000"), &content).unwrap();
        }
    }
}
