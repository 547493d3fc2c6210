//! The official Java and Go clients, and RocketMQ's own benchmark programs, against a broker of their own: the programs are in
//! `tests/java`, `tests/java-bench` and `tests/go`.
//!
//! On a developer's machine a client whose tools are missing is left out, loudly; with `CI=true` that is a failure.

use std::process::Command;

use crate::steps::{Steps, has_program};

struct Client {
    name: &'static str,
    /// Programs that must be there, each with how to get it.
    needs: &'static [(&'static str, &'static str)],
}

const JAVA: [(&str, &str); 2] =
    [("java", "a JDK 11 or newer: apt-get install openjdk-17-jdk-headless"), ("mvn", "Maven: apt-get install maven")];

const CLIENTS: [Client; 3] = [
    Client { name: "java", needs: &JAVA },
    Client { name: "benchmarks", needs: &JAVA },
    Client { name: "go", needs: &[("go", "Go 1.23 or newer: https://go.dev/dl, or apt-get install golang-go")] },
];

pub(crate) fn run(steps: &mut Steps, arguments: &[&str]) -> Result<(), String> {
    let only = match arguments {
        [] => None,
        ["--only", name] if CLIENTS.iter().any(|client| client.name == *name) => Some(*name),
        other => return Err(format!("clients takes `--only java`, `--only benchmarks` or `--only go`, not {other:?}")),
    };
    let required = std::env::var("CI").is_ok_and(|value| value == "true");
    for client in CLIENTS.iter().filter(|client| only.is_none_or(|only| only == client.name)) {
        let step = format!("official client, {}", client.name);
        let missing: Vec<&(&str, &str)> = client.needs.iter().filter(|(program, _)| !has_program(program)).collect();
        if !missing.is_empty() {
            let lines: Vec<String> =
                missing.iter().map(|(program, how)| format!("`{program}` is not on this machine ({how})")).collect();
            if required || only.is_some() {
                return Err(format!("{step}: {}", lines.join("; ")));
            }
            steps.left_out(&step, &lines.join("; "));
            continue;
        }
        let mut command = Command::new("cargo");
        command.args(["run", "--quiet", "--package", "ringmq-tests", "--bin", "clients", "--", client.name]);
        command.current_dir(steps.root());
        steps.run_command(&step, command)?;
    }
    Ok(())
}
