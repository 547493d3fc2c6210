//! The load of a run: all connections that send, in closed or in open loop.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use base::Random;

use crate::clock::{RunClock, nanoseconds};
use crate::closed_loop::ClosedLoop;
use crate::error::BenchError;
use crate::ledger::OffsetLedger;
use crate::open_loop::{self, Counts, Reader, Sender};
use crate::pace::Pace;
use crate::tally::SendTally;
use crate::target::Target;
use crate::template::{SendForm, SendTemplate};
use crate::wire::Link;

/// After the last message was sent, answers are awaited for so long. Then what is unanswered counts as lost.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);
const DRAIN_PERIOD: Duration = Duration::from_millis(5);
/// Gives the threads time to be there before the first message is due.
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

/// A connection among all: which messages of the run are its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) index: u64,
    pub(crate) count: u64,
}

impl Place {
    /// The number in the run of this connection's message `turn`.
    pub(crate) fn number(self, turn: u64) -> u64 {
        turn * self.count + self.index
    }

    /// The reverse; `None` for another connection's message.
    pub(crate) fn turn(self, number: u64) -> Option<u64> {
        (number % self.count == self.index).then_some(number / self.count)
    }

    /// This connection's share of so many messages.
    fn share(self, messages: u64) -> u64 {
        if messages == u64::MAX { messages } else { (messages + self.count - 1 - self.index) / self.count }
    }
}

/// What all threads of a load share. The counters are only ever looked at as figures.
pub(crate) struct Load {
    pub(crate) clock: RunClock,
    /// One for each queue.
    templates: Vec<SendTemplate>,
    connections: u64,
    blank_tally: SendTally,
    pub(crate) answered: AtomicU64,
    /// Threads that are not through.
    pub(crate) links_busy: AtomicUsize,
    sending: AtomicBool,
    over: AtomicBool,
}

impl Load {
    /// A tally without anything in it yet.
    pub(crate) fn tally(&self) -> SendTally {
        self.blank_tally.clone()
    }

    /// What the message of that number is made of. Moves on by one more queue with every round of the connections,
    /// so that each connection sends to all queues.
    pub(crate) fn template(&self, number: u64) -> &SendTemplate {
        let turn = number + number / self.connections;
        &self.templates[(turn % self.templates.len() as u64) as usize]
    }

    pub(crate) fn may_send(&self) -> bool {
        self.sending.load(Ordering::Relaxed)
    }

    /// From here on connections end because we end them.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// A load that runs.
pub(crate) struct RunningLoad {
    pub(crate) load: Arc<Load>,
    links: Vec<(Arc<Link>, Arc<Counts>)>,
    threads: Vec<JoinHandle<SendTally>>,
    is_open: bool,
}

impl RunningLoad {
    /// Opens the connections and starts to send.
    pub(crate) fn start(
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
        let links = Link::open_all(target.broker, connections)?;
        let links: Vec<_> = links.into_iter().map(|link| (link, Arc::<Counts>::default())).collect();
        let start_ns = clock.now_ns() + nanoseconds(START_DELAY);
        let offsets = (!target.starts.is_empty()).then(|| OffsetLedger::new(&target.starts));
        let is_open = matches!(drive, Drive::Rate { .. });
        let load = Arc::new(Load {
            clock,
            templates,
            connections: connections.into(),
            blank_tally: SendTally::new(times.span_ns(start_ns), offsets),
            answered: AtomicU64::new(0),
            links_busy: AtomicUsize::new(links.len() + usize::from(is_open)),
            sending: AtomicBool::new(true),
            over: AtomicBool::new(false),
        });
        let mut running = RunningLoad { load, links, threads: Vec::new(), is_open };
        running.start_threads(drive, start_ns)?;
        Ok(running)
    }

    fn start_threads(&mut self, drive: Drive, start_ns: u64) -> Result<(), BenchError> {
        let count = self.links.len() as u64;
        for (index, (link, counts)) in (0..).zip(self.links.clone()) {
            let (load, place) = (self.load.clone(), Place { index, count });
            let name = format!("answers-{index}");
            let thread = match drive {
                Drive::Window { messages, messages_max } => {
                    let closed = ClosedLoop::new(link, load, place, messages, place.share(messages_max));
                    runtime::core::thread(&name, move || closed.run())
                }
                Drive::Rate { rate, tick_ns } => {
                    let reader = Reader::new(link, counts, load, Pace { start_ns, rate, tick_ns }, place);
                    runtime::core::thread(&name, move || reader.run())
                }
            };
            self.threads.push(thread.map_err(BenchError::Executor)?);
        }
        if let Drive::Rate { rate, tick_ns } = drive {
            let sender = Sender::new(self.load.clone(), Pace { start_ns, rate, tick_ns }, self.links.clone());
            let thread = runtime::core::thread("sender", move || sender.run());
            self.threads.push(thread.map_err(BenchError::Executor)?);
        }
        Ok(())
    }

    /// The measured span.
    pub(crate) fn span_ns(&self) -> Range<u64> {
        self.load.blank_tally.span_ns()
    }

    /// Nothing more will come: all was sent and answered, or no connection is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.load.links_busy.load(Ordering::Relaxed) == 0 || self.links.iter().all(|(link, _)| link.is_closed())
    }

    /// Stops sending, waits for the answers that are still to come, and adds up what came of all messages.
    pub(crate) fn finish(self) -> Finished {
        let clock = self.load.clock;
        let ended_early = !self.is_open && self.has_ended();
        self.load.sending.store(false, Ordering::Relaxed);
        let limit_ns = clock.now_ns() + nanoseconds(DRAIN_TIME_MAX);
        let is_through = || if self.is_open { open_loop::unanswered(&self.links) == 0 } else { self.has_ended() };
        while !is_through() && clock.now_ns() < limit_ns {
            clock.sleep(DRAIN_PERIOD);
        }
        self.load.over.store(true, Ordering::Relaxed);
        self.links.iter().for_each(|(link, _)| link.close());
        let mut tally = self.load.tally();
        for thread in self.threads {
            tally.merge(thread.join().expect("a thread that panics ends the process"));
        }
        Finished { tally, ended_early }
    }
}

/// A load that is over.
pub(crate) struct Finished {
    pub(crate) tally: SendTally,
    /// All wanted messages were sent before the time was over.
    pub(crate) ended_early: bool,
}

#[cfg(test)]
mod tests;
