//! What a ledger knows when its log is opened: read from the journal, and from nothing else.

use std::rc::Rc;

use storage::StorageError;

use super::Ledger;
use crate::pop::note::Note;

impl Ledger {
    /// Reads what holds from the journal; before anything is popped.
    pub(in crate::pop) async fn recover(&self, now_ms: u64) -> Result<(), StorageError> {
        let mut reader = self.journal.read::<Note>().await?;
        if let Some(Note::Snapshot { queues, batches, ordered }) = reader.snapshot.take() {
            for (of, next) in queues {
                self.follow(&Rc::new(of), next, now_ms);
            }
            for (id, batch) in batches {
                self.insert(id, batch);
            }
            for (of, next, ordered) in ordered {
                self.follow_ordered(&of, next, ordered);
            }
        }
        while let Some(noted) = reader.next().await? {
            match noted.note {
                Some(Note::Popped { batch, next }) => {
                    self.follow(&batch.of, next, now_ms);
                    self.insert(noted.at, batch);
                }
                Some(Note::Done { messages }) => self.finish(&messages),
                Some(Note::Held { message, batch, .. }) => {
                    self.finish(&[message]);
                    self.insert(noted.at, batch);
                }
                Some(Note::Ordered { of, next, ordered }) => {
                    self.follow(&of, next, now_ms);
                    self.follow_ordered(&of, next, ordered);
                }
                Some(Note::Forgotten { queues }) => self.drop_queues(|of| queues.contains(of)),
                Some(Note::Snapshot { .. }) | None => {}
            }
        }
        Ok(())
    }
}
