//! What a log tells about itself.

use super::Log;
use super::read_tiers::TierReads;
use crate::error::StorageError;
use crate::recovery::{Damage, RecoveryReport};

/// Counters since the log was opened.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) appended_records: u64,
    pub(super) appended_bytes: u64,
    pub(super) writes: u64,
    pub(super) written_bytes: u64,
    pub(super) padding_bytes: u64,
    pub(super) kernel_fallbacks: u64,
    pub(super) call_writes: u64,
    pub(super) flushes: u64,
    pub(super) roll_waits: u64,
    pub(super) prepared_bytes: u64,
    pub(super) read: TierReads,
    pub(super) dropped_segments: u64,
    pub(super) dropped_bytes: u64,
    pub(super) cold_loads: u64,
    pub(super) passed_over: u64,
    pub(super) extents_repaired: u64,
    pub(super) extent_failure: Option<StorageError>,
    pub(super) damages: Vec<Damage>,
}

/// The state of a log at one moment. Offsets are bytes from the beginning of the log, counters hold since it was opened.
#[derive(Clone, Debug)]
pub struct LogStats {
    pub min: u64,
    pub appended: u64,
    pub written: u64,
    pub durable: u64,
    pub visible: u64,
    /// Behind the last block that may be written at once.
    pub prepared: u64,
    pub segments: usize,
    pub extents: usize,
    pub appended_records: u64,
    pub appended_bytes: u64,
    pub writes: u64,
    /// Bytes handed to the device, without the padding of last blocks.
    pub written_bytes: u64,
    /// Zeros written behind the ends of writes, up to the ends of their blocks.
    pub padding_bytes: u64,
    /// Writes that the kernel could not start at once and gave to a thread of its own.
    pub kernel_fallbacks: u64,
    /// Writes by threads of the program, as an earlier one was late.
    pub call_writes: u64,
    pub flushes: u64,
    /// Times that a write waited for blocks to be prepared.
    pub roll_waits: u64,
    pub prepared_bytes: u64,
    pub read: TierReads,
    /// Times that a part of a file was read into memory, off the core.
    pub cold_loads: u64,
    /// Messages that pulls passed over since their records are lost.
    pub passed_over: u64,
    pub tail_cache_bytes: u64,
    pub read_cache_bytes: u64,
    /// Segments that left the log, and their bytes.
    pub dropped_segments: u64,
    pub dropped_bytes: u64,
    pub extents_repaired: u64,
    /// Why the last extent could not be stored; it is tried again.
    pub extent_failure: Option<StorageError>,
    /// The disk has no room for the next segment.
    pub is_full: bool,
    /// Store time of the oldest record known.
    pub store_ms_first: Option<u64>,
    /// Damage met since the log was opened; what was met while opening is in the report.
    pub damages: Vec<Damage>,
    pub recovery: RecoveryReport,
}

impl Log {
    pub fn stats(&self) -> LogStats {
        let counts = self.counts.borrow();
        let queued = || self.index.borrow().store_ms_first();
        LogStats {
            min: self.min_offset().0,
            appended: self.marks.appended(),
            written: self.marks.written(),
            durable: self.marks.durable(),
            visible: self.dispatched.get(),
            prepared: self.prepared.get(),
            segments: self.segments.borrow().count(),
            extents: self.extents.count(),
            appended_records: counts.appended_records,
            appended_bytes: counts.appended_bytes,
            writes: counts.writes,
            written_bytes: counts.written_bytes,
            padding_bytes: counts.padding_bytes,
            kernel_fallbacks: counts.kernel_fallbacks,
            call_writes: counts.call_writes,
            flushes: counts.flushes,
            roll_waits: counts.roll_waits,
            prepared_bytes: counts.prepared_bytes,
            read: counts.read,
            cold_loads: counts.cold_loads,
            passed_over: counts.passed_over,
            tail_cache_bytes: self.tail.borrow().bytes(),
            read_cache_bytes: self.read_cache.borrow().bytes(),
            dropped_segments: counts.dropped_segments,
            dropped_bytes: counts.dropped_bytes,
            extents_repaired: counts.extents_repaired,
            extent_failure: counts.extent_failure.clone(),
            is_full: self.full.borrow().is_some(),
            store_ms_first: self.extents.store_ms_first().or_else(queued),
            damages: counts.damages.clone(),
            recovery: self.report.clone(),
        }
    }
}
