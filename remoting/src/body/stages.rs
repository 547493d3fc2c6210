//! Where a broker's time goes (30001): times of each stage that requests pass, by core.

use std::collections::BTreeMap;

use super::body;
use crate::text::Text;

/// The name of the whole time of a request, beside those of its stages.
pub const TOTAL: &str = "total";

body! {
    /// Times up to a limit that are above the limit before.
    #[derive(Copy, Eq)]
    struct TimeBucket {
        pub count: u64,
        pub limit_nanos: u64,
    }

    /// What requests of one kind have spent in one stage since the broker began. Only grows.
    #[derive(Eq)]
    struct StageTime {
        /// By rising limits; those without a time are left out.
        pub buckets: Vec<TimeBucket>,
        pub stage: Text,
        pub sum_nanos: u64,
    }

    /// Requests of one kind: each stage in the order they are passed, and [`TOTAL`].
    #[derive(Eq)]
    struct RequestTimes {
        pub request: Text,
        pub stages: Vec<StageTime>,
    }

    /// A turn that held its core for long: whatever was ready waited for it.
    #[derive(Copy, Eq)]
    struct LongTurn {
        /// When it ended.
        pub at_ms: u64,
        pub nanos: u64,
        /// Counts the long turns of the core from 0.
        pub number: u64,
        /// Tasks that ran in it.
        pub tasks: u32,
        /// The thread waited for its CPU for no longer than this meanwhile.
        pub waited_nanos_max: u64,
    }

    /// The turns of one core since the broker began. Nothing is counted on glommio.
    #[derive(Eq)]
    struct CoreTurns {
        pub count: u64,
        /// The newest of those longer than `long_from_nanos`, the oldest first.
        pub long: Vec<LongTurn>,
        pub long_count: u64,
        pub long_from_nanos: u64,
        pub sum_nanos: u64,
        /// How long the thread was ready and waited for its CPU.
        pub waited_nanos: u64,
    }

    #[derive(Eq)]
    struct CoreTimes {
        pub core: u16,
        pub requests: Vec<RequestTimes>,
        pub turns: CoreTurns,
    }

    #[derive(Eq)]
    struct SlowStage {
        pub nanos: u64,
        pub stage: Text,
    }

    /// One request that took long.
    #[derive(Eq)]
    struct SlowRequest {
        /// When it was answered.
        pub at_ms: u64,
        /// The core of its connection.
        pub core: u16,
        pub opaque: i32,
        /// The core of what it was about.
        pub owner: u16,
        /// The client's address.
        pub peer: Text,
        pub request: Text,
        pub stages: Vec<SlowStage>,
    }

    /// Body of the answer to 30001.
    #[derive(Eq)]
    struct StageTimes {
        /// Stages that this broker has not, and why.
        pub absent: BTreeMap<Text, Text>,
        pub cores: Vec<CoreTimes>,
        /// The newest of those that took longer than `slower_than_micros`, by the time of their answer.
        pub slow: Vec<SlowRequest>,
        /// 0: none are kept.
        pub slower_than_micros: u64,
    }
}

/// The time within which this share of all (0 to 1) was done, of limits in rising order and how many were below each; 0 when
/// nothing was.
pub fn quantile_nanos(seen: impl Iterator<Item = (u64, u64)> + Clone, share: f64) -> u64 {
    let all: u64 = seen.clone().map(|(_, count)| count).sum();
    let wanted = (all as f64 * share).ceil().max(1.0) as u64;
    let mut passed = 0;
    let mut reached = seen.skip_while(|(_, count)| {
        passed += count;
        passed < wanted
    });
    reached.next().map_or(0, |(limit_nanos, _)| limit_nanos)
}

