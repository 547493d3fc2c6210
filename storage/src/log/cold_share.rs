//! The share of a log's cold readers: what they load from the disk at once and in a second, so that those who send to the
//! log and those who read its newest messages don't feel them.

use std::cell::Cell;
use std::time::{Duration, Instant};

use runtime::sync::Notify;

use super::read_cache::PIECE_BYTES;

/// Loads at once. More wait their turn: the device's queue is there for others too.
const LOADS_MAX: usize = 2;
/// A log's readers are given so much in a second, however little is allowed: one piece, or they would stand still.
const BYTES_PER_SECOND_MIN: u64 = PIECE_BYTES;
/// Who waits looks so often whether the log is still written to.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
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
            bytes_per_second: bytes_per_second.map(|bytes| bytes.max(BYTES_PER_SECOND_MIN)),
            loading: Cell::new(0),
            ended: Notify::new(),
            used_until: Cell::new(now),
            appended: Cell::new(appended),
            written_to_until: Cell::new(now),
        }
    }

    /// Waits until so many bytes may be loaded. `appended` gives the end of the log.
    pub(super) async fn begin(&self, bytes: u64, appended: impl Fn() -> u64) -> Load<'_> {
        while self.loading.get() >= LOADS_MAX {
            self.ended.notified().await;
        }
        self.loading.set(self.loading.get() + 1);
        let load = Load { share: self };
        while let Some(pause) = self.pause(appended(), runtime::clock::instant()) {
            runtime::clock::sleep(pause.min(LOOK_AGAIN)).await;
        }
        self.use_up(bytes, runtime::clock::instant());
        load
    }

    /// How long the next load has to wait, as the log is now.
    fn pause(&self, appended: u64, now: Instant) -> Option<Duration> {
        if self.appended.replace(appended) != appended {
            self.written_to_until.set(now + WRITTEN_TO_FOR);
        }
        let pause = self.used_until.get().saturating_duration_since(now);
        (self.is_paced(now) && !pause.is_zero()).then_some(pause)
    }

    fn use_up(&self, bytes: u64, now: Instant) {
        let Some(bytes_per_second) = self.bytes_per_second.filter(|_| self.is_paced(now)) else { return };
        let takes = Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64);
        self.used_until.set(self.used_until.get().max(now) + takes);
    }

    fn is_paced(&self, now: Instant) -> bool {
        self.bytes_per_second.is_some() && now < self.written_to_until.get()
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
        let share = ColdShare::new(Some(2 * PIECE_BYTES), 5);
        let began = runtime::clock::instant();
        let at = |ms: u64| began + Duration::from_millis(ms);
        // The end of the log, when, and the pause that is expected. A load comes where there is none.
        for (appended, when, pause_ms) in [
            (5, 0, 0),
            (6, 0, 0),
            (6, 100, 400),
            (6, 500, 0),
            (7, 600, 400),
            (7, 999, 1),
            (7, 1_000, 0),
            (8, 1_001, 499),
            (8, 1_400, 100),
            (9, 1_500, 0),
            (9, 1_600, 400),
        ] {
            let pause = share.pause(appended, at(when)).unwrap_or_default();
            assert_eq!(pause.as_millis(), pause_ms, "at {when}, log {appended}");
            if pause.is_zero() {
                share.use_up(PIECE_BYTES, at(when));
            }
        }
        // Nothing is appended for a second: the device is theirs, though much was used up.
        share.use_up(100 * PIECE_BYTES, at(1_600));
        assert!(share.pause(9, at(2_499)).is_some());
        assert_eq!(share.pause(9, at(2_501)), None);
    }

    #[test]
    fn nobody_stands_still() {
        let (unlimited, tiny) = (ColdShare::new(None, 0), ColdShare::new(Some(1), 0));
        let began = runtime::clock::instant();
        for appended in 1..100 {
            assert_eq!(unlimited.pause(appended, began), None);
            unlimited.use_up(u64::MAX, began);
        }
        assert_eq!(tiny.pause(1, began), None);
        tiny.use_up(PIECE_BYTES, began);
        assert_eq!(tiny.pause(2, began), Some(Duration::from_secs(1)));
    }
}
