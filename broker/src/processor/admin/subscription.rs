//! Which groups consume which topics (300, 343, 345).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;

use remoting::body::consume::QuerySubscription;
use remoting::body::group::GroupList;
use remoting::body::topic::TopicList;
use remoting::header::consume::QuerySubscriptionByConsumer;
use remoting::header::group::GroupRequest;
use remoting::header::topic::TopicRequest;
use remoting::json;
use remoting::text::Text;

use crate::call::{Answer, Outcome, Request};
use crate::core::Core;

/// The groups that subscribed to a topic or committed offsets of it (300); on the connection's core.
pub(crate) async fn groups_of_topic(core: Rc<Core>, request: Request) -> Outcome {
    let TopicRequest { topic } = TopicRequest::decode(&request.command.fields)?;
    let mut groups: BTreeSet<Text> = core.group_views.subscribers(&topic).into_iter().collect();
    let committed = core
        .on_each(move |core| {
            let topic = topic.clone();
            async move {
                let mut groups = Vec::new();
                core.groups.for_each(|name, group| {
                    if group.offsets.knows(&topic) {
                        groups.push(name.clone());
                    }
                });
                groups
            }
        })
        .await;
    groups.extend(committed.into_iter().flatten());
    Ok(Answer::success().with_body(json::encode(&GroupList { group_list: groups })))
}

/// The topics of which a group committed offsets (343); on the group's owner.
pub(crate) async fn topics_of_group(core: Rc<Core>, request: Request) -> Outcome {
    let GroupRequest { group } = GroupRequest::decode(&request.command.fields)?;
    let topics = core.groups.with(&group, |group| group.offsets.topics().cloned().collect());
    let config = core.config();
    let address = SocketAddr::new(config.network.advertised_address, config.network.listen_port);
    let body = TopicList { broker_addr: Some(Text::from(address.to_string())), topic_list: topics.unwrap_or_default() };
    Ok(Answer::success().with_body(json::encode(&body)))
}

/// What a group wants of a topic (345); on any core. Without a subscription if it is not online or wants nothing of it.
pub(crate) async fn subscription_of_group(core: Rc<Core>, request: Request) -> Outcome {
    let QuerySubscriptionByConsumer { group, topic } = QuerySubscriptionByConsumer::decode(&request.command.fields)?;
    let topic = topic.unwrap_or_default();
    let view = core.group_views.get(&group);
    let subscription_data =
        view.and_then(|view| view.subscriptions.get(&topic).map(|subscription| (**subscription).clone()));
    Ok(Answer::success().with_body(json::encode(&QuerySubscription { group, subscription_data, topic })))
}
