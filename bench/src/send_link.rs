//! One connection that sends, and what is in flight on it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use remoting::frame::FrameError;

use crate::in_flight::InFlight;
use crate::load::Load;
use crate::payload::Stamp;
use crate::reply;
use crate::template::Patch;
use crate::wire::{Frames, Link};

pub(crate) struct SendLink {
    link: Rc<Link>,
    load: Rc<Load>,
    in_flight: RefCell<InFlight>,
    /// Moves the sends of this connection around the queues.
    turn: Cell<usize>,
    /// Messages in flight that a closed loop keeps; 0 in open loop.
    window: usize,
}

impl SendLink {
    /// `first_queue` is where this connection's way around the queues begins.
    pub(crate) fn new(link: Rc<Link>, load: Rc<Load>, first_queue: usize, window: usize) -> Rc<SendLink> {
        Rc::new(SendLink { link, load, in_flight: RefCell::default(), turn: Cell::new(first_queue), window })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.link.is_closed()
    }

    pub(crate) fn close(&self) {
        self.link.close();
    }

    pub(crate) fn in_flight_count(&self) -> usize {
        self.in_flight.borrow().count()
    }

    /// Writes a message that was due at that time; [`SendLink::flush`] sends it. False: too many are in flight.
    pub(crate) fn stage(&self, due_ns: u64) -> bool {
        let Some(opaque) = self.in_flight.borrow_mut().begin(due_ns) else { return false };
        let load = &self.load;
        let turn = self.turn.get();
        self.turn.set((turn + 1) % load.templates.len());
        let stamp = Stamp { due_ns, number: load.next_number() };
        let patch = Patch { opaque, born_ms: runtime::clock::now_ms().0, stamp };
        load.templates[turn].write(&patch, &mut self.link.out());
        true
    }

    pub(crate) fn flush(&self) {
        self.link.flush();
    }

    /// Fills the window of a closed loop.
    pub(crate) fn fill(&self) {
        let now_ns = self.load.clock.now_ns();
        let mut staged = 0;
        while self.in_flight_count() < self.window && self.load.may_send() && self.stage(now_ns) {
            staged += 1;
            self.load.tally.borrow_mut().sent(now_ns, now_ns, false);
        }
        if staged > 0 {
            self.flush();
        }
    }

    /// Reads answers until the connection ends.
    pub(crate) async fn read(self: Rc<Self>) {
        let outcome: Result<(), FrameError> = self.link.read(self.load.clock, &*self).await;
        self.link.close();
        let mut tally = self.load.tally.borrow_mut();
        tally.unreadable += u64::from(outcome.is_err());
        tally.lost += self.in_flight_count() as u64;
        tally.connections_lost += u64::from(!self.load.is_over());
        drop(tally);
        self.load.changed.notify();
    }
}

impl Frames for SendLink {
    fn frame(&self, frame: &[u8], arrived_ns: u64) {
        let mut tally = self.load.tally.borrow_mut();
        let Ok(reply) = reply::read(frame) else {
            tally.unreadable += 1;
            return;
        };
        if !reply.is_response {
            return; // Something that the server tells its producers.
        }
        match self.in_flight.borrow_mut().end(reply.opaque) {
            Some(due_ns) => tally.answer(due_ns, arrived_ns, &reply, frame),
            None => tally.strange_answers += 1,
        }
    }

    fn batch_end(&self) {
        if self.window > 0 {
            self.fill();
        }
        if self.in_flight_count() == 0 {
            self.load.changed.notify();
        }
    }
}
