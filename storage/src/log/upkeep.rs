//! What keeps a log short to recover and readable: cutting derived extents, repairing them, checkpoints, deletions,
//! and the orderly stop.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use base::{LogId, LogOffset};

use super::{Log, Mark};
use crate::checkpoint::Checkpoint;
use crate::error::StorageError;
use crate::queue::extent_file::{ContentRun, ExtentContent, ExtentFile};
use crate::queue::table::write_table;
use crate::queue::{Extent, LoadedRun};
use crate::recovery::{LoadedExtent, rebuild_extent, store_extent};
use crate::scan::ScanSegment;

/// The entries of so many newest extents stay decoded in memory: for those who are a little behind.
const EXTENTS_DECODED: usize = 1;
/// An extent that could not be written is tried again after this time; until then its entries stay in memory.
const RETRY_CUT: Duration = Duration::from_secs(1);
/// How long a stop waits for a disk that is full.
const STOP_CHECK: Duration = Duration::from_millis(100);

impl Log {
    /// Brings a changed checkpoint to disk, durably.
    pub(super) async fn save_checkpoint(&self, change: impl FnOnce(&mut Checkpoint)) -> Result<(), StorageError> {
        self.write_checkpoint(Checkpoint::write, change).await
    }

    /// As [`Log::save_checkpoint`], durable with the next flush: for what a start can do without.
    pub(super) async fn note_checkpoint(&self, change: impl FnOnce(&mut Checkpoint)) -> Result<(), StorageError> {
        self.write_checkpoint(Checkpoint::note, change).await
    }

    async fn write_checkpoint(
        &self,
        write: fn(&Checkpoint, &Path, LogId) -> Result<(), StorageError>,
        change: impl FnOnce(&mut Checkpoint),
    ) -> Result<(), StorageError> {
        let _turn = self.checkpoint_turn.take().await;
        let mut checkpoint = *self.checkpoint.borrow();
        change(&mut checkpoint);
        checkpoint.generation += 1;
        let (path, id) = (self.folders.checkpoint(), self.id);
        runtime::blocking(move || write(&checkpoint, &path, id)).await?;
        self.checkpoint.replace(checkpoint);
        Ok(())
    }

    /// The task that cuts extents.
    pub(super) async fn cut_on(self: &Rc<Log>) {
        while !self.ended.get() && !self.marks.has_failed() {
            self.cut_wanted.notified().await;
            while !self.stopping.get()
                && let Err(error) = self.cut_full().await
            {
                self.counts.borrow_mut().extent_failure = Some(error);
                runtime::clock::within(RETRY_CUT, self.end_wanted.notified()).await;
            }
        }
    }

    /// Stores the extents that have all their records.
    async fn cut_full(&self) -> Result<(), StorageError> {
        let _turn = self.cut_turn.take().await;
        loop {
            let Some(limit) = self.extents_full.borrow().front().copied() else { return Ok(()) };
            self.cut_before(limit).await?;
            self.extents_full.borrow_mut().pop_front();
        }
    }

    /// Stores all that was derived from the log, also of an extent that gets more records. The next start goes on with it.
    pub(super) async fn cut(&self) -> Result<(), StorageError> {
        self.cut_full().await?;
        let _turn = self.cut_turn.take().await;
        self.cut_before(self.dispatched.get()).await
    }

    async fn cut_before(&self, limit: u64) -> Result<(), StorageError> {
        let start = self.extents_end.get();
        if limit <= start {
            return Ok(());
        }
        let keys = self.index.borrow_mut().freeze_before(limit);
        // Whoever gets a record meanwhile is in this list, or lists itself.
        let queues = self.growing.take();
        let (mut runs, mut taken) = (Vec::new(), Vec::new());
        for (owner, queue) in queues.iter().enumerate() {
            queue.freeze_before(limit);
            for (first, entries) in queue.unstored_before(limit) {
                let topic = queue.topic_shared().clone();
                runs.push(ContentRun { topic, queue_id: queue.id(), first, entries });
                taken.push((owner, first));
            }
            runtime::yield_if_needed().await;
        }
        let outcome = self.store_cut(ExtentContent { log: self.id, start, limit, runs, keys }).await;
        let (path, file, places) = match outcome {
            Ok(stored) => stored,
            Err(error) => {
                self.index.borrow_mut().thaw();
                self.growing.borrow_mut().extend(queues);
                return Err(error);
            }
        };
        let extent = Rc::new(Extent::new(path, file));
        self.extents.push(extent.clone());
        self.index.borrow_mut().frozen = None;
        self.extents_end.set(limit);
        // Each queue is touched once: with very many of them it is never in a cache.
        let older_limit = self.extents.newest_but(EXTENTS_DECODED).map_or(0, |older| older.limit);
        let mut stored = taken.into_iter().zip(places).peekable();
        for (number, queue) in queues.iter().enumerate() {
            while let Some(((_, first), place)) = stored.next_if(|((owner, _), _)| *owner == number) {
                queue.attach(first, &extent, place);
            }
            queue.shed_memory(older_limit);
            if queue.stays_growing() {
                self.growing.borrow_mut().push(queue.clone());
            }
            runtime::yield_if_needed().await;
        }
        let older = self.decoded.replace(queues);
        for queue in older.iter().filter(|queue| queue.is_decoded_before(older_limit)) {
            queue.shed_memory(older_limit);
            runtime::yield_if_needed().await;
        }
        self.counts.borrow_mut().extent_failure = None;
        Ok(())
    }

