//! The process itself: signals, limits, memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use crate::wake::Bell;

/// Told from a foreign thread that the process shall stop; one core waits for it.
#[derive(Debug)]
pub struct StopSignal {
    bell: Arc<Bell>,
    asked: AtomicU32,
}

impl StopSignal {
    pub fn new() -> Arc<StopSignal> {
        Arc::new(StopSignal { bell: Bell::new(), asked: AtomicU32::new(0) })
    }

    /// Asks for a stop. Returns how often it was asked before.
    pub fn ask(&self) -> u32 {
        let before = self.asked.fetch_add(1, Ordering::SeqCst);
        self.bell.ring();
        before
    }

    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst) > 0
    }

    /// Waits, on the one core that may, until a stop was asked for.
    pub async fn asked(&self) {
        while !self.is_asked() {
            self.bell.rung(|| !self.is_asked()).await;
        }
    }
}

/// Lets SIGTERM and SIGINT ask for a stop; a second one ends the process at once with exit code 1. Call before any
/// other thread is started, so that all threads leave these signals to the one started here.
pub fn stop_on_signals(stop: Arc<StopSignal>) -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    crate::core::thread("signals", move || {
        while signals.wait().is_ok() {
            if stop.ask() > 0 {
                std::process::exit(1);
            }
        }
    })?;
    Ok(())
}

/// What another process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// It stands still until it is told to go on.
    Stop,
    GoOn,
    /// It ends when it has put its things in order.
    End,
}

/// Tells a process that this one started and has not waited for, so that no other one can have its id.
pub fn tell(pid: u32, pulse: Pulse) -> io::Result<()> {
    let signal = match pulse {
        Pulse::Stop => Signal::SIGSTOP,
        Pulse::GoOn => Signal::SIGCONT,
        Pulse::End => Signal::SIGTERM,
    };
    Ok(kill(Pid::from_raw(i32::try_from(pid).map_err(io::Error::other)?), signal)?)
}

/// Lets the process open as many files as it may.
pub fn raise_open_files_limit() -> io::Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}

/// Memory of this machine, in bytes.
pub fn memory_bytes_total() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    info.lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .map_or(1 << 30, |kib| kib << 10)
}

/// CPUs that this process may use.
pub fn cpu_count() -> u16 {
    std::thread::available_parallelism().map_or(1, |count| u16::try_from(count.get()).unwrap_or(u16::MAX))
}

/// The name of this host.
pub fn host_name() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "localhost".to_owned())
}
