//! `cargo xtask COMMAND`: everything that is run on the sources, and nothing that ships.

mod clients;
mod compat;
mod steps;
mod tidy;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use steps::Steps;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  ci                    format, clippy, tidy, build, all Rust tests, then the scripted tests (short)
  test [--quick]        only the tests; --quick leaves out the scripted ones
  tidy                  dependency direction, file sizes, unfinished code, locks, paths
  kill9 [--rounds N] [--seed N] [--flush sync|async|both] [--release]
                        kill -9 under load, again and again (default 50 rounds of each flush mode)
  soak [--seconds N] [--every N] [--flush sync|async] [--release]
                        official clients do everything at once while the broker is killed and restarted (30 minutes)
  crowd [--groups N] [--topics N] [--rounds N] [--release]
                        consumers of 1,000 groups come and go in waves beside a steady producer
  tails [--rounds N] [--only rolls|deletion|readers|writer] [--release]
                        p99.9 of a steady producer beside segment rolls, deletion, cold readers, and another process's writing
  verdicts [--tries N] [--rounds N] [--slower SHARE] [--release]
                        whether `ringmq bench compare` finds a tenth, and calls equal brokers equal (20 tries of both)
  clients [--only java|benchmarks|go]
                        the official Java and Go clients, and RocketMQ's own benchmarks, against a broker of their own
  compat [--seed N]     the same requests and filter expressions to Apache RocketMQ and to RingMQ; not part of ci";

/// Tests from outside that run at once: most of them wait most of the time, for timers, for leases, for a broker's end.
const WAITING_TESTS: &str = "5";

/// Rounds of kill -9 for a run by hand; the tests themselves do a few.
const KILL9_ROUNDS: &str = "50";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut steps = Steps::new(root());
    let result = match words.as_slice() {
        ["ci"] => ci(&mut steps),
        ["test"] => test(&mut steps, true),
        ["test", "--quick"] => test(&mut steps, false),
        ["tidy"] => steps.check("tidy", tidy::check),
        ["kill9", rest @ ..] => program(&mut steps, "kill9", &["--rounds", KILL9_ROUNDS], rest),
        ["crowd", rest @ ..] => program(&mut steps, "crowd", &[], rest),
        ["tails", rest @ ..] => program(&mut steps, "tails", &[], rest),
        ["verdicts", rest @ ..] => program(&mut steps, "verdicts", &[], rest),
        ["soak", rest @ ..] => program(&mut steps, "soak", &[], rest),
        ["clients", rest @ ..] => clients::run(&mut steps, rest),
        ["compat", rest @ ..] => compat::run(&mut steps, rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    steps.summary();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace: the folder above this crate.
fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// All of it. The first failure ends the run: what comes later would only repeat it.
fn ci(steps: &mut Steps) -> Result<(), String> {
    steps.run("format", "cargo", &["fmt", "--all", "--check"])?;
    steps.check("tidy", tidy::check)?;
    steps.run("clippy", "cargo", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    // What is behind it is in no usual build. It is looked at and not built: its 35 crates would be the longest of all.
    let with_png =
        ["clippy", "--package", "ringmq-bench", "--features", "png", "--all-targets", "--", "-D", "warnings"];
    steps.run("clippy of the PNG pictures", "cargo", &with_png)?;
    test(steps, true)
}

fn test(steps: &mut Steps, scripted: bool) -> Result<(), String> {
    steps.run("build", "cargo", &["build", "--workspace", "--bins"])?;
    steps.run("tests of the crates", "cargo", &["test", "--workspace", "--exclude", "ringmq-tests"])?;
    steps.run(
        "tests from outside",
        "cargo",
        &["test", "--package", "ringmq-tests", "--", "--test-threads", WAITING_TESTS],
    )?;
    on_glommio(steps)?;
    if scripted { clients::run(steps, &[]) } else { Ok(()) }
}

/// The tests that move most data once more on the other reactor, where the kind of reactor shows.
fn on_glommio(steps: &mut Steps) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command.args(["test", "--package", "ringmq-tests", "--test", "offsets", "--test", "durability"]);
    command.args(["--", "--test-threads", WAITING_TESTS]);
    command.env("RINGMQ_REACTOR", "glommio").current_dir(steps.root());
    steps.run_command("tests on glommio", command)
}

/// A program of the tests, which are debug builds unless `--release` is among the arguments.
fn program(steps: &mut Steps, name: &str, defaults: &[&str], rest: &[&str]) -> Result<(), String> {
    let release = rest.contains(&"--release");
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    let mut arguments = vec!["run", "--quiet", "--package", "ringmq-tests", "--bin", name];
    arguments.extend(profile);
    arguments.push("--");
    arguments.extend(defaults);
    // What is given by hand comes later and wins.
    arguments.extend(rest.iter().filter(|argument| **argument != "--release"));
    steps.run(name, "cargo", &arguments)
}
