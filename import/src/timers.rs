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
    /// Places of the records that may wait: those of their queue, then those that are in the log and not in it.
    places: Vec<u64>,
    behind: Vec<u64>,
}

impl Timers {
    pub(crate) fn open(source: &Source) -> Result<Timers, ImportError> {
        let path = source.config("timercheck");
        let (delivered_until_ms, wheel_limit) = if path.exists() { read_check(&path)? } else { (0, 0) };
        Ok(Timers { delivered_until_ms, wheel_limit, ..Timers::default() })
    }

    /// A record of the timer topic.
    ///
    /// # Errors
    /// When its queue cannot be read.
    pub(crate) fn meet(
        &mut self,
        queues: &mut ConsumeQueues,
        view: &RecordView<'_>,
        at: u64,
    ) -> Result<(), ImportError> {
        let Some(due_ms) = due_ms(view) else { return Ok(()) };
        let offset = view.queue_offset().0;
        if self.may_wait(view, due_ms) {
            match queues.get(TIMER_TOPIC, view.queue_id().0).filter(|queue| offset < queue.limit()) {
                None => self.behind.push(at),
                Some(queue) => {
                    if queue.unit(offset)?.is_some_and(|unit| unit.offset == at) {
                        self.places.push(at);
                    }
                }
            }
        }
        if due_ms < self.delivered_until_ms {
            return Ok(());
        }
        if let Some(name) = view.property(TIMER_DELETE_UNIQUE_KEY) {
            self.taken_back.insert(stable_hash(&format!("{due_ms} {name}")));
        } else if let Some(times) = rolled_times(view)
            && let Some(name) = name_of(view)
        {
            let most = self.rolled.entry(name).or_default();
            *most = times.max(*most);
        }
        Ok(())
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

    /// The places of records that may wait, once all were met.
    pub(crate) fn take_places(&mut self) -> Vec<u64> {
        let mut places = std::mem::take(&mut self.places);
        places.append(&mut self.behind);
        places
    }

    /// Whether a record's message waits, as far as it tells alone.
    fn may_wait(&self, view: &RecordView<'_>, due_ms: u64) -> bool {
        let was_in_wheel = view.queue_offset().0 < self.wheel_limit;
        let was_delivered = due_ms < self.delivered_until_ms && was_in_wheel;
        !was_delivered && view.property(TIMER_DELETE_UNIQUE_KEY).is_none()
    }

    /// When a record's message is due, if it waits.
    pub(crate) fn due_if_waiting(&mut self, view: &RecordView<'_>) -> Option<u64> {
        let due_ms = due_ms(view)?;
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
