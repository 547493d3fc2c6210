//! Light queues that a message names (`INNER_MULTI_DISPATCH`): it is stored in each of them before it is stored in its own.
//!
//! That is so however the message comes to its queue: sent, alone or in a batch, committed, or delivered at its time. What
//! comes again, to a group alone, was in them before. A copy is appended on the core that owns the light queue, which alone
//! gives its offsets: so they are dense, whichever cores the other queues belong to. See
//! `docs/design/010-light-queues.md`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use base::QueueId;
use bytes::Bytes;
use remoting::code::ResponseCode;
use remoting::name;
use remoting::properties::{self, Builder, INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, PROPERTIES_BYTES_MAX};
use remoting::record::{RecordDraft, record_bytes};
use remoting::text::Text;
use runtime::clock;
use runtime::sync::once;
use storage::Ticket;

use crate::call::Refusal;
use crate::core::Core;
use crate::processor::send;
use crate::topic;

/// Light queues of one message. One that names more is refused.
const QUEUES_MAX: usize = 1024;
const LIGHT_QUEUE: QueueId = QueueId(0);
/// The properties that tell of light queues.
const TELLING: [&str; 2] = [INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET];
/// What an offset takes in the properties at most.
const OFFSET_BYTES_MAX: usize = 21;
/// What the names of both properties take, and their separators.
const TELLING_BYTES: usize = INNER_MULTI_DISPATCH.len() + INNER_MULTI_QUEUE_OFFSET.len() + 4;
/// Room for what is added to a message that waits for its time or its end.
const WAITING_BYTES_MAX: usize = 1024;

/// What is stored in light queues.
#[derive(Clone)]
struct Copy {
    /// Without the light queues.
    properties: Text,
    body: Bytes,
    flag: i32,
    sys_flag: i32,
    born_timestamp_ms: i64,
    born_host: SocketAddr,
    reconsume_times: i32,
}

/// A message that is to go into light queues, and into which it went.
pub(crate) struct Dispatch {
    copy: Copy,
    /// With its offset there, once it is stored.
    queues: Vec<(Text, Option<u64>)>,
}

/// Why a message is not in one of its light queues.
#[derive(Debug)]
pub(crate) enum Missed {
    /// The queue can't be.
    Queue(Text, Refusal),
    /// Its log takes nothing now.
    Log(Refusal),
}

impl Dispatch {
    /// `None` for a message that goes into no light queue.
    ///
    /// # Errors
    /// When it names something else than light queues, too many, or leaves no room for its offsets there.
    pub(crate) fn of(core: &Core, message: &RecordDraft<'_>) -> Result<Option<Dispatch>, Refusal> {
        let Some(names) = named(core, message)? else { return Ok(None) };
        let properties = properties::without(message.properties, &TELLING);
        check_room(&properties, &names, 0)?;
        let copy = Copy {
            properties: Text::from(properties),
            body: Bytes::copy_from_slice(message.body),
            flag: message.flag,
            sys_flag: message.sys_flag,
            born_timestamp_ms: message.born_timestamp_ms,
            born_host: message.born_host,
            reconsume_times: message.reconsume_times,
        };
        let queues = names.into_iter().map(|name| (Text::from(name), None)).collect();
        Ok(Some(Dispatch { copy, queues }))
    }

    /// The properties of the message itself: they tell where it lies in its light queues.
    pub(crate) fn properties(&self) -> String {
        let mut builder = Builder::from_text(&self.copy.properties, 0);
        let stored = || self.queues.iter().filter_map(|(name, offset)| Some((&**name, (*offset)?)));
        if stored().next().is_some() {
            builder.push(INNER_MULTI_DISPATCH, stored().map(|(name, _)| name).collect::<Vec<_>>().join(","));
            let offsets: Vec<String> = stored().map(|(_, offset)| offset.to_string()).collect();
            builder.push(INNER_MULTI_QUEUE_OFFSET, offsets.join(","));
        }
        builder.finish()
    }

    /// Goes on without a queue that can't be.
    pub(crate) fn give_up(&mut self, queue: &str) {
        self.queues.retain(|(name, _)| **name != *queue);
    }
}

