//! The published table: of each phase what both brokers came to, and by how much they differ; then spread, and the hashes
//! of the run folders that the figures are from.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::server::Product;
use crate::error::BenchError;
use crate::folder::stored::StoredRun;
use crate::page::number;
use crate::summary::{median, spread};

/// A start on an empty store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) product: Product,
    pub(super) ready_ms: u64,
    /// Some seconds later, of all processes.
    pub(super) resident_bytes: u64,
}

/// All that the tables are made of.
pub(super) struct Measurements<'a> {
    pub(super) runs: Vec<(&'static str, Product, StoredRun)>,
    pub(super) starts: &'a [Start],
    pub(super) rounds: u32,
    /// Apache's broker with its version and Java's.
    pub(super) apache: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    More,
    Less,
}

/// A figure as a cell shows it.
#[derive(Clone, Copy, Debug)]
struct Shown {
    path: &'static str,
    better: Better,
    /// What the figure is divided by for its unit.
    scale: f64,
    unit: &'static str,
}

const RATE: Shown = Shown { path: "messages_per_s", better: Better::More, scale: 1.0, unit: "/s" };
const BYTES: Shown = Shown { path: "mb_per_s", better: Better::More, scale: 1.0, unit: " MB/s" };
const CPU: Shown = Shown { path: "server_cpu_us_per_message", better: Better::Less, scale: 1.0, unit: " µs CPU" };

const fn us(path: &'static str) -> Shown {
    Shown { path, better: Better::Less, scale: 1.0, unit: " µs" }
}

const fn ms(path: &'static str) -> Shown {
    Shown { path, better: Better::Less, scale: 1e3, unit: " ms" }
}

const LATENCIES: &[Shown] = &[ms("latency_us/p50"), ms("latency_us/p99"), ms("latency_us/p99_9")];

/// A row of the published table.
struct Row {
    title: &'static str,
    plan: &'static str,
    phase: &'static str,
    shown: &'static [Shown],
}

const fn row(title: &'static str, plan: &'static str, phase: &'static str, shown: &'static [Shown]) -> Row {
    Row { title, plan, phase, shown }
}

const ROWS: [Row; 13] = [
    row("saturating, 8 connections × 64 in flight, asynchronous flush", "peer-async", "saturation", &[RATE, CPU]),
    row("the same with 128 bytes", "peer-async", "saturation-128", &[RATE, CPU]),
    row("with 16 KiB", "peer-async", "saturation-16k", &[RATE, BYTES]),
    row("with 8,000 queues", "peer-async", "saturation-8000-queues", &[RATE]),
    row("batches of 32 × 256 bytes", "peer-async", "saturation-batches", &[RATE]),
    row("synchronous flush, saturating", "peer-sync", "saturation", &[RATE, CPU]),
    row(
        "synchronous flush, one message at a time: p50, CPU",
        "peer-sync",
        "one-at-a-time",
        &[us("latency_us/p50"), CPU],
    ),
    row("synchronous flush, open loop 1,000/s: p50 / p99 / p99.9", "peer-sync", "open-1000", LATENCIES),
    row("open loop 5,000/s: p50 / p99 / p99.9", "peer-async", "open-5000", LATENCIES),
    row("CPU a message there", "peer-async", "open-5000", &[CPU]),
    row("open loop 20,000/s: p50 / p99 / p99.9", "peer-async", "open-20000", LATENCIES),
    row(
        "end to end at 5,000/s: p50 / p99",
        "peer-async",
        "tail-5000",
        &[ms("end_to_end_us/p50"), ms("end_to_end_us/p99")],
    ),
    row(
        "peak resident memory",
        "peer-async",
        "",
        &[Shown { path: "server_resident_mib_max", better: Better::Less, scale: 1.0, unit: " MiB" }],
    ),
];

