//! Which message of a queue was stored at a time.

use base::QueueOffset;

use super::Queue;
use crate::error::StorageError;

/// Which of the messages around a time is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The first that was stored at that time or later; behind the last message if there is none.
    Lower,
    /// The last that was stored at that time or before; the first message if there is none.
    Upper,
}

impl Queue {
    /// The offset of a message by store time, within `min..=max`. Store times never go back along a queue.
    pub async fn offset_by_time(&self, time_ms: u64, bound: Bound) -> Result<QueueOffset, StorageError> {
        let (min, max) = (self.min(), self.max());
        match bound {
            Bound::Lower => self.first_with(min, max, |ms| ms >= time_ms).await,
            Bound::Upper => {
                let behind = self.first_with(min, max, |ms| ms > time_ms).await?;
                self.last_before(min, behind).await
            }
        }
    }

    /// The first message of `min..max` whose store time satisfies a condition that, once true, stays true.
    async fn first_with(
        &self,
        min: QueueOffset,
        max: QueueOffset,
        holds: impl Fn(u64) -> bool,
    ) -> Result<QueueOffset, StorageError> {
        let (mut low, mut high) = (min.0, max.0);
        let mut found = max;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry_from(QueueOffset(middle)).await? {
                Some((at, entry)) if at < max && !holds(entry.store_timestamp_ms) => low = at.0 + 1,
                Some((at, _)) if at < max => {
                    found = at;
                    high = middle;
                }
                _ => high = middle,
            }
        }
        Ok(found)
    }

    /// The last message in front of `behind`; `min` if there is none.
    async fn last_before(&self, min: QueueOffset, behind: QueueOffset) -> Result<QueueOffset, StorageError> {
        let mut at = behind.0;
        // Only where records were lost is the message in front not the next lower number.
        let mut step = 1;
        while at > min.0 {
            let probe = at.saturating_sub(step).max(min.0);
            if let Some((found, _)) = self.entry_from(QueueOffset(probe)).await?
                && found < behind
            {
                return if step == 1 { Ok(found) } else { self.last_in(found, behind).await };
            }
            at = probe;
            step *= 2;
        }
        Ok(min)
    }

    /// The last message of `low..behind`, of which `low` is one.
    async fn last_in(&self, low: QueueOffset, behind: QueueOffset) -> Result<QueueOffset, StorageError> {
        let (mut low, mut high) = (low.0, behind.0);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.entry_from(QueueOffset(middle)).await? {
                Some((at, _)) if at < behind => low = at.0,
                _ => high = middle,
            }
        }
        Ok(QueueOffset(low))
    }
}
