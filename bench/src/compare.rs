//! Two runs, figure by figure: middles and spread over their rounds, the noise of one run against itself, a verdict.

mod sample;

use std::fmt::Write as _;

use crate::error::BenchError;
use crate::folder::stored::StoredRun;
use sample::{Change, Sample, Verdict};

/// Rounds of each run below which there is no verdict.
const ROUNDS_MIN: usize = 3;
/// Of two runs that differ by the least that is told, so many may be told to differ somewhere by chance. Of equal ones it is far less.
const FALSE_ALARMS: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    More,
    Less,
}

/// A figure that is compared.
struct Figure {
    path: &'static str,
    title: &'static str,
    better: Better,
    /// An open loop has the throughput that it asks for, so that tells nothing.
    closed_only: bool,
}

const fn less(path: &'static str, title: &'static str) -> Figure {
    Figure { path, title, better: Better::Less, closed_only: false }
}

const FIGURES: [Figure; 22] = [
    Figure { path: "messages_per_s", title: "messages/s", better: Better::More, closed_only: true },
    less("latency_us/p50", "latency p50, µs"),
    less("latency_us/p99", "latency p99, µs"),
    less("latency_us/p99_9", "latency p99.9, µs"),
    less("end_to_end_us/p50", "end to end p50, µs"),
    less("end_to_end_us/p99", "end to end p99, µs"),
    less("end_to_end_us/p99_9", "end to end p99.9, µs"),
    less("transaction_us/p50", "transaction p50, µs"),
    less("transaction_us/p99", "transaction p99, µs"),
    less("late_us/p50", "late p50, µs"),
    less("late_us/p99", "late p99, µs"),
    less("retry_us/p50", "retry p50, µs"),
    less("retry_us/p99", "retry p99, µs"),
    less("pull_us/p50", "pull p50, µs"),
    less("pull_us/p99", "pull p99, µs"),
    less("pop_us/p50", "pop p50, µs"),
    less("pop_us/p99", "pop p99, µs"),
    less("ack_us/p50", "acknowledgement p50, µs"),
    less("ack_us/p99", "acknowledgement p99, µs"),
    less("caught_up_s", "caught up, s"),
    less("server_cpu_us_per_message", "server CPU, µs/message"),
    Figure { path: "cold_messages_per_s", title: "cold messages/s", better: Better::More, closed_only: false },
];

/// A figure of a phase in both runs.
struct Compared {
    phase: String,
    figure: &'static Figure,
    left: Sample,
    right: Sample,
    change: Change,
    verdict: Verdict,
}

pub(crate) struct Comparison {
    rows: Vec<Compared>,
    notes: Vec<String>,
}

impl Comparison {
    /// Compares the second run with the first.
    ///
    /// # Errors
    /// When the runs have nothing in common.
    pub(crate) fn of(left: &StoredRun, right: &StoredRun) -> Result<Comparison, BenchError> {
        let mut rows = Vec::new();
        for name in left.phase_names() {
            for figure in &FIGURES {
                let [first, second] = [left, right].map(|run| sample(run, name, figure));
                if first.count() > 0 && second.count() > 0 {
                    let change = Change::between(&first, &second);
                    let (phase, verdict) = (name.to_owned(), Verdict::Same);
                    rows.push(Compared { phase, figure, left: first, right: second, change, verdict });
                }
            }
        }
        if rows.is_empty() {
            let what = format!("it has no phase in common with {}, or all of them are void", left.path.display());
            return Err(BenchError::Results { file: right.path.display().to_string(), what });
        }
        let chance = FALSE_ALARMS / rows.len() as f64;
        for row in &mut rows {
            row.verdict = if row.left.count().min(row.right.count()) < ROUNDS_MIN {
                Verdict::Unknown
            } else {
                row.change.verdict(chance, row.figure.better == Better::More)
            };
        }
        let notes = notes(left, right, &rows);
        Ok(Comparison { rows, notes })
    }

    pub(crate) fn has_regression(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Worse)
    }

    /// A Markdown table, and what is to be known.
    pub(crate) fn text(&self, left: &str, right: &str) -> String {
        let mut text = format!(
            "| phase | figure | A: {left} | B: {right} | B to A | noise | chance | verdict |\n|---|---|---|---|---|---|---|---|\n"
        );
        for row in &self.rows {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {:+.1} % | {:.1} % | {:.3} | {} |",
                row.phase,
                row.figure.title,
                row.left.told(),
                row.right.told(),
                row.change.share * 100.0,
                row.change.noise * 100.0,
                row.change.chance,
                row.verdict.word(),
            );
        }
        let count = |verdict| self.rows.iter().filter(|row| row.verdict == verdict).count();
        let (worse, better, same) = (count(Verdict::Worse), count(Verdict::Better), count(Verdict::Same));
        let _ = writeln!(
            text,
            "\nMiddle (least - greatest) of the rounds: their geometric mean without the outermost. Noise: halves of one run \
             against each other. Chance: how often rounds dealt at random differ as much, beyond 2 %.\nWorse: {worse}. Better: {better}. No difference: {same}."
        );
        self.notes.iter().for_each(|note| {
            let _ = writeln!(text, "Note: {note}");
        });
        text
    }
}

