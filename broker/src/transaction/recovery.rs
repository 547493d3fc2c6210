//! What is pending when a log is opened: read from its half queue and its journal, and from nothing else.
//!
//! The last record of the journal names the newest snapshot. From there on halves and notes are followed in the order of
//! the log, so no more is held in memory than was pending at any time.

use std::rc::Rc;

use base::{LogOffset, QueueOffset};
use remoting::name::{HALF_TOPIC, OP_HALF_TOPIC};
use remoting::record::RecordView;
use storage::{Entry, Log, QueueRef, StorageError};

use super::journal::{self, End, Note};
use super::ledger::{JournalPlace, Ledger};
use super::pending::{Half, Pending};

/// An end that the journal's last record tells.
struct LastEnd {
    half: QueueOffset,
    end: End,
    checks: u32,
    /// Behind the journal's record.
    limit: LogOffset,
}

/// Follows a log's transactions from the newest snapshot to its end.
struct Follower<'a> {
    log: &'a Log,
    halves: QueueRef,
    immune_ms: u64,
    pending: Pending,
    /// The half message to be met next.
    next_half: QueueOffset,
    last_end: Option<LastEnd>,
}

/// Fills the ledger of a log that was just opened and in which nothing was appended yet, and completes an end whose
/// message the last crash has taken away.
///
/// # Errors
/// When the log cannot be read or takes no record. The broker must not go on then: a committed message would be lost.
pub(super) async fn recover(ledger: &Ledger, immune_ms: u64) -> Result<(), StorageError> {
    let log: &Rc<Log> = &ledger.log;
    let halves = log.queue(HALF_TOPIC, ledger.own_queue(HALF_TOPIC));
    let journal = log.queue(OP_HALF_TOPIC, ledger.own_queue(OP_HALF_TOPIC));
    let next_half = halves.min();
    let mut follower = Follower { log, halves, immune_ms, pending: Pending::default(), next_half, last_end: None };
    let (snapshot_at, start) = match newest_snapshot(log, &journal).await? {
        Some(at) if follower.begin(&journal, at).await? => (Some(at), at.plus(1)),
        _ => (None, journal.min()),
    };
    for at in start.0..journal.max().0 {
        if let Some(entry) = journal.entry(QueueOffset(at)).await? {
            follower.meet_halves(Some(entry.offset)).await?;
            follower.note(&entry).await?;
        }
        runtime::yield_if_needed().await;
    }
    follower.meet_halves(None).await?;
    let Follower { pending, last_end, .. } = follower;
    ledger.load(pending, JournalPlace { snapshot_at, since: journal.max().0 - start.0 });
    match last_end {
        Some(last) if last.limit == log.visible_end() => complete(ledger, &last).await,
        _ => Ok(()),
    }
}

/// Where the newest snapshot lies, if the journal's last record can be read and names one.
async fn newest_snapshot(log: &Log, journal: &QueueRef) -> Result<Option<QueueOffset>, StorageError> {
    let Some(last) = journal.max().0.checked_sub(1).map(QueueOffset) else { return Ok(None) };
    let Some(entry) = journal.entry(last).await? else { return Ok(None) };
    let Some(bytes) = log.record_at(entry.offset).await? else { return Ok(None) };
    let Ok(record) = RecordView::decode(&bytes) else { return Ok(None) };
    Ok(match Note::of(&record) {
        Some(Note::Snapshot { .. }) => Some(last),
        _ => journal::snapshot_at(&record),
    })
}

impl Follower<'_> {
    /// Begins with a snapshot; false when it cannot be read.
    async fn begin(&mut self, journal: &QueueRef, at: QueueOffset) -> Result<bool, StorageError> {
        let Some(entry) = journal.entry(at).await? else { return Ok(false) };
        let Some(bytes) = self.log.record_at(entry.offset).await? else { return Ok(false) };
        let Ok(record) = RecordView::decode(&bytes) else { return Ok(false) };
        let Some(Note::Snapshot { halves, halves_from }) = Note::of(&record) else { return Ok(false) };
        for (at, checks) in halves {
            if let Some(entry) = self.halves.entry(at).await? {
                self.meet(at, &entry);
                self.pending.set_checks(at, checks);
            }
        }
        self.next_half = halves_from.max(self.halves.min());
        Ok(true)
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

    async fn note(&mut self, entry: &Entry) -> Result<(), StorageError> {
        self.last_end = None;
        // A note that went bad on disk is passed over: its half message is asked about once more.
        let Some(bytes) = self.log.record_at(entry.offset).await? else { return Ok(()) };
        let note = RecordView::decode(&bytes).ok().and_then(|record| Note::of(&record));
        match note {
            Some(Note::Ended { half, end }) => {
                let checks = self.pending.checks_of(half);
                self.pending.remove(half);
                self.last_end = Some(LastEnd { half, end, checks, limit: entry.limit() });
            }
            Some(Note::Checked { halves }) => halves.into_iter().for_each(|half| self.pending.count_check(half)),
            Some(Note::Snapshot { .. }) | None => {}
        }
        Ok(())
    }
}

/// The journal's record is the last of the log: the message that it announces is missing.
async fn complete(ledger: &Ledger, last: &LastEnd) -> Result<(), StorageError> {
    if last.end == End::Rollback {
        return Ok(());
    }
    let log = &ledger.log;
    let halves = log.queue(HALF_TOPIC, ledger.own_queue(HALF_TOPIC));
    let bytes = match halves.entry(last.half).await? {
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
    let ticket = ledger.redo(&record, last.end, last.checks).map_err(|error| StorageError::Options {
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
