//! Which brokers there are (106, 901).

use remoting::body::cluster::BrokerMemberGroupBody;
use remoting::header::namesrv::GetBrokerMemberGroup;
use remoting::json;

use crate::dispatch::{Reply, Request};
use crate::refusal::Refusal;
use crate::server::State;

pub(crate) fn info(state: &State, _request: &Request<'_>) -> Result<Reply, Refusal> {
    Ok(Reply::with_body(json::encode(&state.table.borrow().cluster_info())))
}

pub(crate) fn member_group(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let header = GetBrokerMemberGroup::decode(&request.command.fields)?;
    let broker_member_group = state.table.borrow().member_group(&header.cluster_name, &header.broker_name);
    Ok(Reply::with_body(json::encode(&BrokerMemberGroupBody { broker_member_group })))
}
