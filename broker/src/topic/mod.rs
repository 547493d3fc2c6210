//! Topics: the table on the tables' core, and what each core knows of it.
//!
//! [`TopicOwner`] decides all changes, one after the other. [`Topics`] is a core's view, changed only by the owner's
//! publications; a change is answered when every core has it.

pub(crate) mod attributes;
mod change;
mod create;
mod owner;
mod table;
mod unknown;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use base::QueueId;
use remoting::body::route::permission;
use remoting::body::topic::TopicConfig;
use remoting::name;
use remoting::text::Text;

pub(crate) use attributes::parse as parse_attributes;
pub(crate) use change::{Change, no_topic};
pub(crate) use create::{ensure_dlq_topic, ensure_for_send, ensure_light_topic, ensure_own_topic, ensure_retry_topic};
pub(crate) use owner::TopicOwner;
pub(crate) use table::config_table;
pub(crate) use unknown::tell_unknown;

/// Queues of one topic at most, for reading or writing. A topic with more is refused.
pub(crate) const TOPIC_QUEUES_MAX: i32 = 65_536;

/// A topic as all cores see it. Never changes; a change of the topic makes a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topic {
    /// Counts from 0, is the same on all cores, and stays while the topic exists. Numbers of deleted topics are used
    /// again.
    pub(crate) number: u32,
    pub(crate) config: TopicConfig,
    /// Places the queues on logs.
    pub(crate) hash: u64,
    /// Belongs to the system: by its name, or since it is named after cluster or broker.
    pub(crate) is_system: bool,
    pub(crate) is_retry: bool,
    pub(crate) is_dlq: bool,
}

impl Topic {
    pub(crate) fn new(number: u32, config: TopicConfig, is_system: bool) -> Topic {
        let topic = &config.topic_name;
        Topic {
            number,
            hash: base::stable_hash(topic),
            is_system,
            is_retry: name::is_retry_topic(topic),
            is_dlq: name::is_dlq_topic(topic),
            config,
        }
    }

    pub(crate) fn name(&self) -> &Text {
        &self.config.topic_name
    }

    pub(crate) fn read_queues(&self) -> u32 {
        u32::try_from(self.config.read_queue_nums).unwrap_or(0)
    }

    pub(crate) fn write_queues(&self) -> u32 {
        u32::try_from(self.config.write_queue_nums).unwrap_or(0)
    }

    /// The queues that can be named at all: those for reading and those for writing.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> + use<> {
        (0..self.read_queues().max(self.write_queues())).map(QueueId)
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.config.perm & permission::READ != 0
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.config.perm & permission::WRITE != 0
    }
}

/// All topics, as the tables' core published them to this one. Each core has copies of its own: a count of references
/// that all cores change costs more than all else that is done with a topic.
#[derive(Default)]
pub(crate) struct Topics {
    by_name: RefCell<HashMap<Text, Rc<Topic>>>,
}

impl Topics {
    pub(crate) fn get(&self, topic: &str) -> Option<Rc<Topic>> {
        self.by_name.borrow().get(topic).cloned()
    }

    pub(crate) fn contains(&self, topic: &str) -> bool {
        self.by_name.borrow().contains_key(topic)
    }

    fn light_count(&self) -> usize {
        self.by_name.borrow().keys().filter(|topic| name::is_light_topic(topic)).count()
    }

    fn put(&self, topic: &Topic) {
        let name = topic.name().detached();
        self.by_name.borrow_mut().insert(name, Rc::new(topic.clone()));
    }

    fn remove(&self, topic: &str) -> Option<Rc<Topic>> {
        self.by_name.borrow_mut().remove(topic)
    }
}
