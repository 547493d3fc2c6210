//! Pops (200050), what they would give (200052), whether there is something to pop (200054), and how many wait for it (200055).

use std::rc::Rc;
use std::time::Duration;

use base::QueueId;
use remoting::code::ResponseCode;
use remoting::header::pop::{
    Notification, NotificationResponse, PeekMessage, PollingInfo, PopMessage, PopMessageResponse,
};
use remoting::subscription::{EXPRESSION_SQL92, SubscriptionData};
use remoting::text::Text;
use runtime::clock;
use transport::{ConnectionId, Stage};

use crate::call::{Answer, Call, Outcome, Refusal, Request};
use crate::core::Core;
use crate::dispatch::start_watched;
use crate::filter;
use crate::group;
use crate::pop::Purpose;
use crate::pop::answer::{self, Texts};
use crate::pop::in_flight::BATCH_MESSAGES_MAX;
use crate::pop::look::{Looked, Pop};
use crate::pop::receipt::{ORDERED_REVIVE_QUEUE, REVIVE_QUEUE};
use crate::pop::waits::{self, Interest, Waiting};
use crate::stages::Watch;
use crate::topic::no_topic;

/// A pop waits so much shorter than its client does, so that the answer comes in time.
const ANSWER_EARLIER: Duration = Duration::from_millis(50);
/// The longest that a pop may wait, whatever it asks for.
const POLL_TIME_MAX: Duration = Duration::from_secs(60);
/// A waiting pop looks again this often: what its filter drops does not wake it, but moves its queue on.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The longest time that a message may be held: a day.
const INVISIBLE_MS_MAX: i64 = 24 * 60 * 60 * 1000;

/// One pop, on its connection's core.
pub(crate) fn pop(core: &Rc<Core>, call: Call) {
    start_watched(core, call, look_and_wait);
}

/// A look at all queues, and waiting for a message when they have none.
async fn look_and_wait(core: Rc<Core>, request: Request, watch: Watch) -> Outcome {
    let header = PopMessage::decode(&request.command.fields)?;
    let (connection, until) = (request.connection, clock::instant() + poll_span(header.poll_time_ms));
    let header = detached(header);
    drop(request);
    let (mut waiting, mut is_woken): (Option<Waiting>, bool) = (None, false);
    loop {
        let pop = admit(&core, &header).await?;
        if is_gone(&core, connection) {
            if is_woken || waiting.is_some_and(|parked| parked.is_woken()) {
                waits::pass_on(&core, interest(&core, &pop));
            }
            return Err(gone());
        }
        let pop_ms = clock::now_ms().0;
        let looked = pop.look(&core, pop_ms, &watch).await?;
        let remaining = until.saturating_duration_since(clock::instant());
        if !looked.taken.is_empty() || remaining.is_zero() || core.draining.get() {
            // What woke it while it looked may be more than it took.
            if waiting.is_some_and(|parked| parked.is_woken()) {
                waits::pass_on(&core, interest(&core, &pop));
            }
            return Ok(found(&header, pop_ms, &looked));
        }
        match waiting.take() {
            None if !core.pops.waits.has_room() => {
                return Ok(respond(&header, ResponseCode::POLLING_FULL, pop_ms, &looked));
            }
            None => waiting = Some(Waiting::park(&core, connection, interest(&core, &pop)).await),
            Some(parked) => is_woken = parked.woken(span(remaining, &looked)).await,
        }
        watch.pass(Stage::Park);
    }
}

/// What a pop would give, on the connection's core. It stays where it is.
pub(crate) async fn peek(core: Rc<Core>, request: Request) -> Outcome {
    let asked = PeekMessage::decode(&request.command.fields)?;
    let header = PopMessage {
        consumer_group: asked.consumer_group,
        topic: asked.topic,
        queue_id: asked.queue_id,
        message_count_max: asked.message_count_max.min(BATCH_MESSAGES_MAX as i32),
        invisible_time_ms: 1,
        poll_time_ms: 0,
        born_time_ms: 0,
        init_mode: 0,
        expression_type: None,
        expression: None,
        order: false,
        attempt_id: None,
    };
    let pop = Pop { purpose: Purpose::Peek, ..admit(&core, &header).await? };
    let looked = pop.look(&core, clock::now_ms().0, &Watch::default()).await?;
    let code = if looked.taken.is_empty() { ResponseCode::PULL_NOT_FOUND } else { ResponseCode::SUCCESS };
    let response = PopMessageResponse {
        pop_time_ms: 0,
        invisible_time_ms: 0,
        revive_queue_id: 0,
        rest_count: i64::try_from(looked.rest).unwrap_or(i64::MAX),
        start_offset_info: None,
        message_offset_info: None,
        order_count_info: None,
    };
    Ok(Answer::of(code).with_fields(response.to_fields()).with_body(answer::body(&looked.taken)))
}

