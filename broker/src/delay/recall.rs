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
use storage::{AppendError, Bound, StorageError, Ticket, key_hash};

use super::schedule::Schedule;
use super::slot::{DueKey, Slot};

/// Messages with one unique key that are looked at: a producer that sends again uses the same one.
const SAME_KEY_MAX: usize = 1000;

impl Schedule {
    /// The messages that a handle names, while they wait.
    pub(super) async fn find(&self, handle: &RecallHandle) -> Result<Vec<DueKey>, StorageError> {
        let hash = key_hash(TIMER_TOPIC, &handle.unique_key);
        let mut found = Vec::new();
        for key in self.log.find_keys(hash, 0, u64::MAX, SAME_KEY_MAX).await? {
            let record = self.log.record_at(key.offset).await?;
            found.extend(record.as_deref().and_then(|bytes| named(handle, &RecordView::decode(bytes).ok()?)));
        }
        Ok(found)
    }

    /// Takes a message back. `None` when its time has come: it is delivered.
    pub(super) fn recall(&self, key: DueKey, host: SocketAddr) -> Result<Option<Ticket>, AppendError> {
        if key.due <= self.clock.now() {
            return Ok(None);
        }
        let mut properties = Builder::new();
        properties.push(TIMER_OUT_MS, key.due.0 as i64);
        let body = key.queue_offset.0.to_be_bytes();
        let draft = RecordDraft {
            topic: TIMER_TOPIC,
            queue_id: Slot::of(key.due).recalls_queue(),
            properties: properties.as_str(),
            ..Schedule::own_draft(&body, host)
        };
        let queue = self.log.queue(TIMER_TOPIC, draft.queue_id);
        let ticket = self.log.append(&queue, &draft, clock::now_ms())?;
        self.window.borrow_mut().remove(key);
        self.took(&ticket);
        Ok(Some(ticket))
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
                let due = Millis(entry.tags_code.max(0) as u64);
                if due >= from.due && Slot::of(due) == slot {
                    self.forget_recalled(due, entry.offset).await?;
                }
            }
        }
    }

    async fn forget_recalled(&self, due: Millis, at: LogOffset) -> Result<(), StorageError> {
        let record = self.log.record_at(at).await?;
        let view = record.as_deref().and_then(|bytes| RecordView::decode(bytes).ok());
        if let Some(queue_offset) = view.and_then(|view| Some(u64::from_be_bytes(view.body().try_into().ok()?))) {
            self.window.borrow_mut().remove(DueKey { due, queue_offset: QueueOffset(queue_offset) });
        }
        Ok(())
    }
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
