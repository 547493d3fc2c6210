//! A run from end to end: an open loop sends, a consumer waits at the tail, on one clock.

use std::time::Duration;

use serde_json::json;

use crate::arguments::TailArgs;
use crate::clock::{RunClock, nanoseconds};
use crate::error::BenchError;
use crate::load::{Drive, RunningLoad};
use crate::produce::{body_bytes, check_rate, send_form, times, watch};
use crate::pull::{PullForm, RunningPulls};
use crate::report::{PullFigures, Report, SendFigures};
use crate::target::Target;

/// After the last message was answered, the consumer has so long to get it.
const ARRIVAL_TIME_MAX: Duration = Duration::from_secs(5);
const ARRIVAL_PERIOD: Duration = Duration::from_millis(10);
/// Gives the first pulls time to be parked at the broker.
const PARK_DELAY: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &TailArgs) -> Result<Report, BenchError> {
    let times = times(args.warmup, args.duration)?;
    check_rate(args.rate, times)?;
    let body_bytes = body_bytes(args.size)?;
    let mut target_args = args.target.clone();
    // The consumer begins where the queues end.
    target_args.no_offset_check = false;
    let target = Target::prepare(&target_args)?;
    let clock = RunClock::start();
    let start_ns = clock.now_ns() + nanoseconds(PARK_DELAY);
    let form = PullForm {
        encoding: target.encoding,
        topic: target.topic.clone(),
        count_max: args.pull_messages,
        at_tail: true,
        span_ns: times.span_ns(start_ns),
    };
    let pulls = RunningPulls::start(&target, &form, args.consumer_connections, &target.starts, None, clock)?;
    clock.sleep_until(start_ns);
    let drive = Drive::Rate { rate: args.rate, tick_ns: u64::from(args.tick_us) * 1000 };
    let form = send_form(&target, body_bytes);
    let running = RunningLoad::start(&target, &form, args.connections, drive, times, clock)?;
    let usage = watch(&running, target.server_pid);
    let finished = running.finish();
    let wanted = target.ends()?.iter().zip(&target.starts).map(|(end, start)| (end - start) as u64).sum();
    let limit_ns = clock.now_ns() + nanoseconds(ARRIVAL_TIME_MAX);
    while pulls.message_count() < wanted && !pulls.has_ended() && clock.now_ns() < limit_ns {
        clock.sleep(ARRIVAL_PERIOD);
    }
    let (sent, pulled) = (&finished.tally, pulls.finish());
    if sent.answered == 0 && sent.connections_lost > 0 {
        return Err(BenchError::ConnectionsLost { broker: target.broker.to_string() });
    }
    let mut report = Report::new(&args.target, "tail", &target);
    report.config("connections", json!(args.connections));
    report.config("consumer_connections", json!(args.consumer_connections));
    report.config("pull_messages", json!(args.pull_messages));
    report.config("body_bytes", json!(args.size));
    report.config("rate", json!(args.rate));
    report.tail(&PullFigures { tally: &pulled, wanted });
    report.send(&SendFigures { tally: sent, rate: Some(args.rate), body_bytes, ended_early: false });
    report.usage(&usage);
    Ok(report)
}
