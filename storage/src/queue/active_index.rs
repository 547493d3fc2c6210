//! What is derived from the newest stretch of a log and not stored yet, and the same while it is rebuilt.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use base::{LogId, LogOffset, QueueId};
use remoting::record::RecordView;

use super::chunks::Chunks;
use super::entry::{Entry, Indexed, KeyEntry, KeyHash};
use super::extent_file::{CHUNK_COUNT, ContentRun, ExtentContent, ExtentFile, StoredRun};
use super::span::Span;

/// A growing run of one queue.
#[derive(Debug)]
pub(crate) struct RunBuilder {
    pub(crate) first: u64,
    pub(crate) entries: Chunks<Entry>,
}

impl RunBuilder {
    pub(crate) fn new(first: u64) -> RunBuilder {
        RunBuilder { first, entries: Chunks::default() }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.first + self.entries.len() as u64
    }
}

/// The keys of the records that no extent holds yet. Searched from its end: cheap to fill, and bounded by an extent.
#[derive(Debug, Default)]
pub(crate) struct ActiveIndex {
    pub(crate) keys: Chunks<KeyEntry>,
    /// The keys of the extent that is being written.
    pub(crate) frozen: Option<Arc<Chunks<KeyEntry>>>,
}

impl ActiveIndex {
    /// All keys of a hash, oldest first. A record that names one key twice is in it once, as in an extent.
    pub(crate) fn find(&self, hash: u64) -> Vec<KeyEntry> {
        let frozen = self.frozen.iter().flat_map(|keys| keys.iter());
        let mut found: Vec<_> = frozen.chain(self.keys.iter()).filter(|key| key.hash == hash).copied().collect();
        found.dedup();
        found
    }

    /// The extent could not be stored: its keys belong to the growing part again.
    pub(crate) fn thaw(&mut self) {
        if let Some(frozen) = self.frozen.take() {
            let newer = std::mem::replace(&mut self.keys, Arc::unwrap_or_clone(frozen));
            self.keys.extend(newer);
        }
    }

    /// Store time of the oldest record that has a key.
    pub(crate) fn store_ms_first(&self) -> Option<u64> {
        let frozen = self.frozen.iter().flat_map(|keys| keys.iter());
        frozen.chain(self.keys.iter()).next().map(|key| key.store_timestamp_ms)
    }

    /// Begins the next stretch behind an offset, and keeps the keys in front of it findable until their extent is there.
    pub(crate) fn freeze_before(&mut self, limit: u64) -> Arc<Chunks<KeyEntry>> {
        assert!(self.frozen.is_none(), "one extent is written at a time");
        let at = self.keys.partition_point(|key| key.offset < limit);
        let behind = self.keys.split_off(at);
        let keys = Arc::new(std::mem::replace(&mut self.keys, behind));
        self.frozen = Some(keys.clone());
        keys
    }
}

/// Derives entries and keys from records that are read again.
pub(crate) struct IndexBuilder {
    log: LogId,
    pub(crate) span: Span,
    runs: BTreeMap<(Arc<str>, u32), Vec<RunBuilder>>,
    keys: Chunks<KeyEntry>,
}

impl IndexBuilder {
    pub(crate) fn new(log: LogId, start: u64) -> IndexBuilder {
        IndexBuilder { log, span: Span::new(start), runs: BTreeMap::new(), keys: Chunks::default() }
    }

    /// Goes on with an extent that was stored before it had all its records. Blocks.
    pub(crate) fn of_extent(log: LogId, extent: &ExtentFile, runs: &[StoredRun]) -> io::Result<IndexBuilder> {
        let mut builder = IndexBuilder::new(log, extent.start);
        for run in runs {
            let mut entries = Chunks::default();
            for chunk in 0..u64::from(run.count).div_ceil(CHUNK_COUNT) {
                entries.extend(extent.read_entries(run.place, run.count, chunk)?);
            }
            let key = (run.topic.clone(), run.queue_id.0);
            builder.runs.entry(key).or_default().push(RunBuilder { first: run.first, entries });
        }
        let mut keys = extent.all_keys()?;
        keys.sort_unstable_by_key(|key| key.offset);
        builder.keys = keys.into_iter().collect();
        let last = if extent.last_record < extent.limit { extent.last_record } else { extent.start };
        let records = runs.iter().map(|run| u64::from(run.count)).sum();
        builder.span = Span::with(extent.start, last, records, builder.runs.len() as u64);
        Ok(builder)
    }

    /// Whether no record was looked at.
    pub(crate) fn is_empty(&self) -> bool {
        self.span.is_empty()
    }

    /// Whether a record at this offset begins the next extent.
    pub(crate) fn ends_before(&self, offset: LogOffset, extent_bytes: u64) -> bool {
        self.span.ends_before(offset.0, extent_bytes)
    }

    /// Passes over a record that does not count any more.
    pub(crate) fn pass(&mut self, offset: LogOffset) {
        self.span.pass(offset.0);
    }

    pub(crate) fn push(&mut self, view: &RecordView<'_>, offset: LogOffset) {
        let store_timestamp_ms = view.store_timestamp_ms().max(0) as u64;
        let bytes = view.total_bytes() as u32;
        let indexed = Indexed::of(view.properties());
        let entry =
            Entry { offset, bytes, tags_code: indexed.tags_code(view.topic(), view.sys_flag()), store_timestamp_ms };
        let queue_offset = view.queue_offset().0;
        let key: (Arc<str>, u32) = (view.topic().into(), view.queue_id().0);
        let runs = self.runs.entry(key).or_default();
        self.span.add(offset.0, runs.is_empty());
        match runs.last_mut() {
            Some(run) if run.limit() == queue_offset => run.entries.push(entry),
            last => {
                // Offsets that begin anew belong to a topic that was deleted and made again.
                if last.is_some_and(|run| queue_offset < run.limit()) {
                    runs.clear();
                }
                runs.push(RunBuilder { first: queue_offset, entries: [entry].into_iter().collect() });
            }
        }
        let keys = &mut self.keys;
        indexed.key_hashes(KeyHash::in_topic(view.topic()), |hash| {
            keys.push(KeyEntry { hash, offset: offset.0, store_timestamp_ms });
        });
    }

    /// All of it, up to `limit`.
    pub(crate) fn finish(self, limit: u64) -> ExtentContent {
        let mut runs = Vec::new();
        for ((topic, queue_id), queue_runs) in self.runs {
            runs.extend(queue_runs.into_iter().map(|run| ContentRun {
                topic: topic.clone(),
                queue_id: QueueId(queue_id),
                first: run.first,
                entries: Arc::new(run.entries),
            }));
        }
        ExtentContent { log: self.log, start: self.span.start, limit, runs, keys: Arc::new(self.keys) }
    }
}
