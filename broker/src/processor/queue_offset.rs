//! What a queue knows of itself: its ends, and offsets by time (29, 30, 31, 32).

use std::rc::Rc;

use base::{QueueId, QueueOffset};
use remoting::code::ResponseCode;
use remoting::fields::Fields;
use remoting::text::Text;
use storage::{Bound, QueueRef};

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;

pub(crate) async fn max_offset(core: Rc<Core>, request: Request) -> Outcome {
    let offset = match queue_of(&core, &request)? {
        Some(queue) => queue.max(),
        None => QueueOffset::ZERO,
    };
    Ok(one_field("offset", offset.0 as i64))
}

pub(crate) async fn min_offset(core: Rc<Core>, request: Request) -> Outcome {
    let offset = match queue_of(&core, &request)? {
        Some(queue) => queue.min(),
        None => QueueOffset::ZERO,
    };
    Ok(one_field("offset", offset.0 as i64))
}

/// The first offset stored at a time or later, or the last one stored at it or before.
pub(crate) async fn offset_by_time(core: Rc<Core>, request: Request) -> Outcome {
    let fields = &request.command.fields;
    let timestamp_ms: i64 = fields.required("timestamp")?;
    let bound = match fields.get("boundaryType") {
        Some(text) if text.eq_ignore_ascii_case("UPPER") => Bound::Upper,
        _ => Bound::Lower,
    };
    let offset = match queue_of(&core, &request)? {
        Some(queue) => {
            queue.offset_by_time(timestamp_ms.max(0) as u64, bound).await.map_err(|error| refused(&error))?
        }
        None => QueueOffset::ZERO,
    };
    Ok(one_field("offset", offset.0 as i64))
}

/// When the oldest message of a queue was stored; -1 when there is none.
pub(crate) async fn earliest_store_time(core: Rc<Core>, request: Request) -> Outcome {
    let timestamp_ms = match queue_of(&core, &request)? {
        Some(queue) => queue.store_timestamp_ms_first().await.map_err(|error| refused(&error))?,
        None => None,
    };
    Ok(one_field("timestamp", timestamp_ms.map_or(-1, |ms| ms as i64)))
}

/// The queue that the request names, if anything was ever stored in it.
fn queue_of(core: &Rc<Core>, request: &Request) -> Result<Option<QueueRef>, Refusal> {
    let topic: Text = request.command.fields.required("topic")?;
    let queue: i32 = request.command.fields.required("queueId")?;
    let Ok(queue) = u32::try_from(queue) else { return Ok(None) };
    Ok(core.log_of_queue(&topic, QueueId(queue)).find_queue(&topic, QueueId(queue)))
}

fn refused(error: &storage::StorageError) -> Refusal {
    Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string())
}

fn one_field(name: &'static str, value: i64) -> Answer {
    let mut fields = Fields::new();
    fields.push(name, value);
    Answer::success().with_fields(fields)
}
