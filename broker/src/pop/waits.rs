//! Pops that wait for a message, wherever its queue lies.
//!
//! A waiting pop lives on the core of its connection and is parked on each core that owns one of its queues. Whoever has
//! something for it takes it out and wakes it at home, one pop of each group for each message. A wake is not lost: it goes
//! to the next pop of the group when the first was woken by another core, has ended, or had enough without it. A pop that
//! ends leaves all cores where it is still parked.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{CoreId, QueueId};
use remoting::subscription::SubscriptionData;
use remoting::text::Text;
use runtime::clock;
use runtime::sync::{OnceReceiver, OnceSender, once};
use transport::ConnectionId;

use crate::core::Core;

/// Pops that wait with connections of one core. Beyond it a pop that finds nothing is answered at once, as too many.
const WAITING_MAX: usize = 100_000;

/// What a pop waits for.
#[derive(Debug)]
pub(crate) struct Interest {
    pub(crate) group: Text,
    /// Topics, and the queue that is meant; `None`: any of them.
    pub(crate) topics: Vec<(Text, Option<QueueId>)>,
    pub(crate) wanted: SubscriptionData,
    /// A message is enough for one of those that take it. Who only wants to know is woken beside them.
    pub(crate) takes: bool,
}

/// Names a waiting pop on any core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    connection: ConnectionId,
    number: u64,
}

#[derive(Clone)]
struct Parked {
    name: Name,
    interest: Arc<Interest>,
}

/// Why pops are woken: what there is now, and for whom.
struct Cause {
    topic: Text,
    /// `None`: in any of its queues.
    queue: Option<QueueId>,
    /// Of a message; `None`: whatever they filter by.
    tags_code: Option<i64>,
    /// `None`: for all.
    group: Option<Text>,
}

#[derive(Default)]
pub(crate) struct PopWaits {
    /// Pops of this core's connections.
    waiting: RefCell<BTreeMap<Name, OnceSender<()>>>,
    next_number: Cell<u64>,
    /// By topic: pops that want messages of this core's queues, in the order in which they came.
    parked: RefCell<HashMap<Text, Vec<Parked>>>,
}

impl PopWaits {
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.borrow().len() < WAITING_MAX
    }

    /// A message became visible in a queue of this core.
    pub(crate) fn arrived(&self, core: &Rc<Core>, topic: &str, queue: QueueId, tags_code: i64) {
        if !self.parked.borrow().contains_key(topic) {
            return;
        }
        let topic = Text::from(topic);
        self.wake(core, Cause { topic, queue: Some(queue), tags_code: Some(tags_code), group: None });
    }

    /// A group may pop a queue of this core again.
    pub(crate) fn reopened(&self, core: &Rc<Core>, group: &Text, topic: &Text, queue: QueueId) {
        let (topic, group) = (topic.clone(), Some(group.clone()));
        self.wake(core, Cause { topic, queue: Some(queue), tags_code: None, group });
    }

    /// A topic is there, has other queues, or is gone: those who wait for its messages look again.
    pub(crate) fn wake_topic(&self, core: &Rc<Core>, topic: &str) {
        let parked = self.parked.borrow_mut().remove(topic);
        for pop in parked.into_iter().flatten() {
            self.leave(&pop);
            self.wake_at_home(core, &pop, None);
        }
    }

    /// Wakes the first of each group among those that are parked here and fit, and those that take nothing.
    fn wake(&self, core: &Rc<Core>, cause: Cause) {
        let mut causes = vec![cause];
        while let Some(cause) = causes.pop() {
            for pop in self.first_fitting(&cause) {
                self.leave(&pop);
                let next = pop.interest.takes.then(|| cause.of_group(&pop.interest.group));
                causes.extend(self.wake_at_home(core, &pop, next));
            }
        }
    }

    fn first_fitting(&self, cause: &Cause) -> Vec<Parked> {
        let parked = self.parked.borrow();
        let mut served = HashSet::new();
        let of_topic = parked.get(&cause.topic).into_iter().flatten();
        let mut is_first = |pop: &Parked| !pop.interest.takes || served.insert(pop.interest.group.clone());
        of_topic.filter(|pop| cause.fits(&pop.interest)).filter(|pop| is_first(pop)).cloned().collect()
    }

    /// Wakes a pop, on the core of its connection. What is `next` is woken here when it did not wait any more; given back
    /// when that is known at once.
    fn wake_at_home(&self, core: &Rc<Core>, pop: &Parked, next: Option<Cause>) -> Option<Cause> {
        let (from, name) = (core.id, pop.name);
        if name.connection.core == from {
            let was_waiting = self.wake_here(name);
            return next.filter(|_| !was_waiting);
        }
        let wake = move |home: &Rc<Core>| {
            if !home.pops.waits.wake_here(name)
                && let Some(next) = next
            {
                home.tell(from, move |core| core.pops.waits.wake(core, next));
            }
        };
        core.tell(name.connection.core, wake);
        None
    }

    /// False: it did not wait any more.
    fn wake_here(&self, name: Name) -> bool {
        let sender = self.waiting.borrow_mut().remove(&name);
        sender.map(|sender| sender.send(())).is_some()
    }

    /// Ends the waiting of a connection's pops: nobody is there to take what they would get.
    pub(crate) fn connection_closed(&self, connection: ConnectionId) {
        let mut waiting = self.waiting.borrow_mut();
        let (first, last) = (Name { connection, number: 0 }, Name { connection, number: u64::MAX });
        let names: Vec<Name> = waiting.range(first..=last).map(|(name, _)| *name).collect();
        for name in names {
            waiting.remove(&name);
        }
    }

    /// Wakes all pops of this core's connections: the broker stops.
    pub(crate) fn wake_all(&self) {
        self.waiting.take();
    }

    /// Pops of a group that are parked for a queue.
    pub(crate) fn count(&self, group: &str, topic: &str, queue: Option<QueueId>) -> usize {
        let parked = self.parked.borrow();
        let of_group = parked.get(topic).into_iter().flatten().filter(|pop| pop.interest.group == *group);
        of_group.filter(|pop| pop.interest.wants(topic, queue)).count()
    }

    fn enter(&self, pop: &Parked) {
        let mut parked = self.parked.borrow_mut();
        for (topic, _) in &pop.interest.topics {
            parked.entry(topic.detached()).or_default().push(pop.clone());
        }
    }

    fn leave(&self, pop: &Parked) {
        let mut parked = self.parked.borrow_mut();
        for (topic, _) in &pop.interest.topics {
            let Some(of_topic) = parked.get_mut(topic) else { continue };
            of_topic.retain(|other| other.name != pop.name);
            if of_topic.is_empty() {
                parked.remove(topic);
            }
        }
    }
}

