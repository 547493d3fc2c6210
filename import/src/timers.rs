//! Messages with a time: which of them wait still.
//!
//! The other broker keeps a wheel, made of one queue of its timer topic. What counts here is that queue, and how far the
//! wheel had turned. A message far ahead is stored again each time the wheel has turned to its place ("rolled"), and one
//! that was taken back is followed by a record that names it.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use base::stable_hash;
use remoting::name::TIMER_TOPIC;
use remoting::properties::{
    REAL_TOPIC, TIMER_DELETE_UNIQUE_KEY, TIMER_DEQUEUE_MS, TIMER_OUT_MS, TIMER_ROLL_TIMES, UNIQUE_KEY,
};
use remoting::record::RecordView;
use runtime::file::ReadFile;

use crate::consume_queue::ConsumeQueues;
use crate::delivered::Delivered;
use crate::error::{ImportError, IoContext};
use crate::source::{Source, u64_at};

/// `timercheck`: up to which time slots were delivered, and which offset of the queue is in the wheel.
const LAST_READ_MS_AT: usize = 0;
const LAST_QUEUE_OFFSET_AT: usize = 16;
const CHECK_BYTES: usize = 24;

#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// What was due before was delivered, if it was in the wheel.
    delivered_until_ms: u64,
    /// From here on messages were not in the wheel.
    wheel_limit: u64,
    delivered: Delivered,
    /// How often messages were rolled that were at all.
    rolled: HashMap<u64, u64>,
    /// The names of messages that were taken back, with their times.
    taken_back: HashSet<u64>,
    /// Places of records that are in the log and not in their queue.
    behind: Vec<u64>,
}

impl Timers {
    pub(crate) fn open(source: &Source) -> Result<Timers, ImportError> {
        let path = source.config("timercheck");
        let (delivered_until_ms, wheel_limit) = if path.exists() { read_check(&path)? } else { (0, 0) };
        Ok(Timers { delivered_until_ms, wheel_limit, ..Timers::default() })
    }

    /// A record of the timer topic.
    pub(crate) fn meet(&mut self, queues: &mut ConsumeQueues, view: &RecordView<'_>, at: u64) {
        let known = queues.get(TIMER_TOPIC, view.queue_id().0).map_or(0, |queue| queue.limit());
        if view.queue_offset().0 >= known {
            self.behind.push(at);
        }
        let Some(due_ms) = due_ms(view).filter(|due_ms| *due_ms >= self.delivered_until_ms) else { return };
        if let Some(name) = view.property(TIMER_DELETE_UNIQUE_KEY) {
            self.taken_back.insert(stable_hash(&format!("{due_ms} {name}")));
        } else if let Some(times) = rolled_times(view)
            && let Some(name) = name_of(view)
        {
            let most = self.rolled.entry(name).or_default();
            *most = times.max(*most);
        }
    }

    /// Any other record, which may be a delivered copy.
    pub(crate) fn look_at(&mut self, view: &RecordView<'_>) {
        if view.store_timestamp_ms().max(0) as u64 >= self.delivered_until_ms
            && view.property(TIMER_DEQUEUE_MS).is_some()
            && view.property(REAL_TOPIC) == Some(view.topic())
            && let Some(name) = name_of(view)
        {
            self.delivered.add(name);
        }
    }

    /// The places of records that are in no queue.
    pub(crate) fn take_behind(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.behind)
    }

    /// When a record's message is due, if it waits.
    pub(crate) fn due_if_waiting(&mut self, view: &RecordView<'_>) -> Option<u64> {
        let due_ms = due_ms(view)?;
        let was_in_wheel = view.queue_offset().0 < self.wheel_limit;
        if (due_ms < self.delivered_until_ms && was_in_wheel) || view.property(TIMER_DELETE_UNIQUE_KEY).is_some() {
            return None;
        }
        let name = name_of(view)?;
        if self.rolled.get(&name).is_some_and(|most| rolled_times(view).unwrap_or(0) < *most)
            || self.is_taken_back(view)
        {
            return None;
        }
        (!self.delivered.take(name)).then_some(due_ms)
    }

    /// A record that takes a message back names it by its unique key, and with its topic in front if it is so configured.
    fn is_taken_back(&self, view: &RecordView<'_>) -> bool {
        let (Some(due_ms), Some(key)) = (due_ms(view), view.property(UNIQUE_KEY)) else { return false };
        let topic = view.property(REAL_TOPIC).unwrap_or_default();
        let named = [format!("{due_ms} {key}"), format!("{due_ms} {topic}+{key}")];
        named.iter().any(|name| self.taken_back.contains(&stable_hash(name)))
    }
}

fn read_check(path: &Path) -> Result<(u64, u64), ImportError> {
    let file = ReadFile::open(path).context("open", path)?;
    let mut check = [0; CHECK_BYTES];
    file.read_exact_at(&mut check, 0).context("read", path)?;
    Ok((u64_at(&check, LAST_READ_MS_AT), u64_at(&check, LAST_QUEUE_OFFSET_AT)))
}

fn due_ms(view: &RecordView<'_>) -> Option<u64> {
    view.property(TIMER_OUT_MS)?.parse().ok()
}

fn rolled_times(view: &RecordView<'_>) -> Option<u64> {
    view.property(TIMER_ROLL_TIMES)?.parse().ok()
}

/// What all records of a message and its delivered copy have in common.
fn name_of(view: &RecordView<'_>) -> Option<u64> {
    let (topic, due_ms) = (view.property(REAL_TOPIC)?, due_ms(view)?);
    let (born, unique_key) = (view.born_timestamp_ms(), view.property(UNIQUE_KEY).unwrap_or_default());
    Some(stable_hash(&format!("{topic} {due_ms} {born} {unique_key}")))
}
