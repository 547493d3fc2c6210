//! `kill9 [--rounds N] [--seed N] [--flush sync|async|both] [--no-damage]`: kills a broker under load, again and again.
//!
//! The last line is `N passed, N failed`, where a round counts one; the exit code is 0 only if none failed.

use std::process::ExitCode;

use harness::kill9::{Flush, Settings, run};

const ROUNDS: u32 = 5;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (rounds, seed, flushes, damage) = match parse(&arguments) {
        Ok(parsed) => parsed,
        Err(text) => {
            eprintln!("kill9: {text}\nusage: kill9 [--rounds N] [--seed N] [--flush sync|async|both] [--no-damage]");
            return ExitCode::from(2);
        }
    };
    println!("kill9: seed {seed}, {rounds} rounds each of {flushes:?}, program {}", harness::program::path().display());
    let (mut passed, mut failed) = (0, 0);
    for flush in flushes {
        let report = run(&Settings { flush, rounds, seed, damage, verbose: true });
        passed += report.rounds_passed;
        let (acknowledged, seen) = (report.acknowledged, report.seen);
        println!("{flush:?}: {acknowledged} acknowledged, {seen} seen by consumers, {} rounds", report.rounds_passed);
        if let Some(fault) = report.fault {
            failed += 1;
            println!("FAIL {fault}");
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(arguments: &[String]) -> Result<(u32, u64, Vec<Flush>, bool), String> {
    let (mut rounds, mut seed, mut flushes, mut damage) =
        (ROUNDS, harness::now_ms(), vec![Flush::Sync, Flush::Async], true);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--rounds" => rounds = value()?.parse().map_err(|_| "--rounds takes a number")?,
            "--seed" => seed = value()?.parse().map_err(|_| "--seed takes a number")?,
            "--no-damage" => damage = false,
            "--flush" => {
                flushes = match value()?.as_str() {
                    "sync" => vec![Flush::Sync],
                    "async" => vec![Flush::Async],
                    "both" => vec![Flush::Sync, Flush::Async],
                    other => return Err(format!("--flush is sync, async or both, not {other}")),
                }
            }
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok((rounds, seed, flushes, damage))
}