/// Whether a pop would find something, on the connection's core. Waits for that as a pop does.
pub(crate) async fn notification(core: Rc<Core>, request: Request) -> Outcome {
    let asked = Notification::decode(&request.command.fields)?;
    let connection = request.connection;
    let until = clock::instant() + poll_span(asked.poll_time_ms);
    let header = detached(PopMessage {
        consumer_group: asked.consumer_group,
        topic: asked.topic,
        queue_id: asked.queue_id,
        message_count_max: 0,
        invisible_time_ms: 1,
        poll_time_ms: asked.poll_time_ms,
        born_time_ms: asked.born_time_ms,
        init_mode: 0,
        expression_type: None,
        expression: None,
        order: asked.order,
        attempt_id: asked.attempt_id,
    });
    drop(request);
    let mut waiting: Option<Waiting> = None;
    loop {
        let pop = admit(&core, &header).await?;
        if is_gone(&core, connection) {
            return Err(gone());
        }
        let looked = pop.look(&core, clock::now_ms().0, &Watch::default()).await?;
        let remaining = until.saturating_duration_since(clock::instant());
        let has_message = looked.rest > 0;
        let mut answer = NotificationResponse { has_message, polling_full: false };
        if has_message || remaining.is_zero() || core.draining.get() {
            return Ok(Answer::success().with_fields(answer.to_fields()));
        }
        match waiting.take() {
            None if !core.pops.waits.has_room() => {
                answer.polling_full = true;
                return Ok(Answer::success().with_fields(answer.to_fields()));
            }
            None => {
                let interest = Interest { takes: false, ..interest(&core, &pop) };
                waiting = Some(Waiting::park(&core, connection, interest).await);
            }
            Some(parked) => drop(parked.woken(span(remaining, &looked)).await),
        }
    }
}

/// How many pops of a group wait for a queue, on its owner.
pub(crate) async fn polling_info(core: Rc<Core>, request: Request) -> Outcome {
    let header = PollingInfo::decode(&request.command.fields)?;
    core.topics.get(&header.topic).ok_or_else(|| no_topic(&header.topic))?;
    let queue = u32::try_from(header.queue_id).ok().map(QueueId);
    let count = core.pops.waits.count(&header.consumer_group, &header.topic, queue);
    let mut fields = remoting::fields::Fields::new();
    fields.push("pollingNum", i32::try_from(count).unwrap_or(i32::MAX));
    Ok(Answer::success().with_fields(fields))
}

fn poll_span(poll_time_ms: i64) -> Duration {
    let asked = Duration::from_millis(poll_time_ms.max(0) as u64);
    asked.min(POLL_TIME_MAX).saturating_sub(ANSWER_EARLIER)
}

/// How long to wait before the next look.
fn span(remaining: Duration, looked: &Looked) -> Duration {
    let now_ms = clock::now_ms().0;
    let again = looked.again_at_ms.map(|at_ms| Duration::from_millis(at_ms.saturating_sub(now_ms)));
    remaining.min(LOOK_AGAIN).min(again.unwrap_or(Duration::MAX))
}

/// Without the buffer that the request arrived in: a pop may wait for long.
fn detached(header: PopMessage) -> PopMessage {
    PopMessage {
        consumer_group: header.consumer_group.detached(),
        topic: header.topic.detached(),
        expression_type: header.expression_type.map(|text| text.detached()),
        expression: header.expression.map(|text| text.detached()),
        attempt_id: header.attempt_id.filter(|text| !text.is_empty()).map(|text| text.detached()),
        ..header
    }
}

fn is_gone(core: &Core, connection: ConnectionId) -> bool {
    core.server().connection(connection).is_none_or(|connection| connection.is_ending())
}

fn gone() -> Refusal {
    Refusal::new(ResponseCode::SYSTEM_ERROR, "the connection was closed while the pop waited")
}

fn interest(core: &Core, pop: &Pop) -> Interest {
    let topics = pop.sources(core).into_iter().map(|(topic, _, queue)| (topic, queue)).collect();
    Interest { group: pop.group.group_name.clone(), topics, wanted: pop.wanted.clone(), takes: true }
}

