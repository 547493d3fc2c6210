//! One log: the order of its records, their way to the disk, and the state of all that belongs to it.
//!
//! Lives on the core that opened it. Records get their offsets when they are appended; `commit` writes them; `dispatch`
//! makes them visible; `read` and `lookup` find them again; `upkeep` derives extents and keeps marks on disk.

mod ahead;
mod append;
mod cold_share;
mod commit;
mod dispatch;
mod load;
mod lookup;
mod prepare;
pub(crate) mod read_cache;
mod read_plan;
mod read_tiers;
mod retire;
pub(crate) mod segment;
mod stats;
pub(crate) mod tail_cache;
pub(crate) mod tail_file;
#[cfg(test)]
mod tests;
mod turn;
mod upkeep;
mod watermarks;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use base::{LogId, LogOffset, QueueId};
use runtime::buffer::BLOCK_BYTES;
use runtime::flush::FlushKind;
use runtime::ring::WriteRing;
use runtime::sync::Notify;

pub use append::Ticket;
pub use commit::WriteTimes;
pub use dispatch::VisibleRecord;
pub use read_tiers::{Served, TierReads, TierSwitches};
pub use retire::{DroppedSegments, FreedSpace, OldSegment};
pub use stats::LogStats;
pub use watermarks::Mark;

use crate::boot::Boot;
use crate::checkpoint::Checkpoint;
use crate::error::{IoContext, StorageError};
use crate::options::{FlushPolicy, LogFolders, LogOptions};
use crate::queue::table::{DeletedTopics, QueueFloors};
use crate::queue::{ActiveIndex, Extent, Extents, LoadedRun, QueueRef, QueueTable, RunBuilder, Span};
use crate::recovery::{LoadedExtent, Recovered, RecoveryReport, recover};
use crate::stretches::Stretches;
use cold_share::ColdShare;
use dispatch::{Pending, VisibleCall};
use load::Loading;
use prepare::FullDisk;
use read_cache::ReadCache;
use segment::Segments;
use stats::Counts;
use tail_cache::TailCache;
use tail_file::{Head, TailFile};
use turn::Turn;
use watermarks::Watermarks;

pub struct Log {
    id: LogId,
    folders: LogFolders,
    options: LogOptions,
    ring: Rc<WriteRing>,
    marks: Watermarks,
    tail: RefCell<TailCache>,
    segments: RefCell<Segments>,
    /// The end of the segment that is appended to.
    segment_limit: Cell<u64>,
    /// Segments whose fillers are not written yet.
    rolls: RefCell<VecDeque<Roll>>,
    store_ms_last: Cell<u64>,
    /// Where the log ended when it was opened: what lies behind it, this process has written.
    opened_end: u64,

    /// Blocks in front of it were written once and hold no remains.
    prepared: Cell<u64>,
    /// What lies in front of it has its space on the disk.
    space_limit: Cell<u64>,
    full: RefCell<Option<FullDisk>>,

    /// Under asynchronous flushes, where the file system has it: records are safe before they are written.
    tail_file: RefCell<Option<TailFile>>,
    /// The ends of records that are not written yet; under asynchronous flushes.
    unwritten_ends: RefCell<VecDeque<u64>>,
    /// The end of the last record that is wholly written.
    written_boundary: Cell<u64>,
    /// Of the last write.
    write_times: Cell<WriteTimes>,
    pending: RefCell<VecDeque<Pending>>,
    pending_keys: RefCell<VecDeque<u64>>,
    /// The end of the last record that became visible.
    dispatched: Cell<u64>,
    /// As `dispatched`, of the last record known to be durable.
    durable_boundary: Cell<u64>,
    visible_call: RefCell<Option<Rc<VisibleCall>>>,
    queues: RefCell<QueueTable>,
    /// The queues that have entries which lie in no extent yet, and those whose entries in the newest extent are still in
    /// memory. Cutting an extent touches no others: there may be very many.
    growing: RefCell<Vec<QueueRef>>,
    decoded: RefCell<Vec<QueueRef>>,
    extents: Rc<Extents>,
    index: RefCell<ActiveIndex>,
    /// What lies in front of it is in extents.
    extents_end: Cell<u64>,
    /// The extent that gets the records which become visible now.
    span: Cell<Span>,
    /// The ends of extents that have all their records and are not stored yet.
    extents_full: RefCell<VecDeque<u64>>,
    verified: RefCell<Stretches>,
    read_cache: RefCell<ReadCache>,
    loading: RefCell<Loading>,
    cold_share: ColdShare,

