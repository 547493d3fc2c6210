//! Messages with a delay level: which of them wait still.
//!
//! The other broker keeps, for each level, an offset of the level's queue, saved every ten seconds. After a kill some of
//! what lies behind it was delivered already. A delivered copy is told by its properties, so each comes once.

use std::collections::BTreeMap;

use base::{QueueId, stable_hash};
use remoting::body::consume::DelayOffsetTable;
use remoting::name::SCHEDULE_TOPIC;
use remoting::properties::{DELAY_LEVEL, REAL_QUEUE_ID, REAL_TOPIC, UNIQUE_KEY};
use remoting::record::RecordView;

use crate::consume_queue::ConsumeQueues;
use crate::delivered::Delivered;
use crate::error::ImportError;
use crate::source::Source;
use crate::tables;

/// The delays of levels of which a consume queue knows nothing: those that a broker has without configuration.
const USUAL_SECONDS: [u64; 18] =
    [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];

#[derive(Debug, Default)]
pub(crate) struct Delays {
    /// By queue of the schedule topic: where what waits begins.
    from: BTreeMap<u32, u64>,
    /// Copies delivered from here on may be of messages that seem to wait.
    delivered_from_ms: u64,
    /// How often each was delivered since.
    delivered: Delivered,
    /// Places of waiting messages that are in the log and not in their queue.
    behind: Vec<u64>,
}

impl Delays {
    pub(crate) fn open(source: &mut Source) -> Result<Delays, ImportError> {
        let table: DelayOffsetTable = tables::read(&source.config("delayOffset.json"))?.unwrap_or_default();
        let offsets = table.offset_table.into_iter();
        let from: BTreeMap<u32, u64> = offsets
            .filter_map(|(level, offset)| {
                Some((u32::try_from(level).ok()?.checked_sub(1)?, u64::try_from(offset).ok()?))
            })
            .collect();
        let mut delivered_from_ms = u64::MAX;
        for (id, queue) in source.queues.topics.get_mut(SCHEDULE_TOPIC).into_iter().flatten() {
            let first = from.get(id).copied().unwrap_or(0).max(queue.first());
            if let Some(unit) = queue.unit(first)? {
                delivered_from_ms = delivered_from_ms.min(unit.tags_code.max(0) as u64);
            }
        }
        Ok(Delays { from, delivered_from_ms, ..Delays::default() })
    }

    /// A record of the schedule topic.
    pub(crate) fn meet(&mut self, queues: &mut ConsumeQueues, view: &RecordView<'_>, at: u64) {
        let queue = view.queue_id().0;
        let known = queues.get(SCHEDULE_TOPIC, queue).map_or(0, |queue| queue.limit());
        if view.queue_offset().0 >= known.max(self.first(queue)) {
            self.behind.push(at);
        }
    }

    /// Any other record, which may be a delivered copy.
    pub(crate) fn look_at(&mut self, view: &RecordView<'_>) {
        let stored_ms = view.store_timestamp_ms().max(0) as u64;
        if stored_ms >= self.delivered_from_ms
            && view.property(REAL_TOPIC) == Some(view.topic())
            && let Some(name) = name_of(view)
        {
            self.delivered.add(name);
        }
    }

    /// Where in the queues of the schedule topic what may wait begins.
    pub(crate) fn first(&self, queue: u32) -> u64 {
        self.from.get(&queue).copied().unwrap_or(0)
    }

    /// The places of records that may wait and are in no queue.
    pub(crate) fn take_behind(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.behind)
    }

    /// Whether a message was delivered; each copy counts once.
    pub(crate) fn was_delivered(&mut self, view: &RecordView<'_>) -> bool {
        name_of(view).is_some_and(|name| self.delivered.take(name))
    }

    /// When a message is due of which only its level is known.
    pub(crate) fn due_by_level(view: &RecordView<'_>) -> u64 {
        let level = view.property(DELAY_LEVEL).and_then(|level| level.parse::<usize>().ok()).unwrap_or(1);
        let seconds = USUAL_SECONDS[level.clamp(1, USUAL_SECONDS.len()) - 1];
        view.store_timestamp_ms().max(0) as u64 + seconds * 1000
    }
}

/// Topic and queue that a waiting message is for.
pub(crate) fn address<'a>(view: &RecordView<'a>) -> Option<(&'a str, QueueId)> {
    let queue = view.property(REAL_QUEUE_ID)?.parse().ok()?;
    Some((view.property(REAL_TOPIC)?, QueueId(queue)))
}

/// What a message and its delivered copy have in common, and no other message has.
fn name_of(view: &RecordView<'_>) -> Option<u64> {
    let (topic, queue) = address(view)?;
    let level = view.property(DELAY_LEVEL)?;
    let unique_key = view.property(UNIQUE_KEY).unwrap_or_default();
    let (born, tries) = (view.born_timestamp_ms(), view.reconsume_times());
    Some(stable_hash(&format!("{topic} {queue} {level} {born} {tries} {unique_key}")))
}
