//! Finding records by their place and by their keys.

use base::{LogOffset, PhysicalOffset};
use remoting::record::{self, FIXED_BYTES, MAGIC_V1, MAGIC_V2};

use super::Log;
use crate::error::StorageError;
use crate::queue::KeyEntry;
use crate::scan::RECORD_BYTES_MAX;

impl Log {
    /// The verified bytes of the visible record that starts at an offset; `None` if none starts there.
    pub async fn record_at(&self, offset: LogOffset) -> Result<Option<Vec<u8>>, StorageError> {
        let visible = self.dispatched.get();
        if offset < self.min_offset() || offset.0 + FIXED_BYTES as u64 > visible {
            return Ok(None);
        }
        let segment_limit = (offset.0 / self.options.segment_bytes + 1) * self.options.segment_bytes;
        let limit = segment_limit.min(visible);
        if offset.0 + FIXED_BYTES as u64 > limit || !self.is_readable(offset, FIXED_BYTES as u64) {
            return Ok(None);
        }
        let head = self.copy(offset, FIXED_BYTES as u64).await?;
        let u32_at = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let (total, magic) = (u64::from(u32_at(record::TOTAL_BYTES_AT)), u32_at(record::MAGIC_AT));
        let plausible = (magic == MAGIC_V1 || magic == MAGIC_V2)
            && total >= FIXED_BYTES as u64
            && total <= RECORD_BYTES_MAX.min(limit - offset.0);
        if !plausible || !self.is_readable(offset, total) {
            return Ok(None);
        }
        let bytes = self.copy(offset, total).await?;
        let valid = record::verify(&bytes, PhysicalOffset::new(self.id, offset)).is_ok();
        Ok(valid.then_some(bytes))
    }

    /// Whether a range is there, and not in the part behind the filler of a segment.
    fn is_readable(&self, offset: LogOffset, bytes: u64) -> bool {
        let (start, limit) = (offset.0, offset.0 + bytes);
        let tail = self.tail.borrow();
        if start >= tail.oldest() {
            return tail.covers(start, limit);
        }
        let segment = self.segments.borrow().containing(start);
        segment.is_some_and(|segment| limit <= segment.limit)
            && (limit <= tail.oldest() || tail.covers(tail.oldest(), limit))
    }

    /// Where records with a key of this hash (see [`crate::key_hash`]) lie that were stored between two times, both
    /// included, newest first, from the newest in front of `before` on. Whether one has the key itself is for the caller
    /// to see.
    pub async fn find_keys(
        &self,
        hash: u64,
        (from_ms, to_ms): (u64, u64),
        before: LogOffset,
        count_max: usize,
    ) -> Result<Vec<LogOffset>, StorageError> {
        let min = self.min_offset().0;
        let mut found = Vec::new();
        let mut take = |keys: Vec<KeyEntry>| {
            let wanted = keys.iter().rev().filter(|key| {
                (from_ms..=to_ms).contains(&key.store_timestamp_ms)
                    && (min..before.0).contains(&key.offset)
                    && !self.extents.is_bad(key.offset)
            });
            found.extend(wanted.take(count_max - found.len()).map(|key| LogOffset(key.offset)));
            found.len() < count_max
        };
        // An extent that comes while this suspends was searched as the active part already.
        let mut behind = self.extents_end.get();
        let active = self.index.borrow().find(hash);
        if !take(active) {
            return Ok(found);
        }
        while let Some(extent) = self.extents.newest_before(behind) {
            behind = extent.start;
            if extent.start >= before.0 || extent.store_ms_first() > to_ms || extent.store_ms_last() < from_ms {
                continue;
            }
            if !take(self.extents.find_keys(&extent, hash).await?) {
                break;
            }
        }
        Ok(found)
    }
}
