//! Topics for admin tools: make, change, list, delete (17, 18, 21, 215, 305, 351, 5002), and their offsets (202).

use std::rc::Rc;

use base::{QueueId, QueueOffset};
use remoting::body::MessageQueue;
use remoting::body::topic::{
    DataVersion, TopicConfig, TopicConfigList, TopicConfigTable, TopicFilterType, TopicList, TopicOffset,
    TopicStatsTable,
};
use remoting::code::ResponseCode;
use remoting::header::topic::{CreateTopic, GetAllTopicConfig, GetAllTopicConfigResponse, TopicRequest};
use remoting::json::{self, JsonError};
use remoting::text::Text;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::stats::{self, Item, Window};
use crate::topic::{Change, Topic, config_table, parse_attributes};

/// Topics of one request that makes or deletes several. Beyond it the request is refused.
const TOPICS_AT_ONCE_MAX: usize = 10_000;

/// 17, on the tables' core: makes a topic or replaces the fields of one that exists.
pub(crate) async fn update_topic(core: Rc<Core>, request: Request) -> Outcome {
    let header = CreateTopic::decode(&request.command.fields)?;
    let Some(topic_filter_type) = TopicFilterType::from_name(&header.topic_filter_type) else {
        let remark = format!("topicFilterType is {}; allowed are SINGLE_TAG and MULTI_TAG", header.topic_filter_type);
        return Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark));
    };
    let attributes = parse_attributes(header.attributes.as_deref().unwrap_or_default())
        .map_err(|error| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string()))?;
    let wish = TopicConfig {
        attributes,
        order: header.order,
        perm: header.perm,
        read_queue_nums: header.read_queue_nums,
        topic_filter_type,
        topic_name: header.topic,
        topic_sys_flag: header.topic_sys_flag,
        write_queue_nums: header.write_queue_nums,
    };
    change(&core, Change::Update(wish)).await
}

/// 18, on the tables' core: several topics, all or none.
pub(crate) async fn update_topic_list(core: Rc<Core>, request: Request) -> Outcome {
    let list: TopicConfigList = json::decode(&request.command.body).map_err(bad_body)?;
    check_count(list.topic_config_list.len())?;
    change(&core, Change::UpdateList(list.topic_config_list)).await
}

/// 215, on the tables' core. A topic that is not there is as good as deleted.
pub(crate) async fn delete_topic(core: Rc<Core>, request: Request) -> Outcome {
    let header = TopicRequest::decode(&request.command.fields)?;
    change(&core, Change::Delete(header.topic)).await
}

/// 5002, on the tables' core. Ends at the first topic that cannot be deleted.
pub(crate) async fn delete_topic_list(core: Rc<Core>, request: Request) -> Outcome {
    let list: TopicList = json::decode(&request.command.body).map_err(bad_body)?;
    check_count(list.topic_list.len())?;
    for topic in list.topic_list {
        change(&core, Change::Delete(topic)).await?;
    }
    Ok(Answer::success())
}

/// 21, on the tables' core: everything at once. To those who ask for pages the only one says so.
pub(crate) async fn all_topic_configs(core: Rc<Core>, request: Request) -> Outcome {
    let header = GetAllTopicConfig::decode(&request.command.fields)?;
    let (topics, version) = core.tables().topics.snapshot(None);
    let topic_count = i32::try_from(topics.len()).unwrap_or(i32::MAX);
    let body = runtime::blocking(move || {
        json::encode(&TopicConfigTable {
            // Of the static topics, which there are none of.
            mapping_data_version: Some(DataVersion::default()),
            ..config_table(&topics, version)
        })
    });
    let answer = Answer::success().with_body(body.await);
    Ok(match header.topic_sequence {
        Some(_) => answer.with_fields(GetAllTopicConfigResponse { topic_count }.to_fields()),
        None => answer,
    })
}

