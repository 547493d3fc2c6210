//! The broker itself for admin tools: its configuration (25, 26) and its place among replicas (906 to 908, 1007).

use std::rc::Rc;

use remoting::body::stats::{HaClientInfo, HaRuntimeInfo};
use remoting::code::ResponseCode;
use remoting::header::stats::{BrokerConfigResponse, ExchangeHaInfo, ResetMasterFlushOffset};
use remoting::json;
use remoting::text::Text;

use super::log_totals::{LogTotals, log_totals};
use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;

/// 25, on the tables' core.
pub(crate) async fn update_config(core: Rc<Core>, request: Request) -> Outcome {
    let Ok(text) = std::str::from_utf8(&request.command.body) else {
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, "the body is no UTF-8 text of key=value lines"));
    };
    let owner = core.tables().config.clone();
    let updated = owner.update(&core, text).await?;
    let mut told = Vec::new();
    if !updated.needs_restart.is_empty() {
        told.push(format!("kept for the next start: {}", updated.needs_restart.join(", ")));
    }
    if !updated.ignored.is_empty() {
        told.push(format!("not known and ignored: {}", updated.ignored.join(", ")));
    }
    Ok(if told.is_empty() { Answer::success() } else { Answer::success().with_remark(told.join("; ")) })
}

/// 26, on the tables' core.
pub(crate) async fn config(core: Rc<Core>, _request: Request) -> Outcome {
    let owner = &core.tables().config;
    let version = String::from_utf8(json::encode(&owner.version()).to_vec()).expect("JSON is UTF-8");
    let header = BrokerConfigResponse { version: Text::from(version) };
    Ok(Answer::success().with_fields(header.to_fields()).with_body(owner.text()))
}

/// 907, on any core: a master without slaves.
pub(crate) async fn ha_status(core: Rc<Core>, _request: Request) -> Outcome {
    let LogTotals { appended, .. } = log_totals(&core).await;
    let info = HaRuntimeInfo {
        ha_client_runtime_info: HaClientInfo::default(),
        ha_connection_info: Vec::new(),
        in_sync_slave_nums: 0,
        master: true,
        master_commit_log_max_offset: appended,
    };
    Ok(Answer::success().with_body(json::encode(&info)))
}

/// 906, on any core: where a slave would find its master, and how far that is.
pub(crate) async fn exchange_ha_info(core: Rc<Core>, request: Request) -> Outcome {
    ExchangeHaInfo::decode(&request.command.fields)?;
    let LogTotals { durable, .. } = log_totals(&core).await;
    let header = ExchangeHaInfo {
        master_ha_address: None,
        master_flush_offset: Some(durable),
        master_address: Some(Text::from(core.advertised().to_string())),
    };
    Ok(Answer::success().with_fields(header.to_fields()))
}

/// 908, on any core: a master has no master whose offset it could take over.
pub(crate) async fn reset_master_flush_offset(_core: Rc<Core>, request: Request) -> Outcome {
    ResetMasterFlushOffset::decode(&request.command.fields)?;
    Ok(Answer::success())
}

/// 1007, on any core.
pub(crate) async fn epoch_cache(_core: Rc<Core>, _request: Request) -> Outcome {
    Err(Refusal::new(ResponseCode::SYSTEM_ERROR, "this broker is not in controller mode: it has no epochs"))
}
