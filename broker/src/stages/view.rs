//! The times of all cores, for whoever asks.

use std::rc::Rc;

use remoting::body::stages::{
    CoreTimes, CoreTurns, LongTurn, RequestTimes, SlowRequest, SlowStage, StageTime, StageTimes, TOTAL, TimeBucket,
};
use remoting::text::Text;
use runtime::turns;
use transport::{Stage, UNIT_NS};

use super::{Kind, Slow, Stages, Times};
use crate::core::Core;

const NO_REPLICATION: &str = "messages are not replicated: this broker has no slaves";

/// What all cores have counted, and their slow requests by the time of their answers.
pub(crate) async fn gather(core: &Rc<Core>) -> StageTimes {
    let looked = core.on_each(|core| async move { (times_of(&core), slow_of(&core)) }).await;
    let (cores, slow): (Vec<_>, Vec<_>) = looked.into_iter().unzip();
    let mut slow = slow.concat();
    slow.sort_by_key(|request| request.at_ms);
    let absent = [(Text::from_static(Stage::Replicate.name()), Text::from_static(NO_REPLICATION))];
    StageTimes { absent: absent.into(), cores, slow, slower_than_micros: core.config().stages.slower_than_us }
}

fn times_of(core: &Core) -> CoreTimes {
    let kinds = core.stages.kinds.borrow();
    let requests = Kind::ALL.map(|kind| {
        let times = &kinds[kind as usize];
        let stages = kind.stages().iter().map(|stage| stage_time(stage.name(), &times.stages[*stage as usize]));
        let total = std::iter::once(stage_time(TOTAL, &times.total));
        RequestTimes { request: Text::from_static(kind.name()), stages: stages.chain(total).collect() }
    });
    CoreTimes { core: core.id.0, requests: requests.to_vec(), turns: turns_here() }
}

fn turns_here() -> CoreTurns {
    let turns = turns::of_this_core();
    let long = |turn: turns::LongTurn| LongTurn {
        at_ms: turn.at.0,
        nanos: turn.nanos,
        number: turn.number,
        tasks: turn.tasks,
        waited_nanos_max: turn.waited_nanos_max,
    };
    CoreTurns {
        count: turns.count,
        long: turns.long.into_iter().map(long).collect(),
        long_count: turns.long_count,
        long_from_nanos: turns::LONG.as_nanos() as u64,
        sum_nanos: turns.nanos,
        waited_nanos: turns.waited_nanos,
    }
}

fn stage_time(name: &'static str, times: &Times) -> StageTime {
    let bucket = |(limit_nanos, count)| TimeBucket { count, limit_nanos };
    StageTime {
        buckets: times.histogram.seen().map(bucket).collect(),
        stage: Text::from_static(name),
        sum_nanos: times.units * UNIT_NS,
    }
}

fn slow_of(core: &Core) -> Vec<SlowRequest> {
    let Stages { slow, .. } = &core.stages;
    let request = |slow: &Slow| {
        let kind = Kind::of(&slow.trip);
        let passed = kind.stages().iter().filter(|stage| slow.trip.units(**stage) > 0);
        let stage = |stage: &Stage| SlowStage {
            nanos: u64::from(slow.trip.units(*stage)) * UNIT_NS,
            stage: Text::from_static(stage.name()),
        };
        SlowRequest {
            at_ms: slow.at.0,
            core: core.id.0,
            opaque: slow.trip.opaque,
            owner: slow.trip.owner.0,
            peer: Text::from(slow.peer.to_string()),
            request: Text::from_static(kind.name()),
            stages: passed.map(stage).collect(),
        }
    };
    slow.borrow().iter().map(request).collect()
}