/// Makes sure, for a message that waits for its time or its end, that it can go into its light queues then.
///
/// # Errors
/// As [`Dispatch::of`], and when one of the queues can't be.
pub(crate) async fn reserve(core: &Rc<Core>, message: &RecordDraft<'_>) -> Result<(), Refusal> {
    let Some(names) = named(core, message)? else { return Ok(()) };
    check_room(&properties::without(message.properties, &TELLING), &names, WAITING_BYTES_MAX)?;
    for name in names {
        topic::ensure_light_topic(core, name).await?;
    }
    Ok(())
}

/// Stores messages in the light queues that they name. Gives the properties that each has then; `None` for one that goes
/// into none.
///
/// # Errors
/// When one of the queues can't be, or can't take it. Others may have it then: who sends it again, sends it there again.
pub(crate) async fn dispatched(
    core: &Rc<Core>,
    messages: &[RecordDraft<'_>],
    waits_for_flush: bool,
) -> Result<Vec<Option<String>>, Refusal> {
    let dispatches = messages.iter().map(|message| Dispatch::of(core, message));
    let mut dispatches = dispatches.collect::<Result<Vec<_>, _>>()?;
    let mut wanted: Vec<&mut Dispatch> = dispatches.iter_mut().flatten().collect();
    store(core, &mut wanted, waits_for_flush).await.map_err(Missed::into_refusal)?;
    Ok(dispatches.iter().map(|dispatch| dispatch.as_ref().map(Dispatch::properties)).collect())
}

impl Missed {
    pub(crate) fn into_refusal(self) -> Refusal {
        match self {
            Missed::Queue(_, refusal) | Missed::Log(refusal) => refusal,
        }
    }
}

/// Stores messages in those of their light queues that have them not yet; in each in the order given, in all at once: no
/// queue waits for the disk of another.
///
/// # Errors
/// The first that was missed. What was stored has its offsets all the same.
pub(crate) async fn store(
    core: &Rc<Core>,
    messages: &mut [&mut Dispatch],
    waits_for_flush: bool,
) -> Result<(), Missed> {
    let mut by_queue: BTreeMap<Text, Vec<(usize, usize)>> = BTreeMap::new();
    for (message, dispatch) in messages.iter().enumerate() {
        for (place, (name, offset)) in dispatch.queues.iter().enumerate() {
            if offset.is_none() {
                by_queue.entry(name.clone()).or_default().push((message, place));
            }
        }
    }
    let mut waiting = Vec::with_capacity(by_queue.len());
    for (queue, places) in by_queue {
        let copies: Vec<Copy> = places.iter().map(|(message, _)| messages[*message].copy.clone()).collect();
        let (told, stored) = once();
        let core = core.clone();
        runtime::spawn(async move { told.send(store_in(&core, queue, copies, waits_for_flush).await) });
        waiting.push((places, stored));
    }
    let mut outcome = Ok(());
    for (places, stored) in waiting {
        let (offsets, missed) = stored.receive().await.expect("a store tells its end");
        for ((message, place), offset) in places.into_iter().zip(offsets) {
            messages[message].queues[place].1 = Some(offset);
        }
        if let (Some(missed), Ok(())) = (missed, &outcome) {
            outcome = Err(missed);
        }
    }
    outcome
}

/// Stores copies in one light queue, on its core. Gives the offsets of those that are there, and what became of the next.
async fn store_in(
    core: &Rc<Core>,
    queue: Text,
    copies: Vec<Copy>,
    waits_for_flush: bool,
) -> (Vec<u64>, Option<Missed>) {
    let topic = match topic::ensure_light_topic(core, &queue).await {
        Ok(topic) => topic,
        Err(refusal) => return (Vec::new(), Some(Missed::Queue(queue, refusal))),
    };
    let owner = core.placement.core_of_queue(topic.name(), LIGHT_QUEUE);
    core.on(owner, move |core| async move {
        let mut tickets: Vec<Ticket> = Vec::with_capacity(copies.len());
        let mut missed = None;
        for copy in &copies {
            match append(&core, &queue, copy).await {
                Ok(ticket) => tickets.push(ticket),
                Err(failed) => {
                    missed = Some(failed);
                    break;
                }
            }
        }
        if let Some(last) = tickets.last() {
            let log = core.log_of_queue(&queue, LIGHT_QUEUE);
            if let Err(refusal) = send::reached(log, last, waits_for_flush).await {
                return (Vec::new(), Some(Missed::Log(refusal)));
            }
        }
        (tickets.iter().map(|ticket| ticket.queue_offset.0).collect(), missed)
    })
    .await
}

async fn append(core: &Rc<Core>, queue: &Text, copy: &Copy) -> Result<Ticket, Missed> {
    let gone = || Missed::Queue(queue.clone(), topic::no_topic(queue));
    let topic = core.topics.get(queue).ok_or_else(gone)?;
    let log = core.log_of_topic_queue(&topic, LIGHT_QUEUE);
    let try_append = || {
        let target = log.queue(queue, LIGHT_QUEUE);
        let mut builder = Builder::from_text(&copy.properties, 2 * queue.len());
        builder.push(INNER_MULTI_DISPATCH, &**queue);
        builder.push(INNER_MULTI_QUEUE_OFFSET, target.next().0 as i64);
        let properties = builder.finish();
        let draft = RecordDraft {
            topic: queue,
            queue_id: LIGHT_QUEUE,
            flag: copy.flag,
            sys_flag: copy.sys_flag,
            born_timestamp_ms: copy.born_timestamp_ms,
            born_host: copy.born_host,
            store_host: core.advertised(),
            reconsume_times: copy.reconsume_times,
            prepared_transaction_offset: 0,
            body: &copy.body,
            properties: &properties,
        };
        let bytes = record_bytes(&draft) as u64;
        Ok((log.append(&target, &draft, clock::now_ms())?, bytes))
    };
    let (ticket, bytes) = send::append(core, log, try_append).await.map_err(Missed::Log)?;
    core.stats.sent(&topic, LIGHT_QUEUE, 1, bytes);
    Ok(ticket)
}

/// Whether properties tell of light queues and that means something here.
pub(crate) fn is_told_by(core: &Core, properties: &str) -> bool {
    core.config().light_queues.dispatch && properties::get(properties, INNER_MULTI_DISPATCH).is_some()
}

/// The light queues that a message is to go into beside its own; `None` when it does not tell of any, or when it comes again
/// to a group and was in them before.
fn named<'a>(core: &Core, message: &RecordDraft<'a>) -> Result<Option<Vec<&'a str>>, Refusal> {
    let comes_again = name::is_retry_topic(message.topic) || name::is_dlq_topic(message.topic);
    if comes_again || !is_told_by(core, message.properties) {
        return Ok(None);
    }
    let mut names = checked(properties::get(message.properties, INNER_MULTI_DISPATCH).unwrap_or_default())?;
    // What is sent to a light queue is in it by that.
    names.retain(|name| *name != message.topic);
    Ok(Some(names))
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

/// `properties` are those without light queues.
fn check_room(properties: &str, names: &[&str], other_bytes: usize) -> Result<(), Refusal> {
    let of_queues: usize = names.iter().map(|name| name.len() + 1 + OFFSET_BYTES_MAX).sum();
    let bytes = properties.len() + TELLING_BYTES + of_queues + other_bytes;
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

    #[test]
    fn the_room_of_all_names_and_offsets_is_looked_at_first() {
        let names = ["%LMQ%a", "%LMQ%bc"];
        let telling = "INNER_MULTI_DISPATCH\u{1}%LMQ%a,%LMQ%bc\u{2}INNER_MULTI_QUEUE_OFFSET\u{1}18446744073709551615,18446744073709551615\u{2}";
        let fits = "x".repeat(PROPERTIES_BYTES_MAX - telling.len() - 2);
        assert_eq!(check_room(&fits, &names, 0), Ok(()), "each has a comma");
        assert!(check_room(&(fits + "x"), &names, 0).is_err());
    }
}
