//! How far groups have come, and how far behind they are (208, 303, 317).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use base::{QueueId, QueueOffset};
use remoting::body::MessageQueue;
use remoting::body::consume::{ConsumeStats, ConsumeStatsList, OffsetWrapper, QueryConsumeTimeSpan, QueueTimeSpan};
use remoting::header::consume::{BrokerConsumeStats, ConsumeStatsRequest, ConsumeTimeSpan};
use remoting::json;
use remoting::text::Text;
use runtime::clock;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::group::offsets::TopicOffsets;
use crate::group::queue_ends::{self, QueueEnds};
use crate::stats::{self, Item, Window};
use crate::topic::{Topic, no_topic};

/// Between the topics of field `topicList`.
const TOPIC_SEPARATOR: char = ';';

/// The offsets of one group in the queues of the topics asked for (208); on the group's owner.
pub(crate) async fn consume_stats(core: Rc<Core>, request: Request) -> Outcome {
    let header = ConsumeStatsRequest::decode(&request.command.fields)?;
    let group = header.consumer_group;
    let offsets = core.groups.with(&group, |group| group.offsets.all()).unwrap_or_default();
    let named = |text: &Text| !text.is_empty();
    let mut all = ConsumeStats::default();
    match (header.topic_list.filter(named), header.topic.filter(named)) {
        (Some(list), _) => {
            for topic in list.split(TOPIC_SEPARATOR).map(str::trim).filter(|topic| !topic.is_empty()) {
                if let Some(topic) = core.topics.get(topic) {
                    add(&mut all, stats_of(&core, &group, &topic, &offsets).await?);
                }
            }
        }
        (None, Some(topic)) => {
            if let Some(topic) = consumed_topic(&core, &group, &topic) {
                add(&mut all, stats_of(&core, &group, &topic, &offsets).await?);
            }
        }
        (None, None) => {
            for topic in offsets.keys() {
                if let Some(topic) = consumed_topic(&core, &group, topic) {
                    add(&mut all, stats_of(&core, &group, &topic, &offsets).await?);
                }
            }
        }
    }
    Ok(Answer::success().with_body(json::encode(&all)))
}

/// A topic that is there and that the group, if it is online, still wants.
fn consumed_topic(core: &Core, group: &str, topic: &str) -> Option<Rc<Topic>> {
    let view = core.group_views.get(group);
    let unwanted = view.is_some_and(|view| !view.subscriptions.is_empty() && !view.subscriptions.contains_key(topic));
    if unwanted { None } else { core.topics.get(topic) }
}

fn add(all: &mut ConsumeStats, one: ConsumeStats) {
    all.consume_tps += one.consume_tps;
    all.offset_table.extend(one.offset_table.0);
}

/// The offsets of a group in all readable queues of a topic.
async fn stats_of(
    core: &Rc<Core>,
    group: &Text,
    topic: &Topic,
    offsets: &TopicOffsets,
) -> Result<ConsumeStats, Refusal> {
    let committed = offsets.get(topic.name());
    let offset_of = |queue| committed.and_then(|queues| queues.get(&queue)).copied().unwrap_or_default();
    let queues: Vec<_> =
        (0..topic.read_queues()).map(QueueId).map(|queue| (topic.name().clone(), queue, offset_of(queue))).collect();
    let asked = queues.clone();
    let answers = queue_ends::ask(core, asked, |core, topic, queue, offset: QueueOffset| async move {
        let time = match offset.0.checked_sub(1) {
            Some(last) => queue_ends::store_time_here(&core, &topic, queue, QueueOffset(last)).await?,
            None => None,
        };
        Ok::<_, Refusal>((queue_ends::ends_here(&core, &topic, queue), time))
    })
    .await;
    let item = Item::GroupGot { topic: topic.name().clone(), group: group.clone(), bytes: false };
    let mut stats = ConsumeStats::default();
    if let Some(view) = stats::gather_item(core, item).await {
        stats.consume_tps = view.figures(Window::Minute).1;
    }
    for ((_, queue, offset), answer) in queues.into_iter().zip(answers) {
        let (ends, time) = answer?;
        // A commit in front of the last messages may be known here before they are, and an old one may be of a queue
        // that was longer once: nobody is ahead of a queue's end.
        let consumed = offset.min(ends.max).0 as i64;
        let wrapper = OffsetWrapper {
            broker_offset: ends.max.0 as i64,
            consumer_offset: consumed,
            last_timestamp: time.unwrap_or(0) as i64,
            pull_offset: consumed,
        };
        stats.offset_table.insert(message_queue(core, topic, queue), wrapper);
    }
    Ok(stats)
}

