//! `verdicts [--tries N] [--rounds N] [--slower SHARE]`: whether `ringmq bench compare` is to be trusted, on real brokers.
//!
//! Two brokers of one build stand behind a relay each, as if they were a millisecond away. Half of the tries compare them as
//! they are: nothing may be told to differ. In the other half the second relay holds each answer for a share of the round
//! trip longer, by default a tenth: that must be found to be worse. Prints how often either came true; the exit code is 0
//! only if both did in 19 of 20.
//!
//! Without that millisecond a round trip on one machine is a handful of wake-ups, and its median differs by a fifth from
//! one round to the next, depending on where threads came to lie: a tenth is not found in that.
//!
//! Judged is what users get: the rule, and unless asked otherwise the number of rounds, of `compare`. Connections are new in each
//! round, so where threads lie is drawn anew; rounds are short, since many of them tell more than long ones.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use harness::bench::number;
use harness::folder::Folder;
use harness::process::Dev;
use harness::program;
use harness::relay::Relay;
use serde_json::Value;

const TRIES: u32 = 20;
const SLOWER: f64 = 0.1;
/// The way to both brokers and back.
const AWAY: Duration = Duration::from_millis(1);
/// Of all tries, those that may go wrong.
const WRONG_SHARE: f64 = 0.05;
const COMPARED_WITHIN: Duration = Duration::from_secs(300);
const WARM_UP: [&str; 6] = ["--duration", "2", "--warmup", "1", "--size", "1024"];

/// One message at a time: what a relay holds is in each round trip, and in nothing else.
const PLAN: &str = r#"
name = "verdicts"

[[phase]]
name = "round-trip"
kind = "send"
connections = 1
window = 1
warmup = "100ms"
duration = "500ms"
"#;

struct Settings {
    tries: u32,
    /// Otherwise as many as `compare` takes by itself.
    rounds: Option<u32>,
    slower: f64,
}

fn main() -> ExitCode {
    let outcome = parse().and_then(|settings| run(&settings));
    program::exit_code(outcome)
}

fn parse() -> Result<Settings, String> {
    const USAGE: &str = "usage: verdicts [--tries N] [--rounds N] [--slower SHARE]";
    let mut settings = Settings { tries: TRIES, rounds: None, slower: SLOWER };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    for pair in arguments.chunks(2) {
        let value = pair.get(1).map_or("", String::as_str);
        let wrong = |_| format!("{pair:?}\n{USAGE}");
        match pair[0].as_str() {
            "--tries" => settings.tries = value.parse().map_err(|_| wrong(()))?,
            "--rounds" => settings.rounds = Some(value.parse().map_err(|_| wrong(()))?),
            "--slower" => settings.slower = value.parse().map_err(|_| wrong(()))?,
            _ => return Err(wrong(())),
        }
    }
    Ok(settings)
}

fn run(settings: &Settings) -> Result<bool, String> {
    let begun = Instant::now();
    let folder = Folder::new("verdicts");
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, PLAN).map_err(|error| format!("{}: {error}", plan.display()))?;
    let devs = ["verdicts-a", "verdicts-b"]
        .map(|name| Dev::new(name).property("flushDiskType=ASYNC_FLUSH").property("mapedFileSizeCommitLog=67108864"));
    let running = [devs[0].try_start()?, devs[1].try_start()?];
    let relays = [&devs[0], &devs[1]].map(|dev| Relay::before(&dev.broker));
    relays.iter().for_each(|relay| relay.hold(AWAY));
    let trips = [round_trip(&relays[0])?, round_trip(&relays[1])?];
    let held = (trips[0] + trips[1]).mul_f64(settings.slower / 2.0);
    println!("a round trip takes {:?} and {:?}; the slower one takes {held:?} more", trips[0], trips[1]);
    let (mut equal, mut found) = (0, 0);
    for index in 0..settings.tries {
        relays[1].hold(AWAY);
        let verdict = compare(&relays, &plan, &folder.path().join(format!("equal-{index}")), settings.rounds)?;
        equal += u32::from(verdict.worse + verdict.better == 0);
        verdict.tell("equal");
        relays[1].hold(AWAY + held);
        let verdict = compare(&relays, &plan, &folder.path().join(format!("slower-{index}")), settings.rounds)?;
        found += u32::from(verdict.worse > 0 && verdict.better == 0);
        verdict.tell("slower");
    }
    drop(running);
    let wanted = settings.tries - (f64::from(settings.tries) * WRONG_SHARE) as u32;
    println!(
        "equal ones told the same: {equal} of {0}; the slower one found: {found} of {0}; wanted: {wanted} of each; {1:.0} s",
        settings.tries,
        begun.elapsed().as_secs_f64()
    );
    Ok(equal >= wanted && found >= wanted)
}

/// The median through a relay.
fn round_trip(relay: &Relay) -> Result<Duration, String> {
    let mut command = Command::new(program::path());
    command.args(["bench", "send", "--connections", "1", "--window", "1"]).args(WARM_UP);
    command.args(["--broker", &relay.address]);
    let finished = program::run_command(command, COMPARED_WITHIN);
    let line: Value =
        serde_json::from_str(&finished.stdout).map_err(|error| format!("{error}: {}", finished.text()))?;
    Ok(Duration::from_secs_f64(number(&line["figures"]["latency_us"]["p50"]) / 1e6))
}

/// How many figures differ, and all that was told.
struct Verdict {
    worse: u32,
    better: u32,
    table: String,
}

impl Verdict {
    /// Only the rows: what differs stands out in them.
    fn tell(&self, what: &str) {
        println!("{what}: {} worse, {} better", self.worse, self.better);
        self.table.lines().filter(|line| line.starts_with("| round-trip")).for_each(|line| println!("    {line}"));
    }
}

fn compare(relays: &[Relay; 2], plan: &Path, out: &Path, rounds: Option<u32>) -> Result<Verdict, String> {
    let mut command = Command::new(program::path());
    command.args(["bench", "compare", &relays[0].address, &relays[1].address]);
    if let Some(rounds) = rounds {
        command.args(["--rounds", &rounds.to_string()]);
    }
    command.arg("--plan").arg(plan).arg("--out").arg(out);
    let finished = program::run_command(command, COMPARED_WITHIN);
    let count = |name: &str| {
        let (_, rest) = finished.stdout.split_once(name)?;
        rest.split(|digit: char| !digit.is_ascii_digit()).next()?.parse().ok()
    };
    match (count("Worse: "), count("Better: ")) {
        (Some(worse), Some(better)) => Ok(Verdict { worse, better, table: finished.stdout }),
        _ => Err(format!("no verdict: {}", finished.text())),
    }
}
