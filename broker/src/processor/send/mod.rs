//! Sends (10, 310, 320, one-way): refuse, place, append in order, then answer when the flush policy is satisfied.

mod properties;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use base::{PhysicalOffset, QueueId};
use remoting::code::ResponseCode;
use remoting::header::send::SendMessage;
use remoting::message_id::OffsetId;
use remoting::name;
use remoting::properties::DELAY_LEVEL;
use remoting::record::{BatchItems, RecordDraft, sys_flag};
use remoting::reply::ReplyWriter;
use runtime::clock;
use storage::{AppendError, FlushPolicy, Log, Mark, StorageError, Ticket};

pub(crate) use properties::Additions;
use properties::Known;

use crate::call::{Call, Refusal, Request, Responder};
use crate::core::Core;
use crate::topic::{self, Topic};

/// How long a send waits for room in a log that is behind with its writes before it is refused as busy.
const ROOM_TIME_MAX: Duration = Duration::from_millis(2_000);
/// Every answer to a send tells the region and whether traces are on.
const REGION: &str = "MSG_REGION";
const TRACE_ON: &str = "TRACE_ON";

/// One message, or a batch of one queue. Where nothing stands in the way it is appended here and now, and the log calls
/// back when the message is safe: no task is made for it.
pub(crate) fn send(core: &Rc<Core>, call: Call) {
    let Call { request, responder } = call;
    match store(core, &request) {
        Ok(stored) => stored.answer_when_safe(core, responder),
        Err(Hindrance::Refused(refusal)) => refuse(core, responder, refusal),
        Err(hindrance) => {
            let core = core.clone();
            runtime::spawn(async move {
                match store_later(&core, &request, hindrance).await {
                    Ok(stored) => stored.answer_when_safe(&core, responder),
                    Err(refusal) => refuse(&core, responder, refusal),
                }
            });
        }
    }
}

/// Messages that are appended and not safe yet.
struct Stored {
    queue: QueueId,
    tickets: Tickets,
    unique_key: Option<String>,
    waits_for_flush: bool,
    started: Instant,
}

enum Tickets {
    One(Ticket),
    Batch(Vec<Ticket>),
}

/// Why a send is not stored at once.
enum Hindrance {
    Refused(Refusal),
    /// It may be made.
    NoTopic,
    /// The log is behind with its writes.
    NoRoom {
        log: Rc<Log>,
        error: AppendError,
    },
}

impl<R: Into<Refusal>> From<R> for Hindrance {
    fn from(refusal: R) -> Hindrance {
        Hindrance::Refused(refusal.into())
    }
}

/// Appends, in order, and never waits.
fn store(core: &Rc<Core>, request: &Request) -> Result<Stored, Hindrance> {
    let header = SendMessage::decode(&request.command.fields)?;
    accepts_sends(core)?;
    let topic = core.topics.get(header.topic).ok_or(Hindrance::NoTopic)?;
    let queue = writable_queue(&topic, &header)?;
    check_body(core, &request.command.body)?;
    if header.batch || request.command.code == remoting::code::RequestCode::SEND_BATCH_MESSAGE.0 {
        store_batch(core, &header, &topic, queue, request)
    } else {
        store_one(core, &header, &topic, queue, request)
    }
}

/// Stores once what hindered it is gone, or gives up.
async fn store_later(core: &Rc<Core>, request: &Request, mut hindrance: Hindrance) -> Result<Stored, Refusal> {
    let until = clock::instant() + ROOM_TIME_MAX;
    loop {
        match hindrance {
            Hindrance::Refused(refusal) => return Err(refusal),
            Hindrance::NoTopic => create_topic(core, &SendMessage::decode(&request.command.fields)?).await?,
            Hindrance::NoRoom { log, error } => {
                let remaining = until.saturating_duration_since(clock::instant());
                if clock::within(remaining, log.room()).await.is_none() {
                    return Err(refused(&error));
                }
            }
        }
        match store(core, request) {
            Ok(stored) => return Ok(stored),
            Err(next) => hindrance = next,
        }
    }
}

fn refuse(core: &Rc<Core>, responder: Responder, refusal: Refusal) {
    core.stats.send_refused();
    let config = core.config();
    let mut fields = refusal.fields;
    fields.push(REGION, &*config.identity.region);
    fields.push(TRACE_ON, config.topics.trace_on);
    responder.answer(core, Err(Refusal { fields, ..refusal }));
}

/// The broker's own state: whether anything may be sent at all.
fn accepts_sends(core: &Core) -> Result<(), Refusal> {
    if core.draining.get() {
        let remark = "the broker is shutting down: send to another one, or again after its restart";
        return Err(Refusal::new(ResponseCode::SERVICE_NOT_AVAILABLE, remark));
    }
    let start = core.config().messages.accept_sends_from.0;
    if start > 0 && clock::now_ms().0 < start {
        let remark = format!("the broker accepts sends from {start} ms on (startAcceptSendRequestTimeStamp)");
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
    }
    Ok(())
}

