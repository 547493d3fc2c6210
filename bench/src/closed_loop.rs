//! One connection of a closed loop: every batch of answers is followed by as many sends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use remoting::frame::FrameError;

use crate::crew::Member;
use crate::hand::{End, Hand};
use crate::in_flight::{InFlight, Request};
use crate::load::{Load, Place};
use crate::order::Order;
use crate::tally::SendTally;
use crate::template::Patch;
use crate::wire::{Frames, Link};

pub(crate) struct ClosedLoop {
    hand: Hand,
    place: Place,
    /// Messages kept in flight.
    window: usize,
    /// Messages that are still to be sent.
    left: u64,
    sent: u64,
    in_flight: InFlight,
    /// Of an ordered load: keys of this connection with a message in flight.
    keys_busy: Vec<bool>,
    answered_reported: u64,
}

impl ClosedLoop {
    pub(crate) fn new(link: Arc<Link>, load: Arc<Load>, place: Place, window: usize, left: u64) -> ClosedLoop {
        let keys_busy = vec![false; load.templates.order().map_or(0, Order::keys_each)];
        let (hand, in_flight) = (Hand::new(link, load), InFlight::default());
        ClosedLoop { hand, place, window, left, sent: 0, in_flight, keys_busy, answered_reported: 0 }
    }

    /// What came of it, once its connection has ended.
    pub(crate) fn finish(mut self, ended: &Result<(), FrameError>) -> SendTally {
        let lost = self.in_flight.count() as u64 * self.hand.load.batch();
        // Of half messages it may be the end alone that is not answered.
        if self.hand.load.ends.is_none() {
            self.hand.given_up(self.in_flight.requests().map(|request| request.due_ns));
        }
        self.hand.finish(ended, lost)
    }

    fn fill(&mut self) {
        let (now_ns, born_ms) = (self.hand.load.clock.now_ns(), runtime::clock::now_ms().0);
        while self.left > 0 && self.in_flight.count() < self.window {
            let number = self.place.number(self.sent);
            if let Some(order) = self.hand.load.templates.order() {
                let key_busy = &mut self.keys_busy[order.place(number)];
                if std::mem::replace(key_busy, true) {
                    break;
                }
            }
            let Some(opaque) = self.in_flight.begin(Request { number, due_ns: now_ns }) else { break };
            self.hand.load.templates.write(&Patch { opaque, born_ms, number, due_ns: now_ns }, &mut self.hand.out);
            self.hand.sent(now_ns);
            (self.sent, self.left) = (self.sent + 1, self.left - 1);
        }
    }

    /// Nothing more is to come of a request.
    fn over(&mut self, opaque: i32) {
        if let (Some(request), Some(order)) = (self.in_flight.end(opaque), self.hand.load.templates.order()) {
            self.keys_busy[order.place(request.number)] = false;
        }
    }
}

impl Member for ClosedLoop {
    fn link(&self) -> &Arc<Link> {
        &self.hand.link
    }

    fn begin(&mut self) {
        self.batch_end();
    }
}

/// A request takes until its answer is read, since that makes the next one go.
impl Frames for ClosedLoop {
    fn waited(&mut self, waited_ns: u64) {
        self.hand.tally.waited_ns = waited_ns;
    }

    fn frame(&mut self, frame: &[u8], arrived_ns: u64) {
        let Some(reply) = self.hand.reply(frame) else { return };
        // The end of a half message has the opaque of its beginning, below 0.
        let (opaque, ends) = (reply.opaque.wrapping_abs(), reply.opaque < 0);
        let Some(request) = self.in_flight.get(opaque) else {
            self.hand.tally.strange_answers += 1;
            return;
        };
        let read_ns = arrived_ns + self.hand.tally.waited_ns;
        let is_over = if ends {
            self.hand.end_answer(request, &reply, frame, read_ns);
            true
        } else {
            self.hand.answer(request, End { opaque: -opaque }, reply, frame, read_ns)
        };
        if is_over {
            self.over(opaque);
        }
    }

    fn batch_end(&mut self) {
        let answered = self.hand.tally.answered - self.answered_reported;
        self.answered_reported = self.hand.tally.answered;
        self.hand.load.answered.fetch_add(answered, Ordering::Relaxed);
        if self.hand.load.may_send() {
            self.fill();
        }
        self.hand.hand_over();
        if self.in_flight.count() == 0 {
            self.hand.link.close();
        }
    }

    fn broken(&mut self) {
        let lost = self.in_flight.clear() * self.hand.load.batch();
        self.keys_busy.fill(false);
        self.hand.tally.lost += lost;
        self.hand.broken(lost);
    }

    fn restored(&mut self, away_ns: u64) {
        self.hand.restored(away_ns);
        self.batch_end();
    }
}
