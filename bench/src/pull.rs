//! Pulls: one in flight for each queue, every message checked where it lies in the answer.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::BytesMut;
use client::{Body, body_of};
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::{Command, HeaderEncoding};
use remoting::header::pull::{PULL_FLAG_SUBSCRIPTION, PULL_FLAG_SUSPEND, PullMessage};
use remoting::record::{RecordView, Records, body_crc};
use remoting::subscription::EXPRESSION_TAG;
use remoting::text::Text;

use crate::clock::RunClock;
use crate::error::BenchError;
use crate::payload::{self, Content};
use crate::record::{Kind, Recorder, Shelf};
use crate::reply::{self, Reply};
use crate::tally::Errors;
use crate::target::Target;
use crate::wire::{Frames, Link};

/// The opaque of the pull of queue 0.
const OPAQUE_MIN: i32 = 1_000_000_000;
/// A pause before a pull that was refused is tried again.
const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// How long the broker may hold a pull at the tail.
const SUSPEND_MS: i64 = 15_000;

/// What the pulls of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct PullForm {
    pub(crate) encoding: HeaderEncoding,
    pub(crate) group: Text,
    pub(crate) topic: Text,
    pub(crate) count_max: u16,
    pub(crate) end: AtEnd,
    /// How long after it was due a message shall arrive; only what it is later counts.
    pub(crate) delay_ns: u64,
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

impl PullForm {
    fn write(&self, queue_id: i32, offset: i64, out: &mut BytesMut) {
        let at_tail = self.end == AtEnd::Waits;
        let suspend = if at_tail { PULL_FLAG_SUSPEND } else { 0 };
        let header = PullMessage {
            consumer_group: self.group.clone(),
            topic: self.topic.clone(),
            queue_id,
            queue_offset: offset,
            message_count_max: self.count_max.into(),
            sys_flag: PULL_FLAG_SUBSCRIPTION | suspend,
            commit_offset: 0,
            suspend_timeout_ms: if at_tail { SUSPEND_MS } else { 0 },
            subscription: Some(Text::from_static("*")),
            subscription_version: 0,
            expression_type: Some(Text::from_static(EXPRESSION_TAG)),
            message_bytes_max: None,
        };
        let mut command = Command::request(RequestCode::PULL_MESSAGE, header.to_fields());
        (command.opaque, command.encoding) = (OPAQUE_MIN + queue_id, self.encoding);
        command.encode(out);
    }
}

/// What is wrong with messages that were pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageFaults {
    /// Messages whose offset is not the one behind the message before.
    pub(crate) offset_jumps: u64,
    pub(crate) wrong_queue: u64,
    /// Bodies with another checksum than the record's, or than their own.
    pub(crate) damaged: u64,
    /// Answers that end in something that is no record, or answers that cannot be read.
    pub(crate) unreadable: u64,
}

/// What came of the pulls of a run, but for their times.
#[derive(Clone, Debug, Default)]
pub(crate) struct PullTally {
    pub(crate) messages: u64,
    pub(crate) body_bytes: u64,
    pub(crate) pulls_found: u64,
    pub(crate) pulls_empty: u64,
    pub(crate) faults: MessageFaults,
    pub(crate) errors: Errors,
    pub(crate) last_arrival_ns: u64,
    pub(crate) connections_lost: u64,
    /// How often [`AtEnd::Repeats`] began again with a queue.
    pub(crate) repeats: u64,
}

impl PullTally {
    /// Takes in what came of other pulls of the same run.
    pub(crate) fn merge(&mut self, other: PullTally) {
        self.messages += other.messages;
        self.body_bytes += other.body_bytes;
        self.pulls_found += other.pulls_found;
        self.pulls_empty += other.pulls_empty;
        self.faults.offset_jumps += other.faults.offset_jumps;
        self.faults.wrong_queue += other.faults.wrong_queue;
        self.faults.damaged += other.faults.damaged;
        self.faults.unreadable += other.faults.unreadable;
        self.errors.merge(other.errors);
        self.last_arrival_ns = self.last_arrival_ns.max(other.last_arrival_ns);
        self.connections_lost += other.connections_lost;
        self.repeats += other.repeats;
    }
}

#[derive(Clone, Copy, Debug)]
struct PullQueue {
    queue_id: i32,
    start: i64,
    next_offset: i64,
    /// Where a catch-up ends.
    limit: Option<i64>,
    asked_ns: u64,
    /// Its pull was refused and is to be tried again.
    refused: bool,
}

