//! Pulls: one in flight for each queue, every message checked where it lies in the answer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use hdrhistogram::Histogram;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::{Command, HeaderEncoding};
use remoting::header::pull::{PULL_FLAG_SUBSCRIPTION, PULL_FLAG_SUSPEND, PullMessage};
use remoting::record::{RecordView, Records, body_crc};
use remoting::subscription::EXPRESSION_TAG;
use remoting::text::Text;
use runtime::sync::Notify;

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
    /// A message due in here counts for [`PullTally::end_to_end`].
    pub(crate) span_ns: std::ops::Range<u64>,
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
    fn new() -> PullTally {
        PullTally {
            span_ns: 0..0,
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

struct PullQueue {
    link: Rc<Link>,
    next_offset: i64,
    /// Where a catch-up ends.
    limit: Option<i64>,
    asked_ns: u64,
}

/// All pulls of a run.
pub(crate) struct Puller {
    clock: RunClock,
    form: PullForm,
    queues: RefCell<Vec<PullQueue>>,
    pub(crate) tally: RefCell<PullTally>,
    /// Queues that are not through.
    open_queues: Cell<usize>,
    links: Vec<Rc<Link>>,
    over: Cell<bool>,
    /// Messages came, a queue is through or a connection is lost.
    pub(crate) changed: Notify,
}

impl Puller {
    /// Opens the connections and starts to pull each queue from `starts` on, to `limits` if there are any.
    pub(crate) async fn start(
        target: &Target,
        form: PullForm,
        connections: u16,
        starts: &[i64],
        limits: Option<&[i64]>,
        clock: RunClock,
    ) -> Result<Rc<Puller>, BenchError> {
        let mut links = Vec::new();
        for _ in 0..connections {
            links.push(Link::open(target.broker).await?);
        }
        let queue = |(index, start): (usize, &i64)| PullQueue {
            link: links[index % links.len()].clone(),
            next_offset: *start,
            limit: limits.map(|limits| limits[index]),
            asked_ns: 0,
        };
        let queues: Vec<PullQueue> = starts.iter().enumerate().map(queue).collect();
        let open_queues = queues.iter().filter(|queue| !queue.is_through()).count();
        let puller = Rc::new(Puller {
            clock,
            form,
            queues: RefCell::new(queues),
            tally: RefCell::new(PullTally::new()),
            open_queues: Cell::new(open_queues),
            links,
            over: Cell::new(false),
            changed: Notify::new(),
        });
        for link in &puller.links {
            runtime::spawn(read(puller.clone(), link.clone()));
        }
        for index in 0..starts.len() {
            puller.ask(index);
        }
        Ok(puller)
    }

    pub(crate) fn is_through(&self) -> bool {
        self.open_queues.get() == 0
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.links.iter().all(|link| link.is_closed())
    }

    pub(crate) fn close(&self) {
        self.over.set(true);
        self.links.iter().for_each(|link| link.close());
    }

    /// Asks for more of a queue unless it is through.
    fn ask(&self, index: usize) {
        let mut queues = self.queues.borrow_mut();
        let queue = &mut queues[index];
        if queue.is_through() {
            return;
        }
        queue.asked_ns = self.clock.now_ns();
        self.form.write(index as i32, queue.next_offset, &mut queue.link.out());
        queue.link.flush();
    }

    fn answer(self: &Rc<Self>, index: usize, reply: &Reply, frame: &[u8], arrived_ns: u64) {
        let mut tally = self.tally.borrow_mut();
        let mut queues = self.queues.borrow_mut();
        let queue = &mut queues[index];
        let before = queue.next_offset;
        let next_begin_offset = reply.next_begin_offset;
        match ResponseCode(reply.code) {
            ResponseCode::SUCCESS => {
                tally.pulls_found += 1;
                tally.last_arrival_ns = arrived_ns;
                tally.pull_latency.saturating_record(arrived_ns.saturating_sub(queue.asked_ns).max(1));
                queue.next_offset = tally.records(&frame[reply.body_at..], index as i32, before, arrived_ns);
                tally.faults.offset_jumps += u64::from(next_begin_offset != Some(queue.next_offset));
            }
            ResponseCode::PULL_NOT_FOUND | ResponseCode::PULL_RETRY_IMMEDIATELY => {
                tally.pulls_empty += 1;
                tally.faults.offset_jumps += u64::from(next_begin_offset.is_some_and(|next| next != before));
            }
            _ => {
                tally.errors.add(reply.code, frame);
                drop((tally, queues));
                runtime::spawn(ask_later(self.clone(), index));
                return;
            }
        }
        if queue.is_through() {
            self.open_queues.set(self.open_queues.get() - 1);
        }
        drop((tally, queues));
        self.ask(index);
    }
}

impl PullQueue {
    fn is_through(&self) -> bool {
        self.limit.is_some_and(|limit| self.next_offset >= limit)
    }
}

/// The frames of one connection.
struct Answers {
    puller: Rc<Puller>,
}

impl Frames for Answers {
    fn frame(&self, frame: &[u8], arrived_ns: u64) {
        let puller = &self.puller;
        let Ok(reply) = reply::read(frame) else {
            puller.tally.borrow_mut().faults.unreadable += 1;
            return;
        };
        if !reply.is_response {
            return; // Something that the server tells its consumers.
        }
        let index = reply.opaque.checked_sub(OPAQUE_MIN).and_then(|index| usize::try_from(index).ok());
        match index.filter(|index| *index < puller.queues.borrow().len()) {
            Some(index) => puller.answer(index, &reply, frame, arrived_ns),
            None => puller.tally.borrow_mut().faults.unreadable += 1,
        }
    }

    fn batch_end(&self) {
        self.puller.changed.notify();
    }
}

async fn read(puller: Rc<Puller>, link: Rc<Link>) {
    let answers = Answers { puller: puller.clone() };
    let outcome = link.read(puller.clock, &answers).await;
    link.close();
    let mut tally = puller.tally.borrow_mut();
    tally.faults.unreadable += u64::from(outcome.is_err());
    tally.connections_lost += u64::from(!puller.over.get());
    drop(tally);
    puller.changed.notify();
}

async fn ask_later(puller: Rc<Puller>, index: usize) {
    runtime::clock::sleep(ERROR_PAUSE).await;
    if !puller.over.get() {
        puller.ask(index);
    }
}
