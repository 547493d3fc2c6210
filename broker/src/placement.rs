//! Who owns what: pure functions from names to logs and cores.

use base::{CoreId, LogId, QueueId, stable_hash};

/// Numbers of logs (fixed for the life of a store) and cores (of this run).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) logs: u16,
    pub(crate) cores: u16,
}

/// The core that holds the tables of topics, groups and configuration.
pub(crate) const TABLES_CORE: CoreId = CoreId(0);

impl Placement {
    /// The log of a queue: the queues of one topic spread over all logs.
    pub(crate) fn log_of(self, topic_hash: u64, queue: QueueId) -> LogId {
        LogId(((topic_hash % u64::from(self.logs) + u64::from(queue.0)) % u64::from(self.logs)) as u16)
    }

    /// The first queue of a topic that lies in a log.
    pub(crate) fn queue_in_log(self, topic_hash: u64, log: LogId) -> QueueId {
        let logs = u64::from(self.logs);
        QueueId(((u64::from(log.0) + logs - topic_hash % logs) % logs) as u32)
    }

    /// The core that opens a log.
    pub(crate) fn core_of_log(self, log: LogId) -> CoreId {
        CoreId(log.0 % self.cores)
    }

    /// The core that holds a group's members, offsets and locks.
    pub(crate) fn core_of_group(self, group: &str) -> CoreId {
        CoreId((stable_hash(group) % u64::from(self.cores)) as u16)
    }

    /// The core that knows where a client waits for replies.
    pub(crate) fn core_of_client(self, client_id: &str) -> CoreId {
        CoreId((stable_hash(client_id) % u64::from(self.cores)) as u16)
    }

    pub(crate) fn core_of_queue(self, topic: &str, queue: QueueId) -> CoreId {
        self.core_of_log(self.log_of(stable_hash(topic), queue))
    }

    pub(crate) fn all_cores(self) -> impl Iterator<Item = CoreId> {
        (0..self.cores).map(CoreId)
    }

    /// The logs that a core opens.
    pub(crate) fn logs_of(self, core: CoreId) -> impl Iterator<Item = LogId> {
        (core.0..self.logs).step_by(usize::from(self.cores)).map(LogId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_log_has_one_core_and_a_topics_queues_spread() {
        for (logs, cores) in [(1, 1), (4, 2), (8, 3), (2, 4)] {
            let placement = Placement { logs, cores };
            let mut opened: Vec<u16> =
                placement.all_cores().flat_map(|core| placement.logs_of(core)).map(|log| log.0).collect();
            opened.sort_unstable();
            assert_eq!(opened, (0..logs).collect::<Vec<_>>());
            let mut used: Vec<u16> =
                (0..u32::from(logs)).map(|queue| placement.log_of(stable_hash("t"), QueueId(queue)).0).collect();
            used.sort_unstable();
            assert_eq!(used, (0..logs).collect::<Vec<_>>(), "{logs} queues on {logs} logs");
            for log in (0..logs).map(LogId) {
                let queue = placement.queue_in_log(stable_hash("t"), log);
                assert_eq!((placement.log_of(stable_hash("t"), queue), queue.0 < u32::from(logs)), (log, true));
            }
        }
    }
}
