//! What is looked at in each message that arrives, whoever asked for it, and where that is counted.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use client::{Body, body_of};
use remoting::frame::FrameError;
use remoting::record::{RecordView, body_crc};

use super::{AtEnd, ReadForm, ReadTally, Shared};
use crate::clock::RunClock;
use crate::duties::DUTY_OPAQUE;
use crate::payload::{self, Content, Stamp};
use crate::record::{Kind, Recorder, Shelf};
use crate::reply::{self, Reply};
use crate::transaction::is_of_share;

/// Where one connection's messages go.
pub(super) struct Intake {
    pub(super) form: ReadForm,
    pub(super) shared: Arc<Shared>,
    pub(super) clock: RunClock,
    pub(super) tally: ReadTally,
    pub(super) recorder: Recorder,
    pub(super) span_ns: Range<u64>,
    reported: u64,
}

/// What the body of a record is, by both of its checksums.
pub(super) fn content_of(record: &RecordView<'_>) -> Content {
    let body = record.body();
    let content = match body_of(record) {
        Body::Plain(plain) => payload::read(&plain),
        Body::Packed { .. } | Body::Damaged { .. } => Content::Damaged,
    };
    if body_crc(body) == record.body_crc() { content } else { Content::Damaged }
}

impl Intake {
    pub(super) fn new(form: &ReadForm, shared: &Arc<Shared>, shelf: &Arc<Shelf>, clock: RunClock) -> Intake {
        Intake {
            form: form.clone(),
            shared: shared.clone(),
            clock,
            tally: ReadTally::default(),
            recorder: shelf.recorder(),
            span_ns: shelf.span_ns(),
            reported: 0,
        }
    }

    /// A pull or pop found something.
    pub(super) fn found(&mut self, kind: Kind, asked_ns: u64, arrived_ns: u64) {
        self.tally.asks_found += 1;
        self.tally.last_arrival_ns = arrived_ns;
        // At the tail it is mostly the wait for a message.
        if self.form.end != AtEnd::Waits && self.span_ns.contains(&asked_ns) {
            self.recorder.record(kind, arrived_ns.saturating_sub(asked_ns));
        }
    }

    /// A message of a lane. Gives its number in its run, of one that this program sent.
    pub(super) fn message(&mut self, record: &RecordView<'_>, lane: usize, arrived_ns: u64) -> Option<u64> {
        self.tally.messages += 1;
        self.tally.body_bytes += record.body().len() as u64;
        self.recorder.counts.pulled += u64::from(arrived_ns >= self.span_ns.start);
        match content_of(record) {
            Content::Ours(stamp) => {
                self.ours(stamp, lane, arrived_ns);
                Some(stamp.number)
            }
            Content::Foreign => None,
            Content::Damaged => {
                self.tally.faults.damaged += 1;
                None
            }
        }
    }

    fn ours(&mut self, stamp: Stamp, lane: usize, arrived_ns: u64) {
        if self.form.end == AtEnd::Waits && self.span_ns.contains(&stamp.due_ns) {
            let (kind, wanted_ns) = match self.form.delay_ns {
                0 => (Kind::EndToEnd, stamp.due_ns),
                delay_ns => (Kind::Late, stamp.due_ns + delay_ns),
            };
            self.recorder.record(kind, arrived_ns.saturating_sub(wanted_ns));
        }
        if let Some(order) = &mut self.form.order {
            self.tally.faults.order_breaks += u64::from(!order.is_in_order(stamp.number, lane));
        }
        if self.form.commit_share.is_some_and(|share| !is_of_share(stamp.number, share)) {
            self.tally.faults.rolled_back += 1;
        }
    }

    /// The answer to something that the reader itself has asked: not what the server tells its consumers, nor its word on a
    /// heartbeat.
    pub(super) fn reply(&mut self, frame: &[u8]) -> Option<Reply> {
        match reply::read(frame) {
            Ok(reply) => (reply.is_response && reply.opaque != DUTY_OPAQUE).then_some(reply),
            Err(_) => {
                self.tally.faults.unreadable += 1;
                None
            }
        }
    }

    /// Gives away what came since the last time.
    pub(super) fn hand_over(&mut self) {
        self.shared.messages.fetch_add(self.tally.messages - self.reported, Ordering::SeqCst);
        self.reported = self.tally.messages;
        self.recorder.hand_over();
    }

    /// The connection has ended, and not by us.
    pub(super) fn lost_link(&mut self) {
        self.tally.connections_lost += 1;
        self.shared.links_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// What came of it, once the connection has ended.
    pub(super) fn finish(mut self, ended: &Result<(), FrameError>) -> ReadTally {
        self.tally.faults.unreadable += u64::from(ended.is_err());
        self.shared.links_busy.fetch_sub(1, Ordering::Relaxed);
        self.tally
    }
}
