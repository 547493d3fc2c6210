//! Pulls: one in flight for each queue, every message checked where it lies in the answer.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::BytesMut;
use hdrhistogram::Histogram;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::{Command, HeaderEncoding};
use remoting::header::pull::{PULL_FLAG_SUBSCRIPTION, PULL_FLAG_SUSPEND, PullMessage};
use remoting::record::{RecordView, Records, body_crc};
use remoting::subscription::EXPRESSION_TAG;
use remoting::text::Text;

use crate::clock::RunClock;
use crate::error::BenchError;
use crate::payload::{self, Content};
use crate::reply::{self, Reply};
use crate::tally::{Errors, histogram};
use crate::target::Target;
use crate::wire::{Frames, Link};

pub(crate) const CONSUMER_GROUP: &str = "bench_consumer";
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
    pub(crate) topic: Text,
    pub(crate) count_max: u16,
    /// Pulls at the end of a queue wait for messages.
    pub(crate) at_tail: bool,
    /// A message that was due in here counts for [`PullTally::end_to_end`].
    pub(crate) span_ns: Range<u64>,
}

impl PullForm {
    fn write(&self, queue_id: i32, offset: i64, out: &mut BytesMut) {
        let suspend = if self.at_tail { PULL_FLAG_SUSPEND } else { 0 };
        let header = PullMessage {
            consumer_group: Text::from_static(CONSUMER_GROUP),
            topic: self.topic.clone(),
            queue_id,
            queue_offset: offset,
            message_count_max: self.count_max.into(),
            sys_flag: PULL_FLAG_SUBSCRIPTION | suspend,
            commit_offset: 0,
            suspend_timeout_ms: if self.at_tail { SUSPEND_MS } else { 0 },
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

/// What came of the pulls of a run.
pub(crate) struct PullTally {
    span_ns: Range<u64>,
    pub(crate) messages: u64,
    pub(crate) body_bytes: u64,
    pub(crate) pulls_found: u64,
    pub(crate) pulls_empty: u64,
    /// Of a pull that found something, from request to answer.
    pub(crate) pull_latency: Histogram<u64>,
    /// From when a message was due to its arrival here.
    pub(crate) end_to_end: Histogram<u64>,
    pub(crate) faults: MessageFaults,
    pub(crate) errors: Errors,
    pub(crate) last_arrival_ns: u64,
    pub(crate) connections_lost: u64,
}

impl PullTally {
    fn new(span_ns: Range<u64>) -> PullTally {
        PullTally {
            span_ns,
            messages: 0,
            body_bytes: 0,
            pulls_found: 0,
            pulls_empty: 0,
            pull_latency: histogram(),
            end_to_end: histogram(),
            faults: MessageFaults::default(),
            errors: Errors::default(),
            last_arrival_ns: 0,
            connections_lost: 0,
        }
    }

    /// Takes in what came of other pulls of the same run.
    fn merge(&mut self, other: PullTally) {
        self.messages += other.messages;
        self.body_bytes += other.body_bytes;
        self.pulls_found += other.pulls_found;
        self.pulls_empty += other.pulls_empty;
        self.pull_latency.add(&other.pull_latency).expect("all have the same bounds");
        self.end_to_end.add(&other.end_to_end).expect("all have the same bounds");
        self.faults.offset_jumps += other.faults.offset_jumps;
        self.faults.wrong_queue += other.faults.wrong_queue;
        self.faults.damaged += other.faults.damaged;
        self.faults.unreadable += other.faults.unreadable;
        self.errors.merge(other.errors);
        self.last_arrival_ns = self.last_arrival_ns.max(other.last_arrival_ns);
        self.connections_lost += other.connections_lost;
    }

    /// Checks the records of an answer's body; returns the offset behind the last good one.
    fn records(&mut self, body: &[u8], queue_id: i32, next_offset: i64, arrived_ns: u64) -> i64 {
        let mut next_offset = next_offset;
        for record in Records::new(body) {
            let Ok(record) = record else {
                self.faults.unreadable += 1;
                break;
            };
            let offset = record.queue_offset().0 as i64;
            self.faults.offset_jumps += u64::from(offset != next_offset);
            self.faults.wrong_queue += u64::from(record.queue_id().0 as i32 != queue_id);
            next_offset = offset + 1;
            self.record(&record, arrived_ns);
        }
        next_offset
    }

    fn record(&mut self, record: &RecordView<'_>, arrived_ns: u64) {
        let body = record.body();
        self.messages += 1;
        self.body_bytes += body.len() as u64;
        let content = payload::read(body);
        if body_crc(body) != record.body_crc() || content == Content::Damaged {
            self.faults.damaged += 1;
            return;
        }
        if let Content::Ours(stamp) = content
            && self.span_ns.contains(&stamp.due_ns)
        {
            self.end_to_end.saturating_record(arrived_ns.saturating_sub(stamp.due_ns).max(1));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct PullQueue {
    queue_id: i32,
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
    over: AtomicBool,
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
    reported: u64,
    through: bool,
}

impl Puller {
    /// Pulls until the connection ends, and tells what came of it.
    fn run(mut self) -> PullTally {
        let (link, clock) = (self.link.clone(), self.clock);
        (0..self.queues.len()).for_each(|place| self.ask(place));
        self.batch_end();
        let outcome = link.read(clock, &mut self);
        self.tally.faults.unreadable += u64::from(outcome.is_err());
        let meant = self.through || self.shared.over.load(Ordering::Relaxed);
        self.tally.connections_lost += u64::from(!meant);
        self.shared.links_busy.fetch_sub(1, Ordering::Relaxed);
        self.tally
    }

    /// Asks for more of a queue unless it is through.
    fn ask(&mut self, place: usize) {
        let queue = &mut self.queues[place];
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
                tally.pull_latency.saturating_record(arrived_ns.saturating_sub(queue.asked_ns).max(1));
                let body = &frame[reply.body_at..];
                queue.next_offset = tally.records(body, queue.queue_id, queue.next_offset, arrived_ns);
                tally.faults.offset_jumps += u64::from(reply.next_begin_offset != Some(queue.next_offset));
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
        if self.queues.iter().all(PullQueue::is_through) {
            self.through = true;
            self.link.close();
        } else if !self.out.is_empty() {
            self.link.send(&self.out);
            self.out.clear();
        }
    }
}

/// All pulls of a run.
pub(crate) struct RunningPulls {
    links: Vec<Arc<Link>>,
    threads: Vec<JoinHandle<PullTally>>,
    shared: Arc<Shared>,
    span_ns: Range<u64>,
}

impl RunningPulls {
    /// Opens the connections and starts to pull each queue from `starts` on, to `limits` if there are any.
    pub(crate) fn start(
        target: &Target,
        form: &PullForm,
        connections: u16,
        starts: &[i64],
        limits: Option<&[i64]>,
        clock: RunClock,
    ) -> Result<RunningPulls, BenchError> {
        let connections = connections.min(target.queues);
        let links = Link::open_all(target.broker, connections)?;
        let shared = Arc::new(Shared {
            messages: AtomicU64::new(0),
            links_busy: AtomicUsize::new(links.len()),
            over: AtomicBool::new(false),
        });
        let queue = |(index, start): (usize, &i64)| PullQueue {
            queue_id: index as i32,
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
                tally: PullTally::new(form.span_ns.clone()),
                reported: 0,
                through: false,
            };
            let thread = runtime::core::thread(&format!("pulls-{index}"), move || puller.run());
            threads.push(thread.map_err(BenchError::Executor)?);
        }
        Ok(RunningPulls { links, threads, shared, span_ns: form.span_ns.clone() })
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
        self.shared.over.store(true, Ordering::Relaxed);
        self.links.iter().for_each(|link| link.close());
        let mut tally = PullTally::new(self.span_ns);
        for thread in self.threads {
            tally.merge(thread.join().expect("a thread that panics ends the process"));
        }
        tally
    }
}
