//! Sends (10, 310, 320, one-way): refuse, place, append in order, then wait for what the flush policy asks.

mod half;
mod plain;
mod properties;
mod put;
pub(crate) mod reply;
mod retry;

use std::net::SocketAddr;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use base::{QueueId, QueueOffset};
use remoting::code::ResponseCode;
use remoting::fields::Fields;
use remoting::header::send::SendMessage;
use remoting::message_id::OffsetId;
use remoting::name;
use remoting::properties::{MSG_REGION, TRACE_ON};
use remoting::recall_handle::RecallHandle;
use remoting::record::{BatchItems, RecordDraft};
use remoting::text::Text;
use runtime::clock::{self, Stamp};
use storage::{AppendError, FlushPolicy, Indexed, Log, Mark, StorageError, Ticket, WriteTimes};
use transport::Stage;

pub(crate) use properties::{Additions, Known};
pub(crate) use put::put;
pub(crate) use retry::DLQ_QUEUE;

use crate::call::{Answer, Call, Outcome, Refusal, Request};
use crate::core::Core;
use crate::delay::{Due, Wish};
use crate::dispatch::start_watched;
use crate::light;
use crate::retention;
use crate::stages::{self, Watch};
use crate::topic::{self, Topic};

/// How long a send waits for room in a log that is behind with its writes before it is refused as busy.
const ROOM_TIME_MAX: Duration = Duration::from_millis(2_000);

/// One message, or a batch of one queue.
pub(crate) fn send(core: &Rc<Core>, call: Call) {
    if let Some(call) = plain::send(core, call) {
        start_watched(core, call, send_in_task);
    }
}

/// Any send, also one that has to wait for something or is refused.
async fn send_in_task(core: Rc<Core>, request: Request, watch: Watch) -> Outcome {
    let mut fields = Fields::new();
    Ok(match store(&core, &request).await {
        Ok(stored) => {
            watch.change(|trip| {
                trip.pass(Stage::Append, stored.accepted);
                stages::pass_write(trip, &stored.write_times);
                core.stats.send_took(stages::time_of_send(trip));
            });
            stored.push_fields(&mut fields);
            answer(&core, ResponseCode::SUCCESS, None, fields)
        }
        Err(refusal) => {
            watch.pass(Stage::Append);
            refused_answer(&core, refusal)
        }
    })
}

fn refused_answer(core: &Core, refusal: Refusal) -> Answer {
    core.stats.send_refused();
    answer(core, refusal.code, Some(refusal.remark), refusal.fields)
}

/// An answer with what every sender is told, whether its message was stored or not.
fn answer(core: &Core, code: ResponseCode, remark: Option<Text>, mut fields: Fields) -> Answer {
    let config = core.config();
    fields.push(MSG_REGION, &*config.identity.region);
    fields.push(TRACE_ON, config.topics.trace_on);
    Answer { remark, ..Answer::of(code).with_fields(fields) }
}

/// What the sender is told of stored messages.
struct Stored {
    queue: QueueId,
    /// Of the first.
    queue_offset: QueueOffset,
    /// Joined by commas.
    message_ids: String,
    unique_key: Option<String>,
    /// Of a timed message that waits.
    recall_handle: Option<String>,
    /// When the last of them was accepted, and when it was written.
    accepted: Stamp,
    write_times: WriteTimes,
}

async fn store(core: &Rc<Core>, request: &Request) -> Result<Stored, Refusal> {
    let header = SendMessage::decode(&request.command.fields)?;
    let (topic, queue) = admit(core, &header, request).await?;
    let is_batch = header.batch || request.command.code == remoting::code::RequestCode::SEND_BATCH_MESSAGE.0;
    if is_batch {
        store_batch(core, &header, &topic, queue, request).await
    } else if let Some(buried) = retry::bury_exhausted(core, &header, request).await? {
        Ok(buried)
    } else {
        store_one(core, &header, &topic, queue, request).await
    }
}

/// All that can be refused before the message itself is looked at. Makes the topic if it may be made.
async fn admit(core: &Rc<Core>, header: &SendMessage, request: &Request) -> Result<(Rc<Topic>, QueueId), Refusal> {
    accepts_sends(core)?;
    let topic = match core.topics.get(&header.topic) {
        Some(topic) => topic,
        None => create_topic(core, header).await?,
    };
    let queue = writable_queue(core, &topic, header.queue_id)?;
    core.retention.admits(core.log_of_topic_queue(&topic, queue).id())?;
    check_body(core, &request.command.body)?;
    Ok((topic, queue))
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
    core.retention.admits_any(core.own_logs().map(|log| log.id()))
}

async fn create_topic(core: &Rc<Core>, header: &SendMessage) -> Result<Rc<Topic>, Refusal> {
    name::check_topic(&header.topic)
        .map_err(|error| Refusal::new(ResponseCode::INVALID_PARAMETER, error.to_string()))?;
    refuse_unsendable(&header.topic)?;
    let queues = header.default_topic_queue_nums;
    topic::ensure_for_send(core, &header.topic, &header.default_topic, queues, header.unit_mode).await
}

