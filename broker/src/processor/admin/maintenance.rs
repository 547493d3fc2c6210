//! Upkeep and inspection for admin tools: queue entries (321), cleaning (306, 316, 329), and clean answers to calls of
//! features that this broker does not have, or has no need of.

use std::collections::BTreeSet;
use std::rc::Rc;

use base::{PhysicalOffset, QueueOffset};
use remoting::body::queue::{ConsumeQueueData, QueryConsumeQueueResponse};
use remoting::code::ResponseCode;
use remoting::header::stats::QueryConsumeQueue;
use remoting::json;
use remoting::text::Text;
use serde_json::json as object;
use storage::{Log, Queue};

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;

/// Entries of one answer to 321. Beyond it fewer come than were asked for.
const ENTRIES_MAX: u64 = 1000;

/// 321, on the queue's owner.
pub(crate) async fn queue_entries(core: Rc<Core>, request: Request) -> Outcome {
    let header = QueryConsumeQueue::decode(&request.command.fields)?;
    let id = core
        .topics
        .get(&header.topic)
        .and_then(|topic| topic.queues().find(|queue| i64::from(queue.0) == i64::from(header.queue_id)))
        .ok_or_else(|| failed(format!("topic {} has no queue {}", header.topic, header.queue_id)))?;
    let mut body = QueryConsumeQueueResponse::default();
    if let Some(group) = header.consumer_group.as_ref().filter(|group| !group.is_empty()) {
        let view = core.group_views.get(group);
        body.subscription_data =
            view.and_then(|view| view.subscriptions.get(&header.topic).map(|data| (**data).clone()));
        if body.subscription_data.is_none() {
            body.filter_data = Some(Text::from(format!("{group}@{} is not online!", header.topic)));
        }
    }
    let log = core.log_of_queue(&header.topic, id).clone();
    if let Some(queue) = log.find_queue(&header.topic, id) {
        body.min_queue_index = wire(queue.min().0);
        body.max_queue_index = wire(queue.max().0);
        body.queue_data = entries(&log, &queue, &header, &body).await?;
    }
    Ok(Answer::success().with_body(json::encode(&body)))
}

async fn entries(
    log: &Rc<Log>,
    queue: &Queue,
    header: &QueryConsumeQueue,
    told: &QueryConsumeQueueResponse,
) -> Result<Vec<ConsumeQueueData>, Refusal> {
    let asked = u64::try_from(header.count).unwrap_or(0).min(ENTRIES_MAX);
    let start = u64::try_from(header.index).unwrap_or(0).max(queue.min().0);
    let limit = start.saturating_add(asked).min(queue.max().0);
    let mut found = Vec::new();
    for at in start..limit {
        let entry = queue.entry(QueueOffset(at)).await.map_err(|error| failed(error.to_string()))?;
        // A queue has gaps where records were lost.
        let Some(entry) = entry else { continue };
        found.push(ConsumeQueueData {
            eval: told.subscription_data.as_ref().is_some_and(|data| data.matches(entry.tags_code)),
            physic_offset: wire(PhysicalOffset::new(log.id(), entry.offset).0),
            physic_size: i32::try_from(entry.bytes).unwrap_or(i32::MAX),
            tags_code: entry.tags_code,
            ..ConsumeQueueData::default()
        });
    }
    Ok(found)
}

/// 306, on any core: entries go with the records that they point to, so none is ever expired.
pub(crate) async fn clean_expired_queues(_core: Rc<Core>, _request: Request) -> Outcome {
    Ok(Answer::success())
}

/// 329, on any core: expired segments go now, whatever the hour. The answer does not wait for them.
pub(crate) async fn delete_expired_segments(core: Rc<Core>, _request: Request) -> Outcome {
    core.on_each(|core| async move { core.retention.ask() }).await;
    Ok(Answer::success())
}