impl PullQueue {
    fn is_through(&self) -> bool {
        self.limit.is_some_and(|limit| self.next_offset >= limit)
    }
}

/// What the threads of a run share.
struct Shared {
    messages: AtomicU64,
    links_busy: AtomicUsize,
}

/// The pulls of one connection, on a thread of their own.
struct Puller {
    link: Arc<Link>,
    shared: Arc<Shared>,
    clock: RunClock,
    form: PullForm,
    /// Every `connections`th queue of the topic.
    queues: Vec<PullQueue>,
    connections: usize,
    out: BytesMut,
    tally: PullTally,
    recorder: Recorder,
    span_ns: Range<u64>,
    reported: u64,
}

impl Puller {
    /// Pulls until the connection ends, and tells what came of it.
    fn run(mut self) -> PullTally {
        let (link, clock) = (self.link.clone(), self.clock);
        (0..self.queues.len()).for_each(|place| self.ask(place));
        self.batch_end();
        let outcome = link.read_on(clock, &mut self);
        self.tally.faults.unreadable += u64::from(outcome.is_err());
        self.shared.links_busy.fetch_sub(1, Ordering::Relaxed);
        self.tally
    }

    /// Asks for more of a queue unless it is through.
    fn ask(&mut self, place: usize) {
        let queue = &mut self.queues[place];
        if queue.is_through() && self.form.end == AtEnd::Repeats {
            queue.next_offset = queue.start;
            self.tally.repeats += 1;
        }
        if !queue.is_through() {
            queue.asked_ns = self.clock.now_ns();
            self.form.write(queue.queue_id, queue.next_offset, &mut self.out);
        }
    }

    fn answer(&mut self, place: usize, reply: &Reply, frame: &[u8], arrived_ns: u64) {
        let (tally, queue) = (&mut self.tally, &mut self.queues[place]);
        match ResponseCode(reply.code) {
            ResponseCode::SUCCESS => {
                tally.pulls_found += 1;
                tally.last_arrival_ns = arrived_ns;
                // At the tail it is mostly the wait for a message.
                if self.form.end != AtEnd::Waits && self.span_ns.contains(&queue.asked_ns) {
                    self.recorder.record(Kind::Pull, arrived_ns.saturating_sub(queue.asked_ns));
                }
                let next_offset = self.records(place, &frame[reply.body_at..], arrived_ns);
                let queue = &mut self.queues[place];
                queue.next_offset = next_offset;
                self.tally.faults.offset_jumps += u64::from(reply.next_begin_offset != Some(next_offset));
            }
            ResponseCode::PULL_NOT_FOUND | ResponseCode::PULL_RETRY_IMMEDIATELY => {
                tally.pulls_empty += 1;
                let moved = reply.next_begin_offset.is_some_and(|next| next != queue.next_offset);
                tally.faults.offset_jumps += u64::from(moved);
            }
            _ => {
                tally.errors.add(reply.code, frame);
                queue.refused = true;
                return;
            }
        }
        self.ask(place);
    }

    /// Checks the records of an answer's body; returns the offset behind the last good one.
    fn records(&mut self, place: usize, body: &[u8], arrived_ns: u64) -> i64 {
        let PullQueue { queue_id, mut next_offset, .. } = self.queues[place];
        for record in Records::new(body) {
            let Ok(record) = record else {
                self.tally.faults.unreadable += 1;
                break;
            };
            let offset = record.queue_offset().0 as i64;
            self.tally.faults.offset_jumps += u64::from(offset != next_offset);
            self.tally.faults.wrong_queue += u64::from(record.queue_id().0 as i32 != queue_id);
            next_offset = offset + 1;
            self.record(&record, arrived_ns);
        }
        next_offset
    }

    fn record(&mut self, record: &RecordView<'_>, arrived_ns: u64) {
        let body = record.body();
        self.tally.messages += 1;
        self.tally.body_bytes += body.len() as u64;
        self.recorder.counts.pulled += u64::from(arrived_ns >= self.span_ns.start);
        let content = match body_of(record) {
            Body::Plain(plain) => payload::read(&plain),
            Body::Packed { .. } | Body::Damaged { .. } => Content::Damaged,
        };
        match content {
            Content::Ours(stamp) if body_crc(body) == record.body_crc() => {
                if self.span_ns.contains(&stamp.due_ns) && self.form.end == AtEnd::Waits {
                    let due_ns = stamp.due_ns + self.form.delay_ns;
                    self.recorder.record(Kind::EndToEnd, arrived_ns.saturating_sub(due_ns));
                }
            }
            Content::Foreign if body_crc(body) == record.body_crc() => {}
            _ => self.tally.faults.damaged += 1,
        }
    }

