//! What is pending when a log is opened: read from its half queue and its journal, and from nothing else.
//!
//! Halves and notes are followed in the order of the log from the newest snapshot on, so no more is held in memory than
//! was pending at any time.

use base::{LogOffset, QueueOffset};
use remoting::record::RecordView;
use storage::{Entry, QueueRef, StorageError};

use super::ledger::{Ledger, Way};
use super::note::{End, Note};
use super::pending::{Half, Pending};
use crate::delay::{Delays, Held};
use crate::journal::Noted;

/// An end that the journal's last record tells.
pub(super) struct LastEnd {
    half: QueueOffset,
    pub(super) end: End,
    pub(super) checks: u32,
    /// Behind the journal's record.
    limit: LogOffset,
}

/// Follows a log's transactions from the newest snapshot to its end.
struct Follower {
    halves: QueueRef,
    immune_ms: u64,
    pending: Pending,
    /// The half message to be met next.
    next_half: QueueOffset,
    last_end: Option<LastEnd>,
}

/// Fills the ledger of a log that was just opened and in which nothing was appended yet. An end whose message the last
/// crash has taken away is to be completed before anything else is appended.
///
/// # Errors
/// When the log cannot be read.
pub(super) async fn recover(ledger: &Ledger, immune_ms: u64) -> Result<(), StorageError> {
    let halves = ledger.half_queue();
    let next_half = halves.min();
    let mut follower = Follower { halves, immune_ms, pending: Pending::default(), next_half, last_end: None };
    let mut reader = ledger.journal.read::<Note>().await?;
    if let Some(Note::Snapshot { halves, halves_from }) = reader.snapshot.take() {
        follower.begin(halves, halves_from).await?;
    }
    while let Some(noted) = reader.next().await? {
        follower.meet_halves(Some(noted.entry.offset)).await?;
        follower.note(noted);
    }
    follower.meet_halves(None).await?;
    let Follower { pending, last_end, .. } = follower;
    ledger.pending.replace(pending);
    ledger.unfinished.replace(last_end.filter(|last| last.limit == ledger.log.visible_end()));
    Ok(())
}

impl Follower {
    /// Begins with a snapshot.
    async fn begin(&mut self, halves: Vec<(QueueOffset, u32)>, halves_from: QueueOffset) -> Result<(), StorageError> {
        for (at, checks) in halves {
            if let Some(entry) = self.halves.entry(at).await? {
                self.meet(at, &entry);
                self.pending.set_checks(at, checks);
            }
        }
        self.next_half = halves_from.max(self.halves.min());
        Ok(())
    }

    /// Half messages in front of an offset of the log, or all that are left.
    async fn meet_halves(&mut self, limit: Option<LogOffset>) -> Result<(), StorageError> {
        while self.next_half < self.halves.max() {
            // Where a record was lost there is no entry.
            if let Some(entry) = self.halves.entry(self.next_half).await? {
                if limit.is_some_and(|limit| entry.offset >= limit) {
                    return Ok(());
                }
                self.meet(self.next_half, &entry);
            }
            self.next_half = self.next_half.plus(1);
            runtime::yield_if_needed().await;
        }
        Ok(())
    }

    /// A time that its sender chose for it is looked at when it is due: only then its record is read.
    fn meet(&mut self, at: QueueOffset, entry: &Entry) {
        let stored_ms = entry.store_timestamp_ms;
        self.pending.insert(at, Half::new(entry.offset, stored_ms, stored_ms + self.immune_ms));
    }

    /// A note that went bad on disk is passed over: its half message is asked about once more.
    fn note(&mut self, noted: Noted<Note>) {
        self.last_end = None;
        match noted.note {
            Some(Note::Ended { half, end }) => {
                let checks = self.pending.checks_of(half);
                self.pending.remove(half);
                self.last_end = Some(LastEnd { half, end, checks, limit: noted.entry.limit() });
            }
            Some(Note::Checked { halves }) => halves.into_iter().for_each(|half| self.pending.count_check(half)),
            Some(Note::Snapshot { .. }) | None => {}
        }
    }
}

/// Completes the end whose message the last crash has taken away, if there is one: the journal's record is the last of the
/// log. `held` says whether a committed message waits for its time.
///
/// # Errors
/// When the log cannot be read or takes no record. The broker must not go on then: a committed message would be lost.
pub(super) async fn complete(
    ledger: &Ledger,
    delays: &Delays,
    held: impl FnOnce(&RecordView<'_>) -> Option<Held>,
) -> Result<(), StorageError> {
    let Some(last) = ledger.unfinished.take().filter(|last| last.end != End::Rollback) else { return Ok(()) };
    let log = &ledger.log;
    let bytes = match ledger.half_queue().entry(last.half).await? {
        Some(entry) => log.record_at(entry.offset).await?,
        None => None,
    };
    let Some(record) = bytes.as_deref().and_then(|bytes| RecordView::decode(bytes).ok()) else {
        crate::log::warn(format_args!(
            "log {}: a transaction was ended, but its half message {} cannot be read any more: the message is lost",
            log.id(),
            last.half
        ));
        return Ok(());
    };
    let held = if last.end == End::Commit { held(&record) } else { None };
    let way = held.as_ref().map_or(Way::ToQueue(None), |held| Way::Held(delays, held));
    let ticket = ledger.redo(&record, &last, way).map_err(|error| StorageError::Options {
        what: format!(
            "log {}: the message of a transaction that was ended just before the last end of the process cannot be \
             stored: {error}; free space on its disk and start again",
            log.id()
        ),
    })?;
    match ticket {
        Some(ticket) => ticket.reached(log.visible_mark()).await,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
