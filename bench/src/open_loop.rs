//! An open loop: one thread sends what is due and looks at no answer, others read the answers.
//!
//! The opaque of a request is its number in the plan, so a reader knows from the plan when it was due; reader and
//! sender share two counters and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use remoting::frame::FrameError;

use crate::crew::Member;
use crate::hand::{End, Hand};
use crate::in_flight::Request;
use crate::load::{Load, Place};
use crate::pace::Pace;
use crate::record::Recorder;
use crate::tally::{SendTally, Sent};
use crate::template::Patch;
use crate::wire::{Frames, Link};

/// The opaque of message 0: all opaques have ten digits.
const OPAQUE_MIN: i32 = 1_000_000_000;
/// Requests of one open loop.
pub(crate) const REQUESTS_MAX: u64 = (i32::MAX - OPAQUE_MIN) as u64;
/// Requests of one connection that may be unanswered. Beyond it messages are held back: they stay due.
const UNANSWERED_MAX: u64 = 1 << 16;
/// Half messages of one connection that may be unfinished: the thread that reads answers sends ends as well, so what may be
/// on its way must fit into the sockets.
const HALVES_MAX: u64 = 1 << 10;
/// A pause before a message that was held back is tried again.
const HELD_BACK_PAUSE: Duration = Duration::from_micros(200);
/// Bytes of a connection that are sent although more is due: after a stall, and when the rate is all there is.
const STAGED_BYTES_MAX: usize = 256 << 10;
/// A write that takes longer has waited for a full socket: what became due meanwhile was held back.
const WRITE_NS_MAX: u64 = 1_000_000;

/// Requests and answers of one connection so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    sent: AtomicU64,
    answered: AtomicU64,
    /// Unanswered when their connection ended: nobody waits for these.
    given_up: AtomicU64,
    /// Of an ordered load: keys with a message that is not answered.
    keys_busy: Vec<AtomicBool>,
}

impl Counts {
    pub(crate) fn new(keys: usize) -> Counts {
        Counts { keys_busy: (0..keys).map(|_| AtomicBool::new(false)).collect(), ..Counts::default() }
    }

    fn unanswered(&self) -> u64 {
        // The answer of a request is counted after the request, so this order never finds more answers than requests.
        let answered = self.answered.load(Ordering::Acquire);
        self.sent.load(Ordering::Acquire) - answered
    }

    /// Unanswered, and an answer may still come. A request that was staged before its connection ended and sent after
    /// may be given up and answered all the same.
    fn awaited(&self) -> u64 {
        self.unanswered().saturating_sub(self.given_up.load(Ordering::Acquire))
    }
}

/// The sending side.
pub(crate) struct Sender {
    load: Arc<Load>,
    pace: Pace,
    links: Vec<(Arc<Link>, Arc<Counts>)>,
    outs: Vec<BytesMut>,
    tally: SendTally,
    recorder: Recorder,
    /// Until then this thread waited for a full socket.
    held_back_until_ns: u64,
}

impl Sender {
    pub(crate) fn new(load: Arc<Load>, pace: Pace, links: Vec<(Arc<Link>, Arc<Counts>)>) -> Sender {
        let outs = links.iter().map(|_| BytesMut::new()).collect();
        let (tally, recorder) = (load.tally(), load.shelf.recorder());
        Sender { load, pace, links, outs, tally, recorder, held_back_until_ns: 0 }
    }

    /// Sends each message when it is due, until the measured span is over.
    pub(crate) fn run(mut self) -> SendTally {
        let limit_ns = self.load.shelf.span_ns().end;
        let clock = self.load.clock;
        let mut number = 0;
        while self.load.may_send() && self.links.iter().any(|(link, _)| !link.is_closed()) {
            let due_ns = self.pace.due_ns(number);
            let now_ns = clock.now_ns();
            if due_ns > now_ns || due_ns >= limit_ns {
                self.flush();
                if due_ns >= limit_ns {
                    break;
                }
                clock.sleep_until(due_ns);
            } else if self.stage(number, due_ns, now_ns) {
                number += 1;
            } else {
                self.flush();
                clock.sleep(HELD_BACK_PAUSE);
                self.held_back_until_ns = clock.now_ns();
            }
        }
        self.give_up(number, limit_ns);
        self.load.links_busy.fetch_sub(1, Ordering::Relaxed);
        self.tally
    }

    /// From this request on nothing more is sent, though it was due before sending was stopped.
    fn give_up(&mut self, first: u64, limit_ns: u64) {
        let (now_ns, messages) = (self.load.clock.now_ns(), self.load.batch());
        let limit_ns = limit_ns.min(self.load.stopped_ns()).min(now_ns);
        for due_ns in (first..).map(|number| self.pace.due_ns(number)).take_while(|due_ns| *due_ns < limit_ns) {
            let held_back = due_ns < self.held_back_until_ns;
            self.tally.never_sent(Sent { messages, due_ns, now_ns, held_back });
        }
    }

    /// Writes a request. False: its connection is away, or has too many unanswered, or the message before it of its key is.
    fn stage(&mut self, number: u64, due_ns: u64, now_ns: u64) -> bool {
        let index = (number % self.links.len() as u64) as usize;
        let (link, counts) = &self.links[index];
        if link.is_closed() {
            self.tally.lost += self.load.batch();
            return true;
        }
        let unanswered_max = if self.load.ends.is_some() { HALVES_MAX } else { UNANSWERED_MAX };
        if link.is_broken() || counts.awaited() >= unanswered_max {
            return false;
        }
        if let Some(order) = self.load.templates.order()
            && counts.keys_busy[order.place(number)].swap(true, Ordering::AcqRel)
        {
            return false;
        }
        counts.sent.fetch_add(1, Ordering::Release);
        let patch = Patch { opaque: OPAQUE_MIN + number as i32, born_ms: runtime::clock::now_ms().0, number, due_ns };
        self.load.templates.write(&patch, &mut self.outs[index]);
        let held_back = due_ns < self.held_back_until_ns;
        let messages = self.load.batch();
        self.tally.sent(messages, due_ns, &mut self.recorder);
        self.tally.late(Sent { messages, due_ns, now_ns, held_back }, &mut self.recorder);
        if self.outs[index].len() >= STAGED_BYTES_MAX {
            self.flush();
        }
        true
    }

