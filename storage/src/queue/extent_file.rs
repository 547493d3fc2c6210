//! The file of a derived extent: the queue entries and keys of one stretch of the log, immutable.
//!
//! ```text
//! header     below
//! directory  per run: u16 topic bytes, topic, u32 queue id, u64 first queue offset, u32 count, u64 place,
//!            u64 log offset of the first record
//! entries    per run, at its place: chunks of up to 1024 entries, each followed by u32 crc
//!            entry: u64 log offset, u32 record bytes, i64 tags code, u64 store ms
//! keys       sorted by hash and offset, in chunks alike
//!            key: u64 hash, u64 log offset, u64 store ms
//! ```
//! A run is a stretch of consecutive queue offsets of one queue. The same stretch of log always makes the same file.
//! Nothing in it is evidence about the log: a file that is damaged is made anew.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use base::{LogId, LogOffset, QueueId};
use runtime::file::ReadFile;

use super::chunks::Chunks;
use super::entry::{Entry, KeyEntry};
use crate::disk;

const MAGIC: u64 = 0x524d_5145_5854_4e54;
const VERSION: u32 = 2;

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = MAGIC_AT + 8;
const LOG_AT: usize = VERSION_AT + 4;
const START_AT: usize = LOG_AT + 4;
const LIMIT_AT: usize = START_AT + 8;
const STORE_MS_FIRST_AT: usize = LIMIT_AT + 8;
const STORE_MS_LAST_AT: usize = STORE_MS_FIRST_AT + 8;
const LAST_RECORD_AT: usize = STORE_MS_LAST_AT + 8;
const RUN_COUNT_AT: usize = LAST_RECORD_AT + 8;
const KEY_COUNT_AT: usize = RUN_COUNT_AT + 4;
const DIRECTORY_BYTES_AT: usize = KEY_COUNT_AT + 4;
const KEYS_PLACE_AT: usize = DIRECTORY_BYTES_AT + 8;
const FILE_BYTES_AT: usize = KEYS_PLACE_AT + 8;
const DIRECTORY_CRC_AT: usize = FILE_BYTES_AT + 8;
const HEADER_CRC_AT: usize = DIRECTORY_CRC_AT + 4;
const HEADER_BYTES: usize = HEADER_CRC_AT + 4;
const _: () = assert!(HEADER_BYTES == 96);

const ENTRY_BYTES: usize = 8 + 4 + 8 + 8;
const KEY_BYTES: usize = 8 + 8 + 8;
const CRC_BYTES: usize = 4;
const RUN_NUMBERS_BYTES: usize = 4 + 8 + 4 + 8 + 8;
/// Entries or keys under one checksum, and read at once.
pub(crate) const CHUNK_COUNT: u64 = 1024;
/// Written at once.
const PIECE_BYTES: usize = 128 << 10;

/// Consecutive entries of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContentRun {
    pub(crate) topic: Arc<str>,
    pub(crate) queue_id: QueueId,
    pub(crate) first: u64,
    pub(crate) entries: Arc<Chunks<Entry>>,
}

/// All that goes into an extent.
#[derive(Clone, Debug)]
pub(crate) struct ExtentContent {
    pub(crate) log: LogId,
    pub(crate) start: u64,
    pub(crate) limit: u64,
    /// Sorted by topic, queue and first queue offset.
    pub(crate) runs: Vec<ContentRun>,
    /// In the order of the log.
    pub(crate) keys: Arc<Chunks<KeyEntry>>,
}

impl ExtentContent {
    /// Puts the runs into their order. Where each of them was before.
    pub(crate) fn sort(&mut self) -> Vec<usize> {
        let mut placed: Vec<(usize, ContentRun)> = std::mem::take(&mut self.runs).into_iter().enumerate().collect();
        placed.sort_by(|(_, run), (_, other)| {
            (&run.topic, run.queue_id, run.first).cmp(&(&other.topic, other.queue_id, other.first))
        });
        let (order, runs) = placed.into_iter().unzip();
        self.runs = runs;
        order
    }
}

/// Where a run lies in a file.
#[derive(Clone, Debug)]
pub(crate) struct StoredRun {
    pub(crate) topic: Arc<str>,
    pub(crate) queue_id: QueueId,
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) place: u64,
    pub(crate) log_offset_first: u64,
}

