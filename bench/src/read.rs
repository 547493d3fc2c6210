//! Readers: who gets the messages of a phase, each connection on a thread of its own. They pull from each queue, or pop from
//! all of a topic's queues and acknowledge each message.

mod arrival;
mod popper;
mod puller;
mod receipt;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use remoting::command::{Command, HeaderEncoding};
use remoting::name::retry_topic;
use remoting::text::Text;

use self::arrival::Intake;
use self::popper::Popper;
use self::puller::Puller;
use crate::clock::RunClock;
use crate::duties::{Duties, Member, consumer_heartbeat};
use crate::error::BenchError;
use crate::ledger::OffsetLedger;
use crate::order::OrderCheck;
use crate::record::Shelf;
use crate::tally::Errors;
use crate::target::{Lanes, Target};
use crate::wire::Link;

pub(crate) use self::popper::{POP_MESSAGES_MAX, POP_TOPICS_MAX};
pub(crate) use self::puller::RETRY_DELAY_NS;

/// How readers get messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From each queue by its offset.
    Pull,
    /// From all queues of a topic, and each is acknowledged.
    Pop,
}

/// What the readers of a group have in common.
#[derive(Clone, Debug)]
pub(crate) struct ReadForm {
    pub(crate) way: Way,
    pub(crate) encoding: HeaderEncoding,
    pub(crate) group: Text,
    /// Of pops: receipts name the broker; and what is not acknowledged comes again after a time.
    pub(crate) broker_name: Text,
    pub(crate) invisible: Duration,
    pub(crate) lanes: Lanes,
    pub(crate) count_max: u16,
    pub(crate) end: AtEnd,
    /// How long after it was due a message shall arrive; only what it is later counts.
    pub(crate) delay_ns: u64,
    /// Of an ordered load.
    pub(crate) order: Option<OrderCheck>,
    /// Of half messages those that are committed; the others must not arrive.
    pub(crate) commit_share: Option<f64>,
    /// As official clients do: heartbeats and commits.
    pub(crate) has_duties: bool,
    /// Of the messages those that are sent back once.
    pub(crate) retry_share: Option<f64>,
}

/// What a consumer does at the end of its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtEnd {
    /// Waits for messages.
    Waits,
    /// Is through.
    Ends,
    /// Begins again.
    Repeats,
}

impl ReadForm {
    /// Where messages come again that were sent back.
    pub(crate) fn retry_topic(&self) -> Text {
        Text::from(retry_topic(&self.group))
    }

    /// What the member `index` of the group says of itself.
    pub(crate) fn heartbeat(&self, index: usize) -> Command {
        let topics = self.lanes.topics.iter().cloned().chain([self.retry_topic()]);
        consumer_heartbeat(format!("{}@{index}", self.group), &self.group, topics)
    }
}

/// What is wrong with messages that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageFaults {
    /// Messages whose offset is not the one behind the message before.
    pub(crate) offset_jumps: u64,
    pub(crate) wrong_queue: u64,
    /// Bodies with another checksum than the record's, or than their own.
    pub(crate) damaged: u64,
    /// Answers that end in something that is no record, or answers that cannot be read.
    pub(crate) unreadable: u64,
    /// Messages that came before an earlier one of their key, or out of another queue than their key's.
    pub(crate) order_breaks: u64,
    /// Half messages that were rolled back and arrived all the same.
    pub(crate) rolled_back: u64,
    /// Messages in the retry topic that nobody sent back, or that came twice.
    pub(crate) retries_strange: u64,
    /// Popped messages that the answer gives no receipt for, or lists with another offset.
    pub(crate) receipts_wrong: u64,
}

impl MessageFaults {
    fn add(&mut self, other: MessageFaults) {
        self.offset_jumps += other.offset_jumps;
        self.wrong_queue += other.wrong_queue;
        self.damaged += other.damaged;
        self.unreadable += other.unreadable;
        self.order_breaks += other.order_breaks;
        self.rolled_back += other.rolled_back;
        self.retries_strange += other.retries_strange;
        self.receipts_wrong += other.receipts_wrong;
    }
}

/// What came of the readers of a phase, but for their times.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadTally {
    pub(crate) messages: u64,
    pub(crate) body_bytes: u64,
    /// Pulls or pops that found something, and those that did not.
    pub(crate) asks_found: u64,
    pub(crate) asks_empty: u64,
    pub(crate) faults: MessageFaults,
    pub(crate) errors: Errors,
    pub(crate) last_arrival_ns: u64,
    pub(crate) connections_lost: u64,
    /// How often [`AtEnd::Repeats`] began again with a queue.
    pub(crate) repeats: u64,
    /// Messages that were sent back, and those of them that came again.
    pub(crate) sent_back: u64,
    pub(crate) came_again: u64,
    pub(crate) popped: Popped,
}

/// What came of messages that were popped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Popped {
    /// By the offsets that arrived from the queues themselves, of each group.
    groups: Vec<OffsetLedger>,
    /// Came by a retry topic, as they were not acknowledged in time.
    pub(crate) revived: u64,
    pub(crate) acknowledged: u64,
    /// Acknowledgements that were not answered before their connection ended.
    pub(crate) acks_lost: u64,
}

