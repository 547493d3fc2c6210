//! A run of sends: as many as the window allows, or at a rate.

use std::sync::atomic::Ordering;
use std::time::Duration;

use remoting::text::Text;
use serde_json::json;

use crate::arguments::SendArgs;
use crate::clock::{RunClock, nanoseconds};
use crate::error::BenchError;
use crate::load::{Drive, RunningLoad, Times};
use crate::machine::{Memory, Snapshot};
use crate::open_loop::MESSAGES_MAX;
use crate::payload::BODY_BYTES_MIN;
use crate::report::{Report, SendFigures};
use crate::target::Target;
use crate::template::SendForm;

pub(crate) const PRODUCER_GROUP: &str = "bench_producer";
/// The largest body: that of a broker without configuration.
const BODY_BYTES_MAX: usize = 4 << 20;
/// How often the server's memory is looked at.
const MEMORY_PERIOD: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &SendArgs) -> Result<Report, BenchError> {
    let times = times(args.warmup, args.duration)?;
    let body_bytes = body_bytes(args.size)?;
    let drive = drive(args)?;
    if let Some(rate) = args.rate {
        check_rate(rate, times)?;
    }
    let target = Target::prepare(&args.target)?;
    let form = send_form(&target, body_bytes);
    let clock = RunClock::start();
    let running = RunningLoad::start(&target, &form, args.connections, drive, times, clock)?;
    let usage = watch(&running, target.server_pid);
    let finished = running.finish();
    let tally = &finished.tally;
    if tally.answered == 0 && tally.connections_lost > 0 {
        return Err(BenchError::ConnectionsLost { broker: target.broker.to_string() });
    }
    let mode = if args.rate.is_some() { "send-open" } else { "send-closed" };
    let mut report = Report::new(&args.target, mode, &target);
    report.config("connections", json!(args.connections));
    report.config("body_bytes", json!(args.size));
    match args.rate {
        Some(rate) => report.config("rate", json!(rate)),
        None => report.config("window", json!(args.window)),
    }
    report.send(&SendFigures { tally, rate: args.rate, body_bytes, ended_early: finished.ended_early });
    report.usage(&usage);
    Ok(report)
}

fn drive(args: &SendArgs) -> Result<Drive, BenchError> {
    match args.rate {
        Some(_) if args.messages.is_some() => Err(usage("--messages goes without --rate only")),
        Some(rate) => Ok(Drive::Rate { rate, tick_ns: u64::from(args.tick_us) * 1000 }),
        None => Ok(Drive::Window { messages: args.window.into(), messages_max: args.messages.unwrap_or(u64::MAX) }),
    }
}

/// Whether a run at that rate is possible.
pub(crate) fn check_rate(rate: u32, times: Times) -> Result<(), BenchError> {
    if rate == 0 {
        return Err(usage("--rate must be at least 1 message a second"));
    }
    let messages = (times.warmup + times.duration).as_secs_f64() * f64::from(rate);
    if messages >= MESSAGES_MAX as f64 {
        return Err(BenchError::Usage {
            what: format!("{messages:.0} messages in one run; {MESSAGES_MAX} are possible"),
        });
    }
    Ok(())
}

pub(crate) fn usage(what: &str) -> BenchError {
    BenchError::Usage { what: what.to_owned() }
}

pub(crate) fn times(warmup_s: f64, duration_s: f64) -> Result<Times, BenchError> {
    let span = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    match (span(warmup_s), span(duration_s)) {
        (Some(warmup), Some(duration)) if !duration.is_zero() => Ok(Times { warmup, duration }),
        _ => Err(usage("--duration must be seconds above 0, --warmup seconds")),
    }
}

pub(crate) fn body_bytes(size: u32) -> Result<usize, BenchError> {
    let bytes = size as usize;
    if (BODY_BYTES_MIN..=BODY_BYTES_MAX).contains(&bytes) {
        return Ok(bytes);
    }
    Err(BenchError::Usage { what: format!("--size {size} is not within {BODY_BYTES_MIN} and {BODY_BYTES_MAX}") })
}

pub(crate) fn send_form(target: &Target, body_bytes: usize) -> SendForm {
    SendForm {
        encoding: target.encoding,
        group: Text::from_static(PRODUCER_GROUP),
        topic: target.topic.clone(),
        body_bytes,
        run: target.run,
    }
}

/// What generator, server and machine used in the measured span.
pub(crate) struct Watched {
    pub(crate) from: Snapshot,
    pub(crate) to: Snapshot,
    /// The most that the server had.
    pub(crate) memory: Option<Memory>,
}

/// Waits for the end of the measured span, or of the load before it, and looks at the processes meanwhile.
pub(crate) fn watch(running: &RunningLoad, server_pid: Option<u32>) -> Watched {
    let load = &running.load;
    let (clock, span_ns) = (load.clock, running.span_ns());
    let snapshot = || Snapshot::take(clock.now_ns(), load.answered.load(Ordering::Relaxed), server_pid);
    while clock.now_ns() < span_ns.start && !running.has_ended() {
        clock.sleep_until((clock.now_ns() + nanoseconds(MEMORY_PERIOD)).min(span_ns.start));
    }
    let from = snapshot();
    let mut memory = None;
    while clock.now_ns() < span_ns.end && !running.has_ended() {
        memory = look_at_memory(memory, server_pid);
        clock.sleep_until((clock.now_ns() + nanoseconds(MEMORY_PERIOD)).min(span_ns.end));
    }
    let to = snapshot();
    Watched { from, to, memory: look_at_memory(memory, server_pid) }
}

/// The most memory of what was seen and what is there now.
pub(crate) fn look_at_memory(seen: Option<Memory>, server_pid: Option<u32>) -> Option<Memory> {
    let now = server_pid.and_then(|pid| Memory::of(&pid.to_string()).ok());
    now.map(|now| seen.unwrap_or(now).max(now)).or(seen)
}