fn refuse_unsendable(topic: &str) -> Result<(), Refusal> {
    if name::is_sendable(topic) {
        return Ok(());
    }
    let remark = format!("topic {topic} belongs to the broker: clients may not send to it");
    Err(Refusal::new(ResponseCode::NO_PERMISSION, remark))
}

/// The queue that the message goes to. Write permissions are the route's matter, as with any broker of this kind: only
/// producers of ordered topics, which choose their queues by other ways, are told so here.
fn writable_queue(core: &Core, topic: &Topic, queue_id: i32) -> Result<QueueId, Refusal> {
    if topic.is_system {
        refuse_unsendable(topic.name())?;
    }
    if topic.config.order && !core.config().registration.permission.writes() {
        let broker = &core.config().identity.broker;
        let remark = format!("broker {broker} may not be written: brokerPermission lacks 2");
        return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
    }
    let queues = topic.write_queues().max(topic.read_queues());
    match u32::try_from(queue_id) {
        Ok(queue) if queue < queues => Ok(QueueId(queue)),
        _ => {
            let remark = format!("queue {queue_id} of topic {} does not exist: it has {queues}", topic.name());
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

async fn store_one(
    core: &Rc<Core>,
    header: &SendMessage,
    topic: &Topic,
    queue: QueueId,
    request: &Request,
) -> Result<Stored, Refusal> {
    let known = Known::of(&header.properties);
    if half::is_half(header.sys_flag, header.reconsume_times, &known) {
        return half::store_half(core, header, topic, queue, &known, request).await;
    }
    let due = due(core, &known)?;
    let mut made = None;
    let properties = core.additions().stored(&header.properties, &known, || made.insert(core.unique_key()).clone())?;
    let draft = draft(core, header, queue, request.peer, &request.command.body, &properties);
    let ticket = put(core, topic, &draft, due, known.waits_for_flush).await?;
    let unique_key = made.or_else(|| known.unique_key().map(str::to_owned));
    let recall_handle = recall_handle(core, &header.topic, due, unique_key.as_deref());
    Ok(Stored { recall_handle, ..Stored::of(core, queue, &[ticket], unique_key) })
}

async fn store_batch(
    core: &Rc<Core>,
    header: &SendMessage,
    topic: &Topic,
    queue: QueueId,
    request: &Request,
) -> Result<Stored, Refusal> {
    let illegal = |remark: String| Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark);
    if name::is_retry_topic(&header.topic) {
        return Err(illegal(format!("a batch can't be sent to the retry topic {}", header.topic)));
    }
    if light::is_told_by(core, &header.properties) {
        let remark = "a batch can't go into light queues (INNER_MULTI_DISPATCH) as a whole: name them in its messages";
        return Err(illegal(remark.to_owned()));
    }
    let items = BatchItems::new(&request.command.body)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| illegal(error.to_string()))?;
    if items.is_empty() {
        return Err(illegal("the batch has no message".to_owned()));
    }
    let additions = core.additions();
    // Behind each other, as they are stored: a message has what ends with its own, and is known by what was sent.
    let (mut properties, mut known) = (String::new(), Vec::with_capacity(items.len()));
    let mut waits_for_flush = false;
    for item in &items {
        if item.body.is_empty() {
            return Err(illegal("a message of the batch has an empty body: send at least one byte".to_owned()));
        }
        let of_item = Known::of(item.properties);
        if due(core, &of_item)? != Due::Now {
            return Err(illegal("a message of the batch is to be delivered later: send it alone".to_owned()));
        }
        if half::is_half(header.sys_flag, header.reconsume_times, &of_item) {
            return Err(illegal("transactional messages can't be sent in a batch: send each alone".to_owned()));
        }
        waits_for_flush |= of_item.waits_for_flush;
        let start = properties.len();
        additions.store_in(&mut properties, item.properties, &of_item, || core.unique_key())?;
        known.push((of_item, start..properties.len()));
    }
    let drafts = items.iter().zip(&known).map(|(item, (_, place))| RecordDraft {
        flag: item.flag,
        ..draft(core, header, queue, request.peer, item.body, &properties[place.clone()])
    });
    let drafts: Vec<RecordDraft<'_>> = drafts.collect();
    let told = light::dispatched(core, &drafts, waits_for_flush).await?;
    let records = drafts.into_iter().zip(&known).zip(&told).map(|((draft, (known, _)), told)| match told {
        Some(told) => (RecordDraft { properties: told, ..draft }, Indexed::of(told)),
        None => (draft, known.indexed(draft.properties, None)),
    });
    let records: Vec<_> = records.collect();
    let log = core.log_of_topic_queue(topic, queue);
    let target = log.queue(&header.topic, queue);
    let tickets = append(core, log, || log.append_batch(&target, &records, clock::now_ms())).await?;
    let bytes = tickets.iter().map(record_bytes).sum();
    core.stats.sent(topic, queue, tickets.len() as u64, bytes);
    let last = tickets.last().expect("a batch is not empty");
    reached(log, last, waits_for_flush).await?;
    Ok(Stored::of(core, queue, &tickets, None))
}

/// When the message is to be delivered. Most messages have no wish, and then no clock is asked.
fn due(core: &Core, known: &Known<'_>) -> Result<Due, Refusal> {
    if known.wish == Wish::default() {
        return Ok(Due::Now);
    }
    known.wish.due(&core.config().delays, core.delays.now())
}

fn draft<'a, T: Deref<Target = str>>(
    core: &Core,
    header: &'a SendMessage<T>,
    queue: QueueId,
    peer: SocketAddr,
    body: &'a [u8],
    properties: &'a str,
) -> RecordDraft<'a> {
    RecordDraft {
        topic: &header.topic,
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

/// Appends to a log, in order. Waits only while the log is too far behind with its writes, or has no segment ready; who comes
/// meanwhile waits behind.
pub(crate) async fn append<T>(
    core: &Core,
    log: &Log,
    try_append: impl Fn() -> Result<T, AppendError>,
) -> Result<T, Refusal> {
    let until = clock::instant() + ROOM_TIME_MAX;
    let remaining = || until.saturating_duration_since(clock::instant());
    let (mut waits, mut turn) = (log.is_waited_for(), None);
    loop {
        if waits && turn.is_none() {
            turn = clock::within(remaining(), log.turn_to_append()).await;
        }
        let error = match try_append() {
            Ok(appended) => return Ok(appended),
            Err(error) => error,
        };
        if !matches!(error, AppendError::Busy { .. }) || remaining().is_zero() {
            return Err(refused(core, &error));
        }
        if turn.is_none() {
            waits = true;
        } else {
            let _ = clock::within(remaining(), log.room()).await;
        }
    }
}

fn refused(core: &Core, error: &AppendError) -> Refusal {
    let mut remark = error.to_string();
    if matches!(error, AppendError::Full { .. }) {
        let held_back = retention::held_back_text(&core.retention.held_back());
        if !held_back.is_empty() {
            remark = format!("{remark}. {held_back}");
        }
    }
    let code = match error {
        AppendError::Busy { .. } => ResponseCode::SYSTEM_BUSY,
        AppendError::TooLarge { .. } => ResponseCode::MESSAGE_ILLEGAL,
        _ => ResponseCode::SERVICE_NOT_AVAILABLE,
    };
    Refusal::new(code, remark)
}

/// Waits for what the sender was promised. Nothing changes from here on.
pub(crate) async fn reached(log: &Log, ticket: &Ticket, waits_for_flush: bool) -> Result<(), Refusal> {
    let mark = mark_of(log.flush_policy(), waits_for_flush);
    ticket.reached(mark).await.map_err(|error| unsafe_end(&error))
}

/// The mark that a sender was promised.
fn mark_of(policy: FlushPolicy, waits_for_flush: bool) -> Mark {
    match policy {
        FlushPolicy::Sync if waits_for_flush => Mark::Durable,
        _ => Mark::Safe,
    }
}

/// The log failed under a message that it had accepted.
fn unsafe_end(error: &StorageError) -> Refusal {
    Refusal::new(ResponseCode::SERVICE_NOT_AVAILABLE, error.to_string())
}

impl Stored {
    /// Of messages that have just reached what their sender was promised.
    fn of(core: &Core, queue: QueueId, tickets: &[Ticket], unique_key: Option<String>) -> Stored {
        let mut message_ids = Vec::new();
        for ticket in tickets {
            if !message_ids.is_empty() {
                message_ids.push(b',');
            }
            let id = OffsetId { host: core.advertised(), physical_offset: ticket.physical_offset };
            id.write_to(&mut message_ids);
        }
        let last = tickets.last().expect("something was stored");
        Stored {
            queue,
            queue_offset: tickets[0].queue_offset,
            message_ids: String::from_utf8(message_ids).expect("ids are digits"),
            unique_key,
            recall_handle: None,
            accepted: last.accepted,
            write_times: last.write_times(),
        }
    }

    fn push_fields(self, fields: &mut Fields) {
        fields.push("msgId", self.message_ids);
        fields.push("queueId", self.queue.0 as i32);
        fields.push("queueOffset", self.queue_offset.0 as i64);
        if let Some(unique_key) = self.unique_key {
            fields.push("transactionId", unique_key);
        }
        if let Some(recall_handle) = self.recall_handle {
            fields.push("recallHandle", recall_handle);
        }
    }
}

fn recall_handle(core: &Core, topic: &Text, due: Due, unique_key: Option<&str>) -> Option<String> {
    let (Due::Timer(due), Some(unique_key)) = (due, unique_key) else { return None };
    let (broker, unique_key) = (Text::from(&core.config().identity.broker), Text::from(unique_key));
    Some(RecallHandle { topic: topic.clone(), broker, due, unique_key }.encode())
}

fn record_bytes(ticket: &Ticket) -> u64 {
    ticket.end.since(ticket.physical_offset.offset())
}