/// An extent's file, with what its header says.
#[derive(Debug)]
pub(crate) struct ExtentFile {
    file: ReadFile,
    pub(crate) start: u64,
    pub(crate) limit: u64,
    pub(crate) store_ms_first: u64,
    pub(crate) store_ms_last: u64,
    /// Where its last record starts; equal to `limit` when it holds none.
    pub(crate) last_record: u64,
    key_count: u32,
    keys_place: u64,
}

/// Writes an extent durably and returns its runs. Blocks.
pub(crate) fn write(path: &Path, content: &ExtentContent) -> io::Result<Vec<StoredRun>> {
    let mut keys: Vec<KeyEntry> = content.keys.iter().copied().collect();
    keys.sort_unstable_by_key(|key| (key.hash, key.offset));
    keys.dedup_by_key(|key| (key.hash, key.offset));
    let directory_bytes: usize = content.runs.iter().map(|run| 2 + run.topic.len() + RUN_NUMBERS_BYTES).sum();
    let mut place = (HEADER_BYTES + directory_bytes) as u64;
    let entries_bytes: u64 = content.runs.iter().map(|run| chunked_bytes(run.entries.len() as u64, ENTRY_BYTES)).sum();
    let keys_place = place + entries_bytes;
    let sizes = Sizes {
        key_count: keys.len() as u32,
        directory_bytes,
        keys_place,
        file_bytes: keys_place + chunked_bytes(keys.len() as u64, KEY_BYTES),
    };
    let mut out = vec![0; HEADER_BYTES];
    let mut stored = Vec::with_capacity(content.runs.len());
    for run in &content.runs {
        out.extend_from_slice(&(run.topic.len() as u16).to_be_bytes());
        out.extend_from_slice(run.topic.as_bytes());
        out.extend_from_slice(&run.queue_id.0.to_be_bytes());
        out.extend_from_slice(&run.first.to_be_bytes());
        let count = run.entries.len() as u32;
        out.extend_from_slice(&count.to_be_bytes());
        out.extend_from_slice(&place.to_be_bytes());
        let log_offset_first = run.entries[0].offset.0;
        out.extend_from_slice(&log_offset_first.to_be_bytes());
        let (topic, queue_id, first) = (run.topic.clone(), run.queue_id, run.first);
        stored.push(StoredRun { topic, queue_id, first, count, place, log_offset_first });
        place += chunked_bytes(u64::from(count), ENTRY_BYTES);
    }
    assert!(out.len() == HEADER_BYTES + directory_bytes, "a directory of {directory_bytes} bytes is {}", out.len());
    assert!(keys_place == place, "keys at {keys_place}, not {place}");
    put_header(&mut out, content, &sizes);
    disk::write_derived(path, |file| {
        file.write_all(&out)?;
        let mut pieces = Pieces { file, filled: Vec::with_capacity(PIECE_BYTES), written: out.len() as u64 };
        for run in &content.runs {
            assert!(!run.entries.is_empty(), "a run without entries");
            run.entries.pieces().try_for_each(|chunk| pieces.put(chunk, put_entry))?;
        }
        keys.chunks(CHUNK_COUNT as usize).try_for_each(|chunk| pieces.put(chunk, put_key))?;
        pieces.end(sizes.file_bytes)
    })?;
    Ok(stored)
}

/// What follows from the content of an extent.
struct Sizes {
    key_count: u32,
    directory_bytes: usize,
    keys_place: u64,
    file_bytes: u64,
}

/// Writes chunks with their checksums, some at a time: all logs come to their extents at the same moment, and what one takes
/// in memory all of them take.
struct Pieces<'a> {
    file: &'a mut File,
    filled: Vec<u8>,
    written: u64,
}

impl Pieces<'_> {
    fn put<T>(&mut self, chunk: &[T], put: fn(&mut Vec<u8>, &T)) -> io::Result<()> {
        let start = self.filled.len();
        chunk.iter().for_each(|item| put(&mut self.filled, item));
        let crc = crc32fast::hash(&self.filled[start..]);
        self.filled.extend_from_slice(&crc.to_be_bytes());
        if self.filled.len() >= PIECE_BYTES / 2 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.filled)?;
        self.written += self.filled.len() as u64;
        self.filled.clear();
        Ok(())
    }

    fn end(mut self, file_bytes: u64) -> io::Result<()> {
        self.flush()?;
        assert!(self.written == file_bytes, "{} bytes of an extent of {file_bytes}", self.written);
        Ok(())
    }
}

