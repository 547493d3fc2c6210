//! Resets of offsets that a pull of this core's queues must tell its consumer. Pure.

use std::collections::HashMap;

use base::{QueueId, QueueOffset};
use remoting::text::Text;

/// Resets by group, topic and queue. Nearly always empty, so that a pull pays a look at a number.
#[derive(Debug, Default)]
pub(super) struct Resets {
    pending: HashMap<(Text, Text, QueueId), QueueOffset>,
}

impl Resets {
    pub(super) fn put(&mut self, group: &Text, topic: &Text, queue: QueueId, to: QueueOffset) {
        self.pending.insert((group.clone(), topic.clone(), queue), to);
    }

    /// Where the next pull of a group from a queue must be moved to; given once.
    pub(super) fn take(&mut self, group: &Text, topic: &Text, queue: QueueId) -> Option<QueueOffset> {
        if self.pending.is_empty() {
            return None;
        }
        self.pending.remove(&(group.clone(), topic.clone(), queue))
    }

    pub(super) fn forget_group(&mut self, group: &str) {
        self.pending.retain(|(of, _, _), _| of != group);
    }

    pub(super) fn forget_topic(&mut self, topic: &str) {
        self.pending.retain(|(_, of, _), _| of != topic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_is_told_once() {
        let mut resets = Resets::default();
        let (g, h, t) = (Text::from("g"), Text::from("h"), Text::from("T"));
        assert_eq!(resets.take(&g, &t, QueueId(0)), None);
        for queue in 0..3 {
            resets.put(&g, &t, QueueId(queue), QueueOffset(7 + u64::from(queue)));
        }
        resets.put(&h, &t, QueueId(0), QueueOffset(1));
        assert_eq!(resets.take(&g, &t, QueueId(0)), Some(QueueOffset(7)));
        assert_eq!(resets.take(&g, &t, QueueId(0)), None);
        resets.forget_group("g");
        assert_eq!((resets.take(&g, &t, QueueId(1)), resets.pending.len()), (None, 1));
        resets.forget_topic("T");
        assert!(resets.pending.is_empty());
    }
}