    /// Sorts what is in an extent and stores it: its path, its file, and where in it each of the runs lies. An extent is
    /// written only of what is durable, or it could name records that a crash takes away.
    async fn store_cut(&self, mut content: ExtentContent) -> Result<(PathBuf, ExtentFile, Vec<u64>), StorageError> {
        while self.marks.durable() < content.limit {
            if self.ended.get() {
                // Nobody flushes any more.
                return Err(StorageError::Stopped { log: self.id.0 });
            }
            self.flush_soon();
            let reached = self.marks.reached(content.limit, Mark::Durable);
            runtime::clock::within(STOP_CHECK, reached).await.transpose()?;
        }
        let (folder, id) = (self.folders.queues(), self.id);
        runtime::blocking(move || {
            let order = content.sort();
            let LoadedExtent { path, file, runs } = store_extent(&folder, id, &content)?;
            let mut places = vec![0; order.len()];
            for (at, run) in order.into_iter().zip(runs) {
                places[at] = run.place;
            }
            Ok((path, file, places))
        })
        .await
    }

    /// The task that makes damaged extents anew.
    pub(super) async fn repair_on(self: &Rc<Log>) {
        while !self.ended.get() && !self.marks.has_failed() {
            let damaged = self.extents.take_damaged();
            if damaged.is_empty() {
                self.extents.damage_found.notified().await;
                continue;
            }
            for extent in damaged {
                self.repair(&extent).await;
            }
        }
    }

    async fn repair(&self, extent: &Rc<Extent>) {
        let (folder, id, stretch) = (self.folders.queues(), self.id, (extent.start, extent.limit));
        let segments: Vec<ScanSegment> = self.segments.borrow().overlapping(extent.start, extent.limit);
        let deleted = self.deleted.borrow().0.clone();
        let outcome = runtime::blocking(move || rebuild_extent(&folder, id, &segments, stretch, &deleted)).await;
        self.counts.borrow_mut().extents_repaired += 1;
        let loaded = match outcome {
            Ok(loaded) => loaded,
            Err(error) => return extent.repaired(Err(error)),
        };
        let mut by_queue: BTreeMap<(String, u32), Vec<LoadedRun>> = BTreeMap::new();
        for run in loaded.runs {
            by_queue.entry((run.topic.to_string(), run.queue_id.0)).or_default().push(LoadedRun {
                first: run.first,
                count: u64::from(run.count),
                log_offset_first: LogOffset(run.log_offset_first),
                memory: None,
                extent: Some((extent.clone(), run.place)),
            });
        }
        for queue in self.queues() {
            let fresh = by_queue.remove(&(queue.topic().to_owned(), queue.id().0)).unwrap_or_default();
            queue.replace_runs(extent, fresh);
        }
        extent.repaired(Ok(loaded.file));
    }

    /// Forgets a topic: its queues are gone at once, and stay gone after a restart. A topic made anew under the name
    /// begins at queue offset 0.
    pub async fn delete_topic(&self, topic: &str) -> Result<(), StorageError> {
        let end = self.marks.appended();
        self.queues.borrow_mut().remove_topic(topic);
        let _turn = self.tables_turn.take().await;
        let min = self.min_offset().0;
        let (table, generation) = {
            let mut deleted = self.deleted.borrow_mut();
            deleted.0.topics.insert(topic.to_owned(), end);
            // What was deleted before the first record that is left needs no note.
            deleted.0.topics.retain(|_, end| *end > min);
            deleted.1 += 1;
            (deleted.0.clone(), deleted.1)
        };
        let path = self.folders.deleted_topics();
        runtime::blocking(move || write_table(&path, generation, &table)).await
    }

    /// Stops in order: what was appended becomes durable, everything derived is stored, and the next start has nothing
    /// to scan. Appends are refused from the beginning on.
    pub async fn stop(&self) -> Result<(), StorageError> {
        self.stopping.set(true);
        let outcome = self.finish().await;
        self.end_tasks().await;
        outcome
    }

    async fn finish(&self) -> Result<(), StorageError> {
        self.make_durable().await?;
        match self.cut().await {
            // The next start reads the end of the log once more.
            Err(error) if error.is_full() => self.counts.borrow_mut().extent_failure = Some(error),
            outcome => outcome?,
        }
        self.save_checkpoint(|checkpoint| {
            checkpoint.durable = self.dispatched.get();
            checkpoint.clean = true;
        })
        .await
    }

    /// Waits until everything that is appended by now survives a loss of power.
    ///
    /// # Errors
    /// When the log failed, or its disk is full and some of it has no place there.
    pub async fn make_durable(&self) -> Result<(), StorageError> {
        let end = self.marks.appended();
        while self.marks.durable() < end {
            if let Some(error) = self.marks.failure() {
                return Err(error);
            }
            if self.full.borrow().is_some() && end > self.space_limit.get() {
                let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
                return Err(StorageError::io("write the end of", &self.folders.commit_log, full));
            }
            self.flush_soon();
            runtime::clock::within(STOP_CHECK, self.marks.reached(end, Mark::Durable)).await;
        }
        Ok(())
    }

    /// Ends the tasks and waits for them.
    pub(super) async fn end_tasks(&self) {
        self.stopping.set(true);
        self.ended.set(true);
        while self.tasks.get() > 0 {
            self.appended_more.notify();
            self.flush_wanted.notify();
            self.prepare_wanted.notify();
            self.frontier_moved.notify();
            self.segment_wanted.notify();
            self.slab_wanted.notify();
            self.pages_wanted.notify();
            self.ahead_wanted.notify();
            self.cut_wanted.notify();
            self.extents.damage_found.notify();
            self.end_wanted.notify();
            runtime::clock::within(STOP_CHECK, self.task_ended.notified()).await;
        }
    }
}
