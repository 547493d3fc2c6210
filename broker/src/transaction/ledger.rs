//! The transactions of one log: its half queue, its journal, and what of them is pending.
//!
//! Lives on the core that opened the log. A half message lies in the log of the queue that it is meant for, so that its
//! end and the message itself are appended in one step. The journal's record goes in front of the message: if a crash
//! keeps only the record, it is the last of the log, and opening the log appends the message again from its half. So
//! a committed message is there once, whenever the process dies.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use base::{LogOffset, PhysicalOffset, QueueId, QueueOffset};
use remoting::name::{CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC};
use remoting::record::{RecordDraft, RecordView};
use remoting::text::Text;
use runtime::clock;
use storage::{AppendError, Log, QueueRef, StorageError, Ticket};

use super::message::Message;
use super::note::{End, Note};
use super::pending::{HALVES_MAX, Half, Missed, Pending};
use super::recovery::LastEnd;
use crate::delay::{Delays, Held};
use crate::journal::Journal;
use crate::placement::Placement;
use crate::trouble::Trouble;

/// The transactions of one log.
pub(crate) struct Ledger {
    pub(super) log: Rc<Log>,
    placement: Placement,
    /// The address that clients reach this broker at.
    host: SocketAddr,
    pub(super) journal: Journal,
    pub(super) pending: RefCell<Pending>,
    /// The end whose message the last crash has taken away, until it is completed.
    pub(super) unfinished: RefCell<Option<LastEnd>>,
}

/// How the message of a committed half is stored.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    /// In its queue, with the properties given if they differ from those of its half.
    ToQueue(Option<&'a str>),
    /// Under its time, until it has come.
    Held(&'a Delays, &'a Held),
}

/// A half message that is being ended. Dropped before [`Ledger::settle`], it is pending again.
pub(super) struct Taken {
    ledger: Rc<Ledger>,
    pub(super) at: QueueOffset,
    pub(super) half: Half,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.ledger.pending.borrow_mut().give_back(self.at);
    }
}

impl Ledger {
    /// A ledger in which nothing is pending yet.
    pub(super) fn new(log: Rc<Log>, placement: Placement, host: SocketAddr) -> Ledger {
        let topic = Text::from_static(OP_HALF_TOPIC);
        let queue = placement.queue_in_log(base::stable_hash(&topic), log.id());
        let journal = Journal::new(log.clone(), topic, queue, host);
        Ledger { log, placement, host, journal, pending: RefCell::default(), unfinished: RefCell::default() }
    }

    /// The queue that a topic of the broker's own has in this log.
    pub(crate) fn own_queue(&self, topic: &str) -> QueueId {
        self.placement.queue_in_log(base::stable_hash(topic), self.log.id())
    }

