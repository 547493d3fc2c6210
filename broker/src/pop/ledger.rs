//! What groups popped of the queues of one log: where each goes on, and what is in flight.
//!
//! Lives on the core that opened the log, in which a journal of it is kept: what was popped, acknowledged or revived is
//! known again after a crash, except that a note which was not written yet may be missing. Then messages come again,
//! as they may. Of a queue popped in order a note says all that holds of it, so the last one counts.

mod recovery;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use base::{LogOffset, QueueOffset};
use remoting::text::Text;
use runtime::sync::Notify;
use storage::{AppendError, Log, StorageError, Ticket};

use super::in_flight::{BATCHES_MAX, Batch, InFlight, PopQueue};
use super::note::{InBatch, Note};
use super::order::Ordered;
use super::receipt::{ORDERED_REVIVE_QUEUE, REVIVE_QUEUE, Receipt};
use crate::journal::Journal;
use crate::trouble::Trouble;

/// Queues without anything in flight are forgotten after this time without a pop: the group's committed offset says the
/// same, and is stored by then.
const IDLE_MS_MAX: u64 = 60_000;

/// Forgotten queues noted by one record of the journal.
const FORGOTTEN_TOGETHER_MAX: usize = 256;

/// A queue as one group pops it.
struct State {
    /// Behind the last message that was popped.
    next: QueueOffset,
    ordered: Option<Ordered>,
    /// A pop is reading it: others pass it over.
    is_read: bool,
    used_at_ms: u64,
}

/// The pops of one log.
pub(super) struct Ledger {
    pub(super) log: Rc<Log>,
    journal: Journal,
    in_flight: RefCell<InFlight>,
    queues: RefCell<HashMap<Rc<PopQueue>, State>>,
    /// Something is due earlier than was known, or there is something at all.
    due_earlier: Rc<Notify>,
}

/// A queue that is being read. Others may read it again when this is dropped.
pub(super) struct Reading {
    ledger: Rc<Ledger>,
    pub(super) of: Rc<PopQueue>,
    pub(super) from: QueueOffset,
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(state) = self.ledger.queues.borrow_mut().get_mut(&self.of) {
            state.is_read = false;
        }
    }
}

/// Why a queue gives nothing right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// Another pop reads it.
    Read,
    /// Its last batch is in somebody's hands until this time.
    Ordered { until_ms: u64 },
    /// Too much is in flight.
    Full,
}

/// What an acknowledgement came to.
pub(super) enum Acknowledged {
    /// The receipt holds no more.
    Void,
    Noted(Ticket),
}

/// When a batch was popped, and for how long it is nobody else's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) pop_ms: u64,
    pub(super) invisible_ms: u64,
}

impl Ledger {
    pub(super) fn new(log: Rc<Log>, journal: Journal, due_earlier: Rc<Notify>) -> Ledger {
        Ledger { log, journal, in_flight: RefCell::default(), queues: RefCell::default(), due_earlier }
    }

    /// The one name of a queue, so that all that is said about it shares it.
    fn named(&self, of: &PopQueue) -> Option<Rc<PopQueue>> {
        self.queues.borrow().get_key_value(of).map(|(of, _)| of.clone())
    }

    fn follow(&self, of: &Rc<PopQueue>, next: QueueOffset, now_ms: u64) {
        let mut queues = self.queues.borrow_mut();
        let state = queues.entry(of.clone()).or_insert_with(|| State::new(next));
        state.next = next;
        state.used_at_ms = now_ms;
    }

    fn insert(&self, id: QueueOffset, batch: Batch) {
        let of = self.named(&batch.of).unwrap_or_else(|| batch.of.clone());
        let due_ms = batch.due_ms();
        self.in_flight.borrow_mut().insert(id, Batch { of, ..batch });
        if self.in_flight.borrow().next_due_ms() == Some(due_ms) {
            self.due_earlier.notify();
        }
    }

    fn finish(&self, messages: &[InBatch]) {
        let mut in_flight = self.in_flight.borrow_mut();
        for (id, offset) in messages {
            in_flight.finish(*id, *offset);
        }
    }

    /// Whether it is known where a group goes on in a queue.
    pub(super) fn knows(&self, of: &PopQueue) -> bool {
        self.queues.borrow().contains_key(of)
    }

    /// A group begins to pop a queue; one that is known stays.
    pub(super) fn begin(&self, of: PopQueue, at: QueueOffset) {
        self.queues.borrow_mut().entry(Rc::new(of)).or_insert_with(|| State::new(at));
        // Somebody has to forget it again.
        self.due_earlier.notify();
    }

