//! Pops that wait for a message, wherever its queue lies.
//!
//! A waiting pop lives on the core of its connection and is parked on each core that owns one of its queues. Whoever has
//! something for it takes it out and wakes it at home, one pop of each group for each message. A pop that ends leaves
//! all cores where it is still parked.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{CoreId, QueueId};
use remoting::subscription::SubscriptionData;
use remoting::text::Text;
use runtime::clock;
use runtime::sync::{OnceReceiver, OnceSender, once};

use crate::core::Core;
use crate::parcel::Parcel;

/// Pops that wait with connections of one core. Beyond it a pop that finds nothing is answered at once, as too many.
const WAITING_MAX: usize = 100_000;

/// What a pop waits for.
#[derive(Debug)]
pub(crate) struct Interest {
    pub(crate) group: Text,
    /// Topics, and the queue that is meant; `None`: any of them.
    pub(crate) topics: Vec<(Text, Option<QueueId>)>,
    pub(crate) wanted: SubscriptionData,
}

/// Names a waiting pop on any core.
type Name = (CoreId, u64);

#[derive(Clone)]
struct Parked {
    name: Name,
    interest: Arc<Interest>,
}

#[derive(Default)]
pub(crate) struct PopWaits {
    /// Pops of this core's connections.
    waiting: RefCell<HashMap<u64, OnceSender<()>>>,
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
        if self.parked.borrow().is_empty() {
            return;
        }
        self.wake(core, topic, |interest| interest.wants(topic, queue) && interest.wanted.matches(tags_code));
    }

    /// A group may pop a queue of this core again.
    pub(crate) fn reopened(&self, core: &Rc<Core>, group: &str, topic: &str, queue: QueueId) {
        self.wake(core, topic, |interest| interest.group == *group && interest.wants(topic, queue));
    }

    /// Wakes the first of each group among those that are parked for the topic and fit.
    fn wake(&self, core: &Rc<Core>, topic: &str, fits: impl Fn(&Interest) -> bool) {
        let mut woken: Vec<Parked> = Vec::new();
        {
            let parked = self.parked.borrow();
            let mut groups = HashSet::new();
            for pop in parked.get(topic).into_iter().flatten() {
                if fits(&pop.interest) && groups.insert(pop.interest.group.clone()) {
                    woken.push(pop.clone());
                }
            }
        }
        for pop in woken {
            self.leave(&pop);
            let (home, number) = pop.name;
            if home == core.id {
                self.wake_here(number);
            } else {
                core.mesh.send(home, Parcel::Run(Box::new(move |core| core.pops.waits.wake_here(number))));
            }
        }
    }

    fn wake_here(&self, number: u64) {
        if let Some(sender) = self.waiting.borrow_mut().remove(&number) {
            sender.send(());
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
        of_group.filter(|pop| queue.is_none_or(|queue| pop.interest.wants(topic, queue))).count()
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

impl Interest {
    fn wants(&self, topic: &str, queue: QueueId) -> bool {
        self.topics.iter().any(|(of, only)| *of == *topic && only.is_none_or(|only| only == queue))
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
        let wake = move |core: &Rc<Core>| {
            for (topic, _) in &interest.topics {
                core.pops.waits.wake(core, topic, |other| other.group == interest.group);
            }
        };
        if owner == core.id {
            wake(core);
        } else {
            core.mesh.send(owner, Parcel::Run(Box::new(wake)));
        }
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
    /// Parks a pop on every core that may have something for it; once this returns, nothing is missed.
    pub(crate) async fn park(core: &Rc<Core>, interest: Interest) -> Waiting {
        let number = core.pops.waits.next_number.get();
        core.pops.waits.next_number.set(number + 1);
        let (sender, woken) = once();
        core.pops.waits.waiting.borrow_mut().insert(number, sender);
        let parked = Parked { name: (core.id, number), interest: Arc::new(interest) };
        let owners = parked.interest.owners(core);
        for owner in &owners {
            let parked = parked.clone();
            core.on(*owner, move |core| async move { core.pops.waits.enter(&parked) }).await;
        }
        Waiting { core: core.clone(), parked, owners, woken: Some(woken) }
    }

    /// Waits until something may be there, or `span` has passed.
    pub(crate) async fn woken(mut self, span: Duration) {
        let woken = self.woken.take().expect("it waits once");
        let _ = clock::within(span, woken.receive()).await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.core.pops.waits.waiting.borrow_mut().remove(&self.parked.name.1);
        for owner in &self.owners {
            if *owner == self.core.id {
                self.core.pops.waits.leave(&self.parked);
            } else {
                let parked = self.parked.clone();
                self.core.mesh.send(*owner, Parcel::Run(Box::new(move |core| core.pops.waits.leave(&parked))));
            }
        }
    }
}
