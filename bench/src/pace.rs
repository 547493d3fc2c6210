//! When requests are due, whatever comes of them.

use std::ops::Range;
use std::sync::Arc;

use base::Random;

/// A plan without end. Request `number` is due at a time that depends on nothing but its number.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    pub(crate) start_ns: u64,
    /// Due times are rounded up to multiples of it, so that the generator wakes less often; 0: not at all.
    pub(crate) tick_ns: u64,
    pub(crate) arrivals: Arrivals,
}

/// How requests are spread over time. Rates are requests a second.
#[derive(Clone, Debug)]
pub(crate) enum Arrivals {
    /// At even distances.
    Even { rate: f64 },
    /// From one rate to another over a span, then at that.
    Ramp { from: f64, to: f64, span_ns: u64 },
    /// Everything within the first `on_ns` of each `cycle_ns`, evenly there; `rate` is over all of the time.
    Bursts { rate: f64, on_ns: u64, cycle_ns: u64 },
    /// Drawn before the run; behind the last nothing is due.
    Drawn(Arc<[u64]>),
}

impl Arrivals {
    /// A Poisson process: the distances are exponential, as those of many clients that know nothing of each other.
    pub(crate) fn poisson(rate: f64, span_ns: u64, random: &mut Random) -> Arrivals {
        let mut due_ns = 0.0;
        let gap_ns = 1e9 / rate;
        let times = std::iter::from_fn(|| {
            // In (0, 1], so that the logarithm is finite.
            let share = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            due_ns -= gap_ns * share.ln();
            (due_ns < span_ns as f64).then_some(due_ns as u64)
        });
        Arrivals::Drawn(times.collect())
    }

    fn due_ns(&self, number: u64) -> u64 {
        let even_ns = |rate: f64| (number as f64 * 1e9 / rate) as u64;
        match self {
            Arrivals::Even { rate } => even_ns(*rate),
            Arrivals::Ramp { from, to, span_ns } => {
                let (count, seconds) = (number as f64, *span_ns as f64 / 1e9);
                let in_ramp = (from + to) / 2.0 * seconds;
                if count >= in_ramp {
                    return ((seconds + (count - in_ramp) / to) * 1e9) as u64;
                }
                // count = from·t + slope·t², solved for t in the form that also holds for a slope of nothing.
                let slope = (to - from) / (2.0 * seconds);
                let root = (from * from + 4.0 * slope * count).max(0.0).sqrt();
                (2.0 * count / (from + root) * 1e9) as u64
            }
            Arrivals::Bursts { rate, on_ns, cycle_ns } => {
                let even_ns = even_ns(*rate);
                let in_cycle_ns = u128::from(even_ns % cycle_ns) * u128::from(*on_ns) / u128::from(*cycle_ns);
                even_ns / cycle_ns * cycle_ns + in_cycle_ns as u64
            }
            Arrivals::Drawn(times) => times.get(number as usize).copied().unwrap_or(u64::MAX >> 1),
        }
    }
}

impl Pace {
    pub(crate) fn due_ns(&self, number: u64) -> u64 {
        let due_ns = self.arrivals.due_ns(number);
        self.start_ns + if self.tick_ns == 0 { due_ns } else { due_ns.next_multiple_of(self.tick_ns) }
    }

    /// How many requests are due in a span.
    pub(crate) fn count_in(&self, span_ns: &Range<u64>) -> u64 {
        self.count_before(span_ns.end) - self.count_before(span_ns.start)
    }

    fn count_before(&self, time_ns: u64) -> u64 {
        let (mut low, mut high) = (0, 1);
        while self.due_ns(high) < time_ns {
            (low, high) = (high, high * 2);
        }
        // The first in low..=high that is not due before.
        while low < high {
            let middle = low.midpoint(high);
            if self.due_ns(middle) < time_ns { low = middle + 1 } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn pace(arrivals: Arrivals, tick_ns: u64) -> Pace {
        Pace { start_ns: 7, tick_ns, arrivals }
    }

    /// How many are due in each second.
    fn seconds(pace: &Pace, count: u64) -> Vec<u64> {
        (0..count).map(|second| pace.count_in(&(7 + second * SECOND_NS..7 + (second + 1) * SECOND_NS))).collect()
    }

    #[test]
    fn due_times_are_even_and_lie_on_the_grid() {
        for (rate, tick_ns, number, expected) in [
            (5000.0, 0, 0, 0),
            (5000.0, 0, 1, 200_000),
            (5000.0, 200_000, 5000, SECOND_NS),
            (20_000.0, 200_000, 4, 200_000),
            (20_000.0, 200_000, 5, 400_000),
            (2.5, 0, 3, 1_200_000_000),
            (3.0, 0, 3_000_000_000, SECOND_NS * SECOND_NS),
        ] {
            let due = pace(Arrivals::Even { rate }, tick_ns).due_ns(number) - 7;
            assert_eq!(due, expected, "{rate}/s in ticks of {tick_ns} ns, number {number}");
        }
        assert_eq!(seconds(&pace(Arrivals::Even { rate: 1000.0 }, 200_000), 3), [1000, 1000, 1000]);
    }

    #[test]
    fn a_ramp_goes_from_one_rate_to_the_other_and_stays() {
        let ramp = |from, to| pace(Arrivals::Ramp { from, to, span_ns: 4 * SECOND_NS }, 0);
        let counts = seconds(&ramp(0.0, 400.0), 6);
        for (count, expected) in counts.iter().zip([50, 150, 250, 350, 400, 400]) {
            assert!(count.abs_diff(expected) <= 1, "{counts:?}");
        }
        let counts = seconds(&ramp(400.0, 100.0), 6);
        for (count, expected) in counts.iter().zip([362, 287, 212, 137, 100, 100]) {
            assert!(count.abs_diff(expected) <= 1, "{counts:?}");
        }
        assert_eq!(seconds(&ramp(100.0, 100.0), 5), [100; 5]);
    }

    #[test]
    fn bursts_keep_the_rate_and_leave_the_rest_of_a_cycle_empty() {
        let bursts = pace(Arrivals::Bursts { rate: 1000.0, on_ns: SECOND_NS / 10, cycle_ns: SECOND_NS }, 0);
        assert_eq!(seconds(&bursts, 3), [1000; 3]);
        assert_eq!(bursts.count_in(&(7 + SECOND_NS / 10..7 + SECOND_NS)), 0);
        assert_eq!(bursts.due_ns(1) - 7, 100_000);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_the_scatter_and_an_end() {
        let arrivals = Arrivals::poisson(1000.0, 100 * SECOND_NS, &mut Random::new(1));
        let counts = seconds(&pace(arrivals.clone(), 0), 100);
        let mean = counts.iter().sum::<u64>() as f64 / 100.0;
        let variance = counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum::<f64>() / 100.0;
        assert!((950.0..1050.0).contains(&mean), "{mean}");
        // Of a Poisson process the variance is the mean; of an even one it is 0.
        assert!((600.0..1500.0).contains(&variance), "{variance}");
        assert_eq!(seconds(&pace(arrivals, 0), 101)[100], 0);
    }
}
