//! Consumer and producer groups: members, subscriptions, committed offsets, queue locks and settings.
//!
//! A group has an owner, the core of its name's hash. The owner alone changes the group's members, offsets and locks
//! ([`Groups`]) and publishes to every core what pulls must know ([`GroupViews`]). Settings are the tables' core's
//! ([`GroupConfigOwner`]), which publishes them likewise ([`GroupConfigs`]); it also writes the file of all offsets. The
//! core of a connection remembers which groups it registered for ([`Sessions`]).

mod batches;
mod commit;
mod config;
pub(crate) mod config_table;
mod locks;
pub(crate) mod members;
mod membership;
mod offset_file;
mod offset_table;
pub(crate) mod offsets;
mod producers;
mod pulled;
pub(crate) mod queue_ends;
mod reply_clients;
mod resets;
mod sessions;
mod views;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use base::Millis;
use remoting::body::MessageQueue;
use remoting::body::group::SubscriptionGroupConfig;
use remoting::text::Text;
use runtime::clock;
use transport::ConnectionId;

use self::locks::Locks;
use self::members::Members;
use self::offset_file::OffsetFile;
use self::offsets::{Offsets, TopicOffsets};
use self::producers::Producers;
use self::resets::Resets;

pub(crate) use self::batches::Batches;
pub(crate) use self::commit::{
    commit, commit_from_pop, commit_from_pull, delete_group_offsets, put_offsets, reset_offsets, take_reset, tell_pops,
};
pub(crate) use self::config::{GroupConfigOwner, GroupConfigs};
pub(crate) use self::membership::{
    ConsumerHeartbeat, ProducerHeartbeat, connection_closed, register_consumer, register_producer,
    register_reply_client, start_background, unregister_consumer, unregister_producer,
};
pub(crate) use self::offset_file::{load_offsets, offsets_body, persist_now};
pub(crate) use self::pulled::Pulled;
pub(crate) use self::reply_clients::ReplyClients;
pub(crate) use self::sessions::Sessions;
pub(crate) use self::views::GroupViews;

use crate::call::Refusal;
use crate::core::Core;
use crate::log::Repeated;

/// As [`GroupConfigOwner::ensure`].
///
/// # Errors
/// SUBSCRIPTION_GROUP_NOT_EXIST when there is no such group and none may be made.
pub(crate) async fn ensure(core: &Rc<Core>, group: &str) -> Result<Arc<SubscriptionGroupConfig>, Refusal> {
    GroupConfigOwner::ensure(core, group).await
}

/// Whether an operator forbade the group to read the topic.
pub(crate) fn is_read_forbidden(core: &Core, group: &str, topic: &str) -> bool {
    core.group_configs.is_read_forbidden(group, topic)
}

/// One consumer group of this core.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) members: Members<ConnectionId>,
    pub(crate) offsets: Offsets,
    locks: Locks,
    notice: Notice,
}

/// When the members of a group were told last that they changed. Changes that come close together are told once.
#[derive(Default)]
struct Notice {
    told_at: Option<Instant>,
    /// A task will tell what changed meanwhile.
    pending: bool,
}

/// The groups that this core owns.
#[derive(Default)]
pub(crate) struct Groups {
    consumers: RefCell<HashMap<Text, Group>>,
    producers: RefCell<HashMap<Text, Producers<ConnectionId>>>,
    /// Of this core's queues.
    resets: RefCell<Resets>,
    /// Of the newest publication about any group.
    publication: Cell<u64>,
    /// Topics about which members of a group were found to differ, since the start.
    inconsistencies: Cell<u64>,
    pub(crate) no_retry_topic: Repeated,
    /// On the tables' core only.
    offset_file: OffsetFile,
}

impl Groups {
    /// Topics about which members of a group were found to differ, since the start.
    pub(crate) fn inconsistencies(&self) -> u64 {
        self.inconsistencies.get()
    }

    /// Looks at a group, if there is anything about it.
    pub(crate) fn with<T>(&self, group: &str, look: impl FnOnce(&Group) -> T) -> Option<T> {
        self.consumers.borrow().get(group).map(look)
    }

