//! What a send touches of each queue of this core: where it lies in its log, and what was stored in it. With very many queues none
//! of it is in a cache of the CPU, so it lies together, and can be asked for before it is needed.

use std::cell::RefCell;
use std::slice;

use base::QueueId;
use storage::{Log, QueueRef};

use crate::stats::Tally;
use crate::topic::Topic;

#[derive(Default)]
struct Handle {
    /// `None` until it is sent to in the usual way.
    queue: Option<QueueRef>,
    stored: Tally,
}

/// By the topics' numbers, then by the queues' ids; what was not used yet may be missing at the end.
#[derive(Default)]
pub(crate) struct Handles {
    by_topic: RefCell<Vec<Vec<Handle>>>,
}

impl Handles {
    /// Asks the processor to bring a queue's handle close.
    pub(crate) fn prefetch(&self, topic: &Topic, queue: QueueId) {
        self.look(topic, queue, |handle| runtime::buffer::prefetch(slice::from_ref(handle)));
    }

    /// As [`Handles::prefetch`], once that is close: what an append to the queue will touch.
    pub(crate) fn prefetch_queue(&self, topic: &Topic, queue: QueueId) {
        self.look(topic, queue, |handle| handle.queue.iter().for_each(|queue| queue.prefetch()));
    }

    fn look(&self, topic: &Topic, queue: QueueId, look: impl FnOnce(&Handle)) {
        let by_topic = self.by_topic.borrow();
        by_topic.get(topic.number as usize).and_then(|handles| handles.get(queue.0 as usize)).map(look);
    }

    /// A queue in its log, made there if need be. `topic` is what is known of it now: another one may have its number later.
    pub(crate) fn queue(&self, topic: &Topic, queue: QueueId, log: &Log) -> QueueRef {
        self.with(topic, queue, |handle| handle.queue.get_or_insert_with(|| log.queue(topic.name(), queue)).clone())
    }

    /// Messages were stored in a queue by one request. Whether they are the first.
    pub(crate) fn stored(&self, topic: &Topic, queue: QueueId, messages: u64, bytes: u64) -> bool {
        self.with(topic, queue, |handle| {
            handle.stored.add(messages, bytes);
            handle.stored.calls == 1
        })
    }

    /// What was stored in each queue of the topic of this number.
    pub(crate) fn tallies(&self, number: usize) -> Vec<Tally> {
        self.by_topic.borrow().get(number).into_iter().flatten().map(|handle| handle.stored).collect()
    }

    /// The topic of this number is deleted.
    pub(crate) fn forget_topic(&self, number: u32) {
        if let Some(handles) = self.by_topic.borrow_mut().get_mut(number as usize) {
            *handles = Vec::new();
        }
    }

    fn with<T>(&self, topic: &Topic, queue: QueueId, use_handle: impl FnOnce(&mut Handle) -> T) -> T {
        let mut by_topic = self.by_topic.borrow_mut();
        let (number, at) = (topic.number as usize, queue.0 as usize);
        if by_topic.len() <= number {
            by_topic.resize_with(number + 1, Vec::new);
        }
        let handles = &mut by_topic[number];
        if handles.len() <= at {
            handles.resize_with(at + 1, Handle::default);
        }
        use_handle(&mut handles[at])
    }
}

#[cfg(test)]
mod tests {
    use remoting::body::topic::TopicConfig;
    use remoting::text::Text;

    use super::*;

    #[test]
    fn what_was_stored_is_counted_where_it_lies() {
        let topic =
            |number| Topic::new(number, TopicConfig { topic_name: Text::from("T"), ..Default::default() }, false);
        let handles = Handles::default();
        assert!(handles.stored(&topic(3), QueueId(2), 5, 500));
        assert!(!handles.stored(&topic(3), QueueId(2), 1, 100), "only the first is the first");
        assert!(handles.stored(&topic(0), QueueId(0), 1, 10));
        let two = Tally { calls: 2, messages: 6, bytes: 600 };
        assert_eq!(handles.tallies(3), [Tally::default(), Tally::default(), two]);
        assert_eq!((handles.tallies(1), handles.tallies(9)), (vec![], vec![]));
        // Nothing is there yet: a hint for nothing.
        handles.prefetch(&topic(77), QueueId(7));
        handles.prefetch_queue(&topic(0), QueueId(0));
        handles.forget_topic(3);
        handles.forget_topic(77);
        assert_eq!((handles.tallies(3), handles.tallies(0).len()), (vec![], 1));
        assert!(handles.stored(&topic(3), QueueId(0), 1, 1), "the number has another topic now");
    }
}
