//! Where a broker's time goes: a table of stages, the turns of its cores, and what was slow one by one.

use std::time::Duration;

use clap::Args;
use remoting::body::stages::{CoreTimes, LongTurn, RequestTimes, SlowRequest, StageTimes};
use remoting::text::Text;
use runtime::clock;
use serde_json::{Value, json};

use super::targets::Targets;
use super::{Session, Tally};
use crate::failure::Failure;
use crate::table::Table;

const ALL_CORES: &str = "all";
const COLUMNS: [(&str, &str); 9] = [
    ("#Request", "request"),
    ("#Core", "core"),
    ("#Stage", "stage"),
    ("#Count", "count"),
    ("#Share", "share"),
    ("#Mean us", "meanMicros"),
    ("#p50 us", "p50Micros"),
    ("#p99 us", "p99Micros"),
    ("#p99.9 us", "p999Micros"),
];

#[derive(Debug, Args)]
pub(super) struct Stages {
    #[command(flatten)]
    targets: Targets,
    /// Look again and again, and print what came between two looks; without it all since the broker began
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: Option<u64>,
    /// With --every: so many times; else until it is stopped
    #[arg(long, requires = "every", value_name = "TIMES")]
    times: Option<u64>,
    /// A row for each core, too
    #[arg(long)]
    cores: bool,
    /// Print the newest slow requests instead; traceSlowerThanMicros says what is slow
    #[arg(long, conflicts_with = "every")]
    slow: bool,
    /// Print how long the turns of each core were instead: what is ready waits for the end of a turn. With --slow the newest
    /// long ones
    #[arg(long, conflicts_with = "cores")]
    turns: bool,
}

impl Stages {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let addresses = self.targets.addresses(&session.client).await?;
        let mut looks = self.look(session, &addresses).await?;
        let Some(seconds) = self.every else {
            for (address, times) in looks {
                session.output.note(&format!("# {address}"))?;
                if self.slow && self.turns {
                    session.output.table(&long_turns_table(&times.cores))?;
                } else if self.slow {
                    session.output.table(&slow_table(&times.slow))?;
                } else {
                    self.print(session, &times)?;
                }
            }
            return Ok(());
        };
        for _ in 0..self.times.unwrap_or(u64::MAX) {
            clock::sleep(Duration::from_secs(seconds)).await;
            let again = self.look(session, &addresses).await?;
            for (address, times) in &again {
                let Some((_, before)) = looks.iter().find(|(before, _)| before == address) else { continue };
                session.output.note(&format!("# {address}, {seconds} s"))?;
                self.print(session, &times.clone().since(before))?;
            }
            session.output.flush()?;
            looks = again;
        }
        Ok(())
    }

    async fn look(&self, session: &Session, addresses: &[Text]) -> Result<Vec<(Text, StageTimes)>, Failure> {
        let mut tally = Tally::default();
        let mut looks = Vec::new();
        for address in addresses {
            if let Some(times) = tally.wait(session.client.stage_times(address)).await {
                looks.push((address.clone(), times));
            }
        }
        if looks.is_empty() { tally.end().map(|()| looks) } else { Ok(looks) }
    }

    fn print(&self, session: &mut Session, times: &StageTimes) -> Result<(), Failure> {
        if self.turns {
            session.output.table(&turns_table(&times.cores))?;
            return Ok(());
        }
        let mut table = Table::new(&COLUMNS);
        for request in times.merged() {
            push_rows(&mut table, ALL_CORES, &request);
            if self.cores {
                for core in &times.cores {
                    if let Some(of_core) = core.request(&request.request) {
                        push_rows(&mut table, &core.core.to_string(), of_core);
                    }
                }
            }
        }
        session.output.table(&table)?;
        for (stage, why) in &times.absent {
            session.output.note(&format!("# no {stage}: {why}"))?;
        }
        Ok(())
    }
}

/// A row for each stage that was passed. Shares are of all that the requests of these cores have taken.
fn push_rows(table: &mut Table, core: &str, request: &RequestTimes) {
    let all_nanos: u64 = request.parts().map(|stage| stage.sum_nanos).sum();
    for stage in request.passed() {
        let share = 100.0 * stage.sum_nanos as f64 / all_nanos.max(1) as f64;
        let micros = |share| Value::from(stage.quantile_nanos(share) / 1000);
        table.push([
            json!(request.request.as_str()),
            json!(core),
            json!(stage.stage.as_str()),
            json!(stage.count()),
            json!(format!("{share:.1}%")),
            json!(format!("{:.1}", stage.mean_nanos() / 1000.0)),
            micros(0.5),
            micros(0.99),
            micros(0.999),
        ]);
    }
}