fn put_header(out: &mut [u8], content: &ExtentContent, sizes: &Sizes) {
    let Sizes { key_count, directory_bytes, keys_place, file_bytes } = *sizes;
    let first = content.runs.iter().map(|run| run.entries[0].store_timestamp_ms).min().unwrap_or(0);
    let last = content.runs.iter().flat_map(|run| run.entries.last()).max_by_key(|entry| entry.offset.0);
    let directory_crc = crc32fast::hash(&out[HEADER_BYTES..HEADER_BYTES + directory_bytes]);
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(MAGIC_AT, &MAGIC.to_be_bytes());
    put(VERSION_AT, &VERSION.to_be_bytes());
    put(LOG_AT, &u32::from(content.log.0).to_be_bytes());
    put(START_AT, &content.start.to_be_bytes());
    put(LIMIT_AT, &content.limit.to_be_bytes());
    put(STORE_MS_FIRST_AT, &first.to_be_bytes());
    put(STORE_MS_LAST_AT, &last.map_or(0, |entry| entry.store_timestamp_ms).to_be_bytes());
    put(LAST_RECORD_AT, &last.map_or(content.limit, |entry| entry.offset.0).to_be_bytes());
    put(RUN_COUNT_AT, &(content.runs.len() as u32).to_be_bytes());
    put(KEY_COUNT_AT, &key_count.to_be_bytes());
    put(DIRECTORY_BYTES_AT, &(directory_bytes as u64).to_be_bytes());
    put(KEYS_PLACE_AT, &keys_place.to_be_bytes());
    put(FILE_BYTES_AT, &file_bytes.to_be_bytes());
    put(DIRECTORY_CRC_AT, &directory_crc.to_be_bytes());
    let crc = crc32fast::hash(&out[..HEADER_CRC_AT]);
    out[HEADER_CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_be_bytes());
}

