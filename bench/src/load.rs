//! The load of a run: all connections that send, in closed or in open loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use remoting::frame::FrameError;

use crate::clock::{RunClock, nanoseconds};
use crate::closed_loop::ClosedLoop;
use crate::crew::{Crew, Member};
use crate::error::BenchError;
use crate::ledger::OffsetLedger;
use crate::open_loop::{self, Counts, Reader, Sender};
use crate::order::Order;
use crate::pace::{Arrivals, Pace};
use crate::record::Shelf;
use crate::slow::SlowSends;
use crate::tally::SendTally;
use crate::target::{Lanes, Target};
use crate::template::{SendForm, Templates};
use crate::transaction::Ends;
use crate::wire::Link;

/// After the last message was sent, answers are awaited for so long. Then what is unanswered counts as lost.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);
/// After the measured span a sender has so long to send what was due in it.
const SEND_TIME_MAX: Duration = Duration::from_secs(1);
const DRAIN_PERIOD: Duration = Duration::from_millis(5);
/// Gives the threads time to be there before the first message is due.
pub(crate) const START_DELAY: Duration = Duration::from_millis(20);

/// What makes the connections send.
#[derive(Clone, Debug)]
pub(crate) enum Drive {
    /// So many requests in flight on each connection, until so many were sent.
    Window {
        requests: usize,
        requests_max: u64,
    },
    Rate {
        arrivals: Arrivals,
        tick_ns: u64,
    },
}

/// A connection among all: which requests of the run are its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) index: u64,
    pub(crate) count: u64,
}

impl Place {
    /// The number in the run of this connection's request `turn`.
    pub(crate) fn number(self, turn: u64) -> u64 {
        turn * self.count + self.index
    }

    /// The reverse; `None` for another connection's request.
    pub(crate) fn turn(self, number: u64) -> Option<u64> {
        (number % self.count == self.index).then_some(number / self.count)
    }

    /// This connection's share of so many requests.
    fn share(self, requests: u64) -> u64 {
        if requests == u64::MAX { requests } else { (requests + self.count - 1 - self.index) / self.count }
    }
}

/// What all threads of a load share. The counters are only ever looked at as figures.
pub(crate) struct Load {
    pub(crate) clock: RunClock,
    pub(crate) templates: Templates,
    pub(crate) lanes: Lanes,
    /// Of a load of half messages.
    pub(crate) ends: Option<Ends>,
    pub(crate) shelf: Arc<Shelf>,
    blank_tally: SendTally,
    /// Messages.
    pub(crate) answered: AtomicU64,
    /// Connections that are not through, and the sender of an open loop.
    pub(crate) links_busy: AtomicUsize,
    /// When sending was stopped; the end of time until then.
    stopped_ns: AtomicU64,
}

impl Load {
    /// A tally without anything in it yet.
    pub(crate) fn tally(&self) -> SendTally {
        self.blank_tally.clone()
    }

    /// Messages that were answered so far.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Messages of a request.
    pub(crate) fn batch(&self) -> u64 {
        self.templates.batch()
    }

    pub(crate) fn may_send(&self) -> bool {
        self.stopped_ns() == u64::MAX
    }

    /// What is due from then on is not to be sent.
    pub(crate) fn stopped_ns(&self) -> u64 {
        self.stopped_ns.load(Ordering::Relaxed)
    }
}

/// A load that runs.
pub(crate) struct RunningLoad {
    pub(crate) load: Arc<Load>,
    links: Vec<(Arc<Link>, Arc<Counts>)>,
    threads: Vec<JoinHandle<SendTally>>,
    /// Of an open loop: ends when everything that was due was sent.
    sender: Option<JoinHandle<SendTally>>,
}

impl RunningLoad {
    /// Starts to send on these connections: what is due in the shelf's span is measured.
    pub(crate) fn start(
        target: &Target,
        form: &SendForm,
        links: Vec<Arc<Link>>,
        drive: &Drive,
        start_ns: u64,
        shelf: &Arc<Shelf>,
        clock: RunClock,
    ) -> Result<RunningLoad, BenchError> {
        let order = form.order(links.len());
        let keys = order.map_or(0, Order::keys_each);
        let links: Vec<_> = links.into_iter().map(|link| (link, Arc::new(Counts::new(keys)))).collect();
        let offsets = (!target.starts.is_empty()).then(|| OffsetLedger::new(&target.starts));
        let mut blank_tally = SendTally::new(shelf.span_ns(), offsets);
        blank_tally.slow = SlowSends::above(target.slower_than_ns);
        let load = Arc::new(Load {
            clock,
            templates: Templates::new(form, links.len()),
            lanes: form.lanes.clone(),
            ends: form.ends(),
            shelf: shelf.clone(),
            blank_tally,
            answered: AtomicU64::new(0),
            links_busy: AtomicUsize::new(links.len() + usize::from(matches!(drive, Drive::Rate { .. }))),
            stopped_ns: AtomicU64::new(u64::MAX),
        });
        let mut running = RunningLoad { load, links, threads: Vec::new(), sender: None };
        running.start_threads(drive, start_ns)?;
        Ok(running)
    }

