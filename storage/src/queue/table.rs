//! The queues of a log by name, and what must outlive their records: deleted topics and offsets without messages.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use base::QueueId;
use runtime::table_file;
use serde::{Deserialize, Serialize};

use super::extent::Extents;
use super::{Queue, QueueRef};
use crate::error::{IoContext, StorageError};

pub(crate) struct QueueTable {
    topics: HashMap<Arc<str>, BTreeMap<u32, QueueRef>>,
    extents: Rc<Extents>,
}

impl QueueTable {
    pub(crate) fn new(extents: Rc<Extents>) -> QueueTable {
        QueueTable { topics: HashMap::new(), extents }
    }

    pub(crate) fn find(&self, topic: &str, id: QueueId) -> Option<&QueueRef> {
        self.topics.get(topic)?.get(&id.0)
    }

    pub(crate) fn find_or_make(&mut self, topic: &str, id: QueueId) -> QueueRef {
        if let Some(queue) = self.find(topic, id) {
            return queue.clone();
        }
        // The name is shared by the queues of a topic.
        let name = match self.topics.get_key_value(topic) {
            Some((name, _)) => name.clone(),
            None => Arc::from(topic),
        };
        let queue = Rc::new(Queue::new(name.clone(), id, 0, self.extents.clone()));
        self.topics.entry(name).or_default().insert(id.0, queue.clone());
        queue
    }

    pub(crate) fn topics(&self) -> Vec<Arc<str>> {
        self.topics.keys().cloned().collect()
    }

    /// All queues, in no order.
    pub(crate) fn all(&self) -> Vec<QueueRef> {
        self.topics.values().flat_map(BTreeMap::values).cloned().collect()
    }

    /// All queues by topic and number.
    pub(crate) fn sorted(&self) -> Vec<QueueRef> {
        let mut topics: Vec<_> = self.topics.iter().collect();
        topics.sort_unstable_by_key(|(topic, _)| *topic);
        topics.into_iter().flat_map(|(_, queues)| queues.values().cloned()).collect()
    }

    pub(crate) fn of_topic(&self, topic: &str) -> Vec<QueueRef> {
        self.topics.get(topic).map(|queues| queues.values().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn remove_topic(&mut self, topic: &str) {
        for queue in self.topics.remove(topic).into_iter().flat_map(BTreeMap::into_values) {
            queue.mark_deleted();
        }
    }
}

/// Topics that were deleted, with the end of the log at that moment: what lies in front of it is not theirs any more.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DeletedTopics {
    pub(crate) topics: BTreeMap<String, u64>,
}

impl DeletedTopics {
    /// Whether a record of the topic at this offset still counts.
    pub(crate) fn counts(&self, topic: &str, log_offset: u64) -> bool {
        self.topics.is_empty() || self.topics.get(topic).is_none_or(|end| log_offset >= *end)
    }
}

/// Where the offsets of queues go on whose messages may all be gone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct QueueFloors {
    /// By topic and queue: the next offset, and the end of the log when it was noted.
    pub(crate) topics: BTreeMap<String, BTreeMap<u32, Floor>>,
    /// What lies in front of it went in order. `None` in tables of programs that did not tell.
    #[serde(default)]
    pub(crate) log_min: Option<u64>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Floor {
    pub(crate) next: u64,
    pub(crate) log_end: u64,
}

impl QueueFloors {
    /// A log in which nothing went yet.
    pub(crate) fn of_whole_log() -> QueueFloors {
        QueueFloors { log_min: Some(0), ..QueueFloors::default() }
    }

    /// Raises a queue's floor; whether it was lower.
    pub(crate) fn raise(&mut self, topic: &str, id: QueueId, floor: Floor) -> bool {
        let of_topic = self.topics.entry(topic.to_owned()).or_default();
        let is_higher = of_topic.get(&id.0).is_none_or(|known| known.next < floor.next);
        if is_higher {
            of_topic.insert(id.0, floor);
        }
        is_higher
    }
}

/// Reads a durable table; the default when it was never written. Blocks.
pub(crate) fn read_table<T: Default + for<'a> Deserialize<'a>>(path: &Path) -> Result<(T, u64), StorageError> {
    let Some(stored) = table_file::read(path).context("read", path)? else { return Ok((T::default(), 0)) };
    match serde_json::from_str(&stored.text) {
        Ok(table) => Ok((table, stored.generation)),
        Err(error) => Err(StorageError::Damaged { file: path.to_owned(), offset: None, what: error.to_string() }),
    }
}

/// As [`read_table`]. What stands in for a damaged table is written anew, and told to `restored`.
pub(crate) fn settle_table<T: Default + for<'a> Deserialize<'a>>(
    path: &Path,
    content: &str,
    restored: &mut Vec<String>,
) -> Result<(T, u64), StorageError> {
    let stored = table_file::read(path).context("read", path)?;
    if let Some(mut stored) = stored.filter(|stored| stored.fell_back) {
        let damaged = table_file::restore(path, &mut stored).context("write", path)?;
        restored.push(table_file::told_of_restored(path, damaged.as_deref(), content));
    }
    read_table(path)
}

/// Replaces a durable table. Blocks.
pub(crate) fn write_table(path: &Path, generation: u64, table: &impl Serialize) -> Result<(), StorageError> {
    let text = serde_json::to_string(table).expect("maps of names and numbers can be written");
    table_file::write(path, generation, &text).context("write", path)
}
