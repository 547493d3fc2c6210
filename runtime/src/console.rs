//! Lines for people, on the standard streams of the process.
//!
//! A reader that went away, or a full disk under a log file, is no reason for a server to end: what cannot be written is
//! dropped. The macros of the standard library would panic.

use std::fmt::Arguments;
use std::io::{self, Write};

/// A line on stderr.
pub fn tell(line: Arguments<'_>) {
    // In one piece, so that lines of several threads and processes do not mix.
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// A line on stdout, which scripts may wait for.
pub fn announce(line: Arguments<'_>) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
}
