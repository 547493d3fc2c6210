//! Sends that were slow for their client, one by one, with what the target says of each.

use std::collections::HashMap;

use remoting::body::stages::{SlowRequest, SlowStage, StageTimes};
use serde_json::{Value, json};

use crate::report::rounded;

/// Slow sends that one connection keeps. Beyond it the slowest are kept.
const KEPT_MAX: usize = 1024;
/// Slow sends that a phase tells, the slowest first.
const TOLD_MAX: usize = 100;

/// A send that took long from when it was due to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlowSend {
    latency_ns: u64,
    /// Of the connection at this side.
    port: u16,
    opaque: i32,
}

/// Those of a connection, or of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlowSends {
    /// 0: none are kept.
    slower_than_ns: u64,
    port: u16,
    kept: Vec<SlowSend>,
}

impl SlowSends {
    pub(crate) fn above(slower_than_ns: u64) -> SlowSends {
        SlowSends { slower_than_ns, ..SlowSends::default() }
    }

    /// What is noted from now on came over a connection from this port.
    pub(crate) fn over(&mut self, port: u16) {
        self.port = port;
    }

    pub(crate) fn note(&mut self, opaque: i32, latency_ns: u64) {
        if self.slower_than_ns == 0 || latency_ns <= self.slower_than_ns {
            return;
        }
        self.kept.push(SlowSend { latency_ns, port: self.port, opaque });
        if self.kept.len() == 2 * KEPT_MAX {
            self.keep_slowest(KEPT_MAX);
        }
    }

    pub(crate) fn merge(&mut self, other: SlowSends) {
        self.slower_than_ns = self.slower_than_ns.max(other.slower_than_ns);
        self.kept.extend(other.kept);
    }

    fn keep_slowest(&mut self, count: usize) {
        self.kept.sort_unstable_by(|one, other| other.cmp(one));
        self.kept.truncate(count);
    }

    /// Why the target cannot tell the stages of all of them.
    pub(crate) fn warning(&self, times: Option<&StageTimes>) -> Option<String> {
        let wanted_us = self.slower_than_ns / 1000;
        let (kept_us, times) = match times {
            _ if wanted_us == 0 => return None,
            None => return Some("the target does not tell where its time goes: slow sends have no stages".to_owned()),
            Some(times) => (times.slower_than_micros, times),
        };
        if kept_us > 0 && kept_us <= wanted_us || times.cores.is_empty() {
            return None;
        }
        let kept = if kept_us == 0 { "no slow requests".to_owned() } else { format!("requests above {kept_us} us") };
        let cure = format!("updateBrokerConfig -k traceSlowerThanMicros -v {wanted_us}");
        Some(format!("the target keeps {kept}: for the stages of all slow sends, `ringmq admin {cure}`"))
    }

    /// The slowest, each with the stages of the request at the target that came from the same port under the same
    /// number after `since_ms`.
    pub(crate) fn told(mut self, times: Option<&StageTimes>, since_ms: u64) -> Vec<Value> {
        self.keep_slowest(TOLD_MAX);
        let traces = times.into_iter().flat_map(|times| &times.slow).filter(|trace| trace.at_ms >= since_ms);
        let traces: HashMap<(u16, i32), &SlowRequest> =
            traces.filter_map(|trace| Some(((port_of(trace)?, trace.opaque), trace))).collect();
        self.kept.iter().map(|slow| told(slow, traces.get(&(slow.port, slow.opaque)).copied())).collect()
    }
}

fn port_of(trace: &SlowRequest) -> Option<u16> {
    trace.peer.rsplit_once(':')?.1.parse().ok()
}

fn told(slow: &SlowSend, trace: Option<&SlowRequest>) -> Value {
    let us = |nanos: u64| rounded(nanos as f64 / 1e3, 1);
    let mut told = json!({"latency_us": us(slow.latency_ns), "port": slow.port, "opaque": slow.opaque});
    if let Some(trace) = trace {
        let server_ns = trace.nanos();
        let stage = |stage: &SlowStage| json!({"stage": stage.stage.as_str(), "us": us(stage.nanos)});
        told["core"] = json!(trace.core);
        told["owner"] = json!(trace.owner);
        told["server_us"] = us(server_ns);
        told["rest_us"] = rounded((slow.latency_ns as f64 - server_ns as f64) / 1e3, 1);
        told["stages"] = json!(trace.stages.iter().map(stage).collect::<Vec<_>>());
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use remoting::body::stages::CoreTimes;
    use remoting::text::Text;

    #[test]
    fn the_slowest_are_kept_and_found_at_the_target() {
        let mut first = SlowSends::above(1_000_000);
        first.over(7);
        (0..5000).for_each(|opaque| first.note(opaque, 1_000_000 + opaque as u64));
        let mut all = SlowSends::above(1_000_000);
        all.over(8);
        all.note(4999, 9_000_000);
        all.note(3, 1_000_000);
        all.merge(first);
        let trace = |peer: &'static str, at_ms, nanos| SlowRequest {
            at_ms,
            opaque: 4999,
            peer: Text::from_static(peer),
            stages: vec![SlowStage { nanos, stage: Text::from_static("flush") }],
            ..SlowRequest::default()
        };
        let slow = vec![trace("127.0.0.1:8", 4, 1), trace("127.0.0.1:8", 5, 8_000_000), trace("127.0.0.1:9", 5, 2)];
        let cores = vec![CoreTimes::default()];
        let times = StageTimes { slow, cores, slower_than_micros: 1000, ..StageTimes::default() };
        assert_eq!(all.warning(Some(&times)), None);
        let told = all.told(Some(&times), 5);
        assert_eq!(told.len(), TOLD_MAX);
        assert_eq!((&told[0]["latency_us"], &told[0]["stages"][0]["us"]), (&json!(9000.0), &json!(8000.0)));
        assert_eq!(
            (&told[0]["rest_us"], &told[1]["opaque"], &told[1]["server_us"]),
            (&json!(1000.0), &json!(4999), &Value::Null)
        );
    }

    #[test]
    fn what_the_target_does_not_keep_is_told_with_the_cure() {
        let cores = vec![CoreTimes::default()];
        let times =
            |slower_than_micros| StageTimes { slower_than_micros, cores: cores.clone(), ..StageTimes::default() };
        let slow = SlowSends::above(5_000_000);
        for (kept_us, word) in [(0, "keeps no slow"), (50_000, "above 50000 us")] {
            let warning = slow.warning(Some(&times(kept_us))).expect("a warning");
            assert!(warning.contains(word) && warning.contains("-v 5000"), "{warning}");
        }
        assert_eq!(slow.warning(Some(&times(5000))), None);
        assert!(slow.warning(None).is_some());
        assert_eq!(SlowSends::default().warning(None), None);
    }
}
