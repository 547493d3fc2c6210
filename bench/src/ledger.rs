//! Which offsets of each lane were acknowledged: each once, and without a gap behind the first.

/// Offsets of one queue, one bit each.
#[derive(Clone, Debug, Default)]
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
#[derive(Clone, Debug)]
pub(crate) struct OffsetLedger {
    queues: Vec<QueueLedger>,
    duplicates: u64,
    strange: u64,
}

impl OffsetLedger {
    /// `starts` are the offsets that the next messages of lanes 0, 1, … would have.
    pub(crate) fn new(starts: &[i64]) -> OffsetLedger {
        let queues = starts.iter().map(|start| QueueLedger { start: *start, limit: *start, ..QueueLedger::default() });
        OffsetLedger { queues: queues.collect(), duplicates: 0, strange: 0 }
    }

    /// `None`: a queue that was not sent to.
    pub(crate) fn acknowledged(&mut self, lane: Option<usize>, offset: i64) {
        let Some(queue) = lane.and_then(|index| self.queues.get_mut(index)) else {
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

    /// Takes in what another connection of the same run was told.
    pub(crate) fn merge(&mut self, other: &OffsetLedger) {
        assert!(self.queues.len() == other.queues.len(), "ledgers of different runs");
        self.duplicates += other.duplicates;
        self.strange += other.strange;
        for (queue, other) in self.queues.iter_mut().zip(&other.queues) {
            queue.words.resize(queue.words.len().max(other.words.len()), 0);
            for (word, told) in queue.words.iter_mut().zip(&other.words) {
                self.duplicates += u64::from((*word & told).count_ones());
                queue.count += u64::from((!*word & told).count_ones());
                *word |= told;
            }
            queue.limit = queue.limit.max(other.limit);
        }
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
    fn ledgers_of_connections_add_up() {
        let ledger = |told: &[i64]| {
            let mut ledger = OffsetLedger::new(&[0]);
            told.iter().for_each(|offset| ledger.acknowledged(Some(0), *offset));
            ledger
        };
        let mut all = ledger(&[0, 2, 200]);
        all.merge(&ledger(&[1, 3, 5]));
        assert_eq!(all.faults(), OffsetFaults { gaps: 195, duplicates: 0, strange: 0 });
        all.merge(&ledger(&[4, 5]));
        assert_eq!(all.faults(), OffsetFaults { gaps: 194, duplicates: 1, strange: 0 });
    }

    #[test]
    fn gaps_duplicates_and_strangers_are_told_apart() {
        let faults = |told: &[(usize, i64)]| {
            let mut ledger = OffsetLedger::new(&[100, 0]);
            for (lane, offset) in told {
                ledger.acknowledged(Some(*lane), *offset);
            }
            let OffsetFaults { gaps, duplicates, strange } = ledger.faults();
            (gaps, duplicates, strange)
        };
        assert_eq!(faults(&[]), (0, 0, 0));
        assert_eq!(faults(&[(0, 101), (1, 0), (0, 100), (0, 102)]), (0, 0, 0));
        assert_eq!(faults(&[(0, 300), (1, 1)]), (201, 0, 0));
        assert_eq!(faults(&[(0, 100), (0, 100)]), (0, 1, 0));
        assert_eq!(faults(&[(0, 99), (2, 0), (usize::MAX, 0), (1, i64::MAX)]), (0, 0, 4));
    }
}