    fn flush(&mut self) {
        self.recorder.hand_over();
        for ((link, _), out) in self.links.iter().zip(&mut self.outs) {
            if out.is_empty() {
                continue;
            }
            let before_ns = self.load.clock.now_ns();
            link.send(out);
            out.clear();
            let after_ns = self.load.clock.now_ns();
            if after_ns - before_ns > WRITE_NS_MAX {
                self.held_back_until_ns = after_ns;
            }
        }
    }
}

/// The reading side of one connection.
pub(crate) struct Reader {
    hand: Hand,
    counts: Arc<Counts>,
    pace: Pace,
    place: Place,
    answered: Turns,
    /// Half messages whose end was answered.
    ended: Turns,
    /// Those before it that are unanswered were lost with an earlier connection.
    turns_given_up: u64,
    /// Requests that were answered since the counters were moved.
    answered_unreported: u64,
}

impl Reader {
    pub(crate) fn new(link: Arc<Link>, counts: Arc<Counts>, load: Arc<Load>, pace: Pace, place: Place) -> Reader {
        let [answered, ended] = [(); 2].map(|()| Turns::default());
        let hand = Hand::new(link, load);
        Reader { hand, counts, pace, place, answered, ended, turns_given_up: 0, answered_unreported: 0 }
    }

    /// What came of it, once its connection has ended.
    pub(crate) fn finish(mut self, ended: &Result<(), FrameError>) -> SendTally {
        let lost = self.counts.unanswered() * self.hand.load.batch();
        if self.counts.awaited() > 0 {
            let turns = self.turns_given_up..self.counts.sent.load(Ordering::Acquire);
            let unanswered = turns.filter(|turn| self.answered.add(*turn));
            self.hand.given_up(unanswered.map(|turn| self.pace.due_ns(self.place.number(turn))));
        }
        self.hand.finish(ended, lost)
    }

    /// The turn of a request that was sent here.
    fn turn_of(&self, number: u64) -> Option<u64> {
        self.place.turn(number).filter(|turn| *turn < self.counts.sent.load(Ordering::Acquire))
    }

    /// Nothing more is to come of a request.
    fn over(&mut self, number: u64) {
        self.answered_unreported += 1;
        if let Some(order) = self.hand.load.templates.order() {
            self.counts.keys_busy[order.place(number)].store(false, Ordering::Release);
        }
    }
}

/// A bit for each request of a connection.
#[derive(Debug, Default)]
struct Turns {
    words: Vec<u64>,
}

impl Turns {
    /// Whether it was not there before.
    fn add(&mut self, turn: u64) -> bool {
        let (word, bit) = ((turn / 64) as usize, 1_u64 << (turn % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let first = self.words[word] & bit == 0;
        self.words[word] |= bit;
        first
    }
}

/// That of a half message: all of these are below 0.
fn end_of(number: u64) -> End {
    End { opaque: -1 - number as i32 }
}

impl Member for Reader {
    fn link(&self) -> &Arc<Link> {
        &self.hand.link
    }
}

impl Frames for Reader {
    fn frame(&mut self, frame: &[u8], arrived_ns: u64) {
        let Some(reply) = self.hand.reply(frame) else { return };
        let ends = reply.opaque < 0;
        let number = if ends { -1 - i64::from(reply.opaque) } else { i64::from(reply.opaque - OPAQUE_MIN) };
        let found = u64::try_from(number).ok().and_then(|number| Some((number, self.turn_of(number)?)));
        let turns = if ends { &mut self.ended } else { &mut self.answered };
        let Some((number, _)) = found.filter(|(_, turn)| turns.add(*turn)) else {
            self.hand.tally.strange_answers += 1;
            return;
        };
        let request = Request { number, due_ns: self.pace.due_ns(number) };
        let is_over = if ends {
            self.hand.end_answer(request, &reply, frame, arrived_ns);
            true
        } else {
            self.hand.answer(request, end_of(number), reply, frame, arrived_ns)
        };
        if is_over {
            self.over(number);
        }
    }

    fn batch_end(&mut self) {
        let answered = std::mem::take(&mut self.answered_unreported);
        self.counts.answered.fetch_add(answered, Ordering::Release);
        self.hand.load.answered.fetch_add(answered * self.hand.load.batch(), Ordering::Relaxed);
        self.hand.hand_over();
    }

    fn broken(&mut self) {
        let given_up = self.counts.awaited();
        self.counts.given_up.fetch_add(given_up, Ordering::Release);
        self.turns_given_up = self.counts.sent.load(Ordering::Acquire);
        self.counts.keys_busy.iter().for_each(|key| key.store(false, Ordering::Release));
        self.hand.broken(given_up * self.hand.load.batch());
    }

    fn restored(&mut self, away_ns: u64) {
        self.hand.restored(away_ns);
    }
}

/// Requests whose answer may still come.
pub(crate) fn awaited(links: &[(Arc<Link>, Arc<Counts>)]) -> u64 {
    links.iter().filter(|(link, _)| !link.is_closed()).map(|(_, counts)| counts.awaited()).sum()
}