impl StageTime {
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.count).sum()
    }

    pub fn mean_nanos(&self) -> f64 {
        self.sum_nanos as f64 / self.count().max(1) as f64
    }

    /// The time within which this share of all (0 to 1) was done; 0 when nothing was.
    pub fn quantile_nanos(&self, share: f64) -> u64 {
        quantile_nanos(self.buckets.iter().map(|bucket| (bucket.limit_nanos, bucket.count)), share)
    }

    fn add(&mut self, other: &StageTime) {
        self.combine(other, |own, other| own + other);
    }

    /// What came since an earlier look.
    fn subtract(&mut self, earlier: &StageTime) {
        self.combine(earlier, u64::saturating_sub);
    }

    fn combine(&mut self, other: &StageTime, operation: impl Fn(u64, u64) -> u64) {
        let mut counts: BTreeMap<u64, u64> =
            self.buckets.iter().map(|bucket| (bucket.limit_nanos, bucket.count)).collect();
        for bucket in &other.buckets {
            let count = counts.entry(bucket.limit_nanos).or_default();
            *count = operation(*count, bucket.count);
        }
        let buckets = counts.into_iter().filter(|(_, count)| *count > 0);
        self.buckets = buckets.map(|(limit_nanos, count)| TimeBucket { count, limit_nanos }).collect();
        self.sum_nanos = operation(self.sum_nanos, other.sum_nanos);
    }
}

impl SlowRequest {
    /// Of all its stages.
    pub fn nanos(&self) -> u64 {
        self.stages.iter().map(|stage| stage.nanos).sum()
    }
}

impl RequestTimes {
    /// What was passed, the whole among it.
    pub fn passed(&self) -> impl Iterator<Item = &StageTime> {
        self.stages.iter().filter(|stage| stage.count() > 0)
    }

    /// What was passed, without the whole.
    pub fn parts(&self) -> impl Iterator<Item = &StageTime> {
        self.passed().filter(|stage| stage.stage != *TOTAL)
    }

    pub fn stage(&self, name: &str) -> Option<&StageTime> {
        self.stages.iter().find(|stage| stage.stage == *name)
    }
}

impl CoreTimes {
    pub fn request(&self, name: &str) -> Option<&RequestTimes> {
        self.requests.iter().find(|request| request.request == *name)
    }
}

impl CoreTurns {
    /// The longest of those that are kept.
    pub fn longest(&self) -> Option<&LongTurn> {
        self.long.iter().max_by_key(|turn| turn.nanos)
    }

    /// What came since an earlier look.
    fn subtract(&mut self, earlier: &CoreTurns) {
        self.long.retain(|turn| turn.number >= earlier.long_count);
        for (own, earlier) in [
            (&mut self.count, earlier.count),
            (&mut self.long_count, earlier.long_count),
            (&mut self.sum_nanos, earlier.sum_nanos),
            (&mut self.waited_nanos, earlier.waited_nanos),
        ] {
            *own = own.saturating_sub(earlier);
        }
    }
}

impl StageTimes {
    /// Kinds of requests that there are times of.
    pub fn requests(&self) -> Vec<Text> {
        self.merged().into_iter().map(|request| request.request).collect()
    }

    /// All cores together. What was not passed by anyone is left out.
    pub fn merged(&self) -> Vec<RequestTimes> {
        let mut all: Vec<RequestTimes> = Vec::new();
        for request in self.cores.iter().flat_map(|core| &core.requests) {
            let own = match all.iter().position(|own| own.request == request.request) {
                Some(place) => &mut all[place],
                None => {
                    all.push(RequestTimes { request: request.request.clone(), stages: Vec::new() });
                    all.last_mut().expect("just pushed")
                }
            };
            for stage in &request.stages {
                match own.stages.iter().position(|own| own.stage == stage.stage) {
                    Some(place) => own.stages[place].add(stage),
                    None => own.stages.push(stage.clone()),
                }
            }
        }
        all.retain_mut(|request| {
            request.stages.retain(|stage| stage.count() > 0);
            !request.stages.is_empty()
        });
        all
    }

    /// What came since an earlier look at the same broker. Slow requests stay those of this look. One that began anew
    /// in between has counted all of it since.
    pub fn since(mut self, earlier: &StageTimes) -> StageTimes {
        if self.began_after(earlier) {
            return self;
        }
        for core in &mut self.cores {
            let Some(before) = earlier.cores.iter().find(|before| before.core == core.core) else { continue };
            core.turns.subtract(&before.turns);
            for request in &mut core.requests {
                let Some(before) = before.request(&request.request) else { continue };
                for stage in &mut request.stages {
                    if let Some(before) = before.stage(&stage.stage) {
                        stage.subtract(before);
                    }
                }
            }
        }
        self
    }

