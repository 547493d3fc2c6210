//! Acknowledgements of popped messages (200051, 200151), and new holds of them (200053).

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{CoreId, QueueId, QueueOffset};
use remoting::body::pop::{BatchAck, BatchAckBody, bits_set};
use remoting::code::ResponseCode;
use remoting::header::pop::{AckMessage, ChangeInvisibleTime, ChangeInvisibleTimeResponse};
use remoting::json;
use remoting::name;
use remoting::text::Text;
use runtime::clock::{self, Stamp};
use storage::Ticket;
use transport::Stage;

use crate::call::{Answer, Call, Outcome, Refusal, Request};
use crate::core::Core;
use crate::group::queue_ends;
use crate::pop;
use crate::pop::in_flight::PopQueue;
use crate::pop::receipt::Receipt;
use crate::stages;

/// Receipts of one request. Beyond it the request is refused.
const RECEIPTS_MAX: usize = 4096;

/// One message is done; on its queue's owner.
pub(crate) fn acknowledge(core: &Rc<Core>, call: Call) {
    let (core, Call { request, mut responder }) = (core.clone(), call);
    runtime::spawn(async move {
        let noted = acknowledge_one(&core, &request).await;
        if let Some(trip) = responder.trip() {
            match &noted {
                Ok(Some(ticket)) => {
                    trip.pass(Stage::Append, ticket.accepted);
                    stages::pass_write(trip, &ticket.write_times());
                }
                _ => trip.pass(Stage::Append, Stamp::now()),
            }
        }
        responder.answer(&core, noted.map(|_| Answer::success()));
    });
}

/// Gives the note of it; `None` when there was nothing to note.
async fn acknowledge_one(core: &Rc<Core>, request: &Request) -> Result<Option<Ticket>, Refusal> {
    let header = AckMessage::decode(&request.command.fields)?;
    let of = queue_of(core, &header.consumer_group, &header.topic, header.queue_id)?;
    let receipt = receipt_of(core, &of, &header.receipt, header.offset)?;
    pop::acknowledge(core, &of, &receipt).await
}

/// Messages of several queues are done; on the connection's core.
pub(crate) async fn acknowledge_batch(core: Rc<Core>, request: Request) -> Outcome {
    let body: BatchAckBody = json::decode(&request.command.body)
        .map_err(|error| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string()))?;
    if body.acks.is_empty() {
        return Err(Refusal::new(ResponseCode::NO_MESSAGE, "the request acknowledges nothing"));
    }
    let mut by_owner: BTreeMap<CoreId, Vec<(PopQueue, Receipt)>> = BTreeMap::new();
    for ack in &body.acks {
        // What makes no sense is passed over, so that it does not hold up the others.
        let Some((of, receipts)) = receipts_of(&core, ack) else { continue };
        let owner = core.placement.core_of_queue(&of.topic, of.queue);
        by_owner.entry(owner).or_default().extend(receipts.into_iter().map(|receipt| (of.clone(), receipt)));
    }
    let count: usize = by_owner.values().map(Vec::len).sum();
    if count > RECEIPTS_MAX {
        let remark = format!("{count} messages in one request, at most {RECEIPTS_MAX} can be acknowledged");
        return Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark));
    }
    for (owner, all) in by_owner {
        core.on(owner, move |core| async move { pop::acknowledge_all(&core, all).await }).await?;
    }
    Ok(Answer::success())
}

/// A message is to stay with its consumer for another time; on its queue's owner.
pub(crate) async fn change_invisible(core: Rc<Core>, request: Request) -> Outcome {
    let header = ChangeInvisibleTime::decode(&request.command.fields)?;
    let of = queue_of(&core, &header.consumer_group, &header.topic, header.queue_id)?;
    let receipt = receipt_of(&core, &of, &header.receipt, header.offset)?;
    let times = (clock::now_ms().0, header.invisible_time_ms.max(0) as u64);
    let held = pop::hold(&core, &of, &receipt, times).await?;
    // One that came again meanwhile is another's: its old receipt is told as it was, and does nothing.
    let fresh = held.unwrap_or(receipt);
    let response = ChangeInvisibleTimeResponse {
        pop_time_ms: fresh.pop_time_ms as i64,
        invisible_time_ms: header.invisible_time_ms,
        revive_queue_id: fresh.revive_queue,
    };
    Ok(Answer::success().with_fields(response.to_fields()))
}

fn queue_of(core: &Core, group: &Text, topic: &Text, queue: i32) -> Result<PopQueue, Refusal> {
    let Some(known) = core.topics.get(topic) else {
        let remark = format!("topic {topic} does not exist on this broker");
        return Err(Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark));
    };
    match u32::try_from(queue) {
        Ok(queue) if queue < known.read_queues() => {
            Ok(PopQueue { group: group.detached(), topic: topic.detached(), queue: QueueId(queue) })
        }
        _ => {
            let remark = format!("topic {topic} has no queue {queue}: it has {}", known.read_queues());
            Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark))
        }
    }
}

fn receipt_of(core: &Core, of: &PopQueue, text: &str, offset: i64) -> Result<Receipt, Refusal> {
    let receipt = Receipt::parse(text).ok_or_else(|| {
        let remark = format!("{text:?} is no receipt: send back what the message was popped with");
        Refusal::new(ResponseCode::INVALID_PARAMETER, remark)
    })?;
    let ends = queue_ends::ends_here(core, &of.topic, of.queue);
    match u64::try_from(offset).map(QueueOffset) {
        Ok(offset) if offset >= ends.min && offset < ends.max => Ok(Receipt { offset, ..receipt }),
        _ => {
            let remark = format!(
                "queue {} of topic {} has no message {offset}: it begins at {} and ends in front of {}",
                of.queue, of.topic, ends.min, ends.max
            );
            Err(Refusal::new(ResponseCode::NO_MESSAGE, remark))
        }
    }
}

fn receipts_of(core: &Core, ack: &BatchAck) -> Option<(PopQueue, Vec<Receipt>)> {
    let topic = match &*ack.retry {
        "1" => Text::from(name::pop_retry_topic(&ack.consumer_group, &ack.topic)),
        "2" => Text::from(name::pop_retry_topic_new(&ack.consumer_group, &ack.topic)),
        _ => ack.topic.clone(),
    };
    let of = queue_of(core, &ack.consumer_group, &topic, ack.queue_id).ok()?;
    let start = QueueOffset(u64::try_from(ack.start_offset).ok()?);
    let receipt = |bit: u32| Receipt {
        start,
        pop_time_ms: ack.pop_time_ms.max(0) as u64,
        invisible_ms: ack.invisible_time_ms.max(0) as u64,
        revive_queue: ack.revive_queue_id,
        offset: start.plus(u64::from(bit)),
    };
    Some((of, bits_set(&ack.bits)?.into_iter().map(receipt).collect()))
}
