//! Many runs in one table: for each label and figure the median of each target, its spread, and the targets' ratio.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use serde_json::Value;

use crate::arguments::SummaryArgs;
use crate::error::BenchError;
use crate::report::Outcome;

/// Figures of a run that are compared, by their place in its line, and the unit they are shown with.
const FIGURES: [(&str, &str); 26] = [
    ("/messages_per_s", "messages/s"),
    ("/mb_per_s", "MB/s"),
    ("/latency_us/p50", "latency p50, us"),
    ("/latency_us/p99", "latency p99, us"),
    ("/latency_us/p99_9", "latency p99.9, us"),
    ("/latency_us/max", "latency max, us"),
    ("/end_to_end_us/p50", "end to end p50, us"),
    ("/end_to_end_us/p99", "end to end p99, us"),
    ("/end_to_end_us/p99_9", "end to end p99.9, us"),
    ("/end_to_end_us/max", "end to end max, us"),
    ("/transaction_us/p50", "transaction p50, us"),
    ("/transaction_us/p99", "transaction p99, us"),
    ("/late_us/p50", "late p50, us"),
    ("/late_us/p99", "late p99, us"),
    ("/pull_us/p50", "pull p50, us"),
    ("/pop_us/p50", "pop p50, us"),
    ("/ack_us/p50", "acknowledgement p50, us"),
    ("/send_lag_us/p99_9", "generator's lag p99.9, us"),
    ("/server_cpu_us_per_message", "server CPU, us/message"),
    ("/server_anonymous_mib_max", "server anonymous memory, MiB"),
    ("/generator_cpu_us_per_message", "generator CPU, us/message"),
    ("/other_cores", "cores used by others"),
    ("/ready_ms", "ready, ms"),
    ("/resident_mib", "resident memory, MiB"),
    ("/anonymous_mib", "anonymous memory, MiB"),
    ("/errors", "errors"),
];

pub(crate) fn run(args: &SummaryArgs) -> Result<Outcome, BenchError> {
    let unreadable = |what: String| BenchError::Results { file: args.file.display().to_string(), what };
    let text = std::fs::read_to_string(&args.file).map_err(|error| unreadable(error.to_string()))?;
    let runs = text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str);
    let runs: Vec<Value> = runs.collect::<Result<_, _>>().map_err(|error| unreadable(error.to_string()))?;
    let mut out = io::stdout().lock();
    out.write_all(table(&runs).as_bytes()).and_then(|()| out.flush()).map_err(BenchError::Output)?;
    Ok(Outcome::Clean)
}

/// A Markdown table of all runs that are not void.
fn table(runs: &[Value]) -> String {
    let labels = distinct(runs, "label");
    let targets = distinct(runs, "target");
    let mut text = format!("| run | figure | {} |", targets.join(" | "));
    let compared = targets.len() == 2;
    if compared {
        let _ = write!(text, " {} : {} |", targets[0], targets[1]);
    }
    let columns = 2 + targets.len() + usize::from(compared);
    let _ = writeln!(text, "\n|{}", "---|".repeat(columns));
    for label in &labels {
        for (place, unit) in FIGURES {
            let values: Vec<Vec<f64>> = targets.iter().map(|target| values(runs, label, target, place)).collect();
            if values.iter().all(Vec::is_empty) {
                continue;
            }
            let _ = write!(text, "| {label} | {unit} |");
            for values in &values {
                let _ = write!(text, " {} |", spread(values));
            }
            if compared {
                let ratio = median(&values[0]).zip(median(&values[1])).filter(|(_, second)| *second > 0.0);
                let ratio = ratio.map_or_else(|| "-".to_owned(), |(first, second)| shown(first / second));
                let _ = write!(text, " {ratio} |");
            }
            text.push('\n');
        }
    }
    let _ = writeln!(text, "\nMedian (least - greatest) of the runs of each kind.");
    let void = runs.iter().filter(|run| is_void(run)).count();
    let faulty = runs.iter().filter(|run| !is_void(run) && has_any(run, "faults")).count();
    let _ = writeln!(text, "Void runs, left out: {void}. Runs with faults, counted in: {faulty}.");
    text
}

/// The values of a member of all runs, in the order in which they come first.
fn distinct(runs: &[Value], name: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for run in runs {
        let value = run.get(name).and_then(Value::as_str).unwrap_or_default();
        if !found.iter().any(|known| known == value) {
            found.push(value.to_owned());
        }
    }
    found
}

fn values(runs: &[Value], label: &str, target: &str, place: &str) -> Vec<f64> {
    let is = |run: &Value, name: &str, value: &str| run.get(name).and_then(Value::as_str) == Some(value);
    let runs = runs.iter().filter(|run| is(run, "label", label) && is(run, "target", target) && !is_void(run));
    let mut values: Vec<f64> = runs.filter_map(|run| run.get("figures")?.pointer(place)?.as_f64()).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn is_void(run: &Value) -> bool {
    has_any(run, "void")
}

fn has_any(run: &Value, name: &str) -> bool {
    run.get(name).and_then(Value::as_array).is_some_and(|reasons| !reasons.is_empty())
}

/// Of values in order: the one in the middle, or between the two there.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let (first, last) = (values.get((values.len().max(1) - 1) / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*first, *last))
}

pub(crate) fn spread(values: &[f64]) -> String {
    match (median(values), values) {
        (Some(median), [least, .., greatest]) if least != greatest => {
            format!("{} ({} - {})", shown(median), shown(*least), shown(*greatest))
        }
        (Some(median), _) => shown(median),
        (None, _) => "-".to_owned(),
    }
}

/// With as many digits as say something.
pub(crate) fn shown(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn medians_spreads_and_ratios_leave_void_runs_out() {
        let run = |target: &str, rate: f64, void: &[&str]| json!({"label": "saturate", "target": target, "figures": {"messages_per_s": rate}, "void": void});
        let runs = [
            run("a", 300.0, &[]),
            run("b", 10.0, &[]),
            run("a", 100.0, &[]),
            run("b", 20.0, &[]),
            run("a", 200.0, &[]),
            run("a", 9e9, &["the generator was late"]),
        ];
        let text = table(&runs);
        assert!(text.starts_with("| run | figure | a | b | a : b |\n|---|---|---|---|---|\n"), "{text}");
        assert!(text.contains("| saturate | messages/s | 200 (100 - 300) | 15.0 (10.0 - 20.0) | 13.3 |"), "{text}");
        assert!(text.contains("left out: 1."), "{text}");
    }

    #[test]
    fn a_median_lies_in_the_middle() {
        for (values, expected) in
            [(&[][..], None), (&[1.0], Some(1.0)), (&[1.0, 4.0], Some(2.5)), (&[1.0, 2.0, 9.0], Some(2.0))]
        {
            assert_eq!(median(values), expected);
        }
    }
}