/// 316, on any core: drops the queues of topics that are not there any more. Those of topics that are, stay.
pub(crate) async fn clean_unused_topics(core: Rc<Core>, _request: Request) -> Outcome {
    let outcomes = core.on_each(|core| async move { clean_own_unused_topics(&core).await });
    for outcome in outcomes.await {
        outcome?;
    }
    Ok(Answer::success())
}

async fn clean_own_unused_topics(core: &Rc<Core>) -> Result<(), Refusal> {
    for log in core.own_logs() {
        let queues = log.queues();
        let unused: BTreeSet<&str> =
            queues.iter().map(|queue| queue.topic()).filter(|topic| !core.topics.contains(topic)).collect();
        for topic in unused {
            // It may have been made anew while the one before it was cleaned away.
            if core.topics.contains(topic) {
                continue;
            }
            log.delete_topic(topic).await.map_err(|error| failed(error.to_string()))?;
            crate::log::note(format_args!("queues of topic {topic}, which does not exist any more, are cleaned away"));
        }
    }
    Ok(())
}

/// 60 and 61, on any core.
pub(crate) async fn timer_state(_core: Rc<Core>, _request: Request) -> Outcome {
    Err(failed("this broker has no wheel with a checkpoint and metrics: its log says which messages wait".to_owned()))
}

/// 45, on any core.
pub(crate) async fn delay_offsets(_core: Rc<Core>, _request: Request) -> Outcome {
    Err(failed("this broker keeps no offsets of delay levels: its log says what was delivered".to_owned()))
}

/// 2001 and 2002, on any core.
pub(crate) async fn change_cold_data_limit(_core: Rc<Core>, _request: Request) -> Outcome {
    Err(failed("cold data flow control is not enabled on this broker".to_owned()))
}

/// 2003, on any core.
pub(crate) async fn cold_data_limits(_core: Rc<Core>, _request: Request) -> Outcome {
    let body = object!({ "coldDataFlowControlEnable": false, "configTable": {}, "runtimeTable": {} });
    Ok(Answer::success().with_body(json::encode(&body)))
}

/// 2004, on any core.
pub(crate) async fn set_read_mode(_core: Rc<Core>, request: Request) -> Outcome {
    match request.command.fields.get("READ_AHEAD_MODE") {
        Some("0" | "1") => Err(failed("this broker reads its log as needed: there is no mode to set".to_owned())),
        _ => Err(Refusal::new(ResponseCode::INVALID_PARAMETER, "READ_AHEAD_MODE must be 0 (normal) or 1 (random)")),
    }
}

/// 354, on any core: nothing to compare.
pub(crate) async fn check_rocksdb_queues(_core: Rc<Core>, _request: Request) -> Outcome {
    let body = object!({ "checkResult": "this broker keeps no queues in RocksDB, no need to check", "checkStatus": 0 });
    Ok(Answer::success().with_body(json::encode(&body)))
}

/// 355, on any core.
pub(crate) async fn export_rocksdb_config(_core: Rc<Core>, _request: Request) -> Outcome {
    Err(failed("this broker keeps its tables as JSON in files; there is no RocksDB to export".to_owned()))
}

/// 200056, on any core: nothing was popped that could be rolled back.
pub(crate) async fn roll_back_pops(_core: Rc<Core>, _request: Request) -> Outcome {
    Ok(Answer::success())
}

/// 513, on any core.
pub(crate) async fn update_static_topic(_core: Rc<Core>, _request: Request) -> Outcome {
    Err(failed("static topics are not supported by this broker; use an ordinary topic".to_owned()))
}

/// 5001, on any core.
pub(crate) async fn switch_timer_engine(_core: Rc<Core>, _request: Request) -> Outcome {
    Err(failed("this broker has one engine for timer messages, its log: there is nothing to switch to".to_owned()))
}

fn failed(remark: String) -> Refusal {
    Refusal::new(ResponseCode::SYSTEM_ERROR, Text::from(remark))
}

fn wire(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
