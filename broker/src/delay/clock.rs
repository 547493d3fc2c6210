//! The time by which messages are held: the wall clock, except that it never goes back.
//!
//! Delivery goes in the order of due times, and nothing may become due in front of what was delivered. When the wall
//! clock is set back, this clock goes on by the monotonic one until the wall clock has caught up: a message held for a
//! second is held for a second all the while.

use std::cell::Cell;
use std::time::Instant;

use base::Millis;
use runtime::clock;

pub(super) struct DelayClock {
    /// A time that was shown, and when.
    anchor: Cell<(Instant, Millis)>,
}

impl DelayClock {
    /// Starts at the wall clock's time, but not in front of `at_least`.
    pub(super) fn new(at_least: Millis) -> DelayClock {
        let (wall, instant) = both_clocks();
        DelayClock { anchor: Cell::new((instant, at_least.max(wall))) }
    }

    pub(super) fn now(&self) -> Millis {
        let (wall, instant) = both_clocks();
        self.at(instant, wall)
    }

    fn at(&self, instant: Instant, wall: Millis) -> Millis {
        let (shown_at, shown) = self.anchor.get();
        let flowed = Millis(shown.0 + instant.saturating_duration_since(shown_at).as_millis() as u64);
        if wall > flowed {
            self.anchor.set((instant, wall));
        }
        wall.max(flowed)
    }
}

/// The wall clock first: a pause between the two then makes what flows from them late, never early.
fn both_clocks() -> (Millis, Instant) {
    let wall = clock::now_ms();
    (wall, clock::instant())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_follows_the_wall_forward_and_never_back() {
        let began = clock::instant();
        let clock = DelayClock { anchor: Cell::new((began, Millis(1000))) };
        let after = |ms| began + Duration::from_millis(ms);
        assert_eq!(clock.at(after(10), Millis(1010)), Millis(1010));
        assert_eq!(clock.at(after(20), Millis(9000)), Millis(9000), "set forward: at once");
        assert_eq!(clock.at(after(30), Millis(1030)), Millis(9010), "set back: on by the monotonic clock");
        assert_eq!(clock.at(after(3000), Millis(9500)), Millis(11_980));
        assert_eq!(clock.at(after(3010), Millis(12_000)), Millis(12_000), "caught up");
    }
}