    /// Where a group goes on in a queue that is known, whatever is in somebody's hands.
    pub(super) fn next(&self, of: &PopQueue) -> Option<QueueOffset> {
        self.queues.borrow().get(of).map(|state| state.next)
    }

    /// Opens a queue that is known, to be read. `attempt` is that of a pop in order.
    pub(super) fn open(
        self: &Rc<Ledger>,
        of: &PopQueue,
        order: Option<Option<&Text>>,
        now_ms: u64,
    ) -> Result<Reading, Closed> {
        if order.is_none() && self.in_flight.borrow().len() >= BATCHES_MAX {
            return Err(Closed::Full);
        }
        let of = self.named(of).expect("a queue is known before it is opened");
        let mut queues = self.queues.borrow_mut();
        let state = queues.get_mut(&of).expect("it was just found");
        if state.is_read {
            return Err(Closed::Read);
        }
        state.used_at_ms = now_ms;
        let mut from = state.next;
        if let (Some(attempt), Some(ordered)) = (order, &state.ordered) {
            if let Some(until_ms) = ordered.blocked_until(now_ms, attempt) {
                return Err(Closed::Ordered { until_ms });
            }
            from = ordered.first_open().unwrap_or(from);
        }
        state.is_read = true;
        drop(queues);
        Ok(Reading { ledger: self.clone(), of, from })
    }

    /// Messages of an open queue are given out.
    pub(super) fn popped(
        &self,
        reading: &Reading,
        offsets: &[QueueOffset],
        next: QueueOffset,
        times: Times,
    ) -> Result<(), AppendError> {
        let batch = Batch {
            of: reading.of.clone(),
            start: reading.from,
            pop_time_ms: times.pop_ms,
            invisible_ms: times.invisible_ms,
            offsets: offsets.to_vec(),
            done: 0,
        };
        let id = self.journal.queue().next();
        self.journal.append(&Note::Popped { batch: batch.clone(), next }, &[])?;
        self.insert(id, batch);
        self.follow(&reading.of, next, times.pop_ms);
        self.snapshot_if_due();
        Ok(())
    }

    /// As [`Ledger::popped`], in order. Returns how often each message came before, of those that did.
    pub(super) fn popped_in_order(
        &self,
        reading: &Reading,
        offsets: &[QueueOffset],
        next: QueueOffset,
        times: Times,
        attempt: Option<&Text>,
    ) -> Result<Vec<(QueueOffset, u32)>, AppendError> {
        let mut ordered = self.ordered(&reading.of).unwrap_or_default();
        let counts = ordered.popped(offsets, (times.pop_ms, times.invisible_ms), attempt);
        self.note_ordered(&reading.of, next, ordered)?;
        Ok(counts)
    }

    fn ordered(&self, of: &Rc<PopQueue>) -> Option<Ordered> {
        self.queues.borrow().get(of)?.ordered.clone()
    }

    /// Notes what holds of a queue popped in order from now on.
    fn note_ordered(&self, of: &Rc<PopQueue>, next: QueueOffset, ordered: Ordered) -> Result<Ticket, AppendError> {
        let ticket = self.journal.append(&Note::Ordered { of: of.clone(), next, ordered: ordered.clone() }, &[])?;
        self.follow_ordered(of, next, ordered);
        self.snapshot_if_due();
        Ok(ticket)
    }

    fn follow_ordered(&self, of: &Rc<PopQueue>, next: QueueOffset, ordered: Ordered) {
        let mut queues = self.queues.borrow_mut();
        // It may have been forgotten while it was read.
        let state = queues.entry(of.clone()).or_insert_with(|| State::new(next));
        (state.next, state.ordered) = (next, Some(ordered));
    }

    /// Nothing of an open queue is wanted up to an offset.
    pub(super) fn passed(&self, reading: &Reading, next: QueueOffset) {
        if let Some(state) = self.queues.borrow_mut().get_mut(&reading.of) {
            state.next = next;
        }
    }

    /// A message is acknowledged.
    pub(super) fn acknowledge(&self, of: &PopQueue, receipt: &Receipt) -> Result<Acknowledged, AppendError> {
        let Some(of) = self.named(of) else { return Ok(Acknowledged::Void) };
        if receipt.is_ordered() {
            let Some(mut ordered) = self.ordered(&of) else { return Ok(Acknowledged::Void) };
            if !ordered.acknowledge(receipt.offset, receipt.pop_time_ms) {
                return Ok(Acknowledged::Void);
            }
            let next = self.next(&of).expect("the queue is known");
            return Ok(Acknowledged::Noted(self.note_ordered(&of, next, ordered)?));
        }
        let Some(id) = self.in_flight.borrow().find(&of, receipt) else { return Ok(Acknowledged::Void) };
        Ok(Acknowledged::Noted(self.note_done(vec![(id, receipt.offset)])?))
    }

