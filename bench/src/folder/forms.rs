//! The results of a phase in forms that other tools read.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::record::{Gathered, Kind};
use crate::timeline::{Quantiles, Row, Timeline};

/// Lines of a percentile file between two halvings of the distance to 100 %.
const TICKS_A_HALVING: u32 = 5;
const NS_A_US: f64 = 1e3;
const NS_A_MS: f64 = 1e6;

/// The percentiles of times, in microseconds: the `.hgrm` form of HdrHistogram.
pub(crate) fn percentiles(times: &Histogram<u64>) -> String {
    let mut text = format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut count = 0;
    for step in times.iter_quantiles(TICKS_A_HALVING) {
        count += step.count_since_last_iteration();
        let (value, share) = (step.value_iterated_to() as f64 / NS_A_US, step.quantile_iterated_to());
        let _ = write!(text, "{value:12.3} {share:14.12} {count:10}");
        if share < 1.0 {
            let _ = write!(text, " {:14.2}", 1.0 / (1.0 - share));
        }
        text.push('\n');
    }
    let (mean, deviation, max) = (times.mean() / NS_A_US, times.stdev() / NS_A_US, times.max() as f64 / NS_A_US);
    let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {:12}]", times.len());
    let _ = writeln!(text, "#[Buckets = {:12}, SubBuckets     = {:12}]", times.buckets(), 2048);
    text
}

pub(crate) const INTERVALS_HEADER: &str = "phase,round,from_s,seconds,sent_per_s,stored_per_s,failed_per_s,pulled_per_s,\
tag,count,mean_us,p50_us,p75_us,p95_us,p99_us,p99_9_us,p99_99_us,max_us\n";

/// An interval as lines of CSV, one for each tag that has anything.
pub(crate) fn interval_lines(phase: &str, round: u32, row: &Row) -> String {
    let counts = row.counts;
    let rates = [counts.sent, counts.stored, counts.failed, counts.pulled].map(|count| row.a_second(count));
    let mut text = String::new();
    for kind in Kind::ALL {
        let times = row.quantiles(kind);
        if times.count == 0 {
            continue;
        }
        let _ = write!(text, "{},{round},{:.3},{:.3}", quoted(phase), row.from_s, row.seconds);
        rates.iter().for_each(|rate| {
            let _ = write!(text, ",{rate:.1}");
        });
        let _ = write!(text, ",{},{},{:.1}", kind.tag(), times.count, times.mean / NS_A_US);
        for time in [times.p50, times.p75, times.p95, times.p99, times.p99_9, times.p99_99, times.max] {
            let _ = write!(text, ",{:.1}", time as f64 / NS_A_US);
        }
        text.push('\n');
    }
    text
}

pub(crate) const PHASES_HEADER: &str = "phase,round,mode,figure,value\n";

/// The figures of a phase as lines of CSV, one a number.
pub(crate) fn figure_lines(phase: &str, round: u32, mode: &str, figures: &Value) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &Value| {
        if let Value::Number(number) = value {
            let _ = writeln!(text, "{},{round},{mode},{name},{number}", quoted(phase));
        }
    };
    for (name, value) in figures.as_object().into_iter().flatten() {
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(member, value)| line(&format!("{name}/{member}"), value));
            }
            value => line(name, value),
        }
    }
    text
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// The result as the OpenMessaging Benchmark writes it; times are in milliseconds, delays of sends in microseconds.
pub(crate) fn open_messaging(name: &str, target: &str, config: &Value, timeline: &Timeline) -> Value {
    let mut result = Map::new();
    result.insert("workload".to_owned(), json!(name));
    result.insert("driver".to_owned(), json!(target));
    result.insert("messageSize".to_owned(), config.get("body_bytes").cloned().unwrap_or(json!(0)));
    result.insert("topics".to_owned(), config.get("topics").cloned().unwrap_or(json!(1)));
    result.insert("partitions".to_owned(), config.get("queues").cloned().unwrap_or(json!(0)));
    let rates = |count: fn(&Row) -> u64| -> Vec<f64> {
        timeline.rows.iter().map(|row| (row.a_second(count(row)) * 10.0).round() / 10.0).collect()
    };
    result.insert("publishRate".to_owned(), json!(rates(|row| row.counts.stored)));
    result.insert("publishErrorRate".to_owned(), json!(rates(|row| row.counts.failed)));
    result.insert("consumeRate".to_owned(), json!(rates(|row| row.counts.pulled)));
    let mut behind = 0_i64;
    let backlog = timeline.rows.iter().map(|row| {
        behind += row.counts.stored as i64 - row.counts.pulled as i64;
        behind.max(0)
    });
    result.insert("backlog".to_owned(), json!(backlog.collect::<Vec<_>>()));
    for (prefix, kind, unit_ns) in [
        ("publishLatency", Kind::Send, NS_A_MS),
        ("publishDelayLatency", Kind::SendLag, NS_A_US),
        ("endToEndLatency", Kind::EndToEnd, NS_A_MS),
    ] {
        latencies(prefix, kind, unit_ns, timeline, &mut result);
    }
    Value::Object(result)
}

