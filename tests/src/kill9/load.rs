//! The load of one round: senders, readers and a committer, all ended by the kill of the broker.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base::Random;

use super::ledger::{Entry, Identity, body_of, identity_of};
use crate::connection::Connection;
use crate::process::Running;
use crate::request::{CODE_BUSY, CODE_OK, Pulled, Queue, Stored, commit_offset, heartbeat, pull, send};

const SENDERS: u32 = 6;
const READERS: u32 = 2;
/// Requests that a sender has in flight: more than one, so that group commit is at work when the kill comes.
const IN_FLIGHT: usize = 8;
const COMMIT_EVERY: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) broker: String,
    pub(super) topic: String,
    pub(super) group: String,
    pub(super) queue_count: u32,
    pub(super) round: u32,
    pub(super) load_time: Duration,
    /// For each queue, the offset at which this round's messages begin.
    pub(super) read_from: Vec<u64>,
}

/// What is known of a round when its broker is dead.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) acknowledged: Vec<Entry>,
    pub(super) seen: Vec<Entry>,
    /// In order; the last one of a queue may not have been answered.
    pub(super) commits: Vec<Commit>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Commit {
    pub(super) queue_id: u32,
    pub(super) offset: u64,
    /// From the attempt to the kill.
    pub(super) before_kill: Duration,
}

#[derive(Debug)]
struct Shared<'a> {
    plan: &'a Plan,
    killed: AtomicBool,
    /// For each queue, the offset below which a reader has seen everything.
    seen_to: Vec<AtomicU64>,
    fault: Mutex<Option<String>>,
}

/// Loads the broker, kills it when the time has passed, and returns what was seen until then.
///
/// # Errors
/// A fault that showed before the kill.
pub(super) fn run(plan: &Plan, running: &mut Running) -> Result<Round, String> {
    let shared = Shared {
        plan,
        killed: AtomicBool::new(false),
        seen_to: plan.read_from.iter().map(|offset| AtomicU64::new(*offset)).collect(),
        fault: Mutex::new(None),
    };
    let (round, killed_at, commits) = thread::scope(|scope| {
        let shared = &shared;
        let senders: Vec<_> =
            (0..SENDERS).map(|sender| scope.spawn(move || sender_until_killed(shared, sender))).collect();
        let readers: Vec<_> =
            (0..READERS).map(|reader| scope.spawn(move || reader_until_killed(shared, reader))).collect();
        let committer = scope.spawn(|| committer_until_killed(shared));
        // Not a wait for an event: the moment of the kill is what was drawn.
        thread::sleep(plan.load_time);
        shared.killed.store(true, Ordering::SeqCst);
        let killed_at = Instant::now();
        running.kill();
        let mut round = Round::default();
        for sender in senders {
            round.acknowledged.extend(sender.join().expect("a sender returns its faults"));
        }
        for reader in readers {
            round.seen.extend(reader.join().expect("a reader returns its faults"));
        }
        (round, killed_at, committer.join().expect("the committer returns its faults"))
    });
    if let Some(fault) = shared.fault.into_inner().expect("no thread panics with the lock held") {
        return Err(fault);
    }
    let commits = commits.into_iter().map(|(queue_id, offset, at)| {
        let before_kill = killed_at.saturating_duration_since(at);
        Commit { queue_id, offset, before_kill }
    });
    Ok(Round { commits: commits.collect(), ..round })
}

impl Shared<'_> {
    /// Errors after the kill are its consequence; those before are faults of the broker.
    fn note(&self, who: &str, result: io::Result<()>) {
        if let Err(error) = result
            && !self.killed.load(Ordering::SeqCst)
        {
            let mut fault = self.fault.lock().expect("no thread panics with the lock held");
            fault.get_or_insert_with(|| format!("{who} before the kill: {error}"));
        }
    }

    /// A wrong message is a fault also when it came at the moment of the kill.
    fn note_always(&self, text: String) {
        self.fault.lock().expect("no thread panics with the lock held").get_or_insert(text);
    }

    fn queue(&self, id: u32) -> Queue {
        Queue::new(&self.plan.topic, id)
    }
}

fn sender_until_killed(shared: &Shared<'_>, sender: u32) -> Vec<Entry> {
    let mut acknowledged = Vec::new();
    shared.note("a sender", send_forever(shared, sender, &mut acknowledged));
    acknowledged
}

