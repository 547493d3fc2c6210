//! When messages are due: at even distances, whatever comes of them.

/// A plan without end. Message `number` is due at a time that depends on nothing but its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) start_ns: u64,
    /// Messages a second.
    pub(crate) rate: u32,
    /// Due times are rounded up to multiples of it, so that the generator wakes less often; 0: not at all.
    pub(crate) tick_ns: u64,
}

impl Pace {
    pub(crate) fn due_ns(&self, number: u64) -> u64 {
        assert!(self.rate > 0, "a rate of nothing has no due times");
        let even_ns = (u128::from(number) * 1_000_000_000 / u128::from(self.rate)) as u64;
        self.start_ns + if self.tick_ns == 0 { even_ns } else { even_ns.next_multiple_of(self.tick_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_are_even_and_lie_on_the_grid() {
        let due = |rate, tick_ns, number| Pace { start_ns: 7, rate, tick_ns }.due_ns(number) - 7;
        for (rate, tick_ns, number, expected) in [
            (5000, 0, 0, 0),
            (5000, 0, 1, 200_000),
            (5000, 200_000, 5000, 1_000_000_000),
            (20_000, 200_000, 4, 200_000),
            (20_000, 200_000, 5, 400_000),
            (3, 0, 3_000_000_000, 1_000_000_000_000_000_000),
        ] {
            assert_eq!(due(rate, tick_ns, number), expected, "{rate}/s in ticks of {tick_ns} ns, number {number}");
        }
    }
}
