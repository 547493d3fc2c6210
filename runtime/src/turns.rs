//! How long the turns of a core are: what is ready waits for the end of a turn, whoever holds the core in it.
//!
//! A turn lasts from the first of its tasks until the core sleeps or begins the next one. Its ends are readings of the
//! clock that the reactor makes anyway. Of a turn that was long it is kept when it began, how many tasks it ran, and how
//! long the thread may have waited for its CPU meanwhile, which is no task's fault. On glommio nothing is counted.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use base::Millis;

use crate::{clock, scheduling};

/// A turn that took longer is kept.
pub const LONG: Duration = Duration::from_millis(1);
/// Long turns kept of one core. Beyond it the oldest goes.
const LONG_MAX: usize = 256;

/// A turn that took longer than [`LONG`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongTurn {
    /// Counts the long turns of this core from 0.
    pub number: u64,
    /// When it ended.
    pub at: Millis,
    pub nanos: u64,
    pub tasks: u32,
    /// The thread waited for its CPU for no longer than this meanwhile.
    pub waited_nanos_max: u64,
}

/// The turns of one core since its start.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    pub count: u64,
    /// The time that all of them took together.
    pub nanos: u64,
    pub long_count: u64,
    /// The newest of the long ones, the oldest first.
    pub long: VecDeque<LongTurn>,
    /// How long the thread has waited for its CPU, as it was looked at last.
    pub waited_nanos: u64,
}

thread_local! {
    static TURNS: RefCell<Turns> = RefCell::default();
}

/// The turns of this core until now.
pub fn of_this_core() -> Turns {
    TURNS.with_borrow_mut(|turns| {
        turns.look_at_waiting();
        turns.clone()
    })
}

/// A turn of this core has ended.
pub(crate) fn ended(span: Duration, tasks: u32) {
    TURNS.with_borrow_mut(|turns| turns.record(span, tasks));
}

impl Turns {
    fn record(&mut self, span: Duration, tasks: u32) {
        self.count += 1;
        self.nanos += span.as_nanos() as u64;
        if span > LONG {
            let waited = self.look_at_waiting();
            self.keep(span, tasks, waited, clock::now_ms());
        }
    }

    fn keep(&mut self, span: Duration, tasks: u32, waited_nanos: u64, at: Millis) {
        if self.long.len() == LONG_MAX {
            self.long.pop_front();
        }
        let nanos = span.as_nanos() as u64;
        let waited_nanos_max = waited_nanos.min(nanos);
        self.long.push_back(LongTurn { number: self.long_count, at, nanos, tasks, waited_nanos_max });
        self.long_count += 1;
    }

    /// How long the thread has waited for its CPU since the last look.
    fn look_at_waiting(&mut self) -> u64 {
        let now = scheduling::waited().map_or(self.waited_nanos, |waited| waited.as_nanos() as u64);
        let before = std::mem::replace(&mut self.waited_nanos, now);
        now.saturating_sub(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_turns_are_kept_one_by_one_and_bounded() {
        let mut turns = Turns::default();
        turns.record(Duration::from_micros(900), 7);
        assert_eq!((turns.count, turns.nanos, turns.long.len()), (1, 900_000, 0));
        for number in 0..300 {
            turns.keep(Duration::from_millis(2), number, 5_000_000, Millis(u64::from(number)));
        }
        assert_eq!((turns.long_count, turns.long.len()), (300, LONG_MAX));
        let newest =
            LongTurn { number: 299, at: Millis(299), nanos: 2_000_000, tasks: 299, waited_nanos_max: 2_000_000 };
        assert_eq!(turns.long.back(), Some(&newest), "it waited for no longer than it took");
    }

    #[test]
    fn a_task_that_holds_its_core_is_seen() {
        crate::run_here(async {
            let held = Duration::from_millis(30);
            let before = of_this_core();
            crate::yield_now().await;
            let began = std::time::Instant::now();
            while began.elapsed() < held {
                std::hint::spin_loop();
            }
            clock::sleep(Duration::from_millis(5)).await;
            let after = of_this_core();
            if crate::reactor::is_ring() {
                let long = after.long.iter().find(|turn| turn.number >= before.long_count && turn.nanos >= 30_000_000);
                assert!(long.is_some_and(|turn| turn.tasks >= 1), "{after:?}");
                assert!(after.nanos - before.nanos < began.elapsed().as_nanos() as u64, "sleep is no turn: {after:?}");
            } else {
                assert_eq!(after.count, 0);
            }
        })
        .expect("an executor");
    }
}
