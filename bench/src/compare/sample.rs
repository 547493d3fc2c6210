//! A figure over the rounds of a run, and how two of them differ.

use base::Random;

use crate::summary::{median, spread};

/// A smaller change is never told: no figure of a real machine is that exact.
const CHANGE_MIN: f64 = 0.02;
/// Up to so many ways to deal the rounds all are tried, beyond it as many are drawn.
const DEALS_MAX: u64 = 20_000;
/// Of so many rounds one is left out at either end. With fewer, samples that lie apart altogether would not be told from all
/// other deals any more.
const TRIMMED: u32 = 7;
/// Rounds of a run that are looked at, so that those of two fit into 64 bits.
const ROUNDS_MAX: usize = 31;

/// Values in order.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    values: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Worse,
    Better,
    Same,
    /// Too few rounds.
    Unknown,
}

/// From one sample to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// Of the medians: 0.1 is a tenth more.
    pub(super) share: f64,
    /// How far halves of one sample lie apart.
    pub(super) noise: f64,
    /// How often values dealt at random to two samples of these sizes differ as much.
    pub(super) chance: f64,
    /// The least that `chance` can be with so many values.
    pub(super) chance_least: f64,
}

impl Sample {
    /// Of values above 0, the first [`ROUNDS_MAX`].
    pub(super) fn new(values: impl Iterator<Item = f64>) -> Sample {
        let mut values: Vec<f64> = values.take(ROUNDS_MAX).collect();
        assert!(values.iter().all(|value| *value > 0.0), "shares of nothing: {values:?}");
        values.sort_by(f64::total_cmp);
        Sample { values }
    }

    pub(super) fn count(&self) -> usize {
        self.values.len()
    }

    pub(super) fn told(&self) -> String {
        spread(&self.values)
    }

    fn median(&self) -> f64 {
        median(&self.values).unwrap_or(f64::NAN)
    }

    /// The median distance of the medians of two halves, over all ways to halve.
    fn noise(&self) -> f64 {
        let count = self.values.len();
        if count < 2 {
            return 0.0;
        }
        let mut distances: Vec<f64> = Vec::new();
        deals(count, count / 2, &mut |half| {
            let (mut left, mut right) = (Vec::new(), Vec::new());
            for (index, value) in self.values.iter().enumerate() {
                if half >> index & 1 == 1 { left.push(*value) } else { right.push(*value) }
            }
            if let (Some(left), Some(right)) = (median(&left), median(&right)) {
                distances.push((left / right - 1.0).abs());
            }
        });
        distances.sort_by(f64::total_cmp);
        median(&distances).unwrap_or(0.0)
    }
}

impl Change {
    /// Of samples that are not empty.
    pub(super) fn between(left: &Sample, right: &Sample) -> Change {
        let (chance, chance_least) = chance(&left.values, &right.values);
        let noise = left.noise().max(right.noise());
        Change { share: right.median() / left.median() - 1.0, noise, chance, chance_least }
    }

    /// `chance` is what is allowed; where so few values cannot reach it, the least that they can.
    pub(super) fn verdict(&self, chance: f64, more_is_better: bool) -> Verdict {
        let allowed = chance.max(self.chance_least) + 1e-9;
        if self.chance > allowed || self.share.abs() < CHANGE_MIN || self.share.abs() < self.noise {
            return Verdict::Same;
        }
        if (self.share > 0.0) == more_is_better { Verdict::Better } else { Verdict::Worse }
    }
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Verdict::Worse => "**worse**",
            Verdict::Better => "better",
            Verdict::Same => "same",
            Verdict::Unknown => "-",
        }
    }
}

/// A permutation test of the trimmed means of logarithms, both ways: its chance, and the least possible.
fn chance(left: &[f64], right: &[f64]) -> (f64, f64) {
    let mut all: Vec<(f64, bool)> = left.iter().map(|value| (value.ln(), true)).collect();
    all.extend(right.iter().map(|value| (value.ln(), false)));
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let values: Vec<f64> = all.iter().map(|(value, _)| *value).collect();
    let dealt_so = (0..).zip(&all).fold(0_u64, |dealt, (place, (_, is_left))| dealt | u64::from(*is_left) << place);
    let seen = distance(&values, dealt_so);
    let (mut as_far, mut tried) = (0_u64, 0_u64);
    deals(all.len(), left.len(), &mut |dealt| {
        as_far += u64::from(distance(&values, dealt) >= seen * (1.0 - 1e-9));
        tried += 1;
    });
    let mirrored = if left.len() == right.len() { 2.0 } else { 1.0 };
    (as_far as f64 / tried as f64, mirrored / tried as f64)
}

