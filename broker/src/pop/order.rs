//! One queue popped in order by one group: its last batch, and what of it is acknowledged. Pure.
//!
//! While a message of the batch is open and its time is not over, the queue gives nothing to anybody, but to a pop that
//! names the attempt of the last one: that one's answer was lost. Acknowledgements move the queue on without gaps.

use std::collections::BTreeMap;

use base::{QueueOffset, stable_hash};
use remoting::text::Text;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ordered {
    pub(super) pop_time_ms: u64,
    /// A hash of its name.
    pub(super) attempt: Option<u64>,
    /// Messages of the last batch that are not acknowledged.
    pub(super) open: BTreeMap<QueueOffset, Open>,
}

/// A message in somebody's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    /// When it may be seen again.
    pub(super) until_ms: u64,
    /// How often it came before.
    pub(super) times: u32,
}

impl Ordered {
    /// Until when the queue gives nothing; `None` when it may be popped now.
    pub(super) fn blocked_until(&self, now_ms: u64, attempt: Option<&Text>) -> Option<u64> {
        if attempt.is_some() && attempt.map(|name| stable_hash(name)) == self.attempt {
            return None;
        }
        self.open.values().map(|open| open.until_ms).max().filter(|until_ms| *until_ms > now_ms)
    }

    /// A batch is given out. Returns how often each of its messages came before, of those that did.
    pub(super) fn popped(
        &mut self,
        offsets: &[QueueOffset],
        times: (u64, u64),
        attempt: Option<&Text>,
    ) -> Vec<(QueueOffset, u32)> {
        let (pop_time_ms, invisible_ms) = times;
        let until_ms = pop_time_ms.saturating_add(invisible_ms);
        let opened = |offset: &QueueOffset| {
            let times = self.open.get(offset).map_or(0, |before| before.times + 1);
            (*offset, Open { until_ms, times })
        };
        let open: BTreeMap<_, _> = offsets.iter().map(opened).collect();
        let again = open.iter().filter(|(_, open)| open.times > 0);
        let counts = again.map(|(offset, open)| (*offset, open.times)).collect();
        *self = Ordered { pop_time_ms, attempt: attempt.map(|name| stable_hash(name)), open };
        counts
    }

    /// A message of the batch of that time is acknowledged; false when there is no such one.
    pub(super) fn acknowledge(&mut self, offset: QueueOffset, pop_time_ms: u64) -> bool {
        self.pop_time_ms == pop_time_ms && self.open.remove(&offset).is_some()
    }

    /// A message of the batch of that time is to be seen again at another time; false when there is no such one.
    pub(super) fn change(&mut self, offset: QueueOffset, pop_time_ms: u64, until_ms: u64) -> bool {
        let is_batch = self.pop_time_ms == pop_time_ms;
        match self.open.get_mut(&offset).filter(|_| is_batch) {
            Some(until) => {
                until.until_ms = until_ms;
                true
            }
            None => false,
        }
    }

    /// The first message that is not acknowledged.
    pub(super) fn first_open(&self) -> Option<QueueOffset> {
        self.open.keys().next().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(numbers: &[u64]) -> Vec<QueueOffset> {
        numbers.iter().map(|number| QueueOffset(*number)).collect()
    }

    #[test]
    fn a_queue_is_blocked_until_all_is_acknowledged_or_its_time_is_over() {
        let mut ordered = Ordered::default();
        assert_eq!(ordered.blocked_until(0, None), None);
        let (one, other) = (Text::from("one"), Text::from("other"));
        assert!(ordered.popped(&offsets(&[5, 6]), (1_000, 100), Some(&one)).is_empty());
        assert_eq!(ordered.blocked_until(1_099, None), Some(1_100));
        assert_eq!(ordered.blocked_until(1_099, Some(&other)), Some(1_100));
        assert_eq!(ordered.blocked_until(1_099, Some(&one)), None, "the answer to this attempt was lost");
        assert!(!ordered.acknowledge(QueueOffset(5), 999), "the receipt of another batch");
        assert!(ordered.acknowledge(QueueOffset(6), 1_000) && !ordered.acknowledge(QueueOffset(6), 1_000));
        assert_eq!(ordered.first_open(), Some(QueueOffset(5)), "no gaps");
        assert!(ordered.change(QueueOffset(5), 1_000, 1_500) && !ordered.change(QueueOffset(6), 1_000, 1_500));
        assert_eq!(ordered.blocked_until(1_499, None), Some(1_500));
        assert_eq!(ordered.blocked_until(1_500, None), None);
        assert!(ordered.acknowledge(QueueOffset(5), 1_000));
        assert_eq!((ordered.first_open(), ordered.blocked_until(0, None)), (None, None));
    }

    #[test]
    fn what_comes_again_is_counted() {
        let mut ordered = Ordered::default();
        ordered.popped(&offsets(&[5, 6]), (0, 10), None);
        ordered.acknowledge(QueueOffset(5), 0);
        let counts = ordered.popped(&offsets(&[6, 7]), (20, 10), None);
        assert_eq!(counts, [(QueueOffset(6), 1)]);
        let counts = ordered.popped(&offsets(&[6, 7]), (40, 10), None);
        assert_eq!(counts, [(QueueOffset(6), 2), (QueueOffset(7), 1)]);
    }
}
