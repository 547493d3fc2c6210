//! A figure over the rounds of a run, and how two of them differ.

use base::Random;

use crate::summary::{median, shown};

/// What is no more than this is no change: no figure of a real machine is that exact, and two processes of one program differ a
/// little for as long as they run.
const CHANGE_MIN: f64 = 0.02;
/// Up to so many ways to deal the rounds all are tried, beyond it as many are drawn.
const DEALS_MAX: u64 = 20_000;
/// Of so many rounds beyond the first, one is left out at either end: of 6 one, of 21 four.
const TRIMMED: usize = 5;
/// Rounds of a run that are looked at, so that those of two fit into 64 bits.
const ROUNDS_MAX: usize = 31;

/// Logarithms of values, in order.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    logs: Vec<f64>,
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
    /// Of the middles: 0.1 is a tenth more.
    pub(super) share: f64,
    /// How far halves of one sample lie apart.
    pub(super) noise: f64,
    /// How often values dealt at random to two samples of these sizes differ as much beyond [`CHANGE_MIN`].
    pub(super) chance: f64,
    /// The least that `chance` can be with so many values.
    pub(super) chance_least: f64,
}

impl Sample {
    /// Of values above 0, the first [`ROUNDS_MAX`].
    pub(super) fn new(values: impl Iterator<Item = f64>) -> Sample {
        let values: Vec<f64> = values.take(ROUNDS_MAX).collect();
        assert!(values.iter().all(|value| *value > 0.0), "shares of nothing: {values:?}");
        let mut logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        logs.sort_by(f64::total_cmp);
        Sample { logs }
    }

    pub(super) fn count(&self) -> usize {
        self.logs.len()
    }

    /// The middle, and the least and the greatest where they differ.
    pub(super) fn told(&self) -> String {
        let middle = shown(self.middle().exp());
        match self.logs.as_slice() {
            [least, .., greatest] if least != greatest => {
                format!("{middle} ({} - {})", shown(least.exp()), shown(greatest.exp()))
            }
            _ => middle,
        }
    }

    /// One round that met something else on the machine would hide what all others tell.
    fn kept(&self) -> &[f64] {
        let trimmed = trimmed(self.logs.len());
        &self.logs[trimmed..self.logs.len() - trimmed]
    }

    /// The mean of the logarithms that are kept. A median would lie on one of two values that rounds take in turn.
    fn middle(&self) -> f64 {
        self.kept().iter().sum::<f64>() / self.kept().len() as f64
    }

    /// The median distance of the means of two halves of what is kept, over all ways to halve it.
    fn noise(&self) -> f64 {
        let kept = self.kept();
        if kept.len() < 2 {
            return 0.0;
        }
        let all: f64 = kept.iter().sum();
        let (chosen, others) = (kept.len() / 2, kept.len() - kept.len() / 2);
        let mut distances: Vec<f64> = Vec::new();
        deals(kept.len(), chosen, &mut |half| {
            let sum: f64 = (0..).zip(kept).filter(|(place, _)| half >> place & 1 == 1).map(|(_, log)| log).sum();
            distances.push((sum / chosen as f64 - (all - sum) / others as f64).abs());
        });
        distances.sort_by(f64::total_cmp);
        median(&distances).unwrap_or(0.0).exp_m1()
    }
}

impl Change {
    /// Of samples that are not empty.
    pub(super) fn between(left: &Sample, right: &Sample) -> Change {
        let step = right.middle() - left.middle();
        // What is judged is how far the change goes beyond the least that is told.
        let excused = step.clamp(-CHANGE_MIN.ln_1p(), CHANGE_MIN.ln_1p());
        let excused: Vec<f64> = right.logs.iter().map(|log| log - excused).collect();
        let chance = chance(&left.logs, &excused);
        let noise = left.noise().max(right.noise());
        Change { share: step.exp_m1(), noise, chance, chance_least: chance_least(left.count(), right.count()) }
    }