impl Popped {
    /// Messages that came out of their own queue for the second time.
    fn duplicates(&self) -> u64 {
        self.groups.iter().map(|group| group.faults().duplicates).sum()
    }

    /// Takes in what came of another connection of the same group.
    fn join(&mut self, other: Popped) {
        self.revived += other.revived;
        self.acknowledged += other.acknowledged;
        self.acks_lost += other.acks_lost;
        match (self.groups.first_mut(), other.groups.first()) {
            (Some(own), Some(other)) => own.merge(other),
            _ => self.groups.extend(other.groups),
        }
    }

    fn add(&mut self, other: Popped) {
        self.groups.extend(other.groups);
        self.revived += other.revived;
        self.acknowledged += other.acknowledged;
        self.acks_lost += other.acks_lost;
    }
}

impl ReadTally {
    /// Messages that came more than once, of so many that there were to get. One that comes by a retry topic was read before
    /// unless something is missing: the answer that it was in may have been lost with its connection.
    pub(crate) fn repeated(&self, wanted: u64) -> u64 {
        let first = self.messages - self.popped.duplicates() - self.popped.revived;
        self.popped.duplicates() + self.popped.revived.saturating_sub(wanted.saturating_sub(first))
    }

    /// Of so many messages those that did not come.
    pub(crate) fn missing(&self, wanted: u64) -> u64 {
        wanted.saturating_sub(self.messages - self.repeated(wanted))
    }

    /// Takes in what came of another connection of the same group.
    fn join(&mut self, mut other: ReadTally) {
        self.popped.join(std::mem::take(&mut other.popped));
        self.merge(other);
    }

    /// Takes in what came of other readers of the same phase.
    pub(crate) fn merge(&mut self, other: ReadTally) {
        self.messages += other.messages;
        self.body_bytes += other.body_bytes;
        self.asks_found += other.asks_found;
        self.asks_empty += other.asks_empty;
        self.faults.add(other.faults);
        self.errors.merge(other.errors);
        self.last_arrival_ns = self.last_arrival_ns.max(other.last_arrival_ns);
        self.connections_lost += other.connections_lost;
        self.repeats += other.repeats;
        self.sent_back += other.sent_back;
        self.came_again += other.came_again;
        self.popped.add(other.popped);
    }
}

/// What the threads of a group share.
struct Shared {
    messages: AtomicU64,
    links_busy: AtomicUsize,
    /// How often a connection ended that was not ended here.
    links_lost: AtomicU64,
    /// Messages that were sent back and did not come again yet, and when that was.
    sent_back: Mutex<HashMap<u64, u64>>,
    /// Acknowledgements that are not answered yet. Counted before the messages are, so that whoever sees these sees that.
    acks_open: AtomicU64,
    /// Of each lane, behind the last message that was consumed.
    consumed: Vec<Arc<AtomicI64>>,
}

/// All readers of a group.
pub(crate) struct RunningGroup {
    pub(crate) group: Text,
    way: Way,
    invisible: Duration,
    /// Messages that there are, where there is an end.
    wanted: Option<u64>,
    links: Vec<Arc<Link>>,
    threads: Vec<JoinHandle<ReadTally>>,
    shared: Arc<Shared>,
    duties: Option<Duties>,
}

/// From where each lane is read, and to where if there is an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadBounds<'a> {
    pub(crate) starts: &'a [i64],
    pub(crate) limits: Option<&'a [i64]>,
}

impl ReadBounds<'_> {
    fn messages(&self) -> Option<u64> {
        let limits = self.limits?;
        Some(limits.iter().zip(self.starts).map(|(limit, start)| (limit - start).max(0) as u64).sum())
    }
}

/// What a reader is made of, whichever way it goes.
struct Seat {
    index: usize,
    link: Arc<Link>,
    intake: Intake,
}

impl RunningGroup {
    /// Opens the connections and starts to read.
    pub(crate) fn start(
        target: &Target,
        form: &ReadForm,
        connections: u16,
        bounds: ReadBounds<'_>,
        shelf: &Arc<Shelf>,
        clock: RunClock,
    ) -> Result<RunningGroup, BenchError> {
        let connections = match form.way {
            // More would have no queue.
            Way::Pull => target.lanes.count().min(connections.into()) as u16,
            Way::Pop => connections,
        };
        let links = Link::open_all(target.broker, connections)?;
        let consumed: Vec<_> = bounds.starts.iter().map(|start| Arc::new(AtomicI64::new(*start))).collect();
        let shared = Arc::new(Shared {
            messages: AtomicU64::new(0),
            links_busy: AtomicUsize::new(links.len()),
            links_lost: AtomicU64::new(0),
            sent_back: Mutex::default(),
            acks_open: AtomicU64::new(0),
            consumed,
        });
        let queues = match form.way {
            Way::Pull => form.queues(bounds, &shared.consumed),
            // The broker knows what was acknowledged, and nobody commits it.
            Way::Pop => Vec::new(),
        };
        let share = |index: usize| queues.iter().skip(index).step_by(links.len()).cloned().collect::<Vec<_>>();
        let mut threads = Vec::new();
        for (index, link) in links.iter().enumerate() {
            let seat = Seat { index, link: link.clone(), intake: Intake::new(form, &shared, shelf, clock) };
            let thread = match form.way {
                Way::Pull => {
                    let puller = Puller::new(seat, share(index), links.len());
                    runtime::core::thread(&format!("pulls-{index}"), move || puller.run())
                }
                Way::Pop => {
                    let popper = Popper::new(seat, bounds.starts);
                    runtime::core::thread(&format!("pops-{index}"), move || popper.run())
                }
            };
            threads.push(thread.map_err(BenchError::Executor)?);
        }
        let members = links.iter().enumerate().map(|(index, link)| Member {
            link: link.clone(),
            heartbeat: form.heartbeat(index),
            commits: share(index).iter().map(|queue| form.commit(queue)).collect(),
        });
        let duties = form.has_duties.then(|| Duties::start(members.collect(), clock)).transpose()?;
        let &ReadForm { way, invisible, .. } = form;
        let (group, wanted) = (form.group.clone(), bounds.messages());
        Ok(RunningGroup { group, way, invisible, wanted, links, threads, shared, duties })
    }