    fn start_threads(&mut self, drive: &Drive, start_ns: u64) -> Result<(), BenchError> {
        let count = self.links.len() as u64;
        let members = (0..).zip(self.links.clone());
        let members = members.map(|(index, (link, counts))| (link, counts, self.load.clone(), Place { index, count }));
        match drive {
            Drive::Window { requests, requests_max } => {
                let closed = members.map(|(link, _, load, place)| {
                    ClosedLoop::new(link, load, place, *requests, place.share(*requests_max))
                });
                self.start_crews(closed.collect(), ClosedLoop::finish)
            }
            Drive::Rate { arrivals, tick_ns } => {
                let pace = Pace { start_ns, tick_ns: *tick_ns, arrivals: arrivals.clone() };
                let readers =
                    members.map(|(link, counts, load, place)| Reader::new(link, counts, load, pace.clone(), place));
                self.start_crews(readers.collect(), Reader::finish)?;
                let sender = Sender::new(self.load.clone(), pace, self.links.clone());
                let thread = runtime::core::thread("sender", move || sender.run());
                self.sender = Some(thread.map_err(BenchError::Executor)?);
                Ok(())
            }
        }
    }

    /// Shares the connections among as many threads as there are cores.
    fn start_crews<M: Member + Send + 'static>(
        &mut self,
        members: Vec<M>,
        finish: fn(M, &Result<(), FrameError>) -> SendTally,
    ) -> Result<(), BenchError> {
        let clock = self.load.clock;
        let crews = usize::from(runtime::process::cpu_count()).min(members.len()).max(1);
        let mut shares: Vec<Vec<M>> = (0..crews).map(|_| Vec::new()).collect();
        for (index, member) in members.into_iter().enumerate() {
            shares[index % crews].push(member);
        }
        for (index, share) in shares.into_iter().enumerate() {
            let crew = Crew::new(share, clock).map_err(BenchError::Executor)?;
            let blank = self.load.tally();
            let work = move || {
                crew.run().into_iter().fold(blank, |mut tally, (member, ended)| {
                    tally.merge(finish(member, &ended));
                    tally
                })
            };
            self.threads.push(runtime::core::thread(&format!("answers-{index}"), work).map_err(BenchError::Executor)?);
        }
        Ok(())
    }

    /// Nothing more will come: all was sent and answered, or no connection is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.load.links_busy.load(Ordering::Relaxed) == 0 || self.links.iter().all(|(link, _)| link.is_closed())
    }

    /// What is due is not sent any more.
    pub(crate) fn stop_sending(&self) {
        self.load.stopped_ns.fetch_min(self.load.clock.now_ns(), Ordering::Relaxed);
    }

    /// Stops sending, waits for the answers that are still to come, and adds up what came of all messages. Waits no longer once
    /// `may_wait` says so.
    pub(crate) fn finish(self, may_wait: &dyn Fn() -> bool) -> Finished {
        let clock = self.load.clock;
        let ended_early = self.sender.is_none() && self.has_ended();
        let send_limit_ns = clock.now_ns() + nanoseconds(SEND_TIME_MAX);
        let is_sending = || self.sender.as_ref().is_some_and(|sender| !sender.is_finished());
        while is_sending() && clock.now_ns() < send_limit_ns && may_wait() {
            clock.sleep(DRAIN_PERIOD);
        }
        self.stop_sending();
        let limit_ns = clock.now_ns() + nanoseconds(DRAIN_TIME_MAX);
        let is_through = || if self.sender.is_some() { open_loop::awaited(&self.links) == 0 } else { self.has_ended() };
        while !is_through() && clock.now_ns() < limit_ns && may_wait() {
            clock.sleep(DRAIN_PERIOD);
        }
        self.links.iter().for_each(|(link, _)| link.close());
        let mut tally = self.load.tally();
        for thread in self.threads.into_iter().chain(self.sender) {
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
