//! Rates of the last 10, 60 and 600 seconds, from one sample a second.

use std::collections::VecDeque;

use base::Millis;

/// The spans of a rate, in seconds.
pub(crate) const RATE_SPANS: [u64; 3] = [10, 60, 600];
/// Samples that are kept: the longest span and the one that begins it.
const SAMPLES_MAX: usize = 601;

/// What is counted a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rated {
    pub(crate) put_messages: u64,
    pub(crate) got_messages: u64,
    /// Pulls that found something.
    pub(crate) found: u64,
    /// Pulls that found nothing.
    pub(crate) missed: u64,
}

/// Samples of one core.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    samples: VecDeque<(Millis, Rated)>,
}

impl Rates {
    pub(crate) fn sample(&mut self, now: Millis, counted: Rated) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((now, counted));
    }

    /// The rates a second of one count over each of [`RATE_SPANS`], up to the newest sample.
    pub(crate) fn of(&self, count: impl Fn(&Rated) -> u64) -> [f64; 3] {
        let Some((now, newest)) = self.samples.back() else { return [0.0; 3] };
        RATE_SPANS.map(|seconds| {
            let reach = now.0.saturating_sub(seconds * 1000);
            // Samples come a little late: the one nearest to the span's beginning is its beginning.
            let base = self.samples.iter().find(|(at, _)| at.0 + 500 > reach);
            let (at, counted) = base.expect("the newest sample lies within every span");
            let span_ms = now.0.saturating_sub(at.0);
            if span_ms == 0 { 0.0 } else { (count(newest) - count(counted)) as f64 * 1000.0 / span_ms as f64 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_their_spans() {
        let mut rates = Rates::default();
        assert_eq!(rates.of(|counted| counted.found), [0.0; 3]);
        for second in 0..1000_u64 {
            let put_messages = if second < 990 { second * 10 } else { 9890 + (second - 989) * 20 };
            rates.sample(Millis(second * 1001), Rated { put_messages, ..Rated::default() });
        }
        let [ten, sixty, long] = rates.of(|counted| counted.put_messages);
        assert!((ten - 20.0).abs() < 1.5, "{ten}");
        assert!((sixty - 11.6).abs() < 0.5, "{sixty}");
        assert!((long - 10.2).abs() < 0.2, "{long}");
        assert_eq!(rates.samples.len(), SAMPLES_MAX);
    }
}