async fn create_topic(core: &Rc<Core>, header: &SendMessage<'_>) -> Result<(), Refusal> {
    name::check_topic(header.topic)
        .map_err(|error| Refusal::new(ResponseCode::INVALID_PARAMETER, error.to_string()))?;
    refuse_unsendable(header.topic)?;
    let queues = header.default_topic_queue_nums;
    topic::ensure_for_send(core, header.topic, header.default_topic, queues, header.unit_mode).await.map(|_| ())
}

fn refuse_unsendable(topic: &str) -> Result<(), Refusal> {
    if name::is_sendable(topic) {
        return Ok(());
    }
    let remark = format!("topic {topic} belongs to the broker: clients may not send to it");
    Err(Refusal::new(ResponseCode::NO_PERMISSION, remark))
}

/// The queue that the message goes to. Its write permission is the route's matter, as with any broker of this kind.
fn writable_queue(topic: &Topic, header: &SendMessage<'_>) -> Result<QueueId, Refusal> {
    if topic.is_system {
        refuse_unsendable(header.topic)?;
    }
    let queues = topic.write_queues().max(topic.read_queues());
    match u32::try_from(header.queue_id) {
        Ok(queue) if queue < queues => Ok(QueueId(queue)),
        _ => {
            let remark = format!("queue {} of topic {} does not exist: it has {queues}", header.queue_id, header.topic);
            Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark))
        }
    }
}

fn check_body(core: &Core, body: &[u8]) -> Result<(), Refusal> {
    let limit = core.config().messages.body_bytes_max as usize;
    if body.len() > limit {
        let remark = format!(
            "the body has {} bytes, the limit is {limit} (maxMessageSize): send a smaller one, or raise the limit",
            body.len()
        );
        return Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark));
    }
    if body.is_empty() {
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, "the body is empty: send at least one byte"));
    }
    Ok(())
}

fn store_one(
    core: &Rc<Core>,
    header: &SendMessage<'_>,
    topic: &Topic,
    queue: QueueId,
    request: &Request,
) -> Result<Stored, Hindrance> {
    let started = clock::instant();
    let known = Known::of(header.properties);
    refuse_later_features(header, &known)?;
    let mut made = None;
    let properties = core.additions().stored(header.properties, &known, || made.insert(core.unique_key()).clone())?;
    let draft = draft(core, header, queue, request.peer, &request.command.body, &properties);
    let log = core.log_of_topic_queue(topic, queue);
    let ticket = appended(log, log.append(&log.queue(header.topic, queue), &draft, clock::now_ms()))?;
    core.stats.sent(topic, queue, 1, record_bytes(&ticket));
    let unique_key = made.or_else(|| known.unique_key.map(str::to_owned));
    let waits_for_flush = known.waits_for_flush;
    Ok(Stored { queue, tickets: Tickets::One(ticket), unique_key, waits_for_flush, started })
}

fn store_batch(
    core: &Rc<Core>,
    header: &SendMessage<'_>,
    topic: &Topic,
    queue: QueueId,
    request: &Request,
) -> Result<Stored, Hindrance> {
    let started = clock::instant();
    let illegal = |remark: String| Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark);
    if name::is_retry_topic(header.topic) {
        return Err(illegal(format!("a batch can't be sent to the retry topic {}", header.topic)).into());
    }
    let items = BatchItems::new(&request.command.body)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| illegal(error.to_string()))?;
    if items.is_empty() {
        return Err(illegal("the batch has no message".to_owned()).into());
    }
    let mut properties = Vec::with_capacity(items.len());
    let mut waits_for_flush = false;
    for item in &items {
        if item.body.is_empty() {
            return Err(illegal("a message of the batch has an empty body: send at least one byte".to_owned()).into());
        }
        let known = Known::of(item.properties);
        refuse_later_features(header, &known)?;
        waits_for_flush |= known.waits_for_flush;
        properties.push(core.additions().stored(item.properties, &known, || core.unique_key())?);
    }
    let drafts: Vec<RecordDraft<'_>> = items
        .iter()
        .zip(&properties)
        .map(|(item, properties)| RecordDraft {
            flag: item.flag,
            ..draft(core, header, queue, request.peer, item.body, properties)
        })
        .collect();
    let log = core.log_of_topic_queue(topic, queue);
    let tickets = appended(log, log.append_batch(&log.queue(header.topic, queue), &drafts, clock::now_ms()))?;
    let bytes = tickets.iter().map(record_bytes).sum();
    core.stats.sent(topic, queue, tickets.len() as u64, bytes);
    Ok(Stored { queue, tickets: Tickets::Batch(tickets), unique_key: None, waits_for_flush, started })
}

