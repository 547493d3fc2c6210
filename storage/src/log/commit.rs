//! Group commit: one write, and one flush where the policy asks for it, answers every waiter below its end.
//!
//! One task writes. While its write is in flight appends gather behind it, and the next write takes all of them; no
//! timer delays the first. A core that has more to do does it first, for a while: what it appends goes with the write. The
//! last, partly filled block is written again by the next write: what was acknowledged in it is the same bytes, so a torn
//! sector cannot lose it. The first write or flush that fails ends the log.

use std::rc::Rc;
use std::time::Duration;

use base::LogOffset;
use runtime::clock::Stamp;
use runtime::ring::Flush;

use super::Log;
use super::append::block_start;
use super::tail_cache::SLAB_BYTES;
use crate::error::StorageError;
use crate::options::FlushPolicy;

/// The durable mark goes to disk so often while it moves.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

/// With a tail file, so little waits for so long for more to come.
const GATHER_BYTES: u64 = 256 << 10;
const GATHER_TIME: Duration = Duration::from_millis(20);

/// A core that has more to do may do it for so long before a write that others wait for. One write more costs some 20 µs of
/// CPU, of us and of the kernel.
const SETTLE_TIME: Duration = Duration::from_micros(300);

/// When a write began, when the device had taken it, and when it was durable, as far as these can be told apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteTimes {
    pub began: Stamp,
    pub taken: Option<Stamp>,
    pub durable: Option<Stamp>,
}

/// Bytes of one segment that are to be written next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// At the beginning of a block; what lies between it and the written mark is written again.
    pub(super) start: u64,
    pub(super) limit: u64,
}

/// What to write next: from the last partly written block to the end of what was appended to its segment, at most
/// `bytes_max`, and never into blocks that are not prepared. `None`: the frontier has to move first.
pub(super) fn next_chunk(written: u64, filled: u64, prepared: u64, bytes_max: u64) -> Option<Chunk> {
    let start = block_start(written);
    let limit = filled.min(start + bytes_max).min(prepared);
    (limit > written).then_some(Chunk { start, limit })
}

impl Log {
    /// The task that writes.
    pub(super) async fn write_on(self: &Rc<Log>) {
        loop {
            while self.marks.appended() == self.marks.written() {
                if self.ended.get() || self.marks.has_failed() {
                    return;
                }
                self.appended_more.notified().await;
            }
            if self.ended.get() {
                return;
            }
            let is_large = || self.marks.appended() - self.marks.written() >= GATHER_BYTES;
            if self.tail_file.borrow().is_none() {
                runtime::settle(SETTLE_TIME, is_large).await;
            } else if !is_large() {
                // Nobody waits for this write, and a larger one costs the same.
                runtime::clock::within(GATHER_TIME, self.flush_wanted.notified()).await;
            }
            if let Err(error) = self.write_once().await {
                self.fail(error);
                return;
            }
            if self.ended.get() {
                return;
            }
        }
    }

    async fn write_once(&self) -> Result<(), StorageError> {
        let written = self.marks.written();
        let roll = self.rolls.borrow().front().copied();
        let filled = roll.map_or(self.marks.appended(), |roll| roll.filled);
        let Some(chunk) = next_chunk(written, filled, self.frontier(), SLAB_BYTES as u64) else {
            self.counts.borrow_mut().roll_waits += 1;
            self.prepare_wanted.notify();
            self.frontier_moved.notified().await;
            return Ok(());
        };
        let segment = self.segments.borrow().containing(chunk.start).expect("what is prepared has a segment");
        let parts = self.tail.borrow().slices(chunk.start, chunk.limit);
        let (flush, is_sync) = match self.options.flush {
            FlushPolicy::Sync => (Flush::Data(self.options.flush_kind), true),
            FlushPolicy::Async => (Flush::None, false),
        };
        let in_file = chunk.start - segment.start;
        let began = Stamp::now();
        let outcome = self.ring.write(&segment.direct, in_file, parts, flush).await;
        let outcome = outcome.map_err(|error| StorageError::io_at("write", &segment.path, in_file, error))?;
        self.write_times.set(WriteTimes { began, taken: outcome.taken, durable: outcome.durable });
        let mut end = chunk.limit;
        if let Some(roll) = roll
            && end == roll.filled
        {
            self.rolls.borrow_mut().pop_front();
            end = roll.next;
        }
        self.marks.advance_written(end);
        self.advance_written_boundary(end);
        if is_sync {
            self.marks.advance_durable(end);
        }
        {
            let mut counts = self.counts.borrow_mut();
            counts.writes += 1;
            counts.written_bytes += chunk.limit - chunk.start;
            counts.flushes += u64::from(is_sync);
            counts.padding_bytes += outcome.padding_bytes;
            counts.kernel_fallbacks += u64::from(outcome.fell_back);
            counts.call_writes += u64::from(outcome.is_call);
        }
        self.tail.borrow_mut().trim(block_start(end));
        self.marks_advanced();
        if is_sync {
            self.durable_boundary.set(self.dispatched.get());
        }
        self.written_more.notify();
        if self.wants_preparation() {
            self.prepare_wanted.notify();
        }
        Ok(())
    }

