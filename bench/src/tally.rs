//! What came of the messages of a run, but for their times, which go to the [`Recorder`].

use std::collections::BTreeMap;
use std::ops::Range;

use remoting::code::ResponseCode;

use crate::ledger::OffsetLedger;
use crate::never_sent::NeverSent;
use crate::record::{Kind, Recorder};
use crate::reply::{self, Reply};
use crate::slow::SlowSends;
use crate::target::Lanes;

/// Answers that say something went wrong, by their code.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors {
    by_code: BTreeMap<i32, (u64, String)>,
}

impl Errors {
    /// Counts an answer; of the first with its code the remark is kept.
    pub(crate) fn add(&mut self, code: i32, frame: &[u8]) {
        let (count, _) = self.by_code.entry(code).or_insert_with(|| (0, reply::remark(frame)));
        *count += 1;
    }

    pub(crate) fn merge(&mut self, other: Errors) {
        for (code, (count, remark)) in other.by_code {
            self.by_code.entry(code).or_insert_with(|| (0, remark)).0 += count;
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.by_code.values().map(|(count, _)| count).sum()
    }

    /// Code, how often, and the first remark.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i32, u64, &str)> {
        self.by_code.iter().map(|(code, (count, remark))| (*code, *count, remark.as_str()))
    }
}

/// What answers have waited in the socket before their reader was awake, as far as their times contain it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    pub(crate) count: u64,
    pub(crate) nanoseconds: u64,
}

/// Of sends.
#[derive(Clone)]
pub(crate) struct SendTally {
    /// When a message must have been due to be measured.
    span_ns: Range<u64>,
    /// Answers of any kind, warm-up included.
    pub(crate) answered: u64,
    /// Messages stored whose answer arrived within the span.
    pub(crate) stored_in_span: u64,
    /// Messages due in the span that were sent.
    pub(crate) sent_in_span: u64,
    pub(crate) last_answer_ns: u64,
    /// Messages that could not be sent when they were due because too many were in flight; those that never were count in here.
    pub(crate) held_back: u64,
    /// Of an open loop that ended with messages due, as its one sender leaves it.
    pub(crate) never_sent: Option<NeverSent>,
    pub(crate) errors: Errors,
    /// Answers to no request, or second ones.
    pub(crate) strange_answers: u64,
    pub(crate) unreadable: u64,
    /// Requests whose connection ended, or that were not answered before the run was given up.
    pub(crate) lost: u64,
    /// How often a connection ended that was not ended here.
    pub(crate) connections_lost: u64,
    /// The longest time that a connection was away before it could be opened again.
    pub(crate) away_ns_max: u64,
    /// Half messages whose end was answered.
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    /// None: they are not checked.
    pub(crate) offsets: Option<OffsetLedger>,
    /// Of what arrived last, in the socket, where times count until it is read.
    pub(crate) waited_ns: u64,
    /// Of all answers whose times are kept.
    pub(crate) waits: Waits,
    /// Those that took long, where they are asked for.
    pub(crate) slow: SlowSends,
}

impl SendTally {
    pub(crate) fn new(span_ns: Range<u64>, offsets: Option<OffsetLedger>) -> SendTally {
        SendTally {
            span_ns,
            answered: 0,
            stored_in_span: 0,
            sent_in_span: 0,
            last_answer_ns: 0,
            held_back: 0,
            never_sent: None,
            errors: Errors::default(),
            strange_answers: 0,
            unreadable: 0,
            lost: 0,
            connections_lost: 0,
            away_ns_max: 0,
            committed: 0,
            rolled_back: 0,
            offsets,
            waited_ns: 0,
            waits: Waits::default(),
            slow: SlowSends::default(),
        }
    }

    /// Takes in what came of other messages of the same run.
    pub(crate) fn merge(&mut self, other: SendTally) {
        assert!(self.span_ns == other.span_ns, "tallies of different runs");
        self.answered += other.answered;
        self.stored_in_span += other.stored_in_span;
        self.sent_in_span += other.sent_in_span;
        self.last_answer_ns = self.last_answer_ns.max(other.last_answer_ns);
        self.held_back += other.held_back;
        self.never_sent = self.never_sent.take().or(other.never_sent);
        self.errors.merge(other.errors);
        self.strange_answers += other.strange_answers;
        self.unreadable += other.unreadable;
        self.lost += other.lost;
        self.connections_lost += other.connections_lost;
        self.away_ns_max = self.away_ns_max.max(other.away_ns_max);
        self.waits.count += other.waits.count;
        self.waits.nanoseconds += other.waits.nanoseconds;
        self.slow.merge(other.slow);
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        if let (Some(offsets), Some(others)) = (&mut self.offsets, &other.offsets) {
            offsets.merge(others);
        }
    }

