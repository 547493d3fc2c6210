//! A run that reads a topic from its first message to the end it had when the run began.

use std::time::Duration;

use serde_json::json;

use crate::arguments::ConsumeArgs;
use crate::clock::{RunClock, nanoseconds};
use crate::error::BenchError;
use crate::machine::Snapshot;
use crate::produce::{Watched, look_at_memory, times, usage};
use crate::pull::{PullForm, RunningPulls};
use crate::report::{PullFigures, Report};
use crate::target::Target;

/// How often it is looked whether the run is through, and at the server's memory.
const PERIOD: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &ConsumeArgs) -> Result<Report, BenchError> {
    if args.target.topic.is_none() {
        return Err(usage("consume needs --topic: one that was sent to before"));
    }
    let duration = times(0.0, args.duration)?.duration;
    let mut target_args = args.target.clone();
    (target_args.no_create, target_args.no_offset_check) = (true, false);
    let target = Target::prepare(&target_args)?;
    let (starts, limits) = (target.begins()?, &target.starts);
    let wanted: i64 = limits.iter().zip(&starts).map(|(limit, start)| limit - start).sum();
    if wanted == 0 {
        return Err(usage("the topic has no messages to read"));
    }
    let form = PullForm {
        encoding: target.encoding,
        topic: target.topic.clone(),
        count_max: args.pull_messages,
        at_tail: false,
        span_ns: 0..0,
    };
    let clock = RunClock::start();
    let from = Snapshot::take(clock.now_ns(), 0, target.server_pid);
    let pulls = RunningPulls::start(&target, &form, args.connections, &starts, Some(limits.as_slice()), clock)?;
    let mut memory = None;
    while !pulls.has_ended() && clock.now_ns() < nanoseconds(duration) {
        memory = look_at_memory(memory, target.server_pid);
        clock.sleep(PERIOD);
    }
    let to = Snapshot::take(clock.now_ns(), pulls.message_count(), target.server_pid);
    let tally = pulls.finish();
    if tally.messages == 0 && tally.connections_lost > 0 {
        return Err(BenchError::ConnectionsLost { broker: target.broker.to_string() });
    }
    let mut report = Report::new(&args.target, "consume", &target);
    report.config("connections", json!(args.connections));
    report.config("pull_messages", json!(args.pull_messages));
    report.catch_up(&PullFigures { tally: &tally, wanted: wanted as u64 });
    report.usage(&Watched { from, to, memory });
    Ok(report)
}
