//! How often which time was seen: counts of fixed classes, each within a sixteenth of its times.

use remoting::body::stages::quantile_nanos;
use transport::UNIT_NS;

/// Classes within each doubling of the time: the error of a quantile is below one part in sixteen.
const STEPS: usize = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Doublings above [`STEPS`] units, up to all that 32 bits hold: 68 s.
const DOUBLINGS: usize = (u32::BITS - STEP_BITS) as usize;
const CLASSES: usize = STEPS * (DOUBLINGS + 1);

/// Times of one kind. Recording is an addition; there is no allocation after the first.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: [u64; CLASSES],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [0; CLASSES] }
    }
}

impl Histogram {
    /// Records a time in units of [`UNIT_NS`].
    pub(crate) fn record(&mut self, units: u32) {
        self.counts[class_of(units)] += 1;
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
    }

    /// The longest time of each class that was seen, in nanoseconds, and how often it was.
    pub(crate) fn seen(&self) -> impl Iterator<Item = (u64, u64)> + Clone {
        let seen = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        seen.map(|(class, count)| (limit_ns(class), *count))
    }

    /// The time within which this share of all (0 to 1) was done, in nanoseconds; 0 when nothing was.
    pub(crate) fn quantile_ns(&self, share: f64) -> u64 {
        quantile_nanos(self.seen(), share)
    }
}

fn class_of(units: u32) -> usize {
    if units < STEPS as u32 {
        return units as usize;
    }
    let doubling = units.ilog2() - STEP_BITS;
    let step = (units >> doubling) as usize - STEPS;
    STEPS * (doubling as usize + 1) + step
}

/// The longest time of a class.
fn limit_ns(class: usize) -> u64 {
    let units = if class < STEPS {
        class as u64 + 1
    } else {
        let (doubling, step) = (class / STEPS - 1, class % STEPS);
        ((STEPS + step + 1) as u64) << doubling
    };
    units * UNIT_NS - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_order_and_hold_their_times() {
        let mut before = 0;
        for units in 0..200_000_u32 {
            let class = class_of(units);
            assert!(class == before || class == before + 1, "{units}");
            let (least_ns, most_ns) = (u64::from(units) * UNIT_NS, u64::from(units + 1) * UNIT_NS - 1);
            assert!(limit_ns(class) >= most_ns, "{units} in class {class}");
            assert!(limit_ns(class) <= most_ns + least_ns / 16, "{units} in class {class}");
            before = class;
        }
        assert_eq!(class_of(u32::MAX), CLASSES - 1);
        assert_eq!(limit_ns(CLASSES - 1), (1 << 32) * UNIT_NS - 1);
    }

    #[test]
    fn quantiles_are_close_and_what_is_merged_counts() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_ns(0.99), 0);
        (1..=1000).for_each(|step| histogram.record(step * 625));
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        for histogram in [&histogram, &twice] {
            let (p50, p99) = (histogram.quantile_ns(0.5), histogram.quantile_ns(0.99));
            assert!((5_000_000..5_320_000).contains(&p50) && (9_900_000..10_530_000).contains(&p99), "{p50} {p99}");
        }
        assert_eq!(twice.seen().map(|(_, count)| count).sum::<u64>(), 2000);
        assert_eq!(histogram.quantile_ns(1.0), histogram.seen().last().expect("some").0);
    }
}
