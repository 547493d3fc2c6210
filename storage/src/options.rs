//! What a log is opened with.

use std::path::PathBuf;
use std::sync::Arc;

use base::LogId;
use runtime::buffer::BLOCK_BYTES;
use runtime::flush::FlushKind;

use crate::error::StorageError;
use crate::log::TierSwitches;
use crate::log::read_cache;
use crate::log::tail_cache::SLAB_BYTES;
use crate::log::tail_file::ring_bytes;
use crate::queue::CACHED_ENTRIES_BYTES_MAX;
use crate::recovery::Damage;

/// When a record counts as stored, and when consumers may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushPolicy {
    /// Once durable: it survives a loss of power.
    Sync,
    /// Once written to the device: it survives the end of the process. Made durable each flush interval.
    Async,
}

/// Where the files of one log lie.
#[derive(Clone, Debug)]
pub struct LogFolders {
    /// Queues, checkpoint and tables: `ROOT/log-NN`.
    pub log: PathBuf,
    /// The segments: `ROOT/log-NN/commitlog`, or a folder elsewhere.
    pub commit_log: PathBuf,
}

impl LogFolders {
    pub(crate) fn queues(&self) -> PathBuf {
        self.log.join("queues")
    }

    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.log.join("checkpoint")
    }

    pub(crate) fn tail_file(&self) -> PathBuf {
        self.log.join("tail")
    }

    pub(crate) fn deleted_topics(&self) -> PathBuf {
        self.log.join("deleted.json")
    }

    pub(crate) fn resized(&self) -> PathBuf {
        self.log.join("resized.json")
    }

    pub(crate) fn queue_floors(&self) -> PathBuf {
        self.log.join("floors.json")
    }
}

/// How far a recovery has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub log: LogId,
    pub bytes_scanned: u64,
    pub bytes_total: u64,
}

/// Called from a helper thread about once a second while a recovery scans.
pub type ProgressCall = Arc<dyn Fn(Progress) + Send + Sync>;

/// Called when records of an earlier process are read for the first time and are bad: they are passed over from now on.
pub type DamageCall = Arc<dyn Fn(LogId, &Damage) + Send + Sync>;

/// The smallest segment.
pub const SEGMENT_BYTES_MIN: u64 = 1 << 20;

#[derive(Clone)]
pub struct LogOptions {
    /// A multiple of 4096, at least [`SEGMENT_BYTES_MIN`].
    pub segment_bytes: u64,
    pub flush: FlushPolicy,
    /// Under [`FlushPolicy::Sync`]: how each write is made durable.
    pub flush_kind: FlushKind,
    /// Under [`FlushPolicy::Async`]: how long written bytes may wait for a flush.
    pub flush_interval_ms: u64,
    /// Memory for the newest bytes of the log. One slab is kept at least, and whatever is not yet written.
    pub tail_cache_bytes: u64,
    /// Memory for what was read from files lately. 0: what is read is kept for its reader only.
    pub read_cache_bytes: u64,
    /// Whether what is read from files stays in the page cache too.
    pub page_cache: bool,
    /// Bytes that may be appended and not yet written: beyond it appends are refused as busy.
    pub unwritten_bytes_max: u64,
    /// How far in front of the appends blocks are prepared.
    pub prepare_ahead_bytes: u64,
    /// A derived extent holds what lies between two multiples of so many bytes of the log.
    pub extent_bytes: u64,
    /// What cold readers may load in a second while the log is written to. `None`: as much as the device gives.
    pub cold_bytes_per_second: Option<u64>,
    pub tiers: TierSwitches,
    pub progress: Option<ProgressCall>,
    pub damaged: Option<DamageCall>,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 1 << 30,
            flush: FlushPolicy::Sync,
            flush_kind: FlushKind::Fdatasync,
            flush_interval_ms: 500,
            tail_cache_bytes: 256 << 20,
            read_cache_bytes: 16 << 20,
            page_cache: false,
            unwritten_bytes_max: 64 << 20,
            prepare_ahead_bytes: 1 << 30,
            extent_bytes: 64 << 20,
            cold_bytes_per_second: None,
            tiers: TierSwitches::default(),
            progress: None,
            damaged: None,
        }
    }
}

/// What the caches of a log hold at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheBytes {
    pub tail: u64,
    pub tail_file: u64,
    /// Whole pieces of 1 MiB, and those that are filled next. 0: what is read is kept for its reader only.
    pub read: u64,
    /// Entries of queues that were read lately.
    pub entries: u64,
}

impl LogOptions {
    /// Whether segments may have so many bytes.
    pub fn is_segment_size(bytes: u64) -> bool {
        bytes >= SEGMENT_BYTES_MIN && bytes.is_multiple_of(BLOCK_BYTES as u64)
    }

    /// The most memory that the caches of a log hold: for its newest bytes, for their copy in the tail file, which is mapped,
    /// and for what was read from files lately.
    pub fn cache_bytes(&self) -> CacheBytes {
        // Bytes that wait for their write are in slabs that are not all full: the one in front, and the next.
        let waiting = self.unwritten_bytes_max + 2 * SLAB_BYTES as u64;
        CacheBytes {
            tail: self.tail_cache_bytes.max(waiting),
            tail_file: if self.flush == FlushPolicy::Async { ring_bytes(self.unwritten_bytes_max) } else { 0 },
            read: read_cache::bytes_max(self.read_cache_bytes),
            entries: CACHED_ENTRIES_BYTES_MAX,
        }
    }

    pub(crate) fn check(&self) -> Result<(), StorageError> {
        if !LogOptions::is_segment_size(self.segment_bytes) {
            let what = format!(
                "mappedFileSizeCommitLog={} is no multiple of {BLOCK_BYTES} from {SEGMENT_BYTES_MIN} on",
                self.segment_bytes
            );
            return Err(StorageError::Options { what });
        }
        Ok(())
    }
}
