//! What the connections of both loops do with answers: they are read, counted and timed, and half messages are ended.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use remoting::frame::FrameError;

use crate::duties::DUTY_OPAQUE;
use crate::in_flight::Request;
use crate::load::Load;
use crate::record::Recorder;
use crate::reply::{self, Reply};
use crate::tally::{Answer, EndAnswer, SendTally, is_stored};
use crate::wire::Link;

/// Of one connection.
pub(crate) struct Hand {
    pub(crate) link: Arc<Link>,
    pub(crate) load: Arc<Load>,
    pub(crate) tally: SendTally,
    pub(crate) recorder: Recorder,
    /// What is to be sent once all that arrived together is through.
    pub(crate) out: BytesMut,
}

/// The request that ends a half message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) opaque: i32,
}

impl Hand {
    pub(crate) fn new(link: Arc<Link>, load: Arc<Load>) -> Hand {
        let (mut tally, recorder) = (load.tally(), load.shelf.recorder());
        tally.slow.over(link.port());
        Hand { link, load, tally, recorder, out: BytesMut::new() }
    }

    /// A request was written.
    pub(crate) fn sent(&mut self, due_ns: u64) {
        self.tally.sent(self.load.batch(), due_ns, &mut self.recorder);
    }

    /// What a frame says, if it answers a request of the load.
    pub(crate) fn reply(&mut self, frame: &[u8]) -> Option<Reply> {
        let Ok(reply) = reply::read(frame) else {
            self.tally.unreadable += 1;
            return None;
        };
        // Otherwise it is something that the server tells its producers, or its word on a heartbeat.
        (reply.is_response && reply.opaque != DUTY_OPAQUE).then_some(reply)
    }

    /// False: the request was for a half message, whose end is sent now.
    pub(crate) fn answer(&mut self, request: Request, end: End, reply: Reply, frame: &[u8], arrived_ns: u64) -> bool {
        let Request { number, due_ns } = request;
        let (messages, lane, code) = (self.load.batch(), self.load.templates.lane(number), reply.code);
        let answer = Answer { messages, lanes: &self.load.lanes, lane, due_ns, arrived_ns, reply, frame };
        self.tally.answer(&answer, &mut self.recorder);
        let Some(ends) = self.load.ends.as_ref().filter(|_| is_stored(code)) else { return true };
        let is_written = ends.write(number, frame, end.opaque, &mut self.out).is_some();
        self.tally.unreadable += u64::from(!is_written);
        !is_written
    }

    /// The end of a half message was answered.
    pub(crate) fn end_answer(&mut self, request: Request, reply: &Reply, frame: &[u8], arrived_ns: u64) {
        let Request { number, due_ns } = request;
        let commits = self.load.ends.as_ref().is_some_and(|ends| ends.commits(number));
        let answer = EndAnswer { commits, due_ns, arrived_ns, code: reply.code, frame };
        self.tally.end(&answer, &mut self.recorder);
    }

    /// What arrived together is through: sends what is to be sent, and hands the times over.
    pub(crate) fn hand_over(&mut self) {
        if !self.out.is_empty() {
            self.link.send(&self.out);
            self.out.clear();
        }
        self.recorder.hand_over();
    }

    /// The connection ended, and with it so many messages.
    pub(crate) fn broken(&mut self, lost: u64) {
        // Ends of half messages are of no use on another connection.
        self.out.clear();
        self.tally.connections_lost += 1;
        self.recorder.counts.failed += lost;
        self.recorder.hand_over();
    }

    pub(crate) fn restored(&mut self, away_ns: u64) {
        self.tally.slow.over(self.link.port());
        self.tally.away_ns_max = self.tally.away_ns_max.max(away_ns);
    }

    /// Requests that were due then are not answered, and nobody waits for them any more.
    pub(crate) fn given_up(&mut self, due_ns: impl Iterator<Item = u64>) {
        let now_ns = self.load.clock.now_ns();
        due_ns.for_each(|due_ns| self.tally.unanswered(due_ns, now_ns, &mut self.recorder));
    }

    /// What came of the connection. So many messages are not answered and will not be.
    pub(crate) fn finish(mut self, ended: &Result<(), FrameError>, lost: u64) -> SendTally {
        self.tally.unreadable += u64::from(ended.is_err());
        self.tally.lost += lost;
        self.load.links_busy.fetch_sub(1, Ordering::Relaxed);
        self.tally
    }
}
