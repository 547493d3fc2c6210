//! The transactions of one log: its half queue, its journal, and what of them is pending.
//!
//! Lives on the core that opened the log. A half message lies in the log of the queue that it is meant for, so that its
//! end and the message itself are appended in one step. The journal's record goes in front of the message: if a crash
//! keeps only the record, it is the last of the log, and opening the log appends the message again from its half. So
//! a committed message is there once, whenever the process dies.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use base::{PhysicalOffset, QueueId, QueueOffset};
use remoting::name::{CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC};
use remoting::record::{RecordDraft, RecordView};
use runtime::clock;
use storage::{AppendError, Log, QueueRef, StorageError, Ticket};

use super::journal::{End, Note};
use super::message::Message;
use super::pending::{HALVES_MAX, Half, Missed, Pending};
use crate::placement::Placement;

/// Records of the journal after which a new snapshot is written: so many at most are read when the log is opened,
/// unless too much is pending for a snapshot.
const SNAPSHOT_EVERY: u64 = 4096;
/// Pending half messages that one snapshot holds. While there are more none is written, and the next start reads more.
const SNAPSHOT_HALVES_MAX: usize = 4096;

/// How far the journal is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JournalPlace {
    pub(super) snapshot_at: Option<QueueOffset>,
    /// Records behind the snapshot.
    pub(super) since: u64,
}

/// The transactions of one log.
pub(crate) struct Ledger {
    pub(super) log: Rc<Log>,
    placement: Placement,
    /// The address that clients reach this broker at.
    host: SocketAddr,
    pub(super) pending: RefCell<Pending>,
    pub(super) place: Cell<JournalPlace>,
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
        Ledger { log, placement, host, pending: RefCell::default(), place: Cell::default() }
    }

    /// Takes over what opening the log has found.
    pub(super) fn load(&self, pending: Pending, place: JournalPlace) {
        self.pending.replace(pending);
        self.place.set(place);
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
        let ticket = self.log.append(&self.queue(HALF_TOPIC), draft, clock::now_ms())?;
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

    /// Ends a half message in one step: the journal's record, then what follows from it. Gives the ticket of the last.
    pub(super) fn settle(
        &self,
        taken: &Taken,
        record: Option<&RecordView<'_>>,
        end: End,
    ) -> Result<Ticket, AppendError> {
        let followed = record.and_then(|record| Some((self.followed(record, end, taken.half.checks)?, record)));
        let ticket = self.append(&Note::Ended { half: taken.at, end }, followed.as_ref())?;
        self.pending.borrow_mut().remove(taken.at);
        self.snapshot_if_due();
        Ok(ticket)
    }

    /// Producers were asked about these once more. They are counted here also when that cannot be noted.
    pub(super) fn note_checked(&self, halves: Vec<QueueOffset>) -> Result<(), AppendError> {
        halves.iter().for_each(|half| self.pending.borrow_mut().count_check(*half));
        self.append(&Note::Checked { halves }, None)?;
        self.snapshot_if_due();
        Ok(())
    }

    /// Appends what the end of a half message had to append when a crash came between.
    pub(super) fn redo(&self, record: &RecordView<'_>, end: End, checks: u32) -> Result<Option<Ticket>, AppendError> {
        let Some(message) = self.followed(record, end, checks) else { return Ok(None) };
        let queue = self.log.queue(&message.topic, message.queue);
        self.log.append(&queue, &message.draft(record, self.host), clock::now_ms()).map(Some)
    }

    fn followed(&self, record: &RecordView<'_>, end: End, checks: u32) -> Option<Message> {
        match end {
            End::Rollback => None,
            End::Commit => Message::committed(record),
            End::GiveUp => Some(Message::given_up(record, self.own_queue(CHECK_MAX_TIME_TOPIC), checks)),
        }
    }

    fn queue(&self, topic: &str) -> QueueRef {
        self.log.queue(topic, self.own_queue(topic))
    }

    /// Appends a note to the journal, and right behind it the message that follows from it.
    pub(super) fn append(
        &self,
        note: &Note,
        followed: Option<&(Message, &RecordView<'_>)>,
    ) -> Result<Ticket, AppendError> {
        let place = self.place.get();
        let (body, properties) = (note.body(), note.properties(place.snapshot_at));
        let now = clock::now_ms();
        let journal = self.queue(OP_HALF_TOPIC);
        let draft = RecordDraft {
            topic: OP_HALF_TOPIC,
            queue_id: journal.id(),
            flag: 0,
            sys_flag: 0,
            born_timestamp_ms: now.0 as i64,
            born_host: self.host,
            store_host: self.host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: body.as_bytes(),
            properties: &properties,
        };
        let ticket = match followed {
            None => self.log.append(&journal, &draft, now)?,
            Some((message, record)) => {
                let queue = self.log.queue(&message.topic, message.queue);
                let records = [(&journal, &draft), (&queue, &message.draft(record, self.host))];
                self.log.append_together(&records, now)?.pop().expect("two records have two tickets")
            }
        };
        self.place.set(JournalPlace { since: place.since + 1, ..place });
        Ok(ticket)
    }

    /// Writes down all that is pending, when the journal has become long. If that fails, the next end tries it again.
    fn snapshot_if_due(&self) {
        let pending = self.pending.borrow();
        if self.place.get().since < SNAPSHOT_EVERY || pending.len() > SNAPSHOT_HALVES_MAX {
            return;
        }
        let halves = pending.iter().map(|(at, half)| (at, half.checks)).collect();
        let snapshot = Note::Snapshot { halves, halves_from: self.queue(HALF_TOPIC).next() };
        let at = self.queue(OP_HALF_TOPIC).next();
        if self.append(&snapshot, None).is_ok() {
            self.place.set(JournalPlace { snapshot_at: Some(at), since: 0 });
        }
    }
}