    checkpoint: RefCell<Checkpoint>,
    append_turn: Turn,
    checkpoint_turn: Turn,
    deleted: RefCell<(DeletedTopics, u64)>,
    /// The generation of the table of floors.
    floors: Cell<u64>,
    tables_turn: Turn,
    cut_turn: Turn,

    appended_more: Notify,
    written_more: Notify,
    prepare_wanted: Notify,
    frontier_moved: Notify,
    space_changed: Notify,
    segment_wanted: Notify,
    slab_wanted: Notify,
    pages_wanted: Notify,
    ahead_wanted: Notify,
    loaded: Notify,
    flush_wanted: Notify,
    flush_due: Cell<bool>,
    cut_wanted: Notify,
    failed: Notify,
    /// No record is accepted any more.
    stopping: Cell<bool>,
    /// The tasks of the log are to end.
    ended: Cell<bool>,
    end_wanted: Notify,
    tasks: Cell<u32>,
    task_ended: Notify,
    counts: RefCell<Counts>,
    report: RecoveryReport,
}

/// A segment was left for the next one.
#[derive(Clone, Copy, Debug)]
struct Roll {
    /// Behind the filler at its end.
    filled: u64,
    next: u64,
}

impl Log {
    /// Opens a log or makes a new one, and starts its tasks on this core. Nobody else may have it open.
    ///
    /// # Errors
    /// When files cannot be read or written, or were made with another segment size. Damage is no error: the report
    /// tells it.
    pub async fn open(
        folders: LogFolders,
        id: LogId,
        options: LogOptions,
        ring: Rc<WriteRing>,
    ) -> Result<(Rc<Log>, RecoveryReport), StorageError> {
        options.check()?;
        let recovered = {
            let (folders, options) = (folders.clone(), options.clone());
            runtime::blocking(move || recover(&folders, id, &options)).await?
        };
        let log = Rc::new(Log::from_recovered(folders, id, options, ring, recovered)?);
        log.open_tail_file().await?;
        log.reserve_first().await?;
        let min = log.min_offset();
        let queues = log.queues.borrow().all();
        for queue in queues {
            queue.drop_before(min).await?;
        }
        log.start_tasks();
        let report = log.report.clone();
        Ok((log, report))
    }

