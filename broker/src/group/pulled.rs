//! How far groups have pulled in the queues of this core, acknowledged or not: what tools show as in flight.
//!
//! It is kept in memory only, by the core that owns the queue, and begins anew with the process.

use std::cell::RefCell;
use std::collections::HashMap;

use base::{QueueId, QueueOffset};
use remoting::text::Text;

/// Queues of all groups that are remembered. Beyond it all are forgotten, and come back with the next pulls.
const QUEUES_MAX: usize = 100_000;

#[derive(Default)]
pub(crate) struct Pulled {
    offsets: RefCell<Offsets>,
}

#[derive(Default)]
struct Offsets {
    /// By group, then by topic.
    groups: HashMap<Text, HashMap<Text, Vec<(QueueId, QueueOffset)>>>,
    queue_count: usize,
}

impl Pulled {
    /// A pull of the group was answered with all that is in front of `next`.
    pub(crate) fn note(&self, group: &Text, topic: &Text, queue: QueueId, next: QueueOffset) {
        let mut offsets = self.offsets.borrow_mut();
        let known = offsets.groups.get_mut(&**group).and_then(|topics| topics.get_mut(&**topic));
        if let Some((_, known)) = known.and_then(|queues| queues.iter_mut().find(|(id, _)| *id == queue)) {
            *known = next;
            return;
        }
        if offsets.queue_count >= QUEUES_MAX {
            *offsets = Offsets::default();
        }
        offsets.queue_count += 1;
        let topics = offsets.groups.entry(group.detached()).or_default();
        topics.entry(topic.detached()).or_default().push((queue, next));
    }

    /// Behind the last message that the group pulled; 0 when it pulled none.
    pub(crate) fn get(&self, group: &str, topic: &str, queue: QueueId) -> QueueOffset {
        let offsets = self.offsets.borrow();
        let queues = offsets.groups.get(group).and_then(|topics| topics.get(topic));
        queues
            .and_then(|queues| queues.iter().find(|(id, _)| *id == queue))
            .map_or(QueueOffset::ZERO, |(_, next)| *next)
    }

    pub(crate) fn forget_group(&self, group: &str) {
        self.offsets.borrow_mut().retain(|known, _| known != group);
    }

    pub(crate) fn forget_topic(&self, topic: &str) {
        self.offsets.borrow_mut().retain(|_, known| known != topic);
    }
}

impl Offsets {
    fn retain(&mut self, keep: impl Fn(&str, &str) -> bool) {
        for (group, topics) in &mut self.groups {
            topics.retain(|topic, _| keep(group, topic));
        }
        self.groups.retain(|_, topics| !topics.is_empty());
        self.queue_count = self.groups.values().flat_map(HashMap::values).map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(pulled: &Pulled, group: &'static str, topic: &'static str, queue: u32, next: u64) {
        pulled.note(&Text::from_static(group), &Text::from_static(topic), QueueId(queue), QueueOffset(next));
    }

    #[test]
    fn the_last_pull_counts_until_group_or_topic_is_gone() {
        let pulled = Pulled::default();
        note(&pulled, "g", "T", 0, 5);
        note(&pulled, "g", "T", 0, 3);
        note(&pulled, "g", "U", 1, 7);
        note(&pulled, "h", "T", 0, 9);
        let all = || {
            [("g", "T", 0), ("g", "U", 1), ("h", "T", 0), ("h", "T", 1)]
                .map(|(group, topic, queue)| pulled.get(group, topic, QueueId(queue)).0)
        };
        assert_eq!(all(), [3, 7, 9, 0], "a pull may go back");
        pulled.forget_topic("T");
        assert_eq!(all(), [0, 7, 0, 0]);
        pulled.forget_group("g");
        assert_eq!((all(), pulled.offsets.borrow().queue_count), ([0; 4], 0));
    }

    #[test]
    fn a_full_memory_begins_anew() {
        let pulled = Pulled::default();
        for number in 0..=QUEUES_MAX {
            let topic = Text::from(format!("T{number}"));
            pulled.note(&Text::from_static("g"), &topic, QueueId(0), QueueOffset(1));
        }
        assert_eq!(pulled.offsets.borrow().queue_count, 1);
    }
}