impl Measurements<'_> {
    /// All of it, as Markdown.
    ///
    /// # Errors
    /// When a run folder cannot be read for its hash.
    pub(super) fn text(&self) -> Result<String, BenchError> {
        let mut text = self.head();
        text.push_str("\n| | RingMQ | Apache RocketMQ | ratio |\n| --- | --- | --- | --- |\n");
        for row in &ROWS {
            let cells: Vec<[Vec<f64>; 2]> =
                row.shown.iter().map(|shown| Product::BOTH.map(|product| self.values(row, *shown, product))).collect();
            if cells.iter().flatten().any(|values| !values.is_empty()) {
                text.push_str(&line(row.title, row.shown, &cells));
            }
        }
        text.push_str(&self.start_line());
        text.push_str("\nMedian (least - greatest) of the rounds:\n\n| phase | figure | RingMQ | Apache RocketMQ |\n| --- | --- | --- | --- |\n");
        for row in ROWS.iter().filter(|row| !row.phase.is_empty()) {
            for shown in row.shown {
                let [ringmq, apache] = Product::BOTH.map(|product| self.values(row, *shown, product));
                if !ringmq.is_empty() || !apache.is_empty() {
                    let (ringmq, apache) = (spread(&ringmq), spread(&apache));
                    let _ = writeln!(text, "| {} {} | {} | {ringmq} | {apache} |", row.plan, row.phase, shown.path);
                }
            }
        }
        text.push_str(&self.worth());
        text.push_str("\nRun folders, and SHA-256 of `cat run.json *.hlog` in each:\n\n");
        for (_, _, run) in &self.runs {
            let name = run.path.file_name().unwrap_or_default().to_string_lossy();
            let _ = writeln!(text, "- `{name}` `{}`", hash(&run.path)?);
        }
        Ok(text)
    }

    /// What was measured on what.
    fn head(&self) -> String {
        let record = self.runs.first().map_or(&Value::Null, |(_, _, run)| &run.record);
        let word = |path: &str| record.pointer(path).map_or_else(|| "?".to_owned(), plain);
        let ringmq = self.runs.iter().find(|(_, product, _)| *product == Product::RingMq);
        let version = ringmq.and_then(|(_, _, run)| run.record["target"]["version"].as_str()).unwrap_or("?");
        format!(
            "RingMQ ({version}) beside {}. Linux {}, {} CPUs ({}), which the load generator shares; {} alternating round(s) \
             of each phase, medians; 1 KiB messages and 8 queues unless said. While one broker was measured, the other stood \
             still (SIGSTOP).\n",
            self.apache,
            word("/host/kernel"),
            word("/host/cpus"),
            word("/host/cpu"),
            self.rounds,
        )
    }

    /// In all rounds that are not void, in order.
    fn values(&self, row: &Row, shown: Shown, product: Product) -> Vec<f64> {
        let runs = self.runs.iter().filter(|(plan, of, _)| *plan == row.plan && *of == product);
        let phases = runs.flat_map(|(_, _, run)| &run.phases);
        let phases = phases.filter(|phase| (row.phase.is_empty() || phase.name == row.phase) && !phase.is_void());
        let mut values: Vec<f64> = phases.filter_map(|phase| phase.figure(shown.path)).collect();
        values.sort_by(f64::total_cmp);
        // A peak is that of all phases.
        if row.phase.is_empty() { values.pop().into_iter().collect() } else { values }
    }

    fn start_line(&self) -> String {
        if self.starts.is_empty() {
            return String::new();
        }
        let shown = [
            Shown { path: "", better: Better::Less, scale: 1.0, unit: " MiB" },
            Shown { path: "", better: Better::Less, scale: 1e3, unit: " s" },
        ];
        let of = |pick: fn(&Start) -> f64| {
            Product::BOTH.map(|product| {
                let mut values: Vec<f64> =
                    self.starts.iter().filter(|start| start.product == product).map(pick).collect();
                values.sort_by(f64::total_cmp);
                values
            })
        };
        let cells = [of(|start| (start.resident_bytes >> 20) as f64), of(|start| start.ready_ms as f64)];
        line("idle resident memory; empty start until ready", &shown, &cells)
    }

    /// What is left out, and what is to be looked at.
    fn worth(&self) -> String {
        let phases =
            || self.runs.iter().flat_map(|(_, product, run)| run.phases.iter().map(move |phase| (product, phase)));
        let void = phases().filter(|(_, phase)| phase.is_void()).count();
        let mut text = format!("\nVoid phases, left out: {void}.");
        for (product, phase) in phases() {
            let faults = phase.record["faults"].as_array().map_or(&[][..], Vec::as_slice);
            if !faults.is_empty() {
                let faults: Vec<String> = faults.iter().map(plain).collect();
                let round = &phase.record["round"];
                let _ =
                    write!(text, " Faults of {} {} round {round}: {}.", product.name(), phase.name, faults.join("; "));
            }
        }
        text.push('\n');
        text
    }
}

