//! Counts over time: what was counted in the last minute, hour and day.

use std::collections::VecDeque;
use std::ops::{AddAssign, Sub};

use base::Millis;

/// Calls, and what they carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, messages: u64, bytes: u64) {
        self.calls += 1;
        self.messages += messages;
        self.bytes += bytes;
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.calls += other.calls;
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

impl Sub for Tally {
    type Output = Tally;

    fn sub(self, earlier: Tally) -> Tally {
        Tally {
            calls: self.calls - earlier.calls,
            messages: self.messages - earlier.messages,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// A window and how often it is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Minute,
    Hour,
    Day,
}

impl Window {
    pub(crate) const ALL: [Window; 3] = [Window::Minute, Window::Hour, Window::Day];

    /// Time between samples, in seconds.
    pub(crate) fn sample_seconds(self) -> u64 {
        match self {
            Window::Minute => 10,
            Window::Hour => 10 * 60,
            Window::Day => 60 * 60,
        }
    }

    /// Samples that make the window.
    fn samples(self) -> usize {
        match self {
            Window::Minute | Window::Hour => 6,
            Window::Day => 24,
        }
    }
}

/// What was counted in a window: up to now, from a sample's age at most back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    pub(crate) tally: Tally,
    pub(crate) span: Millis,
}

impl Counted {
    /// The same window of another core.
    pub(crate) fn merge(&mut self, other: Counted) {
        self.tally += other.tally;
        self.span = self.span.max(other.span);
    }
}

/// One thing that is counted.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) now: Tally,
    born: Millis,
    windows: [VecDeque<(Millis, Tally)>; 3],
}

impl Series {
    pub(crate) fn new(now: Millis) -> Series {
        Series { now: Tally::default(), born: now, windows: Default::default() }
    }

    /// Takes the window's sample.
    pub(crate) fn sample(&mut self, window: Window, now: Millis) {
        let samples = &mut self.windows[window as usize];
        // One more than the window has lets a question between two samples reach back the whole window.
        if samples.len() > window.samples() {
            samples.pop_front();
        }
        samples.push_back((now, self.now));
    }

    /// What was counted in the window that ends now.
    pub(crate) fn counted(&self, window: Window, now: Millis) -> Counted {
        let samples = &self.windows[window as usize];
        let reach = Millis(now.0.saturating_sub(window.sample_seconds() * 1000 * window.samples() as u64));
        let base = if self.born >= reach {
            (self.born, Tally::default())
        } else {
            let inside = samples.iter().find(|(at, _)| *at >= reach);
            *inside.or(samples.back()).unwrap_or(&(self.born, Tally::default()))
        };
        Counted { tally: self.now - base.1, span: Millis(now.0.saturating_sub(base.0.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1000;

    #[test]
    fn a_young_series_counts_from_its_birth() {
        let mut series = Series::new(Millis(0));
        series.now.add(3, 30);
        let counted = series.counted(Window::Minute, Millis(2 * SECOND));
        assert_eq!((counted.tally, counted.span), (Tally { calls: 1, messages: 3, bytes: 30 }, Millis(2 * SECOND)));
    }

    #[test]
    fn a_window_forgets_what_is_older() {
        let mut series = Series::new(Millis(0));
        for tick in 1..=20_u64 {
            series.now.add(1, 10);
            series.sample(Window::Minute, Millis(tick * 10 * SECOND));
        }
        let now = Millis(205 * SECOND);
        series.now.add(1, 10);
        let counted = series.counted(Window::Minute, now);
        // From the sample at 150 s: those of 160 to 200 s and the last one.
        assert_eq!((counted.tally.messages, counted.span), (6, Millis(55 * SECOND)));
        assert_eq!(series.counted(Window::Hour, now).tally.messages, 21, "no hour has gone by yet");
        assert!(series.windows.iter().all(|samples| samples.len() <= 25));
    }

    #[test]
    fn an_idle_series_counts_nothing() {
        let mut series = Series::new(Millis(0));
        series.now.add(5, 5);
        for tick in 1..=10_u64 {
            series.sample(Window::Minute, Millis(tick * 10 * SECOND));
        }
        assert_eq!(series.counted(Window::Minute, Millis(100 * SECOND)).tally, Tally::default());
        // The sampling stood still: what came since its last sample counts, not more.
        assert_eq!(series.counted(Window::Minute, Millis(1000 * SECOND)).tally, Tally::default());
    }
}
