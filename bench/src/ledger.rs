//! Which offsets of each queue were acknowledged: each once, and without a gap behind the first.

/// Offsets of one queue, one bit each.
#[derive(Debug, Default)]
struct QueueLedger {
    /// The offset that the queue's next message had before the run.
    start: i64,
    words: Vec<u64>,
    count: u64,
    limit: i64,
}

/// What is wrong with the offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffsetFaults {
    /// Offsets below the highest one that nobody was told. A message that was stored but not acknowledged makes one.
    pub(crate) gaps: u64,
    /// Offsets that two messages were told.
    pub(crate) duplicates: u64,
    /// Offsets of queues that were not sent to, or that were given before the run.
    pub(crate) strange: u64,
}

/// The offsets of a topic that only this run sends to.
#[derive(Debug)]
pub(crate) struct OffsetLedger {
    queues: Vec<QueueLedger>,
    duplicates: u64,
    strange: u64,
}

impl OffsetLedger {
    /// `starts` are the offsets that the next messages of queues 0, 1, … would have.
    pub(crate) fn new(starts: &[i64]) -> OffsetLedger {
        let queues = starts.iter().map(|start| QueueLedger { start: *start, limit: *start, ..QueueLedger::default() });
        OffsetLedger { queues: queues.collect(), duplicates: 0, strange: 0 }
    }

    pub(crate) fn acknowledged(&mut self, queue_id: i64, offset: i64) {
        let Some(queue) = usize::try_from(queue_id).ok().and_then(|index| self.queues.get_mut(index)) else {
            self.strange += 1;
            return;
        };
        let Ok(place) = usize::try_from(offset - queue.start) else {
            self.strange += 1;
            return;
        };
        let (word, bit) = (place / 64, 1_u64 << (place % 64));
        if word >= queue.words.len() {
            // A wild offset must not take all memory.
            if word > queue.words.len() + WORDS_AHEAD_MAX {
                self.strange += 1;
                return;
            }
            queue.words.resize(word + 1, 0);
        }
        if queue.words[word] & bit != 0 {
            self.duplicates += 1;
            return;
        }
        queue.words[word] |= bit;
        queue.count += 1;
        queue.limit = queue.limit.max(offset + 1);
    }

    pub(crate) fn faults(&self) -> OffsetFaults {
        let gaps = self.queues.iter().map(|queue| (queue.limit - queue.start) as u64 - queue.count).sum();
        OffsetFaults { gaps, duplicates: self.duplicates, strange: self.strange }
    }
}

/// Words of 64 offsets by which an answer may be ahead of all before; an offset beyond is counted as strange.
const WORDS_AHEAD_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_duplicates_and_strangers_are_told_apart() {
        let faults = |told: &[(i64, i64)]| {
            let mut ledger = OffsetLedger::new(&[100, 0]);
            for (queue, offset) in told {
                ledger.acknowledged(*queue, *offset);
            }
            let OffsetFaults { gaps, duplicates, strange } = ledger.faults();
            (gaps, duplicates, strange)
        };
        assert_eq!(faults(&[]), (0, 0, 0));
        assert_eq!(faults(&[(0, 101), (1, 0), (0, 100), (0, 102)]), (0, 0, 0));
        assert_eq!(faults(&[(0, 300), (1, 1)]), (201, 0, 0));
        assert_eq!(faults(&[(0, 100), (0, 100)]), (0, 1, 0));
        assert_eq!(faults(&[(0, 99), (2, 0), (-1, 0), (1, i64::MAX)]), (0, 0, 4));
    }
}