    /// Where a queue stands among those of this connection.
    fn place_of(&self, opaque: i32) -> Option<usize> {
        let queue_id = opaque.checked_sub(OPAQUE_MIN)?;
        let place = usize::try_from(queue_id).ok()? / self.connections;
        (self.queues.get(place)?.queue_id == queue_id).then_some(place)
    }
}

impl Frames for Puller {
    fn frame(&mut self, frame: &[u8], arrived_ns: u64) {
        let Ok(reply) = reply::read(frame) else {
            self.tally.faults.unreadable += 1;
            return;
        };
        if !reply.is_response {
            return; // Something that the server tells its consumers.
        }
        match self.place_of(reply.opaque) {
            Some(place) => self.answer(place, &reply, frame, arrived_ns),
            None => self.tally.faults.unreadable += 1,
        }
    }

    fn batch_end(&mut self) {
        self.shared.messages.fetch_add(self.tally.messages - self.reported, Ordering::Relaxed);
        self.reported = self.tally.messages;
        if self.queues.iter().any(|queue| queue.refused) {
            self.clock.sleep(ERROR_PAUSE);
            for place in 0..self.queues.len() {
                if std::mem::take(&mut self.queues[place].refused) {
                    self.ask(place);
                }
            }
        }
        self.recorder.hand_over();
        if self.form.end == AtEnd::Ends && self.queues.iter().all(PullQueue::is_through) {
            self.link.close();
        } else if !self.out.is_empty() {
            self.link.send(&self.out);
            self.out.clear();
        }
    }

    fn broken(&mut self) {
        self.tally.connections_lost += 1;
    }

    fn restored(&mut self, _away_ns: u64) {
        self.out.clear();
        (0..self.queues.len()).for_each(|place| self.ask(place));
        self.batch_end();
    }
}

/// All pulls of a run.
pub(crate) struct RunningPulls {
    links: Vec<Arc<Link>>,
    threads: Vec<JoinHandle<PullTally>>,
    shared: Arc<Shared>,
}

impl RunningPulls {
    /// Opens the connections and starts to pull each queue from `starts` on, to `limits` if there are any.
    pub(crate) fn start(
        target: &Target,
        form: &PullForm,
        connections: u16,
        starts: &[i64],
        limits: Option<&[i64]>,
        shelf: &Arc<Shelf>,
        clock: RunClock,
    ) -> Result<RunningPulls, BenchError> {
        let connections = connections.min(target.queues);
        let links = Link::open_all(target.broker, connections)?;
        let shared = Arc::new(Shared { messages: AtomicU64::new(0), links_busy: AtomicUsize::new(links.len()) });
        let queue = |(index, start): (usize, &i64)| PullQueue {
            queue_id: index as i32,
            start: *start,
            next_offset: *start,
            limit: limits.map(|limits| limits[index]),
            asked_ns: 0,
            refused: false,
        };
        let queues: Vec<PullQueue> = starts.iter().enumerate().map(queue).collect();
        let mut threads = Vec::new();
        for (index, link) in links.iter().enumerate() {
            let puller = Puller {
                link: link.clone(),
                shared: shared.clone(),
                clock,
                form: form.clone(),
                queues: queues.iter().skip(index).step_by(links.len()).copied().collect(),
                connections: links.len(),
                out: BytesMut::new(),
                tally: PullTally::default(),
                recorder: shelf.recorder(),
                span_ns: shelf.span_ns(),
                reported: 0,
            };
            let thread = runtime::core::thread(&format!("pulls-{index}"), move || puller.run());
            threads.push(thread.map_err(BenchError::Executor)?);
        }
        Ok(RunningPulls { links, threads, shared })
    }

    pub(crate) fn message_count(&self) -> u64 {
        self.shared.messages.load(Ordering::Relaxed)
    }

    /// All queues are through, or no connection is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.links_busy.load(Ordering::Relaxed) == 0
    }

    /// Ends all connections and adds up what came of all pulls.
    pub(crate) fn finish(self) -> PullTally {
        self.links.iter().for_each(|link| link.close());
        let mut tally = PullTally::default();
        for thread in self.threads {
            tally.merge(thread.join().expect("a thread that panics ends the process"));
        }
        tally
    }
}