impl ExtentFile {
    /// Opens an extent and reads its directory. Blocks.
    ///
    /// # Errors
    /// `InvalidData` when it is not whole: delete it and make it anew.
    pub(crate) fn open(path: &Path, log: LogId) -> io::Result<(ExtentFile, Vec<StoredRun>)> {
        let file = ReadFile::open(path)?;
        let file_bytes = file.bytes()?;
        if file_bytes < HEADER_BYTES as u64 {
            return Err(damaged("it is shorter than its header"));
        }
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0)?;
        let valid = u64_at(&header, MAGIC_AT) == MAGIC
            && u32_at(&header, VERSION_AT) == VERSION
            && u32_at(&header, LOG_AT) == u32::from(log.0)
            && u32_at(&header, HEADER_CRC_AT) == crc32fast::hash(&header[..HEADER_CRC_AT])
            && u64_at(&header, FILE_BYTES_AT) == file_bytes;
        if !valid {
            return Err(damaged("its header is not valid"));
        }
        let mut directory = vec![0; u64_at(&header, DIRECTORY_BYTES_AT) as usize];
        file.read_exact_at(&mut directory, HEADER_BYTES as u64)?;
        if crc32fast::hash(&directory) != u32_at(&header, DIRECTORY_CRC_AT) {
            return Err(damaged("its directory is not valid"));
        }
        let runs = parse_directory(&directory, u32_at(&header, RUN_COUNT_AT))
            .ok_or_else(|| damaged("its directory does not hold what it says"))?;
        let extent = ExtentFile {
            file,
            start: u64_at(&header, START_AT),
            limit: u64_at(&header, LIMIT_AT),
            store_ms_first: u64_at(&header, STORE_MS_FIRST_AT),
            store_ms_last: u64_at(&header, STORE_MS_LAST_AT),
            last_record: u64_at(&header, LAST_RECORD_AT),
            key_count: u32_at(&header, KEY_COUNT_AT),
            keys_place: u64_at(&header, KEYS_PLACE_AT),
        };
        Ok((extent, runs))
    }

    /// Reads all of it. Blocks.
    ///
    /// # Errors
    /// As [`ExtentFile::open`].
    pub(crate) fn check(&self, runs: &[StoredRun]) -> io::Result<()> {
        for run in runs {
            for chunk in 0..u64::from(run.count).div_ceil(CHUNK_COUNT) {
                self.read_entries(run.place, run.count, chunk)?;
            }
        }
        self.all_keys().map(|_| ())
    }

    /// Entries `chunk * CHUNK_COUNT ..` of a run of `count` entries at `place`. Blocks.
    ///
    /// # Errors
    /// As [`ExtentFile::open`].
    pub(crate) fn read_entries(&self, place: u64, count: u32, chunk: u64) -> io::Result<Vec<Entry>> {
        let bytes = self.read_chunk(place, u64::from(count), chunk, ENTRY_BYTES)?;
        Ok(bytes.chunks_exact(ENTRY_BYTES).map(entry_at).collect())
    }

    /// All keys of a hash, oldest first. Blocks.
    ///
    /// # Errors
    /// As [`ExtentFile::open`].
    pub(crate) fn find_keys(&self, hash: u64) -> io::Result<Vec<KeyEntry>> {
        let count = u64::from(self.key_count);
        let chunks = count.div_ceil(CHUNK_COUNT);
        // The first chunk whose last key is not in front of the hash.
        let (mut low, mut high) = (0, chunks);
        while low < high {
            let middle = low + (high - low) / 2;
            let keys = self.read_keys(middle)?;
            if keys.last().is_some_and(|key| key.hash < hash) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let mut found = Vec::new();
        for chunk in low..chunks {
            let keys = self.read_keys(chunk)?;
            found.extend(keys.iter().filter(|key| key.hash == hash));
            if keys.last().is_some_and(|key| key.hash > hash) {
                break;
            }
        }
        Ok(found)
    }

    /// All keys, by hash and offset. Blocks.
    ///
    /// # Errors
    /// As [`ExtentFile::open`].
    pub(crate) fn all_keys(&self) -> io::Result<Vec<KeyEntry>> {
        let mut keys = Vec::with_capacity(self.key_count as usize);
        for chunk in 0..u64::from(self.key_count).div_ceil(CHUNK_COUNT) {
            keys.extend(self.read_keys(chunk)?);
        }
        Ok(keys)
    }

    fn read_keys(&self, chunk: u64) -> io::Result<Vec<KeyEntry>> {
        let bytes = self.read_chunk(self.keys_place, u64::from(self.key_count), chunk, KEY_BYTES)?;
        Ok(bytes.chunks_exact(KEY_BYTES).map(key_at).collect())
    }

    fn read_chunk(&self, place: u64, count: u64, chunk: u64, item_bytes: usize) -> io::Result<Vec<u8>> {
        let first = chunk * CHUNK_COUNT;
        assert!(first < count, "chunk {chunk} of {count} items");
        let bytes = CHUNK_COUNT.min(count - first) as usize * item_bytes;
        let at = place + chunk * (CHUNK_COUNT * item_bytes as u64 + CRC_BYTES as u64);
        let mut content = vec![0; bytes + CRC_BYTES];
        self.file.read_exact_at(&mut content, at)?;
        let crc = u32_at(&content, bytes);
        content.truncate(bytes);
        if crc32fast::hash(&content) == crc { Ok(content) } else { Err(damaged("a checksum does not fit")) }
    }
}

fn chunked_bytes(count: u64, item_bytes: usize) -> u64 {
    count * item_bytes as u64 + count.div_ceil(CHUNK_COUNT) * CRC_BYTES as u64
}

fn parse_directory(mut rest: &[u8], count: u32) -> Option<Vec<StoredRun>> {
    let mut runs: Vec<StoredRun> = Vec::new();
    for _ in 0..count {
        let topic_bytes = usize::from(u16::from_be_bytes(rest.get(..2)?.try_into().ok()?));
        let topic = std::str::from_utf8(rest.get(2..2 + topic_bytes)?).ok()?;
        let numbers = rest.get(2 + topic_bytes..2 + topic_bytes + RUN_NUMBERS_BYTES)?;
        // Queues of one topic stand together and share its name.
        let topic = match runs.last() {
            Some(last) if &*last.topic == topic => last.topic.clone(),
            _ => topic.into(),
        };
        runs.push(StoredRun {
            topic,
            queue_id: QueueId(u32_at(numbers, 0)),
            first: u64_at(numbers, 4),
            count: u32_at(numbers, 12),
            place: u64_at(numbers, 16),
            log_offset_first: u64_at(numbers, 24),
        });
        rest = &rest[2 + topic_bytes + RUN_NUMBERS_BYTES..];
    }
    rest.is_empty().then_some(runs)
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    out.extend_from_slice(&entry.offset.0.to_be_bytes());
    out.extend_from_slice(&entry.bytes.to_be_bytes());
    out.extend_from_slice(&entry.tags_code.to_be_bytes());
    out.extend_from_slice(&entry.store_timestamp_ms.to_be_bytes());
}

