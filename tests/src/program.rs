//! Where the program under test is, and short runs of it that end by themselves.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// How a program of this crate ends: whether what it tried came out as it should, or why it could not try.
pub fn exit_code(outcome: Result<bool, String>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            println!("FAIL {reason}");
            ExitCode::FAILURE
        }
    }
}

/// The program: `RINGMQ_BIN`, or the one of this test's own profile, brought up to date first.
///
/// # Panics
/// When it cannot be built: no test could say anything then.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os("RINGMQ_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // A test lies in TARGET/PROFILE/deps, a binary of this package in TARGET/PROFILE.
    let profile_folder = test
        .ancestors()
        .skip(1)
        .find(|folder| folder.file_name().is_some_and(|name| name != "deps"))
        .expect("a test lies in a target folder");
    let profile = profile_folder.file_name().expect("a profile folder has a name").to_string_lossy();
    let target_folder = profile_folder.parent().expect("a profile folder lies in a target folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the workspace");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--package", "ringmq-cli", "--bin", "ringmq", "--profile"])
        .arg(if profile == "debug" { "dev" } else { &*profile })
        .arg("--target-dir")
        .arg(target_folder)
        .current_dir(root)
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "cargo could not build ringmq: {status}");
    profile_folder.join("ringmq")
}

/// How a run ended.
#[derive(Debug)]
pub struct Finished {
    /// None when it had to be killed, or was ended by a signal.
    pub code: Option<i32>,
    pub timed_out: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// What it printed, on both streams.
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Runs the program with arguments until it ends; kills it after `wait`.
pub fn run(arguments: &[&str], wait: Duration) -> Finished {
    let mut command = Command::new(path());
    command.args(arguments);
    run_command(command, wait)
}

/// As [`run`] for a command made by the caller.
///
/// # Panics
/// When the command cannot be started.
pub fn run_command(mut command: Command, wait: Duration) -> Finished {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let stdout = collect(child.stdout.take().expect("stdout is a pipe"));
    let stderr = collect(child.stderr.take().expect("stderr is a pipe"));
    let (code, timed_out) = wait_or_kill(&mut child, wait);
    Finished {
        code,
        timed_out,
        stdout: stdout.join().expect("the reader of stdout does not panic"),
        stderr: stderr.join().expect("the reader of stderr does not panic"),
    }
}

/// Sends a signal, such as `TERM`, to a process of ours.
///
/// # Panics
/// When it cannot be sent.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -{name} {pid}");
}

/// The exit code, and whether the process had to be killed for it.
pub fn wait_or_kill(child: &mut Child, wait: Duration) -> (Option<i32>, bool) {
    let deadline = Instant::now() + wait;
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return (status.code(), false);
        }
        if Instant::now() >= deadline {
            child.kill().expect("a child of ours can be killed");
            child.wait().expect("a killed child ends");
            return (None, true);
        }
        // The standard library offers no wait with a limit; an exit is seen at most this much later.
        thread::sleep(Duration::from_millis(5));
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A broken pipe ends the text; what came before it is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
