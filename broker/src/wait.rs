//! Pulls that wait for a message: parked under their queue until something arrives that fits.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
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

/// What a pull waits for, and for which group.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) group: Text,
    pub(crate) topic: Text,
    pub(crate) queue: QueueId,
    pub(crate) wanted: Rc<SubscriptionData>,
}

/// Where pulls are parked, by their numbers.
type Places = BTreeMap<u64, (Text, QueueId)>;

/// The parked pulls of the queues that this core owns.
#[derive(Default)]
pub(crate) struct Waits {
    parked: RefCell<HashMap<Text, HashMap<QueueId, Vec<Parked>>>>,
    by_group: RefCell<HashMap<Text, Places>>,
    count: Cell<usize>,
    next_number: Cell<u64>,
}

impl Waits {
    /// Whether another pull may be parked.
    pub(crate) fn has_room(&self) -> bool {
        self.count.get() < PULLS_PARKED_MAX
    }

    /// Waits until a message that the pull may want arrives in the queue, or `span` has passed.
    pub(crate) async fn wait(&self, wish: Wish, span: Duration) {
        let Wish { group, topic, queue, wanted } = wish;
        let (wake, woken) = once();
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        let parked = Parked { number, wanted, wake };
        self.parked.borrow_mut().entry(topic.clone()).or_default().entry(queue).or_default().push(parked);
        self.by_group.borrow_mut().entry(group.clone()).or_default().insert(number, (topic.clone(), queue));
        self.count.set(self.count.get() + 1);
        if clock::within(span, woken.receive()).await.is_none() {
            self.remove(&topic, queue, number);
        }
        self.forget(&group, number);
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

    /// Wakes pulls of a group: its subscriptions to these topics, or its offsets in them, are others.
    pub(crate) fn wake_group(&self, group: &str, is_about: impl Fn(&Text) -> bool) {
        // Each forgets its own place when it wakes.
        if let Some(places) = self.by_group.borrow().get(group) {
            for (number, (topic, queue)) in places.iter().filter(|(_, (topic, _))| is_about(topic)) {
                self.remove(topic, *queue, *number);
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

    fn forget(&self, group: &Text, number: u64) {
        let mut groups = self.by_group.borrow_mut();
        if let Some(places) = groups.get_mut(group) {
            places.remove(&number);
            if places.is_empty() {
                groups.remove(group);
            }
        }
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

    fn wish(group: &str, queue: u32, expression: &str) -> Wish {
        Wish {
            group: Text::from(group),
            topic: Text::from("T"),
            queue: QueueId(queue),
            wanted: Rc::new(SubscriptionData::parse(Text::from("T"), Some(expression)).expect("a subscription")),
        }
    }

    /// Parks these for long, and returns how many of them have ended.
    async fn park(waits: &Rc<Waits>, wishes: &[Wish]) -> Rc<Cell<usize>> {
        let ended = Rc::new(Cell::new(0));
        for wish in wishes {
            let (waits, wish, ended) = (waits.clone(), wish.clone(), ended.clone());
            runtime::spawn(async move {
                waits.wait(wish, Duration::from_secs(60)).await;
                ended.set(ended.get() + 1);
            });
        }
        until_parked(waits, wishes.len()).await;
        ended
    }

    async fn until_parked(waits: &Waits, count: usize) {
        while waits.count.get() != count {
            runtime::yield_now().await;
        }
    }

    #[test]
    fn only_what_fits_wakes_and_nothing_stays_behind() {
        runtime::run_here(async {
            let waits = Rc::new(Waits::default());
            let ended =
                park(&waits, &[wish("g", 0, "a"), wish("g", 0, "b"), wish("g", 1, "*"), wish("h", 0, "*")]).await;
            waits.arrived("T", QueueId(0), remoting::subscription::tags_code(Some("a")));
            until_parked(&waits, 2).await;
            assert_eq!(ended.get(), 2, "tag a wakes a and *, not b and not the other queue");
            waits.wait(wish("g", 5, "*"), Duration::from_millis(1)).await;
            waits.wake_all();
            until_parked(&waits, 0).await;
            assert!(waits.parked.borrow().is_empty() && waits.by_group.borrow().is_empty());
        })
        .expect("an executor");
    }

    #[test]
    fn a_group_that_changed_wakes_its_own_pulls_only() {
        runtime::run_here(async {
            let waits = Rc::new(Waits::default());
            let ended = park(&waits, &[wish("g", 0, "*"), wish("h", 0, "*"), wish("g", 1, "*")]).await;
            waits.wake_group("g", |topic| *topic == "U");
            waits.wake_group("g", |topic| *topic == "T");
            waits.wake_group("nobody", |_| true);
            until_parked(&waits, 1).await;
            assert_eq!(ended.get(), 2);
            waits.arrived("T", QueueId(0), 0);
            until_parked(&waits, 0).await;
            assert!(waits.parked.borrow().is_empty() && waits.by_group.borrow().is_empty());
        })
        .expect("an executor");
    }
}