/// What a later version will do is refused, not done wrongly: the sender keeps the message.
fn refuse_later_features(header: &SendMessage<'_>, known: &Known<'_>) -> Result<(), Refusal> {
    let prepared = header.sys_flag & sys_flag::TRANSACTION_MASK == sys_flag::TRANSACTION_PREPARED;
    if prepared || known.is_transaction {
        let remark = "this broker does not serve transactions yet: the message was not stored";
        return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
    }
    let delayed = known.delay_level.is_some_and(|level| level.parse::<i64>() != Ok(0));
    if delayed || known.timer.is_some() {
        let what = known.delay_level.map_or("a delivery time".to_owned(), |level| format!("{DELAY_LEVEL}={level}"));
        let remark = format!("this broker does not serve delayed messages yet: {what} was refused, nothing was stored");
        return Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark));
    }
    Ok(())
}

fn draft<'a>(
    core: &Core,
    header: &SendMessage<'a>,
    queue: QueueId,
    peer: SocketAddr,
    body: &'a [u8],
    properties: &'a str,
) -> RecordDraft<'a> {
    RecordDraft {
        topic: header.topic,
        queue_id: queue,
        flag: header.flag,
        sys_flag: header.sys_flag,
        born_timestamp_ms: header.born_timestamp_ms,
        born_host: peer,
        store_host: core.advertised(),
        reconsume_times: header.reconsume_times,
        prepared_transaction_offset: 0,
        body,
        properties,
    }
}

/// What hinders an append: a log that is behind, or what a refusal tells.
fn appended<T>(log: &Rc<Log>, outcome: Result<T, AppendError>) -> Result<T, Hindrance> {
    outcome.map_err(|error| match error {
        AppendError::Busy { .. } => Hindrance::NoRoom { log: log.clone(), error },
        error => Hindrance::Refused(refused(&error)),
    })
}

fn refused(error: &AppendError) -> Refusal {
    let code = match error {
        AppendError::Busy { .. } => ResponseCode::SYSTEM_BUSY,
        AppendError::TooLarge { .. } => ResponseCode::MESSAGE_ILLEGAL,
        _ => ResponseCode::SERVICE_NOT_AVAILABLE,
    };
    Refusal::new(code, error.to_string())
}

impl Stored {
    /// Answers when the sender has what it was promised. Nothing about the messages changes from here on.
    fn answer_when_safe(self, core: &Rc<Core>, responder: Responder) {
        let reply = self.reply(core, responder.opaque());
        let (core, started) = (core.clone(), self.started);
        let ticket = match self.tickets {
            Tickets::One(ticket) => ticket,
            Tickets::Batch(mut tickets) => tickets.pop().expect("a batch is not empty"),
        };
        let mark = match ticket.flush_policy() {
            FlushPolicy::Sync if self.waits_for_flush => Mark::Durable,
            _ => Mark::Written,
        };
        let safe = move |outcome: Result<(), StorageError>| match outcome {
            Ok(()) => {
                core.stats.send_took(started.elapsed());
                responder.answer_frame(&core, reply);
            }
            Err(error) => {
                let refusal = Refusal::new(ResponseCode::SERVICE_NOT_AVAILABLE, error.to_string());
                refuse(&core, responder, refusal);
            }
        };
        ticket.when_reached(mark, Box::new(safe));
    }

    fn reply(&self, core: &Core, opaque: i32) -> Vec<u8> {
        let host = core.advertised();
        let mut reply = ReplyWriter::new(ResponseCode::SUCCESS);
        let first = match &self.tickets {
            Tickets::One(ticket) => {
                reply.text("msgId", &offset_id(host, ticket.physical_offset));
                ticket
            }
            Tickets::Batch(tickets) => {
                let ids: Vec<String> = tickets.iter().map(|ticket| offset_id(host, ticket.physical_offset)).collect();
                reply.text("msgId", &ids.join(","));
                &tickets[0]
            }
        };
        reply.number("queueId", i64::from(self.queue.0));
        reply.number("queueOffset", first.queue_offset.0 as i64);
        if let Some(unique_key) = &self.unique_key {
            reply.text("transactionId", unique_key);
        }
        let config = core.config();
        reply.text(REGION, &config.identity.region);
        reply.text(TRACE_ON, if config.topics.trace_on { "true" } else { "false" });
        reply.finish(opaque)
    }
}

fn record_bytes(ticket: &Ticket) -> u64 {
    ticket.end.since(ticket.physical_offset.offset())
}

fn offset_id(host: SocketAddr, physical_offset: PhysicalOffset) -> String {
    OffsetId { host, physical_offset }.encode()
}