fn slow_table(slow: &[SlowRequest]) -> Table {
    let mut table = Table::new(&[
        ("#Answered", "atMs"),
        ("#Request", "request"),
        ("#Client", "peer"),
        ("#Opaque", "opaque"),
        ("#Core", "core"),
        ("#Owner", "owner"),
        ("#Total us", "totalMicros"),
        ("#Stages us", "stages"),
    ]);
    for request in slow {
        let stages = request.stages.iter().map(|stage| format!("{} {}", stage.stage, stage.nanos / 1000));
        table.push([
            json!(request.at_ms),
            json!(request.request.as_str()),
            json!(request.peer.as_str()),
            json!(request.opaque),
            json!(request.core),
            json!(request.owner),
            json!(request.nanos() / 1000),
            json!(stages.collect::<Vec<_>>().join(", ")),
        ]);
    }
    table
}

/// A row for each core: its turns, and the longest of those that are kept. What is ready waits for the end of a turn.
fn turns_table(cores: &[CoreTimes]) -> Table {
    let mut table = Table::new(&[
        ("#Core", "core"),
        ("#Turns", "turns"),
        ("#Busy ms", "busyMillis"),
        ("#Waited for CPU ms", "waitedMillis"),
        ("#Long turns", "longTurns"),
        ("#Longest us", "longestMicros"),
        ("#Ended", "atMs"),
        ("#Tasks", "tasks"),
        ("#Of it waiting us", "waitedMicrosMax"),
    ]);
    for CoreTimes { core, turns, .. } in cores.iter().filter(|core| core.turns.count > 0) {
        let of_longest = |value: fn(&LongTurn) -> u64| turns.longest().map_or(json!("-"), |turn| json!(value(turn)));
        table.push([
            json!(core),
            json!(turns.count),
            json!(turns.sum_nanos / 1_000_000),
            json!(turns.waited_nanos / 1_000_000),
            json!(turns.long_count),
            of_longest(|turn| turn.nanos / 1000),
            of_longest(|turn| turn.at_ms),
            of_longest(|turn| u64::from(turn.tasks)),
            of_longest(|turn| turn.waited_nanos_max / 1000),
        ]);
    }
    table
}

fn long_turns_table(cores: &[CoreTimes]) -> Table {
    let mut table = Table::new(&[
        ("#Ended", "atMs"),
        ("#Core", "core"),
        ("#Turn us", "micros"),
        ("#Tasks", "tasks"),
        ("#Of it waiting us", "waitedMicrosMax"),
    ]);
    let mut all: Vec<(u16, &LongTurn)> =
        cores.iter().flat_map(|core| core.turns.long.iter().map(|turn| (core.core, turn))).collect();
    all.sort_by_key(|(_, turn)| turn.at_ms);
    for (core, turn) in all {
        table.push([
            json!(turn.at_ms),
            json!(core),
            json!(turn.nanos / 1000),
            json!(turn.tasks),
            json!(turn.waited_nanos_max / 1000),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use remoting::body::stages::{CoreTurns, StageTime, TOTAL, TimeBucket};

    #[test]
    fn a_row_for_each_stage_that_was_passed() {
        let stage = |name: &'static str, count, nanos| StageTime {
            buckets: if count > 0 { vec![TimeBucket { count, limit_nanos: nanos }] } else { Vec::new() },
            stage: Text::from_static(name),
            sum_nanos: count * nanos,
        };
        let stages = vec![
            stage("receive", 10, 10_000),
            stage("flush", 10, 30_000),
            stage("replicate", 0, 0),
            stage(TOTAL, 10, 40_000),
        ];
        let request = RequestTimes { request: Text::from_static("send"), stages };
        let mut table = Table::new(&COLUMNS);
        push_rows(&mut table, "1", &request);
        let text = table.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(words, ["send", "1", "flush", "10", "75.0%", "30.0", "30", "30", "30"]);
        assert!(lines[3].contains("100.0%"), "{text}");
    }

    #[test]
    fn the_longest_turn_of_each_core() {
        let long = |number, nanos| LongTurn { at_ms: 7, nanos, number, tasks: 3, waited_nanos_max: 500_000 };
        let turns = CoreTurns {
            count: 1000,
            long: vec![long(0, 2_000_000), long(1, 9_000_000)],
            long_count: 2,
            sum_nanos: 12_000_000,
            ..CoreTurns::default()
        };
        let cores = [
            CoreTimes { core: 0, turns, ..CoreTimes::default() },
            CoreTimes { core: 1, turns: CoreTurns { count: 5, ..CoreTurns::default() }, ..CoreTimes::default() },
            CoreTimes { core: 2, ..CoreTimes::default() },
        ];
        let text = turns_table(&cores).text();
        let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["0", "1000", "12", "0", "2", "9000", "7", "3", "500"]);
        assert_eq!(rows[1], ["1", "5", "0", "0", "0", "-", "-", "-", "-"], "no long turn");
        assert_eq!(rows.len(), 2, "a core that counts none has no row");
        assert_eq!(long_turns_table(&cores).text().lines().count(), 3);
    }
}
