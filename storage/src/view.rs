//! A store as it lies on the disk: for people who look at it by hand.
//!
//! Nothing is written, repaired or taken for granted: what is damaged is shown as such. While the view is there nobody
//! else takes the store; if somebody has it already, the view shows what is on the disk at that moment.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{LogId, LogOffset, PhysicalOffset, QueueId, QueueOffset};
use remoting::record;
use runtime::file::{FileLock, ReadFile, read_whole};
use runtime::table_file;

use crate::checkpoint::Checkpoint;
use crate::disk;
use crate::error::{IoContext, StorageError};
use crate::kept::Kept;
use crate::log::tail_file;
use crate::options::LogFolders;
use crate::queue::extent_file::{CHUNK_COUNT, ExtentFile, StoredRun};
use crate::queue::{Entry, key_hash};
use crate::recovery::Damage;
use crate::resized::{self, Resized};
use crate::scan::{RECORD_BYTES_MAX, ScanRange, ScanSegment, Seen, scan};
use crate::store::{FORMAT_VERSION, Places, StoreTable, log_folder};

/// Bytes read to tell why a place is no record.
const REASON_BYTES: u64 = 1 << 20;

/// An extent with its runs, or why it is not whole.
type OpenedExtent = Result<(ExtentFile, Vec<StoredRun>), String>;

pub struct StoreView {
    root: PathBuf,
    /// As those of a store's options.
    commit_log_roots: Vec<PathBuf>,
    logs: u16,
    lock: Option<FileLock>,
}

impl StoreView {
    /// Looks at a store, whose segments may lie in other folders (none: under its own).
    ///
    /// # Errors
    /// When there is none, or its format is newer.
    pub fn open(root: &Path, commit_log_roots: &[PathBuf]) -> Result<StoreView, StorageError> {
        let path = root.join("store.json");
        let damaged = |what: String| StorageError::Damaged { file: path.clone(), offset: None, what };
        let stored = match table_file::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                return Err(damaged("its checksum does not fit, and it has no whole copy: restore one".to_owned()));
            }
            read => read.context("read", &path)?,
        };
        let Some(stored) = stored else {
            let what = "it is not there, so this is no store: name the folder of storePathRootDir";
            return Err(damaged(what.to_owned()));
        };
        let table: StoreTable = serde_json::from_str(&stored.text).map_err(|error| damaged(error.to_string()))?;
        if table.format_version > FORMAT_VERSION {
            return Err(StorageError::FormatVersion { file: path, found: table.format_version, known: FORMAT_VERSION });
        }
        let lock_path = root.join("lock");
        let lock = if lock_path.exists() { FileLock::try_take(&lock_path).context("lock", &lock_path)? } else { None };
        let own = [root.join("commitlog")];
        let roots = if commit_log_roots.is_empty() { &own } else { commit_log_roots };
        if let Some(missing) = commit_log_roots.iter().find(|folder| !folder.is_dir()) {
            let what = format!("{} is no folder: name those of storePathCommitLog", missing.display());
            return Err(StorageError::Options { what });
        }
        Ok(StoreView { root: root.to_owned(), commit_log_roots: roots.to_vec(), logs: table.logs, lock })
    }

    /// Whether somebody has the store: what is being written may look torn.
    pub fn is_in_use(&self) -> bool {
        self.lock.is_none() && self.root.join("lock").exists()
    }

    /// Whether it was stopped in order.
    pub fn was_stopped(&self) -> bool {
        !self.root.join("abort").exists()
    }

    pub fn logs(&self) -> u16 {
        self.logs
    }

    /// # Errors
    /// When its files cannot be looked at, or are in none of the folders.
    pub fn log(&self, id: LogId) -> Result<LogView, StorageError> {
        let log = log_folder(&self.root, id);
        let commit_log = Places::new(&self.root, &self.commit_log_roots)?.find(id)?;
        LogView::open(LogFolders { log, commit_log }, id)
    }
}

/// One log.
pub struct LogView {
    id: LogId,
    folders: LogFolders,
    segments: Vec<ScanSegment>,
    checkpoint: Option<Checkpoint>,
}

/// What a checkpoint says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointFacts {
    pub generation: u64,
    pub durable: LogOffset,
    pub written_limit: LogOffset,
    pub segment_bytes: u64,
    /// The generation of the tail file; 0: none.
    pub tail: u64,
    pub is_clean: bool,
}

/// What a tail file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailFacts {
    pub generation: u64,
    pub ring_bytes: u64,
    pub end: LogOffset,
}

