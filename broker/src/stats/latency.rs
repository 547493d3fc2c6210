//! How long things took: counted in the classes that operators know, and finely enough for percentiles.

use std::fmt::Write;
use std::time::Duration;

use transport::UNIT_NS;

use crate::stages::Histogram;

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

/// Times of one kind on one core, or of several cores together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latency {
    classes: [u64; CLASSES.len()],
    fine: Histogram,
    pub(crate) longest: Duration,
}

impl Latency {
    pub(crate) fn record(&mut self, took: Duration) {
        let millis = took.as_millis() as u64;
        let class = CLASSES.iter().position(|(_, below)| millis < *below).unwrap_or(CLASSES.len() - 1);
        self.classes[class] += 1;
        self.fine.record(u32::try_from(took.as_nanos() as u64 / UNIT_NS).unwrap_or(u32::MAX));
        self.longest = self.longest.max(took);
    }

    pub(crate) fn merge(&mut self, other: &Latency) {
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            *mine += theirs;
        }
        self.fine.merge(&other.fine);
        self.longest = self.longest.max(other.longest);
    }

    /// The time within which this share of all (0 to 1) was done, in milliseconds; 0 when nothing was.
    pub(crate) fn percentile_ms(&self, share: f64) -> f64 {
        self.fine.quantile_ns(share) as f64 / 1e6
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

#[cfg(test)]
mod tests {
    use super::*;

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
