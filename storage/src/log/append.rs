//! Accepting records: both offsets are given and the bytes encoded in place, in one step that never suspends.

use std::rc::Rc;

use base::{LogOffset, Millis, PhysicalOffset, QueueOffset};
use remoting::record::{self, BLANK_BYTES, Placement, RecordDraft};
use runtime::buffer::BLOCK_BYTES;
use runtime::clock::Stamp;

use super::commit::WriteTimes;
use super::dispatch::Pending;
use super::turn::TurnHeld;
use super::{Log, Mark, Roll};
use crate::error::{AppendError, BusyCause, IoContext, StorageError};
use crate::options::FlushPolicy;
use crate::queue::{Entry, Indexed, QueueRef};
use crate::scan::RECORD_BYTES_MAX;

/// An accepted record: where it lies, and the means to wait until it is safe.
#[derive(Clone)]
pub struct Ticket {
    pub queue_offset: QueueOffset,
    pub physical_offset: PhysicalOffset,
    pub store_timestamp_ms: u64,
    /// Behind the record.
    pub end: LogOffset,
    /// When it was accepted.
    pub accepted: Stamp,
    log: Rc<Log>,
}

impl Ticket {
    /// Waits until the record has reached a mark. By then it is visible, if the mark is that of the log's policy.
    ///
    /// # Errors
    /// When the log has failed: the record may or may not be found after a restart.
    pub async fn reached(&self, mark: Mark) -> Result<(), StorageError> {
        self.log.want(mark);
        self.log.marks.reached(self.end.0, mark).await
    }

    /// The policy of the record's log.
    pub fn flush_policy(&self) -> FlushPolicy {
        self.log.flush_policy()
    }

    /// As [`Ticket::reached`] without a task: the call is made in the step in which the mark moves, before anything
    /// else runs, so it must be quick and not append. It is given the times of the write that moved the mark.
    pub fn when_reached(self, mark: Mark, call: impl FnOnce(Result<WriteTimes, StorageError>) + 'static) {
        self.log.want(mark);
        let log = self.log.clone();
        self.log.marks.when_reached(self.end.0, mark, move |outcome| call(outcome.map(|()| log.write_times.get())));
    }

    /// The times of the last write of the record's log: that of the record itself, for who was told just now that it is
    /// written.
    pub fn write_times(&self) -> WriteTimes {
        self.log.write_times.get()
    }
}

impl Log {
    /// Under asynchronous flushes a durable record is a thing to ask for.
    fn want(&self, mark: Mark) {
        if mark == Mark::Durable && self.options.flush == FlushPolicy::Async {
            self.flush_soon();
        }
    }

    /// Appends one record to a queue. `draft` names the same topic and queue.
    pub fn append(
        self: &Rc<Log>,
        queue: &QueueRef,
        draft: &RecordDraft<'_>,
        now: Millis,
    ) -> Result<Ticket, AppendError> {
        self.append_indexed(queue, draft, &Indexed::of(draft.properties), now)
    }

    /// As [`Log::append`] for who knows what the properties say.
    pub fn append_indexed(
        self: &Rc<Log>,
        queue: &QueueRef,
        draft: &RecordDraft<'_>,
        indexed: &Indexed<'_>,
        now: Millis,
    ) -> Result<Ticket, AppendError> {
        debug_assert_eq!(*indexed, Indexed::of(draft.properties), "what {:?} says", draft.properties);
        let bytes = record::record_bytes(draft);
        self.make_place(bytes as u64)?;
        let ticket = self.put(&self.alive(queue), draft, indexed, bytes, now);
        self.was_appended();
        Ok(Ticket { accepted: Stamp::now(), ..ticket })
    }

    /// Appends records that follow each other in one queue and one segment: all of them or none. With each is given what its
    /// properties say.
    pub fn append_batch(
        self: &Rc<Log>,
        queue: &QueueRef,
        records: &[(RecordDraft<'_>, Indexed<'_>)],
        now: Millis,
    ) -> Result<Vec<Ticket>, AppendError> {
        self.append_all(records.iter().map(|(draft, indexed)| (queue, draft, *indexed)), now)
    }

