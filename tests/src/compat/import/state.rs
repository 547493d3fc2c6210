//! All of a broker that can be seen from outside: topics, groups, committed offsets, and every message of every queue.

use std::collections::BTreeMap;

use super::super::lenient;
use crate::connection::Connection;
use crate::frame::Frame;
use crate::request::{MAX_OFFSET, MIN_OFFSET, Queue, offset_of, read_queue};

const ALL_TOPICS: i32 = 21;
const ALL_OFFSETS: i32 = 43;
const ALL_GROUPS: i32 = 201;
/// What the names of the topics and groups of this test contain: others are the brokers' own.
pub const MARK: &str = "Import";
/// Told of each kind of difference.
const TOLD_MAX: usize = 20;

#[derive(Debug, Default)]
pub struct State {
    /// Settings of topics and groups, and committed offsets: values by their paths.
    tables: BTreeMap<String, String>,
    queues: BTreeMap<Queue, Messages>,
}

#[derive(Debug, PartialEq, Eq)]
struct Messages {
    min: i64,
    max: i64,
    all: Vec<String>,
}

/// Reads everything.
///
/// # Errors
/// When the broker does not answer as it should.
pub fn read(connection: &mut Connection) -> Result<State, String> {
    let mut state = State::default();
    let mut queue_counts = BTreeMap::new();
    for (code, table) in [(ALL_TOPICS, ".topicConfigTable."), (ALL_GROUPS, ""), (ALL_OFFSETS, ".offsetTable.")] {
        let answer = connection.call_ok(&Frame::request(code)).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let leaves = lenient::leaves(&text).ok_or_else(|| format!("the answer to {code} is no JSON: {text}"))?;
        for (path, value) in leaves.into_iter().filter(|(path, _)| path.starts_with(table) && path.contains(MARK)) {
            if let Some(topic) =
                path.strip_prefix(".topicConfigTable.").and_then(|rest| rest.strip_suffix(".readQueueNums"))
            {
                queue_counts
                    .insert(topic.to_owned(), value.parse::<u32>().map_err(|error| format!("{path}: {error}"))?);
            }
            state.tables.insert(path, value);
        }
    }
    for (topic, count) in queue_counts {
        for id in 0..count {
            let queue = Queue::new(&topic, id);
            let messages = read_one(connection, &queue).map_err(|error| format!("{queue:?}: {error}"))?;
            state.queues.insert(queue, messages);
        }
    }
    Ok(state)
}

fn read_one(connection: &mut Connection, queue: &Queue) -> std::io::Result<Messages> {
    let (min, max) = (offset_of(connection, MIN_OFFSET, queue)?, offset_of(connection, MAX_OFFSET, queue)?);
    let records = if min < max { read_queue(connection, queue, min)? } else { Vec::new() };
    let text = |record: &crate::record::Record| {
        format!(
            "{} {} {} {:?} {:?}",
            record.queue_offset,
            record.store_ms,
            record.reconsume_times,
            visible(&record.properties),
            String::from_utf8_lossy(&record.body)
        )
    };
    Ok(Messages { min, max, all: records.iter().map(text).collect() })
}

/// The entries that clients see.
fn visible(properties: &str) -> Vec<&str> {
    properties.split('\u{2}').filter(|entry| entry.contains('\u{1}')).collect()
}

impl State {
    pub fn summary(&self) -> String {
        let messages: usize = self.queues.values().map(|queue| queue.all.len()).sum();
        let begun = self.queues.values().filter(|queue| queue.min > 0).count();
        format!(
            "{messages} messages in {} queues, {begun} of which begin behind 0; {} values of tables",
            self.queues.len(),
            self.tables.len()
        )
    }

    /// What another state has not, or has differently.
    pub fn differences(&self, other: &State) -> Vec<String> {
        let mut told = Vec::new();
        for (path, value) in &self.tables {
            if other.tables.get(path) != Some(value) {
                told.push(format!("{path}: {value} became {:?}", other.tables.get(path)));
            }
        }
        for (queue, messages) in
            self.queues.iter().filter(|(queue, messages)| other.queues.get(queue) != Some(messages))
        {
            let Some(found) = other.queues.get(queue) else {
                told.push(format!("{queue:?} is not there"));
                continue;
            };
            let first = messages.all.iter().zip(&found.all).find(|(one, other)| one != other);
            told.push(format!(
                "{queue:?}: {} to {} with {} messages became {} to {} with {}; first difference {first:?}",
                messages.min,
                messages.max,
                messages.all.len(),
                found.min,
                found.max,
                found.all.len()
            ));
        }
        told.truncate(TOLD_MAX);
        told
    }
}