fn entry_at(bytes: &[u8]) -> Entry {
    Entry {
        offset: LogOffset(u64_at(bytes, 0)),
        bytes: u32_at(bytes, 8),
        tags_code: u64_at(bytes, 12) as i64,
        store_timestamp_ms: u64_at(bytes, 20),
    }
}

fn put_key(out: &mut Vec<u8>, key: &KeyEntry) {
    out.extend_from_slice(&key.hash.to_be_bytes());
    out.extend_from_slice(&key.offset.to_be_bytes());
    out.extend_from_slice(&key.store_timestamp_ms.to_be_bytes());
}

fn key_at(bytes: &[u8]) -> KeyEntry {
    KeyEntry { hash: u64_at(bytes, 0), offset: u64_at(bytes, 8), store_timestamp_ms: u64_at(bytes, 16) }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::file::TempFolder;

    fn sample() -> ExtentContent {
        let entry = |number: u64| Entry {
            offset: LogOffset(1000 + number * 100),
            bytes: 100,
            tags_code: -(number as i64),
            store_timestamp_ms: 5000 + number,
        };
        let run = |topic: &str, queue_id, first, numbers: std::ops::Range<u64>| ContentRun {
            topic: topic.into(),
            queue_id: QueueId(queue_id),
            first,
            entries: Arc::new(numbers.map(entry).collect()),
        };
        let keys = (0..5000).map(|number| KeyEntry { hash: number / 3, offset: 5000 - number, store_timestamp_ms: 2 });
        ExtentContent {
            log: LogId(3),
            start: 1000,
            limit: 900_000,
            runs: vec![run("a", 0, 7, 0..1), run("a", 1, 0, 1..2500), run("b", 0, 9, 2500..2600)],
            keys: Arc::new(keys.collect()),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = TempFolder::new("extent");
        let path = folder.path().join("extent");
        let content = sample();
        let stored = write(&path, &content).expect("written");
        let (extent, runs) = ExtentFile::open(&path, LogId(3)).expect("opened");
        assert_eq!(
            (extent.start, extent.limit, extent.store_ms_first, extent.store_ms_last),
            (1000, 900_000, 5000, 7599)
        );
        assert_eq!(extent.last_record, 1000 + 2599 * 100);
        for (written, (run, stored)) in content.runs.iter().zip(runs.iter().zip(&stored)) {
            assert_eq!((&*run.topic, run.queue_id, run.first), (&*written.topic, written.queue_id, written.first));
            assert_eq!(run.place, stored.place);
            let mut entries = Vec::new();
            for chunk in 0..u64::from(run.count).div_ceil(CHUNK_COUNT) {
                entries.extend(extent.read_entries(run.place, run.count, chunk).expect("read"));
            }
            assert!(written.entries.iter().eq(&entries));
        }
        for hash in [0, 1, 340, 341, 342, 1000, 1666] {
            let offsets: Vec<u64> = extent.find_keys(hash).expect("read").iter().map(|key| key.offset).collect();
            let mut expected: Vec<u64> =
                (0..5000).filter(|number| number / 3 == hash).map(|number| 5000 - number).collect();
            expected.sort_unstable();
            assert_eq!(offsets, expected, "hash {hash}");
        }
        assert!(extent.find_keys(99_999).expect("read").is_empty());
    }

    #[test]
    fn each_flipped_bit_is_found() {
        let folder = TempFolder::new("extent");
        let path = folder.path().join("extent");
        write(&path, &sample()).expect("written");
        let whole = std::fs::read(&path).expect("read");
        let readable = |path: &Path| ExtentFile::open(path, LogId(3)).and_then(|(extent, runs)| extent.check(&runs));
        readable(&path).expect("it is whole");
        for at in (0..300).chain((300..whole.len()).step_by(977)) {
            let mut flipped = whole.clone();
            flipped[at] ^= 4;
            std::fs::write(&path, &flipped).expect("flipped");
            assert!(readable(&path).is_err(), "byte {at}");
        }
        for cut in [0, 7, HEADER_BYTES, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).expect("cut");
            assert!(ExtentFile::open(&path, LogId(3)).is_err(), "cut at {cut}");
        }
    }
}
