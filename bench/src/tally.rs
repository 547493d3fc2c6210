//! What came of the messages of a run.

use std::collections::BTreeMap;
use std::ops::Range;

use hdrhistogram::Histogram;
use remoting::code::ResponseCode;

use crate::ledger::OffsetLedger;
use crate::reply::{self, Reply};

/// Times up to an hour, in nanoseconds; what is longer counts as an hour.
const TIME_NS_MAX: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, TIME_NS_MAX, DIGITS).expect("these bounds are valid")
}

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
    /// From when a stored message was due to its answer.
    pub(crate) latency: Histogram<u64>,
    /// From when a message was due to when it was sent, where only the generator was late.
    pub(crate) lag: Histogram<u64>,
    /// Messages that could not be sent when they were due because too many were in flight.
    pub(crate) held_back: u64,
    pub(crate) errors: Errors,
    /// Answers to no request, or second ones.
    pub(crate) strange_answers: u64,
    pub(crate) unreadable: u64,
    /// Requests whose connection ended, or that were not answered before the run was given up.
    pub(crate) lost: u64,
    pub(crate) connections_lost: u64,
    /// None: they are not checked.
    pub(crate) offsets: Option<OffsetLedger>,
}

impl SendTally {
    pub(crate) fn new(span_ns: Range<u64>, offsets: Option<OffsetLedger>) -> SendTally {
        SendTally {
            span_ns,
            answered: 0,
            stored_in_span: 0,
            sent_in_span: 0,
            last_answer_ns: 0,
            latency: histogram(),
            lag: histogram(),
            held_back: 0,
            errors: Errors::default(),
            strange_answers: 0,
            unreadable: 0,
            lost: 0,
            connections_lost: 0,
            offsets,
        }
    }

    /// Takes in what came of other messages of the same run.
    pub(crate) fn merge(&mut self, other: SendTally) {
        assert!(self.span_ns == other.span_ns, "tallies of different runs");
        self.answered += other.answered;
        self.stored_in_span += other.stored_in_span;
        self.sent_in_span += other.sent_in_span;
        self.last_answer_ns = self.last_answer_ns.max(other.last_answer_ns);
        self.latency.add(&other.latency).expect("all have the same bounds");
        self.lag.add(&other.lag).expect("all have the same bounds");
        self.held_back += other.held_back;
        self.errors.merge(other.errors);
        self.strange_answers += other.strange_answers;
        self.unreadable += other.unreadable;
        self.lost += other.lost;
        self.connections_lost += other.connections_lost;
        if let (Some(offsets), Some(others)) = (&mut self.offsets, &other.offsets) {
            offsets.merge(others);
        }
    }

    pub(crate) fn span_ns(&self) -> Range<u64> {
        self.span_ns.clone()
    }

    /// A message was sent; `held_back` when it waited for others to be answered.
    pub(crate) fn sent(&mut self, due_ns: u64, now_ns: u64, held_back: bool) {
        if !self.span_ns.contains(&due_ns) {
            return;
        }
        self.sent_in_span += 1;
        if held_back {
            self.held_back += 1;
        } else {
            self.lag.saturating_record((now_ns - due_ns).max(1));
        }
    }

    /// A message was answered.
    pub(crate) fn answer(&mut self, due_ns: u64, arrived_ns: u64, reply: &Reply, frame: &[u8]) {
        self.answered += 1;
        self.last_answer_ns = arrived_ns;
        if is_stored(reply.code) {
            match (reply.queue_id, reply.queue_offset, &mut self.offsets) {
                (Some(queue_id), Some(offset), Some(offsets)) => offsets.acknowledged(queue_id, offset),
                (Some(_), Some(_), None) => {}
                _ => self.unreadable += 1,
            }
        }
        if reply.code != ResponseCode::SUCCESS.0 {
            self.errors.add(reply.code, frame);
            return;
        }
        if self.span_ns.contains(&arrived_ns) {
            self.stored_in_span += 1;
        }
        if self.span_ns.contains(&due_ns) {
            self.latency.saturating_record((arrived_ns - due_ns).max(1));
        }
    }
}

/// Stored, and for some codes less safely than asked: the answer tells an offset.
fn is_stored(code: i32) -> bool {
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

    fn reply(code: i32, queue_offset: i64) -> Reply {
        Reply { code, queue_id: Some(0), queue_offset: Some(queue_offset), ..Reply::default() }
    }

    #[test]
    fn warm_up_counts_for_offsets_only() {
        let mut tally = SendTally::new(1000..2000, Some(OffsetLedger::new(&[0])));
        for (due_ns, arrived_ns, offset) in [(900, 950, 0), (990, 1010, 1), (1500, 1600, 2), (1990, 2010, 3)] {
            tally.sent(due_ns, due_ns + 1, false);
            tally.answer(due_ns, arrived_ns, &reply(0, offset), &[]);
        }
        assert_eq!((tally.answered, tally.stored_in_span, tally.sent_in_span), (4, 2, 2));
        assert_eq!((tally.latency.len(), tally.latency.max(), tally.lag.len()), (2, 100, 2));
        assert_eq!(tally.offsets.as_ref().unwrap().faults(), OffsetFaults::default());
    }

    #[test]
    fn a_message_stored_too_slowly_is_an_error_with_an_offset() {
        let mut tally = SendTally::new(0..10, Some(OffsetLedger::new(&[0])));
        let frame = {
            let mut out = bytes::BytesMut::new();
            remoting::Command::reply(1, 10).with_remark("slow").encode(&mut out);
            out
        };
        tally.answer(1, 2, &reply(10, 0), &frame);
        tally.answer(1, 3, &reply(2, 0), &frame);
        tally.answer(1, 4, &reply(0, 1), &frame);
        assert_eq!(tally.errors.iter().collect::<Vec<_>>(), [(2, 1, "slow"), (10, 1, "slow")]);
        assert_eq!(
            (tally.errors.total(), tally.offsets.as_ref().unwrap().faults(), tally.latency.len()),
            (2, OffsetFaults::default(), 1)
        );
    }
}
