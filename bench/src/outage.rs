//! A command that takes the target away and brings it back while a phase is measured.

use std::process::{Child, Command, Stdio};

/// It is started when this share of the measured span is over: what was before is left to compare with, and there is time
/// to recover.
const BEGINS_AT: f64 = 1.0 / 3.0;

#[derive(Debug)]
pub(crate) struct Outage {
    /// For the shell.
    command: String,
    /// Its time in the phase that runs has come.
    begun: bool,
    child: Option<Child>,
}

impl Outage {
    pub(crate) fn new(command: &str) -> Outage {
        Outage { command: command.to_owned(), begun: false, child: None }
    }

    /// Starts the command once its time in the phase has come.
    pub(crate) fn look(&mut self, share_over: f64) {
        if share_over < BEGINS_AT || std::mem::replace(&mut self.begun, true) {
            return;
        }
        let started =
            Command::new("sh").arg("-c").arg(&self.command).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        match started {
            Ok(child) => self.child = Some(child),
            Err(error) => runtime::console::tell(format_args!("the outage command cannot be started: {error}")),
        }
    }

    /// The phase is over. Tells of a command that failed; one that still runs is left alone.
    pub(crate) fn finish(&mut self) {
        self.begun = false;
        if let Some(Ok(Some(status))) = self.child.take().map(|mut child| child.try_wait())
            && !status.success()
        {
            runtime::console::tell(format_args!("the outage command failed ({status}): {}", self.command));
        }
    }
}
