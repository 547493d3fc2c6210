//! Who is connected: members of a consumer group (203), producers of a group (204), all producers (328).

use std::collections::BTreeMap;
use std::rc::Rc;

use remoting::body::connection::{Connection, ConsumerConnection, ProducerConnection, ProducerInfo, ProducerTable};
use remoting::code::ResponseCode;
use remoting::header::connection::{ConsumerConnectionList, ProducerConnectionList};
use remoting::json;
use remoting::text::Text;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::group::Group;
use crate::group::members::Client;

/// The members of a group and what they subscribed to (203); on the group's owner.
pub(crate) async fn consumer_connections(core: Rc<Core>, request: Request) -> Outcome {
    let ConsumerConnectionList { consumer_group: group } = ConsumerConnectionList::decode(&request.command.fields)?;
    let online = |known: &Group| {
        let members = &known.members;
        let manner = members.manner();
        (!members.is_empty()).then(|| ConsumerConnection {
            connection_set: members.iter().map(|(_, member)| connection(&member.client)).collect(),
            consume_from_where: manner.consume_from_where,
            consume_type: manner.consume_type,
            message_model: manner.message_model,
            subscription_table: members
                .subscriptions()
                .iter()
                .map(|(topic, subscription)| (topic.clone(), (**subscription).clone()))
                .collect(),
        })
    };
    let Some(body) = core.groups.with(&group, online).flatten() else {
        let remark = format!("no consumer of group {group} is online here");
        return Err(Refusal::new(ResponseCode::CONSUMER_NOT_ONLINE, remark));
    };
    Ok(Answer::success().with_body(json::encode(&body)))
}

/// The producers of a group (204); on the connection's core.
pub(crate) async fn producer_connections(core: Rc<Core>, request: Request) -> Outcome {
    let ProducerConnectionList { producer_group: group } = ProducerConnectionList::decode(&request.command.fields)?;
    let (owner, name) = (core.placement.core_of_group(&group), group.clone());
    let connection_set = core
        .on(owner, move |core| async move {
            let list = core.groups.with_producers(&name, |producers| {
                producers.iter().map(|producer| connection(&producer.client)).collect::<Vec<_>>()
            });
            list.unwrap_or_default()
        })
        .await;
    if connection_set.is_empty() {
        let remark = format!("no producer of group {group} is online here: one appears with its first heartbeat");
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
    }
    Ok(Answer::success().with_body(json::encode(&ProducerConnection { connection_set })))
}

/// The producers of all groups (328); on the connection's core.
pub(crate) async fn all_producers(core: Rc<Core>, _request: Request) -> Outcome {
    let tables = core.on_each(|core| async move { producers_of_core(&core) }).await;
    let data: BTreeMap<Text, Vec<ProducerInfo>> = tables.into_iter().flatten().collect();
    if data.is_empty() {
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, "no producer is online here"));
    }
    Ok(Answer::success().with_body(json::encode(&ProducerTable { data })))
}

fn producers_of_core(core: &Core) -> Vec<(Text, Vec<ProducerInfo>)> {
    let mut table = Vec::new();
    core.groups.for_each_producers(|group, producers| {
        let infos: Vec<ProducerInfo> = producers
            .iter()
            .map(|producer| ProducerInfo {
                client_id: producer.client.id.clone(),
                language: Text::from_static(producer.client.language.name()),
                last_update_timestamp: producer.heartbeat_at.0 as i64,
                // As Java writes an address.
                remote_ip: Text::from(format!("/{}", producer.client.address)),
                version: producer.client.version,
            })
            .collect();
        if !infos.is_empty() {
            table.push((group.clone(), infos));
        }
    });
    table
}

fn connection(client: &Client) -> Connection {
    Connection {
        client_addr: Text::from(client.address.to_string()),
        client_id: client.id.clone(),
        language: Text::from_static(client.language.name()),
        version: client.version,
    }
}
