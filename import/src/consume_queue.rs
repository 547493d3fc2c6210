//! The consume queues of the other broker: which record has which offset of which queue.
//!
//! ```text
//! consumequeue/TOPIC/QUEUE/FILE: units of u64 log offset, u32 record bytes, i64 tags code
//! ```
//! A record that lies in the log but not in its queue is of a topic that was deleted: only the queues tell.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use runtime::file::ReadFile;

use crate::commit_log::offset_files;
use crate::error::{ImportError, IoContext};

const UNIT_BYTES: u64 = 20;
/// Units read at once: 4 KiB, for each of thousands of queues.
const WINDOW_UNITS: u64 = 204;
/// The size of a unit that only fills the space in front of the first one.
const FILLER_BYTES: u32 = i32::MAX as u32;

/// One entry of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    /// Of a message with a delay level: when it is due.
    pub(crate) tags_code: i64,
}

impl Unit {
    /// Behind the record.
    pub(crate) fn limit(self) -> u64 {
        self.offset + u64::from(self.bytes)
    }

    fn is_filler(self) -> bool {
        self.bytes == FILLER_BYTES && self.offset == 0
    }
}

/// A queue's files.
#[derive(Debug)]
pub(crate) struct ConsumeQueue {
    files: Vec<(u64, PathBuf)>,
    file_units: u64,
    /// Behind the last unit.
    limit: u64,
    window: Vec<Unit>,
    window_first: u64,
    /// Records that were taken over under offsets of this queue that it knows.
    pub(crate) taken: u64,
}

impl ConsumeQueue {
    fn open(folder: &Path) -> Result<ConsumeQueue, ImportError> {
        let files = offset_files(folder)?;
        let bytes = match files.first() {
            Some((_, path)) => fs::metadata(path).context("look at", path)?.len(),
            None => 0,
        };
        let file_units = bytes / UNIT_BYTES;
        let mut queue = ConsumeQueue { files, file_units, limit: 0, window: Vec::new(), window_first: 0, taken: 0 };
        if file_units > 0 {
            queue.files.retain(|(start, _)| start.is_multiple_of(bytes));
            queue.limit = queue.find_limit()?;
        }
        Ok(queue)
    }

    /// The offset of the first unit that a file has; there may be fillers in front of the first real one.
    pub(crate) fn first(&self) -> u64 {
        self.files.first().map_or(0, |(start, _)| start / UNIT_BYTES)
    }

    /// Behind the last unit.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// The unit of an offset; `None` if it has none, or only a filler.
    pub(crate) fn unit(&mut self, at: u64) -> Result<Option<Unit>, ImportError> {
        if at < self.first() || at >= self.limit {
            return Ok(None);
        }
        Ok(self.read(at)?.filter(|unit| !unit.is_filler()))
    }

