//! One connection of a closed loop, on a thread of its own: every batch of answers is followed by as many sends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;

use crate::duties::DUTY_OPAQUE;
use crate::in_flight::{InFlight, Request};
use crate::load::{Load, Place};
use crate::order::Order;
use crate::record::Recorder;
use crate::reply::{self, Reply};
use crate::tally::{Answer, EndAnswer, SendTally, is_stored};
use crate::template::Patch;
use crate::wire::{Frames, Link};

pub(crate) struct ClosedLoop {
    link: Arc<Link>,
    load: Arc<Load>,
    place: Place,
    /// Messages kept in flight.
    window: usize,
    /// Messages that are still to be sent.
    left: u64,
    sent: u64,
    in_flight: InFlight,
    /// Of an ordered load: keys of this connection with a message in flight.
    keys_busy: Vec<bool>,
    out: BytesMut,
    tally: SendTally,
    recorder: Recorder,
    answered_reported: u64,
}

impl ClosedLoop {
    pub(crate) fn new(link: Arc<Link>, load: Arc<Load>, place: Place, window: usize, left: u64) -> ClosedLoop {
        let (tally, recorder) = (load.tally_of(&link), load.shelf.recorder());
        let keys_busy = vec![false; load.templates.order().map_or(0, Order::keys_each)];
        ClosedLoop {
            link,
            load,
            place,
            window,
            left,
            sent: 0,
            in_flight: InFlight::default(),
            keys_busy,
            out: BytesMut::new(),
            tally,
            recorder,
            answered_reported: 0,
        }
    }

    /// Sends and reads until the connection ends, and tells what came of it.
    pub(crate) fn run(mut self) -> SendTally {
        let (link, clock) = (self.link.clone(), self.load.clock);
        self.batch_end();
        let outcome = link.read_on(clock, &mut self);
        self.tally.unreadable += u64::from(outcome.is_err());
        self.tally.lost += self.in_flight.count() as u64 * self.load.batch();
        self.load.links_busy.fetch_sub(1, Ordering::Relaxed);
        self.tally
    }

    fn fill(&mut self) {
        let (now_ns, born_ms) = (self.load.clock.now_ns(), runtime::clock::now_ms().0);
        while self.left > 0 && self.in_flight.count() < self.window {
            let number = self.place.number(self.sent);
            if let Some(order) = self.load.templates.order() {
                let key_busy = &mut self.keys_busy[order.place(number)];
                if std::mem::replace(key_busy, true) {
                    break;
                }
            }
            let Some(opaque) = self.in_flight.begin(Request { number, due_ns: now_ns }) else { break };
            self.load.templates.write(&Patch { opaque, born_ms, number, due_ns: now_ns }, &mut self.out);
            self.tally.sent(self.load.batch(), now_ns, &mut self.recorder);
            (self.sent, self.left) = (self.sent + 1, self.left - 1);
        }
    }

    fn flush(&mut self) {
        if !self.out.is_empty() {
            self.link.send(&self.out);
            self.out.clear();
        }
    }
}

impl ClosedLoop {
    fn answer(&mut self, request: Request, reply: Reply, frame: &[u8], arrived_ns: u64) {
        let Request { number, due_ns } = request;
        let (opaque, code) = (reply.opaque, reply.code);
        let (messages, lane) = (self.load.batch(), self.load.templates.lane(number));
        let answer = Answer { messages, lanes: &self.load.lanes, lane, due_ns, arrived_ns, reply, frame };
        self.tally.answer(&answer, &mut self.recorder);
        match &self.load.ends {
            Some(ends) if is_stored(code) => {
                if ends.write(number, frame, -opaque, &mut self.out).is_none() {
                    self.tally.unreadable += 1;
                    self.over(opaque);
                }
            }
            _ => self.over(opaque),
        }
    }

    fn end_answer(&mut self, request: Request, reply: &Reply, frame: &[u8], arrived_ns: u64) {
        let Request { number, due_ns } = request;
        let commits = self.load.ends.as_ref().is_some_and(|ends| ends.commits(number));
        let answer = EndAnswer { commits, due_ns, arrived_ns, code: reply.code, frame };
        self.tally.end(&answer, &mut self.recorder);
        self.over(-reply.opaque);
    }

    /// Nothing more is to come of a request.
    fn over(&mut self, opaque: i32) {
        if let (Some(request), Some(order)) = (self.in_flight.end(opaque), self.load.templates.order()) {
            self.keys_busy[order.place(request.number)] = false;
        }
    }
}

impl Frames for ClosedLoop {
    fn waited(&mut self, waited_ns: u64) {
        self.tally.waited_ns = waited_ns;
    }

    fn frame(&mut self, frame: &[u8], arrived_ns: u64) {
        let Ok(reply) = reply::read(frame) else {
            self.tally.unreadable += 1;
            return;
        };
        if !reply.is_response || reply.opaque == DUTY_OPAQUE {
            return; // Something that the server tells its producers, or its word on a heartbeat.
        }
        // The end of a half message has the opaque of its beginning, below 0.
        let begin = if reply.opaque < 0 { reply.opaque.wrapping_neg() } else { reply.opaque };
        let Some(request) = self.in_flight.get(begin) else {
            self.tally.strange_answers += 1;
            return;
        };
        if reply.opaque < 0 {
            self.end_answer(request, &reply, frame, arrived_ns);
        } else {
            self.answer(request, reply, frame, arrived_ns);
        }
    }

    fn batch_end(&mut self) {
        let answered = self.tally.answered - self.answered_reported;
        self.answered_reported = self.tally.answered;
        self.load.answered.fetch_add(answered, Ordering::Relaxed);
        if self.load.may_send() {
            self.fill();
        }
        self.flush();
        self.recorder.hand_over();
        if self.in_flight.count() == 0 {
            self.link.close();
        }
    }

    fn broken(&mut self) {
        let lost = self.in_flight.clear() * self.load.batch();
        self.keys_busy.fill(false);
        // Ends of half messages are of no use on another connection: those are lost.
        self.out.clear();
        self.tally.lost += lost;
        self.tally.connections_lost += 1;
        self.recorder.counts.failed += lost;
        self.recorder.hand_over();
    }

    fn restored(&mut self, away_ns: u64) {
        self.tally.slow.over(self.link.port());
        self.tally.away_ns_max = self.tally.away_ns_max.max(away_ns);
        self.batch_end();
    }
}
