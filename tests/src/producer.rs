//! An open-loop producer that is a process of its own, its figures, and who goes first on the CPUs.

use std::fmt;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::program;

/// What the commands of a producer and of its broker begin with.
#[derive(Clone, Copy, Debug)]
pub struct First {
    pub producer: &'static [&'static str],
    pub broker: &'static [&'static str],
}

impl First {
    pub const NOBODY: First = First { producer: &[], broker: &[] };

    /// Real-time priorities where this process may give them (`chrt`, as root): the producer goes before its broker, and
    /// that before all others.
    pub fn allowed() -> First {
        const WANTED: First = First { producer: &["chrt", "--rr", "3"], broker: &["chrt", "--rr", "2"] };
        let tried = command(WANTED.producer).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if tried.is_ok_and(|status| status.success()) { WANTED } else { First::NOBODY }
    }

    pub fn is_anybody(&self) -> bool {
        !self.broker.is_empty()
    }

    /// Lets this thread go behind the two, and before all others. To a thread without real-time priority that finds no CPU
    /// the kernel gives 50 ms of each second in one piece, which would be felt as if the broker stood still.
    ///
    /// # Errors
    /// When there is no such thread any more, or `chrt` failed.
    pub fn follow(&self) -> Result<(), String> {
        if !self.is_anybody() {
            return Ok(());
        }
        let failed = |error| format!("chrt: {error}");
        let thread = fs::read_link("/proc/thread-self").map_err(failed)?;
        let id = thread.file_name().expect("a thread has a number");
        let status = Command::new("chrt").args(["--rr", "--pid", "1"]).arg(id).status().map_err(failed)?;
        if status.success() { Ok(()) } else { Err(format!("chrt: {status}")) }
    }
}

/// The program, behind other words.
pub fn command(before: &[&str]) -> Command {
    let program = program::path();
    match before {
        [] => Command::new(program),
        [name, more @ ..] => {
            let mut command = Command::new(name);
            command.args(more).arg(program);
            command
        }
    }
}

/// A steady rate of messages.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub rate: u32,
    /// How long it is measured, after a time of warming up.
    pub span: Duration,
    pub warmup: Duration,
    pub body_bytes: usize,
}

impl Load {
    /// Begins to send.
    ///
    /// # Errors
    /// When the producer cannot be started.
    pub fn start(&self, first: First, broker: &str, more: &[&str]) -> Result<Producer, String> {
        let [rate, body_bytes] = [u64::from(self.rate), self.body_bytes as u64].map(|number| number.to_string());
        let [warmup, span] = [self.warmup, self.span].map(|span| span.as_secs().to_string());
        let child = command(first.producer)
            .args(["bench", "send", "--broker", broker, "--rate", &rate, "--size", &body_bytes])
            .args(["--warmup", &warmup, "--duration", &span])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("the producer cannot be started: {error}"))?;
        Ok(Producer { child })
    }
}

/// A producer at work.
#[derive(Debug)]
pub struct Producer {
    child: Child,
}

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
}

impl Producer {
    /// Waits for its end.
    ///
    /// # Errors
    /// What it said instead of figures.
    pub fn figures(self) -> Result<Figures, String> {
        let output = self.child.wait_with_output().map_err(|error| format!("the producer: {error}"))?;
        let run: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| format!("the producer's run: {error}"))?;
        let figure = |name: &str| {
            let micros = run["figures"]["latency_us"][name].as_f64();
            micros.map(|micros| micros / 1000.0).ok_or_else(|| format!("the producer's run has no {name}: {run}"))
        };
        Ok(Figures { p50: figure("p50")?, p99: figure("p99")?, p999: figure("p99_9")? })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms", self.p50, self.p99, self.p999)
    }
}
