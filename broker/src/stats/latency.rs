//! How long things took: counted in the classes that operators know, and finely enough for percentiles.

use std::fmt::Write;
use std::time::Duration;

/// The classes of the distribution: their names, and the milliseconds below which a time falls into them.
const CLASSES: [(&str, u64); 13] = [
    ("<=0ms", 1),
    ("0~10ms", 10),
    ("10~50ms", 50),
    ("50~100ms", 100),
    ("100~200ms", 200),
    ("200~500ms", 500),
    ("500ms~1s", 1000),
    ("1~2s", 2000),
    ("2~3s", 3000),
    ("3~4s", 4000),
    ("4~5s", 5000),
    ("5~10s", 10_000),
    ("10s~", u64::MAX),
];

/// Steps within each doubling of the time: the error of a percentile is below one part in eight.
const STEPS: usize = 8;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Doublings above [`STEPS`] microseconds, up to more than an hour. Longer times count as the longest.
const DOUBLINGS: usize = 30;

/// Times of one kind on one core, or of several cores together.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    classes: [u64; CLASSES.len()],
    /// Counts by microseconds: one for each of the first [`STEPS`], then [`STEPS`] for each doubling.
    fine: Box<[u64; STEPS * (DOUBLINGS + 1)]>,
    pub(crate) longest: Duration,
    count: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency {
            classes: [0; CLASSES.len()],
            fine: Box::new([0; STEPS * (DOUBLINGS + 1)]),
            longest: Duration::ZERO,
            count: 0,
        }
    }
}

impl Latency {
    pub(crate) fn record(&mut self, took: Duration) {
        let micros = took.as_micros() as u64;
        let millis = micros / 1000;
        let class = CLASSES.iter().position(|(_, below)| millis < *below).unwrap_or(CLASSES.len() - 1);
        self.classes[class] += 1;
        self.fine[slot(micros)] += 1;
        self.longest = self.longest.max(took);
        self.count += 1;
    }

    pub(crate) fn merge(&mut self, other: &Latency) {
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            *mine += theirs;
        }
        for (mine, theirs) in self.fine.iter_mut().zip(other.fine.iter()) {
            *mine += theirs;
        }
        self.longest = self.longest.max(other.longest);
        self.count += other.count;
    }

    /// The time within which this share of all (0 to 1) was done, in milliseconds; 0 when nothing was.
    pub(crate) fn percentile_ms(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (slot, count) in self.fine.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                return micros_of(slot) as f64 / 1000.0;
            }
        }
        0.0
    }

    /// `[<=0ms]:n [0~10ms]:n … [10s~]:n `
    pub(crate) fn distribution(&self) -> String {
        let mut text = String::new();
        for ((name, _), count) in CLASSES.iter().zip(self.classes) {
            write!(text, "[{name}]:{count} ").expect("writing to a text does not fail");
        }
        text
    }
}

fn slot(micros: u64) -> usize {
    if micros < STEPS as u64 {
        return micros as usize;
    }
    let doubling = micros.ilog2() - STEP_BITS;
    let step = (micros >> doubling) as usize - STEPS;
    (STEPS * (doubling as usize + 1) + step).min(STEPS * (DOUBLINGS + 1) - 1)
}

/// The longest time of a slot.
fn micros_of(slot: usize) -> u64 {
    if slot < STEPS {
        return slot as u64;
    }
    let (doubling, step) = (slot / STEPS - 1, slot % STEPS);
    (((STEPS + step + 1) as u64) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_in_order_and_hold_their_times() {
        let mut before = 0;
        for micros in 0..100_000_u64 {
            let at = slot(micros);
            assert!(at == before || at == before + 1, "{micros} µs");
            assert!(micros_of(at) >= micros && micros_of(at) <= micros + micros / 8, "{micros} µs in slot {at}");
            before = at;
        }
        assert_eq!(slot(u64::MAX), STEPS * (DOUBLINGS + 1) - 1);
    }

    #[test]
    fn times_fall_into_their_classes() {
        let mut latency = Latency::default();
        for micros in [0, 999, 1000, 9_999, 10_000, 4_999_999, 10_000_000, 3_600_000_000] {
            latency.record(Duration::from_micros(micros));
        }
        assert_eq!(
            latency.distribution(),
            "[<=0ms]:2 [0~10ms]:2 [10~50ms]:1 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 [1~2s]:0 \
             [2~3s]:0 [3~4s]:0 [4~5s]:1 [5~10s]:0 [10s~]:2 "
        );
        assert_eq!(latency.longest, Duration::from_secs(3600));
    }

    #[test]
    fn percentiles_are_close() {
        let mut latency = Latency::default();
        assert_eq!(latency.percentile_ms(0.99), 0.0);
        for micros in 1..=1000_u64 {
            latency.record(Duration::from_micros(micros * 10));
        }
        let mut twice = latency.clone();
        twice.merge(&latency);
        for latency in [latency, twice] {
            let (p50, p99) = (latency.percentile_ms(0.5), latency.percentile_ms(0.99));
            assert!((4.9..5.7).contains(&p50) && (9.8..11.2).contains(&p99), "{p50} {p99}");
        }
    }
}
