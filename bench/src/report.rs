//! What a run prints: a table for people on standard error, one line of JSON on standard output.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::ops::Range;

use hdrhistogram::Histogram;
use remoting::body::stages::StageTimes;
use serde_json::{Map, Value, json};

use crate::arguments::TargetArgs;
use crate::ledger::OffsetLedger;
use crate::never_sent::NeverSent;
use crate::phase::Phase;
use crate::phase::watch::Watched;
use crate::read::{ReadTally, Way};
use crate::record::{Gathered, Kind};
use crate::slow::SlowSends;
use crate::tally::{Errors, SendTally};
use crate::target::Target;

/// A generator that sends one message in a hundred later than this after it was due, though the target did not hold it back, has
/// fallen behind. Shorter lags are part of the latencies and are told beside them; on few cores a busy server causes some.
const LAG_NS_MAX: u64 = 5_000_000;
const LATE_SHARE_MAX: f64 = 0.01;
/// An open loop that sent less than this share of what was due has fallen behind.
const SENT_SHARE_MIN: f64 = 0.995;

const QUANTILES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999)];

/// Beyond these the machine is told to be a noisy one.
const HICCUP_P99_9_US_MAX: f64 = 5000.0;
const STEAL_CORES_MAX: f64 = 0.05;
const OTHER_CORES_MAX: f64 = 0.5;

/// How a run went; the later, the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Everything was answered as it should.
    Clean,
    /// The generator could not keep up with its own plan: the figures are of the generator, not of the broker.
    Void,
    /// Done in part: messages were refused, lost, or not what they should be, the run ended before its time, or results
    /// could not be written. That holds for a void run as well, so it is the worst.
    Partial,
}

impl Outcome {
    /// 0 clean; 5 done in part; 6 this host cannot generate the load.
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Clean => 0,
            Outcome::Partial => 5,
            Outcome::Void => 6,
        }
    }
}

/// Sends of a run.
pub(crate) struct SendFigures<'a> {
    pub(crate) tally: &'a SendTally,
    pub(crate) total: &'a Gathered,
    /// The span that was measured.
    pub(crate) measured_ns: Range<u64>,
    /// Of an open loop: messages due in the span.
    pub(crate) due: Option<u64>,
    pub(crate) body_bytes_mean: f64,
    /// They are half messages.
    pub(crate) is_transactional: bool,
    /// The run ended with its last message, before its time.
    pub(crate) ended_early: bool,
}

/// Readers of a run.
pub(crate) struct ReadFigures<'a> {
    pub(crate) way: Way,
    pub(crate) tally: &'a ReadTally,
    pub(crate) total: &'a Gathered,
    /// Messages that there were to get.
    pub(crate) wanted: u64,
    /// Where consumers commit: queues whose offset the target does not have.
    pub(crate) commits_missing: Option<u64>,
}

/// A run's figures, as they are gathered.
pub(crate) struct Report {
    label: String,
    pub(crate) mode: &'static str,
    target: String,
    config: Map<String, Value>,
    figures: Vec<(String, Value)>,
    pub(crate) faults: Vec<String>,
    pub(crate) void: Vec<String>,
    /// What of the machine makes the figures less certain.
    pub(crate) warnings: Vec<String>,
    /// Where the target's time went, if it tells.
    pub(crate) stages: Option<Value>,
    /// The slowest sends, where they were asked for.
    slow: Vec<Value>,
}

impl Report {
    pub(crate) fn new(args: &TargetArgs, phase: &Phase, target: &Target) -> Report {
        let mut config = phase.config();
        config.insert("broker".to_owned(), json!(target.broker.to_string()));
        config.insert("topic".to_owned(), json!(target.lanes.topics[0].as_str()));
        Report {
            label: if args.label.is_empty() { phase.name.clone() } else { args.label.clone() },
            mode: phase.mode(),
            target: args.target.clone().unwrap_or_else(|| target.broker.to_string()),
            config,
            figures: Vec::new(),
            faults: Vec::new(),
            void: Vec::new(),
            warnings: Vec::new(),
            stages: None,
            slow: Vec::new(),
        }
    }

    pub(crate) fn figure(&mut self, name: &str, value: impl Into<Value>) {
        self.figures.push((name.to_owned(), value.into()));
    }