    /// Appends records of any queues, as neighbours in one segment: all of them or none. A crash may keep the first of
    /// them alone, never a later one without those before it.
    pub fn append_together(
        self: &Rc<Log>,
        records: &[(&QueueRef, &RecordDraft<'_>)],
        now: Millis,
    ) -> Result<Vec<Ticket>, AppendError> {
        self.append_all(records.iter().map(|(queue, draft)| (*queue, *draft, Indexed::of(draft.properties))), now)
    }

    fn append_all<'a>(
        self: &Rc<Log>,
        records: impl ExactSizeIterator<Item = (&'a QueueRef, &'a RecordDraft<'a>, Indexed<'a>)> + Clone,
        now: Millis,
    ) -> Result<Vec<Ticket>, AppendError> {
        assert!(records.len() > 0, "a batch of no records");
        self.make_place(records.clone().map(|(_, draft, _)| record::record_bytes(draft) as u64).sum())?;
        let put = |(queue, draft, indexed): (&QueueRef, &RecordDraft<'_>, Indexed<'_>)| {
            debug_assert_eq!(indexed, Indexed::of(draft.properties), "what {:?} says", draft.properties);
            self.put(&self.alive(queue), draft, &indexed, record::record_bytes(draft), now)
        };
        let mut tickets: Vec<Ticket> = records.map(put).collect();
        self.was_appended();
        let accepted = Stamp::now();
        tickets.iter_mut().for_each(|ticket| ticket.accepted = accepted);
        Ok(tickets)
    }

    fn was_appended(&self) {
        self.appended_more.notify();
        self.ask_for_memory();
        if self.tail_file.borrow().is_some() {
            self.marks_advanced();
        }
    }

    /// Copies what is appended at `start` to the tail file, if all in front of it is safe and it fits beside the records
    /// that are not wholly written yet. Whether it did.
    fn keep(&self, start: u64, content: &[u8]) -> bool {
        match &mut *self.tail_file.borrow_mut() {
            Some(tail_file)
                if self.marks.safe() == start
                    && start + content.len() as u64 - self.written_boundary.get() <= tail_file.bytes() =>
            {
                tail_file.put(start, content);
                true
            }
            _ => false,
        }
    }

    /// Waits until a refused append may be tried again: until half of what may wait is free, and at least for one more
    /// write. A record that needs more than that half would be refused again at once, and its sender, which tries
    /// again, would leave the core no time to write.
    pub async fn room(&self) {
        let (limit, written) = (self.options.unwritten_bytes_max / 2, self.marks.written());
        while !self.marks.has_failed() {
            let unwritten = self.marks.appended() - self.marks.written();
            if unwritten > limit || (unwritten > 0 && self.marks.written() == written) {
                self.written_more.notified().await;
            } else if self.waits_for_segment() {
                self.space_changed.notified().await;
            } else {
                return;
            }
        }
    }

    /// Whether somebody waits for room with the turn to append. Who appends now goes before him.
    pub fn is_waited_for(&self) -> bool {
        self.append_turn.is_taken()
    }

    /// The turn to append for one who has to wait for room: others get it in the order in which they ask.
    pub async fn turn_to_append(&self) -> TurnHeld<'_> {
        self.append_turn.take().await
    }

    /// Bytes that may wait for their write. A record that does not fit beside those that wait is refused as busy.
    pub fn unwritten_bytes_max(&self) -> u64 {
        self.options.unwritten_bytes_max
    }

    /// A queue whose topic was deleted begins anew under its name.
    fn alive(&self, queue: &QueueRef) -> QueueRef {
        if queue.is_deleted() { self.queue(queue.topic(), queue.id()) } else { queue.clone() }
    }