    /// So many messages were sent in one request.
    pub(crate) fn sent(&mut self, messages: u64, due_ns: u64, recorder: &mut Recorder) {
        if self.span_ns.contains(&due_ns) {
            self.sent_in_span += messages;
            recorder.counts.sent += messages;
        }
    }

    /// How late a request of an open loop was sent.
    pub(crate) fn late(&mut self, request: Sent, recorder: &mut Recorder) {
        if !self.span_ns.contains(&request.due_ns) {
            return;
        }
        if request.held_back {
            self.held_back += request.messages;
        } else {
            recorder.record(Kind::SendLag, request.now_ns - request.due_ns);
        }
    }

    /// A request of an open loop was due and will not be sent any more.
    pub(crate) fn never_sent(&mut self, request: Sent) {
        if self.span_ns.contains(&request.due_ns) {
            let never_sent = self.never_sent.get_or_insert_with(NeverSent::new);
            never_sent.add(request.messages, request.now_ns - request.due_ns, request.held_back);
            self.held_back += if request.held_back { request.messages } else { 0 };
        }
    }

    /// A request that was sent is given up without an answer: it has waited at least so long.
    pub(crate) fn unanswered(&self, due_ns: u64, now_ns: u64, recorder: &mut Recorder) {
        if self.span_ns.contains(&due_ns) {
            recorder.record(Kind::Send, now_ns - due_ns);
        }
    }

    /// A request with so many messages was answered.
    pub(crate) fn answer(&mut self, answer: &Answer<'_>, recorder: &mut Recorder) {
        let (reply, messages) = (&answer.reply, answer.messages);
        self.answered += messages;
        self.last_answer_ns = answer.arrived_ns;
        if is_stored(reply.code) {
            match (reply.queue_id, reply.queue_offset, &mut self.offsets) {
                (Some(queue_id), Some(first), Some(offsets)) => {
                    let lane = answer.lanes.beside(answer.lane, queue_id);
                    (first..).take(messages as usize).for_each(|offset| offsets.acknowledged(lane, offset));
                }
                (Some(_), Some(_), None) => {}
                _ => self.unreadable += 1,
            }
        }
        if reply.code != ResponseCode::SUCCESS.0 {
            self.errors.add(reply.code, answer.frame);
            if answer.arrived_ns >= self.span_ns.start {
                recorder.counts.failed += messages;
            }
            return;
        }
        if answer.arrived_ns >= self.span_ns.start {
            recorder.counts.stored += messages;
        }
        if self.span_ns.contains(&answer.arrived_ns) {
            self.stored_in_span += messages;
        }
        if self.span_ns.contains(&answer.due_ns) {
            self.waits.count += 1;
            self.waits.nanoseconds += self.waited_ns;
            self.slow.note(reply.opaque, answer.arrived_ns - answer.due_ns);
            recorder.record(Kind::Send, answer.arrived_ns - answer.due_ns);
        }
    }

    /// A half message is over.
    pub(crate) fn end(&mut self, answer: &EndAnswer<'_>, recorder: &mut Recorder) {
        if answer.code != ResponseCode::SUCCESS.0 {
            self.errors.add(answer.code, answer.frame);
            if answer.arrived_ns >= self.span_ns.start {
                recorder.counts.failed += 1;
            }
            return;
        }
        if answer.commits {
            self.committed += 1;
        } else {
            self.rolled_back += 1;
        }
        if self.span_ns.contains(&answer.due_ns) {
            recorder.record(Kind::Transaction, answer.arrived_ns - answer.due_ns);
        }
    }
}

/// The end of a half message that was answered.
#[derive(Debug)]
pub(crate) struct EndAnswer<'a> {
    pub(crate) commits: bool,
    pub(crate) due_ns: u64,
    pub(crate) arrived_ns: u64,
    pub(crate) code: i32,
    pub(crate) frame: &'a [u8],
}

/// A request of an open loop that was sent, or given up unsent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) messages: u64,
    pub(crate) due_ns: u64,
    pub(crate) now_ns: u64,
    /// It waited for others to be answered.
    pub(crate) held_back: bool,
}

/// A request that was answered.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) messages: u64,
    pub(crate) lanes: &'a Lanes,
    /// Where it was sent to; the queue is the target's word.
    pub(crate) lane: usize,
    pub(crate) due_ns: u64,
    pub(crate) arrived_ns: u64,
    pub(crate) reply: Reply,
    pub(crate) frame: &'a [u8],
}

