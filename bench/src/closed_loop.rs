//! One connection of a closed loop, on a thread of its own: every batch of answers is followed by as many sends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;

use crate::in_flight::InFlight;
use crate::load::{Load, Place};
use crate::payload::Stamp;
use crate::reply;
use crate::tally::SendTally;
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
    out: BytesMut,
    tally: SendTally,
    answered_reported: u64,
    /// Everything was sent and answered, so the connection was closed from here.
    through: bool,
}

impl ClosedLoop {
    pub(crate) fn new(link: Arc<Link>, load: Arc<Load>, place: Place, window: usize, left: u64) -> ClosedLoop {
        let tally = load.tally();
        ClosedLoop {
            link,
            load,
            place,
            window,
            left,
            sent: 0,
            in_flight: InFlight::default(),
            out: BytesMut::new(),
            tally,
            answered_reported: 0,
            through: false,
        }
    }

    /// Sends and reads until the connection ends, and tells what came of it.
    pub(crate) fn run(mut self) -> SendTally {
        let (link, clock) = (self.link.clone(), self.load.clock);
        self.batch_end();
        let outcome = link.read(clock, &mut self);
        self.tally.unreadable += u64::from(outcome.is_err());
        self.tally.lost += self.in_flight.count() as u64;
        self.tally.connections_lost += u64::from(!self.through && !self.load.is_over());
        self.load.links_busy.fetch_sub(1, Ordering::Relaxed);
        self.tally
    }

    fn fill(&mut self) {
        let (now_ns, born_ms) = (self.load.clock.now_ns(), runtime::clock::now_ms().0);
        while self.left > 0 && self.in_flight.count() < self.window {
            let Some(opaque) = self.in_flight.begin(now_ns) else { break };
            let number = self.place.number(self.sent);
            let stamp = Stamp { due_ns: now_ns, number };
            self.load.template(number).write(&Patch { opaque, born_ms, stamp }, &mut self.out);
            self.tally.sent(now_ns, now_ns, false);
            (self.sent, self.left) = (self.sent + 1, self.left - 1);
        }
        if !self.out.is_empty() {
            self.link.send(&self.out);
            self.out.clear();
        }
    }
}

impl Frames for ClosedLoop {
    fn frame(&mut self, frame: &[u8], arrived_ns: u64) {
        let Ok(reply) = reply::read(frame) else {
            self.tally.unreadable += 1;
            return;
        };
        if !reply.is_response {
            return; // Something that the server tells its producers.
        }
        match self.in_flight.end(reply.opaque) {
            Some(due_ns) => self.tally.answer(due_ns, arrived_ns, &reply, frame),
            None => self.tally.strange_answers += 1,
        }
    }

    fn batch_end(&mut self) {
        let answered = self.tally.answered - self.answered_reported;
        self.answered_reported = self.tally.answered;
        self.load.answered.fetch_add(answered, Ordering::Relaxed);
        if self.load.may_send() {
            self.fill();
        }
        if self.in_flight.count() == 0 {
            self.through = true;
            self.link.close();
        }
    }
}
