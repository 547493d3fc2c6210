//! Old segments: how old they are, and how they leave the log.
//!
//! Segments go from the front, one at a time, each as a whole and with the extents that hold nothing younger. One that is
//! read by nobody becomes the spare of the log: the next segment is made of it, so a log that grows as fast as it is
//! cleaned neither gives space back nor reserves it. Its old bytes are overwritten with zeros before appends use it; until
//! then none of them counts, as each record says its own offset. What is not kept is cut shorter in steps, since
//! removing a large file at once holds up the flushes of its file system.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{LogOffset, Millis};
use runtime::file::sync_folder;

use super::Log;
use super::segment::{Segment, spare_path};
use crate::disk;
use crate::error::{IoContext, StorageError};
use crate::queue::table::{Floor, QueueFloors, write_table};

/// Bytes by which a file that goes gets shorter at once.
const CUT_BYTES: u64 = 64 << 20;
const CUT_PAUSE: Duration = Duration::from_millis(20);

/// A segment in which nothing changes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldSegment {
    /// Behind its last byte.
    pub limit: LogOffset,
    pub bytes: u64,
    /// When it was written to for the last time.
    pub written: Millis,
}

/// What becomes of the space of a segment that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreedSpace {
    /// The log may keep one segment as its spare.
    Kept,
    /// The file system gets it back, and that of the spare.
    GivenBack,
}

/// What `drop_segments_before` removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedSegments {
    pub segments: usize,
    pub bytes: u64,
    /// The first offset that is left.
    pub min: LogOffset,
}

impl Log {
    /// The oldest segment, unless it is the one that is written to or not all of it is durable yet.
    pub async fn oldest_segment(&self) -> Result<Option<OldSegment>, StorageError> {
        let durable = self.marks.durable();
        let first = self.segments.borrow().first().filter(|segment| segment.limit <= durable);
        let Some(segment) = first.filter(|segment| segment.limit <= self.last_start()) else { return Ok(None) };
        let (limit, bytes) = (LogOffset(segment.limit), segment.limit - segment.start);
        let path = segment.path.clone();
        let written = runtime::blocking(move || disk::modified(&path)).await?;
        Ok(Some(OldSegment { limit, bytes, written }))
    }

    /// Removes whole segments that end at or in front of an offset, and what was derived from them. The segment that is
    /// written to stays.
    pub async fn drop_segments_before(
        &self,
        offset: LogOffset,
        space: FreedSpace,
    ) -> Result<DroppedSegments, StorageError> {
        let bytes = self.options.segment_bytes;
        let wanted = offset.0.min(self.marks.durable()).min(self.last_start()) / bytes * bytes;
        let min = self.min_offset();
        if wanted > min.0 && self.extents_end.get() < wanted {
            // The entries of what stays must not be in memory only, between extents that go and others that follow.
            self.cut().await?;
        }
        let allowed = wanted.min(self.extents_end.get()) / bytes * bytes;
        if allowed <= min.0 {
            return Ok(DroppedSegments { segments: 0, bytes: 0, min });
        }
        self.save_floors(allowed).await?;
        let segments = self.segments.borrow_mut().take_before(allowed);
        let extents = self.extents.take_before(allowed);
        let min = self.min_offset();
        self.extents.forget_bad_before(min.0);
        self.verified.borrow_mut().forget_before(min.0);
        self.read_cache.borrow_mut().forget_before(min.0);
        let queues = self.queues.borrow().all();
        for queue in queues {
            queue.drop_before(min).await?;
            runtime::yield_if_needed().await;
        }
        let dropped = DroppedSegments { segments: segments.len(), bytes: segments.len() as u64 * bytes, min };
        {
            let mut counts = self.counts.borrow_mut();
            counts.dropped_segments += dropped.segments as u64;
            counts.dropped_bytes += dropped.bytes;
        }
        let paths: Vec<_> = extents.iter().map(|extent| extent.path.clone()).collect();
        runtime::blocking(move || paths.iter().try_for_each(|path| disk::remove(path))).await?;
        for segment in segments {
            self.dispose(segment, space).await?;
        }
        Ok(dropped)
    }

    /// Where the last segment begins. It stays: a log without any would not be known to have been one.
    fn last_start(&self) -> u64 {
        self.segments.borrow().last_start().unwrap_or(0)
    }

    /// Gives the file system back what the log keeps for its next segment.
    pub async fn give_spare_back(&self) -> Result<(), StorageError> {
        let path = spare_path(&self.folders.commit_log);
        remove_in_steps(path).await
    }

    async fn dispose(&self, segment: Rc<Segment>, space: FreedSpace) -> Result<(), StorageError> {
        let path = segment.path.clone();
        let is_read = Rc::strong_count(&segment) > 1 || Arc::strong_count(&segment.read) > 1;
        drop(segment);
        if is_read {
            // Whoever reads it keeps its bytes until it is done.
            return runtime::blocking(move || disk::remove(&path)).await;
        }
        let spare = spare_path(&self.folders.commit_log);
        let is_kept = match space {
            FreedSpace::Kept => {
                let path = path.clone();
                runtime::blocking(move || keep_as(&path, &spare)).await?
            }
            FreedSpace::GivenBack => {
                self.give_spare_back().await?;
                false
            }
        };
        if is_kept { Ok(()) } else { remove_in_steps(path).await }
    }

    /// Notes where the offsets of all queues stand, in case all their messages go, and where the log is to begin.
    async fn save_floors(&self, log_min: u64) -> Result<(), StorageError> {
        let _turn = self.tables_turn.take().await;
        let mut floors = QueueFloors { log_min: Some(log_min), ..QueueFloors::default() };
        let queues = self.queues.borrow().all();
        for queue in queues.iter().filter(|queue| !queue.is_deleted()) {
            // What is visible only: an appended record that a crash takes away has used no offset.
            let floor = Floor { next: queue.max().0, log_end: self.marks.durable() };
            if floor.next > 0 {
                floors.topics.entry(queue.topic().to_owned()).or_default().insert(queue.id().0, floor);
            }
            runtime::yield_if_needed().await;
        }
        self.floors.set(self.floors.get() + 1);
        let (path, generation) = (self.folders.queue_floors(), self.floors.get());
        runtime::blocking(move || write_table(&path, generation, &floors)).await
    }
}

/// Makes a segment the spare, unless there is one.
fn keep_as(path: &Path, spare: &Path) -> Result<bool, StorageError> {
    if spare.exists() {
        return Ok(false);
    }
    std::fs::rename(path, spare).context("rename to", spare)?;
    let folder = spare.parent().expect("a file lies in a folder");
    sync_folder(folder).context("sync the folder", folder).map(|()| true)
}

/// Removes a file by [`CUT_BYTES`] at a time. First it gets another name: neither a start may take what is left for a
/// segment, nor preparation for the spare.
async fn remove_in_steps(path: PathBuf) -> Result<(), StorageError> {
    let Some(aside) = runtime::blocking(move || disk::set_aside(&path)).await? else { return Ok(()) };
    let aside: Arc<Path> = aside.into();
    loop {
        let shorter = aside.clone();
        if runtime::blocking(move || disk::shorten(&shorter, CUT_BYTES)).await? == 0 {
            return runtime::blocking(move || disk::remove(&aside)).await;
        }
        runtime::clock::sleep(CUT_PAUSE).await;
    }
}