    fn from_recovered(
        folders: LogFolders,
        id: LogId,
        options: LogOptions,
        ring: Rc<WriteRing>,
        recovered: Recovered,
    ) -> Result<Log, StorageError> {
        let Recovered {
            segments,
            end,
            head,
            extents,
            active,
            span,
            deleted,
            floors,
            store_ms_last,
            checkpoint,
            report,
            ..
        } = recovered;
        let shared = Rc::new(Extents::default());
        let mut queues = QueueTable::new(shared.clone());
        for loaded in extents {
            load_extent(&shared, &mut queues, loaded);
        }
        let index = ActiveIndex { keys: Arc::unwrap_or_clone(active.keys), ..ActiveIndex::default() };
        for run in active.runs {
            let entries = Arc::unwrap_or_clone(run.entries);
            let queue = queues.find_or_make(&run.topic, run.queue_id);
            queue.enters(span.start);
            queue.load_growing(RunBuilder { first: run.first, entries });
        }
        raise_floors(&mut queues, &floors.0, &deleted.0);
        for damage in &report.damages {
            shared.add_bad(damage.start.0, damage.limit.0);
        }
        let block_start = end - head.len() as u64;
        let tail = TailCache::new(block_start, &head, options.segment_bytes, options.tail_cache_bytes)
            .context("get memory for", &folders.log)?;
        Ok(Log {
            id,
            marks: Watermarks::at(end),
            tail: RefCell::new(tail),
            segments: RefCell::new(Segments::new(segments)),
            segment_limit: Cell::new((end / options.segment_bytes + 1) * options.segment_bytes),
            rolls: RefCell::default(),
            store_ms_last: Cell::new(store_ms_last),
            opened_end: end,
            prepared: Cell::new(end.next_multiple_of(BLOCK_BYTES as u64)),
            space_limit: Cell::new(end),
            full: RefCell::default(),
            tail_file: RefCell::default(),
            unwritten_ends: RefCell::default(),
            written_boundary: Cell::new(end),
            write_times: Cell::default(),
            pending: RefCell::default(),
            pending_keys: RefCell::default(),
            dispatched: Cell::new(end),
            durable_boundary: Cell::new(end),
            visible_call: RefCell::default(),
            growing: RefCell::new(queues.all().into_iter().filter(|queue| queue.stays_growing()).collect()),
            decoded: RefCell::default(),
            queues: RefCell::new(queues),
            extents: shared,
            index: RefCell::new(index),
            extents_end: Cell::new(active.start),
            span: Cell::new(span),
            extents_full: RefCell::default(),
            verified: RefCell::default(),
            read_cache: RefCell::new(ReadCache::new(options.read_cache_bytes)),
            loading: RefCell::default(),
            cold_share: ColdShare::new(options.cold_bytes_per_second, end),
            checkpoint: RefCell::new(checkpoint),
            append_turn: Turn::default(),
            checkpoint_turn: Turn::default(),
            deleted: RefCell::new(deleted),
            floors: Cell::new(floors.1),
            tables_turn: Turn::default(),
            cut_turn: Turn::default(),
            appended_more: Notify::new(),
            written_more: Notify::new(),
            prepare_wanted: Notify::new(),
            frontier_moved: Notify::new(),
            space_changed: Notify::new(),
            segment_wanted: Notify::new(),
            slab_wanted: Notify::new(),
            pages_wanted: Notify::new(),
            ahead_wanted: Notify::new(),
            loaded: Notify::new(),
            flush_wanted: Notify::new(),
            flush_due: Cell::new(false),
            cut_wanted: Notify::new(),
            failed: Notify::new(),
            stopping: Cell::new(false),
            ended: Cell::new(false),
            end_wanted: Notify::new(),
            tasks: Cell::new(0),
            task_ended: Notify::new(),
            counts: RefCell::default(),
            report,
            folders,
            options,
            ring,
        })
    }

    /// What an earlier tail file held is in the log, so it begins anew. Without one senders wait for the log itself.
    /// The checkpoint learns of the file once it is there, so a start that dies in between misses none.
    async fn open_tail_file(&self) -> Result<(), StorageError> {
        let path = self.folders.tail_file();
        let (generation, end) = (self.checkpoint.borrow().generation, self.opened_end);
        let head = Head::new(self.id, generation, self.options.unwritten_bytes_max);
        let made = match self.options.flush {
            FlushPolicy::Sync => None,
            FlushPolicy::Async => runtime::blocking(move || TailFile::create(&path, head, end)).await.ok(),
        };
        let tail = if made.is_some() { generation } else { 0 };
        self.save_checkpoint(|checkpoint| (checkpoint.tail, checkpoint.boot) = (tail, Boot::this())).await?;
        if made.is_none() {
            let path = self.folders.tail_file();
            runtime::blocking(move || crate::disk::remove(&path)).await?;
        }
        self.tail_file.replace(made);
        Ok(())
    }

    fn start_tasks(self: &Rc<Log>) {
        let log = self.clone();
        self.start(runtime::spawn, async move { log.write_on().await });
        let log = self.clone();
        self.start(runtime::spawn, async move { log.keep_marks().await });
        let log = self.clone();
        self.start(runtime::spawn_background, async move { log.prepare_on().await });
        let log = self.clone();
        self.start(runtime::spawn, async move { log.ready_slabs_on().await });
        let log = self.clone();
        self.start(runtime::spawn, async move { log.ready_pages_on().await });
        let log = self.clone();
        self.start(runtime::spawn, async move { log.read_ahead_on().await });
        let log = self.clone();
        self.start(runtime::spawn_background, async move { log.cut_on().await });
        let log = self.clone();
        self.start(runtime::spawn_background, async move { log.repair_on().await });
    }

