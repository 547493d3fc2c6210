//! Waits until a starting broker stores a message: the start as a producer sees it.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::Random;
use bytes::BytesMut;
use serde_json::json;

use crate::arguments::{ReadyArgs, TargetArgs, Wire};
use crate::clock::{RunClock, nanoseconds};
use crate::error::BenchError;
use crate::payload::{self, BODY_BYTES_MIN};
use crate::reply;
use crate::report::Outcome;
use crate::target::{Target, TopicForm};
use crate::template::{Patch, Templates};
use crate::wire::{Frames, Link};

/// A pause between two attempts: what the figure may be too large by.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
const TOPIC: &str = "bench_ready";
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
const OPAQUE: i32 = 1_000_000_000;

pub(crate) fn run(args: &ReadyArgs) -> Result<Outcome, BenchError> {
    let waited_ms = wait(args.broker, Duration::from_secs(args.time_max), || false)?;
    let since_ms = args.since_ms.map(|since_ms| runtime::clock::now_ms().0.saturating_sub(since_ms));
    eprintln!("{} stores messages after {} ms", args.broker, since_ms.unwrap_or(waited_ms));
    let line = json!({"mode": "ready", "target": args.broker.to_string(), "ready_ms": since_ms.unwrap_or(waited_ms)});
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(BenchError::Output)?;
    Ok(Outcome::Clean)
}

/// Waits until a broker stores a message, and tells how long that took, in milliseconds.
///
/// # Errors
/// When it does not within that time, or a stop is asked for.
pub(crate) fn wait(broker: SocketAddr, time_max: Duration, is_stopped: impl Fn() -> bool) -> Result<u64, BenchError> {
    let clock = RunClock::start();
    loop {
        if is_stopped() {
            return Err(BenchError::Stopped);
        }
        let failed = match attempt(broker, clock) {
            Ok(()) => return Ok(clock.now_ns() / 1_000_000),
            Err(failed) => failed,
        };
        if clock.now_ns() >= nanoseconds(time_max) {
            let (broker, seconds) = (broker.to_string(), time_max.as_secs());
            return Err(BenchError::NotReady { broker, seconds, last: failed });
        }
        clock.sleep(RETRY_PAUSE);
    }
}

/// Makes a topic and sends one message to it.
fn attempt(broker: SocketAddr, clock: RunClock) -> Result<(), String> {
    // Whether anything listens is cheaper to ask than whether a topic can be made.
    let link = Link::open(broker).map_err(|error| error.to_string())?;
    let sent = send_one(broker, &link, clock);
    link.close();
    sent
}

fn send_one(broker: SocketAddr, link: &Arc<Link>, clock: RunClock) -> Result<(), String> {
    let target = TargetArgs::of(broker);
    // Always the same: it is not deleted, since nobody waits for that.
    let name = Some(TOPIC.to_owned());
    let topic = TopicForm { name, topics: 1, queues: 1, wire: Wire::Json, create: true, check_offsets: false };
    let target = Target::new(&target, &topic);
    target.prepare(&topic).map_err(|error| error.to_string())?;
    let blank = payload::blank(BODY_BYTES_MIN, 1.0, &mut Random::new(target.run));
    let templates = Templates::new(&target.send_form(vec![blank]), 1);
    let mut out = BytesMut::new();
    let (born_ms, due_ns) = (runtime::clock::now_ms().0, clock.now_ns());
    templates.write(&Patch { opaque: OPAQUE, born_ms, number: 0, due_ns }, &mut out);
    link.read_time_max(ANSWER_TIME_MAX).map_err(|error| error.to_string())?;
    link.send(&out);
    let mut first = FirstAnswer { link: link.clone(), answer: None };
    link.read(clock, &mut first).map_err(|error| error.to_string())?;
    match first.answer {
        Some((0, _)) => Ok(()),
        Some((code, remark)) => Err(format!("code {code}: {remark}")),
        None => Err("a send was not answered".to_owned()),
    }
}

/// Ends the connection with its first answer.
struct FirstAnswer {
    link: Arc<Link>,
    /// Code and remark.
    answer: Option<(i32, String)>,
}

impl Frames for FirstAnswer {
    fn frame(&mut self, frame: &[u8], _arrived_ns: u64) {
        if let Ok(reply) = reply::read(frame)
            && reply.is_response
            && self.answer.is_none()
        {
            self.answer = Some((reply.code, reply::remark(frame)));
        }
    }

    fn batch_end(&mut self) {
        if self.answer.is_some() {
            self.link.close();
        }
    }
}