fn sample(run: &StoredRun, name: &str, figure: &Figure) -> Sample {
    let rounds = run.rounds(name).filter(|phase| !phase.is_void());
    let rounds = rounds.filter(|phase| !figure.closed_only || phase.figure("rate_asked").is_none());
    Sample::new(rounds.filter_map(|phase| phase.figure(figure.path)).filter(|value| *value > 0.0))
}

fn notes(left: &StoredRun, right: &StoredRun, rows: &[Compared]) -> Vec<String> {
    let mut notes = Vec::new();
    let void = |run: &StoredRun| run.phases.iter().filter(|phase| phase.is_void()).count();
    let void = void(left) + void(right);
    if void > 0 {
        notes.push(format!("{void} void phases were left out"));
    }
    for (side, run) in [("first", left), ("second", right)] {
        let faulty = run.phases.iter().filter(|phase| phase.has_faults()).count();
        if faulty > 0 {
            notes.push(format!(
                "{faulty} phases of the {side} have faults (run.json tells them), and count nevertheless"
            ));
        }
    }
    for (path, what) in [("/plan/hash", "plans"), ("/host/name", "hosts"), ("/host/kernel", "kernels")] {
        if left.record.pointer(path) != right.record.pointer(path) {
            notes.push(format!("the runs have different {what}"));
        }
    }
    let rounds = rows.iter().map(|row| row.left.count().min(row.right.count())).min().unwrap_or(0);
    if rounds < ROUNDS_MIN {
        notes.push(format!("{rounds} round(s) tell no difference from noise: repeat with --rounds 21"));
    } else if rows.iter().any(|row| row.change.chance_least > FALSE_ALARMS / rows.len() as f64) {
        notes.push(format!(
            "{rounds} rounds and {} figures: about one of them differs by mere chance more often than in 1 of 20 \
             comparisons; more rounds, or fewer phases, tell more surely",
            rows.len()
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::path::Path;

    /// A run folder with one phase in as many rounds as there are values of its throughput.
    fn run(folder: &Path, name: &str, rates: &[f64], void: bool) -> StoredRun {
        let path = folder.join(name);
        std::fs::create_dir_all(&path).unwrap();
        let phases: Vec<Value> = (1..)
            .zip(rates)
            .map(|(round, rate)| {
                let figures = json!({"messages_per_s": rate, "latency_us": {"p50": 1e6 / rate}});
                let void = if void { vec!["late"] } else { vec![] };
                json!({"name": "p", "round": round, "figures": figures, "void": void, "files": ["01-p.hlog"]})
            })
            .collect();
        let record = json!({"schema": 1, "name": "r", "target": {"name": name}, "phases": phases});
        std::fs::write(path.join("run.json"), record.to_string()).unwrap();
        StoredRun::read(&path).unwrap()
    }

    #[test]
    fn a_slower_run_is_worse_and_the_same_run_is_not() {
        let folder = std::env::temp_dir().join(format!("ringmq-compare-{}", std::process::id()));
        let first = run(&folder, "a", &[100.0, 101.0, 99.0, 100.5, 99.5], false);
        let slower = run(&folder, "b", &[90.0, 91.0, 89.0, 90.5, 89.5], false);
        let comparison = Comparison::of(&first, &slower).unwrap();
        assert!(comparison.has_regression());
        let text = comparison.text("a", "b");
        assert!(text.contains("| p | messages/s | 100.0 (99.0 - 101) | 90.0 (89.0 - 91.0) | -10.0 % |"), "{text}");
        assert!(text.contains("Worse: 2. Better: 0."), "{text}");
        let faster = Comparison::of(&slower, &first).unwrap();
        assert!(!faster.has_regression() && faster.text("a", "b").contains("Better: 2."));
        assert!(!Comparison::of(&first, &first).unwrap().has_regression());
        let once = run(&folder, "c", &[50.0], false);
        let unsure = Comparison::of(&first, &once).unwrap();
        assert!(!unsure.has_regression() && unsure.text("a", "c").contains("repeat with --rounds"));
        assert!(!text.contains("have faults"));
        let mut faulty = run(&folder, "e", &[50.0], false);
        faulty.phases[0].record["faults"] = json!(["never_sent: 3 of 5"]);
        assert!(Comparison::of(&first, &faulty).unwrap().text("a", "e").contains("1 phases of the second have faults"));
        let void = run(&folder, "d", &[1.0, 1.0, 1.0], true);
        assert!(Comparison::of(&first, &void).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
