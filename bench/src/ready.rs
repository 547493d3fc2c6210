//! Waits until a starting broker stores a message: the start as a producer sees it.

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use base::Random;
use serde_json::json;

use crate::arguments::{ReadyArgs, TargetArgs, Wire};
use crate::clock::{RunClock, nanoseconds};
use crate::error::BenchError;
use crate::payload::{BODY_BYTES_MIN, Stamp};
use crate::produce::send_form;
use crate::reply;
use crate::report::Outcome;
use crate::target::Target;
use crate::template::{Patch, SendTemplate};
use crate::wire::{Frames, Link};

/// A pause between two attempts: what the figure may be too large by.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
const OPAQUE: i32 = 1_000_000_000;

pub(crate) async fn run(args: ReadyArgs) -> Result<Outcome, BenchError> {
    let clock = RunClock::start();
    let limit_ns = nanoseconds(Duration::from_secs(args.time_max));
    loop {
        let failed = match attempt(&args, clock).await {
            Ok(()) => break,
            Err(failed) => failed,
        };
        if clock.now_ns() >= limit_ns {
            let broker = args.broker.to_string();
            return Err(BenchError::NotReady { broker, seconds: args.time_max, last: failed });
        }
        runtime::clock::sleep(RETRY_PAUSE).await;
    }
    let waited_ms = clock.now_ns() / 1_000_000;
    let since_ms = args.since_ms.map(|since_ms| runtime::clock::now_ms().0.saturating_sub(since_ms));
    eprintln!("{} stores messages after {} ms", args.broker, since_ms.unwrap_or(waited_ms));
    let line = json!({"mode": "ready", "target": args.broker.to_string(), "ready_ms": since_ms.unwrap_or(waited_ms)});
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(BenchError::Output)?;
    Ok(Outcome::Clean)
}

/// Makes a topic and sends one message to it.
async fn attempt(args: &ReadyArgs, clock: RunClock) -> Result<(), String> {
    // Whether anything listens is cheaper to ask than whether a topic can be made.
    let link = Link::open(args.broker).await.map_err(|error| error.to_string())?;
    let sent = send_one(args, &link, clock).await;
    link.close();
    sent
}

async fn send_one(args: &ReadyArgs, link: &Rc<Link>, clock: RunClock) -> Result<(), String> {
    let target = TargetArgs {
        broker: args.broker,
        topic: None,
        queues: 1,
        no_create: false,
        no_offset_check: true,
        server_pid: None,
        wire: Wire::Json,
        label: String::new(),
        target: None,
    };
    let target = Target::prepare(&target).await.map_err(|error| error.to_string())?;
    let template = SendTemplate::new(&send_form(&target, BODY_BYTES_MIN), 0, &mut Random::new(target.run));
    let stamp = Stamp { due_ns: clock.now_ns(), number: 0 };
    template.write(&Patch { opaque: OPAQUE, born_ms: runtime::clock::now_ms().0, stamp }, &mut link.out());
    link.flush();
    let first = FirstAnswer { link: link.clone(), code: Cell::new(None), remark: RefCell::default() };
    let read = link.read(clock, &first);
    if runtime::clock::within(ANSWER_TIME_MAX, read).await.is_none() {
        return Err("no answer to a send".to_owned());
    }
    match first.code.get() {
        Some(0) => Ok(()),
        Some(code) => Err(format!("code {code}: {}", first.remark.take())),
        None => Err("the connection was closed before a send was answered".to_owned()),
    }
}

/// Ends the connection with its first answer.
struct FirstAnswer {
    link: Rc<Link>,
    code: Cell<Option<i32>>,
    remark: RefCell<String>,
}

impl Frames for FirstAnswer {
    fn frame(&self, frame: &[u8], _arrived_ns: u64) {
        if let Ok(reply) = reply::read(frame)
            && reply.is_response
            && self.code.get().is_none()
        {
            self.code.set(Some(reply.code));
            self.remark.replace(reply::remark(frame));
        }
    }

    fn batch_end(&self) {
        if self.code.get().is_some() {
            self.link.close();
        }
    }
}
