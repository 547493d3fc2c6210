//! The share of a log's cold readers: how many load from the disk at once, and how much in a second, so that those who send
//! to the log and those who read its newest messages don't feel them.
//!
//! Who reads waits in line before the first load, with nothing in memory yet, and then brings all that the read needs: with
//! readers of 80,000 queues in line, each woken at each load and each with a piece at hand, nobody came forward.

use std::cell::Cell;
use std::time::{Duration, Instant};

use runtime::sync::Notify;

use super::read_cache::PIECE_BYTES;
use super::turn::Turn;

/// Reads that load at once. More wait in line: the device's queue is there for others too.
const READS_MAX: usize = 2;
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
    /// The first in line waits for the end of a read.
    line: Turn,
    ended: Notify,
    /// What was allowed so far is used up until then.
    used_until: Cell<Instant>,
    /// The end of the log at the last look.
    appended: Cell<u64>,
    written_to_until: Cell<Instant>,
}

/// A read that may load.
pub(super) struct ColdRead<'a> {
    share: &'a ColdShare,
}

impl ColdShare {
    pub(super) fn new(bytes_per_second: Option<u64>, appended: u64) -> ColdShare {
        let now = runtime::clock::instant();
        ColdShare {
            bytes_per_second: bytes_per_second.map(|bytes| bytes.max(BYTES_PER_SECOND_MIN)),
            loading: Cell::new(0),
            line: Turn::default(),
            ended: Notify::new(),
            used_until: Cell::new(now),
            appended: Cell::new(appended),
            written_to_until: Cell::new(now),
        }
    }

    /// Waits in line until a read may load.
    pub(super) async fn enter(&self) -> ColdRead<'_> {
        let _first = self.line.take().await;
        while self.loading.get() >= READS_MAX {
            self.ended.notified().await;
        }
        self.loading.set(self.loading.get() + 1);
        ColdRead { share: self }
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

impl ColdRead<'_> {
    /// Waits until so many bytes may be loaded. `appended` gives the end of the log.
    pub(super) async fn pace(&self, bytes: u64, appended: impl Fn() -> u64) {
        while let Some(pause) = self.share.pause(appended(), runtime::clock::instant()) {
            runtime::clock::sleep(pause.min(LOOK_AGAIN)).await;
        }
        self.share.use_up(bytes, runtime::clock::instant());
    }
}

impl Drop for ColdRead<'_> {
    fn drop(&mut self) {
        self.share.loading.set(self.share.loading.get() - 1);
        self.share.ended.notify();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::{Future, poll_fn};
    use std::rc::Rc;

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

    /// Nobody is woken for nothing: with many in line that would be all that a core does.
    #[test]
    fn reads_come_in_the_order_of_their_asking_and_the_end_of_one_wakes_one() {
        const READS: usize = 200;
        runtime::run_here(async {
            let share = Rc::new(ColdShare::new(None, 0));
            let (begun, polls) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
            for number in 0..READS {
                let (share, begun, polls) = (share.clone(), begun.clone(), polls.clone());
                runtime::spawn(async move {
                    let mut entering = std::pin::pin!(share.enter());
                    let read = poll_fn(|context| {
                        polls.set(polls.get() + 1);
                        entering.as_mut().poll(context)
                    })
                    .await;
                    begun.borrow_mut().push(number);
                    assert!(share.loading.get() <= READS_MAX, "{} load at once", share.loading.get());
                    runtime::yield_now().await;
                    drop(read);
                });
            }
            while begun.borrow().len() < READS {
                runtime::yield_now().await;
            }
            assert!(begun.borrow().iter().copied().eq(0..READS), "{:?}", begun.borrow());
            assert!(polls.get() <= 4 * READS, "{} polls for {READS} reads", polls.get());
        })
        .expect("an executor");
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
