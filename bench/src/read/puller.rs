//! Pulls: one in flight for each lane, of all lanes of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::Command;
use remoting::header::pull::{PULL_FLAG_SUBSCRIPTION, PULL_FLAG_SUSPEND, PullMessage};
use remoting::header::send_back::ConsumerSendMessageBack;
use remoting::record::{RecordView, Records};
use remoting::subscription::EXPRESSION_TAG;
use remoting::text::Text;

use super::arrival::{Intake, content_of};
use super::{AtEnd, ReadBounds, ReadForm, ReadTally, Seat};
use crate::duties::Commit;
use crate::payload::Content;
use crate::record::Kind;
use crate::reply::Reply;
use crate::transaction::is_of_share;
use crate::wire::{Frames, Link};

/// The opaque of the pull of lane 0.
const OPAQUE_MIN: i32 = 1_000_000_000;
/// A pause before a pull or pop that was refused is tried again.
pub(super) const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// How long the broker may hold a pull or pop at the tail.
pub(super) const SUSPEND_MS: i64 = 15_000;
/// Messages that are sent back come again after the shortest of the broker's delays.
const RETRY_LEVEL: i32 = 1;
pub(crate) const RETRY_DELAY_NS: u64 = 1_000_000_000;

impl ReadForm {
    /// All lanes, and behind them that of the retry topic if anything is sent back.
    pub(super) fn queues(&self, bounds: ReadBounds<'_>, consumed: &[Arc<AtomicI64>]) -> Vec<PullQueue> {
        let limits = bounds.limits.unwrap_or_default();
        let queue = |(lane, start): (usize, &i64)| PullQueue {
            limit: limits.get(lane).copied(),
            consumed: consumed[lane].clone(),
            ..PullQueue::new(self.lanes.topic(lane).clone(), self.lanes.queue_id(lane), lane, *start)
        };
        let mut queues: Vec<PullQueue> = bounds.starts.iter().enumerate().map(queue).collect();
        if self.retry_share.is_some() {
            let retry = PullQueue::new(self.retry_topic(), 0, queues.len(), 0);
            queues.push(PullQueue { is_retry: true, ..retry });
        }
        queues
    }

    pub(super) fn commit(&self, queue: &PullQueue) -> Commit {
        Commit {
            group: self.group.clone(),
            topic: queue.topic.clone(),
            queue_id: queue.queue_id,
            encoding: self.encoding,
            offset: queue.consumed.clone(),
            committed: queue.start,
        }
    }

