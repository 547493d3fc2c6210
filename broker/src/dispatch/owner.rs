//! Who owns a request: pure functions of the request and the placement.

use std::rc::Rc;

use base::{CoreId, PhysicalOffset, QueueId};
use remoting::code::RequestCode;
use remoting::fields::Fields;
use remoting::header::send::destination;
use remoting::properties::PRIORITY;

use crate::call::{Refusal, Request};
use crate::core::Core;
use crate::placement::TABLES_CORE;
use crate::processor::send::Known;

pub(crate) type OwnerOf = fn(&Rc<Core>, &mut Request) -> Result<CoreId, Refusal>;

/// The core of the connection: what is done there, or what goes to many cores from there.
pub(crate) fn here(core: &Rc<Core>, _request: &mut Request) -> Result<CoreId, Refusal> {
    Ok(core.id)
}

pub(crate) fn tables(_core: &Rc<Core>, _request: &mut Request) -> Result<CoreId, Refusal> {
    Ok(TABLES_CORE)
}

/// The owner of the queue that fields `topic` and `queueId` (or `b` and `e`) name. A queue still to be chosen, or one
/// that cannot be, is looked at here.
pub(crate) fn queue(core: &Rc<Core>, request: &mut Request) -> Result<CoreId, Refusal> {
    let fields = &request.command.fields;
    let topic = fields.get("topic").or_else(|| fields.get("b"));
    let queue = fields.get("queueId").or_else(|| fields.get("e")).and_then(|text| text.parse::<u32>().ok());
    Ok(match (topic, queue) {
        (Some(topic), Some(queue)) => core.placement.core_of_queue(topic, QueueId(queue)),
        _ => core.id,
    })
}

/// The owner of the queue that a send goes to. Where the sender leaves the choice to the broker, or to the message's
/// priority, it is made here.
pub(crate) fn send(core: &Rc<Core>, request: &mut Request) -> Result<CoreId, Refusal> {
    let fields = &request.command.fields;
    if let Some(destination) = destination(fields)
        && let Ok(queue) = destination.queue.parse()
        && !destination.properties.contains(PRIORITY)
    {
        return Ok(core.placement.core_of_queue(destination.topic, QueueId(queue)));
    }
    let name = if fields.contains("e") { "e" } else { "queueId" };
    let asked = fields.get(name);
    let is_left_open = asked.is_some_and(|queue| queue.starts_with('-'));
    // Nearly all messages have none, and do not come this far.
    let priority = priority(request);
    if is_left_open || priority.is_some() {
        let (read, write) = queues_of_send(core, fields);
        let exists = |queue: &str| queue.parse::<u32>().is_ok_and(|queue| queue < read.max(write));
        let chosen = match priority {
            Some(priority) if is_left_open || asked.is_some_and(exists) => Some(priority.min(write.max(1) - 1)),
            _ if is_left_open => Some(core.draw_below(write.max(1))),
            _ => None,
        };
        if let Some(chosen) = chosen {
            request.command.fields.set(name, chosen as i32);
        }
    }
    queue(core, request)
}

/// The priority of a single message.
fn priority(request: &Request) -> Option<u32> {
    let fields = &request.command.fields;
    let properties = fields.get("i").or_else(|| fields.get("properties"))?;
    let is_single = [RequestCode::SEND_MESSAGE.0, RequestCode::SEND_MESSAGE_V2.0].contains(&request.command.code);
    if !properties.contains(PRIORITY) || !is_single {
        return None;
    }
    if fields.get("m").or_else(|| fields.get("batch")).is_some_and(|batch| batch == "true") {
        return None;
    }
    Known::of(properties).priority()
}

/// Readable and writable queues of the topic of a send, also of one that is still to be made.
fn queues_of_send(core: &Core, fields: &Fields) -> (u32, u32) {
    match fields.get("topic").or_else(|| fields.get("b")).and_then(|topic| core.topics.get(topic)) {
        Some(topic) => (topic.read_queues(), topic.write_queues()),
        None => {
            let asked = fields.get("d").or_else(|| fields.get("defaultTopicQueueNums"));
            let asked = asked.and_then(|text| text.parse().ok()).unwrap_or(1);
            let queues = core.config().topics.default_queue_count.min(asked);
            (queues, queues)
        }
    }
}

/// The owner of the group that field `consumerGroup` or `group` names.
pub(crate) fn group(core: &Rc<Core>, request: &mut Request) -> Result<CoreId, Refusal> {
    let fields = &request.command.fields;
    Ok(match fields.get("consumerGroup").or_else(|| fields.get("group")) {
        Some(group) => core.placement.core_of_group(group),
        None => core.id,
    })
}

/// The owner of the log that a physical offset in field `offset` lies in.
pub(crate) fn physical_offset(core: &Rc<Core>, request: &mut Request) -> Result<CoreId, Refusal> {
    log_of(core, request, "offset")
}

/// The owner of the log that a half message lies in.
pub(crate) fn half_message(core: &Rc<Core>, request: &mut Request) -> Result<CoreId, Refusal> {
    log_of(core, request, "commitLogOffset")
}

/// The owner of the log that a physical offset lies in; an offset of no log is looked at here.
fn log_of(core: &Rc<Core>, request: &Request, field: &'static str) -> Result<CoreId, Refusal> {
    let offset: i64 = request.command.fields.required(field)?;
    let owner = u64::try_from(offset).ok().and_then(|offset| core.core_of_offset(PhysicalOffset(offset)));
    Ok(owner.unwrap_or(core.id))
}
