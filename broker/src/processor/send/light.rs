//! Light queues that a message names (`INNER_MULTI_DISPATCH`): it is stored in each of them before it is stored in its own.
//!
//! A copy is appended on the core that owns the light queue, which alone gives its offsets: so they are dense, whichever
//! cores the senders' queues belong to. See `docs/design/010-light-queues.md`.

use std::net::SocketAddr;
use std::rc::Rc;

use base::QueueId;
use bytes::Bytes;
use remoting::code::ResponseCode;
use remoting::header::send::SendMessage;
use remoting::name;
use remoting::properties::{self, Builder, INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, PROPERTIES_BYTES_MAX};
use remoting::record::RecordDraft;
use remoting::text::Text;
use runtime::clock;
use runtime::sync::once;

use super::{append, reached, record_bytes};
use crate::call::{Refusal, Request};
use crate::core::Core;
use crate::delay::Due;
use crate::processor::send::Known;
use crate::topic;

/// Light queues of one message. One that names more is refused.
const QUEUES_MAX: usize = 1024;
const LIGHT_QUEUE: QueueId = QueueId(0);

/// What is stored in a light queue.
#[derive(Clone)]
struct Copy {
    topic: Text,
    /// Without the light queues.
    properties: Text,
    body: Bytes,
    flag: i32,
    sys_flag: i32,
    born_timestamp_ms: i64,
    reconsume_times: i32,
    peer: SocketAddr,
    waits_for_flush: bool,
}

/// Stores a message in all light queues that it names. Gives its properties with the offsets there; without light queues
/// they are as they were.
///
/// # Errors
/// When one of the queues cannot be, or cannot take it. It may be in others then: who sends it again, sends it there again.
pub(super) async fn dispatched(
    core: &Rc<Core>,
    header: &SendMessage,
    known: &Known<'_>,
    due: Due,
    properties: String,
    request: &Request,
) -> Result<String, Refusal> {
    // What comes again was in its light queues before.
    let is_wanted = core.config().light_queues.dispatch && !name::is_retry_topic(&header.topic);
    let Some(names) = known.light_queues.filter(|_| is_wanted) else { return Ok(properties) };
    let names = checked(names)?;
    if due != Due::Now {
        return Err(illegal("a message for light queues (INNER_MULTI_DISPATCH) can't be delivered later".to_owned()));
    }
    let without = properties::without(&properties, &[INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET]);
    let copy = Copy {
        topic: Text::EMPTY,
        properties: Text::from(without),
        body: request.command.body.clone(),
        flag: header.flag,
        sys_flag: header.sys_flag,
        born_timestamp_ms: header.born_timestamp_ms,
        reconsume_times: header.reconsume_times,
        peer: request.peer,
        waits_for_flush: known.waits_for_flush,
    };
    // All at once: no queue waits for the disk of another.
    let mut waiting = Vec::with_capacity(names.len());
    for name in &names {
        let (core, copy) = (core.clone(), Copy { topic: Text::from(*name), ..copy.clone() });
        let (told, stored) = once();
        runtime::spawn(async move { told.send(store(&core, copy).await) });
        waiting.push(stored);
    }
    let mut offsets = Vec::with_capacity(names.len());
    for stored in waiting {
        offsets.push(stored.receive().await.expect("a store tells its end")?.to_string());
    }
    let mut builder = Builder::from_text(&copy.properties, 2 * names.len() * 32);
    builder.push(INNER_MULTI_DISPATCH, names.join(","));
    builder.push(INNER_MULTI_QUEUE_OFFSET, offsets.join(","));
    fitting(builder.finish())
}

/// The light queues that a property names.
fn checked(names: &str) -> Result<Vec<&str>, Refusal> {
    let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
    if names.len() > QUEUES_MAX {
        return Err(illegal(format!("the message names {} light queues, at most {QUEUES_MAX} may be", names.len())));
    }
    for (index, name) in names.iter().enumerate() {
        if !name::is_light_topic(name) {
            return Err(illegal(format!("{name} is no light queue: their names begin with {}", name::LIGHT_PREFIX)));
        }
        name::check_topic(name).map_err(|error| illegal(error.to_string()))?;
        if names[..index].contains(name) {
            return Err(illegal(format!("the light queue {name} is named twice")));
        }
    }
    Ok(names)
}

/// Stores a copy on the core of its queue. Gives its offset there.
async fn store(core: &Rc<Core>, copy: Copy) -> Result<u64, Refusal> {
    let topic = topic::ensure_light_topic(core, &copy.topic).await?;
    let owner = core.placement.core_of_queue(topic.name(), LIGHT_QUEUE);
    core.on(owner, move |core| async move { store_own(&core, &copy).await }).await
}

async fn store_own(core: &Rc<Core>, copy: &Copy) -> Result<u64, Refusal> {
    let topic = core.topics.get(&copy.topic).ok_or_else(|| topic::no_topic(&copy.topic))?;
    let log = core.log_of_topic_queue(&topic, LIGHT_QUEUE);
    let try_append = || {
        let queue = log.queue(&copy.topic, LIGHT_QUEUE);
        let mut builder = Builder::from_text(&copy.properties, 2 * copy.topic.len());
        builder.push(INNER_MULTI_DISPATCH, &*copy.topic);
        builder.push(INNER_MULTI_QUEUE_OFFSET, queue.next().0 as i64);
        let properties = builder.finish();
        let draft = RecordDraft {
            topic: &copy.topic,
            queue_id: LIGHT_QUEUE,
            flag: copy.flag,
            sys_flag: copy.sys_flag,
            born_timestamp_ms: copy.born_timestamp_ms,
            born_host: copy.peer,
            store_host: core.advertised(),
            reconsume_times: copy.reconsume_times,
            prepared_transaction_offset: 0,
            body: &copy.body,
            properties: &properties,
        };
        log.append(&queue, &draft, clock::now_ms())
    };
    // Each copy has room for the longest offset.
    fitting_bytes(copy.properties.len() + 2 * copy.topic.len() + 96)?;
    let ticket = append(core, log, try_append).await?;
    core.stats.sent(&topic, LIGHT_QUEUE, 1, record_bytes(&ticket));
    reached(log, &ticket, copy.waits_for_flush).await?;
    Ok(ticket.queue_offset.0)
}

fn fitting(properties: String) -> Result<String, Refusal> {
    fitting_bytes(properties.len())?;
    Ok(properties)
}

fn fitting_bytes(bytes: usize) -> Result<(), Refusal> {
    if bytes <= PROPERTIES_BYTES_MAX {
        return Ok(());
    }
    Err(illegal(format!(
        "the properties take {bytes} bytes with what light queues add, the limit is {PROPERTIES_BYTES_MAX}: name fewer light \
         queues, or send shorter properties"
    )))
}

fn illegal(remark: String) -> Refusal {
    Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_light_queues_are_named_and_each_once() {
        assert_eq!(checked("%LMQ%a,%LMQ%b,"), Ok(vec!["%LMQ%a", "%LMQ%b"]));
        for wrong in ["T", "%LMQ%a,T", "%LMQ%a,%LMQ%a", "%LMQ%a b", "%LMQ%../x"] {
            assert_eq!(checked(wrong).map_err(|refusal| refusal.code), Err(ResponseCode::MESSAGE_ILLEGAL), "{wrong}");
        }
        let many: Vec<String> = (0..=QUEUES_MAX).map(|number| format!("%LMQ%{number}")).collect();
        assert!(checked(&many.join(",")).is_err() && checked(&many[1..].join(",")).is_ok());
    }
}
