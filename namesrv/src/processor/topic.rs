//! Lists of topics (206, 224, 304, 311, 312, 313), and topics entered or removed by hand (216, 217).

use remoting::Text;
use remoting::body::route::TopicRouteData;
use remoting::body::topic::TopicList;
use remoting::header::namesrv::{DeleteTopicInNamesrv, TopicsByCluster};
use remoting::json;

use crate::dispatch::{Reply, Request};
use crate::refusal::Refusal;
use crate::route::view::UnitFilter;
use crate::server::State;

pub(crate) fn list_all(state: &State, _request: &Request<'_>) -> Result<Reply, Refusal> {
    allowed(state.config.borrow().enable_all_topic_list, "enableAllTopicList")?;
    Ok(reply(&state.table.borrow().topic_list()))
}

/// A cluster that is not there has no topics.
pub(crate) fn list_of_cluster(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    allowed(state.config.borrow().enable_topic_list, "enableTopicList")?;
    let header = TopicsByCluster::decode(&request.command.fields)?;
    Ok(reply(&state.table.borrow().topics_of_cluster(&header.cluster)))
}

pub(crate) fn list_system(state: &State, _request: &Request<'_>) -> Result<Reply, Refusal> {
    Ok(reply(&state.table.borrow().system_topics()))
}

pub(crate) fn list_unit(state: &State, _request: &Request<'_>) -> Result<Reply, Refusal> {
    list_by_flags(state, UnitFilter::Unit)
}

pub(crate) fn list_unit_sub(state: &State, _request: &Request<'_>) -> Result<Reply, Refusal> {
    list_by_flags(state, UnitFilter::UnitSub)
}

pub(crate) fn list_unit_sub_not_unit(state: &State, _request: &Request<'_>) -> Result<Reply, Refusal> {
    list_by_flags(state, UnitFilter::UnitSubButNotUnit)
}

fn list_by_flags(state: &State, filter: UnitFilter) -> Result<Reply, Refusal> {
    allowed(state.config.borrow().enable_topic_list, "enableTopicList")?;
    Ok(reply(&state.table.borrow().unit_topics(filter)))
}

fn allowed(is_enabled: bool, key: &str) -> Result<(), Refusal> {
    if is_enabled {
        return Ok(());
    }
    Err(Refusal::failed(format!("this list is disabled; set {key}=true with updateNamesrvConfig")))
}

fn reply(list: &TopicList) -> Reply {
    Reply::with_body(json::encode(list))
}

/// A topic that is not there counts as deleted.
pub(crate) fn delete(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let header = DeleteTopicInNamesrv::decode(&request.command.fields)?;
    let cluster = header.cluster_name.as_deref().filter(|cluster| !cluster.is_empty());
    state.table.borrow_mut().delete_topic(&header.topic, cluster);
    Ok(Reply::done())
}

/// Enters the queues of a topic of brokers that are registered.
pub(crate) fn register(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let command = request.command;
    let topic: Text = command.fields.required("topic")?;
    if command.body.is_empty() {
        return Ok(Reply::done());
    }
    let route: TopicRouteData = json::decode(&command.body)?;
    let registered = state.table.borrow_mut().register_topic(&topic.detached(), route.queue_datas);
    registered.map_err(|stranger| {
        Refusal::failed(format!("broker {stranger} is not registered; let it register before its topic {topic}"))
    })?;
    Ok(Reply::done())
}
