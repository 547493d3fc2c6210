//! The load of a run: all connections that send, in closed or in open loop.
//!
//! Closed loop: each connection keeps its window full. Open loop: one task sends what is due and looks at no answer;
//! only when [`IN_FLIGHT_MAX`](crate::in_flight::IN_FLIGHT_MAX) messages of a connection are unanswered does a message
//! wait, still due.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use base::Random;
use runtime::sync::Notify;

use crate::clock::{RunClock, nanoseconds};
use crate::error::BenchError;
use crate::ledger::OffsetLedger;
use crate::pace::Pace;
use crate::send_link::SendLink;
use crate::tally::SendTally;
use crate::target::Target;
use crate::template::{SendForm, SendTemplate};
use crate::wire::Link;

/// After the last message was sent, answers are awaited for so long. Then what is unanswered counts as lost.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);
/// A pause before a message that was held back is tried again.
const HELD_BACK_PAUSE: Duration = Duration::from_micros(200);
/// Gives connections and tasks time to be there before the first message is due.
const START_DELAY: Duration = Duration::from_millis(20);

/// What makes the connections send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Drive {
    Window { messages: usize, messages_max: u64 },
    Rate { rate: u32, tick_ns: u64 },
}

/// How long a run is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
}

impl Times {
    /// The measured span of a run that starts at that time.
    pub(crate) fn span_ns(self, start_ns: u64) -> Range<u64> {
        let from_ns = start_ns + nanoseconds(self.warmup);
        from_ns..from_ns + nanoseconds(self.duration)
    }
}

/// What all connections share.
pub(crate) struct Load {
    pub(crate) clock: RunClock,
    /// One for each queue.
    pub(crate) templates: Vec<SendTemplate>,
    pub(crate) tally: RefCell<SendTally>,
    /// Something ended: a connection, or the last message in flight on one.
    pub(crate) changed: Notify,
    numbers: Cell<u64>,
    messages_max: u64,
    sending: Cell<bool>,
    over: Cell<bool>,
}

impl Load {
    /// The number of the next message.
    pub(crate) fn next_number(&self) -> u64 {
        let number = self.numbers.get();
        self.numbers.set(number + 1);
        number
    }

    pub(crate) fn may_send(&self) -> bool {
        self.sending.get() && self.numbers.get() < self.messages_max
    }

    /// All wanted messages were sent.
    pub(crate) fn is_through(&self) -> bool {
        self.numbers.get() >= self.messages_max
    }

    /// From here on connections end because we end them.
    pub(crate) fn is_over(&self) -> bool {
        self.over.get()
    }
}

/// A load that runs.
pub(crate) struct RunningLoad {
    pub(crate) load: Rc<Load>,
    links: Vec<Rc<SendLink>>,
}

impl RunningLoad {
    /// Opens the connections and starts to send.
    pub(crate) async fn start(
        target: &Target,
        form: &SendForm,
        connections: u16,
        drive: Drive,
        times: Times,
        clock: RunClock,
    ) -> Result<RunningLoad, BenchError> {
        let mut random = Random::new(form.run);
        let templates = (0..target.queues).map(|queue_id| SendTemplate::new(form, queue_id.into(), &mut random));
        let templates = templates.collect();
        let mut sockets = Vec::new();
        for _ in 0..connections {
            sockets.push(Link::open(target.broker).await?);
        }
        let start_ns = clock.now_ns() + nanoseconds(START_DELAY);
        let tally = SendTally::new(
            times.span_ns(start_ns),
            (!target.starts.is_empty()).then(|| OffsetLedger::new(&target.starts)),
        );
        let (window, messages_max) = match drive {
            Drive::Window { messages, messages_max } => (messages, messages_max),
            Drive::Rate { .. } => (0, u64::MAX),
        };
        let load = Rc::new(Load {
            clock,
            templates,
            tally: RefCell::new(tally),
            changed: Notify::new(),
            numbers: Cell::new(0),
            messages_max,
            sending: Cell::new(true),
            over: Cell::new(false),
        });
        let queues = usize::from(target.queues);
        let link = |(number, socket)| SendLink::new(socket, load.clone(), number % queues, window);
        let links: Vec<Rc<SendLink>> = sockets.into_iter().enumerate().map(link).collect();
        for link in &links {
            runtime::spawn(link.clone().read());
        }
        match drive {
            Drive::Window { .. } => {
                clock.sleep_until(start_ns).await;
                links.iter().for_each(|link| link.fill());
            }
            Drive::Rate { rate, tick_ns } => {
                runtime::spawn(send_at_rate(load.clone(), links.clone(), Pace { start_ns, rate, tick_ns }));
            }
        }
        Ok(RunningLoad { load, links })
    }

    pub(crate) fn in_flight_count(&self) -> usize {
        self.links.iter().filter(|link| !link.is_closed()).map(|link| link.in_flight_count()).sum()
    }

    /// Nothing more will come: all was sent and answered, or no connection is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.links.iter().all(|link| link.is_closed()) || (self.load.is_through() && self.in_flight_count() == 0)
    }

    /// Stops sending and waits for the answers that are still to come.
    pub(crate) async fn drain(&self) {
        self.load.sending.set(false);
        let limit_ns = self.load.clock.now_ns() + nanoseconds(DRAIN_TIME_MAX);
        while self.in_flight_count() > 0 && self.load.clock.now_ns() < limit_ns {
            let _ = runtime::clock::within(Duration::from_millis(10), self.load.changed.notified()).await;
        }
        self.load.over.set(true);
        self.load.tally.borrow_mut().lost += self.in_flight_count() as u64;
        self.links.iter().for_each(|link| link.close());
    }
}

/// Sends each message when it is due, until the measured span is over.
async fn send_at_rate(load: Rc<Load>, links: Vec<Rc<SendLink>>, pace: Pace) {
    let limit_ns = load.tally.borrow().span_ns().end;
    let mut held_back = false;
    let mut number = 0;
    loop {
        let due_ns = pace.due_ns(number);
        if due_ns >= limit_ns || !load.may_send() {
            return;
        }
        let now_ns = load.clock.now_ns();
        if now_ns < due_ns {
            load.clock.sleep_until(due_ns).await;
            continue;
        }
        let count = links.len();
        let mut in_turn = (0..count).map(|step| &links[(number as usize + step) % count]);
        let Some(link) = in_turn.find(|link| !link.is_closed()) else { return };
        if link.stage(due_ns) {
            load.tally.borrow_mut().sent(due_ns, now_ns, held_back);
            link.flush();
            held_back = false;
            number += 1;
        } else {
            held_back = true;
            runtime::clock::sleep(HELD_BACK_PAUSE).await;
        }
    }
}
