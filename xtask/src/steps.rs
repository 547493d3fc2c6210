//! The steps of a run: each says what it does, how long it took, and what to do when a tool is missing.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Steps {
    root: PathBuf,
    started: Instant,
    done: Vec<Done>,
}

#[derive(Debug)]
struct Done {
    name: String,
    seconds: f64,
    outcome: &'static str,
}

impl Steps {
    pub(crate) fn new(root: PathBuf) -> Steps {
        Steps { root, started: Instant::now(), done: Vec::new() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs a command in the workspace.
    pub(crate) fn run(&mut self, name: &str, program: &str, arguments: &[&str]) -> Result<(), String> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.root);
        self.run_command(name, command)
    }

    /// Runs a command that the caller made.
    pub(crate) fn run_command(&mut self, name: &str, mut command: Command) -> Result<(), String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        println!("== {name}: {program} {}", words.join(" "));
        let begun = Instant::now();
        let result: Result<ExitStatus, String> =
            command.status().map_err(|error| format!("{name}: cannot start {program}: {error}"));
        let result = result.and_then(|status| match status.success() {
            true => Ok(()),
            false => Err(format!("{name} failed ({status}); to repeat it: {program} {}", words.join(" "))),
        });
        self.finish(name, begun, &result);
        result
    }

    /// Runs a check that returns its complaints and its notes.
    pub(crate) fn check(&mut self, name: &str, check: fn(&Path) -> Result<Findings, String>) -> Result<(), String> {
        println!("== {name}");
        let begun = Instant::now();
        let result = check(&self.root).and_then(|findings| {
            findings.notes.iter().for_each(|note| println!("note: {note}"));
            findings.complaints.iter().for_each(|complaint| println!("{complaint}"));
            match findings.complaints.len() {
                0 => Ok(()),
                count => Err(format!("{name}: {count} complaints")),
            }
        });
        self.finish(name, begun, &result);
        result
    }

    /// Records that a step did not run, and why.
    pub(crate) fn left_out(&mut self, name: &str, reason: &str) {
        println!("== {name}: LEFT OUT: {reason}");
        self.done.push(Done { name: name.to_owned(), seconds: 0.0, outcome: "LEFT OUT" });
    }

    fn finish(&mut self, name: &str, begun: Instant, result: &Result<(), String>) {
        let seconds = begun.elapsed().as_secs_f64();
        let outcome = if result.is_ok() { "ok" } else { "FAILED" };
        println!("== {name}: {outcome} in {seconds:.1} s");
        self.done.push(Done { name: name.to_owned(), seconds, outcome });
    }

    /// All steps once more with their times.
    pub(crate) fn summary(&self) {
        for done in &self.done {
            println!("{:>9} {:>8.1} s  {}", done.outcome, done.seconds, done.name);
        }
        let failed = self.done.iter().filter(|done| done.outcome == "FAILED").count();
        let passed = self.done.iter().filter(|done| done.outcome == "ok").count();
        println!("{:>18.1} s in all", self.started.elapsed().as_secs_f64());
        println!("{passed} passed, {failed} failed");
    }
}

/// What a check of the sources found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) complaints: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// True when a program can be found.
pub(crate) fn has_program(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(name).is_file())
}
