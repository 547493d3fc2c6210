//! Heartbeats (34): clients say which groups they belong to, and what those subscribed to.

use std::rc::Rc;
use std::sync::Arc;

use remoting::body::heartbeat::{ConsumerData, Heartbeat};
use remoting::code::ResponseCode;
use remoting::header::client::HeartbeatResponse;
use remoting::json;
use remoting::subscription::SubscriptionData;
use runtime::sync::{OnceReceiver, once};

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::filter;
use crate::group::members::{Client, Manner, Registration};
use crate::group::{self, ConsumerHeartbeat, ProducerHeartbeat};
use crate::topic;

/// A larger heartbeat is refused. Thousands of subscriptions fit.
const HEARTBEAT_BYTES_MAX: usize = 1 << 20;

/// One heartbeat, on its connection's core: each group's owner hears its part, all at the same time.
pub(crate) async fn heartbeat(core: Rc<Core>, request: Request) -> Outcome {
    let body = &request.command.body;
    if body.len() > HEARTBEAT_BYTES_MAX {
        let remark = format!("a heartbeat of {} bytes: at most {HEARTBEAT_BYTES_MAX} are read", body.len());
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
    }
    let heartbeat: Heartbeat =
        json::decode(body).map_err(|error| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string()))?;
    // What is read takes as long as what follows: messages go in between.
    runtime::yield_now().await;
    if heartbeat.client_id.is_empty() {
        return Err(Refusal::new(ResponseCode::INVALID_PARAMETER, "the heartbeat has no clientID"));
    }
    if core.server().connection(request.connection).is_none_or(|connection| connection.is_closed()) {
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, "the connection is closed"));
    }
    let Heartbeat { client_id, consumer_data_set, heartbeat_fingerprint: fingerprint, producer_data_set, without_sub } =
        heartbeat;
    core.sessions.note(
        request.connection,
        consumer_data_set.iter().map(|data| &data.group_name),
        producer_data_set.iter().map(|data| &data.group_name),
    );
    let client = Client {
        id: client_id,
        address: request.peer,
        language: request.command.language,
        version: request.command.version,
    };
    let connection = request.connection;
    let mut parts: Vec<OnceReceiver<bool>> = Vec::with_capacity(consumer_data_set.len());
    for data in consumer_data_set {
        prepare_filters(&core, &data);
        let group = data.group_name.clone();
        let registration = registration(&core, &client, fingerprint, without_sub, data);
        let heartbeat = ConsumerHeartbeat { group, connection, registration };
        let (sender, receiver) = once();
        let core = core.clone();
        runtime::spawn_background(async move { sender.send(consumer(&core, heartbeat).await) });
        parts.push(receiver);
        runtime::yield_now().await;
    }
    if !producer_data_set.is_empty() {
        group::register_reply_client(&core, &client.id, connection).await;
    }
    for data in producer_data_set {
        let heartbeat = ProducerHeartbeat { group: data.group_name, connection, client: client.clone() };
        group::register_producer(&core, heartbeat).await;
    }
    // A client of the first version sends all each time, so nothing is to be asked of it; it is told what the peer tells.
    let mut subscriptions_wanted = fingerprint == 0;
    for part in parts {
        subscriptions_wanted |= part.receive().await.expect("each part tells its end");
    }
    let answer =
        HeartbeatResponse { heartbeat_v2_supported: Some(true), subscription_changed: Some(subscriptions_wanted) };
    Ok(Answer::success().with_fields(answer.to_fields()))
}

/// Compiles what the group filters by. Wrong expressions are told here, and refused when a pull comes.
fn prepare_filters(core: &Core, data: &ConsumerData) {
    let by_sql = data.subscription_data_set.iter().filter(|data| filter::is_sql(&data.expression_type));
    for subscription in by_sql.filter(|_| core.config().consumers.property_filter) {
        core.filters.prepare(&data.group_name, &subscription.topic, &subscription.sub_string);
    }
}

fn registration(core: &Core, client: &Client, fingerprint: i32, without_sub: bool, data: ConsumerData) -> Registration {
    // The name of a topic that is there is kept once, not in each subscription.
    let kept = |data: SubscriptionData| match core.topics.get(&data.topic) {
        Some(topic) => SubscriptionData { topic: topic.name().clone(), ..data },
        None => data,
    };
    let subscription = |data: SubscriptionData| Arc::new(kept(data).with_usual_words().with_codes());
    let subscriptions = (!without_sub).then(|| data.subscription_data_set.into_iter().map(subscription).collect());
    Registration {
        client: client.clone(),
        manner: Manner {
            consume_type: data.consume_type,
            message_model: data.message_model,
            consume_from_where: data.consume_from_where,
        },
        fingerprint,
        subscriptions,
    }
}

/// The part about one consumer group. A group that does not exist and may not be made is passed over: its pulls tell
/// the client. Returns whether the client must send its subscriptions.
async fn consumer(core: &Rc<Core>, heartbeat: ConsumerHeartbeat) -> bool {
    let group = &heartbeat.group;
    let Ok(config) = group::ensure(core, group).await else { return false };
    let queues = u32::try_from(config.retry_queue_nums).unwrap_or(0);
    if let Err(refusal) = topic::ensure_retry_topic(core, group, queues).await {
        core.groups.no_retry_topic.warn(format_args!("no retry topic for group {group}: {}", refusal.remark));
    }
    group::register_consumer(core, heartbeat).await
}
