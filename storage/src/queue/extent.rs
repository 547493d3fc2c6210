//! The derived extents of a log as its queues read them: off the core, through a small cache.
//!
//! A file that turns out to be damaged is handed to the log, which makes it anew from its records; whoever needs it
//! waits for that.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use runtime::sync::Notify;

use super::entry::{Entry, KeyEntry};
use super::extent_file::ExtentFile;
use crate::error::StorageError;
use crate::stretches::Stretches;

/// Memory for entries that readers of old messages took lately. Beyond it those not read for longest are read again. A reader
/// of one queue needs a chunk of 32 KiB; chunks of extents with many queues are short, so thousands of them fit.
pub(crate) const CACHED_ENTRIES_BYTES_MAX: u64 = 2 << 20;
/// Times that a damaged extent is made anew for one read; then the disk is at fault.
const REPAIRS_MAX: u32 = 3;

/// One extent.
pub(crate) struct Extent {
    pub(crate) path: PathBuf,
    pub(crate) start: u64,
    pub(crate) limit: u64,
    file: RefCell<Arc<ExtentFile>>,
    /// Set when a repair failed: nobody waits for it any more.
    failure: RefCell<Option<StorageError>>,
    /// Counts repairs, so that cached chunks of before are not found.
    generation: Cell<u64>,
    repaired: Notify,
}

impl Extent {
    pub(crate) fn new(path: PathBuf, file: ExtentFile) -> Extent {
        Extent {
            path,
            start: file.start,
            limit: file.limit,
            file: RefCell::new(Arc::new(file)),
            failure: RefCell::new(None),
            generation: Cell::new(0),
            repaired: Notify::new(),
        }
    }

    pub(crate) fn store_ms_first(&self) -> u64 {
        self.file.borrow().store_ms_first
    }

    pub(crate) fn store_ms_last(&self) -> u64 {
        self.file.borrow().store_ms_last
    }

