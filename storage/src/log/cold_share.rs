//! The share of a log's cold readers: what they load from the disk at once and in a second, so that those who send to the
//! log and those who read its newest messages don't feel them.

use std::cell::Cell;
use std::time::{Duration, Instant};

use runtime::sync::Notify;

/// Loads at once. More wait their turn: the helper threads and the device's queue are there for others too.
const LOADS_MAX: usize = 2;
/// A log that got records since the last look counts as written to for so long.
const WRITTEN_TO_FOR: Duration = Duration::from_secs(1);

pub(super) struct ColdShare {
    /// While the log is written to. `None`: as the device gives it.
    bytes_per_second: Option<u64>,
    loading: Cell<usize>,
    ended: Notify,
    /// What was allowed so far is used up until then.
    used_until: Cell<Instant>,
    /// The end of the log at the last look.
    appended: Cell<u64>,
    written_to_until: Cell<Instant>,
}

/// A load that has begun.
pub(super) struct Load<'a> {
    share: &'a ColdShare,
}

impl ColdShare {
    pub(super) fn new(bytes_per_second: Option<u64>, appended: u64) -> ColdShare {
        let now = runtime::clock::instant();
        ColdShare {
            bytes_per_second,
            loading: Cell::new(0),
            ended: Notify::new(),
            used_until: Cell::new(now),
            appended: Cell::new(appended),
            written_to_until: Cell::new(now),
        }
    }

    /// Waits until so many bytes may be loaded. `appended` is the end of the log.
    pub(super) async fn begin(&self, bytes: u64, appended: u64) -> Load<'_> {
        while self.loading.get() >= LOADS_MAX {
            self.ended.notified().await;
        }
        self.loading.set(self.loading.get() + 1);
        let load = Load { share: self };
        let pause = self.pause(bytes, appended, runtime::clock::instant());
        if !pause.is_zero() {
            runtime::clock::sleep(pause).await;
        }
        load
    }

    /// How long a load has to wait, and notes that it comes.
    fn pause(&self, bytes: u64, appended: u64, now: Instant) -> Duration {
        if self.appended.replace(appended) != appended {
            self.written_to_until.set(now + WRITTEN_TO_FOR);
        }
        let Some(bytes_per_second) = self.bytes_per_second.filter(|_| now < self.written_to_until.get()) else {
            return Duration::ZERO;
        };
        let begin = self.used_until.get().max(now);
        let takes = Duration::from_secs_f64(bytes as f64 / bytes_per_second.max(1) as f64);
        self.used_until.set(begin + takes);
        begin - now
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.share.loading.set(self.share.loading.get() - 1);
        self.share.ended.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_spread_over_time_while_the_log_is_written_to() {
        let share = ColdShare::new(Some(1000), 5);
        let began = runtime::clock::instant();
        let at = |ms: u64| began + Duration::from_millis(ms);
        // Bytes, the end of the log, when, and the pause that is expected.
        for (bytes, appended, when, pause_ms) in [
            (500, 5, 0, 0),
            (500, 6, 0, 0),
            (500, 6, 100, 400),
            (500, 7, 200, 800),
            (500, 7, 1_199, 301),
            // Nothing was appended for a second: the device is theirs.
            (500, 7, 1_201, 0),
            (500, 7, 9_000, 0),
            (500, 8, 9_001, 0),
            (500, 9, 9_001, 500),
        ] {
            let pause = share.pause(bytes, appended, at(when));
            assert_eq!(pause.as_millis(), pause_ms, "{bytes} bytes at {when}, log {appended}");
        }
        let unlimited = ColdShare::new(None, 0);
        for appended in 1..100 {
            assert!(unlimited.pause(u64::MAX, appended, began).is_zero());
        }
    }
}
