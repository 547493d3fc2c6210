//! One queue popped in order by one group: its last batch, and what of it is acknowledged. Pure.
//!
//! While a message of the batch is open and its time is not over, the queue gives nothing to anybody, but to a pop that
//! names the attempt of the last one: that one's answer was lost. Acknowledgements move the queue on without gaps.

use std::collections::BTreeMap;

use base::QueueOffset;
use remoting::text::Text;

#[derive(Clone, Debug, Default)]
pub(super) struct Ordered {
    pop_time_ms: u64,
    attempt: Option<Text>,
    /// Messages of the last batch that are not acknowledged: when they may be seen again.
    open: BTreeMap<QueueOffset, u64>,
    /// How often messages came before, of those that did.
    counts: BTreeMap<QueueOffset, u32>,
}

impl Ordered {
    /// Until when the queue gives nothing; `None` when it may be popped now.
    pub(super) fn blocked_until(&self, now_ms: u64, attempt: Option<&Text>) -> Option<u64> {
        if attempt.is_some() && attempt == self.attempt.as_ref() {
            return None;
        }
        self.open.values().copied().max().filter(|until_ms| *until_ms > now_ms)
    }

    /// A batch is given out. Returns how often each of its messages came before, of those that did; that an attempt is
    /// answered once more does not count.
    pub(super) fn popped(
        &mut self,
        offsets: &[QueueOffset],
        times: (u64, u64),
        attempt: Option<Text>,
    ) -> BTreeMap<QueueOffset, u32> {
        let (pop_time_ms, invisible_ms) = times;
        let is_same_attempt = attempt.is_some() && attempt == self.attempt;
        let again = |offset: &QueueOffset| {
            let before = self.counts.get(offset).copied().unwrap_or(0);
            let times = before + u32::from(!is_same_attempt);
            (self.open.contains_key(offset) && times > 0).then_some((*offset, times))
        };
        let counts: BTreeMap<_, _> = offsets.iter().filter_map(again).collect();
        let until_ms = pop_time_ms.saturating_add(invisible_ms);
        *self = Ordered {
            pop_time_ms,
            attempt,
            open: offsets.iter().map(|offset| (*offset, until_ms)).collect(),
            counts: counts.clone(),
        };
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
                *until = until_ms;
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
        assert!(ordered.popped(&offsets(&[5, 6]), (1_000, 100), Some(one.clone())).is_empty());
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
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(QueueOffset(6), 1)]);
        let counts = ordered.popped(&offsets(&[6, 7]), (40, 10), None);
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(QueueOffset(6), 2), (QueueOffset(7), 1)]);
    }

    #[test]
    fn an_attempt_that_is_answered_again_does_not_count() {
        let mut ordered = Ordered::default();
        let (one, other) = (Some(Text::from("one")), Some(Text::from("other")));
        assert!(ordered.popped(&offsets(&[5]), (0, 10), one.clone()).is_empty());
        assert!(ordered.popped(&offsets(&[5]), (1, 10), one).is_empty());
        let counts = ordered.popped(&offsets(&[5]), (20, 10), other.clone());
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(QueueOffset(5), 1)]);
        let counts = ordered.popped(&offsets(&[5]), (21, 10), other);
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(QueueOffset(5), 1)], "as the lost answer said");
    }
}
