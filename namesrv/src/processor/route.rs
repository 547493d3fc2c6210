//! Where a topic is (105).

use std::time::Duration;

use remoting::ResponseCode;
use remoting::header::namesrv::GetRouteInfo;
use remoting::json;
use runtime::clock;

use crate::dispatch::{Reply, Request};
use crate::kv::ORDER_TOPICS;
use crate::refusal::Refusal;
use crate::route::view::{ascii_json, keep_zone};
use crate::server::State;

/// Clients from this version on (4.9.4) read strictly standard JSON.
const VERSION_STANDARD_JSON: i32 = 401;

pub(crate) fn get(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let header = GetRouteInfo::decode(&request.command.fields)?;
    let config = state.config.borrow();
    if config.need_wait_for_service {
        wait_over(state, config.wait_seconds_for_service)?;
    }
    let topic = header.topic.as_str();
    let route = state.table.borrow().route(topic, config.support_acting_master);
    let mut route = route.ok_or_else(|| no_route(topic))?;
    if config.order_message_enable {
        route.order_topic_conf = state.kv.get(ORDER_TOPICS, topic);
    }
    if let Some(zone) = header.zone_name.filter(|zone| header.zone_mode && !zone.is_empty()) {
        keep_zone(&mut route, &zone);
        // Clients cannot tell a route without brokers from a fault.
        if route.broker_datas.is_empty() || route.queue_datas.is_empty() {
            return Err(no_route_in_zone(topic, &zone));
        }
    }
    let body = json::encode(&route);
    let is_standard = header.accept_standard_json_only || request.command.version >= VERSION_STANDARD_JSON;
    Ok(Reply::with_body(if is_standard { ascii_json(body) } else { body }))
}

fn wait_over(state: &State, seconds: u32) -> Result<(), Refusal> {
    let wait = Duration::from_secs(seconds.into());
    if clock::instant().saturating_duration_since(state.started) >= wait {
        return Ok(());
    }
    Err(Refusal::failed(format!(
        "the nameserver waits {seconds} s after its start for brokers to register; try again then, or set \
         needWaitForService=false"
    )))
}

fn no_route(topic: &str) -> Refusal {
    let remark = format!(
        "no broker that is registered here has the topic {topic}; create it with updateTopic, or let brokers create \
         topics (autoCreateTopicEnable=true)"
    );
    Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark)
}

fn no_route_in_zone(topic: &str, zone: &str) -> Refusal {
    let remark =
        format!("no broker of the zone {zone} has the topic {topic}; create it there, or ask without __ZONE_MODE");
    Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark)
}