/// How far the means of those that are dealt and of the others lie apart, of values in order. Of each side some are left out at
/// both ends: one round that met something else on the machine would hide what all others tell.
fn distance(values: &[f64], dealt: u64) -> f64 {
    let counts = [values.len() as u32 - dealt.count_ones(), dealt.count_ones()];
    let (mut passed, mut sums) = ([0; 2], [0.0; 2]);
    for (place, value) in values.iter().enumerate() {
        let side = (dealt >> place & 1) as usize;
        let trimmed = counts[side] / TRIMMED;
        if (trimmed..counts[side] - trimmed).contains(&passed[side]) {
            sums[side] += value;
        }
        passed[side] += 1;
    }
    let mean = |side: usize| sums[side] / f64::from(counts[side] - 2 * (counts[side] / TRIMMED));
    (mean(0) - mean(1)).abs()
}

/// Calls with the ways to choose so many of all, as bits: with each of them, or with many drawn by a fixed seed.
fn deals(all: usize, chosen: usize, each: &mut dyn FnMut(u64)) {
    assert!(all < 64 && (1..=all).contains(&chosen), "{chosen} of {all} are to be dealt");
    let ways = (0..chosen as u64).fold(1_u64, |ways, step| (ways * (all as u64 - step) / (step + 1)).min(1 << 50));
    if ways > DEALS_MAX {
        let mut random = Random::new(1);
        for _ in 0..DEALS_MAX {
            let mut dealt = 0_u64;
            while dealt.count_ones() < chosen as u32 {
                dealt |= 1 << random.below(all as u64);
            }
            each(dealt);
        }
        return;
    }
    // From one choice to the next larger number with as many bits.
    let mut dealt = (1_u64 << chosen) - 1;
    for _ in 0..ways {
        each(dealt);
        let lowest = dealt & dealt.wrapping_neg();
        let carried = dealt + lowest;
        dealt = (((carried ^ dealt) >> 2) / lowest.max(1)) | carried;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds around a value with a relative scatter, as a normal distribution has it.
    fn rounds(random: &mut Random, count: usize, around: f64, scatter: f64) -> Sample {
        let uniform = |random: &mut Random| (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let values = (0..count).map(|_| {
            let normal = (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0;
            around * (1.0 + scatter * normal)
        });
        Sample::new(values.collect::<Vec<_>>().into_iter())
    }

    #[test]
    fn equal_runs_are_told_the_same_and_a_tenth_is_found() {
        const TRIES: usize = 200;
        let mut random = Random::new(7);
        for (count, scatter) in [(5, 0.02), (5, 0.04), (7, 0.05)] {
            // Six figures, as a phase with a consumer has; one false alarm among them is one of the run.
            let mut alarms = 0;
            let mut found = 0;
            for _ in 0..TRIES {
                let mut differs = |around: f64| {
                    let (left, right) =
                        (rounds(&mut random, count, 100.0, scatter), rounds(&mut random, count, around, scatter));
                    Change::between(&left, &right).verdict(crate::compare::FALSE_ALARMS / 6.0, false) == Verdict::Worse
                };
                alarms += usize::from((0..6).filter(|_| differs(100.0)).count() > 0);
                found += usize::from((0..6).filter(|_| differs(110.0)).count() > 0);
            }
            assert!(alarms * 20 <= TRIES, "{count} rounds, scatter {scatter}: {alarms} false alarms in {TRIES}");
            assert!(found * 20 >= TRIES * 19, "{count} rounds, scatter {scatter}: {found} found of {TRIES}");
        }
    }

    #[test]
    fn the_chance_is_that_of_all_deals() {
        let sample = |values: &[f64]| Sample::new(values.iter().copied());
        let change = Change::between(&sample(&[1.0, 2.0, 3.0]), &sample(&[10.0, 11.0, 12.0]));
        assert!((change.chance - 0.1).abs() < 1e-9 && (change.chance_least - 0.1).abs() < 1e-9);
        assert_eq!(change.verdict(0.01, true), Verdict::Better);
        assert_eq!(change.verdict(0.01, false), Verdict::Worse);
        let mixed = Change::between(&sample(&[1.0, 11.0, 3.0]), &sample(&[10.0, 2.0, 12.0]));
        assert_eq!(mixed.verdict(0.01, true), Verdict::Same);
        // One round met something else: the others tell all the same.
        let met = Change::between(
            &sample(&[1139.0, 1095.0, 1140.0, 1138.0, 1120.0, 1110.0, 1782.0]),
            &sample(&[1316.0, 1254.0, 1310.0, 1320.0, 1315.0, 1290.0, 1312.0]),
        );
        assert_eq!(met.verdict(0.0125, false), Verdict::Worse, "{met:?}");
        let tiny = Change::between(&sample(&[100.0, 100.1, 100.2]), &sample(&[101.0, 101.1, 101.2]));
        assert_eq!(tiny.verdict(0.01, true), Verdict::Same);
    }

    #[test]
    fn many_rounds_are_dealt_at_random() {
        for (all, chosen, expected) in [(6, 3, 20), (10, 5, 252), (40, 2, 780), (40, 20, DEALS_MAX)] {
            let mut count = 0;
            deals(all, chosen, &mut |dealt| {
                assert_eq!((dealt.count_ones() as usize, dealt >> all), (chosen, 0));
                count += 1;
            });
            assert_eq!(count, expected, "{chosen} of {all}");
        }
    }
}