/// The offsets of all groups (317); on the tables' core.
pub(crate) async fn broker_consume_stats(core: Rc<Core>, request: Request) -> Outcome {
    let BrokerConsumeStats { order } = BrokerConsumeStats::decode(&request.command.fields)?;
    let offsets = core.on_each(|core| async move {
        let mut groups = Vec::new();
        core.groups.for_each(|name, group| groups.push((name.clone(), group.offsets.all())));
        groups
    });
    let offsets: BTreeMap<Text, TopicOffsets> = offsets.await.into_iter().flatten().collect();
    let config = core.config();
    let address = SocketAddr::new(config.network.advertised_address, config.network.listen_port);
    let mut list = ConsumeStatsList { broker_addr: Text::from(address.to_string()), ..ConsumeStatsList::default() };
    for group in core.tables().group_configs.names() {
        let Some(topics) = offsets.get(&group) else { continue };
        let mut of_group = Vec::new();
        for topic in topics.keys() {
            let Some(topic) = consumed_topic(&core, &group, topic) else { continue };
            if order && !topic.config.order {
                continue;
            }
            let stats = stats_of(&core, &group, &topic, topics).await?;
            list.total_diff += stats.offset_table.values().map(behind).sum::<i64>();
            list.total_inflight_diff +=
                stats.offset_table.values().map(|queue| queue.pull_offset - queue.consumer_offset).sum::<i64>();
            of_group.push(stats);
        }
        if !of_group.is_empty() {
            list.consume_stats_list.push([(group, of_group)].into());
        }
    }
    Ok(Answer::success().with_body(json::encode(&list)))
}

fn behind(queue: &OffsetWrapper) -> i64 {
    queue.broker_offset - queue.consumer_offset
}

/// The times between which a group's backlog of a topic lies (303); on the group's owner.
pub(crate) async fn consume_time_span(core: Rc<Core>, request: Request) -> Outcome {
    let ConsumeTimeSpan { topic, group } = ConsumeTimeSpan::decode(&request.command.fields)?;
    let topic = core.topics.get(&topic).ok_or_else(|| no_topic(&topic))?;
    let committed = core.groups.with(&group, |group| group.offsets.of_topic(topic.name())).unwrap_or_default();
    let queues: Vec<_> = (0..topic.read_queues())
        .map(QueueId)
        .map(|queue| (topic.name().clone(), queue, committed.get(&queue).copied().unwrap_or_default()))
        .collect();
    let answers = queue_ends::ask(&core, queues, |core, topic, queue, offset| async move {
        time_span(&core, &topic, queue, offset).await
    })
    .await;
    let mut body = QueryConsumeTimeSpan::default();
    for (queue, span) in answers.into_iter().enumerate() {
        let message_queue = message_queue(&core, &topic, QueueId(queue as u32));
        body.consume_time_span_set.push(QueueTimeSpan { message_queue, ..span? });
    }
    Ok(Answer::success().with_body(json::encode(&body)))
}

/// The span of one queue, on its owner. A time that is not there is 0.
async fn time_span(core: &Core, topic: &str, queue: QueueId, offset: QueueOffset) -> Result<QueueTimeSpan, Refusal> {
    let QueueEnds { min, max } = queue_ends::ends_here(core, topic, queue);
    let time = async |at: Option<u64>| -> Result<u64, Refusal> {
        let Some(at) = at else { return Ok(0) };
        Ok(queue_ends::store_time_here(core, topic, queue, QueueOffset(at)).await?.unwrap_or(0))
    };
    let min_time = time(Some(min.0)).await?;
    let max_time = time(max.0.checked_sub(1)).await?;
    let consumed_time = match offset.0.checked_sub(1) {
        Some(last) => time(Some(last)).await?,
        None => min_time,
    };
    let waiting_since = if offset < max { time(Some(offset.0.max(min.0))).await? } else { 0 };
    let delay_ms = if waiting_since == 0 { 0 } else { clock::now_ms().0.saturating_sub(waiting_since) };
    Ok(QueueTimeSpan {
        consume_time_stamp: consumed_time as i64,
        delay_time: delay_ms as i64,
        max_time_stamp: max_time as i64,
        message_queue: MessageQueue::default(),
        min_time_stamp: min_time as i64,
    })
}

fn message_queue(core: &Core, topic: &Topic, queue: QueueId) -> MessageQueue {
    MessageQueue {
        broker_name: Text::from(&core.config().identity.broker),
        queue_id: queue.0 as i32,
        topic: topic.name().clone(),
    }
}
