//! The pictures of a report.

use hdrhistogram::Histogram;

use super::svg::{Axis, COLOURS, Drawing, Plot, Steps, number, time};
use crate::folder::interval_log::LoggedInterval;
use crate::folder::stored::merged;
use crate::record::Kind;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
/// Columns of a heat map: the seconds of a longer phase share them.
const COLUMNS_MAX: usize = 120;
/// Rows of a heat map between two powers of ten.
const ROWS_A_DECADE: f64 = 8.0;
/// A latency this many times that of the lowest rate is behind the knee.
const KNEE: f64 = 5.0;
/// So is a rate of which less was achieved.
const ACHIEVED_MIN: f64 = 0.99;

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Class of the colour of line `index`.
fn colour(index: usize) -> String {
    format!("c{}", index % COLOURS)
}

/// Percentiles on a scale that gives each further nine the same room. Each line has a name; the one named last may be
/// the machine's hiccups.
pub(crate) fn ladder(lines: &[(String, Histogram<u64>)], hiccups: Option<&Histogram<u64>>) -> Drawing {
    let longest = lines.iter().map(|(_, times)| times.len()).max().unwrap_or(0).max(100);
    let nines = (longest as f64).log10().ceil().clamp(2.0, 6.0) as i32;
    let labels = ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"];
    let ticks = (0..=nines).map(|nine| (10_f64.powi(nine), labels[nine as usize].to_owned())).collect();
    let greatest = 10_f64.powi(nines);
    let x = Axis { title: "percentile", least: 1.0, greatest, steps: Steps::Logarithmic, ticks };
    let all = || lines.iter().map(|(_, times)| times).chain(hiccups);
    let ends = all().flat_map(|times| [us(times.min().max(1)), us(times.max())]);
    let mut plot = Plot::new(WIDTH, HEIGHT, x, Axis::times("latency", ends));
    let points = |times: &Histogram<u64>| -> Vec<(f64, f64)> {
        let steps = times.iter_quantiles(10).map(|step| {
            let left = (1.0 - step.quantile_iterated_to()).max(1.0 / greatest);
            (1.0 / left, us(step.value_iterated_to()))
        });
        steps.collect()
    };
    for (index, (name, times)) in lines.iter().take(COLOURS).enumerate() {
        plot.line(name, &colour(index), &points(times));
    }
    if let Some(times) = hiccups.filter(|times| !times.is_empty()) {
        plot.line("the machine alone (hiccups)", "hiccups", &points(times));
    }
    plot.finish("latency by percentile")
}

/// A phase at a rate.
#[derive(Clone, Debug)]
pub(crate) struct RatePoint {
    pub(crate) name: String,
    pub(crate) asked: Option<f64>,
    pub(crate) achieved: f64,
    /// p50, p99 and p99.9 in microseconds.
    pub(crate) us: [f64; 3],
}

/// Latency over throughput, with the knee.
pub(crate) fn curve(points: &[RatePoint]) -> Drawing {
    let mut points = points.to_vec();
    points.sort_by(|left, right| left.achieved.total_cmp(&right.achieved));
    let x = Axis::from_zero("messages a second", points.iter().map(|point| point.achieved));
    let y = Axis::times("latency", points.iter().flat_map(|point| point.us));
    let mut plot = Plot::new(WIDTH, HEIGHT, x, y);
    for (index, name) in ["p50", "p99", "p99.9"].into_iter().enumerate() {
        let line: Vec<(f64, f64)> = points.iter().map(|point| (point.achieved, point.us[index])).collect();
        plot.line(name, &colour(index), &line);
        let told = |point: &RatePoint| {
            format!("{}: {} messages/s, {name} {}", point.name, number(point.achieved), time(point.us[index]))
        };
        let dots: Vec<_> = points.iter().map(|point| (point.achieved, point.us[index], told(point))).collect();
        plot.dots(&colour(index), &dots);
    }
    if let Some(at) = knee(&points) {
        plot.mark(at, "knee");
    }
    plot.finish("latency over throughput")
}

/// The first throughput, of rising ones, at which latency or the load gives way.
fn knee(points: &[RatePoint]) -> Option<f64> {
    let least = points.iter().map(|point| point.us[1]).fold(f64::INFINITY, f64::min);
    let gives_way = |point: &&RatePoint| {
        point.us[1] > least * KNEE || point.asked.is_some_and(|asked| point.achieved < asked * ACHIEVED_MIN)
    };
    points.iter().find(gives_way).map(|point| point.achieved)
}

/// How often each latency was seen, over time.
pub(crate) fn heat_map(intervals: &[LoggedInterval], kind: Kind) -> Drawing {
    let columns = columns(intervals, kind);
    let seen = columns.iter().flat_map(|column| [us(column.times.min().max(1)), us(column.times.max())]);
    let y = Axis::times("latency", seen);
    let end_s = columns.last().map_or(1.0, |column| column.to_s);
    let x = Axis::from_zero("seconds", [end_s].into_iter());
    let least = y.least;
    let mut plot = Plot::new(WIDTH, HEIGHT, x, y);
    let mut cells = Vec::new();
    for column in &columns {
        let mut rows = std::collections::BTreeMap::new();
        for step in column.times.iter_recorded() {
            let row = ((us(step.value_iterated_to()) / least).log10() * ROWS_A_DECADE).floor().max(0.0) as i32;
            *rows.entry(row).or_insert(0_u64) += step.count_at_value();
        }
        cells.extend(rows.into_iter().map(|(row, count)| (column, row, count)));
    }
    let most = cells.iter().map(|(_, _, count)| *count).max().unwrap_or(1) as f64;
    for (column, row, count) in cells {
        let from = least * 10_f64.powf(f64::from(row) / ROWS_A_DECADE);
        let to = least * 10_f64.powf(f64::from(row + 1) / ROWS_A_DECADE);
        // A single slow request must be seen as well.
        let strength = 0.15 + 0.85 * ((count as f64).ln_1p() / most.ln_1p());
        let told = format!("{:.0} s, {} to {}: {count}", column.from_s, time(from), time(to));
        plot.cell((column.from_s, from), (column.to_s, to), strength, &told);
    }
    plot.finish("how often each latency was seen, over time")
}