    /// A number that should be 0.
    fn fault(&mut self, name: &str, count: u64) {
        self.figure(name, count);
        if count > 0 {
            self.faults.push(format!("{name}: {count}"));
        }
    }

    pub(crate) fn send(&mut self, sends: &SendFigures<'_>) {
        let tally = sends.tally;
        let Range { start, end } = sends.measured_ns;
        let end_ns = if sends.ended_early { end.min(tally.last_answer_ns) } else { end };
        let seconds = end_ns.saturating_sub(start) as f64 / 1e9;
        let per_second = if seconds > 0.0 { tally.stored_in_span as f64 / seconds } else { 0.0 };
        self.figure("seconds", rounded(seconds, 3));
        self.figure("messages", tally.stored_in_span);
        self.figure("messages_per_s", rounded(per_second, 1));
        self.figure("mb_per_s", rounded(per_second * sends.body_bytes_mean / 1e6, 2));
        self.times(Kind::Send, sends.total);
        if sends.is_transactional {
            self.times(Kind::Transaction, sends.total);
            self.figure("committed", tally.committed);
            self.figure("rolled_back", tally.rolled_back);
        }
        if let Some(due) = sends.due {
            self.open_loop(sends, due, seconds);
        }
        self.errors(&tally.errors);
        if let Some(offsets) = tally.offsets.as_ref().map(OffsetLedger::faults) {
            // A message whose answer was lost with its connection may have been stored all the same.
            self.figure("offset_gaps_lost", offsets.gaps.min(tally.lost));
            self.fault("offset_gaps", offsets.gaps.saturating_sub(tally.lost));
            self.fault("offset_duplicates", offsets.duplicates);
            self.fault("offset_strange", offsets.strange);
        }
        self.fault("lost", tally.lost);
        self.fault("strange_answers", tally.strange_answers);
        self.fault("unreadable_answers", tally.unreadable);
        self.fault("connections_lost", tally.connections_lost);
        if tally.away_ns_max > 0 {
            self.figure("away_ms_max", tally.away_ns_max / 1_000_000);
        }
    }

    /// Whether the load was the one that was asked for.
    fn open_loop(&mut self, sends: &SendFigures<'_>, due: u64, seconds: f64) {
        let tally = sends.tally;
        let a_second = |messages: u64| if seconds > 0.0 { messages as f64 / seconds } else { 0.0 };
        self.figure("rate_asked", rounded(a_second(due), 1));
        self.figure("rate_sent", rounded(a_second(tally.sent_in_span.min(due)), 1));
        self.times(Kind::SendLag, sends.total);
        // Sends held back by unanswered ones are the broker's doing: they stay due and count in the latency.
        self.figure("held_back", tally.held_back);
        self.never_sent(tally.never_sent.as_ref(), due);
        let late = late_share(sends.total.times(Kind::SendLag), tally.held_back, due);
        if late > LATE_SHARE_MAX {
            let (percent, lag_ms) = (late * 100.0, LAG_NS_MAX / 1_000_000);
            self.void.push(format!("the generator sent {percent:.1} % of the messages more than {lag_ms} ms late"));
        }
    }

    /// What the target held back is its own fault, and excuses the generator of nothing else.
    fn never_sent(&mut self, never_sent: Option<&NeverSent>, due: u64) {
        let (messages, held_back) = never_sent.map_or((0, 0), |never_sent| (never_sent.messages, never_sent.held_back));
        self.figure("never_sent", messages);
        if held_back > 0 {
            self.faults.push(format!(
                "never_sent: {held_back} of {due} messages that were due, since the target held them back: it is saturated, or away. \
                 Of each the percentiles have what it waited at least"
            ));
        }
        let late = messages - held_back;
        if late as f64 > due as f64 * (1.0 - SENT_SHARE_MIN) {
            self.void.push(format!("the generator never sent {late} of {due} messages that were due"));
        }
    }