/// 351, on any core.
pub(crate) async fn topic_config(core: Rc<Core>, request: Request) -> Outcome {
    let topic = named_topic(&core, &request)?;
    Ok(Answer::success().with_body(json::encode(&topic.config)))
}

/// 305, on the tables' core.
pub(crate) async fn system_topics(core: Rc<Core>, _request: Request) -> Outcome {
    let list = TopicList { topic_list: core.tables().topics.system_topics(), ..TopicList::default() };
    Ok(Answer::success().with_body(json::encode(&list)))
}

/// 202, on any core: the offsets of all queues, from their owners.
pub(crate) async fn topic_stats(core: Rc<Core>, request: Request) -> Outcome {
    let topic = named_topic(&core, &request)?;
    let asked = Topic::clone(&topic);
    let gathered = core
        .on_each(move |core| {
            let topic = asked.clone();
            async move { own_queue_offsets(&core, &topic).await }
        })
        .await;
    let broker_name = Text::from(&core.config().identity.broker);
    let mut table = TopicStatsTable::default();
    for offsets in gathered {
        for (queue, offset) in offsets? {
            let queue_id = i32::try_from(queue.0).expect("queues are bounded far below");
            let topic = topic.name().clone();
            table.offset_table.insert(MessageQueue { broker_name: broker_name.clone(), queue_id, topic }, offset);
        }
    }
    let item = Item::TopicPut { topic: topic.name().clone(), bytes: false };
    if let Some(view) = stats::gather_item(&core, item).await {
        table.topic_put_tps = view.figures(Window::Minute).1;
    }
    Ok(Answer::success().with_body(json::encode(&table)))
}

/// The offsets of a topic's queues that this core owns.
async fn own_queue_offsets(core: &Rc<Core>, topic: &Topic) -> Result<Vec<(QueueId, TopicOffset)>, Refusal> {
    let mut offsets = Vec::new();
    for queue in topic.queues() {
        if core.placement.core_of_log(core.placement.log_of(topic.hash, queue)) == core.id {
            offsets.push((queue, queue_offset(core, topic, queue).await?));
        }
    }
    Ok(offsets)
}

async fn queue_offset(core: &Rc<Core>, topic: &Topic, id: QueueId) -> Result<TopicOffset, Refusal> {
    let Some(queue) = core.log_of_topic_queue(topic, id).find_queue(topic.name(), id) else {
        return Ok(TopicOffset::default());
    };
    let (min, max) = (queue.min(), queue.max());
    let newest = match max.0.checked_sub(1).filter(|newest| *newest >= min.0) {
        Some(newest) => queue.entry(QueueOffset(newest)).await.map_err(|error| {
            Refusal::new(ResponseCode::SYSTEM_ERROR, format!("queue {id} of topic {}: {error}", topic.name()))
        })?,
        None => None,
    };
    Ok(TopicOffset {
        last_update_timestamp: newest.map_or(0, |entry| wire(entry.store_timestamp_ms)),
        max_offset: wire(max.0),
        min_offset: wire(min.0),
    })
}

fn wire(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

async fn change(core: &Rc<Core>, change: Change) -> Outcome {
    let owner = core.tables().topics.clone();
    owner.change(core, change).await?;
    Ok(Answer::success())
}

fn named_topic(core: &Rc<Core>, request: &Request) -> Result<Rc<Topic>, Refusal> {
    let header = TopicRequest::decode(&request.command.fields)?;
    core.topics.get(&header.topic).ok_or_else(|| {
        let remark = format!("topic {} does not exist on broker {}", header.topic, core.config().identity.broker);
        Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark)
    })
}

fn check_count(topics: usize) -> Result<(), Refusal> {
    if topics <= TOPICS_AT_ONCE_MAX {
        return Ok(());
    }
    let remark = format!("the request names {topics} topics; at most {TOPICS_AT_ONCE_MAX} are allowed at once");
    Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark))
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err gives it")]
fn bad_body(error: JsonError) -> Refusal {
    Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string())
}
