//! What came of a phase in one line on a terminal, its 99th percentile over time as a sparkline, and what is to be known.

use std::fmt::Write as _;

use crate::phase::course::Measured;
use crate::record::Kind;

pub(crate) const HEADER: &str = "  \
phase                             messages/s   of asked  times            p50       p99     p99.9       max us  p99 over time\n";
/// Cells of a sparkline.
const CELLS: usize = 24;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(crate) fn lines(measured: &Measured) -> String {
    let report = &measured.report;
    let kind = Kind::most_telling(|kind| !measured.timeline.total.times(kind).is_empty()).unwrap_or(Kind::Send);
    let times = measured.timeline.total.times(kind);
    let us = |ns: u64| ns as f64 / 1e3;
    let asked = report.value("rate_asked").zip(report.value("rate_sent"));
    let asked =
        asked.map_or_else(|| "-".to_owned(), |(asked, sent)| format!("{:.1} %", sent / asked.max(1e-9) * 100.0));
    let mut text = String::new();
    let _ = writeln!(
        text,
        "  {:<32}{:>12.0}{asked:>11}  {:<11}{:>9.0}{:>10.0}{:>10.0}{:>13.0}  {}",
        report.label(),
        report.value("messages_per_s").unwrap_or(0.0),
        kind.tag(),
        us(times.value_at_quantile(0.5)),
        us(times.value_at_quantile(0.99)),
        us(times.value_at_quantile(0.999)),
        us(times.max()),
        sparkline(&measured.timeline.rows.iter().map(|row| row.quantiles(kind).p99).collect::<Vec<_>>()),
    );
    for (word, reasons) in [("FAULT", &report.faults), ("VOID", &report.void), ("note", &report.warnings)] {
        reasons.iter().for_each(|reason| {
            let _ = writeln!(text, "    {word}: {reason}");
        });
    }
    text
}

/// Each cell is the greatest of its share of the values, on a logarithmic scale from the least to the greatest.
fn sparkline(values: &[u64]) -> String {
    let share = values.len().div_ceil(CELLS).max(1);
    let cells: Vec<f64> = values.chunks(share).map(|cell| *cell.iter().max().unwrap_or(&0) as f64).collect();
    let seen = || cells.iter().copied().filter(|value| *value > 0.0).map(f64::ln);
    let (least, greatest) = (seen().fold(f64::INFINITY, f64::min), seen().fold(f64::NEG_INFINITY, f64::max));
    let bar = |value: &f64| match value {
        value if *value <= 0.0 => ' ',
        _ if greatest <= least => BARS[0],
        value => BARS[((value.ln() - least) / (greatest - least) * (BARS.len() - 1) as f64).round() as usize],
    };
    cells.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_shows_peaks_and_gaps() {
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[5, 5, 5]), "▁▁▁");
        assert_eq!(sparkline(&[100, 2000, 0, 10_000]), "▁▆ █");
        let long: Vec<u64> = (0..240).map(|second| if second == 120 { 1000 } else { 10 }).collect();
        assert_eq!(sparkline(&long), format!("{}█{}", "▁".repeat(12), "▁".repeat(11)));
    }
}
