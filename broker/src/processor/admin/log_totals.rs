//! The logs of all cores together, as the runtime information (28) tells of them.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::LogId;
use runtime::flush::FlushKind;
use storage::TierReads;

use super::status::{Table, bytes_text};
use crate::core::Core;
use crate::retention;

/// All logs together, in bytes. Offsets are summed, so they grow with every message whichever log it goes to.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogTotals {
    pub(crate) min: i64,
    pub(crate) appended: i64,
    pub(crate) durable: i64,
    written: i64,
    visible: i64,
    /// Store time of the oldest message, in milliseconds.
    store_ms_first: Option<u64>,
    segments_dropped: i64,
    writes: u64,
    written_bytes: u64,
    padding_bytes: u64,
    kernel_fallbacks: u64,
    call_writes: u64,
    flushes: u64,
    roll_waits: u64,
    cold_loads: u64,
    /// Messages that pulls passed over since their records are lost.
    pub(crate) passed_over: u64,
    read: TierReads,
    flush_kind: Option<FlushKind>,
    /// Logs whose oldest segment should go and is still needed, and by what.
    held_back: BTreeMap<LogId, String>,
}

/// Sums over all logs of all cores.
pub(crate) async fn log_totals(core: &Rc<Core>) -> LogTotals {
    let mut all = LogTotals::default();
    for one in core.on_each(|core| async move { own_log_totals(&core) }).await {
        all.add(one);
    }
    all
}

fn own_log_totals(core: &Rc<Core>) -> LogTotals {
    let wire = |offset: u64| i64::try_from(offset).unwrap_or(i64::MAX);
    let mut all = LogTotals::default();
    for log in core.own_logs() {
        let stats = log.stats();
        all.add(LogTotals {
            min: wire(stats.min),
            appended: wire(stats.appended),
            durable: wire(stats.durable),
            written: wire(stats.written),
            visible: wire(stats.visible),
            store_ms_first: stats.store_ms_first,
            segments_dropped: wire(stats.dropped_segments),
            held_back: BTreeMap::new(),
            writes: stats.writes,
            written_bytes: stats.written_bytes,
            padding_bytes: stats.padding_bytes,
            kernel_fallbacks: stats.kernel_fallbacks,
            call_writes: stats.call_writes,
            flushes: stats.flushes,
            roll_waits: stats.roll_waits,
            cold_loads: stats.cold_loads,
            passed_over: stats.passed_over,
            read: stats.read,
            flush_kind: Some(log.flush_kind()),
        });
    }
    all.held_back = core.retention.held_back();
    all
}

impl LogTotals {
    fn add(&mut self, other: LogTotals) {
        self.min += other.min;
        self.appended += other.appended;
        self.durable += other.durable;
        self.written += other.written;
        self.visible += other.visible;
        self.segments_dropped += other.segments_dropped;
        self.held_back.extend(other.held_back);
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
        self.padding_bytes += other.padding_bytes;
        self.kernel_fallbacks += other.kernel_fallbacks;
        self.call_writes += other.call_writes;
        self.flushes += other.flushes;
        self.roll_waits += other.roll_waits;
        self.cold_loads += other.cold_loads;
        self.passed_over += other.passed_over;
        self.read.add(other.read);
        self.flush_kind = self.flush_kind.or(other.flush_kind);
        self.store_ms_first = match (self.store_ms_first, other.store_ms_first) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
    }

    /// Under the names that tools know; those that begin with `log` or `read` are our own.
    pub(super) fn put(&self, table: &mut Table) {
        table.put("commitLogMinOffset", self.min);
        table.put("commitLogMaxOffset", self.appended);
        table.put(
            "earliestMessageTimeStamp",
            self.store_ms_first.map_or(-1, |ms| i64::try_from(ms).unwrap_or(i64::MAX)),
        );
        table.put("remainHowManyDataToFlush", bytes_text(behind(self.appended, self.durable)));
        table.put("remainHowManyDataToCommit", bytes_text(behind(self.appended, self.written)));
        table.put("droppedSegmentsTotal", self.segments_dropped);
        table.put("logsHeldBack", self.held_back.len());
        if !self.held_back.is_empty() {
            table.put("logsHeldBackBy", retention::held_back_text(&self.held_back));
        }
        table.put("dispatchBehindBytes", behind(self.appended, self.visible));
        // What is stored becomes visible in the step that confirms it: no queue of such work can fill up.
        table.put("dispatchMaxBuffer", 0);
        // There is no pool of buffers whose rest could run out; this number means so.
        table.put("remainTransientStoreBufferNumbs", i32::MAX);
        // Records are never written into the page cache under a lock.
        table.put("pageCacheLockTimeMills", 0);
        table.put("logWritesTotal", self.writes);
        table.put("logWrittenBytesTotal", self.written_bytes);
        table.put("logPaddingBytesTotal", self.padding_bytes);
        table.put("logFlushesTotal", self.flushes);
        table.put("logBytesPerFlush", self.written_bytes.checked_div(self.flushes).unwrap_or(0));
        table.put("logFlushKind", self.flush_kind.map_or("unknown", FlushKind::name));
        table.put("logRollWaitsTotal", self.roll_waits);
        table.put("logKernelFallbacksTotal", self.kernel_fallbacks);
        table.put("logCallWritesTotal", self.call_writes);
        for (tier, served) in [
            ("TailCache", self.read.tail_cache),
            ("Cache", self.read.read_cache),
            ("Resident", self.read.resident),
            ("Cold", self.read.cold),
        ] {
            table.put(format!("read{tier}MessagesTotal"), served.messages);
            table.put(format!("read{tier}BytesTotal"), served.bytes);
        }
        table.put("readColdLoadsTotal", self.cold_loads);
    }
}

fn behind(ahead: i64, back: i64) -> u64 {
    u64::try_from(ahead - back).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up() {
        let mut all = LogTotals { appended: 5, store_ms_first: Some(9), ..LogTotals::default() };
        all.add(LogTotals { appended: 7, store_ms_first: Some(3), ..LogTotals::default() });
        all.add(LogTotals::default());
        assert_eq!((all.appended, all.store_ms_first), (12, Some(3)));
        assert_eq!((behind(5, 3), behind(3, 5)), (2, 0));
    }
}