    /// Looks at all groups, in the order of their names.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&Text, &Group)) {
        let groups = self.consumers.borrow();
        let mut sorted: Vec<_> = groups.iter().collect();
        sorted.sort_unstable_by_key(|(name, _)| *name);
        for (name, group) in sorted {
            look(name, group);
        }
    }

    /// The names of all groups, sorted.
    fn names(&self) -> Vec<Text> {
        let mut names: Vec<Text> = self.consumers.borrow().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Changes a group that may be new.
    fn change<T>(&self, group: &Text, change: impl FnOnce(&mut Group) -> T) -> T {
        let mut groups = self.consumers.borrow_mut();
        if !groups.contains_key(group) {
            groups.insert(group.detached(), Group::default());
        }
        change(groups.get_mut(group).expect("just made"))
    }

    /// Changes a group if there is anything about it.
    fn change_known<T>(&self, group: &str, change: impl FnOnce(&mut Group) -> T) -> Option<T> {
        self.consumers.borrow_mut().get_mut(group).map(change)
    }

    /// Looks at the producers of a group, if it has any.
    pub(crate) fn with_producers<T>(&self, group: &str, look: impl FnOnce(&Producers<ConnectionId>) -> T) -> Option<T> {
        self.producers.borrow().get(group).map(look)
    }

    /// Looks at all groups of producers, in the order of their names.
    pub(crate) fn for_each_producers(&self, mut look: impl FnMut(&Text, &Producers<ConnectionId>)) {
        let groups = self.producers.borrow();
        let mut sorted: Vec<_> = groups.iter().collect();
        sorted.sort_unstable_by_key(|(name, _)| *name);
        for (name, producers) in sorted {
            look(name, producers);
        }
    }

    /// Locks queues for a client of a group; returns exactly those that are its own now.
    pub(crate) fn lock(&self, group: &Text, client: &Text, queues: &BTreeSet<MessageQueue>) -> BTreeSet<MessageQueue> {
        let now = clock::now_ms();
        self.change(group, |group| group.locks.lock(client, queues, now))
    }

    /// Frees queues that a client of a group holds.
    pub(crate) fn unlock(&self, group: &str, client: &Text, queues: &BTreeSet<MessageQueue>) {
        self.change_known(group, |group| group.locks.unlock(client, queues));
    }

    /// Whether members of the group hold queues, so consume in order.
    pub(crate) fn holds_locks(&self, group: &str) -> bool {
        let now = clock::now_ms();
        self.with(group, |group| group.locks.has_lease(now)).unwrap_or(false)
    }

    /// A topic was deleted: what was committed in it means nothing any more.
    pub(crate) fn delete_topic_offsets(&self, topic: &str) {
        for group in self.consumers.borrow_mut().values_mut() {
            group.offsets.remove_topic(topic);
        }
        self.resets.borrow_mut().forget_topic(topic);
    }

    /// The offsets of groups that changed since the last call. Others have the core in between.
    async fn take_dirty_offsets(&self) -> Vec<(Text, TopicOffsets)> {
        let is_dirty = |(name, group): (&Text, &Group)| group.offsets.is_dirty().then(|| name.clone());
        let dirty: Vec<Text> = self.consumers.borrow().iter().filter_map(is_dirty).collect();
        let mut taken = Vec::with_capacity(dirty.len());
        for name in dirty {
            let offsets = self.change_known(&name, |group| group.offsets.take_dirty()).flatten();
            taken.extend(offsets.map(|offsets| (name, offsets)));
            runtime::yield_if_needed().await;
        }
        taken
    }

    /// Forgets leases that are over, and groups of which nothing is left.
    fn tidy(&self, now: Millis) {
        self.consumers.borrow_mut().retain(|_, group| {
            group.locks.expire(now);
            let in_use = !group.members.is_empty() || !group.offsets.is_empty() || !group.locks.is_empty();
            in_use || group.offsets.is_dirty() || group.notice.pending
        });
        self.producers.borrow_mut().retain(|_, producers| !producers.is_empty());
    }

    fn next_publication(&self) -> u64 {
        self.publication.set(self.publication.get() + 1);
        self.publication.get()
    }
}
