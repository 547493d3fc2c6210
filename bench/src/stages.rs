//! Where the target's time went in a phase: what it counted in its stages, and what of the client's time is left.

use std::net::SocketAddr;

use hdrhistogram::Histogram;
use remoting::body::stages::{RequestTimes, StageTime, StageTimes, TOTAL};
use serde_json::{Value, json};

use crate::asked::Asked;
use crate::clock::RunClock;
use crate::identity::client;
use crate::record::{Gathered, Kind};
use crate::report::rounded;
use crate::tally::Waits;

/// An answer that comes later than after this share of the measured span counts too little or too much to be told without a word.
const LATE_SHARE_MAX: f64 = 0.05;

/// What the target has counted so far, as it is asked beside what is measured.
pub(crate) struct Look {
    /// None: there is no thread for the question.
    asked: Option<Asked<Answer>>,
}

struct Answer {
    /// How long it took.
    after_ns: u64,
    told: Told,
}

enum Told {
    Times(StageTimes),
    /// It does not tell, as brokers of other makes do not.
    Refusal,
    Silence,
}

impl Look {
    pub(crate) fn begin(broker: SocketAddr, clock: RunClock) -> Look {
        let (address, asked_ns) = (broker.to_string(), clock.now_ns());
        let question = move || {
            let told = runtime::run_here(async move { client(&address).stage_times(&address).await });
            let told = match told {
                Ok(Ok(times)) => Told::Times(times),
                Ok(Err(error)) if !error.is_silence() => Told::Refusal,
                _ => Told::Silence,
            };
            Answer { after_ns: clock.now_ns() - asked_ns, told }
        };
        Look { asked: Asked::ask(question).ok() }
    }
}

/// What was counted between two looks, if the target tells; and what is to be said of that.
pub(crate) fn between(
    looks: [Look; 2],
    span_ns: u64,
    may_wait: &dyn Fn() -> bool,
) -> (Option<StageTimes>, Option<String>) {
    let silence = || Answer { after_ns: 0, told: Told::Silence };
    let answer = |look: Look| look.asked.and_then(|asked| asked.answer(may_wait)).unwrap_or_else(silence);
    let [before, after] = looks.map(answer);
    let late_ns = before.after_ns.max(after.after_ns);
    match (before.told, after.told) {
        (Told::Refusal, _) | (_, Told::Refusal) => (None, None),
        (Told::Times(before), Told::Times(after)) => {
            let is_late = late_ns as f64 > span_ns as f64 * LATE_SHARE_MAX;
            let late = || {
                format!(
                    "the target told its stages {:.1} s late: they are not of all of the span",
                    late_ns as f64 / 1e9
                )
            };
            (Some(after.since(&before)), is_late.then(late))
        }
        _ => (None, Some("the target did not answer where its time goes: there are no stages".to_owned())),
    }
}

/// The figures of a phase: `times` is what was counted in its measured span, `total` what its clients saw.
/// `waits` are those of its senders for answers that had arrived.
pub(crate) fn figures(times: &StageTimes, total: &Gathered, waits: Waits) -> Value {
    let requests = times.merged();
    let requests: Vec<Value> = requests.iter().map(|request| request_figures(request, times, total, waits)).collect();
    json!({"absent": times.absent, "requests": requests})
}

fn request_figures(request: &RequestTimes, times: &StageTimes, total: &Gathered, waits: Waits) -> Value {
    let name = request.request.as_str();
    let cores = times.cores.iter().filter_map(|core| {
        let stages = stage_rows(core.request(name)?);
        (!stages.is_empty()).then(|| json!({"core": core.core, "stages": stages}))
    });
    let mut figures = json!({"request": name, "stages": stage_rows(request), "cores": cores.collect::<Vec<_>>()});
    let kind = Kind::ALL.into_iter().find(|kind| kind.tag() == name);
    let client_us = kind.and_then(|kind| mean_us(total.times(kind)));
    if let (Some(whole), Some(client_us)) = (request.stage(TOTAL), client_us) {
        let server_us = whole.mean_nanos() / 1e3;
        figures["client_us"] = rounded(client_us, 1);
        figures["server_us"] = rounded(server_us, 1);
        if kind == Some(Kind::Send) {
            let lag_us = mean_us(total.times(Kind::SendLag)).unwrap_or(0.0);
            let wake_us = waits.nanoseconds as f64 / 1e3 / waits.count.max(1) as f64;
            let known_us = lag_us + server_us + wake_us;
            figures["send_lag_us"] = rounded(lag_us, 1);
            figures["client_wake_us"] = rounded(wake_us, 1);
            figures["network_us"] = rounded(client_us - known_us, 1);
            figures["explained"] = rounded(known_us / client_us, 3);
        }
    }
    figures
}