/// A derived extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentFacts {
    pub file: PathBuf,
    /// Why not, when the file is not whole: it is made anew, by the next start or when it is read.
    pub content: Result<ExtentContentFacts, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentContentFacts {
    pub start: LogOffset,
    pub limit: LogOffset,
    pub runs: u64,
    pub entries: u64,
    pub store_ms_first: u64,
    pub store_ms_last: u64,
}

/// Consecutive entries of a queue in an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRun {
    pub topic: Arc<str>,
    pub queue: QueueId,
    pub first: QueueOffset,
    /// Empty when the chunk they lie in is damaged.
    pub entries: Vec<Entry>,
    pub file: PathBuf,
}

/// A key of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFound {
    pub offset: LogOffset,
    pub store_ms: u64,
    pub file: PathBuf,
}

impl LogView {
    fn open(folders: LogFolders, id: LogId) -> Result<LogView, StorageError> {
        let checkpoint = Checkpoint::read(&folders.checkpoint(), id)?;
        let mut segments = Vec::new();
        for (start, path) in listed(&folders.commit_log)? {
            let file = ReadFile::open(&path).context("open", &path)?;
            let bytes = file.bytes().context("look at", &path)?;
            segments.push(ScanSegment { start, limit: start + bytes, path, file: Arc::new(file) });
        }
        Ok(LogView { id, folders, segments, checkpoint })
    }

    pub fn checkpoint(&self) -> Option<CheckpointFacts> {
        self.checkpoint.map(|checkpoint| CheckpointFacts {
            generation: checkpoint.generation,
            durable: LogOffset(checkpoint.durable),
            written_limit: LogOffset(checkpoint.written_limit),
            segment_bytes: checkpoint.segment_bytes,
            tail: checkpoint.tail,
            is_clean: checkpoint.clean,
        })
    }

