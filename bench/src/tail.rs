//! A run from end to end: an open loop sends, a consumer waits at the tail, on one clock.

use std::rc::Rc;
use std::time::Duration;

use serde_json::json;

use crate::arguments::TailArgs;
use crate::clock::{RunClock, nanoseconds};
use crate::error::BenchError;
use crate::load::{Drive, RunningLoad};
use crate::produce::{body_bytes, send_form, times, usage, watch};
use crate::pull::{PullForm, Puller};
use crate::report::{PullFigures, Report, SendFigures};
use crate::target::Target;

/// After the last message was answered, the consumer has so long to get it.
const ARRIVAL_TIME_MAX: Duration = Duration::from_secs(5);
/// Gives the first pulls time to be parked at the broker.
const PARK_DELAY: Duration = Duration::from_millis(200);

pub(crate) async fn run(args: TailArgs) -> Result<Report, BenchError> {
    if args.rate == 0 {
        return Err(usage("--rate must be at least 1 message a second"));
    }
    let times = times(args.warmup, args.duration)?;
    let body_bytes = body_bytes(args.size)?;
    let mut target_args = args.target.clone();
    // The consumer begins where the queues end.
    target_args.no_offset_check = false;
    let target = Target::prepare(&target_args).await?;
    let form = PullForm {
        encoding: target.encoding,
        topic: target.topic.clone(),
        count_max: args.pull_messages,
        at_tail: true,
    };
    let clock = RunClock::start();
    let puller = Puller::start(&target, form, args.consumer_connections, &target.starts, None, clock).await?;
    runtime::clock::sleep(PARK_DELAY).await;
    let drive = Drive::Rate { rate: args.rate, tick_ns: u64::from(args.tick_us) * 1000 };
    let form = send_form(&target, body_bytes);
    let running = RunningLoad::start(&target, &form, args.connections, drive, times, clock).await?;
    puller.tally.borrow_mut().span_ns = running.load.tally.borrow().span_ns();
    let usage = watch(&running, target.server_pid).await;
    running.drain().await;
    let ends = target.ends().await?;
    let wanted = ends.iter().zip(&target.starts).map(|(end, start)| (end - start) as u64).sum();
    await_arrival(&puller, wanted, clock).await;
    puller.close();
    let (sent, pulled) = (running.load.tally.borrow(), puller.tally.borrow());
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
    report.send(&SendFigures { tally: &sent, rate: Some(args.rate), body_bytes, ended_early: false });
    report.usage(&usage);
    Ok(report)
}

async fn await_arrival(puller: &Rc<Puller>, wanted: u64, clock: RunClock) {
    let limit_ns = clock.now_ns() + nanoseconds(ARRIVAL_TIME_MAX);
    while puller.tally.borrow().messages < wanted && !puller.is_cut_off() && clock.now_ns() < limit_ns {
        let _ = runtime::clock::within(Duration::from_millis(100), puller.changed.notified()).await;
    }
}