    /// Whether another half message may be pending.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.borrow().len() < HALVES_MAX
    }

    /// Appends a half message; `draft` names the half queue of this log.
    pub(crate) fn append_half(&self, draft: &RecordDraft<'_>, immune_ms: u64) -> Result<Ticket, AppendError> {
        let ticket = self.log.append(&self.half_queue(), draft, clock::now_ms())?;
        let stored_ms = ticket.store_timestamp_ms;
        let half = Half::new(ticket.physical_offset.offset(), stored_ms, stored_ms + immune_ms);
        self.pending.borrow_mut().insert(ticket.queue_offset, half);
        Ok(ticket)
    }

    /// Takes a pending half message, to end it.
    pub(super) fn take(self: &Rc<Ledger>, at: QueueOffset, offset: PhysicalOffset) -> Result<Taken, Missed> {
        let half = self.pending.borrow_mut().take(at, offset.offset())?;
        Ok(Taken { ledger: self.clone(), at, half })
    }

    /// The half message that is due first, if it is due by now.
    pub(super) fn first_due(&self, now_ms: u64) -> Option<(QueueOffset, Half)> {
        self.pending.borrow().first_due(now_ms)
    }

    /// The stored bytes of a half message; `None` when they cannot be read any more.
    pub(super) async fn record(&self, half: &Half) -> Result<Option<Vec<u8>>, StorageError> {
        self.log.record_at(half.offset).await
    }

    /// Ends a half message in one step: the journal's note, then what follows from it. Gives the ticket of the last; `None`
    /// when nothing was done, since the time of a message to be held has come meanwhile.
    pub(super) fn settle(
        &self,
        taken: &Taken,
        record: Option<&RecordView<'_>>,
        end: End,
        way: Way<'_>,
    ) -> Result<Option<Ticket>, AppendError> {
        let note = Note::Ended { half: taken.at, end };
        let followed = record.and_then(|record| Some((self.followed(record, end, taken.half.checks)?, record)));
        let ticket = match followed {
            None => Some(self.journal.append(&note, &[])?),
            Some((message, record)) => {
                self.put(&message, record, way, |queue, draft| self.journal.append(&note, &[(queue, draft)]))?
            }
        };
        if ticket.is_none() {
            return Ok(None);
        }
        self.pending.borrow_mut().remove(taken.at);
        self.snapshot_if_due();
        Ok(ticket)
    }

    /// Producers were asked about these once more. They are counted here also when that cannot be noted.
    pub(super) fn note_checked(&self, halves: Vec<QueueOffset>) -> Result<(), AppendError> {
        halves.iter().for_each(|half| self.pending.borrow_mut().count_check(*half));
        self.journal.append(&Note::Checked { halves }, &[])?;
        self.snapshot_if_due();
        Ok(())
    }

    /// Appends what the end of a half message had to append when a crash came between.
    pub(super) fn redo(
        &self,
        record: &RecordView<'_>,
        last: &LastEnd,
        way: Way<'_>,
    ) -> Result<Option<Ticket>, AppendError> {
        let Some(message) = self.followed(record, last.end, last.checks) else { return Ok(None) };
        let append = |queue: &QueueRef, draft: &RecordDraft<'_>| self.log.append(queue, draft, clock::now_ms());
        match self.put(&message, record, way, append)? {
            None => self.put(&message, record, Way::ToQueue(None), append),
            ticket => Ok(ticket),
        }
    }

    /// Appends a message to its queue, or where it waits for its time; `None` when that has come meanwhile.
    fn put(
        &self,
        message: &Message,
        record: &RecordView<'_>,
        way: Way<'_>,
        append: impl Fn(&QueueRef, &RecordDraft<'_>) -> Result<Ticket, AppendError>,
    ) -> Result<Option<Ticket>, AppendError> {
        let draft = message.draft(record, self.host);
        let told = match way {
            Way::Held(delays, held) => return delays.hold_by(self.log.id(), &draft, held, append),
            Way::ToQueue(told) => told,
        };
        let draft = RecordDraft { properties: told.unwrap_or(draft.properties), ..draft };
        append(&self.log.queue(&message.topic, message.queue), &draft).map(Some)
    }

    fn followed(&self, record: &RecordView<'_>, end: End, checks: u32) -> Option<Message> {
        match end {
            End::Rollback => None,
            End::Commit => Message::committed(record),
            End::GiveUp => Some(Message::given_up(record, self.own_queue(CHECK_MAX_TIME_TOPIC), checks)),
        }
    }

    pub(super) fn half_queue(&self) -> QueueRef {
        self.log.queue(HALF_TOPIC, self.own_queue(HALF_TOPIC))
    }

    /// How many half messages that are not ended lie in front of an offset of the log.
    pub(crate) fn pending_before(&self, limit: LogOffset) -> usize {
        // Halves lie in the log as in their queue.
        self.pending.borrow().iter().take_while(|(_, half)| half.offset < limit).count()
    }

    /// Lets a start need nothing of the journal in front of an offset; see [`Journal::leave`].
    pub(crate) async fn leave(&self, limit: LogOffset, bytes_max: usize) -> Result<bool, Trouble> {
        self.journal.leave(limit, bytes_max, || self.snapshot()).await
    }

    fn snapshot_if_due(&self) {
        self.journal.snapshot_if_due(|| self.snapshot());
    }

    fn snapshot(&self) -> Note {
        let halves = self.pending.borrow().iter().map(|(at, half)| (at, half.checks)).collect();
        Note::Snapshot { halves, halves_from: self.half_queue().next() }
    }
}
