//! When a consumer with a backlog is through with it although a load goes on.

use super::Phase;
use crate::clock::RunClock;

/// When consumers with a backlog were no further behind than the load makes them.
pub(super) struct CaughtUp {
    /// Of all groups; 0: there is nothing to catch up with.
    backlog: u64,
    groups: u64,
    /// Messages behind which still count as caught up: what is sent in 100 ms.
    slack: u64,
    at_ns: Option<u64>,
}

impl CaughtUp {
    pub(super) fn new(phase: &Phase, rate: u64) -> CaughtUp {
        let groups = phase.reads.filter(|reads| reads.cold_groups == 0).map_or(0, |reads| u64::from(reads.groups));
        let backlog = phase.backlog.as_ref().map_or(0, |backlog| backlog.messages);
        CaughtUp { backlog: backlog * groups, groups, slack: (rate / 10).max(100) * groups, at_ns: None }
    }

    pub(super) fn look(&mut self, clock: RunClock, answered: u64, pulled: u64) {
        let wanted = self.backlog + answered * self.groups;
        if self.at_ns.is_none() && self.backlog > 0 && pulled + self.slack >= wanted {
            self.at_ns = Some(clock.now_ns());
        }
    }

    pub(super) fn seconds(&self, from_ns: u64) -> Option<f64> {
        let at_ns = self.at_ns?;
        Some((at_ns.saturating_sub(from_ns) as f64 / 1e6).round() / 1e3)
    }
}
