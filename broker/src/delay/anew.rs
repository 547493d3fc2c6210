//! Holding messages anew that lie in front of an offset of the log, so that the log can do without what is there.
//!
//! A message is appended once more under its slot. Right in front of it, in the same step, goes a record that takes the
//! old one back and counts only with the new one behind it: so a crash leaves the one or the other, never both or none.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use base::{LogOffset, QueueOffset};
use remoting::name::TIMER_TOPIC;
use remoting::record::{RecordDraft, RecordView};
use runtime::clock;
use storage::{AppendError, Entry, QueueRef, StorageError};

use super::recall::{HELD_ANEW, due_of, recall_body, recall_draft, recall_properties};
use super::schedule::Schedule;
use super::slot::{DueKey, Slot};
use crate::trouble::Trouble;

/// What became of the messages in front of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anew {
    /// None of them waits there any more.
    Held,
    /// Some are due, and are being delivered.
    Due,
    /// They take more bytes than were allowed; nothing was done.
    TooMany { bytes: u64 },
}

impl Schedule {
    /// Holds anew what waits in front of an offset, unless its records take more than `bytes_max`.
    pub(super) async fn hold_anew(&self, limit: LogOffset, bytes_max: u64, host: SocketAddr) -> Result<Anew, Trouble> {
        let mut queues = self.log.queues_of_topic(TIMER_TOPIC);
        queues.retain(|queue| Slot::is_of(queue.id()));
        let bytes = self.bytes_waiting(&queues, limit).await?;
        if bytes > bytes_max {
            return Ok(Anew::TooMany { bytes });
        }
        self.recalled_meanwhile.replace(Some(BTreeSet::new()));
        let outcome = self.hold_queues_anew(&queues, limit, host).await;
        self.recalled_meanwhile.replace(None);
        outcome?;
        let is_late = self.window.borrow().is_late(self.clock.now(), limit);
        Ok(if is_late { Anew::Due } else { Anew::Held })
    }

    /// Bytes of the records in front of an offset whose time is still to come, whether they were taken back or not.
    async fn bytes_waiting(&self, queues: &[QueueRef], limit: LogOffset) -> Result<u64, StorageError> {
        let mut bytes = 0;
        for queue in queues {
            let mut at = queue.min();
            while let Some(entries) = self.waiting(queue, &mut at, limit).await? {
                bytes += entries.iter().map(|(_, entry)| u64::from(entry.bytes)).sum::<u64>();
            }
        }
        Ok(bytes)
    }

    /// Some entries from `at` on that are not due yet, in front of an offset of the log. `None` behind the last.
    async fn waiting(
        &self,
        queue: &QueueRef,
        at: &mut QueueOffset,
        limit: LogOffset,
    ) -> Result<Option<Vec<(DueKey, Entry)>>, StorageError> {
        runtime::yield_if_needed().await;
        let entries = queue.entries(*at).await?;
        let in_front = entries.iter().take_while(|(_, entry)| entry.offset < limit);
        let Some((last, _)) = in_front.clone().last() else { return Ok(None) };
        *at = last.plus(1);
        let now = self.clock.now();
        let keyed =
            in_front.map(|(queue_offset, entry)| (DueKey { due: due_of(entry), queue_offset: *queue_offset }, *entry));
        Ok(Some(keyed.filter(|(key, _)| key.due > now).collect()))
    }

    async fn hold_queues_anew(&self, queues: &[QueueRef], limit: LogOffset, host: SocketAddr) -> Result<(), Trouble> {
        for queue in queues {
            self.hold_queue_anew(queue, limit, host).await?;
        }
        Ok(())
    }

    async fn hold_queue_anew(&self, queue: &QueueRef, limit: LogOffset, host: SocketAddr) -> Result<(), Trouble> {
        let mut recalled = None;
        let mut at = queue.min();
        while let Some(entries) = self.waiting(queue, &mut at, limit).await? {
            for (key, entry) in entries {
                if recalled.is_none() {
                    recalled = Some(self.recalled_of(key).await?);
                }
                if recalled.as_ref().is_some_and(|recalled| recalled.contains(&key)) {
                    continue;
                }
                let Some(record) = self.log.record_at(entry.offset).await? else { continue };
                let Ok(view) = RecordView::decode(&record) else { continue };
                while let Err(error) = self.append_anew(key, &view, host) {
                    match error {
                        AppendError::Busy { .. } => self.log.room().await,
                        other => return Err(other.into()),
                    }
                }
            }
        }
        Ok(())
    }

    /// What was taken back of the messages in the queue of a key's slot.
    async fn recalled_of(&self, key: DueKey) -> Result<BTreeSet<DueKey>, StorageError> {
        let mut recalled = BTreeSet::new();
        let Some(queue) = self.log.find_queue(TIMER_TOPIC, Slot::of(key.due).recalls_queue()) else {
            return Ok(recalled);
        };
        self.until_visible().await?;
        let mut at = queue.min();
        loop {
            let entries = queue.entries(at).await?;
            let Some((last, _)) = entries.last() else { return Ok(recalled) };
            at = last.plus(1);
            for (_, entry) in &entries {
                recalled.extend(self.taken_back(entry).await?);
            }
        }
    }

    fn was_recalled(&self, key: DueKey) -> bool {
        self.recalled_meanwhile.borrow().as_ref().is_some_and(|recalled| recalled.contains(&key))
    }

    /// One step: from then on the message waits under its new key, unless it is due or was taken back meanwhile.
    fn append_anew(&self, key: DueKey, record: &RecordView<'_>, host: SocketAddr) -> Result<(), AppendError> {
        if key.due <= self.clock.now() || self.was_recalled(key) {
            return Ok(());
        }
        let (mut properties, body) = (recall_properties(key), recall_body(key));
        properties.push(HELD_ANEW, "true");
        let recall = recall_draft(key, properties.as_str(), &body, host);
        let message = RecordDraft::of(record);
        let recalls = self.log.queue(TIMER_TOPIC, recall.queue_id);
        let queue = self.log.queue(TIMER_TOPIC, message.queue_id);
        let tickets = self.log.append_together(&[(&recalls, &recall), (&queue, &message)], clock::now_ms())?;
        let held = &tickets[1];
        let fresh = DueKey { due: key.due, queue_offset: held.queue_offset };
        let mut window = self.window.borrow_mut();
        window.remove(key);
        if window.add(fresh, held.physical_offset.offset()) {
            self.changed.notify();
        }
        self.took(held);
        self.moves.set(self.moves.get() + 1);
        Ok(())
    }
}
