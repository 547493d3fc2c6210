//! The segments of a log: files of one size, named by the offset they start at.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use runtime::file::{DirectFile, ReadFile, sync_folder};

use crate::disk;
use crate::error::{IoContext, StorageError};
use crate::scan::ScanSegment;

/// One file of the log.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) limit: u64,
    pub(crate) path: PathBuf,
    pub(crate) direct: Arc<DirectFile>,
    /// The same file through the page cache, for readers.
    pub(crate) read: Arc<ReadFile>,
}

impl Segment {
    /// Makes a new segment with its space reserved. It gets its name when it is whole. Blocks.
    pub(crate) fn create(folder: &Path, start: u64, bytes: u64) -> Result<Segment, StorageError> {
        let path = folder.join(disk::offset_name(start));
        let fresh = disk::fresh_path(&path);
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StorageError::io("remove", &fresh, error));
            }
            _ => {}
        }
        let made = take_spare(folder, &fresh, bytes).and_then(|taken| match taken {
            true => Ok(()),
            false => DirectFile::create(&fresh, bytes).and_then(|file| file.sync_all()).context("make", &fresh),
        });
        if let Err(error) = made {
            let _ = std::fs::remove_file(&fresh);
            return Err(error);
        }
        std::fs::rename(&fresh, &path).context("rename to", &path)?;
        sync_folder(folder).context("sync the folder", folder)?;
        Segment::open(&path, start, bytes)
    }

    /// Blocks.
    pub(crate) fn open(path: &Path, start: u64, bytes: u64) -> Result<Segment, StorageError> {
        let read = ReadFile::open(path).context("open", path)?;
        let found = read.bytes().context("look at", path)?;
        if found != bytes {
            return Err(StorageError::SegmentBytes { file: path.to_owned(), found, wanted: bytes });
        }
        if !start.is_multiple_of(bytes) {
            let what = format!("its name is no multiple of the segment size {bytes}");
            return Err(StorageError::Damaged { file: path.to_owned(), offset: None, what });
        }
        let direct = DirectFile::open(path).context("open for writing", path)?;
        Ok(Segment {
            start,
            limit: start + bytes,
            path: path.to_owned(),
            direct: Arc::new(direct),
            read: Arc::new(read),
        })
    }
}

/// Where a log keeps a segment that it needs no more, until it needs a new one.
pub(crate) fn spare_path(folder: &Path) -> PathBuf {
    folder.join("spare")
}

/// Makes the spare segment, if there is one of the right size, the file that is to become the next segment. Blocks.
fn take_spare(folder: &Path, fresh: &Path, bytes: u64) -> Result<bool, StorageError> {
    let spare = spare_path(folder);
    match std::fs::metadata(&spare) {
        Ok(found) if found.len() == bytes => match std::fs::rename(&spare, fresh) {
            Ok(()) => Ok(true),
            // It was given back just now.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StorageError::io("rename to", fresh, error)),
        },
        Ok(_) => disk::remove(&spare).map(|()| false),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StorageError::io("look at", &spare, error)),
    }
}

/// All segments, by their start.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    by_start: BTreeMap<u64, Rc<Segment>>,
}

impl Segments {
    pub(crate) fn new(segments: Vec<Segment>) -> Segments {
        Segments { by_start: segments.into_iter().map(|segment| (segment.start, Rc::new(segment))).collect() }
    }

    pub(crate) fn insert(&mut self, segment: Segment) {
        let start = segment.start;
        let before = self.by_start.insert(start, Rc::new(segment));
        assert!(before.is_none(), "segment {start} is there twice");
    }

    pub(crate) fn containing(&self, offset: u64) -> Option<Rc<Segment>> {
        let (_, segment) = self.by_start.range(..=offset).next_back()?;
        (offset < segment.limit).then(|| segment.clone())
    }

    /// The segments that hold a part of a range.
    pub(crate) fn overlapping(&self, start: u64, limit: u64) -> Vec<ScanSegment> {
        let overlapping = self.by_start.values().filter(|segment| segment.limit > start && segment.start < limit);
        overlapping.map(|segment| ScanSegment::from(&**segment)).collect()
    }

    pub(crate) fn first(&self) -> Option<Rc<Segment>> {
        self.by_start.values().next().cloned()
    }

    pub(crate) fn last_start(&self) -> Option<u64> {
        self.by_start.keys().next_back().copied()
    }

    /// Behind the last one.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.by_start.values().next_back().map(|segment| segment.limit)
    }

    pub(crate) fn min_offset(&self) -> Option<u64> {
        self.by_start.keys().next().copied()
    }

    pub(crate) fn count(&self) -> usize {
        self.by_start.len()
    }

    /// Takes out the segments that end at or in front of `offset`, oldest first.
    pub(crate) fn take_before(&mut self, offset: u64) -> Vec<Rc<Segment>> {
        let mut taken = Vec::new();
        while let Some(entry) = self.by_start.first_entry()
            && entry.get().limit <= offset
        {
            taken.push(entry.remove());
        }
        taken
    }
}
