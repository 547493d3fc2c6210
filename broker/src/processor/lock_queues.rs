//! Locks of queues for consumption in order (41, 42).

use std::rc::Rc;

use remoting::body::heartbeat::{LockBatch, LockBatchResponse};
use remoting::code::ResponseCode;
use remoting::json;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;

/// Queues that one request may name. Beyond it the request is refused.
const QUEUES_MAX: usize = 65_536;

/// Locks or renews; answers exactly the queues that are the caller's now. On the connection's core.
pub(crate) async fn lock_queues(core: Rc<Core>, request: Request) -> Outcome {
    let batch = read(&request)?;
    let owner = core.placement.core_of_group(&batch.consumer_group);
    let locked = core
        .on(owner, move |core| async move { core.groups.lock(&batch.consumer_group, &batch.client_id, &batch.mq_set) })
        .await;
    Ok(Answer::success().with_body(json::encode(&LockBatchResponse { locked })))
}

/// Frees what the caller holds; on the connection's core.
pub(crate) async fn unlock_queues(core: Rc<Core>, request: Request) -> Outcome {
    let batch = read(&request)?;
    let owner = core.placement.core_of_group(&batch.consumer_group);
    core.on(
        owner,
        move |core| async move { core.groups.unlock(&batch.consumer_group, &batch.client_id, &batch.mq_set) },
    )
    .await;
    Ok(Answer::success())
}

fn read(request: &Request) -> Result<LockBatch, Refusal> {
    let invalid = |remark: String| Refusal::new(ResponseCode::INVALID_PARAMETER, remark);
    let batch: LockBatch = json::decode(&request.command.body)
        .map_err(|error| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string()))?;
    if batch.consumer_group.is_empty() || batch.client_id.is_empty() {
        return Err(invalid("a lock needs consumerGroup and clientId".to_owned()));
    }
    if batch.mq_set.len() > QUEUES_MAX {
        return Err(invalid(format!("{} queues in one request, at most {QUEUES_MAX} are allowed", batch.mq_set.len())));
    }
    Ok(batch)
}
