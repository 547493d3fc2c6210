//! `clients java|go`: builds a program that uses an official client and runs it against a broker of its own, with a
//! restart of the broker in the middle. `clients benchmarks`: RocketMQ's own benchmark programs, each for a few seconds.
//!
//! The last line is `N passed, N failed`; the exit code is 0 only if none failed. With `RINGMQ_TEST_TARGET` the given
//! servers are used and not restarted.

use std::process::{ExitCode, Stdio};

use harness::benchmarks;
use harness::official::Client;
use harness::process::Dev;
use harness::target::TARGET_VARIABLE;
use harness::{left_out, unique_name};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let counts = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["java"] => Client::java("ringmq.Main").and_then(|client| run(&client)),
        ["go"] => Client::go().and_then(|client| run(&client)),
        ["benchmarks"] => benchmarks::run().map(|[passed, failed]| Counts { passed, failed }),
        _ => {
            eprintln!("usage: clients java|go|benchmarks");
            return ExitCode::from(2);
        }
    };
    match counts {
        Ok(Counts { passed, failed }) => {
            println!("{passed} passed, {failed} failed");
            if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(reason) => {
            println!("FAIL {reason}\n0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
struct Counts {
    passed: u32,
    failed: u32,
}

fn run(client: &Client) -> Result<Counts, String> {
    let name = unique_name("run");
    let mut counts = Counts::default();
    if let Ok(addresses) = std::env::var(TARGET_VARIABLE) {
        let (namesrv, broker) = addresses.split_once(',').ok_or("RINGMQ_TEST_TARGET is `namesrv,broker`")?;
        left_out("restart", "the given servers are not ours to restart");
        for phase in ["before", "after"] {
            run_phase(client, namesrv, broker, &name, phase, &mut counts)?;
        }
        return Ok(counts);
    }
    let dev = Dev::new("clients");
    for phase in ["before", "after"] {
        let mut running = dev.try_start()?;
        run_phase(client, &dev.namesrv, &dev.broker, &name, phase, &mut counts)?;
        if counts.failed > 0 {
            println!("---- log of the broker ----\n{}\n---- end of log ----", running.log());
            return Ok(counts);
        }
        match running.stop() {
            Some(0) => {}
            other => return Err(format!("the broker ended with {other:?} after SIGTERM:\n{}", running.log())),
        }
    }
    Ok(counts)
}

/// Runs one phase, shows its lines, and adds the counts of its last line.
fn run_phase(
    client: &Client,
    namesrv: &str,
    broker: &str,
    run: &str,
    phase: &str,
    counts: &mut Counts,
) -> Result<(), String> {
    let mut command = client.command();
    command.args([namesrv, run, phase]);
    command.env("RINGMQ_BROKER", broker).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let last = text.lines().last().unwrap_or_default();
    let numbers: Vec<u32> = last.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    let [passed, failed] = numbers[..] else {
        return Err(format!("the last line of {phase} is {last:?}, not `N passed, N failed`; {}", output.status));
    };
    counts.passed += passed;
    counts.failed += failed;
    Ok(())
}