    /// Messages are done: acknowledged, or revived.
    pub(super) fn note_done(&self, messages: Vec<InBatch>) -> Result<Ticket, AppendError> {
        let note = Note::Done { messages };
        let ticket = self.journal.append(&note, &[])?;
        if let Note::Done { messages } = note {
            self.finish(&messages);
        }
        self.snapshot_if_due();
        Ok(ticket)
    }

    /// A message is held anew from now on. Gives its new receipt; `None` when the old one holds no more.
    pub(super) fn hold(
        &self,
        of: &PopQueue,
        receipt: &Receipt,
        times: Times,
    ) -> Result<Option<(Receipt, Ticket)>, AppendError> {
        let Some(of) = self.named(of) else { return Ok(None) };
        let Times { pop_ms, invisible_ms } = times;
        if receipt.is_ordered() {
            let Some(mut ordered) = self.ordered(&of) else { return Ok(None) };
            if !ordered.change(receipt.offset, receipt.pop_time_ms, pop_ms.saturating_add(invisible_ms)) {
                return Ok(None);
            }
            let next = self.next(&of).expect("the queue is known");
            let ticket = self.note_ordered(&of, next, ordered)?;
            return Ok(Some((Receipt { revive_queue: ORDERED_REVIVE_QUEUE, ..*receipt }, ticket)));
        }
        let Some(old) = self.in_flight.borrow().find(&of, receipt) else { return Ok(None) };
        // Two batches of one millisecond must differ in their receipts.
        let is_taken = |pop_ms: &u64| self.in_flight.borrow().is_taken(&of, receipt.offset, *pop_ms);
        let pop_time_ms = (pop_ms..).find(|pop_ms| !is_taken(pop_ms)).expect("times do not end");
        let fresh = Receipt {
            start: receipt.offset,
            pop_time_ms,
            invisible_ms,
            revive_queue: REVIVE_QUEUE,
            offset: receipt.offset,
        };
        let batch = Batch {
            of: of.clone(),
            start: fresh.start,
            pop_time_ms: fresh.pop_time_ms,
            invisible_ms,
            offsets: vec![fresh.offset],
            done: 0,
        };
        let (message, id) = ((old, receipt.offset), self.journal.queue().next());
        let next = self.next(&of).unwrap_or(fresh.offset);
        let ticket = self.journal.append(&Note::Held { message, batch: batch.clone(), next }, &[])?;
        self.finish(&[message]);
        self.insert(id, batch);
        self.snapshot_if_due();
        Ok(Some((fresh, ticket)))
    }

    /// Up to where all messages of a queue are done: what the group has consumed.
    pub(super) fn consumed(&self, of: &PopQueue) -> Option<QueueOffset> {
        let of = self.named(of)?;
        let queues = self.queues.borrow();
        let state = queues.get(&of)?;
        let ordered = state.ordered.as_ref().and_then(Ordered::first_open);
        let in_flight = self.in_flight.borrow().first_open(&of);
        Some(ordered.into_iter().chain(in_flight).chain([state.next]).min().expect("there is the next one"))
    }

    /// As [`Ledger::consumed`], of all queues.
    pub(super) fn all_consumed(&self) -> Vec<(Rc<PopQueue>, QueueOffset)> {
        let mut known: Vec<_> = self.queues.borrow().keys().cloned().collect();
        known.sort_unstable();
        known.into_iter().filter_map(|of| self.consumed(&of).map(|consumed| (of, consumed))).collect()
    }

