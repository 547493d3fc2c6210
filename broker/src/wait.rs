//! Pulls that wait for a message: parked under their queue until something arrives that fits.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use base::QueueId;
use remoting::subscription::SubscriptionData;
use remoting::text::Text;
use runtime::clock;
use runtime::sync::{OnceSender, once};

/// Pulls parked on one core. Beyond it a pull is answered at once, empty.
const PULLS_PARKED_MAX: usize = 100_000;

struct Parked {
    number: u64,
    wanted: Rc<SubscriptionData>,
    wake: OnceSender<()>,
}

/// The parked pulls of the queues that this core owns.
#[derive(Default)]
pub(crate) struct Waits {
    parked: RefCell<HashMap<Text, HashMap<QueueId, Vec<Parked>>>>,
    count: Cell<usize>,
    next_number: Cell<u64>,
}

impl Waits {
    /// Whether another pull may be parked.
    pub(crate) fn has_room(&self) -> bool {
        self.count.get() < PULLS_PARKED_MAX
    }

    /// Waits until a message that `wanted` may want arrives in the queue, or `span` has passed.
    pub(crate) async fn wait(&self, topic: &Text, queue: QueueId, wanted: Rc<SubscriptionData>, span: Duration) {
        let (wake, woken) = once();
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        let parked = Parked { number, wanted, wake };
        self.parked.borrow_mut().entry(topic.clone()).or_default().entry(queue).or_default().push(parked);
        self.count.set(self.count.get() + 1);
        if clock::within(span, woken.receive()).await.is_none() {
            self.remove(topic, queue, number);
        }
        self.count.set(self.count.get() - 1);
    }

    /// A message with this tag code became visible in the queue.
    pub(crate) fn arrived(&self, topic: &str, queue: QueueId, tags_code: i64) {
        if self.count.get() == 0 {
            return;
        }
        let mut topics = self.parked.borrow_mut();
        let Some(queues) = topics.get_mut(topic) else { return };
        let Some(parked) = queues.get_mut(&queue) else { return };
        for pull in parked.extract_if(.., |pull| pull.wanted.matches(tags_code)) {
            pull.wake.send(());
        }
        if parked.is_empty() {
            queues.remove(&queue);
            if queues.is_empty() {
                topics.remove(topic);
            }
        }
    }

    /// Wakes all pulls of a topic: it was deleted or changed.
    pub(crate) fn wake_topic(&self, topic: &str) {
        self.parked.borrow_mut().remove(topic);
    }

    /// Wakes all pulls: the broker stops.
    pub(crate) fn wake_all(&self) {
        self.parked.take();
    }

    fn remove(&self, topic: &Text, queue: QueueId, number: u64) {
        let mut topics = self.parked.borrow_mut();
        let Some(queues) = topics.get_mut(topic) else { return };
        if let Some(parked) = queues.get_mut(&queue) {
            parked.retain(|pull| pull.number != number);
            if parked.is_empty() {
                queues.remove(&queue);
            }
        }
        if queues.is_empty() {
            topics.remove(topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(expression: &str) -> Rc<SubscriptionData> {
        Rc::new(SubscriptionData::parse(Text::from("T"), Some(expression)).expect("a subscription"))
    }

    #[test]
    fn only_what_fits_wakes_and_nothing_stays_behind() {
        runtime::run_here(async {
            let waits = Rc::new(Waits::default());
            let topic = Text::from("T");
            let long = Duration::from_secs(60);
            let ended = Rc::new(Cell::new(0));
            for (queue, expression) in [(0, "a"), (0, "b"), (1, "*"), (0, "*")] {
                let (waits, topic, ended) = (waits.clone(), topic.clone(), ended.clone());
                runtime::spawn(async move {
                    waits.wait(&topic, QueueId(queue), wanted(expression), long).await;
                    ended.set(ended.get() + 1);
                });
            }
            while waits.count.get() < 4 {
                runtime::yield_now().await;
            }
            waits.arrived("T", QueueId(0), remoting::subscription::tags_code(Some("a")));
            while waits.count.get() > 2 {
                runtime::yield_now().await;
            }
            assert_eq!(ended.get(), 2, "tag a wakes a and *, not b and not the other queue");
            waits.wait(&topic, QueueId(5), wanted("*"), Duration::from_millis(1)).await;
            waits.wake_all();
            while waits.count.get() > 0 {
                runtime::yield_now().await;
            }
            assert!(waits.parked.borrow().is_empty());
        })
        .expect("an executor");
    }
}
