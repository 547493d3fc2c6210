//! The key-value table (100, 101, 102, 219).

use remoting::ResponseCode;
use remoting::body::kv::KvTable;
use remoting::header::namesrv::{GetKvConfigResponse, KvConfigRequest, KvListByNamespace, PutKvConfig};
use remoting::json;

use crate::dispatch::{Reply, Request, Save};
use crate::refusal::Refusal;
use crate::server::State;

pub(crate) fn put(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let header = PutKvConfig::decode(&request.command.fields)?;
    state.kv.put(&header.namespace, &header.key, &header.value);
    Ok(Reply::after(Save::Kv))
}

pub(crate) fn get(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let header = KvConfigRequest::decode(&request.command.fields)?;
    let value = state.kv.get(&header.namespace, &header.key);
    let value = value.ok_or_else(|| {
        let KvConfigRequest { namespace, key } = &header;
        let remark = format!("the namespace {namespace} has no key {key}; set it with updateKvConfig");
        Refusal::new(ResponseCode::QUERY_NOT_FOUND, remark)
    })?;
    Ok(Reply::with_fields(GetKvConfigResponse { value: Some(value) }.to_fields()))
}

/// A key that is not there counts as deleted.
pub(crate) fn delete(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let header = KvConfigRequest::decode(&request.command.fields)?;
    state.kv.delete(&header.namespace, &header.key);
    Ok(Reply::after(Save::Kv))
}

pub(crate) fn list(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let header = KvListByNamespace::decode(&request.command.fields)?;
    let table = state.kv.namespace(&header.namespace).ok_or_else(|| {
        let remark = format!("there is no namespace {}; set a key in it with updateKvConfig", header.namespace);
        Refusal::new(ResponseCode::QUERY_NOT_FOUND, remark)
    })?;
    Ok(Reply::with_body(json::encode(&KvTable { table })))
}
