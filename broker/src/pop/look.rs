//! One look of a pop at all queues that it may take from, wherever they lie.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use base::{CoreId, QueueId};
use remoting::body::group::SubscriptionGroupConfig;
use remoting::name;
use remoting::subscription::SubscriptionData;
use remoting::text::Text;

use super::receipt::Kind;
use super::take::{Ask, Purpose, Taken, take};
use crate::call::Refusal;
use crate::core::Core;
use crate::stages::Watch;
use crate::topic::{Topic, attributes};

/// A pop that may be done.
pub(crate) struct Pop {
    pub(crate) purpose: Purpose,
    pub(crate) topic: Rc<Topic>,
    pub(crate) group: Arc<SubscriptionGroupConfig>,
    /// `None`: any.
    pub(crate) queue: Option<QueueId>,
    pub(crate) wanted: SubscriptionData,
    pub(crate) count_max: u32,
    pub(crate) invisible_ms: u64,
    pub(crate) begins_at_end: bool,
    pub(crate) order: Option<Option<Text>>,
}

/// What all queues together gave.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) taken: Vec<Taken>,
    pub(crate) rest: u64,
    /// Another look at that time may find more, also without a new message.
    pub(crate) again_at_ms: Option<u64>,
}

impl Pop {
    /// The topics that it takes from: the one that was asked for, and those by which its messages come again.
    pub(crate) fn sources(&self, core: &Core) -> Vec<(Text, Kind, Option<QueueId>)> {
        let topic = self.topic.name();
        let mut sources = vec![(topic.clone(), Kind::Normal, self.queue)];
        if self.order.is_some() || name::is_retry_topic(topic) {
            return sources;
        }
        let group = &self.group.group_name;
        let config = &core.config().pop;
        if config.new_retry_topics {
            sources.push((Text::from(name::pop_retry_topic_new(group, topic)), Kind::RetryNew, None));
        }
        if !config.new_retry_topics || config.old_retry_topics_too {
            sources.push((Text::from(name::pop_retry_topic(group, topic)), Kind::Retry, None));
        }
        sources
    }

    /// Takes up to the number wanted. Now and then it begins with what comes again, so that much that is new cannot
    /// hold it up.
    pub(crate) async fn look(&self, core: &Rc<Core>, pop_ms: u64, watch: &Watch) -> Result<Looked, Refusal> {
        let mut sources = self.sources(core);
        let drawn = core.draw_below(100);
        let by_priority = self.goes_by_priority(drawn);
        let config = &core.config().pop;
        let retries_first =
            if by_priority { config.priority_retries_first_percent } else { config.retries_first_percent };
        if drawn < retries_first {
            sources.rotate_left(1);
        }
        let mut looked = Looked::default();
        for (source, kind, queue) in sources {
            let Some(topic) = core.topics.get(&source) else { continue };
            for (owner, queues) in self.queues_by_owner(core, &topic, queue, by_priority) {
                let wanted = self.count_max.saturating_sub(looked.count());
                if wanted == 0 && self.count_max > 0 && self.purpose == Purpose::Pop {
                    return Ok(looked);
                }
                let asks: Vec<Ask> =
                    queues.into_iter().map(|queue| self.ask(&source, kind, queue, wanted, pop_ms)).collect();
                match watch.ask(core, owner, move |core| async move { take_in_turn(&core, asks).await }).await {
                    Ok(answered) => looked.add(answered),
                    Err(refusal) if looked.taken.is_empty() => return Err(refusal),
                    // What was taken goes out; the next pop meets the fault.
                    Err(_) => return Ok(looked),
                }
            }
        }
        Ok(looked)
    }

    /// Whether it takes what has the highest priority first. `drawn` is below 100.
    fn goes_by_priority(&self, drawn: u32) -> bool {
        let is_of_priorities = |topic: &Topic| {
            topic
                .config
                .attributes
                .get(attributes::MESSAGE_TYPE)
                .is_some_and(|kind| kind == attributes::MESSAGE_TYPE_PRIORITY)
        };
        let factor = self.group.attributes.get(attributes::PRIORITY_FACTOR).and_then(|factor| factor.parse().ok());
        self.order.is_none() && is_of_priorities(&self.topic) && drawn < factor.unwrap_or(100)
    }

    /// Queues by their cores: in the order of their priorities, or another one first each time, so that no queue is always
    /// the last.
    fn queues_by_owner(
        &self,
        core: &Core,
        topic: &Topic,
        only: Option<QueueId>,
        by_priority: bool,
    ) -> Vec<(CoreId, Vec<QueueId>)> {
        let count = topic.read_queues();
        let owner_of = |queue| core.placement.core_of_queue(topic.name(), queue);
        if let Some(queue) = only {
            return vec![(owner_of(queue), vec![queue])];
        }
        if by_priority {
            let highest_first = core.config().pop.highest_queue_first;
            let queues = (0..count).map(|number| QueueId(if highest_first { count - 1 - number } else { number }));
            let mut owners: Vec<(CoreId, Vec<QueueId>)> = Vec::new();
            for queue in queues {
                match owners.last_mut() {
                    Some((owner, queues)) if *owner == owner_of(queue) => queues.push(queue),
                    _ => owners.push((owner_of(queue), vec![queue])),
                }
            }
            return owners;
        }
        let first = core.draw_below(count.max(1));
        let mut by_owner: BTreeMap<CoreId, Vec<QueueId>> = BTreeMap::new();
        for queue in (0..count).map(|number| QueueId((first + number) % count)) {
            by_owner.entry(owner_of(queue)).or_default().push(queue);
        }
        let mut owners: Vec<_> = by_owner.into_iter().collect();
        if !owners.is_empty() {
            let turn = first as usize % owners.len();
            owners.rotate_left(turn);
        }
        owners
    }

    fn ask(&self, source: &Text, kind: Kind, queue: QueueId, count_max: u32, pop_ms: u64) -> Ask {
        Ask {
            purpose: self.purpose,
            group: self.group.group_name.clone(),
            topic: self.topic.name().clone(),
            source: source.clone(),
            kind,
            queue,
            wanted: self.wanted.clone(),
            count_max,
            pop_ms,
            invisible_ms: self.invisible_ms,
            begins_at_end: self.begins_at_end,
            order: self.order.clone(),
        }
    }
}

/// Takes from queues of this core, one after the other, until enough is taken.
async fn take_in_turn(core: &Rc<Core>, asks: Vec<Ask>) -> Result<Looked, Refusal> {
    let mut looked = Looked::default();
    for ask in asks {
        let left = ask.count_max.saturating_sub(looked.count());
        if left == 0 && ask.count_max > 0 && ask.purpose == Purpose::Pop {
            break;
        }
        let look = match take(core, &Ask { count_max: left, ..ask }).await {
            Ok(look) => look,
            Err(refusal) if looked.taken.is_empty() => return Err(refusal),
            Err(_) => return Ok(looked),
        };
        looked.add(Looked { taken: look.taken.into_iter().collect(), rest: look.rest, again_at_ms: look.again_at_ms });
        runtime::yield_if_needed().await;
    }
    Ok(looked)
}

impl Looked {
    pub(crate) fn count(&self) -> u32 {
        self.taken.iter().map(|part| part.offsets.len() as u32).sum()
    }

    fn add(&mut self, other: Looked) {
        self.taken.extend(other.taken);
        self.rest += other.rest;
        self.again_at_ms = self.again_at_ms.into_iter().chain(other.again_at_ms).min();
    }
}
