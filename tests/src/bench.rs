//! Runs of `ringmq bench`, and what is left of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::program::{self, Finished};

pub const EXIT_OK: i32 = 0;
pub const EXIT_USAGE: i32 = 2;
pub const EXIT_CONFIGURATION: i32 = 3;
pub const EXIT_SILENCE: i32 = 4;
pub const EXIT_PARTIAL: i32 = 5;
pub const EXIT_VOID: i32 = 6;
pub const RUN_WITHIN: Duration = Duration::from_secs(120);

/// `ringmq bench` with arguments, a target and a folder for results.
pub fn bench(arguments: &[&str], broker: &str, out: &Path) -> Command {
    let mut command = Command::new(program::path());
    command.arg("bench").args(arguments).args(["--broker", broker, "--out"]).arg(out);
    command
}

/// Carries it out.
pub fn run(arguments: &[&str], broker: &str, out: &Path) -> Finished {
    program::run_command(bench(arguments, broker, out), RUN_WITHIN)
}

/// `run.json` of a run folder.
///
/// # Panics
/// When there is none.
pub fn record(out: &Path) -> Value {
    let text = fs::read_to_string(out.join("run.json")).expect("a run leaves run.json");
    serde_json::from_str(&text).expect("it is JSON")
}

/// On a busy machine the generator may fall behind: that is told, and is no fault of the program.
///
/// # Panics
/// When a run ended otherwise.
pub fn assert_clean_or_void(finished: &Finished) {
    let code = finished.code;
    assert!(code == Some(EXIT_OK) || code == Some(EXIT_VOID), "{code:?}: {}", finished.text());
}

/// Of the files of a folder, those that end so.
///
/// # Panics
/// When there is no such folder.
pub fn ending(out: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(out).expect("the folder is there").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    found.sort();
    found
}

/// A figure.
///
/// # Panics
/// When it is no number.
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is a number"))
}
