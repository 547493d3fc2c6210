//! Makes a log of records that have their queue offsets already, for a store that is taken over from elsewhere.
//!
//! Blocks, and needs neither a core nor a ring: nobody else uses the log yet. What comes out is a log that was stopped in
//! order, extents included, so it opens without a scan. Until it is finished it has no checkpoint, and nobody should take
//! it for one: its user builds the store under another name.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use base::{LogId, LogOffset, PhysicalOffset, QueueId, QueueOffset};
use remoting::record::{self, BLANK_BYTES, Placement, RecordDraft, RecordView};

use crate::boot::Boot;
use crate::checkpoint::Checkpoint;
use crate::disk;
use crate::error::{IoContext, StorageError};
use crate::log::segment::Segment;
use crate::options::{LogFolders, LogOptions};
use crate::queue::IndexBuilder;
use crate::queue::table::{Floor, QueueFloors, write_table};
use crate::recovery::store_extent;
use crate::scan::RECORD_BYTES_MAX;

/// Encoded records are written when there are so many bytes of them.
const PIECE_BYTES: usize = 4 << 20;

/// A log while it is made.
pub struct LogBuilder {
    id: LogId,
    folders: LogFolders,
    pub(crate) options: LogOptions,
    segment: Option<OpenSegment>,
    /// Records right in front of `end` that are not written yet.
    unwritten: Vec<u8>,
    end: u64,
    store_ms_last: u64,
    index: IndexBuilder,
    /// The next offset of each queue that has a record.
    next: HashMap<Arc<str>, BTreeMap<u32, u64>>,
    floors: QueueFloors,
}

/// The segment that is written to.
struct OpenSegment {
    path: PathBuf,
    file: File,
}

impl LogBuilder {
    /// Begins a log in folders that are empty or not there.
    ///
    /// # Errors
    /// When they cannot be made, or the size of segments is none.
    pub fn create(folders: LogFolders, id: LogId, segment_bytes: u64) -> Result<LogBuilder, StorageError> {
        let options = LogOptions { segment_bytes, ..LogOptions::default() };
        options.check()?;
        for folder in [&folders.log, &folders.commit_log, &folders.queues()] {
            disk::make_folder(folder)?;
        }
        Ok(LogBuilder {
            id,
            folders,
            options,
            segment: None,
            unwritten: Vec::with_capacity(PIECE_BYTES),
            end: 0,
            store_ms_last: 0,
            index: IndexBuilder::new(id, 0),
            next: HashMap::new(),
            floors: QueueFloors::of_whole_log(),
        })
    }

    pub fn id(&self) -> LogId {
        self.id
    }

    /// The offset behind the last record of a queue; `None` when it has none.
    pub fn next(&self, topic: &str, queue: QueueId) -> Option<QueueOffset> {
        self.next.get(topic)?.get(&queue.0).copied().map(QueueOffset)
    }

    /// Appends a record under an offset of its queue, which may lie behind the next one but not in front of it. A store
    /// time in front of that of the record before is raised to it, as for every record of a log.
    ///
    /// # Errors
    /// When it cannot be written, or is longer than a segment.
    ///
    /// # Panics
    /// When the offset was given already.
    pub fn append(
        &mut self,
        draft: &RecordDraft<'_>,
        queue_offset: QueueOffset,
        store_timestamp_ms: u64,
    ) -> Result<PhysicalOffset, StorageError> {
        self.advance(draft.topic, draft.queue_id, queue_offset);
        let bytes = record::record_bytes(draft);
        self.make_room(bytes as u64)?;
        let offset = LogOffset(self.end);
        if self.index.ends_before(offset, self.options.extent_bytes) {
            self.cut_extent()?;
        }
        self.store_ms_last = self.store_ms_last.max(store_timestamp_ms);
        let placement = Placement {
            queue_offset,
            physical_offset: PhysicalOffset::new(self.id, offset),
            store_timestamp_ms: self.store_ms_last as i64,
        };
        let at = self.unwritten.len();
        self.unwritten.resize(at + bytes, 0);
        record::encode(draft, placement, &mut self.unwritten[at..]);
        let view = RecordView::decode(&self.unwritten[at..]).expect("it was just encoded");
        self.index.push(&view, offset);
        self.end += bytes as u64;
        if self.unwritten.len() >= PIECE_BYTES {
            self.write()?;
        }
        Ok(placement.physical_offset)
    }

