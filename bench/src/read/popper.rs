//! Pops: one in flight for each topic of a connection, of any of its queues, and an acknowledgement of each message, as the
//! official Java client does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::{Command, HeaderEncoding};
use remoting::fields::Fields;
use remoting::header::pop::{AckMessage, PopMessage};
use remoting::record::{RecordView, Records};
use remoting::subscription::EXPRESSION_TAG;
use remoting::text::Text;

use super::arrival::Intake;
use super::puller::{ERROR_PAUSE, SUSPEND_MS};
use super::receipt::{Receipt, Receipts};
use super::{ReadForm, ReadTally, Seat};
use crate::duties::DUTY_OPAQUE;
use crate::in_flight::{InFlight, Request};
use crate::ledger::OffsetLedger;
use crate::record::Kind;
use crate::reply::Reply;
use crate::wire::{Frames, Link};

/// Messages of one pop: no broker gives more.
pub(crate) const POP_MESSAGES_MAX: u16 = 32;
/// Topics of a phase with pops, so that all that is not acknowledged has a number of its own.
pub(crate) const POP_TOPICS_MAX: u16 = 512;
/// The opaque of the pop of the first topic. Acknowledgements have ten digits.
const OPAQUE_MIN: i32 = DUTY_OPAQUE + 1;
/// A group without offsets begins at the first message. Where it shall not, its offsets were committed before.
const INIT_AT_FIRST: i32 = 0;
/// Messages of a topic that are not acknowledged; beyond it a connection does not pop more.
const ACKS_OPEN_MAX: u32 = 96;

/// What a connection asks for on one topic.
struct Slot {
    topic: Text,
    /// The lane of its queue 0.
    lane: usize,
    asked_ns: u64,
    acks_open: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asked,
    /// Too much is not acknowledged.
    Held,
    /// To be tried again.
    Refused,
}

/// The pops of one connection, on a thread of their own.
pub(super) struct Popper {
    link: Arc<Link>,
    intake: Intake,
    slots: Vec<Slot>,
    /// By the places of their slots.
    acks: InFlight,
    /// Offsets that came out of their own queues.
    ledger: OffsetLedger,
    acks_reported: u64,
    out: BytesMut,
}

impl ReadForm {
    fn write_pop(&self, topic: &Text, opaque: i32, out: &mut BytesMut) {
        let header = PopMessage {
            consumer_group: self.group.clone(),
            topic: topic.clone(),
            queue_id: -1,
            message_count_max: self.count_max.into(),
            invisible_time_ms: self.invisible.as_millis() as i64,
            poll_time_ms: SUSPEND_MS,
            born_time_ms: runtime::clock::now_ms().0 as i64,
            init_mode: INIT_AT_FIRST,
            expression_type: Some(Text::from_static(EXPRESSION_TAG)),
            expression: Some(Text::from_static("*")),
            order: false,
            attempt_id: None,
        };
        write(RequestCode::POP_MESSAGE, header.to_fields(), opaque, out);
    }

    fn write_ack(&self, topic: Text, receipt: Receipt, opaque: i32, out: &mut BytesMut) {
        let header = AckMessage {
            consumer_group: self.group.clone(),
            topic,
            queue_id: receipt.queue_id,
            receipt: Text::from(receipt.text),
            offset: receipt.offset,
        };
        write(RequestCode::ACK_MESSAGE, header.to_fields(), opaque, out);
    }
}

/// As JSON whatever is asked for: a compact header has 16 bits for the code, which these do not fit into. Apache RocketMQ
/// refuses what is left of it.
fn write(code: RequestCode, fields: Fields, opaque: i32, out: &mut BytesMut) {
    let mut command = Command::request(code, fields);
    (command.opaque, command.encoding) = (opaque, HeaderEncoding::Json);
    command.encode(out);
}

impl Popper {
    /// `starts` are the offsets of all lanes that the group begins at.
    pub(super) fn new(seat: Seat, starts: &[i64]) -> Popper {
        let Seat { index, link, intake } = seat;
        let lanes = &intake.form.lanes;
        let slot = |(place, topic): (usize, &Text)| Slot {
            topic: topic.clone(),
            lane: place * usize::from(lanes.queues),
            asked_ns: 0,
            acks_open: 0,
            state: State::Held,
        };
        let mut slots: Vec<Slot> = lanes.topics.iter().enumerate().map(slot).collect();
        // Not all connections begin with the same topic.
        let turn = index % slots.len();
        slots.rotate_left(turn);
        let (acks, ledger) = (InFlight::default(), OffsetLedger::new(starts));
        Popper { link, intake, slots, acks, ledger, acks_reported: 0, out: BytesMut::new() }
    }

    /// Pops until the connection ends, and tells what came of it.
    pub(super) fn run(mut self) -> ReadTally {
        let (link, clock) = (self.link.clone(), self.intake.clock);
        (0..self.slots.len()).for_each(|place| self.ask(place));
        self.batch_end();
        let outcome = link.read_on(clock, &mut self);
        self.lose_acks();
        self.intake.tally.popped.groups = vec![self.ledger];
        self.intake.finish(&outcome)
    }

    /// Asks for more of a topic unless too much of it is not acknowledged.
    fn ask(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        if slot.acks_open > ACKS_OPEN_MAX {
            slot.state = State::Held;
            return;
        }
        (slot.state, slot.asked_ns) = (State::Asked, self.intake.clock.now_ns());
        self.intake.form.write_pop(&slot.topic, OPAQUE_MIN + place as i32, &mut self.out);
    }

