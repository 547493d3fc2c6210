//! RocketMQ's own benchmark programs, unmodified, each for a few seconds against a broker of its own: what they send must be
//! stored, what they consume must come, and none of them may count a failure.

use std::time::{Duration, Instant};

use crate::official::Client;
use crate::process::{Dev, Running};
use crate::program::signal;

const PACKAGE: &str = "org.apache.rocketmq.example.benchmark";
/// A JVM starts, fetches routes, and prints a line after some seconds.
const WORKS_WITHIN: Duration = Duration::from_secs(90);
/// Messages of the one that stops by itself.
const SENDS: &str = "2000";
/// One program.
struct Tool {
    class: &'static str,
    options: &'static [&'static str],
    /// The name in front of the number that tells that it works.
    rate: &'static str,
}

/// Each sends or consumes until it is ended. The producer's asynchronous mode (`-y true`) is not among them: it asks without any
/// limit until its own client has no memory, and then counts as failed what was never sent.
const TOOLS: [Tool; 4] = [
    Tool { class: "Consumer", options: &["-t", "BenchmarkTest", "-w", "4", "-ri", "1000"], rate: "Consume TPS:" },
    Tool {
        class: "BatchProducer",
        options: &["-t", "BenchmarkBatch", "-w", "2", "-s", "128", "-b", "16", "-ri", "1000"],
        rate: "Send MPS:",
    },
    Tool {
        class: "TransactionProducer",
        options: &["-t", "BenchmarkHalf", "-w", "2", "-s", "128", "-ri", "1000"],
        rate: "Send TPS:",
    },
    // Its messages are for two minutes later and more.
    Tool {
        class: "timer.TimerProducer",
        options: &["-t", "BenchmarkTimer", "-tc", "2", "-st", "100", "-mt", "100", "-sd", "1000", "-ms", "128"],
        rate: "Send TPS:",
    },
];

/// How many passed and failed.
///
/// # Errors
/// When nothing can be said: the programs cannot be built, or the broker does not start.
pub fn run() -> Result<[u32; 2], String> {
    let programs = Client::benchmarks()?;
    let dev = Dev::new("benchmarks").property("mapedFileSizeCommitLog=67108864");
    let broker = dev.try_start()?;
    let mut counts = [0, 0];
    let mut told = |name: &str, outcome: Result<String, String>| {
        let (place, word, text) = match outcome {
            Ok(text) => (0, "ok", text),
            Err(text) => (1, "FAIL", text),
        };
        counts[place] += 1;
        println!("{word} {name}: {text}");
    };
    told("Producer, stopping by itself", stops(&programs, &dev));
    for tool in &TOOLS {
        told(tool.class, works(tool, &programs, &dev));
    }
    told("the OpenMessaging Benchmark's requests", replays(&programs, &dev));
    if counts[1] > 0 {
        println!("---- log of the broker ----\n{}\n---- end of log ----", broker.log());
    }
    Ok(counts)
}

fn start(programs: &Client, dev: &Dev, class: &str, options: &[&str]) -> Running {
    let mut command = programs.command();
    command.arg(format!("{PACKAGE}.{class}")).args(["-n", &dev.namesrv]).args(options);
    Running::start_command(command)
}

/// Sends so many messages and tells them all in its last line.
fn stops(programs: &Client, dev: &Dev) -> Result<String, String> {
    let options = ["-t", "BenchmarkTest", "-w", "4", "-s", "128", "-q", SENDS, "-ri", "1000"];
    let mut running = start(programs, dev, "Producer", &options);
    let line = running.await_line("[Complete]", WORKS_WITHIN)?;
    running.await_end(WORKS_WITHIN);
    let all = format!("Send Total: {SENDS} ");
    if line.contains(&all) { without_failures(line) } else { Err(line) }
}

/// Prints a line in which something happened, and no failure.
fn works(tool: &Tool, programs: &Client, dev: &Dev) -> Result<String, String> {
    let mut running = start(programs, dev, tool.class, tool.options);
    let deadline = Instant::now() + WORKS_WITHIN;
    let mut line = None;
    while line.is_none() && Instant::now() < deadline && running.is_alive() {
        std::thread::sleep(Duration::from_millis(100));
        line = running.log().lines().find(|line| number_behind(line, tool.rate) > Some(0)).map(str::to_owned);
    }
    // What it counted until then; ended, it may count what it does not wait for any more.
    let log = running.log();
    signal(running.pid(), "KILL");
    running.await_end(WORKS_WITHIN);
    log.lines().try_for_each(|line| without_failures(line.to_owned()).map(|_| ()))?;
    line.ok_or_else(|| format!("no line with a rate came: {log}"))
}

fn replays(programs: &Client, dev: &Dev) -> Result<String, String> {
    let mut command = programs.command();
    command.args(["ringmq.OpenMessaging", &dev.namesrv]);
    let mut running = Running::start_command(command);
    let code = running.await_end(2 * WORKS_WITHIN);
    let told = running.log().lines().filter(|line| line.starts_with("autoBatch")).collect::<Vec<_>>().join("; ");
    if code == Some(0) { Ok(told) } else { Err(running.log()) }
}

/// The line, if each number behind a `…Fail:` or `…Failed:` in it is 0.
fn without_failures(line: String) -> Result<String, String> {
    let failed = ["Fail:", "Failed:"].into_iter().any(|name| {
        let parts = line.split(name).skip(1);
        parts.filter_map(|rest| number_behind(rest, "")).any(|count| count > 0)
    });
    if failed { Err(line) } else { Ok(line) }
}

/// The number behind the first place of a name.
fn number_behind(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(name)?;
    let rest = rest.trim_start();
    rest[..rest.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_found_wherever_they_stand() {
        let line = |failed: u32| format!("Send TPS:  2451 | Send Failed: 0 | Response Failed: {failed}");
        assert_eq!((number_behind(&line(0), "Send TPS:"), number_behind(&line(0), "MPS:")), (Some(2451), None));
        assert!(without_failures(line(0)).is_ok() && without_failures(line(3)).is_err());
        assert!(without_failures("Consume Fail: 1".to_owned()).is_err());
    }
}
