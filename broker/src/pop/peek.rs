//! What a group would pop of a queue next, on the queue's owner. Nothing changes by looking.

use std::rc::Rc;

use base::QueueOffset;
use remoting::code::ResponseCode;
use remoting::record::Records;
use storage::{QueueRead, QueueRef, ReadLimits};

use super::ledger::Ledger;
use super::take::{Ask, Look, Taken, beginning};
use crate::call::Refusal;
use crate::core::Core;
use crate::filter;

/// The next messages whatever their tags, and how many there are with those.
///
/// # Errors
/// When the queue cannot be read.
pub(super) async fn peek(core: &Rc<Core>, ask: &Ask, ledger: &Ledger, queue: &QueueRef) -> Result<Look, Refusal> {
    let start = match ledger.next(&ask.of()) {
        Some(next) => next,
        None => beginning(core, ask).await?,
    };
    // What was deleted in front of it is not there to be popped.
    let start = start.clamp(queue.min(), queue.max());
    let taken = if ask.count_max == 0 { None } else { read(core, ask, ledger, queue, start).await? };
    Ok(Look { taken, rest: queue.max().0.saturating_sub(start.0), again_at_ms: None })
}

async fn read(
    core: &Rc<Core>,
    ask: &Ask,
    ledger: &Ledger,
    queue: &QueueRef,
    start: QueueOffset,
) -> Result<Option<Taken>, Refusal> {
    let failed = |error: String| Refusal::new(ResponseCode::SYSTEM_ERROR, error);
    let limits = ReadLimits {
        messages_max: ask.count_max,
        bytes_max: u64::from(core.config().consumers.pull_bytes_max),
        scan_max: ask.count_max,
    };
    let (read, parts) =
        ledger.log.pull(queue, start, limits, |_| true).await.map_err(|error| failed(error.to_string()))?;
    let QueueRead::Found(found) = read else { return Ok(None) };
    let records = filter::copy(parts, found.bytes).await?;
    let mut offsets = Vec::with_capacity(found.messages as usize);
    for record in Records::new(&records) {
        offsets.push(record.map_err(|error| failed(error.to_string()))?.queue_offset());
    }
    Ok(Some(Taken { kind: ask.kind, queue: ask.queue, start, offsets, counts: Vec::new(), records }))
}