fn mean_us(times: &Histogram<u64>) -> Option<f64> {
    (!times.is_empty()).then(|| times.mean() / 1e3)
}

/// A row for each stage that was passed. `a_request_us` is over all requests, also those that did not pass it, so these
/// sum up to that of the whole; shares are of all stages.
fn stage_rows(request: &RequestTimes) -> Vec<Value> {
    let all_nanos = request.parts().map(|stage| stage.sum_nanos).sum::<u64>().max(1) as f64;
    let count = request.stage(TOTAL).map_or(0, StageTime::count);
    let count = if count > 0 { count } else { request.parts().map(StageTime::count).max().unwrap_or(1) };
    let row = |stage: &StageTime| {
        let us = |share| rounded(stage.quantile_nanos(share) as f64 / 1e3, 1);
        json!({
            "stage": stage.stage.as_str(),
            "count": stage.count(),
            "share": rounded(stage.sum_nanos as f64 / all_nanos, 4),
            "a_request_us": rounded(stage.sum_nanos as f64 / 1e3 / count as f64, 2),
            "mean_us": rounded(stage.mean_nanos() / 1e3, 2),
            "p50_us": us(0.5),
            "p99_us": us(0.99),
            "p99_9_us": us(0.999),
        })
    };
    request.passed().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Shelf;
    use remoting::body::stages::{CoreTimes, TimeBucket};
    use remoting::text::Text;

    fn stage(name: &'static str, count: u64, nanos: u64) -> StageTime {
        let buckets = vec![TimeBucket { count, limit_nanos: nanos }];
        StageTime { buckets, stage: Text::from_static(name), sum_nanos: count * nanos }
    }

    fn core(core: u16, stages: Vec<StageTime>) -> CoreTimes {
        let requests = vec![RequestTimes { request: Text::from_static("send"), stages }];
        CoreTimes { core, requests, ..CoreTimes::default() }
    }

    #[test]
    fn stages_sum_up_to_the_servers_time_and_the_rest_is_told() {
        let shelf = Shelf::new(0..1);
        let mut recorder = shelf.recorder();
        for _ in 0..10 {
            recorder.record(Kind::Send, 100_000);
            recorder.record(Kind::SendLag, 20_000);
        }
        drop(recorder);
        let (mut total, mut spare) = (Gathered::new(), Gathered::new());
        shelf.take(&mut total, &mut spare);
        let first = core(0, vec![stage("receive", 10, 8_000), stage("reply", 10, 12_000), stage(TOTAL, 10, 70_000)]);
        let second = core(1, vec![stage("route", 5, 20_000), stage("flush", 10, 40_000)]);
        let times = StageTimes { cores: vec![first, second], ..StageTimes::default() };
        let figures = figures(&times, &total, Waits { count: 10, nanoseconds: 50_000 });
        let send = &figures["requests"][0];
        let number = |value: &Value| value.as_f64().expect("a number");
        assert!((number(&send["server_us"]) - 70.0).abs() < 0.1, "{send:#}");
        assert!((number(&send["client_wake_us"]) - 5.0).abs() < 0.1, "{send:#}");
        assert!((number(&send["network_us"]) - 5.0).abs() < 0.2, "{send:#}");
        assert!((number(&send["explained"]) - 0.95).abs() < 0.002, "{send:#}");
        let rows = send["stages"].as_array().expect("rows");
        let parts = rows.iter().filter(|row| row["stage"] != TOTAL);
        let sum: f64 = parts.map(|row| number(&row["a_request_us"])).sum();
        assert!((sum - 70.0).abs() < 0.1, "{send:#}");
        assert_eq!(send["cores"].as_array().map(Vec::len), Some(2));
        assert_eq!(send["cores"][1]["stages"][0]["stage"], "route");
    }
}
