//! `soak [--seconds N] [--every N] [--flush sync|async]`: official clients do everything at once while the broker is ended
//! and started again, by turns with SIGKILL and SIGTERM; then everything acknowledged has to arrive.
//!
//! What must be true is known by the Java program, `tests/java/src/main/java/ringmq/soak`. The exit code is its own.

use std::io::{BufRead, BufReader};
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::official::Client;
use harness::process::Dev;
use harness::program;
use harness::unique_name;

const SECONDS: u64 = 1800;
/// Seconds from one end of the broker to the next.
const EVERY: u64 = 60;
/// The broker stays for good this long before the load ends.
const LAST_CALM: Duration = Duration::from_secs(10);
/// How long the broker is away.
const AWAY: Duration = Duration::from_secs(2);

struct Settings {
    seconds: u64,
    every: u64,
    flush: &'static str,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let settings = match parse(&arguments) {
        Ok(settings) => settings,
        Err(text) => {
            eprintln!("soak: {text}\nusage: soak [--seconds N] [--every N] [--flush sync|async]");
            return ExitCode::from(2);
        }
    };
    program::exit_code(run(&settings))
}

fn parse(arguments: &[String]) -> Result<Settings, String> {
    let mut settings = Settings { seconds: SECONDS, every: EVERY, flush: "SYNC_FLUSH" };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next().ok_or(format!("{argument} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("{argument} takes a number, not {value}"));
        match argument.as_str() {
            "--seconds" => settings.seconds = number()?,
            "--every" => settings.every = number()?,
            "--flush" if value == "sync" => settings.flush = "SYNC_FLUSH",
            "--flush" if value == "async" => settings.flush = "ASYNC_FLUSH",
            other => return Err(format!("{other} {value} is unknown")),
        }
    }
    Ok(settings)
}

/// Whether the clients found everything right.
fn run(settings: &Settings) -> Result<bool, String> {
    let client = Client::java("ringmq.soak.Soak")?;
    let dev = Dev::new("soak")
        .property(&format!("flushDiskType={}", settings.flush))
        .property("enablePropertyFilter=true")
        .property("timerWheelEnable=true")
        .property("transactionTimeOut=2000")
        .property("transactionCheckInterval=3000");
    let mut broker = dev.try_start()?;
    let mut command = client.command();
    command.args([&dev.namesrv, &dev.broker, &unique_name("run"), &settings.seconds.to_string()]);
    let mut clients = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let lines = BufReader::new(clients.stdout.take().expect("stdout is a pipe")).lines();
    let (tell_started, started) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            println!("{line}");
            if line == "STARTED" {
                // Nobody may be waiting any more.
                let _ = tell_started.send(());
            }
        }
    });
    let begun = started.recv().map(|()| Instant::now());
    let calm = Duration::from_secs(settings.seconds).saturating_sub(LAST_CALM);
    if let Ok(begun) = begun {
        for number in 1.. {
            let due = Duration::from_secs(settings.every * number);
            if due >= calm || clients.try_wait().is_ok_and(|ended| ended.is_some()) {
                break;
            }
            thread::sleep(due.saturating_sub(begun.elapsed()));
            if !broker.is_alive() {
                return Err(format!("the broker has ended by itself:\n{}", broker.log()));
            }
            let how = if number % 2 == 1 {
                broker.kill();
                "SIGKILL".to_owned()
            } else {
                format!("SIGTERM, exit code {:?}", broker.stop())
            };
            thread::sleep(AWAY);
            broker = dev.try_start()?;
            println!("{:.0} s: {how}, started again", begun.elapsed().as_secs_f64());
        }
    }
    let status = clients.wait().map_err(|error| format!("the clients' end: {error}"))?;
    reader.join().expect("the reader does not panic");
    if !status.success() {
        println!("---- log of the broker ----\n{}\n---- end of log ----", broker.log());
    }
    Ok(status.success())
}