    /// The first offset whose record begins at or behind a place of the log.
    pub(crate) fn first_from(&mut self, log_offset: u64) -> Result<u64, ImportError> {
        let (mut low, mut high) = (self.first(), self.limit);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.unit(middle)?.is_none_or(|unit| unit.offset < log_offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Forgets the units of records that end behind the end of the log.
    pub(crate) fn cut(&mut self, log_end: u64) -> Result<(), ImportError> {
        let is_behind = |unit: Unit| !unit.is_filler() && unit.limit() > log_end;
        while self.limit > self.first() && self.read(self.limit - 1)?.is_none_or(is_behind) {
            self.limit -= 1;
        }
        Ok(())
    }

    /// Units are written one behind the other into files of zeros.
    fn find_limit(&mut self) -> Result<u64, ImportError> {
        for (start, _) in self.files.clone().iter().rev() {
            let first = start / UNIT_BYTES;
            let (mut low, mut high) = (first, first + self.file_units);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.read(middle)?.is_some() { low = middle + 1 } else { high = middle }
            }
            if low > first {
                return Ok(low);
            }
        }
        Ok(self.first())
    }

    fn read(&mut self, at: u64) -> Result<Option<Unit>, ImportError> {
        let in_window = at >= self.window_first && at < self.window_first + self.window.len() as u64;
        if !in_window {
            self.load(at)?;
        }
        let unit = at.checked_sub(self.window_first).and_then(|place| self.window.get(place as usize));
        Ok(unit.copied().filter(|unit| unit.bytes > 0 && unit.offset <= i64::MAX as u64))
    }

    fn load(&mut self, at: u64) -> Result<(), ImportError> {
        self.window.clear();
        let file_first = at / self.file_units * self.file_units;
        let found = self.files.iter().find(|(start, _)| start / UNIT_BYTES == file_first);
        let Some((_, path)) = found else { return Ok(()) };
        let in_file = at - file_first;
        let first = in_file / WINDOW_UNITS * WINDOW_UNITS;
        let count = WINDOW_UNITS.min(self.file_units - first);
        let mut bytes = vec![0; (count * UNIT_BYTES) as usize];
        let file = ReadFile::open(path).context("open", path)?;
        file.read_exact_at(&mut bytes, first * UNIT_BYTES).context("read", path)?;
        let (units, _) = bytes.as_chunks::<{ UNIT_BYTES as usize }>();
        self.window.extend(units.iter().map(unit_of));
        self.window_first = file_first + first;
        Ok(())
    }
}

fn unit_of(bytes: &[u8; UNIT_BYTES as usize]) -> Unit {
    Unit {
        offset: u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes")),
        bytes: u32::from_be_bytes(bytes[8..12].try_into().expect("four bytes")),
        tags_code: i64::from_be_bytes(bytes[12..].try_into().expect("eight bytes")),
    }
}

/// All queues of a store.
#[derive(Debug, Default)]
pub(crate) struct ConsumeQueues {
    pub(crate) topics: BTreeMap<String, BTreeMap<u32, ConsumeQueue>>,
}

impl ConsumeQueues {
    /// Looks at all queues below a folder; one that is not there has none.
    pub(crate) fn open(folder: &Path) -> Result<ConsumeQueues, ImportError> {
        let mut queues = ConsumeQueues::default();
        for (topic, of_topic) in folders(folder)? {
            for (id, path) in folders(&of_topic)? {
                if let Ok(id) = id.parse() {
                    let queue = ConsumeQueue::open(&path)?;
                    queues.topics.entry(topic.clone()).or_default().insert(id, queue);
                }
            }
        }
        Ok(queues)
    }

    pub(crate) fn get(&mut self, topic: &str, queue: u32) -> Option<&mut ConsumeQueue> {
        self.topics.get_mut(topic)?.get_mut(&queue)
    }

    /// Where the oldest record lies that a queue of this topic knows.
    pub(crate) fn oldest(&mut self, topic: &str) -> Result<Option<u64>, ImportError> {
        let mut oldest = None;
        for queue in self.topics.get_mut(topic).into_iter().flat_map(BTreeMap::values_mut) {
            let first = queue.first_from(0)?;
            if let Some(unit) = queue.unit(first)? {
                oldest = Some(oldest.map_or(unit.offset, |known: u64| known.min(unit.offset)));
            }
        }
        Ok(oldest)
    }

    /// Behind the last record that any queue knows.
    pub(crate) fn known(&mut self) -> Result<u64, ImportError> {
        let mut known = 0;
        for queue in self.topics.values_mut().flat_map(BTreeMap::values_mut) {
            if let Some(last) = queue.limit.checked_sub(1)
                && let Some(unit) = queue.unit(last)?
            {
                known = known.max(unit.limit());
            }
        }
        Ok(known)
    }
}

/// The folders in a folder, by name.
fn folders(folder: &Path) -> Result<Vec<(String, PathBuf)>, ImportError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).context("list", folder)? {
        let path = entry.context("list", folder)?.path();
        if path.is_dir()
            && let Some(name) = path.file_name().and_then(|name| name.to_str())
        {
            found.push((name.to_owned(), path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