    fn popped(&mut self, place: usize, reply: &Reply, frame: &[u8], arrived_ns: u64) {
        match ResponseCode(reply.code) {
            ResponseCode::SUCCESS => {
                self.intake.found(Kind::Pop, self.slots[place].asked_ns, arrived_ns);
                self.records(place, frame, reply.body_at, arrived_ns);
            }
            ResponseCode::POLLING_TIMEOUT | ResponseCode::PULL_NOT_FOUND => self.intake.tally.asks_empty += 1,
            _ => {
                self.intake.tally.errors.add(reply.code, frame);
                self.slots[place].state = State::Refused;
                return;
            }
        }
        self.ask(place);
    }

    /// Checks the records of an answer and acknowledges each.
    fn records(&mut self, place: usize, frame: &[u8], body_at: usize, arrived_ns: u64) {
        let Some(mut receipts) = Receipts::of(&frame[..body_at]) else {
            self.intake.tally.faults.unreadable += 1;
            return;
        };
        for record in Records::new(&frame[body_at..]) {
            let Ok(record) = record else {
                self.intake.tally.faults.unreadable += 1;
                return;
            };
            let form = &self.intake.form;
            let receipt = receipts.next(&record, &form.group, &form.broker_name);
            self.record(place, &record, receipt.as_ref(), arrived_ns);
            match receipt {
                Some(receipt) => self.acknowledge(place, receipt),
                None => self.intake.tally.faults.receipts_wrong += 1,
            }
        }
    }

    fn record(&mut self, place: usize, record: &RecordView<'_>, receipt: Option<&Receipt>, arrived_ns: u64) {
        let slot = &self.slots[place];
        let (queue_id, offset) = (record.queue_id().0, record.queue_offset().0 as i64);
        let is_of_topic = record.topic() == &*slot.topic && queue_id < u32::from(self.intake.form.lanes.queues);
        let lane = is_of_topic.then_some(slot.lane + queue_id as usize);
        if receipt.is_some_and(|receipt| receipt.retry_topic.is_some()) {
            self.intake.tally.popped.revived += 1;
        } else {
            self.ledger.acknowledged(lane, offset);
            if let Some(consumed) = lane.and_then(|lane| self.intake.shared.consumed.get(lane)) {
                consumed.fetch_max(offset + 1, Ordering::Relaxed);
            }
        }
        self.intake.tally.faults.wrong_queue += u64::from(lane.is_none());
        self.intake.message(record, lane.unwrap_or(slot.lane), arrived_ns);
    }

    fn acknowledge(&mut self, place: usize, mut receipt: Receipt) {
        let request = Request { number: place as u64, due_ns: self.intake.clock.now_ns() };
        let Some(opaque) = self.acks.begin(request) else {
            // Only a target that gives more than it was asked for comes here.
            self.intake.tally.popped.acks_lost += 1;
            return;
        };
        let slot = &mut self.slots[place];
        slot.acks_open += 1;
        let topic = receipt.retry_topic.take().map_or_else(|| slot.topic.clone(), Text::from);
        self.intake.form.write_ack(topic, receipt, opaque, &mut self.out);
    }

    fn acknowledged(&mut self, request: Request, reply: &Reply, frame: &[u8], arrived_ns: u64) {
        let (place, intake) = (request.number as usize, &mut self.intake);
        if reply.code == ResponseCode::SUCCESS.0 {
            intake.tally.popped.acknowledged += 1;
        } else {
            intake.tally.errors.add(reply.code, frame);
        }
        if intake.span_ns.contains(&request.due_ns) {
            intake.recorder.record(Kind::Ack, arrived_ns.saturating_sub(request.due_ns));
        }
        let slot = &mut self.slots[place];
        slot.acks_open -= 1;
        if slot.state == State::Held {
            self.ask(place);
        }
    }

    /// What is not acknowledged will not be.
    fn lose_acks(&mut self) {
        self.intake.tally.popped.acks_lost += self.acks.clear();
        self.slots.iter_mut().for_each(|slot| slot.acks_open = 0);
        self.report_acks();
    }

    fn report_acks(&mut self) {
        let (open, shared) = (self.acks.count() as u64, &self.intake.shared.acks_open);
        if open > self.acks_reported {
            shared.fetch_add(open - self.acks_reported, Ordering::SeqCst);
        } else {
            shared.fetch_sub(self.acks_reported - open, Ordering::SeqCst);
        }
        self.acks_reported = open;
    }
}

impl Frames for Popper {
    fn frame(&mut self, frame: &[u8], arrived_ns: u64) {
        let Some(reply) = self.intake.reply(frame) else { return };
        let place = reply.opaque.checked_sub(OPAQUE_MIN).and_then(|place| usize::try_from(place).ok());
        let place = place.filter(|place| *place < self.slots.len());
        match (place, self.acks.end(reply.opaque)) {
            (Some(place), _) => self.popped(place, &reply, frame, arrived_ns),
            (None, Some(request)) => self.acknowledged(request, &reply, frame, arrived_ns),
            (None, None) => self.intake.tally.faults.unreadable += 1,
        }
    }

    fn batch_end(&mut self) {
        self.report_acks();
        self.intake.hand_over();
        if self.slots.iter().any(|slot| slot.state == State::Refused) {
            // Acknowledgements need not wait for that.
            self.link.send(&self.out);
            self.out.clear();
            self.intake.clock.sleep(ERROR_PAUSE);
            for place in 0..self.slots.len() {
                if self.slots[place].state == State::Refused {
                    self.ask(place);
                }
            }
        }
        if !self.out.is_empty() {
            self.link.send(&self.out);
            self.out.clear();
        }
    }

    fn broken(&mut self) {
        self.intake.lost_link();
        self.lose_acks();
    }

    fn restored(&mut self, _away_ns: u64) {
        self.out.clear();
        (0..self.slots.len()).for_each(|place| self.ask(place));
        self.batch_end();
    }
}