    /// The outcome of a repair.
    pub(crate) fn repaired(&self, outcome: Result<ExtentFile, StorageError>) {
        match outcome {
            Ok(file) => {
                self.file.replace(Arc::new(file));
                self.generation.set(self.generation.get() + 1);
            }
            Err(error) => {
                self.failure.replace(Some(error));
            }
        }
        self.repaired.notify();
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct ChunkKey {
    extent: u64,
    generation: u64,
    place: u64,
    chunk: u64,
}

/// Entries that were read lately.
#[derive(Default)]
struct CachedChunks {
    /// The most recently used at the back.
    chunks: VecDeque<(ChunkKey, Arc<Vec<Entry>>)>,
    bytes: u64,
}

impl CachedChunks {
    fn find(&mut self, key: ChunkKey) -> Option<Arc<Vec<Entry>>> {
        let at = self.chunks.iter().rposition(|(cached, _)| *cached == key)?;
        let found = self.chunks.remove(at).expect("just seen");
        let entries = found.1.clone();
        self.chunks.push_back(found);
        Some(entries)
    }

    fn push(&mut self, key: ChunkKey, entries: Arc<Vec<Entry>>) {
        self.bytes += size_of_val(&entries[..]) as u64;
        self.chunks.push_back((key, entries));
        while self.bytes > CACHED_ENTRIES_BYTES_MAX {
            let (_, oldest) = self.chunks.pop_front().expect("what is counted is there");
            self.bytes -= size_of_val(&oldest[..]) as u64;
        }
    }
}

/// All extents of a log, oldest first.
#[derive(Default)]
pub(crate) struct Extents {
    list: RefCell<VecDeque<Rc<Extent>>>,
    cached: RefCell<CachedChunks>,
    damaged: RefCell<Vec<Rc<Extent>>>,
    /// Of the log, whose records turned out to be bad.
    bad: RefCell<Stretches>,
    pub(crate) damage_found: Notify,
}

impl Extents {
    pub(crate) fn push(&self, extent: Rc<Extent>) {
        let mut list = self.list.borrow_mut();
        if let Some(last) = list.back() {
            assert!(extent.start >= last.limit, "extent {} begins in front of {}", extent.start, last.limit);
        }
        list.push_back(extent);
    }

    pub(crate) fn count(&self) -> usize {
        self.list.borrow().len()
    }

    /// The extent so many places in front of the newest.
    pub(crate) fn newest_but(&self, count: usize) -> Option<Rc<Extent>> {
        let list = self.list.borrow();
        list.len().checked_sub(count + 1).map(|at| list[at].clone())
    }

    /// The newest extent that ends at or in front of an offset.
    pub(crate) fn newest_before(&self, offset: u64) -> Option<Rc<Extent>> {
        let list = self.list.borrow();
        let behind = list.partition_point(|extent| extent.limit <= offset);
        behind.checked_sub(1).map(|at| list[at].clone())
    }

    pub(crate) fn store_ms_first(&self) -> Option<u64> {
        self.list.borrow().iter().map(|extent| extent.store_ms_first()).find(|ms| *ms > 0)
    }

    /// Takes out the extents that end at or in front of `offset`.
    pub(crate) fn take_before(&self, offset: u64) -> Vec<Rc<Extent>> {
        let mut list = self.list.borrow_mut();
        let count = list.partition_point(|extent| extent.limit <= offset);
        list.drain(..count).collect()
    }

    /// Messages whose records start in this stretch of the log are passed over from now on. False: all of them were before.
    pub(crate) fn add_bad(&self, start: u64, limit: u64) -> bool {
        let mut bad = self.bad.borrow_mut();
        let is_new = !bad.cover(start, limit);
        if is_new {
            bad.add(start, limit);
        }
        is_new
    }

    pub(crate) fn is_bad(&self, offset: u64) -> bool {
        self.bad.borrow().cover(offset, offset + 1)
    }

    /// The log lost everything in front of an offset.
    pub(crate) fn forget_bad_before(&self, offset: u64) {
        self.bad.borrow_mut().forget_before(offset);
    }

    pub(crate) fn take_damaged(&self) -> Vec<Rc<Extent>> {
        self.damaged.take()
    }

    /// Looks for a chunk in memory.
    pub(crate) fn cached(&self, extent: &Extent, place: u64, chunk: u64) -> Option<Arc<Vec<Entry>>> {
        let key = ChunkKey { extent: extent.start, generation: extent.generation.get(), place, chunk };
        self.cached.borrow_mut().find(key)
    }

    /// Reads a chunk of a run. `Ok(None)`: the extent was repaired meanwhile, look for the run again.
    pub(crate) async fn load(
        &self,
        extent: &Rc<Extent>,
        run: (u64, u32),
        chunk: u64,
    ) -> Result<Option<Arc<Vec<Entry>>>, StorageError> {
        let (place, count) = run;
        let generation = extent.generation.get();
        let file = extent.file.borrow().clone();
        match runtime::blocking(move || file.read_entries(place, count, chunk)).await {
            Ok(entries) => {
                let entries = Arc::new(entries);
                let key = ChunkKey { extent: extent.start, generation, place, chunk };
                self.cached.borrow_mut().push(key, entries.clone());
                Ok(Some(entries))
            }
            Err(_) => self.wait_for_repair(extent, generation).await.map(|()| None),
        }
    }

    /// All keys of a hash that the extent holds, oldest first.
    pub(crate) async fn find_keys(&self, extent: &Rc<Extent>, hash: u64) -> Result<Vec<KeyEntry>, StorageError> {
        loop {
            let generation = extent.generation.get();
            let file = extent.file.borrow().clone();
            match runtime::blocking(move || file.find_keys(hash)).await {
                Ok(found) => return Ok(found),
                Err(_) => self.wait_for_repair(extent, generation).await?,
            }
        }
    }

    async fn wait_for_repair(&self, extent: &Rc<Extent>, generation: u64) -> Result<(), StorageError> {
        if extent.generation.get() >= u64::from(REPAIRS_MAX) {
            let what = format!("it was made anew {REPAIRS_MAX} times and still cannot be read");
            return Err(StorageError::Damaged { file: extent.path.clone(), offset: None, what });
        }
        while extent.generation.get() == generation {
            if let Some(error) = &*extent.failure.borrow() {
                return Err(error.clone());
            }
            let known = self.damaged.borrow().iter().any(|damaged| Rc::ptr_eq(damaged, extent));
            if !known {
                self.damaged.borrow_mut().push(extent.clone());
                self.damage_found.notify();
            }
            extent.repaired.notified().await;
        }
        Ok(())
    }
}
