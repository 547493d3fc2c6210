//! Pulls: one in flight for each lane, every message checked where it lies in the answer.

mod arrival;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::BytesMut;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::{Command, HeaderEncoding};
use remoting::header::pull::{PULL_FLAG_SUBSCRIPTION, PULL_FLAG_SUSPEND, PullMessage};
use remoting::name::retry_topic;
use remoting::subscription::EXPRESSION_TAG;
use remoting::text::Text;

use crate::clock::RunClock;
use crate::duties::{Commit, DUTY_OPAQUE, Duties, Member, consumer_heartbeat};
use crate::error::BenchError;
use crate::order::OrderCheck;
use crate::record::{Kind, Recorder, Shelf};
use crate::reply::{self, Reply};
use crate::tally::Errors;
use crate::target::{Lanes, Target};
use crate::wire::{Frames, Link};

/// The opaque of the pull of lane 0.
const OPAQUE_MIN: i32 = 1_000_000_000;
/// A pause before a pull that was refused is tried again.
const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// How long the broker may hold a pull at the tail.
const SUSPEND_MS: i64 = 15_000;
/// Messages that are sent back come again after the shortest of the broker's delays.
const RETRY_LEVEL: i32 = 1;
pub(crate) const RETRY_DELAY_NS: u64 = 1_000_000_000;

/// What the pulls of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct PullForm {
    pub(crate) encoding: HeaderEncoding,
    pub(crate) group: Text,
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

impl PullForm {
    /// Where messages come again that were sent back.
    pub(crate) fn retry_topic(&self) -> Text {
        Text::from(retry_topic(&self.group))
    }

    /// What the member `index` of the group says of itself.
    pub(crate) fn heartbeat(&self, index: usize) -> Command {
        let topics = self.lanes.topics.iter().cloned().chain([self.retry_topic()]);
        consumer_heartbeat(format!("{}@{index}", self.group), &self.group, topics)
    }

    fn write(&self, queue: &PullQueue, out: &mut BytesMut) {
        let at_tail = self.end == AtEnd::Waits;
        let suspend = if at_tail { PULL_FLAG_SUSPEND } else { 0 };
        let header = PullMessage {
            consumer_group: self.group.clone(),
            topic: queue.topic.clone(),
            queue_id: queue.queue_id,
            queue_offset: queue.next_offset,
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
        (command.opaque, command.encoding) = (OPAQUE_MIN + queue.lane as i32, self.encoding);
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
    /// Messages that came before an earlier one of their key, or out of another queue than their key's.
    pub(crate) order_breaks: u64,
    /// Half messages that were rolled back and arrived all the same.
    pub(crate) rolled_back: u64,
    /// Messages in the retry topic that nobody sent back, or that came twice.
    pub(crate) retries_strange: u64,
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
    /// Messages that were sent back, and those of them that came again.
    pub(crate) sent_back: u64,
    pub(crate) came_again: u64,
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
        self.faults.order_breaks += other.faults.order_breaks;
        self.faults.rolled_back += other.faults.rolled_back;
        self.faults.retries_strange += other.faults.retries_strange;
        self.errors.merge(other.errors);
        self.last_arrival_ns = self.last_arrival_ns.max(other.last_arrival_ns);
        self.connections_lost += other.connections_lost;
        self.repeats += other.repeats;
        self.sent_back += other.sent_back;
        self.came_again += other.came_again;
    }
}

#[derive(Clone, Debug)]
struct PullQueue {
    topic: Text,
    queue_id: i32,
    /// Among all of the group; that of the retry topic is the last.
    lane: usize,
    is_retry: bool,
    start: i64,
    next_offset: i64,
    /// The same for whoever commits it.
    consumed: Arc<AtomicI64>,
    /// Where a catch-up ends.
    limit: Option<i64>,
    asked_ns: u64,
    /// Its pull was refused and is to be tried again.
    refused: bool,
}

impl PullQueue {
    /// Without an end.
    fn new(topic: Text, queue_id: i32, lane: usize, start: i64) -> PullQueue {
        PullQueue {
            topic,
            queue_id,
            lane,
            is_retry: false,
            start,
            next_offset: start,
            consumed: Arc::new(AtomicI64::new(start)),
            limit: None,
            asked_ns: 0,
            refused: false,
        }
    }

    fn is_through(&self) -> bool {
        self.limit.is_some_and(|limit| self.next_offset >= limit)
    }
}

/// What the threads of a run share.
struct Shared {
    messages: AtomicU64,
    links_busy: AtomicUsize,
    /// Messages that were sent back and did not come again yet, and when that was.
    sent_back: Mutex<HashMap<u64, u64>>,
}

/// The pulls of one connection, on a thread of their own.
struct Puller {
    link: Arc<Link>,
    shared: Arc<Shared>,
    clock: RunClock,
    form: PullForm,
    /// Every `connections`th lane.
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
            self.form.write(queue, &mut self.out);
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
                queue.consumed.store(next_offset, Ordering::Relaxed);
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