impl Cause {
    fn fits(&self, interest: &Interest) -> bool {
        self.group.as_ref().is_none_or(|group| *group == interest.group)
            && interest.wants(&self.topic, self.queue)
            && self.tags_code.is_none_or(|code| interest.wanted.matches(code))
    }

    fn of_group(&self, group: &Text) -> Cause {
        Cause { topic: self.topic.clone(), group: Some(group.clone()), ..*self }
    }
}

impl Interest {
    /// `None`: whichever of the topic's queues it wants.
    fn wants(&self, topic: &str, queue: Option<QueueId>) -> bool {
        let is_that = |only: QueueId| queue.is_none_or(|queue| queue == only);
        self.topics.iter().any(|(of, only)| *of == *topic && only.is_none_or(is_that))
    }

    /// The cores that own queues of it.
    fn owners(&self, core: &Core) -> BTreeSet<CoreId> {
        let mut owners = BTreeSet::new();
        for (name, only) in &self.topics {
            match (only, core.topics.get(name)) {
                (Some(queue), _) => {
                    owners.insert(core.placement.core_of_queue(name, *queue));
                }
                (None, Some(topic)) => {
                    owners.extend(topic.queues().map(|queue| core.placement.core_of_queue(name, queue)));
                }
                // A retry topic is made when the first message comes again.
                (None, None) => {
                    owners.insert(core.placement.core_of_queue(name, QueueId(0)));
                }
            }
        }
        owners
    }
}

/// A pop ends without having looked for what woke it: another one of its group is woken.
pub(crate) fn pass_on(core: &Rc<Core>, interest: Interest) {
    let (owners, interest) = (interest.owners(core), Arc::new(interest));
    for owner in owners {
        let interest = interest.clone();
        core.tell(owner, move |core| {
            for (topic, queue) in &interest.topics {
                let (topic, group) = (topic.clone(), Some(interest.group.clone()));
                core.pops.waits.wake(core, Cause { topic, queue: *queue, tags_code: None, group });
            }
        });
    }
}

/// A pop that is parked. Dropping it ends that.
pub(crate) struct Waiting {
    core: Rc<Core>,
    parked: Parked,
    owners: BTreeSet<CoreId>,
    woken: Option<OnceReceiver<()>>,
}

impl Waiting {
    /// Parks a pop of a connection of this core on every core that may have something for it; once this returns, nothing is
    /// missed.
    pub(crate) async fn park(core: &Rc<Core>, connection: ConnectionId, interest: Interest) -> Waiting {
        let number = core.pops.waits.next_number.get();
        core.pops.waits.next_number.set(number + 1);
        let (sender, woken) = once();
        let name = Name { connection, number };
        core.pops.waits.waiting.borrow_mut().insert(name, sender);
        let parked = Parked { name, interest: Arc::new(interest) };
        let owners = parked.interest.owners(core);
        for owner in &owners {
            let parked = parked.clone();
            core.on(*owner, move |core| async move { core.pops.waits.enter(&parked) }).await;
        }
        Waiting { core: core.clone(), parked, owners, woken: Some(woken) }
    }

    /// Whether it was woken since it was parked.
    pub(crate) fn is_woken(&self) -> bool {
        !self.core.pops.waits.waiting.borrow().contains_key(&self.parked.name)
    }

    /// Waits until something may be there, or `span` has passed. Whether something may be there.
    pub(crate) async fn woken(mut self, span: Duration) -> bool {
        let woken = self.woken.take().expect("it waits once");
        clock::within(span, woken.receive()).await.flatten().is_some()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.core.pops.waits.waiting.borrow_mut().remove(&self.parked.name);
        for owner in &self.owners {
            let parked = self.parked.clone();
            self.core.tell(*owner, move |core| core.pops.waits.leave(&parked));
        }
    }
}
