//! Kill -9 under load: what was acknowledged, and what a consumer saw, is there after every restart.
//!
//! One store lives through all rounds. A round loads the broker from several connections while consumers read and
//! commit, kills it at a random time, sometimes damages the bytes after the last record, sometimes kills the restarted
//! broker while it recovers, starts it again and compares every queue with what is known.
//!
//! Promised and checked:
//! - an acknowledged message is at its offset with its body; so is every message that a consumer has seen;
//! - queue offsets are dense from 0 to the maximum, and no message is there twice or was never sent;
//! - a committed offset is never lost once it is older than [`COMMIT_LOSS_MAX`], and is never above what was committed;
//! - the topic, made just before the first kill, is there.

mod damage;
mod ledger;
mod load;

use std::time::{Duration, Instant};

use base::Random;

use crate::connection::Connection;
use crate::process::{Dev, Running};
use crate::request::{CODE_NOT_FOUND, Queue, consumer_offset, create_topic, heartbeat};
use ledger::Ledger;
use load::Round;

pub use damage::Damage;

/// Queues of the topic, spread over all logs.
const QUEUES: u32 = 8;
/// What a kill may take of the committed offsets: the persistence interval of 5 s, and a second for a busy machine.
const COMMIT_LOSS_MAX: Duration = Duration::from_secs(6);
/// Every so many rounds the load goes on for longer than [`COMMIT_LOSS_MAX`].
const LONG_ROUND_EVERY: u32 = 5;
/// Offsets that a fault of a commit tells, the newest ones.
const OFFSETS_TOLD_MAX: usize = 12;
/// Every so many rounds everything is read again, from the first message.
const FULL_CHECK_EVERY: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    Sync,
    Async,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub flush: Flush,
    pub rounds: u32,
    pub seed: u64,
    /// Whether bytes after the last record are damaged between kill and start.
    pub damage: bool,
    /// Print a line for each round.
    pub verbose: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub rounds_passed: u32,
    /// Messages that were acknowledged before a kill.
    pub acknowledged: u64,
    /// Messages that a consumer saw before a kill.
    pub seen: u64,
    /// The fault that ended the run, with its round and seed.
    pub fault: Option<String>,
}

/// Runs all rounds, or up to the first fault. The store of a run with a fault is kept.
pub fn run(settings: &Settings) -> Report {
    let mut report = Report::default();
    let flush = match settings.flush {
        Flush::Sync => "flushDiskType=SYNC_FLUSH",
        Flush::Async => "flushDiskType=ASYNC_FLUSH",
    };
    let dev = Dev::new("kill9").property(flush);
    let mut trial = Trial {
        topic: crate::unique_name("kill9"),
        group: crate::unique_name("kill9"),
        dev,
        random: Random::new(settings.seed),
        ledger: Ledger::new(QUEUES),
        committed: vec![None; QUEUES as usize],
    };
    for round in 0..settings.rounds {
        let started = Instant::now();
        match trial.round(round, settings, &mut report) {
            Ok(line) => {
                report.rounds_passed += 1;
                if settings.verbose {
                    println!("  {:?} round {round}: {line}, {:.1} s", settings.flush, started.elapsed().as_secs_f64());
                }
            }
            Err(fault) => {
                report.fault = Some(format!("{:?}, seed {}, round {round}: {fault}", settings.flush, settings.seed));
                return report;
            }
        }
    }
    report
}

/// What lives through all rounds.
#[derive(Debug)]
struct Trial {
    dev: Dev,
    topic: String,
    group: String,
    random: Random,
    ledger: Ledger,
    /// For each queue, the committed offset that the last restart showed.
    committed: Vec<Option<u64>>,
}

impl Trial {
    fn round(&mut self, round: u32, settings: &Settings, report: &mut Report) -> Result<String, String> {
        let mut running = self.dev.try_start()?;
        if round == 0 {
            self.connect()?.call_ok(&create_topic(&self.topic, QUEUES)).map_err(|error| format!("topic: {error}"))?;
        }
        let load_ms = 150 + self.random.below(1_350) + if round % LONG_ROUND_EVERY == 4 { 7_000 } else { 0 };
        let result = load::run(&self.plan(round, Duration::from_millis(load_ms)), &mut running);
        let log = running.log();
        let result = result.map_err(|fault| format!("{fault}\nThe broker's log:\n{log}"))?;
        report.acknowledged += result.acknowledged.len() as u64;
        report.seen += result.seen.len() as u64;

        let damage = if settings.damage { Damage::draw(&mut self.random) } else { Damage::None };
        let damaged = damage.apply(&self.dev.store(), &mut self.random).map_err(|error| format!("damage: {error}"))?;
        if self.random.below(4) == 0 {
            self.kill_while_starting();
        }
        let restarted = Instant::now();
        let mut running = self.dev.try_start().map_err(|log| format!("no restart after {damage:?}: {log}"))?;
        let restart_ms = restarted.elapsed().as_millis();
        self.check(round, settings, &result).map_err(|fault| {
            format!(
                "{fault}\nafter {load_ms} ms of load, then {damage:?} ({damaged}). The broker's log:\n{}",
                running.log()
            )
        })?;
        // The next round begins with a start after a kill as well: a clean stop is tested elsewhere.
        running.kill();
        Ok(format!(
            "{load_ms} ms of load, {} acknowledged, {} seen, {damage:?} ({damaged}), restart {restart_ms} ms, {} in the queues",
            result.acknowledged.len(),
            result.seen.len(),
            self.ledger.message_count(),
        ))
    }

