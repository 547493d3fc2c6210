//! A journal of one log: notes in a queue of its own, and from time to time one that says all that holds.
//!
//! What a core keeps in memory about a log is told to a journal as it changes, and read from it when the log is opened.
//! Each note names the newest snapshot in front of it (`SNAPSHOT_AT`, an offset of the journal's queue), so the last one
//! tells where to begin reading. A log loses only its tail in a crash, so notes and messages that lie in front of
//! something which is there are there too.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use base::{LogOffset, QueueId, QueueOffset};
use remoting::properties::Builder;
use remoting::record::{RecordDraft, RecordView};
use remoting::text::Text;
use runtime::clock;
use storage::{AppendError, Entry, Log, QueueRef, StorageError, Ticket};

use crate::trouble::Trouble;

/// Notes after which a new snapshot is wanted: so many at most are read when the log is opened, unless too much holds
/// for a snapshot.
const SNAPSHOT_EVERY: u64 = 4096;
/// Bytes of one snapshot. While more would be needed none is written, and the next start reads more; it is tried again
/// when the journal has doubled.
const SNAPSHOT_BYTES_MAX: usize = 512 << 10;
const SNAPSHOT_AT: &str = "SNAPSHOT_AT";

/// What one record of a journal says.
pub(crate) trait Note: Sized {
    fn body(&self) -> String;
    fn properties(&self) -> Builder;
    /// Reads a record; `None` for one that says nothing that is known.
    fn of(record: &RecordView<'_>) -> Option<Self>;
    fn is_snapshot(&self) -> bool;
}

/// How far a journal is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) snapshot_at: Option<QueueOffset>,
    /// Notes behind the snapshot.
    pub(crate) since: u64,
}

pub(crate) struct Journal {
    log: Rc<Log>,
    topic: Text,
    queue: QueueId,
    /// The address that clients reach this broker at.
    host: SocketAddr,
    place: Cell<Place>,
    /// Notes behind the snapshot at which the next one is due.
    due_after: Cell<u64>,
}

impl Journal {
    /// A journal in a queue of a log. What is in it already is read by [`Journal::read`].
    pub(crate) fn new(log: Rc<Log>, topic: Text, queue: QueueId, host: SocketAddr) -> Journal {
        Journal { log, topic, queue, host, place: Cell::default(), due_after: Cell::new(SNAPSHOT_EVERY) }
    }

    pub(crate) fn queue(&self) -> QueueRef {
        self.log.queue(&self.topic, self.queue)
    }