    /// Where a queue stands among those of this connection.
    fn place_of(&self, opaque: i32) -> Option<usize> {
        let lane = usize::try_from(opaque.checked_sub(OPAQUE_MIN)?).ok()?;
        let place = lane / self.connections;
        (self.queues.get(place)?.lane == lane).then_some(place)
    }
}

impl Frames for Puller {
    fn frame(&mut self, frame: &[u8], arrived_ns: u64) {
        let Ok(reply) = reply::read(frame) else {
            self.tally.faults.unreadable += 1;
            return;
        };
        if !reply.is_response || reply.opaque == DUTY_OPAQUE {
            return; // Something that the server tells its consumers, or its word on a heartbeat.
        }
        if reply.opaque < 0 {
            if reply.code != ResponseCode::SUCCESS.0 {
                self.tally.errors.add(reply.code, frame);
            }
            return; // Of a message that was sent back.
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

/// All pulls of a group.
pub(crate) struct RunningPulls {
    pub(crate) group: Text,
    links: Vec<Arc<Link>>,
    threads: Vec<JoinHandle<PullTally>>,
    shared: Arc<Shared>,
    /// Of each lane, behind the last message that was consumed.
    consumed: Vec<Arc<AtomicI64>>,
    duties: Option<Duties>,
}

/// From where each lane is pulled, and to where if there is an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PullBounds<'a> {
    pub(crate) starts: &'a [i64],
    pub(crate) limits: Option<&'a [i64]>,
}

impl RunningPulls {
    /// Opens the connections and starts to pull.
    pub(crate) fn start(
        target: &Target,
        form: &PullForm,
        connections: u16,
        bounds: PullBounds<'_>,
        shelf: &Arc<Shelf>,
        clock: RunClock,
    ) -> Result<RunningPulls, BenchError> {
        let connections = target.lanes.count().min(connections.into()) as u16;
        let links = Link::open_all(target.broker, connections)?;
        let (messages, links_busy) = (AtomicU64::new(0), AtomicUsize::new(links.len()));
        let shared = Arc::new(Shared { messages, links_busy, sent_back: Mutex::default() });
        let queues = form.queues(bounds);
        let share = |index: usize| queues.iter().skip(index).step_by(links.len()).cloned().collect::<Vec<_>>();
        let mut threads = Vec::new();
        for (index, link) in links.iter().enumerate() {
            let puller = Puller {
                link: link.clone(),
                shared: shared.clone(),
                clock,
                form: form.clone(),
                queues: share(index),
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
        let members = links.iter().enumerate().map(|(index, link)| Member {
            link: link.clone(),
            heartbeat: form.heartbeat(index),
            commits: share(index).iter().map(|queue| form.commit(queue)).collect(),
        });
        let duties = form.has_duties.then(|| Duties::start(members.collect(), clock)).transpose()?;
        let consumed = queues.iter().take(form.lanes.count()).map(|queue| queue.consumed.clone()).collect();
        Ok(RunningPulls { group: form.group.clone(), links, threads, shared, consumed, duties })
    }

    pub(crate) fn message_count(&self) -> u64 {
        self.shared.messages.load(Ordering::Relaxed)
    }

    /// Messages that were sent back and did not come again yet.
    pub(crate) fn retries_open(&self) -> u64 {
        self.shared.sent_back.lock().expect("no holder panics").len() as u64
    }

    /// All queues are through, or no connection is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.links_busy.load(Ordering::Relaxed) == 0
    }

    /// Has the last offsets committed, and tells which they are; `None` when nobody commits.
    pub(crate) fn commit(&mut self) -> Option<Vec<i64>> {
        self.duties.take()?.finish();
        Some(self.consumed.iter().map(|offset| offset.load(Ordering::Relaxed)).collect())
    }

    /// Ends all connections and adds up what came of all pulls.
    pub(crate) fn finish(self) -> PullTally {
        if let Some(duties) = self.duties {
            duties.finish();
        }
        self.links.iter().for_each(|link| link.close());
        let mut tally = PullTally::default();
        for thread in self.threads {
            tally.merge(thread.join().expect("a thread that panics ends the process"));
        }
        tally
    }
}

impl PullForm {
    /// All lanes, and behind them that of the retry topic if anything is sent back.
    fn queues(&self, bounds: PullBounds<'_>) -> Vec<PullQueue> {
        let limits = bounds.limits.unwrap_or_default();
        let queue = |(lane, start): (usize, &i64)| PullQueue {
            limit: limits.get(lane).copied(),
            ..PullQueue::new(self.lanes.topic(lane).clone(), self.lanes.queue_id(lane), lane, *start)
        };
        let mut queues: Vec<PullQueue> = bounds.starts.iter().enumerate().map(queue).collect();
        if self.retry_share.is_some() {
            let retry = PullQueue::new(self.retry_topic(), 0, queues.len(), 0);
            queues.push(PullQueue { is_retry: true, ..retry });
        }
        queues
    }

    fn commit(&self, queue: &PullQueue) -> Commit {
        Commit {
            group: self.group.clone(),
            topic: queue.topic.clone(),
            queue_id: queue.queue_id,
            encoding: self.encoding,
            offset: queue.consumed.clone(),
            committed: queue.start,
        }
    }
}
