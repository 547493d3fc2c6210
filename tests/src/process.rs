//! A server process of a test's own: its log is kept, its lines can be awaited, and it dies with the value.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::folder::{Folder, listing};
use crate::ports::free_address;
use crate::program;

/// How long a server may take to say that it is ready. A debug build on a busy machine is slow.
pub const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a server may take to end after SIGTERM: its own limit for draining is 30 s.
pub const END_WITHIN: Duration = Duration::from_secs(45);

/// How long the last lines of a process that ended may take to be read.
const LOG_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Log {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    all: Vec<String>,
    pipes_closed: u32,
}

/// A running process. Dropping it kills it; when the thread is panicking its log is printed first.
#[derive(Debug)]
pub struct Running {
    child: Child,
    log: Arc<Log>,
    started: Instant,
}

impl Running {
    /// Starts the program under test with arguments.
    pub fn start<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Running {
        let mut command = Command::new(program::path());
        command.args(arguments);
        Running::start_command(command)
    }

    /// Starts a command made by the caller.
    ///
    /// # Panics
    /// When the command cannot be started.
    pub fn start_command(mut command: Command) -> Running {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let log = Arc::new(Log::default());
        read_lines(child.stdout.take().expect("stdout is a pipe"), Arc::clone(&log));
        read_lines(child.stderr.take().expect("stderr is a pipe"), Arc::clone(&log));
        Running { child, log, started: Instant::now() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A figure of its memory as the kernel tells it: `VmRSS`, `VmHWM`, `RssAnon`, `RssFile`.
    ///
    /// # Panics
    /// When the process has ended, or there is no such figure.
    pub fn memory_mib(&self, figure: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the process runs");
        let line = status.lines().find(|line| line.starts_with(figure)).expect("it has memory");
        let kib: u64 = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number of KiB");
        kib >> 10
    }

    pub fn log(&self) -> String {
        self.lock().all.join("\n")
    }

    /// Waits for a line that contains `text`.
    ///
    /// # Errors
    /// The log, when the process ended or the time passed without such a line.
    pub fn await_line(&self, text: &str, wait: Duration) -> Result<String, String> {
        let deadline = Instant::now() + wait;
        let mut seen = 0;
        let mut lines = self.lock();
        loop {
            if let Some(line) = lines.all[seen..].iter().find(|line| line.contains(text)) {
                return Ok(line.clone());
            }
            seen = lines.all.len();
            let left = deadline.saturating_duration_since(Instant::now());
            if lines.pipes_closed == 2 || left.is_zero() {
                let what = if left.is_zero() { "did not come in time" } else { "did not come before the end" };
                return Err(format!("the line {text:?} {what}. The log:\n{}", lines.all.join("\n")));
            }
            lines = self.log.changed.wait_timeout(lines, left).expect("no reader panics with the lock held").0;
        }
    }

    /// Waits until a broker is ready, and returns how long it took from the start of the process.
    ///
    /// # Errors
    /// The log, when it does not get ready.
    pub fn await_ready(&self) -> Result<Duration, String> {
        self.await_line("The broker[", READY_WITHIN)?;
        self.await_line("READY in", READY_WITHIN)?;
        Ok(self.started.elapsed())
    }

    /// True while the process has not ended.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Waits for the end: the exit code, or None if it had to be killed, or was ended by a signal. Its log is whole then.
    pub fn await_end(&mut self, wait: Duration) -> Option<i32> {
        let code = program::wait_or_kill(&mut self.child, wait).0;
        let lines = self.lock();
        let is_open = |lines: &mut Lines| lines.pipes_closed < 2;
        // A process that it left behind may keep the pipes open.
        let whole = self.log.changed.wait_timeout_while(lines, LOG_WITHIN, is_open);
        drop(whole.expect("no reader panics with the lock held"));
        code
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) {
        // An error here only means that it has already ended.
        let _ = self.child.kill();
        self.child.wait().expect("a killed child ends");
    }

    /// SIGTERM, and waits for the end: the exit code, or None if it had to be killed.
    pub fn stop(&mut self) -> Option<i32> {
        program::signal(self.pid(), "TERM");
        self.await_end(END_WITHIN)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.log.lines.lock().expect("no reader panics with the lock held")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("---- log of process {} ----\n{}\n---- end of log ----", self.pid(), self.log());
        }
    }
}

fn read_lines(pipe: impl Read + Send + 'static, log: Arc<Log>) {
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            log.lines.lock().expect("no reader panics with the lock held").all.push(line);
            log.changed.notify_all();
            bytes.clear();
        }
        log.lines.lock().expect("no reader panics with the lock held").pipes_closed += 1;
        log.changed.notify_all();
    });
}