    fn plan(&self, round: u32, load_time: Duration) -> load::Plan {
        load::Plan {
            broker: self.dev.broker.clone(),
            topic: self.topic.clone(),
            group: self.group.clone(),
            queue_count: QUEUES,
            round,
            load_time,
            read_from: self.ledger.ends(),
        }
    }

    /// Starts the broker and kills it somewhere in its recovery.
    fn kill_while_starting(&mut self) {
        let mut running = Running::start(&self.dev.arguments());
        // Not a wait for an event: the moment of the kill is what is drawn.
        std::thread::sleep(Duration::from_millis(self.random.below(400)));
        running.kill();
    }

    fn check(&mut self, round: u32, settings: &Settings, result: &Round) -> Result<(), String> {
        let mut connection = self.connect()?;
        let last = round + 1 == settings.rounds;
        let whole = last || round % FULL_CHECK_EVERY == FULL_CHECK_EVERY - 1;
        self.ledger.read_again(&mut connection, &self.topic, whole)?;
        self.ledger.require("acknowledged", &result.acknowledged)?;
        self.ledger.require("seen by a consumer", &result.seen)?;
        connection.call_ok(&heartbeat("kill9-checker", &self.group)).map_err(|error| format!("heartbeat: {error}"))?;
        for queue_id in 0..QUEUES {
            self.check_committed(&mut connection, queue_id, result)?;
        }
        Ok(())
    }

    fn check_committed(&mut self, connection: &mut Connection, id: u32, result: &Round) -> Result<(), String> {
        let index = id as usize;
        let asked = consumer_offset(&self.group, &Queue::new(&self.topic, id));
        let answer = connection.call(&asked).map_err(|error| format!("committed offset: {error}"))?;
        let found = match answer.code {
            0 => Some(answer.number("offset").map_err(|error| error.to_string())?.cast_unsigned()),
            CODE_NOT_FOUND => None,
            code => return Err(format!("committed offset of queue {id}: {code} {}", answer.remark)),
        };
        let commits = result.commits.iter().filter(|commit| commit.queue_id == id);
        let old = commits.clone().filter(|commit| commit.before_kill > COMMIT_LOSS_MAX).map(|commit| commit.offset);
        let least = self.committed[index].into_iter().chain(old).max();
        // The last commit may have been taken without its answer reaching us, so attempts count here.
        let most = self.committed[index].into_iter().chain(commits.map(|commit| commit.offset)).max();
        if found < least || found > most {
            let before = self.committed[index];
            let story = commits_told(result.commits.iter().filter(|commit| commit.queue_id == id));
            return Err(format!(
                "queue {id}: committed offset {found:?}, to be expected from {least:?} to {most:?}; \
                 {before:?} after the restart before; in this round {story}"
            ));
        }
        self.committed[index] = found;
        Ok(())
    }

    fn connect(&self) -> Result<Connection, String> {
        Connection::open(&self.dev.broker).map_err(|error| format!("cannot connect to {}: {error}", self.dev.broker))
    }
}

/// When each offset was committed first, and when the last attempt was made: it tells a stall from a loss.
fn commits_told<'a>(commits: impl Iterator<Item = &'a load::Commit>) -> String {
    let mut told = Vec::new();
    let mut last: Option<&load::Commit> = None;
    for commit in commits {
        if last.is_none_or(|last| last.offset != commit.offset) {
            told.push(format!("{} at -{:.2} s", commit.offset, commit.before_kill.as_secs_f64()));
        }
        last = Some(commit);
    }
    let Some(last) = last else { return "nothing was committed".to_owned() };
    let first_told = told.len().saturating_sub(OFFSETS_TOLD_MAX);
    format!("{} (last attempt at -{:.2} s)", told[first_told..].join(", "), last.before_kill.as_secs_f64())
}