    /// `chance` is what is allowed; where so few values cannot reach it, the least that they can.
    pub(super) fn verdict(&self, chance: f64, more_is_better: bool) -> Verdict {
        let allowed = chance.max(self.chance_least) + 1e-9;
        if self.chance > allowed || self.share.abs() < self.noise {
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

/// How many of so many are left out at either end.
fn trimmed(count: usize) -> usize {
    count.saturating_sub(1) / TRIMMED
}

/// A permutation test of the middles, both ways.
fn chance(left: &[f64], right: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> = left.iter().map(|log| (*log, true)).collect();
    all.extend(right.iter().map(|log| (*log, false)));
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let logs: Vec<f64> = all.iter().map(|(log, _)| *log).collect();
    let dealt_so = (0..).zip(&all).fold(0_u64, |dealt, (place, (_, is_left))| dealt | u64::from(*is_left) << place);
    let seen = distance(&logs, dealt_so);
    let (mut as_far, mut tried) = (0_u64, 0_u64);
    deals(all.len(), left.len(), &mut |dealt| {
        as_far += u64::from(distance(&logs, dealt) >= seen * (1.0 - 1e-9));
        tried += 1;
    });
    as_far as f64 / tried as f64
}

/// The chance of samples that lie apart altogether. Deals are as far apart that differ only in what both leave out where they meet.
fn chance_least(left: usize, right: usize) -> f64 {
    let as_far = ways(trimmed(left) + trimmed(right), trimmed(left));
    let mirrored = if left == right { 2.0 } else { 1.0 };
    mirrored * as_far as f64 / ways(left + right, left) as f64
}

/// How far the middles of those that are dealt and of the others lie apart, of logarithms in order.
fn distance(logs: &[f64], dealt: u64) -> f64 {
    let chosen = dealt.count_ones() as usize;
    let counts = [logs.len() - chosen, chosen];
    let kept = counts.map(|count| trimmed(count)..count - trimmed(count));
    let (mut passed, mut sums) = ([0; 2], [0.0; 2]);
    for (place, log) in logs.iter().enumerate() {
        let side = (dealt >> place & 1) as usize;
        if kept[side].contains(&passed[side]) {
            sums[side] += log;
        }
        passed[side] += 1;
    }
    (sums[0] / kept[0].len() as f64 - sums[1] / kept[1].len() as f64).abs()
}

/// In how many ways so many of all can be chosen, up to 2^50.
fn ways(all: usize, chosen: usize) -> u64 {
    (0..chosen as u64).fold(1, |ways, step| (ways * (all as u64 - step) / (step + 1)).min(1 << 50))
}

/// Calls with the ways to choose so many of all, as bits: with each of them, or with many drawn by a fixed seed.
fn deals(all: usize, chosen: usize, each: &mut dyn FnMut(u64)) {
    assert!(all < 64 && (1..=all).contains(&chosen), "{chosen} of {all} are to be dealt");
    let ways = ways(all, chosen);
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

    /// What rounds of one run differ by.
    #[derive(Clone, Copy, Debug)]
    struct Scatter {
        /// A relative one, as a normal distribution has it.
        normal: f64,
        /// The share of rounds that take 1.19 instead of 1.10.
        slow_share: f64,
        /// The share of rounds that take three times as long.
        outlier_share: f64,
    }

    fn normal(normal: f64) -> Scatter {
        Scatter { normal, slow_share: 0.0, outlier_share: 0.0 }
    }

    fn uniform(random: &mut Random) -> f64 {
        (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn rounds(random: &mut Random, count: usize, times: f64, scatter: Scatter) -> Sample {
        let values: Vec<f64> = (0..count)
            .map(|_| {
                let normal = (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0;
                let way = if uniform(random) < scatter.slow_share { 1.19 } else { 1.10 };
                let outlier = if uniform(random) < scatter.outlier_share { 3.0 } else { 1.0 };
                times * way * outlier * (1.0 + scatter.normal * normal)
            })
            .collect();
        Sample::new(values.into_iter())
    }

    /// In how many tries one of the figures is told to differ from a run that takes so many times as long.
    fn told(count: usize, scatter: Scatter, figures: usize, allowed: f64, times: f64) -> usize {
        let mut random = Random::new(7);
        let mut differs = || {
            let left = rounds(&mut random, count, 1.0, scatter);
            let right = rounds(&mut random, count, times, scatter);
            Change::between(&left, &right).verdict(allowed, false) != Verdict::Same
        };
        (0..TRIES).filter(|_| (0..figures).filter(|_| differs()).count() > 0).count()
    }

    const TRIES: usize = 100;

    #[test]
    fn equal_runs_are_told_the_same_and_a_tenth_is_found() {
        // Six figures that have nothing to do with each other; one false alarm among them is one of the run.
        for (count, scatter) in [(5, normal(0.02)), (7, normal(0.04))] {
            let allowed = crate::compare::FALSE_ALARMS / 6.0;
            let (alarms, found) = (told(count, scatter, 6, allowed, 1.0), told(count, scatter, 6, allowed, 1.1));
            assert!(alarms * 20 <= TRIES, "{count} rounds, {scatter:?}: {alarms} false alarms in {TRIES}");
            assert!(found * 20 >= TRIES * 19, "{count} rounds, {scatter:?}: {found} found of {TRIES}");
        }
    }

    /// Four figures of a round trip tell the same, so one of them has to do, by the chance that each of four is allowed. Of outliers a
    /// run may have as many as are left out, but some deals have those of both runs on one side.
    #[test]
    fn rounds_of_two_kinds_hide_no_tenth_and_outliers_seldom() {
        let two_kinds = |slow_share| Scatter { slow_share, ..normal(0.01) };
        let with_outliers = Scatter { outlier_share: 0.05, ..normal(0.02) };
        for (scatter, missed_max) in [(two_kinds(0.2), 5), (two_kinds(0.5), 5), (with_outliers, 10)] {
            let allowed = crate::compare::FALSE_ALARMS / 4.0;
            let (alarms, found) = (told(21, scatter, 1, allowed, 1.0), told(21, scatter, 1, allowed, 1.1));
            assert!(alarms * 20 <= TRIES, "{scatter:?}: {alarms} false alarms in {TRIES}");
            assert!(TRIES - found <= missed_max, "{scatter:?}: {found} found of {TRIES}");
        }
    }

    #[test]
    fn medians_on_one_of_two_values_hide_nothing() {
        let kinds = |counts: [usize; 2], times: f64| {
            let [fast, slow] = counts;
            let scattered = (0..fast + slow).map(|round| {
                let way = if round < fast { 1.10 } else { 1.19 };
                times * way * (1.0 + round as f64 * 1e-4)
            });
            Sample::new(scattered.collect::<Vec<_>>().into_iter())
        };
        // Medians of 1.19 and 1.21, though all rounds of the other run take a tenth longer.
        let change = Change::between(&kinds([10, 11], 1.0), &kinds([11, 10], 1.1));
        assert_eq!(change.verdict(0.0125, false), Verdict::Worse, "{change:?}");
        // Medians of 1.10 and 1.19, a twelfth apart, of one kind of run.
        let change = Change::between(&kinds([11, 10], 1.0), &kinds([10, 11], 1.0));
        assert_eq!(change.verdict(0.0125, false), Verdict::Same, "{change:?}");
    }

    #[test]
    fn a_change_is_surely_beyond_the_least() {
        let around = |middle: f64| Sample::new((0..21).map(move |round| middle + f64::from(round - 10) * 0.05));
        for (times, expected) in [(1.01, Verdict::Same), (1.021, Verdict::Same), (1.04, Verdict::Worse)] {
            let change = Change::between(&around(100.0), &around(100.0 * times));
            assert_eq!(change.verdict(0.0125, false), expected, "{times}: {change:?}");
        }
    }

    #[test]
    fn samples_that_lie_apart_have_the_least_chance() {
        for (count, figures) in [(3, 1), (5, 4), (6, 22), (7, 22), (8, 22)] {
            let around = |middle: f64| Sample::new((0..count).map(move |round| middle + f64::from(round)));
            let change = Change::between(&around(100.0), &around(200.0));
            assert!((change.chance - change.chance_least).abs() < 1e-9, "{count}: {change:?}");
            let allowed = 0.02 / f64::from(figures);
            assert_eq!(change.verdict(allowed, false), Verdict::Worse, "{count}: {change:?}");
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