    /// `None` without a tail file; an error text when it is not whole.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn tail(&self) -> Result<Option<Result<TailFacts, String>>, StorageError> {
        let path = self.folders.tail_file();
        let Some(content) = read_whole(&path).context("read", &path)? else { return Ok(None) };
        Ok(Some(match tail_file::decode(&content) {
            None => Err("it is no whole tail file".to_owned()),
            Some((head, _, _)) if head.log != self.id => Err(format!("it belongs to log {}", head.log)),
            Some((head, end, _)) => {
                Ok(TailFacts { generation: head.generation, ring_bytes: head.ring_bytes, end: LogOffset(end) })
            }
        }))
    }

    /// How many bytes only the tail file has, of records behind the end of the segments' ones; and why there may have been
    /// more. Nothing after a stop in order.
    ///
    /// # Errors
    /// When it cannot be read, or a start would refuse it.
    pub fn kept(&self, end: LogOffset) -> Result<(u64, Option<String>), StorageError> {
        let Some(checkpoint) = self.checkpoint.filter(|checkpoint| !checkpoint.clean) else { return Ok((0, None)) };
        let path = self.folders.tail_file();
        let kept = Kept::read(&path, self.id, Some(&checkpoint), end.0, checkpoint.segment_bytes)?;
        Ok((kept.runs.iter().map(|run| run.bytes.len() as u64).sum(), kept.lost))
    }

    /// Segments whose length was mended, oldest first.
    ///
    /// # Errors
    /// When the notes of it cannot be read.
    pub fn resized(&self) -> Result<Vec<Resized>, StorageError> {
        resized::read(&self.folders.resized())
    }

    /// How many segments there are, where the first begins and the last ends.
    pub fn segments(&self) -> (usize, LogOffset, LogOffset) {
        let start = self.segments.first().map_or(0, |segment| segment.start);
        let limit = self.segments.last().map_or(0, |segment| segment.limit);
        (self.segments.len(), LogOffset(start), LogOffset(limit))
    }

    /// Shows records and damage from a place on, which need not be the beginning of a record, until `each` ends it or the
    /// log ends. Returns where.
    ///
    /// # Errors
    /// When a segment cannot be read.
    pub fn read(
        &self,
        from: LogOffset,
        mut each: impl FnMut(Seen<'_>) -> ControlFlow<()>,
    ) -> Result<LogOffset, StorageError> {
        let (_, min, _) = self.segments();
        let durable = self.checkpoint.map_or(0, |checkpoint| checkpoint.durable);
        // An offset that somebody asks for may lie within a record: the next one is looked for.
        let durable = if from > min { durable.max(from.0.saturating_add(1)) } else { durable };
        let range = ScanRange { start: from.0.max(min.0), limit: u64::MAX, durable };
        scan(self.id, &self.segments, range, |seen| Ok(each(seen))).map(|scanned| LogOffset(scanned.end))
    }

    /// Why no record lies at a place.
    pub fn reason(&self, damage: &Damage) -> String {
        if damage.missing {
            return "no file holds it".to_owned();
        }
        let at = damage.start.0;
        let segment = self.segments.iter().find(|segment| segment.start <= at && at < segment.limit);
        let read = segment.map(|segment| {
            // The next record that is whole lies behind this one.
            let bytes = (damage.limit.0 - at).clamp(REASON_BYTES, RECORD_BYTES_MAX).min(segment.limit - at);
            let mut bytes = vec![0; bytes as usize];
            segment.file.read_exact_at(&mut bytes, at - segment.start).map(|()| bytes)
        });
        match read {
            Some(Ok(bytes)) => match record::verify(&bytes, PhysicalOffset::new(self.id, damage.start)) {
                Err(error) => error.to_string(),
                Ok(_) => "a record that was not there when it was read first".to_owned(),
            },
            Some(Err(error)) => error.to_string(),
            None => "no file holds it".to_owned(),
        }
    }

    /// The derived extents, oldest first. Each is read wholly.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn extents(&self) -> Result<Vec<ExtentFacts>, StorageError> {
        let facts = |(file, opened): (PathBuf, OpenedExtent)| {
            let checked = opened.and_then(|(extent, runs)| match extent.check(&runs) {
                Ok(()) => Ok((extent, runs)),
                Err(error) => Err(error.to_string()),
            });
            let content = checked.map(|(extent, runs)| ExtentContentFacts {
                start: LogOffset(extent.start),
                limit: LogOffset(extent.limit),
                runs: runs.len() as u64,
                entries: runs.iter().map(|run| u64::from(run.count)).sum(),
                store_ms_first: extent.store_ms_first,
                store_ms_last: extent.store_ms_last,
            });
            ExtentFacts { file, content }
        };
        Ok(self.extent_files()?.into_iter().map(facts).collect())
    }

    /// What the extents say of one queue, oldest first.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn queue(&self, topic: &str, queue: QueueId) -> Result<Vec<QueueRun>, StorageError> {
        let mut found = Vec::new();
        for (file, opened) in self.extent_files()? {
            let Ok((extent, runs)) = opened else { continue };
            for run in runs.iter().filter(|run| &*run.topic == topic && run.queue_id == queue) {
                for chunk in 0..u64::from(run.count).div_ceil(CHUNK_COUNT) {
                    found.push(QueueRun {
                        topic: run.topic.clone(),
                        queue,
                        first: QueueOffset(run.first + chunk * CHUNK_COUNT),
                        entries: extent.read_entries(run.place, run.count, chunk).unwrap_or_default(),
                        file: file.clone(),
                    });
                }
            }
        }
        Ok(found)
    }

    /// What the indexes of the extents say of a key, oldest first. They know its hash alone.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn key(&self, topic: &str, key: &str) -> Result<Vec<KeyFound>, StorageError> {
        let hash = key_hash(topic, key);
        let mut found = Vec::new();
        for (file, opened) in self.extent_files()? {
            let keys = opened.ok().and_then(|(extent, _)| extent.find_keys(hash).ok()).unwrap_or_default();
            found.extend(keys.into_iter().map(|key| KeyFound {
                offset: LogOffset(key.offset),
                store_ms: key.store_timestamp_ms,
                file: file.clone(),
            }));
        }
        Ok(found)
    }

    fn extent_files(&self) -> Result<Vec<(PathBuf, OpenedExtent)>, StorageError> {
        let files = listed(&self.folders.queues())?;
        let opened = |path: &Path| ExtentFile::open(path, self.id).map_err(|error| error.to_string());
        Ok(files.into_iter().map(|(_, path)| (path.clone(), opened(&path))).collect())
    }
}