/// How a `ringmq dev` process is started: the same values start it again on the same store and the same ports.
#[derive(Debug)]
pub struct Dev {
    pub namesrv: String,
    pub broker: String,
    pub cores: u32,
    pub logs: u32,
    /// `KEY=VALUE` broker properties.
    pub properties: Vec<String>,
    folder: Folder,
}

impl Dev {
    /// Two cores, four logs, small segments: what passes here crosses cores, logs and file ends. Messages stay, also when
    /// the machine's disk is nearly full.
    pub fn new(stem: &str) -> Dev {
        let properties =
            ["mapedFileSizeCommitLog=4194304", "waitTimeMillsInSendQueue=5000", "cleanFileForciblyEnable=false"];
        Dev {
            namesrv: free_address(),
            broker: free_address(),
            cores: 2,
            logs: 4,
            properties: properties.map(String::from).to_vec(),
            folder: Folder::new(stem),
        }
    }

    pub fn property(mut self, key_and_value: &str) -> Dev {
        let key = key_and_value.split('=').next().expect("split gives at least one part").to_owned() + "=";
        self.properties.retain(|property| !property.starts_with(&key));
        self.properties.push(key_and_value.to_owned());
        self
    }

    /// With the broker's own defaults.
    pub fn without_properties(mut self) -> Dev {
        self.properties.clear();
        self
    }

    /// The folder given as `--dir`.
    pub fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = ["dev", "--dir", &self.store().to_string_lossy()].map(String::from).to_vec();
        arguments.extend(["--namesrv-listen", &self.namesrv, "--broker-listen", &self.broker].map(String::from));
        arguments.extend(["--cores".into(), self.cores.to_string(), "--logs".into(), self.logs.to_string()]);
        arguments.extend(self.properties.iter().cloned());
        arguments
    }

    /// The files of the store whose names are offsets, in folders of this name: `commitlog` or `queues`.
    pub fn numbered_files(&self, folder: &str) -> Vec<PathBuf> {
        let is_wanted = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.len() == 20)
                && path.parent().is_some_and(|parent| parent.ends_with(folder))
        };
        listing(&self.store()).into_iter().map(|name| self.store().join(name)).filter(is_wanted).collect()
    }

    /// Makes all segments look two hours old. Those that are written to become young again.
    ///
    /// # Panics
    /// When a time cannot be set.
    pub fn age_segments(&self) {
        let before = SystemTime::now() - Duration::from_secs(7200);
        for path in self.numbered_files("commitlog") {
            let file = File::options().write(true).open(&path);
            file.and_then(|file| file.set_modified(before))
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }

    /// Starts the process and waits until it is ready.
    ///
    /// # Errors
    /// The process's log, when it does not get ready.
    pub fn try_start(&self) -> Result<Running, String> {
        let running = Running::start(&self.arguments());
        running.await_ready()?;
        Ok(running)
    }

    /// As [`Dev::try_start`].
    ///
    /// # Panics
    /// When the process does not get ready.
    pub fn start(&self) -> Running {
        self.try_start().unwrap_or_else(|log| panic!("ringmq is not ready: {log}"))
    }
}