    /// Appends a note, and records of other queues right behind it, all or none. Gives the ticket of the last.
    pub(crate) fn append(
        &self,
        note: &impl Note,
        followed: &[(&QueueRef, &RecordDraft<'_>)],
    ) -> Result<Ticket, AppendError> {
        let ticket = self.append_text(&note.body(), note.properties(), followed)?;
        let place = self.place.get();
        self.place.set(Place { since: place.since + 1, ..place });
        Ok(ticket)
    }

    /// Writes a snapshot if the journal has become long.
    pub(crate) fn snapshot_if_due<N: Note>(&self, snapshot: impl FnOnce() -> N) {
        let since = self.place.get().since;
        if since < self.due_after.get() {
            return;
        }
        if !matches!(self.append_snapshot(&snapshot(), SNAPSHOT_BYTES_MAX), Ok(true)) {
            self.due_after.set(2 * since);
        }
    }

    /// Appends a snapshot, behind which a start begins to read. False when it would take more than `bytes_max`.
    fn append_snapshot(&self, snapshot: &impl Note, bytes_max: usize) -> Result<bool, AppendError> {
        let (at, body) = (self.queue().next(), snapshot.body());
        if body.len() > bytes_max {
            return Ok(false);
        }
        self.append_text(&body, snapshot.properties(), &[])?;
        self.place.set(Place { snapshot_at: Some(at), since: 0 });
        self.due_after.set(SNAPSHOT_EVERY);
        Ok(true)
    }

    /// Lets a start read nothing that lies in front of an offset of the log: by a new snapshot, if it would. False when
    /// that would take more than `bytes_max`.
    pub(crate) async fn leave<N: Note>(
        &self,
        limit: LogOffset,
        bytes_max: usize,
        snapshot: impl FnOnce() -> N,
    ) -> Result<bool, Trouble> {
        let queue = self.queue();
        let begins = self.place.get().snapshot_at.unwrap_or_else(|| queue.min()).max(queue.min());
        let first = queue.entries(begins).await?;
        if first.first().is_none_or(|(_, entry)| entry.offset >= limit) {
            return Ok(true);
        }
        Ok(self.append_snapshot(&snapshot(), bytes_max)?)
    }

    fn append_text(
        &self,
        body: &str,
        mut properties: Builder,
        followed: &[(&QueueRef, &RecordDraft<'_>)],
    ) -> Result<Ticket, AppendError> {
        if let Some(at) = self.place.get().snapshot_at {
            properties.push(SNAPSHOT_AT, at.0 as i64);
        }
        let (now, queue) = (clock::now_ms(), self.queue());
        let draft = RecordDraft {
            properties: properties.as_str(),
            ..RecordDraft::own(&self.topic, self.queue, body.as_bytes(), self.host, now)
        };
        if followed.is_empty() {
            return self.log.append(&queue, &draft, now);
        }
        let mut records = vec![(&queue, &draft)];
        records.extend_from_slice(followed);
        Ok(self.log.append_together(&records, now)?.pop().expect("each record has a ticket"))
    }

    /// Reads the journal from its newest snapshot on.
    pub(crate) async fn read<N: Note>(&self) -> Result<Reader<'_, N>, StorageError> {
        let queue = self.queue();
        let mut reader: Reader<'_, N> = Reader { journal: self, snapshot: None, next: queue.min(), queue };
        if let Some(at) = reader.newest_snapshot().await?
            && let Some((_, Some(note))) = reader.note_at(at).await?
            && note.is_snapshot()
        {
            reader.snapshot = Some(note);
            reader.next = at.plus(1);
        }
        let snapshot_at = reader.snapshot.is_some().then(|| QueueOffset(reader.next.0 - 1));
        self.place.set(Place { snapshot_at, since: reader.queue.max().0 - reader.next.0 });
        Ok(reader)
    }

    #[cfg(test)]
    pub(crate) fn place(&self) -> Place {
        self.place.get()
    }
}

/// A journal as it is read when its log is opened: the snapshot first, then the notes behind it.
pub(crate) struct Reader<'a, N> {
    journal: &'a Journal,
    queue: QueueRef,
    pub(crate) snapshot: Option<N>,
    next: QueueOffset,
}

/// A note at its place. One that went bad on disk says nothing.
pub(crate) struct Noted<N> {
    pub(crate) at: QueueOffset,
    pub(crate) entry: Entry,
    pub(crate) note: Option<N>,
}

impl<N: Note> Reader<'_, N> {
    /// The next note; `None` behind the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Noted<N>>, StorageError> {
        while self.next < self.queue.max() {
            let at = self.next;
            self.next = at.plus(1);
            runtime::yield_if_needed().await;
            if let Some((entry, note)) = self.note_at(at).await? {
                return Ok(Some(Noted { at, entry, note }));
            }
        }
        Ok(None)
    }

    /// Where the newest snapshot lies, if the last note can be read and names one.
    async fn newest_snapshot(&self) -> Result<Option<QueueOffset>, StorageError> {
        let Some(last) = self.queue.max().0.checked_sub(1).map(QueueOffset) else { return Ok(None) };
        let Some(entry) = self.queue.entry(last).await? else { return Ok(None) };
        let Some(bytes) = self.journal.log.record_at(entry.offset).await? else { return Ok(None) };
        let Ok(record) = RecordView::decode(&bytes) else { return Ok(None) };
        if N::of(&record).is_some_and(|note| note.is_snapshot()) {
            return Ok(Some(last));
        }
        Ok(record.property(SNAPSHOT_AT).and_then(|text| text.parse().ok()).map(QueueOffset))
    }

    /// `None` where the queue has a gap.
    async fn note_at(&self, at: QueueOffset) -> Result<Option<(Entry, Option<N>)>, StorageError> {
        let Some(entry) = self.queue.entry(at).await? else { return Ok(None) };
        let bytes = self.journal.log.record_at(entry.offset).await?;
        let note = bytes.as_deref().and_then(|bytes| RecordView::decode(bytes).ok()).and_then(|record| N::of(&record));
        Ok(Some((entry, note)))
    }
}

/// A note as it is read back from its record.
#[cfg(test)]
pub(crate) fn read_back<N: Note>(body: &str, properties: &str) -> Option<N> {
    use base::{Millis, PhysicalOffset};
    use remoting::record::{self, Placement};

    let host = "127.0.0.1:1".parse().expect("an address");
    let draft = RecordDraft { properties, ..RecordDraft::own("J", QueueId(0), body.as_bytes(), host, Millis(0)) };
    let mut bytes = vec![0; record::record_bytes(&draft)];
    let placement =
        Placement { queue_offset: QueueOffset(0), physical_offset: PhysicalOffset(0), store_timestamp_ms: 0 };
    record::encode(&draft, placement, &mut bytes);
    N::of(&RecordView::decode(&bytes).expect("a record"))
}