/// A row: the medians of both, and what one is of the other.
fn line(title: &str, shown: &[Shown], cells: &[[Vec<f64>; 2]]) -> String {
    let medians = |index: usize| cells.iter().map(move |cell| median(&cell[index]));
    let joined = |index: usize| cell_text(shown, &medians(index).collect::<Vec<_>>());
    let mut ratios: Vec<String> = shown
        .iter()
        .zip(medians(0).zip(medians(1)))
        .map(|(shown, pair)| pair.0.zip(pair.1).map_or_else(|| "-".to_owned(), |pair| ratio(shown.better, pair)))
        .collect();
    // Messages and bytes a second have one ratio.
    if ratios.windows(2).all(|pair| pair[0] == pair[1]) {
        ratios.truncate(1);
    }
    format!("| {title} | {} | {} | {} |\n", joined(0), joined(1), ratios.join(", "))
}

/// Values of one unit share it: `0.09 / 0.31 / 2.8 ms`.
fn cell_text(shown: &[Shown], medians: &[Option<f64>]) -> String {
    let value = |shown: &Shown, median: &Option<f64>| {
        median.map_or_else(|| "-".to_owned(), |value| number(value / shown.scale))
    };
    let values: Vec<String> = shown.iter().zip(medians).map(|(shown, median)| value(shown, median)).collect();
    let one_unit = shown.iter().all(|other| other.unit == shown[0].unit);
    if one_unit {
        return format!("{}{}", values.join(" / "), shown[0].unit);
    }
    let parts: Vec<String> = shown.iter().zip(values).map(|(shown, value)| format!("{value}{}", shown.unit)).collect();
    parts.join(", ")
}

/// RingMQ's in terms of Apache's: `5.8 ×` of what is better when it is more, `1 / 3.4` of what is better when it is less.
fn ratio(better: Better, (ringmq, apache): (f64, f64)) -> String {
    if ringmq <= 0.0 || apache <= 0.0 {
        return "-".to_owned();
    }
    let share = ringmq / apache;
    let text = |value: f64| if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    match better {
        Better::Less if share < 1.0 => format!("1 / {}", text(1.0 / share)),
        _ => format!("{} ×", text(share)),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Over `run.json` and then the logs of all phases in the order of their names.
fn hash(folder: &Path) -> Result<String, BenchError> {
    let failed =
        |what: std::io::Error| BenchError::Results { file: folder.display().to_string(), what: what.to_string() };
    let entries = fs::read_dir(folder).map_err(failed)?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut logs: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "hlog")).collect();
    logs.sort();
    let mut hash = Sha256::new();
    for path in std::iter::once(folder.join("run.json")).chain(logs) {
        hash.update(fs::read(path).map_err(failed)?);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_read_as_what_is_better() {
        for (better, pair, expected) in [
            (Better::More, (368.0, 63.0), "5.8 ×"),
            (Better::More, (50.0, 100.0), "0.5 ×"),
            (Better::Less, (4.1, 24.4), "1 / 6.0"),
            (Better::Less, (0.31, 19.0), "1 / 61"),
            (Better::Less, (3.0, 2.0), "1.5 ×"),
            (Better::Less, (0.0, 2.0), "-"),
        ] {
            assert_eq!(ratio(better, pair), expected, "{pair:?}");
        }
    }

    #[test]
    fn a_row_has_medians_and_units() {
        let cells = [[vec![90.0], vec![200.0, 230.0, 260.0]], [vec![310.0], vec![19_000.0]], [vec![2800.0], vec![]]];
        let text = line("t", LATENCIES, &cells);
        assert_eq!(text, "| t | 0.09 / 0.31 / 2.8 ms | 0.23 / 19 / - ms | 1 / 2.6, 1 / 61, - |\n");
        let cells = [[vec![368_000.0], vec![63_000.0]], [vec![4.1], vec![24.4]]];
        let text = line("t", &[RATE, CPU], &cells);
        assert_eq!(text, "| t | 368,000/s, 4.1 µs CPU | 63,000/s, 24.4 µs CPU | 5.8 ×, 1 / 6.0 |\n");
    }

    #[test]
    fn every_row_is_a_phase_of_its_plan() {
        for row in ROWS.iter().filter(|row| !row.phase.is_empty()) {
            let plan = crate::plan::Plan::load(row.plan, &[]).unwrap();
            assert!(plan.phases.iter().any(|phase| phase.name == row.phase), "{} {}", row.plan, row.phase);
        }
    }

    #[test]
    fn a_hash_is_that_of_the_files_in_a_row() {
        let folder = runtime::file::TempFolder::new("peer-hash");
        for (name, text) in [("run.json", "a"), ("02-x.hlog", "c"), ("01-x.hlog", "b"), ("report.html", "z")] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        // Of "abc".
        assert_eq!(hash(folder.path()).unwrap(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