    pub(crate) fn catch_up(&mut self, pulls: &ReadFigures<'_>, start_ns: u64) {
        let tally = pulls.tally;
        let seconds = tally.last_arrival_ns.saturating_sub(start_ns) as f64 / 1e9;
        let per_second = if seconds > 0.0 { tally.messages as f64 / seconds } else { 0.0 };
        self.figure("seconds", rounded(seconds, 3));
        self.figure("messages", tally.messages);
        self.figure("messages_per_s", rounded(per_second, 1));
        self.figure("mb_per_s", rounded(tally.body_bytes as f64 / 1e6 / seconds.max(1e-9), 2));
        self.times(if pulls.way == Way::Pop { Kind::Pop } else { Kind::Pull }, pulls.total);
        self.pulls(pulls);
        self.errors(&tally.errors);
        self.fault("connections_lost", tally.connections_lost);
    }

    pub(crate) fn tail(&mut self, pulls: &ReadFigures<'_>) {
        // Messages that were delayed have a time of their own kind.
        let is_late = !pulls.total.times(Kind::Late).is_empty();
        self.times(if is_late { Kind::Late } else { Kind::EndToEnd }, pulls.total);
        self.figure("messages_consumed", pulls.tally.messages);
        self.pulls(pulls);
        self.fault("pull_errors", pulls.tally.errors.total());
        self.figure("pull_errors_by_code", by_code(&pulls.tally.errors));
        self.fault("pull_connections_lost", pulls.tally.connections_lost);
    }

    /// What those groups read that read the backlog again and again, over so long.
    pub(crate) fn cold(&mut self, tally: &ReadTally, span_ns: u64) {
        let seconds = (span_ns as f64 / 1e9).max(1e-9);
        self.figure("cold_messages_per_s", rounded(tally.messages as f64 / seconds, 1));
        self.figure("cold_mb_per_s", rounded(tally.body_bytes as f64 / 1e6 / seconds, 2));
        self.figure("cold_queues_repeated", tally.repeats);
        self.fault("cold_errors", tally.errors.total());
        self.fault("cold_offset_jumps", tally.faults.offset_jumps);
        self.fault("cold_damaged_bodies", tally.faults.damaged);
    }

    fn pulls(&mut self, pulls: &ReadFigures<'_>) {
        let tally = pulls.tally;
        let an_ask = if tally.asks_found == 0 { 0.0 } else { tally.messages as f64 / tally.asks_found as f64 };
        let (an_ask, missing) = (rounded(an_ask, 2), tally.missing(pulls.wanted));
        match pulls.way {
            Way::Pull => {
                self.figure("messages_per_pull", an_ask);
                self.figure("pulls_empty", tally.asks_empty);
                self.fault("messages_missing", missing);
                self.fault("offset_jumps", tally.faults.offset_jumps);
            }
            Way::Pop => {
                self.figure("messages_per_pop", an_ask);
                self.figure("pops_empty", tally.asks_empty);
                self.fault("messages_missing", missing);
                self.pops(pulls);
            }
        }
        self.fault("wrong_queue", tally.faults.wrong_queue);
        self.fault("damaged_bodies", tally.faults.damaged);
        self.fault("unreadable_pulls", tally.faults.unreadable);
        self.fault("order_breaks", tally.faults.order_breaks);
        self.fault("rolled_back_arrived", tally.faults.rolled_back);
        if tally.sent_back > 0 {
            self.times(Kind::Retry, pulls.total);
            self.figure("sent_back", tally.sent_back);
            self.fault("retries_missing", tally.sent_back.saturating_sub(tally.came_again));
            self.fault("retries_strange", tally.faults.retries_strange);
        }
        if let Some(commits_missing) = pulls.commits_missing {
            self.fault("commits_missing", commits_missing);
        }
    }

    fn pops(&mut self, pulls: &ReadFigures<'_>) {
        let (tally, repeated) = (pulls.tally, pulls.tally.repeated(pulls.wanted));
        self.times(Kind::Ack, pulls.total);
        self.figure("acknowledged", tally.popped.acknowledged);
        self.fault("acks_lost", tally.popped.acks_lost);
        self.fault("receipts_wrong", tally.faults.receipts_wrong);
        // What was not acknowledged before its connection ended comes again, as it should.
        if tally.connections_lost > 0 {
            self.figure("messages_repeated", repeated);
        } else {
            self.fault("messages_repeated", repeated);
        }
    }

    fn errors(&mut self, errors: &Errors) {
        self.fault("errors", errors.total());
        self.figure("errors_by_code", by_code(errors));
    }

