//! The clock of a run: nanoseconds since it began, on the monotonic clock.

use std::time::{Duration, Instant};

/// Counts from the moment it was made. Stamps of one clock mean nothing to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock {
    begun: Instant,
}

impl RunClock {
    pub(crate) fn start() -> RunClock {
        RunClock { begun: runtime::clock::instant() }
    }

    pub(crate) fn now_ns(self) -> u64 {
        nanoseconds(runtime::clock::instant().saturating_duration_since(self.begun))
    }

    /// Blocks the thread until that time; returns at once when it has passed.
    pub(crate) fn sleep_until(self, time_ns: u64) {
        let now_ns = self.now_ns();
        if time_ns > now_ns {
            std::thread::sleep(Duration::from_nanos(time_ns - now_ns));
        }
    }

    pub(crate) fn sleep(self, span: Duration) {
        self.sleep_until(self.now_ns() + nanoseconds(span));
    }
}

pub(crate) fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
