//! A phase second by second: what was gathered in each, and all of it together.

use hdrhistogram::Histogram;

use crate::record::{Counts, Gathered, Kind};

/// Of the times of one kind in an interval, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Quantiles {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) p50: u64,
    pub(crate) p75: u64,
    pub(crate) p95: u64,
    pub(crate) p99: u64,
    pub(crate) p99_9: u64,
    pub(crate) p99_99: u64,
    pub(crate) max: u64,
}

impl Quantiles {
    pub(crate) fn of(times: &Histogram<u64>) -> Quantiles {
        let at = |share: f64| times.value_at_quantile(share);
        Quantiles {
            count: times.len(),
            mean: times.mean(),
            p50: at(0.5),
            p75: at(0.75),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: times.max(),
        }
    }
}

/// An interval, without its histograms.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Seconds since the measured span began.
    pub(crate) from_s: f64,
    pub(crate) seconds: f64,
    pub(crate) counts: Counts,
    quantiles: [Quantiles; Kind::ALL.len()],
}

impl Row {
    pub(crate) fn new(from_s: f64, seconds: f64, gathered: &Gathered) -> Row {
        let quantiles = Kind::ALL.map(|kind| Quantiles::of(gathered.times(kind)));
        Row { from_s, seconds, counts: gathered.counts, quantiles }
    }

    /// Those of nothing when nothing of the kind was seen.
    pub(crate) fn quantiles(&self, kind: Kind) -> &Quantiles {
        &self.quantiles[kind as usize]
    }

    pub(crate) fn a_second(&self, messages: u64) -> f64 {
        if self.seconds > 0.0 { messages as f64 / self.seconds } else { 0.0 }
    }
}

/// All intervals of a phase.
pub(crate) struct Timeline {
    pub(crate) rows: Vec<Row>,
    pub(crate) total: Gathered,
}

impl Timeline {
    pub(crate) fn new() -> Timeline {
        Timeline { rows: Vec::new(), total: Gathered::new() }
    }

    pub(crate) fn add(&mut self, row: Row, gathered: &Gathered) {
        self.total.add(gathered);
        self.rows.push(row);
    }
}