/// The files of a folder whose names are offsets; none of a folder that is not there.
fn listed(folder: &Path) -> Result<Vec<(u64, PathBuf)>, StorageError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).context("list", folder)? {
        let path = entry.context("list", folder)?.path();
        if let Some(start) = disk::offset_of_name(&path) {
            files.push((start, path));
        }
    }
    files.sort_unstable();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use base::Millis;
    use remoting::record::RecordDraft;
    use runtime::file::TempFolder;

    use super::*;
    use crate::{LogBuilder, Store, StoreOptions};

    const SEGMENT_BYTES: u64 = 1 << 20;

    fn draft<'a>(topic: &'a str, body: &'a [u8]) -> RecordDraft<'a> {
        RecordDraft {
            properties: "KEYS\u{1}k\u{2}",
            ..RecordDraft::own(topic, QueueId(1), body, "127.0.0.1:1".parse().expect("an address"), Millis(0))
        }
    }

    fn options(root: &Path, logs: Option<u16>) -> StoreOptions {
        let commit_log_roots = vec![root.join("commitlog")];
        StoreOptions { root: root.to_owned(), commit_log_roots, logs, logs_if_new: 1, flush_kind: None }
    }

    /// A store of one log with five records, each in a segment of its own. Returns their places.
    fn fill(root: &Path) -> Vec<u64> {
        let options = options(root, Some(1));
        let store = Store::open(options).expect("a store");
        let mut log = LogBuilder::create(store.log_folders(LogId(0)), LogId(0), SEGMENT_BYTES).expect("a log");
        let body = vec![7; 600 << 10];
        let put = |number| log.append(&draft("T", &body), QueueOffset(number), 5).expect("appended").offset().0;
        let places = (0..5).map(put).collect();
        log.finish().expect("finished");
        store.close().expect("closed");
        places
    }

    /// Records as their offsets, damage as its limits and reason.
    fn seen(root: &Path, from: u64) -> Vec<String> {
        let store = StoreView::open(root, &[]).expect("a store");
        let log = store.log(LogId(0)).expect("a log");
        let mut all = Vec::new();
        log.read(LogOffset(from), |seen| {
            all.push(match seen {
                Seen::Record(_, offset) => offset.to_string(),
                Seen::Damage(damage) => format!("{}-{} {}", damage.start, damage.limit, log.reason(damage)),
            });
            ControlFlow::Continue(())
        })
        .expect("readable");
        all
    }

    #[test]
    fn a_store_is_shown_as_it_lies_and_not_changed() {
        let folder = TempFolder::new("view");
        let root = folder.path().join("store");
        let places = fill(&root);
        assert_eq!(seen(&root, 0), places.iter().map(u64::to_string).collect::<Vec<_>>());
        let store = StoreView::open(&root, &[]).expect("a store");
        assert_eq!((store.is_in_use(), store.was_stopped(), store.logs()), (false, true, 1));
        let log = store.log(LogId(0)).expect("a log");
        assert_eq!((log.segments().0, log.tail().expect("read"), log.extents().expect("listed").len()), (5, None, 1));
        assert!(log.checkpoint().is_some_and(|checkpoint| checkpoint.is_clean && checkpoint.durable.0 > places[4]));
        let offsets = |offsets: Vec<LogOffset>| offsets.iter().map(|offset| offset.0).collect::<Vec<_>>();
        let runs = log.queue("T", QueueId(1)).expect("listed");
        assert_eq!(offsets(runs[0].entries.iter().map(|entry| entry.offset).collect()), places);
        assert_eq!(offsets(log.key("T", "k").expect("listed").iter().map(|key| key.offset).collect()), places);
        assert!(log.key("T", "other").expect("listed").is_empty());
        drop(store);

        // A record, a segment, an extent: each is shown as what it is, and stays so.
        let segment = |number: usize| root.join(format!("log-00/commitlog/{:020}", places[number]));
        let file = fs::OpenOptions::new().write(true).open(segment(1)).expect("opened");
        file.write_all_at(b"?", 1000).expect("written");
        fs::remove_file(segment(3)).expect("removed");
        fs::write(root.join("log-00/queues").join(format!("{:020}", 0)), "x").expect("written");
        let shown = seen(&root, 0);
        assert!([0, 2, 4].iter().all(|number| shown[*number] == places[*number].to_string()), "{shown:?}");
        assert!(shown[1].contains("the record's checksum is"), "{shown:?}");
        assert!(shown[3].ends_with("no file holds it"), "{shown:?}");
        assert_eq!(seen(&root, 0), shown);
        assert_eq!(seen(&root, places[1] + 17).len(), 4, "a place that is none of a record leads to the next");
        let store = StoreView::open(&root, &[]).expect("a store");
        let extents = store.log(LogId(0)).expect("a log").extents().expect("listed");
        assert!(matches!(&extents[..], [ExtentFacts { content: Err(_), .. }]), "{extents:?}");
    }

    #[test]
    fn what_is_no_store_is_said() {
        let folder = TempFolder::new("view");
        let error = StoreView::open(folder.path(), &[]).err().expect("no store").to_string();
        assert!(error.contains("this is no store: name the folder"), "{error}");
        let store = fill(&folder.path().join("s"));
        assert_eq!(store.len(), 5);
        let options = options(&folder.path().join("s"), None);
        let taken = Store::open(options).expect("taken");
        let view = StoreView::open(&folder.path().join("s"), &[]).expect("it is read all the same");
        assert!(view.is_in_use() && !view.was_stopped());
        drop(taken);
    }
}