/// All that can be refused, in the order that clients know.
async fn admit(core: &Rc<Core>, header: &PopMessage) -> Result<Pop, Refusal> {
    let refuse = |code, remark: String| Err(Refusal::new(code, remark));
    let config = core.config();
    if !config.registration.permission.reads() {
        let remark = format!("broker {} may not be read: brokerPermission lacks 4", config.identity.broker);
        return refuse(ResponseCode::NO_PERMISSION, remark);
    }
    let count_max = u32::try_from(header.message_count_max).unwrap_or(0);
    if count_max as usize > BATCH_MESSAGES_MAX {
        let remark = format!("maxMsgNums is {count_max}, at most {BATCH_MESSAGES_MAX} can be popped at once");
        return refuse(ResponseCode::INVALID_PARAMETER, remark);
    }
    let Some(topic) = core.topics.get(&header.topic) else {
        let remark = format!("topic {} does not exist on this broker: create it first", header.topic);
        return refuse(ResponseCode::TOPIC_NOT_EXIST, remark);
    };
    if !topic.is_readable() {
        let remark = format!("topic {} may not be read: its perm {} lacks 4", header.topic, topic.config.perm);
        return refuse(ResponseCode::NO_PERMISSION, remark);
    }
    let queue = u32::try_from(header.queue_id).ok().map(QueueId);
    if queue.is_some_and(|queue| queue.0 >= topic.read_queues()) {
        let remark = format!(
            "queue {} of topic {} can't be read: it has {} readable queues",
            header.queue_id,
            header.topic,
            topic.read_queues()
        );
        return refuse(ResponseCode::INVALID_PARAMETER, remark);
    }
    let group = group::ensure(core, &header.consumer_group).await?;
    if !group.consume_enable {
        let remark = format!("group {} may not consume: its consumeEnable is false", header.consumer_group);
        return refuse(ResponseCode::NO_PERMISSION, remark);
    }
    if group::is_read_forbidden(core, &header.consumer_group, &header.topic) {
        let remark = format!("group {} may not read topic {}", header.consumer_group, header.topic);
        return refuse(ResponseCode::NO_PERMISSION, remark);
    }
    Ok(Pop {
        purpose: Purpose::Pop,
        wanted: wanted(core, header)?,
        topic,
        group,
        queue,
        count_max,
        invisible_ms: header.invisible_time_ms.clamp(1, INVISIBLE_MS_MAX) as u64,
        begins_at_end: header.init_mode != 0,
        order: header.order.then(|| header.attempt_id.clone()),
    })
}

fn wanted(core: &Core, header: &PopMessage) -> Result<SubscriptionData, Refusal> {
    let illegal = |error: String| Refusal::new(ResponseCode::SUBSCRIPTION_PARSE_FAILED, error);
    if header.expression_type.as_deref().is_some_and(filter::is_sql) {
        filter::check_enabled(core)?;
        let expression = header.expression.clone().unwrap_or_default();
        core.filters.get(&expression).map_err(|error| illegal(error.to_string()))?;
        return Ok(SubscriptionData {
            topic: header.topic.clone(),
            expression_type: Text::from_static(EXPRESSION_SQL92),
            sub_string: expression,
            ..SubscriptionData::default()
        });
    }
    SubscriptionData::parse(header.topic.clone(), header.expression.as_deref())
        .map_err(|error| illegal(error.to_string()))
}

fn found(header: &PopMessage, pop_ms: u64, looked: &Looked) -> Answer {
    let code = if looked.taken.is_empty() { ResponseCode::POLLING_TIMEOUT } else { ResponseCode::SUCCESS };
    respond(header, code, pop_ms, looked)
}

fn respond(header: &PopMessage, code: ResponseCode, pop_ms: u64, looked: &Looked) -> Answer {
    let texts = Texts::of(&looked.taken);
    let response = PopMessageResponse {
        pop_time_ms: pop_ms as i64,
        invisible_time_ms: header.invisible_time_ms.clamp(1, INVISIBLE_MS_MAX),
        revive_queue_id: if header.order { ORDERED_REVIVE_QUEUE } else { REVIVE_QUEUE },
        rest_count: i64::try_from(looked.rest).unwrap_or(i64::MAX),
        start_offset_info: answer::field(texts.starts),
        message_offset_info: answer::field(texts.offsets),
        order_count_info: answer::field(texts.counts),
    };
    Answer::of(code).with_fields(response.to_fields()).with_body(answer::body(&looked.taken))
}