    pub(crate) fn usage(&mut self, watched: &Watched, total: &Gathered) {
        let usage = watched.from.until(&watched.to);
        if let Some(a_message) = usage.server_us_per_message {
            self.figure("server_cpu_us_per_message", rounded(a_message, 2));
        }
        if let Some(cores) = usage.server_cores {
            self.figure("server_cores", rounded(cores, 2));
        }
        if let Some(memory) = watched.memory {
            self.figure("server_resident_mib_max", memory.resident_bytes >> 20);
            self.figure("server_anonymous_mib_max", memory.anonymous_bytes >> 20);
        }
        if let Some(a_message) = usage.generator_us_per_message {
            self.figure("generator_cpu_us_per_message", rounded(a_message, 2));
        }
        self.figure("generator_cores", rounded(usage.generator_cores, 2));
        self.figure("other_cores", rounded(usage.other_cores, 2));
        self.figure("steal_cores", rounded(usage.steal_cores, 2));
        let hiccups = total.times(Kind::Hiccup);
        self.times(Kind::Hiccup, total);
        let hiccup_us = hiccups.value_at_quantile(0.999) as f64 / 1e3;
        if hiccup_us > HICCUP_P99_9_US_MAX {
            self.warnings.push(format!(
                "1 in 1000 sleeps of 1 ms took {hiccup_us:.0} us longer: higher percentiles are the machine's"
            ));
        }
        if usage.steal_cores > STEAL_CORES_MAX {
            self.warnings.push(format!("the host took {:.2} of a core away (steal)", usage.steal_cores));
        }
        // Without its process the server is among the others.
        if usage.server_cores.is_some() && usage.other_cores > OTHER_CORES_MAX {
            self.warnings.push(format!("other processes used {:.2} cores", usage.other_cores));
        }
    }

    /// `stages` is what the target counted in the measured span, which began at `from_ms`.
    pub(crate) fn slow(&mut self, slow: &SlowSends, stages: Option<&StageTimes>, from_ms: u64) {
        self.warnings.extend(slow.warning(stages));
        self.slow = slow.clone().told(stages, from_ms);
    }

    /// The value of a figure that is a number.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(figure, _)| figure == name)?.1.as_f64()
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Quantiles of times, in microseconds. Of no times there are none.
    fn times(&mut self, kind: Kind, gathered: &Gathered) {
        let times = gathered.times(kind);
        let us = |ns: u64| rounded(ns as f64 / 1e3, 1);
        let mut values = Map::new();
        if !times.is_empty() {
            for (quantile, share) in QUANTILES {
                values.insert(quantile.to_owned(), us(times.value_at_quantile(share)));
            }
            values.insert("max".to_owned(), us(times.max()));
        }
        values.insert("count".to_owned(), json!(times.len()));
        self.figure(kind.figure(), values);
    }

    pub(crate) fn outcome(&self) -> Outcome {
        outcome(&self.faults, &self.void)
    }

    pub(crate) fn json(&self) -> Value {
        let figures: Map<String, Value> = self.figures.iter().cloned().collect();
        json!({
            "label": self.label,
            "mode": self.mode,
            "target": self.target,
            "config": self.config,
            "figures": figures,
            "faults": self.faults,
            "void": self.void,
            "warnings": self.warnings,
            "stages": self.stages,
            "slow": self.slow,
        })
    }

    fn table(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "{name:<30} {value}");
        };
        line("run", &format!("{} {} {}", self.label, self.mode, self.target));
        let config: Vec<String> = self.config.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
        line("config", &config.join(" "));
        for (name, value) in &self.figures {
            line(name, &plain(value));
        }
        for fault in &self.faults {
            line("FAULT", fault);
        }
        for reason in &self.void {
            line("VOID", reason);
        }
        for warning in &self.warnings {
            line("note", warning);
        }
        text
    }

    /// The table, for people.
    pub(crate) fn print_table(&self) {
        // Nobody could be told that standard error is gone.
        let _ = io::stderr().lock().write_all(self.table().as_bytes());
    }

    /// The line of JSON, for programs.
    ///
    /// # Errors
    /// When standard output is gone.
    pub(crate) fn print_line(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", self.json())?;
        out.flush()
    }
}