    pub(crate) fn message_count(&self) -> u64 {
        self.shared.messages.load(Ordering::SeqCst)
    }

    /// Messages that were sent back and did not come again yet.
    pub(crate) fn retries_open(&self) -> u64 {
        self.shared.sent_back.lock().expect("no holder panics").len() as u64
    }

    /// Acknowledgements that are not answered yet.
    pub(crate) fn acks_open(&self) -> u64 {
        self.shared.acks_open.load(Ordering::SeqCst)
    }

    /// How long it may take until all has come that was on its way to a connection that was lost.
    pub(crate) fn comes_again_after(&self) -> Duration {
        let is_late = self.way == Way::Pop && self.shared.links_lost.load(Ordering::Relaxed) > 0;
        if is_late { self.invisible } else { Duration::ZERO }
    }

    /// All messages that there are came and are acknowledged, or no connection is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.links_busy.load(Ordering::Relaxed) == 0 || self.way == Way::Pop && self.is_through()
    }

    fn is_through(&self) -> bool {
        self.wanted.is_some_and(|wanted| self.message_count() >= wanted) && self.acks_open() == 0
    }

    /// Has the last offsets committed, and tells which they are; `None` when nobody commits. What is popped the target commits
    /// by itself, once it is acknowledged.
    pub(crate) fn commit(&mut self) -> Option<Vec<i64>> {
        let duties = self.duties.take().map(Duties::finish);
        let is_committed = match self.way {
            Way::Pull => duties.is_some(),
            Way::Pop => self.acks_open() == 0 && (self.wanted.is_none() || self.is_through()),
        };
        is_committed.then(|| self.shared.consumed.iter().map(|offset| offset.load(Ordering::Relaxed)).collect())
    }

    /// Ends all connections and adds up what came of all readers.
    pub(crate) fn finish(self) -> ReadTally {
        if let Some(duties) = self.duties {
            duties.finish();
        }
        self.links.iter().for_each(|link| link.close());
        let mut tally = ReadTally::default();
        for thread in self.threads {
            tally.join(thread.join().expect("a thread that panics ends the process"));
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one connection that got these offsets of one queue, and so many by a retry topic.
    fn tally(offsets: &[i64], revived: u64) -> ReadTally {
        let mut ledger = OffsetLedger::new(&[0]);
        offsets.iter().for_each(|offset| ledger.acknowledged(Some(0), *offset));
        let popped = Popped { groups: vec![ledger], revived, ..Popped::default() };
        ReadTally { messages: offsets.len() as u64 + revived, popped, ..ReadTally::default() }
    }

    #[test]
    fn what_is_missing_and_what_came_twice_is_told_apart() {
        for (first, second, revived, expected) in [
            (&[0, 1, 3][..], &[2, 4][..], 0, (0, 0)),
            (&[0, 1, 3], &[2], 0, (1, 0)),
            (&[0, 1, 3], &[3, 2], 0, (1, 1)),
            // The answer that had 4 was lost with its connection.
            (&[0, 1, 3], &[2], 1, (0, 0)),
            (&[0, 1, 3], &[2, 4], 1, (0, 1)),
            (&[0, 0, 1, 3], &[2, 3], 3, (0, 4)),
            (&[], &[], 0, (5, 0)),
        ] {
            let mut group = tally(first, revived);
            group.join(tally(second, 0));
            assert_eq!((group.missing(5), group.repeated(5)), expected, "{first:?} {second:?} {revived}");
        }
    }

    #[test]
    fn each_group_gets_everything() {
        let mut all = ReadTally::default();
        all.merge(tally(&[0, 1, 2], 0));
        all.merge(tally(&[0, 1, 2], 0));
        assert_eq!((all.missing(6), all.repeated(6)), (0, 0));
        // A run that only pulls has no ledger.
        let pulled = ReadTally { messages: 7, ..ReadTally::default() };
        assert_eq!((pulled.missing(8), pulled.repeated(8)), (1, 0));
    }
}