fn send_forever(shared: &Shared<'_>, sender: u32, acknowledged: &mut Vec<Entry>) -> io::Result<()> {
    let mut connection = Connection::open(&shared.plan.broker)?;
    let mut identity = Identity::first_of(shared.plan.round, sender);
    let mut random = Random::new(identity.number());
    loop {
        // Answers come in any order, so each opaque is kept with what it was for.
        let mut in_flight = Vec::with_capacity(IN_FLIGHT);
        for _ in 0..IN_FLIGHT {
            let queue_id =
                u32::try_from(random.below(u64::from(shared.plan.queue_count))).expect("below a 32-bit number");
            let request = send(&shared.queue(queue_id), body_of(identity), "TAGS\u{1}kill9\u{2}");
            in_flight.push((connection.send(&request)?, queue_id, identity));
            identity = identity.next();
        }
        while !in_flight.is_empty() {
            let answer = connection.receive()?;
            let Some(index) = in_flight.iter().position(|(opaque, ..)| *opaque == answer.opaque) else {
                return Err(io::Error::other(format!("an answer to nothing: {answer:?}")));
            };
            let (_, queue_id, identity) = in_flight.swap_remove(index);
            match answer.code {
                CODE_OK => {
                    let stored = Stored::of(&answer)?;
                    acknowledged.push(Entry { queue_id, offset: stored.queue_offset, identity });
                }
                CODE_BUSY => {} // The limit of unwritten bytes may be reached: the message was refused, not lost.
                code => return Err(io::Error::other(format!("send refused with {code}: {}", answer.remark))),
            }
        }
    }
}

fn reader_until_killed(shared: &Shared<'_>, reader: u32) -> Vec<Entry> {
    let mut seen = Vec::new();
    shared.note("a reader", read_forever(shared, reader, &mut seen));
    seen
}

/// Reads its share of the queues, each from where this round began.
fn read_forever(shared: &Shared<'_>, reader: u32, seen: &mut Vec<Entry>) -> io::Result<()> {
    let mut connection = Connection::open(&shared.plan.broker)?;
    loop {
        for queue_id in (reader..shared.plan.queue_count).step_by(READERS as usize) {
            let from = shared.seen_to[queue_id as usize].load(Ordering::SeqCst);
            let request = pull(&shared.plan.group, &shared.queue(queue_id), from.cast_signed(), 32);
            let pulled = Pulled::of(&connection.call(&request)?)?;
            if ![0, 19].contains(&pulled.code) || pulled.min_offset != 0 {
                shared.note_always(format!("a pull at {from} of queue {queue_id} is answered {pulled:?}"));
                return Ok(());
            }
            for (record, expected) in pulled.records.iter().zip(from..) {
                let Some(identity) = identity_of(&record.body) else {
                    shared.note_always(format!("queue {queue_id}, offset {expected}: a body that nobody sent"));
                    return Ok(());
                };
                if record.queue_offset != expected || record.queue_id != queue_id || record.topic != shared.plan.topic {
                    shared.note_always(format!("queue {queue_id}, offset {expected}: got {record:?}"));
                    return Ok(());
                }
                seen.push(Entry { queue_id, offset: expected, identity });
            }
            shared.seen_to[queue_id as usize].fetch_add(pulled.records.len() as u64, Ordering::SeqCst);
        }
    }
}

fn committer_until_killed(shared: &Shared<'_>) -> Vec<(u32, u64, Instant)> {
    let mut commits = Vec::new();
    shared.note("the committer", commit_forever(shared, &mut commits));
    commits
}

/// Commits what the readers have seen.
fn commit_forever(shared: &Shared<'_>, commits: &mut Vec<(u32, u64, Instant)>) -> io::Result<()> {
    let mut connection = Connection::open(&shared.plan.broker)?;
    connection.call_ok(&heartbeat("kill9-committer", &shared.plan.group))?;
    loop {
        for queue_id in 0..shared.plan.queue_count {
            let offset = shared.seen_to[queue_id as usize].load(Ordering::SeqCst);
            commits.push((queue_id, offset, Instant::now()));
            connection.call_ok(&commit_offset(&shared.plan.group, &shared.queue(queue_id), offset))?;
        }
        // A pace, not a wait: a client commits now and then.
        thread::sleep(COMMIT_EVERY);
    }
}