fn by_code(errors: &Errors) -> Map<String, Value> {
    let told =
        |(code, count, remark): (i32, u64, &str)| (code.to_string(), json!({"count": count, "first_remark": remark}));
    errors.iter().map(told).collect()
}

/// Of all messages that were due, those that were sent too late by the generator's own fault. `lags` are of requests that were not held
/// back.
fn late_share(lags: &Histogram<u64>, held_back: u64, due: u64) -> f64 {
    let in_time = lags.count_between(0, LAG_NS_MAX);
    let late = (lags.len() - in_time) as f64 / lags.len().max(1) as f64;
    late * (1.0 - held_back.min(due) as f64 / due.max(1) as f64)
}

fn outcome<T>(faults: &[T], void: &[T]) -> Outcome {
    match (faults.is_empty(), void.is_empty()) {
        (false, _) => Outcome::Partial,
        (true, false) => Outcome::Void,
        (true, true) => Outcome::Clean,
    }
}

pub(crate) fn rounded(value: f64, digits: i32) -> Value {
    let factor = 10_f64.powi(digits);
    json!((value * factor).round() / factor)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{}={}", name.replace('_', "."), plain(value))).collect();
            if members.is_empty() { "-".to_owned() } else { members.join("  ") }
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_was_lost_is_worse_than_a_generator_that_was_late() {
        let worst = [Outcome::Partial, Outcome::Clean, Outcome::Void].into_iter().max();
        assert_eq!(worst.map(Outcome::exit_code), Some(5));
        assert_eq!(Outcome::Clean.max(Outcome::Void).exit_code(), 6);
        for (faults, void, expected) in [
            (&["lost: 1"][..], &["late"][..], Outcome::Partial),
            (&["lost: 1"], &[], Outcome::Partial),
            (&[], &["late"], Outcome::Void),
            (&[], &[], Outcome::Clean),
        ] {
            assert_eq!(outcome(faults, void), expected, "{faults:?} {void:?}");
        }
    }

    /// Of 1,000 messages that were due so many were never sent, and so many of these held back by the target.
    #[test]
    fn what_was_never_sent_is_a_fault_of_whoever_did_not_let_it() {
        for (messages, held_back, expected) in [
            (0, 0, Outcome::Clean),
            (5, 0, Outcome::Clean),
            (6, 0, Outcome::Void),
            (1, 1, Outcome::Partial),
            (700, 700, Outcome::Partial),
            (700, 690, Outcome::Partial),
        ] {
            let mut report = report();
            let mut never_sent = NeverSent::new();
            (0..messages).for_each(|message| never_sent.add(1, 1_000_000_000, message < held_back));
            report.never_sent(Some(&never_sent), 1000);
            assert_eq!(report.outcome(), expected, "{messages} {held_back}: {:?} {:?}", report.faults, report.void);
            assert_eq!(report.void.is_empty(), messages - held_back <= 5, "{:?}", report.void);
            assert_eq!(report.value("never_sent"), Some(messages as f64));
        }
    }

    #[test]
    fn the_generator_was_late_with_what_nobody_held_back() {
        let mut lags = crate::record::histogram();
        assert!(late_share(&lags, 1000, 1000) < 1e-9 && late_share(&lags, 0, 0) < 1e-9);
        lags.record_n(10_000, 90).unwrap();
        lags.record_n(8_000_000, 10).unwrap();
        for (held_back, due, expected) in [(0, 100, 0.1), (900, 1000, 0.01), (9_900, 10_000, 0.001)] {
            assert!((late_share(&lags, held_back, due) - expected).abs() < 1e-9, "{held_back} of {due}");
        }
    }

    #[test]
    fn of_no_times_no_quantiles_are_told() {
        let mut report = report();
        report.times(Kind::SendLag, &Gathered::new());
        assert_eq!(report.json()["figures"]["send_lag_us"], json!({"count": 0}));
    }

    fn report() -> Report {
        let (label, target, config) = (String::new(), String::new(), Map::new());
        let [faults, void, warnings] = [(); 3].map(|()| Vec::new());
        let (figures, slow) = (Vec::new(), Vec::new());
        Report { label, mode: "send-open", target, config, figures, faults, void, warnings, stages: None, slow }
    }
}