    /// A group that did not pop committed an offset: it goes on there, if that is further on. What is in flight stays so.
    pub(super) fn go_on_from(&self, of: &PopQueue, committed: QueueOffset) {
        if let Some(state) = self.queues.borrow_mut().get_mut(of)
            && !state.is_read
        {
            state.next = state.next.max(committed);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.borrow().is_empty()
    }

    /// A group goes on somewhere else in a queue: what is in flight of it means nothing any more.
    pub(super) fn move_to(&self, of: &PopQueue, next: QueueOffset) {
        self.forget(|known| known == of);
        self.begin(of.clone(), next);
    }

    /// Forgets queues and what is in flight of them, for good.
    pub(super) fn forget(&self, gone: impl Fn(&PopQueue) -> bool) {
        let queues = self.queues.borrow().keys().filter(|of| gone(of)).cloned().collect();
        self.note_forgotten(queues);
        self.drop_queues(gone);
    }

    fn drop_queues(&self, gone: impl Fn(&PopQueue) -> bool) {
        self.in_flight.borrow_mut().forget(&gone);
        self.queues.borrow_mut().retain(|of, _| !gone(of));
    }

    /// Without room for the note a restart remembers the queues: groups go on where they were then.
    fn note_forgotten(&self, mut queues: Vec<Rc<PopQueue>>) {
        queues.sort_unstable();
        for queues in queues.chunks(FORGOTTEN_TOGETHER_MAX) {
            let queues = queues.iter().map(|of| PopQueue::clone(of)).collect();
            let _ = self.journal.append(&Note::Forgotten { queues }, &[]);
        }
    }

    /// The batch whose time is over first: its queue, its messages that are still open, and when it was popped.
    pub(super) fn first_due(&self, now_ms: u64) -> Option<Due> {
        let in_flight = self.in_flight.borrow();
        let (id, batch) = in_flight.first_due(now_ms)?;
        Some(Due::of(id, batch))
    }

    pub(super) fn next_due_ms(&self) -> Option<u64> {
        self.in_flight.borrow().next_due_ms()
    }

    /// Whether there is nothing to look after.
    pub(super) fn is_idle(&self) -> bool {
        self.queues.borrow().is_empty()
    }

    /// Forgets queues that nobody pops.
    pub(super) fn tidy(&self, now_ms: u64) {
        let idle: Vec<_> = {
            let in_flight = self.in_flight.borrow();
            let is_idle = |(of, state): &(&Rc<PopQueue>, &State)| {
                let is_used = state.is_read || now_ms.saturating_sub(state.used_at_ms) <= IDLE_MS_MAX;
                let is_held = state.ordered.as_ref().is_some_and(|ordered| ordered.first_open().is_some());
                !is_used && !is_held && in_flight.first_open(of).is_none()
            };
            self.queues.borrow().iter().filter(is_idle).map(|(of, _)| of.clone()).collect()
        };
        self.queues.borrow_mut().retain(|of, _| !idle.contains(of));
        self.note_forgotten(idle);
    }

    /// The first batch found with an open message in front of an offset of the log, as if its time were over.
    pub(super) async fn first_before(&self, limit: LogOffset) -> Result<Option<Due>, StorageError> {
        let all = self.in_flight.borrow().first_open_of_all();
        for (of, open) in all {
            // Messages of a queue lie in the log as in the queue.
            let Some(queue) = self.log.find_queue(&of.topic, of.queue) else { continue };
            if queue.entry(open).await?.is_none_or(|entry| entry.offset >= limit) {
                continue;
            }
            if let Some((id, batch)) = self.in_flight.borrow().batch_with(&of, open) {
                return Ok(Some(Due::of(id, batch)));
            }
        }
        Ok(None)
    }

    /// Lets a start need nothing of the journal in front of an offset; see [`Journal::leave`].
    pub(super) async fn leave(&self, limit: LogOffset, bytes_max: usize) -> Result<bool, Trouble> {
        self.journal.leave(limit, bytes_max, || self.snapshot()).await
    }

    fn snapshot_if_due(&self) {
        self.journal.snapshot_if_due(|| self.snapshot());
    }

    fn snapshot(&self) -> Note {
        let queues = self.queues.borrow();
        let of_order = |(of, state): (&Rc<PopQueue>, &State)| {
            state.ordered.clone().map(|ordered| (of.clone(), state.next, ordered))
        };
        let mut ordered: Vec<_> = queues.iter().filter_map(of_order).collect();
        ordered.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut queues: Vec<_> = queues.iter().map(|(of, state)| (PopQueue::clone(of), state.next)).collect();
        queues.sort_unstable();
        let in_flight = self.in_flight.borrow();
        let batches = in_flight.iter().map(|(id, batch)| (id, batch.clone())).collect();
        Note::Snapshot { queues, batches, ordered }
    }
}

/// A batch whose time is over.
pub(super) struct Due {
    pub(super) id: QueueOffset,
    pub(super) of: Rc<PopQueue>,
    pub(super) offsets: Vec<QueueOffset>,
    pub(super) pop_time_ms: u64,
}

impl Due {
    fn of(id: QueueOffset, batch: &Batch) -> Due {
        Due { id, of: batch.of.clone(), offsets: batch.open().collect(), pop_time_ms: batch.pop_time_ms }
    }
}

impl State {
    fn new(next: QueueOffset) -> State {
        State { next, ordered: None, is_read: false, used_at_ms: 0 }
    }
}

#[cfg(test)]
mod tests;