    /// Checks everything that can refuse, and goes to the next segment if this one has no room. Afterwards the records
    /// can be put without fail.
    fn make_place(&self, bytes: u64) -> Result<(), AppendError> {
        if let Some(error) = self.marks.failure() {
            return Err(AppendError::Failed(error));
        }
        if self.stopping.get() {
            return Err(AppendError::Stopped);
        }
        let segment_bytes = self.options.segment_bytes;
        if bytes + BLANK_BYTES as u64 > segment_bytes || bytes > RECORD_BYTES_MAX {
            let segment_bytes = segment_bytes.min(RECORD_BYTES_MAX);
            return Err(AppendError::TooLarge { record_bytes: bytes, segment_bytes });
        }
        let appended = self.marks.appended();
        let unwritten_bytes = appended - self.marks.written();
        let limit_bytes = self.options.unwritten_bytes_max;
        if unwritten_bytes > 0 && unwritten_bytes + bytes > limit_bytes {
            return Err(AppendError::Busy(BusyCause::Writes { unwritten_bytes, limit_bytes }));
        }
        let rolls = bytes + BLANK_BYTES as u64 > self.segment_limit.get() - appended;
        let start = if rolls { self.segment_limit.get() } else { appended };
        if start + bytes > self.space_limit.get() {
            return Err(self.lack_of_space());
        }
        let mut tail = self.tail.borrow_mut();
        let reserved =
            if rolls { tail.reserve_rolled(BLANK_BYTES, bytes as usize) } else { tail.reserve(bytes as usize) };
        reserved.context("get memory for", &self.folders.log).map_err(AppendError::Failed)?;
        drop(tail);
        if rolls {
            self.roll();
        }
        Ok(())
    }

    /// Fills this segment up and goes on in the next.
    fn roll(&self) {
        let (start, limit) = (self.marks.appended(), self.segment_limit.get());
        let blank = record::blank((limit - start) as u32);
        let mut tail = self.tail.borrow_mut();
        assert!(tail.end() == start, "the tail ends at {}, the log at {start}", tail.end());
        tail.push(BLANK_BYTES, |target| target.copy_from_slice(&blank));
        tail.roll(limit);
        self.rolls.borrow_mut().push_back(Roll { filled: start + BLANK_BYTES as u64, next: limit });
        let is_kept = self.keep(start, &blank);
        self.marks.advance_appended(limit);
        if is_kept {
            self.marks.advance_safe(limit);
        }
        self.segment_limit.set(limit + self.options.segment_bytes);
    }

    fn put(
        self: &Rc<Log>,
        queue: &QueueRef,
        draft: &RecordDraft<'_>,
        indexed: &Indexed<'_>,
        bytes: usize,
        now: Millis,
    ) -> Ticket {
        assert!(
            draft.topic == queue.topic() && draft.queue_id == queue.id(),
            "a record of {} {} for the queue {} {}",
            draft.topic,
            draft.queue_id,
            queue.topic(),
            queue.id()
        );
        queue.prefetch_newest();
        let offset = LogOffset(self.marks.appended());
        let store_timestamp_ms = now.0.max(self.store_ms_last.get());
        let placement = Placement {
            queue_offset: queue.next(),
            physical_offset: PhysicalOffset::new(self.id, offset),
            store_timestamp_ms: store_timestamp_ms as i64,
        };
        let mut is_kept = false;
        self.tail.borrow_mut().push(bytes, |target| {
            record::encode(draft, placement, target);
            is_kept = self.keep(offset.0, target);
        });
        self.store_ms_last.set(store_timestamp_ms);
        let end = offset.0 + bytes as u64;
        self.marks.advance_appended(end);
        if is_kept {
            self.marks.advance_safe(end);
        }
        if self.options.flush == FlushPolicy::Async {
            self.unwritten_ends.borrow_mut().push_back(end);
        }
        queue.advance_next(1);
        let mut key_count = 0;
        {
            let mut keys = self.pending_keys.borrow_mut();
            let mut counts = self.counts.borrow_mut();
            counts.appended_records += 1;
            counts.appended_bytes += bytes as u64;
            indexed.key_hashes(queue.key_hash(), |hash| {
                keys.push_back(hash);
                key_count += 1;
            });
        }
        self.pending.borrow_mut().push_back(Pending {
            queue: queue.clone(),
            queue_offset: placement.queue_offset.0,
            entry: Entry {
                offset,
                bytes: bytes as u32,
                tags_code: indexed.tags_code(draft.topic, draft.sys_flag),
                store_timestamp_ms,
            },
            key_count,
        });
        Ticket {
            queue_offset: placement.queue_offset,
            physical_offset: placement.physical_offset,
            store_timestamp_ms,
            end: offset.plus(bytes as u64),
            accepted: Stamp::default(),
            log: self.clone(),
        }
    }
}

/// The beginning of the block that holds an offset.
pub(super) fn block_start(offset: u64) -> u64 {
    offset / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
}