struct Column {
    from_s: f64,
    to_s: f64,
    times: Histogram<u64>,
}

/// A value holds for all of its column, so that a phase of one column has a line as well.
fn level(column: &Column, value: f64) -> [(f64, f64); 2] {
    [(column.from_s, value), (column.to_s, value)]
}

/// The intervals of a kind, merged to as many as there is room for.
fn columns(intervals: &[LoggedInterval], kind: Kind) -> Vec<Column> {
    let of_kind: Vec<&LoggedInterval> = intervals.iter().filter(|interval| interval.kind == kind).collect();
    let share = of_kind.len().div_ceil(COLUMNS_MAX).max(1);
    let column = |part: &[&LoggedInterval]| {
        let last = part[part.len() - 1];
        Column { from_s: part[0].from_s, to_s: last.from_s + last.seconds, times: merged(part.iter().copied(), kind) }
    };
    of_kind.chunks(share).map(column).collect()
}

/// p99, p99.9 and the maximum over time, and below them how many there were a second.
pub(crate) fn over_time(intervals: &[LoggedInterval], kind: Kind) -> [Drawing; 2] {
    let columns = columns(intervals, kind);
    let end_s = columns.last().map_or(1.0, |column| column.to_s);
    let x = || Axis::from_zero("seconds", [end_s].into_iter());
    type Pick = fn(&Histogram<u64>) -> u64;
    let picks: [(&str, Pick); 4] = [
        ("p50", |times| times.value_at_quantile(0.5)),
        ("p99", |times| times.value_at_quantile(0.99)),
        ("p99.9", |times| times.value_at_quantile(0.999)),
        ("max", |times| times.max()),
    ];
    let values = columns.iter().flat_map(|column| picks.iter().map(|(_, pick)| us(pick(&column.times).max(1))));
    let mut latency = Plot::new(WIDTH, HEIGHT * 0.8, x(), Axis::times("latency", values));
    for (index, (name, pick)) in picks.iter().enumerate() {
        let line: Vec<(f64, f64)> = columns.iter().flat_map(|column| level(column, us(pick(&column.times)))).collect();
        latency.line(name, &colour(index), &line);
    }
    let rate = |column: &Column| column.times.len() as f64 / (column.to_s - column.from_s).max(1e-9);
    // What arrives after the span would make a short last column of a wild rate.
    let whole = columns.iter().filter(|column| column.to_s - column.from_s > 0.5);
    let rates: Vec<(f64, f64)> = whole.flat_map(|column| level(column, rate(column))).collect();
    let y = Axis::from_zero("requests/s", rates.iter().map(|(_, rate)| *rate));
    let mut throughput = Plot::new(WIDTH, HEIGHT * 0.45, x(), y);
    throughput.area("c0", &rates);
    [latency.finish("latency over time"), throughput.finish("requests a second over time")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::histogram;

    fn intervals(count: u32) -> Vec<LoggedInterval> {
        let interval = |second: u32| {
            let mut times = histogram();
            (1..=100_u64).for_each(|step| times.saturating_record(step * 10_000));
            LoggedInterval { kind: Kind::Send, from_s: second.into(), seconds: 1.0, times }
        };
        (0..count).map(interval).collect()
    }

    #[test]
    fn long_phases_share_columns_and_lose_nothing() {
        for (count, expected) in [(0, 0), (1, 1), (120, 120), (121, 61), (1000, 112)] {
            let columns = columns(&intervals(count), Kind::Send);
            assert_eq!(columns.len(), expected, "{count}");
            assert_eq!(columns.iter().map(|column| column.times.len()).sum::<u64>(), u64::from(count) * 100);
        }
    }

    #[test]
    fn the_knee_is_where_latency_or_the_load_gives_way() {
        let point = |achieved: f64, asked: f64, p99: f64| {
            let us = [p99 / 10.0, p99, p99 * 2.0];
            RatePoint { name: String::new(), asked: Some(asked), achieved, us }
        };
        let slow = [point(10.0, 10.0, 100.0), point(20.0, 20.0, 120.0), point(30.0, 30.0, 900.0)];
        assert_eq!(knee(&slow), Some(30.0));
        let short = [point(10.0, 10.0, 100.0), point(18.0, 20.0, 120.0)];
        assert_eq!(knee(&short), Some(18.0));
        assert_eq!(knee(&slow[..2]), None);
    }

    #[test]
    fn charts_of_nothing_are_charts() {
        let nothing = histogram();
        let [latency, rate] = over_time(&[], Kind::Send);
        let ladder = ladder(&[("a".to_owned(), nothing.clone())], Some(&nothing));
        for drawing in [ladder, curve(&[]), heat_map(&[], Kind::Send), latency, rate] {
            let text = drawing.figure();
            assert!(text.contains("<svg") && !text.contains("NaN"), "{text}");
        }
    }
}
