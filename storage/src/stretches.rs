//! Stretches of a log, kept as few as they can be: those that overlap or touch are one. Pure.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Stretches {
    /// Start and limit.
    by_start: BTreeMap<u64, u64>,
}

impl Stretches {
    pub(crate) fn count(&self) -> usize {
        self.by_start.len()
    }

    /// Whether all of a stretch lies in these.
    pub(crate) fn cover(&self, start: u64, limit: u64) -> bool {
        self.by_start.range(..=start).next_back().is_some_and(|(_, known)| limit <= *known)
    }

    pub(crate) fn add(&mut self, start: u64, limit: u64) {
        let (mut start, mut limit) = (start, limit);
        if let Some((&before, &known)) = self.by_start.range(..=start).next_back()
            && known >= start
        {
            start = before;
            limit = limit.max(known);
        }
        while let Some((&next, &known)) = self.by_start.range(start..).next()
            && next <= limit
        {
            limit = limit.max(known);
            self.by_start.remove(&next);
        }
        self.by_start.insert(start, limit);
    }

    /// The log lost everything in front of an offset.
    pub(crate) fn forget_before(&mut self, offset: u64) {
        self.by_start.retain(|_, limit| *limit > offset);
    }

    pub(crate) fn clear(&mut self) {
        self.by_start.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a table of single offsets, in any order of additions.
    #[test]
    fn what_was_added_is_covered_and_nothing_else() {
        const END: u64 = 64;
        for seed in 1..200_u64 {
            let (mut stretches, mut known, mut random) = (Stretches::default(), [false; END as usize], seed);
            for _ in 0..12 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let start = (random >> 33) % END;
                let limit = (start + 1 + (random >> 50) % 20).min(END);
                stretches.add(start, limit);
                known[start as usize..limit as usize].fill(true);
                for start in 0..END {
                    for limit in start + 1..=END {
                        let expected = known[start as usize..limit as usize].iter().all(|known| *known);
                        assert_eq!(stretches.cover(start, limit), expected, "seed {seed}: {start}..{limit}");
                    }
                }
                let runs = known.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
                assert_eq!(stretches.count(), runs, "seed {seed}");
            }
        }
    }
}