fn latencies(prefix: &str, kind: Kind, unit_ns: f64, timeline: &Timeline, result: &mut Map<String, Value>) {
    type Pick = fn(&Quantiles) -> f64;
    const COLUMNS: [(&str, Pick); 8] = [
        ("Avg", |times| times.mean),
        ("50pct", |times| times.p50 as f64),
        ("75pct", |times| times.p75 as f64),
        ("95pct", |times| times.p95 as f64),
        ("99pct", |times| times.p99 as f64),
        ("999pct", |times| times.p99_9 as f64),
        ("9999pct", |times| times.p99_99 as f64),
        ("Max", |times| times.max as f64),
    ];
    let total = Quantiles::of(timeline.total.times(kind));
    let capital = prefix[..1].to_uppercase() + &prefix[1..];
    for (column, pick) in COLUMNS {
        let values: Vec<f64> = timeline.rows.iter().map(|row| pick(row.quantiles(kind)) / unit_ns).collect();
        result.insert(format!("{prefix}{column}"), json!(values));
        result.insert(format!("aggregated{capital}{column}"), json!(pick(&total) / unit_ns));
    }
    result.insert(format!("aggregated{capital}Quantiles"), quantiles(&timeline.total, kind, unit_ns));
}

/// Percentile to value, as the benchmark's charts draw it.
fn quantiles(total: &Gathered, kind: Kind, unit_ns: f64) -> Value {
    let steps = total.times(kind).iter_quantiles(TICKS_A_HALVING);
    let members = steps.map(|step| {
        let (share, value) = (step.quantile_iterated_to() * 100.0, step.value_iterated_to() as f64 / unit_ns);
        (share.to_string(), json!(value))
    });
    Value::Object(members.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Shelf;

    fn timeline() -> Timeline {
        let shelf = Shelf::new(0..10);
        let mut timeline = Timeline::new();
        let (mut taken, mut spare) = (Gathered::new(), Gathered::new());
        for second in 0..2_u64 {
            let mut recorder = shelf.recorder();
            (1..=1000).for_each(|step| recorder.record(Kind::Send, step * 1_000_000 * (second + 1)));
            recorder.counts.stored = 1000;
            recorder.counts.pulled = 900;
            drop(recorder);
            shelf.take(&mut taken, &mut spare);
            timeline.add(Row::new(second as f64, 1.0, &taken), &taken);
        }
        timeline
    }

    #[test]
    fn percentiles_end_with_the_greatest_value_and_all_of_the_count() {
        let text = percentiles(timeline().total.times(Kind::Send));
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
            .collect();
        assert!(rows.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][2] <= pair[1][2]), "{text}");
        let last = rows.last().unwrap();
        assert_eq!((last.len(), last[1], last[2]), (3, 1.0, 2000.0));
        assert!((1_999_000.0..2_001_100.0).contains(&last[0]), "{text}");
        assert!(text.contains("Total count    =         2000]"), "{text}");
    }

    #[test]
    fn the_benchmarks_form_has_a_value_an_interval_and_merged_totals() {
        let result = open_messaging("w", "t", &json!({"body_bytes": 1024, "queues": 8}), &timeline());
        assert_eq!(result["publishRate"], json!([1000.0, 1000.0]));
        assert_eq!(result["backlog"], json!([100, 200]));
        let near = |value: &Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < expected * 0.002;
        assert!(near(&result["publishLatency99pct"][0], 990.0) && near(&result["publishLatency99pct"][1], 1980.0));
        // The mean of the two percentiles would be 1485.
        assert!(near(&result["aggregatedPublishLatency99pct"], 1960.0), "{}", result["aggregatedPublishLatency99pct"]);
        assert!(near(&result["aggregatedPublishLatencyQuantiles"]["100"], 2000.0));
        assert_eq!(result["aggregatedEndToEndLatencyMax"], json!(0.0));
    }

    #[test]
    fn lines_of_csv_have_the_columns_of_their_header() {
        let row = &timeline().rows[1];
        let lines = interval_lines("a, b", 2, row);
        assert_eq!(lines.lines().count(), 1);
        assert!(lines.starts_with("\"a, b\",2,1.000,1.000,0.0,1000.0,0.0,900.0,send,1000,"), "{lines}");
        assert_eq!(lines.matches(',').count() - 1, INTERVALS_HEADER.matches(',').count());
        let figures = json!({"a": 1.5, "b": {"p50": 2, "text": "x"}, "c": "x"});
        assert_eq!(figure_lines("p", 1, "tail", &figures), "p,1,tail,a,1.5\np,1,tail,b/p50,2\n");
    }
}