    fn advance_written_boundary(&self, written: u64) {
        let mut ends = self.unwritten_ends.borrow_mut();
        while let Some(end) = ends.pop_front_if(|end| *end <= written) {
            self.written_boundary.set(end);
        }
    }

    /// The task that flushes by time, and brings the durable mark to disk.
    pub(super) async fn keep_marks(self: &Rc<Log>) {
        let interval = Duration::from_millis(self.options.flush_interval_ms.max(1)).min(CHECKPOINT_EVERY);
        let mut saved_at = runtime::clock::instant();
        while !self.ended.get() && !self.marks.has_failed() {
            if !self.flush_due.take() {
                runtime::clock::within(until_next(interval), self.flush_wanted.notified()).await;
                self.flush_due.set(false);
            }
            let outcome = async {
                self.flush_written().await?;
                if saved_at.elapsed() >= CHECKPOINT_EVERY
                    && self.checkpoint.borrow().durable < self.durable_boundary.get()
                {
                    saved_at = runtime::clock::instant();
                    self.note_checkpoint(|checkpoint| checkpoint.durable = self.durable_boundary.get()).await?;
                }
                Ok(())
            };
            if let Err(error) = outcome.await {
                self.fail(error);
            }
        }
    }

    /// Asks for a flush now.
    pub(super) fn flush_soon(&self) {
        self.flush_due.set(true);
        self.flush_wanted.notify();
    }

    /// Makes everything durable that is written by now.
    async fn flush_written(&self) -> Result<(), StorageError> {
        let (written, boundary) = (self.marks.written(), self.written_boundary.get());
        while self.marks.durable() < written {
            let durable = self.marks.durable();
            let Some(segment) = self.segments.borrow().containing(durable) else {
                unreachable!("the durable mark {} lies in no segment", LogOffset(durable));
            };
            let outcome = self.ring.flush(&segment.direct).await;
            outcome.map_err(|error| StorageError::io("flush", &segment.path, error))?;
            self.marks.advance_durable(written.min(segment.limit));
            self.counts.borrow_mut().flushes += 1;
            self.marks_advanced();
        }
        if self.options.flush == FlushPolicy::Async {
            self.durable_boundary.set(boundary);
        }
        Ok(())
    }
}

/// The time to the next whole interval of the clock. So the logs of a device, which stands still for each flush, flush
/// together.
fn until_next(interval: Duration) -> Duration {
    let interval_ms = (interval.as_millis() as u64).max(1);
    Duration::from_millis(interval_ms - runtime::clock::now_ms().0 % interval_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_stay_within_what_may_be_written() {
        // written, filled, prepared, bytes_max, expected
        let cases = [
            (0, 100, 8192, 8192, Some((0, 100))),
            (100, 5000, 8192, 8192, Some((0, 5000))),
            (5000, 5001, 8192, 8192, Some((4096, 5001))),
            (5000, 50_000, 8192, 1 << 20, Some((4096, 8192))),
            (8192, 50_000, 8192, 1 << 20, None),
            (5000, 50_000, 1 << 20, 8192, Some((4096, 12_288))),
            (12_288, 50_000, 1 << 20, 8192, Some((12_288, 20_480))),
        ];
        for (written, filled, prepared, bytes_max, expected) in cases {
            let chunk = next_chunk(written, filled, prepared, bytes_max);
            assert_eq!(chunk.map(|chunk| (chunk.start, chunk.limit)), expected, "{written} {filled} {prepared}");
        }
    }
}