    fn write_pull(&self, queue: &PullQueue, out: &mut BytesMut) {
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

#[derive(Clone, Debug)]
pub(super) struct PullQueue {
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

/// The pulls of one connection, on a thread of their own.
pub(super) struct Puller {
    link: Arc<Link>,
    intake: Intake,
    /// Every `connections`th lane.
    queues: Vec<PullQueue>,
    connections: usize,
    out: BytesMut,
}

impl Puller {
    pub(super) fn new(seat: Seat, queues: Vec<PullQueue>, connections: usize) -> Puller {
        Puller { link: seat.link, intake: seat.intake, queues, connections, out: BytesMut::new() }
    }

    /// Pulls until the connection ends, and tells what came of it.
    pub(super) fn run(mut self) -> ReadTally {
        let (link, clock) = (self.link.clone(), self.intake.clock);
        (0..self.queues.len()).for_each(|place| self.ask(place));
        self.batch_end();
        let outcome = link.read_on(clock, &mut self);
        self.intake.finish(&outcome)
    }

    /// Asks for more of a queue unless it is through.
    fn ask(&mut self, place: usize) {
        let (queue, intake) = (&mut self.queues[place], &mut self.intake);
        if queue.is_through() && intake.form.end == AtEnd::Repeats {
            queue.next_offset = queue.start;
            intake.tally.repeats += 1;
        }
        if !queue.is_through() {
            queue.asked_ns = intake.clock.now_ns();
            intake.form.write_pull(queue, &mut self.out);
        }
    }

    fn answer(&mut self, place: usize, reply: &Reply, frame: &[u8], arrived_ns: u64) {
        let (intake, queue) = (&mut self.intake, &mut self.queues[place]);
        match ResponseCode(reply.code) {
            ResponseCode::SUCCESS => {
                intake.found(Kind::Pull, queue.asked_ns, arrived_ns);
                let next_offset = self.records(place, &frame[reply.body_at..], arrived_ns);
                let queue = &mut self.queues[place];
                queue.next_offset = next_offset;
                queue.consumed.store(next_offset, Ordering::Relaxed);
                self.intake.tally.faults.offset_jumps += u64::from(reply.next_begin_offset != Some(next_offset));
            }
            ResponseCode::PULL_NOT_FOUND | ResponseCode::PULL_RETRY_IMMEDIATELY => {
                intake.tally.asks_empty += 1;
                let moved = reply.next_begin_offset.is_some_and(|next| next != queue.next_offset);
                intake.tally.faults.offset_jumps += u64::from(moved);
            }
            _ => {
                intake.tally.errors.add(reply.code, frame);
                queue.refused = true;
                return;
            }
        }
        self.ask(place);
    }

    /// Checks the records of an answer's body; returns the offset behind the last good one.
    fn records(&mut self, place: usize, body: &[u8], arrived_ns: u64) -> i64 {
        let (queue_id, mut next_offset) = (self.queues[place].queue_id, self.queues[place].next_offset);
        for record in Records::new(body) {
            let faults = &mut self.intake.tally.faults;
            let Ok(record) = record else {
                faults.unreadable += 1;
                break;
            };
            let offset = record.queue_offset().0 as i64;
            faults.offset_jumps += u64::from(offset != next_offset);
            faults.wrong_queue += u64::from(record.queue_id().0 as i32 != queue_id);
            next_offset = offset + 1;
            self.record(place, &record, arrived_ns);
        }
        next_offset
    }

    fn record(&mut self, place: usize, record: &RecordView<'_>, arrived_ns: u64) {
        let queue = &self.queues[place];
        if queue.is_retry {
            self.came_again(content_of(record), arrived_ns);
            return;
        }
        let number = self.intake.message(record, queue.lane, arrived_ns);
        if let (Some(number), Some(share)) = (number, self.intake.form.retry_share)
            && is_of_share(number, share)
        {
            self.send_back(record, number);
        }
    }

    /// Wants a message once more.
    fn send_back(&mut self, record: &RecordView<'_>, number: u64) {
        let intake = &mut self.intake;
        let header = ConsumerSendMessageBack {
            offset: record.physical_offset().0 as i64,
            group: intake.form.group.clone(),
            delay_level: RETRY_LEVEL,
            origin_message_id: None,
            origin_topic: Some(Text::from(record.topic())),
            unit_mode: false,
            max_reconsume_times: None,
        };
        intake.tally.sent_back += 1;
        let opaque = -i32::try_from(intake.tally.sent_back).unwrap_or(i32::MAX);
        let mut command = Command::request(RequestCode::CONSUMER_SEND_MSG_BACK, header.to_fields());
        (command.opaque, command.encoding) = (opaque, intake.form.encoding);
        command.encode(&mut self.out);
        let sent_ns = intake.clock.now_ns();
        intake.shared.sent_back.lock().expect("no holder panics").insert(number, sent_ns);
    }

    /// A message out of the retry topic.
    fn came_again(&mut self, content: Content, arrived_ns: u64) {
        let intake = &mut self.intake;
        let Content::Ours(stamp) = content else {
            intake.tally.faults.damaged += 1;
            return;
        };
        let sent_ns = intake.shared.sent_back.lock().expect("no holder panics").remove(&stamp.number);
        match sent_ns {
            Some(sent_ns) => {
                intake.tally.came_again += 1;
                if intake.span_ns.contains(&stamp.due_ns) {
                    intake.recorder.record(Kind::Retry, arrived_ns.saturating_sub(sent_ns + RETRY_DELAY_NS));
                }
            }
            // Nobody sent it back, or it came twice.
            None => intake.tally.faults.retries_strange += 1,
        }
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
        let Some(reply) = self.intake.reply(frame) else { return };
        if reply.opaque < 0 {
            if reply.code != ResponseCode::SUCCESS.0 {
                self.intake.tally.errors.add(reply.code, frame);
            }
            return; // Of a message that was sent back.
        }
        match self.place_of(reply.opaque) {
            Some(place) => self.answer(place, &reply, frame, arrived_ns),
            None => self.intake.tally.faults.unreadable += 1,
        }
    }

    fn batch_end(&mut self) {
        self.intake.hand_over();
        if self.queues.iter().any(|queue| queue.refused) {
            self.intake.clock.sleep(ERROR_PAUSE);
            for place in 0..self.queues.len() {
                if std::mem::take(&mut self.queues[place].refused) {
                    self.ask(place);
                }
            }
        }
        if self.intake.form.end == AtEnd::Ends && self.queues.iter().all(PullQueue::is_through) {
            self.link.close();
        } else if !self.out.is_empty() {
            self.link.send(&self.out);
            self.out.clear();
        }
    }

    fn broken(&mut self) {
        self.intake.lost_link();
    }

    fn restored(&mut self, _away_ns: u64) {
        self.out.clear();
        (0..self.queues.len()).for_each(|place| self.ask(place));
        self.batch_end();
    }
}