    /// Lets a queue go on at an offset although its messages are gone.
    pub fn raise_next(&mut self, topic: &str, queue: QueueId, next: QueueOffset) {
        if self.next(topic, queue).is_none_or(|known| known < next) {
            self.floors.raise(topic, queue, Floor { next: next.0, log_end: self.end });
        }
    }

    /// Brings everything to the disk and notes that the log was stopped in order. Returns its end.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<LogOffset, StorageError> {
        self.close_segment()?;
        if !self.index.is_empty() {
            self.cut_extent()?;
        }
        if !self.floors.topics.is_empty() {
            write_table(&self.folders.queue_floors(), 1, &self.floors)?;
        }
        let checkpoint = Checkpoint {
            generation: 1,
            durable: self.end,
            written_limit: self.end,
            segment_bytes: self.options.segment_bytes,
            tail: 0,
            boot: Boot::this(),
            clean: true,
        };
        checkpoint.write(&self.folders.checkpoint(), self.id)?;
        Ok(LogOffset(self.end))
    }

    fn advance(&mut self, topic: &str, queue: QueueId, offset: QueueOffset) {
        if !self.next.contains_key(topic) {
            self.next.insert(topic.into(), BTreeMap::new());
        }
        let next = self.next.get_mut(topic).expect("it was just made").entry(queue.0).or_insert(0);
        assert!(offset.0 >= *next, "{topic} {queue}: offset {offset} after {next} were given");
        *next = offset.0 + 1;
    }

    /// Goes to the next segment if this one has no room.
    fn make_room(&mut self, bytes: u64) -> Result<(), StorageError> {
        let segment_bytes = self.options.segment_bytes;
        if bytes + BLANK_BYTES as u64 > segment_bytes || bytes > RECORD_BYTES_MAX {
            let what = format!("a record of {bytes} bytes does not fit into a segment of {segment_bytes} bytes");
            return Err(StorageError::Options { what });
        }
        let room = segment_bytes - self.end % segment_bytes;
        if self.segment.is_some() && bytes + BLANK_BYTES as u64 > room {
            self.unwritten.extend_from_slice(&record::blank(room as u32));
            self.close_segment()?;
            self.end += room;
        }
        if self.segment.is_none() {
            let start = self.end;
            let made = Segment::create(&self.folders.commit_log, start, segment_bytes)?;
            let file = OpenOptions::new().write(true).open(&made.path).context("open for writing", &made.path)?;
            self.segment = Some(OpenSegment { path: made.path, file });
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), StorageError> {
        if let Some(segment) = &mut self.segment {
            segment.file.write_all(&self.unwritten).context("write", &segment.path)?;
        }
        self.unwritten.clear();
        Ok(())
    }

    /// Segments end by their age, which is that of their newest record.
    fn close_segment(&mut self) -> Result<(), StorageError> {
        self.write()?;
        let Some(segment) = self.segment.take() else { return Ok(()) };
        let modified = UNIX_EPOCH + Duration::from_millis(self.store_ms_last);
        segment.file.set_modified(modified).context("set the time of", &segment.path)?;
        segment.file.sync_all().context("sync", &segment.path)
    }

    fn cut_extent(&mut self) -> Result<(), StorageError> {
        let full = std::mem::replace(&mut self.index, IndexBuilder::new(self.id, self.end));
        store_extent(&self.folders.queues(), self.id, &full.finish(self.end)).map(|_| ())
    }
}
