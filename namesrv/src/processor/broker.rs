//! What brokers say of themselves (103, 104, 322, 904), and what tools say of a broker (205, 327).

use remoting::Text;
use remoting::body::kv::KvTable;
use remoting::body::topic::DataVersion;
use remoting::header::namesrv::{
    AddWritePermResponse, BrokerHeartbeat, BrokerNameRequest, QueryDataVersion, QueryDataVersionResponse,
    RegisterBroker, RegisterBrokerResponse, UnregisterBroker, WipeWritePermResponse,
};
use remoting::json;
use runtime::clock;

use crate::dispatch::{Reply, Request};
use crate::kv::ORDER_TOPICS;
use crate::refusal::Refusal;
use crate::registration;
use crate::route::BrokerAddress;
use crate::route::table::{Registered, Registration};
use crate::server::State;

/// A full registration, or after a change one of a single topic.
pub(crate) fn register(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let command = request.command;
    let header = RegisterBroker::decode(&command.fields)?;
    registration::check(&header, &command.body).map_err(|error| Refusal::failed(error.to_string()))?;
    let broker = broker_address(&header.cluster_name, &header.broker_addr);
    let fingerprint = registration::fingerprint(&header, command.version, &command.body);
    let is_unchanged = state.table.borrow().is_unchanged(&broker, fingerprint);
    let registered = if is_unchanged {
        let master = state.table.borrow().master_for(&header.broker_name, header.broker_id);
        Registered::Taken { master, is_new_minimum: false }
    } else {
        let contents = registration::decode(&header, command.version, &command.body)
            .map_err(|error| Refusal::failed(error.to_string()))?;
        let registration = Registration {
            cluster: broker.cluster.clone(),
            broker_name: header.broker_name.detached(),
            broker_id: header.broker_id,
            address: broker.address.clone(),
            ha_address: header.ha_server_addr.detached(),
            acting_master: header.enable_acting_master,
            zone_name: header.zone_name.as_ref().map(Text::detached),
            contents,
            fingerprint,
        };
        let drops_missing_topics = state.config.borrow().delete_topic_with_broker_registration;
        let registered = state.table.borrow_mut().register(registration, drops_missing_topics);
        registered.map_err(|_| partial_first(&header))?
    };
    let Registered::Taken { master, is_new_minimum } = registered else {
        state.liveness.borrow_mut().forget(&broker);
        return Ok(Reply::done());
    };
    state.liveness.borrow_mut().registered(
        broker.clone(),
        request.connection,
        header.heartbeat_timeout_ms,
        clock::instant(),
    );
    if is_new_minimum {
        state.new_minimum(&header.broker_name, &broker);
    }
    let (master_addr, ha_server_addr) = master.map(|master| (master.address, master.ha_address)).unzip();
    let fields = RegisterBrokerResponse { ha_server_addr, master_addr }.to_fields();
    Ok(Reply { fields, ..order_topics(state) })
}

fn partial_first(header: &RegisterBroker) -> Refusal {
    let RegisterBroker { broker_name, broker_id, .. } = header;
    Refusal::failed(format!(
        "broker {broker_name} with id {broker_id} registered a single topic, but is not registered itself; \
         register all of its topics first"
    ))
}

/// The topics that the broker shall treat as ordered.
fn order_topics(state: &State) -> Reply {
    if !state.config.borrow().return_order_topic_config_to_broker {
        return Reply::done();
    }
    let table = state.kv.namespace(ORDER_TOPICS);
    table.map_or_else(Reply::done, |table| Reply::with_body(json::encode(&KvTable { table })))
}

/// Acts at once: the next route no longer has the broker.
pub(crate) fn unregister(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let header = UnregisterBroker::decode(&request.command.fields)?;
    let broker = broker_address(&header.cluster_name, &header.broker_addr);
    state.liveness.borrow_mut().forget(&broker);
    state.remove(&broker, &header.broker_name);
    Ok(Reply::done())
}

/// Whether the nameserver's view of a broker is older than the broker's own. One that is not keeps it alive.
pub(crate) fn query_data_version(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let header = QueryDataVersion::decode(&request.command.fields)?;
    let told: DataVersion = json::decode(&request.command.body)?;
    let broker = broker_address(&header.cluster_name, &header.broker_addr);
    let known = state.table.borrow().data_version(&broker);
    let changed = known != Some(told);
    if !changed {
        state.liveness.borrow_mut().seen(&broker, clock::instant());
    }
    let fields = QueryDataVersionResponse { changed }.to_fields();
    let body = known.map(|version| json::encode(&version)).unwrap_or_default();
    Ok(Reply { fields, body, save: None })
}

pub(crate) fn heartbeat(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let header = BrokerHeartbeat::decode(&request.command.fields)?;
    let broker = broker_address(&header.cluster_name, &header.broker_addr);
    state.liveness.borrow_mut().seen(&broker, clock::instant());
    Ok(Reply::done())
}

pub(crate) fn wipe_write_permission(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let header = BrokerNameRequest::decode(&request.command.fields)?;
    let topic_count = count(state.table.borrow_mut().wipe_write_permission(&header.broker_name));
    Ok(Reply::with_fields(WipeWritePermResponse { topic_count }.to_fields()))
}

pub(crate) fn add_write_permission(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let header = BrokerNameRequest::decode(&request.command.fields)?;
    let topic_count = count(state.table.borrow_mut().add_write_permission(&header.broker_name));
    Ok(Reply::with_fields(AddWritePermResponse { topic_count }.to_fields()))
}

fn count(topics: usize) -> i32 {
    i32::try_from(topics).unwrap_or(i32::MAX)
}

/// The texts get bytes of their own: a table's keys must not keep frames alive.
fn broker_address(cluster: &Text, address: &Text) -> BrokerAddress {
    BrokerAddress { cluster: cluster.detached(), address: address.detached() }
}
