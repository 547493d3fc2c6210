//! One connection of a closed loop, on a thread of its own: every batch of answers is followed by as many sends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;

use crate::in_flight::InFlight;
use crate::load::{Load, Place};
use crate::record::Recorder;
use crate::reply;
use crate::tally::{Answer, SendTally};
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
    recorder: Recorder,
    answered_reported: u64,
}

impl ClosedLoop {
    pub(crate) fn new(link: Arc<Link>, load: Arc<Load>, place: Place, window: usize, left: u64) -> ClosedLoop {
        let (tally, recorder) = (load.tally_of(&link), load.shelf.recorder());
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
            let Some(opaque) = self.in_flight.begin(now_ns) else { break };
            let number = self.place.number(self.sent);
            self.load.templates.write(&Patch { opaque, born_ms, number, due_ns: now_ns }, &mut self.out);
            self.tally.sent(self.load.batch(), now_ns, &mut self.recorder);
            (self.sent, self.left) = (self.sent + 1, self.left - 1);
        }
        if !self.out.is_empty() {
            self.link.send(&self.out);
            self.out.clear();
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
        if !reply.is_response {
            return; // Something that the server tells its producers.
        }
        match self.in_flight.end(reply.opaque) {
            Some(due_ns) => {
                let answer = Answer { messages: self.load.batch(), due_ns, arrived_ns, reply, frame };
                self.tally.answer(&answer, &mut self.recorder);
            }
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
        self.recorder.hand_over();
        if self.in_flight.count() == 0 {
            self.link.close();
        }
    }

    fn broken(&mut self) {
        let lost = self.in_flight.clear() * self.load.batch();
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
