//! RingMQ beside Apache RocketMQ: the same requests and filter expressions to both, and what their answers differ in.

use std::process::Command;

use crate::steps::{Steps, has_program};

/// Where the drawn filter expressions go, with Apache's verdicts.
const DRAWN: &str = "ringmq-sql92.tsv";

pub(crate) fn run(steps: &mut Steps, arguments: &[&str]) -> Result<(), String> {
    let seed = match arguments {
        [] => "1",
        ["--seed", seed] => *seed,
        other => return Err(format!("compat takes `--seed N`, not {other:?}")),
    };
    if !has_program("java") {
        return Err(
            "compat: `java` is not on this machine (a JDK 11 or newer: apt-get install openjdk-17-jdk-headless)"
                .to_owned(),
        );
    }
    let compat = ["run", "--quiet", "--package", "ringmq-tests", "--bin", "compat", "--"];
    let drawn = std::env::temp_dir().join(DRAWN);
    let file = drawn.to_string_lossy().into_owned();
    steps.run(
        "filter expressions, Apache's verdicts",
        "cargo",
        &[&compat[..], &["sql92", &file, "--seed", seed]].concat(),
    )?;
    let mut command = Command::new("cargo");
    command.args(["test", "--quiet", "--package", "ringmq-broker", "--lib", "filter::corpus_tests"]);
    command.env("RINGMQ_FILTER_CORPUS", &drawn).current_dir(steps.root());
    steps.run_command("filter expressions, RingMQ's verdicts", command)?;
    steps.run("replies", "cargo", &[&compat[..], &["replies"]].concat())?;
    steps.run("stores of Apache's, imported", "cargo", &[&compat[..], &["import"]].concat())
}