    /// Counts only grow while a broker runs: one that went back is of another process.
    fn began_after(&self, earlier: &StageTimes) -> bool {
        let stages = earlier.cores.iter().flat_map(|core| {
            let requests = core.requests.iter();
            requests.flat_map(move |request| request.stages.iter().map(move |stage| (core.core, request, stage)))
        });
        stages.into_iter().any(|(core, request, before)| {
            let now = self.cores.iter().find(|now| now.core == core).and_then(|now| now.request(&request.request));
            let now = now.and_then(|now| now.stage(&before.stage));
            now.map_or(0, StageTime::count) < before.count() || now.map_or(0, |now| now.sum_nanos) < before.sum_nanos
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &'static str, counts: &[(u64, u64)]) -> StageTime {
        StageTime {
            buckets: counts
                .iter()
                .map(|(limit_nanos, count)| TimeBucket { count: *count, limit_nanos: *limit_nanos })
                .collect(),
            stage: Text::from_static(name),
            sum_nanos: counts.iter().map(|(limit, count)| limit * count).sum(),
        }
    }

    fn times(cores: &[&[StageTime]]) -> StageTimes {
        let request =
            |stages: &[StageTime]| RequestTimes { request: Text::from_static("send"), stages: stages.to_vec() };
        let cores = (0..).zip(cores).map(|(core, stages)| CoreTimes {
            core,
            requests: vec![request(stages)],
            ..CoreTimes::default()
        });
        StageTimes { cores: cores.collect(), ..StageTimes::default() }
    }

    #[test]
    fn what_came_since_is_the_difference_and_cores_add_up() {
        let before = times(&[&[stage("flush", &[(10, 5)]), stage(TOTAL, &[(20, 5)])], &[stage("flush", &[(30, 1)])]]);
        let after =
            times(&[&[stage("flush", &[(10, 5), (40, 2)]), stage(TOTAL, &[(20, 8)])], &[stage("flush", &[(30, 4)])]]);
        let since = after.since(&before);
        assert_eq!(since.cores[0].requests[0].stages[0], stage("flush", &[(40, 2)]));
        let merged = since.merged();
        assert_eq!(merged[0].stages, [stage("flush", &[(30, 3), (40, 2)]), stage(TOTAL, &[(20, 3)])]);
        let flush = merged[0].stage("flush").expect("it is there");
        assert_eq!((flush.count(), flush.quantile_nanos(0.5), flush.quantile_nanos(0.99)), (5, 30, 40));
        assert!((flush.mean_nanos() - 34.0).abs() < 1e-9);
        assert_eq!(before.clone().since(&before).requests(), Vec::<Text>::new());
    }

    #[test]
    fn a_broker_that_began_anew_has_its_own_counts() {
        let before = times(&[&[stage("flush", &[(10, 5), (40, 9)]), stage(TOTAL, &[(20, 14)])]]);
        let after = times(&[&[stage("flush", &[(10, 6), (40, 1)]), stage(TOTAL, &[(20, 7)])]]);
        assert_eq!(after.clone().since(&before), after);
        assert_eq!(times(&[]).since(&before), times(&[]));
    }

    #[test]
    fn turns_since_are_those_that_came_since() {
        let long = |number, nanos| LongTurn { number, nanos, ..LongTurn::default() };
        let turns = |count, long: &[LongTurn]| CoreTurns {
            count,
            long: long.to_vec(),
            long_count: long.last().map_or(0, |turn| turn.number + 1),
            ..CoreTurns::default()
        };
        let mut after = turns(30, &[long(0, 9), long(1, 5), long(2, 7)]);
        assert_eq!(after.longest().map(|turn| turn.number), Some(0));
        after.subtract(&turns(10, &[long(0, 9)]));
        assert_eq!((after.count, after.long_count), (20, 2));
        assert_eq!(after.long, [long(1, 5), long(2, 7)]);
        assert_eq!(after.longest().map(|turn| turn.number), Some(2));
    }

    #[test]
    fn the_body_is_what_is_read_again() {
        let mut all = times(&[&[stage("flush", &[(10, 5)])]]);
        all.absent.insert(Text::from_static("replicate"), Text::from_static("no"));
        let stages = vec![SlowStage { nanos: 5, stage: Text::from_static("flush") }];
        all.slow.push(SlowRequest { at_ms: 1, core: 0, opaque: -3, owner: 1, stages, ..SlowRequest::default() });
        let bytes = crate::json::encode(&all);
        assert_eq!(crate::json::decode::<StageTimes>(&bytes).expect("readable"), all);
    }
}