    fn start<F: Future<Output = ()> + 'static>(self: &Rc<Log>, spawn: impl FnOnce(TaskOf<F>), task: F) {
        self.tasks.set(self.tasks.get() + 1);
        spawn(TaskOf { log: self.clone(), task: Box::pin(task) });
    }

    pub fn id(&self) -> LogId {
        self.id
    }

    /// The folder of the log's segments.
    pub fn folder(&self) -> &Path {
        &self.folders.commit_log
    }

    pub fn flush_policy(&self) -> FlushPolicy {
        self.options.flush
    }

    /// How writes are made durable.
    pub fn flush_kind(&self) -> FlushKind {
        self.options.flush_kind
    }

    /// The mark that makes a record visible, and that a send waits for by default.
    pub fn visible_mark(&self) -> Mark {
        match self.options.flush {
            FlushPolicy::Sync => Mark::Durable,
            FlushPolicy::Async => Mark::Safe,
        }
    }

    /// The first offset the log still has.
    pub fn min_offset(&self) -> LogOffset {
        // Without a segment the log begins with the one that is written to next.
        let next = self.marks.written() / self.options.segment_bytes * self.options.segment_bytes;
        LogOffset(self.segments.borrow().min_offset().unwrap_or(next))
    }

    /// Behind the last visible record.
    pub fn visible_end(&self) -> LogOffset {
        LogOffset(self.dispatched.get())
    }

    /// The queue of this name, made if there is none. Made queues leave nothing on disk until a record is appended.
    pub fn queue(&self, topic: &str, id: QueueId) -> QueueRef {
        self.queues.borrow_mut().find_or_make(topic, id)
    }

    pub fn find_queue(&self, topic: &str, id: QueueId) -> Option<QueueRef> {
        self.queues.borrow().find(topic, id).cloned()
    }

    /// All queues, by topic and number.
    pub fn queues(&self) -> Vec<QueueRef> {
        self.queues.borrow().sorted()
    }

    /// The topics of all queues, in no order.
    pub fn topics(&self) -> Vec<Arc<str>> {
        self.queues.borrow().topics()
    }

    /// The queues of one topic, by number.
    pub fn queues_of_topic(&self, topic: &str) -> Vec<QueueRef> {
        self.queues.borrow().of_topic(topic)
    }

    /// The first failure of the log. It is never retried: the process should say why and end.
    pub fn failure(&self) -> Option<StorageError> {
        self.marks.failure()
    }

    /// Waits until the log fails.
    pub async fn failed(&self) -> StorageError {
        loop {
            if let Some(error) = self.marks.failure() {
                return error;
            }
            self.failed.notified().await;
        }
    }

    fn fail(&self, error: StorageError) {
        self.marks.fail(error);
        self.failed.notify();
        self.written_more.notify();
        self.frontier_moved.notify();
        self.space_changed.notify();
    }
}

/// A task of a log, counted as long as it runs.
struct TaskOf<F> {
    log: Rc<Log>,
    task: std::pin::Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Future for TaskOf<F> {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        let polled = self.task.as_mut().poll(context);
        if polled.is_ready() {
            self.log.tasks.set(self.log.tasks.get() - 1);
            self.log.task_ended.notify();
        }
        polled
    }
}

fn load_extent(shared: &Rc<Extents>, queues: &mut QueueTable, loaded: LoadedExtent) -> Rc<Extent> {
    let extent = Rc::new(Extent::new(loaded.path, loaded.file));
    shared.push(extent.clone());
    for run in loaded.runs {
        queues.find_or_make(&run.topic, run.queue_id).load_run(LoadedRun {
            first: run.first,
            count: u64::from(run.count),
            log_offset_first: LogOffset(run.log_offset_first),
            memory: None,
            extent: Some((extent.clone(), run.place)),
        });
    }
    extent
}

fn raise_floors(queues: &mut QueueTable, floors: &QueueFloors, deleted: &DeletedTopics) {
    for (topic, of_topic) in &floors.topics {
        for (id, floor) in of_topic {
            if deleted.topics.get(topic).is_none_or(|end| floor.log_end > *end) {
                queues.find_or_make(topic, QueueId(*id)).raise_next(floor.next);
            }
        }
    }
}
