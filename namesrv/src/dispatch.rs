//! The one table of request codes: which function answers which.

use bytes::Bytes;
use remoting::{Command, Fields, RequestCode};
use transport::ConnectionId;

use crate::processor::{broker, cluster, config, kv, route, topic};
use crate::refusal::Refusal;
use crate::server::State;

/// A request with the connection that it came over.
pub(crate) struct Request<'a> {
    pub(crate) command: &'a Command,
    pub(crate) connection: ConnectionId,
}

/// The answer to a request that was done.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) fields: Fields,
    pub(crate) body: Bytes,
    /// What has to be on disk before the answer leaves.
    pub(crate) save: Option<Save>,
}

/// Something that a request changed and that survives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Save {
    Kv,
    Config,
}

impl Reply {
    pub(crate) fn done() -> Reply {
        Reply::default()
    }

    pub(crate) fn with_fields(fields: Fields) -> Reply {
        Reply { fields, ..Reply::default() }
    }

    pub(crate) fn with_body(body: Bytes) -> Reply {
        Reply { body, ..Reply::default() }
    }

    pub(crate) fn after(save: Save) -> Reply {
        Reply { save: Some(save), ..Reply::default() }
    }
}

type Handler = fn(&State, &Request<'_>) -> Result<Reply, Refusal>;

fn handler(code: RequestCode) -> Option<Handler> {
    let handler: Handler = match code {
        RequestCode::PUT_KV_CONFIG => kv::put,
        RequestCode::GET_KV_CONFIG => kv::get,
        RequestCode::DELETE_KV_CONFIG => kv::delete,
        RequestCode::GET_KVLIST_BY_NAMESPACE => kv::list,
        RequestCode::REGISTER_BROKER => broker::register,
        RequestCode::UNREGISTER_BROKER => broker::unregister,
        RequestCode::QUERY_DATA_VERSION => broker::query_data_version,
        RequestCode::BROKER_HEARTBEAT => broker::heartbeat,
        RequestCode::WIPE_WRITE_PERM_OF_BROKER => broker::wipe_write_permission,
        RequestCode::ADD_WRITE_PERM_OF_BROKER => broker::add_write_permission,
        RequestCode::GET_ROUTEINFO_BY_TOPIC => route::get,
        RequestCode::GET_BROKER_CLUSTER_INFO => cluster::info,
        RequestCode::GET_BROKER_MEMBER_GROUP => cluster::member_group,
        RequestCode::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => topic::list_all,
        RequestCode::GET_TOPICS_BY_CLUSTER => topic::list_of_cluster,
        RequestCode::GET_SYSTEM_TOPIC_LIST_FROM_NS => topic::list_system,
        RequestCode::GET_UNIT_TOPIC_LIST => topic::list_unit,
        RequestCode::GET_HAS_UNIT_SUB_TOPIC_LIST => topic::list_unit_sub,
        RequestCode::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => topic::list_unit_sub_not_unit,
        RequestCode::DELETE_TOPIC_IN_NAMESRV => topic::delete,
        RequestCode::REGISTER_TOPIC_IN_NAMESRV => topic::register,
        RequestCode::UPDATE_NAMESRV_CONFIG => config::update,
        RequestCode::GET_NAMESRV_CONFIG => config::get,
        _ => return None,
    };
    Some(handler)
}

/// Does what the request asks for.
///
/// # Errors
/// What its sender is told instead.
pub(crate) fn dispatch(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let code = request.command.code;
    let handler = handler(RequestCode(code)).ok_or_else(|| Refusal::unknown_code(code))?;
    handler(state, request)
}