/// Stored, and for some codes less safely than asked: the answer tells an offset.
pub(crate) fn is_stored(code: i32) -> bool {
    let stored = [
        ResponseCode::SUCCESS,
        ResponseCode::FLUSH_DISK_TIMEOUT,
        ResponseCode::SLAVE_NOT_AVAILABLE,
        ResponseCode::FLUSH_SLAVE_TIMEOUT,
    ];
    stored.contains(&ResponseCode(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::OffsetFaults;
    use crate::record::{Gathered, Shelf};

    const LANES: &Lanes = &Lanes { topics: Vec::new(), queues: 1 };

    fn answer(due_ns: u64, arrived_ns: u64, code: i32, queue_offset: i64, frame: &[u8]) -> Answer<'_> {
        let reply = Reply { code, queue_id: Some(0), queue_offset: Some(queue_offset), ..Reply::default() };
        Answer { messages: 1, lanes: LANES, lane: 0, due_ns, arrived_ns, reply, frame }
    }

    fn gathered(shelf: &Shelf) -> Gathered {
        let (mut taken, mut spare) = (Gathered::new(), Gathered::new());
        shelf.take(&mut taken, &mut spare);
        taken
    }

    #[test]
    fn warm_up_counts_for_offsets_only() {
        let shelf = Shelf::new(1000..2000);
        let mut recorder = shelf.recorder();
        let mut tally = SendTally::new(shelf.span_ns(), Some(OffsetLedger::new(&[0])));
        for (due_ns, arrived_ns, offset) in [(900, 950, 0), (990, 1010, 1), (1500, 1600, 2), (1990, 2010, 3)] {
            tally.sent(1, due_ns, &mut recorder);
            tally.late(Sent { messages: 1, due_ns, now_ns: due_ns + 1, held_back: false }, &mut recorder);
            tally.answer(&answer(due_ns, arrived_ns, 0, offset, &[]), &mut recorder);
        }
        drop(recorder);
        let seen = gathered(&shelf);
        assert_eq!((tally.answered, tally.stored_in_span, tally.sent_in_span), (4, 2, 2));
        assert_eq!((seen.times(Kind::Send).len(), seen.times(Kind::Send).max()), (2, 100));
        assert_eq!((seen.times(Kind::SendLag).len(), seen.counts.stored), (2, 3));
        assert_eq!(tally.offsets.as_ref().unwrap().faults(), OffsetFaults::default());
    }

    #[test]
    fn the_messages_of_a_batch_take_offsets_in_a_row() {
        let shelf = Shelf::new(0..10);
        let mut recorder = shelf.recorder();
        let mut tally = SendTally::new(shelf.span_ns(), Some(OffsetLedger::new(&[0])));
        for first in [0, 8, 16] {
            tally.answer(&Answer { messages: 8, ..answer(1, 2, 0, first, &[]) }, &mut recorder);
        }
        assert_eq!((tally.answered, tally.stored_in_span), (24, 24));
        assert_eq!(tally.offsets.as_ref().unwrap().faults(), OffsetFaults::default());
        tally.answer(&Answer { messages: 8, ..answer(1, 2, 0, 23, &[]) }, &mut recorder);
        assert_eq!(tally.offsets.as_ref().unwrap().faults().duplicates, 1);
    }

    #[test]
    fn a_message_stored_too_slowly_is_an_error_with_an_offset() {
        let shelf = Shelf::new(0..10);
        let mut recorder = shelf.recorder();
        let mut tally = SendTally::new(shelf.span_ns(), Some(OffsetLedger::new(&[0])));
        let frame = {
            let mut out = bytes::BytesMut::new();
            remoting::Command::reply(1, 10).with_remark("slow").encode(&mut out);
            out
        };
        tally.answer(&answer(1, 2, 10, 0, &frame), &mut recorder);
        tally.answer(&answer(1, 3, 2, 0, &frame), &mut recorder);
        tally.answer(&answer(1, 4, 0, 1, &frame), &mut recorder);
        drop(recorder);
        let seen = gathered(&shelf);
        assert_eq!(tally.errors.iter().collect::<Vec<_>>(), [(2, 1, "slow"), (10, 1, "slow")]);
        assert_eq!(tally.offsets.as_ref().unwrap().faults(), OffsetFaults::default());
        assert_eq!((tally.errors.total(), seen.times(Kind::Send).len(), seen.counts.failed), (2, 1, 2));
    }
}
