//! Messages of an open loop that were due and never sent. Left out, they would make the percentiles of all others look good: each
//! has waited at least from when it was due until sending ended, and that is what the times have of it.

use hdrhistogram::Histogram;

use crate::record::histogram;

/// All of a run, as its sender leaves them.
#[derive(Clone, Debug)]
pub(crate) struct NeverSent {
    pub(crate) messages: u64,
    /// Those of them that the target held back; the generator was late with the others.
    pub(crate) held_back: u64,
    /// Of requests, what each has waited at least.
    waited: Histogram<u64>,
}

impl NeverSent {
    pub(crate) fn new() -> NeverSent {
        NeverSent { messages: 0, held_back: 0, waited: histogram() }
    }

    /// So many messages of one request have waited so long.
    pub(crate) fn add(&mut self, messages: u64, waited_ns: u64, held_back: bool) {
        self.messages += messages;
        self.held_back += if held_back { messages } else { 0 };
        self.waited.saturating_record(waited_ns.max(1));
    }

    /// What requests have waited at least beyond `later_ns`, which was asked for, and how many of them.
    pub(crate) fn beyond(&self, later_ns: u64) -> impl Iterator<Item = (u64, u64)> {
        self.waited.iter_recorded().filter_map(move |step| {
            let least_ns = self.waited.lowest_equivalent(step.value_iterated_to());
            Some((least_ns.checked_sub(later_ns)?, step.count_at_value()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_wait_is_never_longer_than_it_was() {
        let mut never_sent = NeverSent::new();
        for (waited_ns, held_back) in [(1_000_000_007, true), (1_000_000_008, true), (5_000, false), (0, true)] {
            never_sent.add(2, waited_ns, held_back);
        }
        assert_eq!((never_sent.messages, never_sent.held_back), (8, 6));
        let waits: Vec<_> = never_sent.beyond(0).collect();
        let [(1, 1), (5_000, 1), (longest_ns, 2)] = waits[..] else { panic!("{waits:?}") };
        assert!((999_000_000..=1_000_000_007).contains(&longest_ns), "{longest_ns}");
        assert_eq!(never_sent.beyond(500_000_000).count(), 1);
    }
}
