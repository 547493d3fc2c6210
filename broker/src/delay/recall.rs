//! Taking a held message back before its time.
//!
//! A record in a queue beside that of the message's slot says so, and names the key. It counts from when it is appended:
//! before that the message may be delivered, afterwards never.

use std::net::SocketAddr;

use base::{LogOffset, Millis, QueueOffset};
use remoting::name::TIMER_TOPIC;
use remoting::properties::{Builder, REAL_TOPIC, TIMER_OUT_MS, UNIQUE_KEY};
use remoting::recall_handle::RecallHandle;
use remoting::record::{RecordDraft, RecordView};
use runtime::clock;
use storage::{AppendError, Bound, Entry, StorageError, Ticket, key_hash};

use super::schedule::Schedule;
use super::slot::{DueKey, Slot};

/// Messages with one unique key that are looked at: a producer that sends again uses the same one.
const SAME_KEY_MAX: usize = 1000;

/// Marks a record that takes a message back because the next record is that message, held anew.
pub(super) const HELD_ANEW: &str = "HELD_ANEW";

/// The messages that a handle names.
pub(crate) struct Named {
    pub(crate) keys: Vec<DueKey>,
    /// As many were held anew when they were found.
    moves: u64,
}

/// What taking a message back came to.
pub(crate) enum Recalled {
    Yes(Ticket),
    /// Its time has come: it is delivered.
    Due,
    /// Messages were held anew since it was found: find it again.
    Moved,
}

impl Schedule {
    /// The messages that a handle names, while they wait.
    pub(super) async fn find(&self, handle: &RecallHandle) -> Result<Named, StorageError> {
        let hash = key_hash(TIMER_TOPIC, &handle.unique_key);
        loop {
            let moves = self.moves.get();
            self.until_visible().await?;
            let mut keys = Vec::new();
            let all_times = (0, u64::MAX);
            for offset in self.log.find_keys(hash, all_times, LogOffset(u64::MAX), SAME_KEY_MAX).await? {
                let record = self.log.record_at(offset).await?;
                keys.extend(record.as_deref().and_then(|bytes| named(handle, &RecordView::decode(bytes).ok()?)));
            }
            if self.moves.get() == moves {
                return Ok(Named { keys, moves });
            }
        }
    }

    /// Takes a message back that was found by its handle.
    pub(super) fn recall(&self, named: &Named, key: DueKey, host: SocketAddr) -> Result<Recalled, AppendError> {
        if key.due <= self.clock.now() {
            return Ok(Recalled::Due);
        }
        if self.moves.get() != named.moves {
            return Ok(Recalled::Moved);
        }
        let (properties, body) = (recall_properties(key), recall_body(key));
        let draft = recall_draft(key, properties.as_str(), &body, host);
        let queue = self.log.queue(TIMER_TOPIC, draft.queue_id);
        let ticket = self.log.append(&queue, &draft, clock::now_ms())?;
        self.window.borrow_mut().remove(key);
        if let Some(recalled) = &mut *self.recalled_meanwhile.borrow_mut() {
            recalled.insert(key);
        }
        self.took(&ticket);
        Ok(Recalled::Yes(ticket))
    }

    /// Takes those out of the window that were taken back, of one slot and due from a key on. All of them are visible.
    pub(super) async fn look_up_recalls(&self, from: DueKey) -> Result<(), StorageError> {
        let slot = Slot::of(from.due);
        let Some(queue) = self.log.find_queue(TIMER_TOPIC, slot.recalls_queue()) else { return Ok(()) };
        let mut at = queue.offset_by_time(slot.stored_from_ms(), Bound::Lower).await?;
        loop {
            let entries = queue.entries(at).await?;
            let Some((last, _)) = entries.last() else { return Ok(()) };
            at = last.plus(1);
            for (_, entry) in &entries {
                let due = due_of(entry);
                if due >= from.due
                    && Slot::of(due) == slot
                    && let Some(key) = self.taken_back(entry).await?
                {
                    self.window.borrow_mut().remove(key);
                }
            }
        }
    }

    /// What one record of a queue of recalls takes back. One that says that its message is held anew counts only with the
    /// new record behind it: a crash may have taken that.
    pub(super) async fn taken_back(&self, entry: &Entry) -> Result<Option<DueKey>, StorageError> {
        let record = self.log.record_at(entry.offset).await?;
        let Some(view) = record.as_deref().and_then(|bytes| RecordView::decode(bytes).ok()) else { return Ok(None) };
        let Ok(queue_offset) = view.body().try_into().map(u64::from_be_bytes) else { return Ok(None) };
        if view.property(HELD_ANEW).is_some() && !self.is_held_behind(entry).await? {
            return Ok(None);
        }
        Ok(Some(DueKey { due: due_of(entry), queue_offset: QueueOffset(queue_offset) }))
    }

    /// Whether a message of the slot was appended right behind a record, in the same step: at the same time.
    async fn is_held_behind(&self, entry: &Entry) -> Result<bool, StorageError> {
        let record = self.log.record_at(entry.limit()).await?;
        let view = record.as_deref().and_then(|bytes| RecordView::decode(bytes).ok());
        Ok(view.is_some_and(|view| {
            view.topic() == TIMER_TOPIC
                && view.queue_id() == Slot::of(due_of(entry)).queue()
                && view.store_timestamp_ms() == entry.store_timestamp_ms as i64
        }))
    }
}

/// The time that an entry of the timer topic stands for.
pub(super) fn due_of(entry: &Entry) -> Millis {
    Millis(entry.tags_code.max(0) as u64)
}

pub(super) fn recall_properties(key: DueKey) -> Builder {
    let mut properties = Builder::new();
    properties.push(TIMER_OUT_MS, key.due.0 as i64);
    properties
}

pub(super) fn recall_body(key: DueKey) -> [u8; 8] {
    key.queue_offset.0.to_be_bytes()
}

/// The record that takes a message back.
pub(super) fn recall_draft<'a>(
    key: DueKey,
    properties: &'a str,
    body: &'a [u8; 8],
    host: SocketAddr,
) -> RecordDraft<'a> {
    let queue_id = Slot::of(key.due).recalls_queue();
    RecordDraft { topic: TIMER_TOPIC, queue_id, properties, ..Schedule::own_draft(body, host) }
}

/// The key of a held message, if it is the one that the handle names.
fn named(handle: &RecallHandle, record: &RecordView<'_>) -> Option<DueKey> {
    let due = Millis(record.property(TIMER_OUT_MS)?.parse().ok()?);
    let is_it = due == handle.due
        && record.topic() == TIMER_TOPIC
        && record.property(UNIQUE_KEY) == Some(&handle.unique_key)
        && record.property(REAL_TOPIC) == Some(&handle.topic);
    is_it.then(|| DueKey { due, queue_offset: record.queue_offset() })
}
