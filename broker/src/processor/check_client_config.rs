//! Consumers that ask whether their filter can be served (46).

use std::rc::Rc;

use remoting::body::heartbeat::CheckClientConfig;
use remoting::code::ResponseCode;
use remoting::json;
use remoting::subscription::SubscriptionData;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::filter;

/// Whether the subscription can be served; on the connection's core.
pub(crate) async fn check_client_config(core: Rc<Core>, request: Request) -> Outcome {
    if request.command.body.is_empty() {
        return Ok(Answer::success());
    }
    let check: CheckClientConfig = json::decode(&request.command.body)
        .map_err(|error| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string()))?;
    let wanted = check.subscription_data;
    if wanted.is_tag_type() {
        let parsed = SubscriptionData::parse(wanted.topic, Some(&wanted.sub_string));
        return match parsed {
            Ok(_) => Ok(Answer::success()),
            Err(error) => Err(Refusal::new(ResponseCode::SUBSCRIPTION_PARSE_FAILED, error.to_string())),
        };
    }
    if filter::is_sql(&wanted.expression_type) {
        filter::check_enabled(&core)?;
        return match core.filters.get(&wanted.sub_string) {
            Ok(_) => Ok(Answer::success()),
            Err(error) => Err(Refusal::new(ResponseCode::SUBSCRIPTION_PARSE_FAILED, error.to_string())),
        };
    }
    let remark = format!("unknown expression type \"{}\"; known are TAG and SQL92", wanted.expression_type);
    Err(Refusal::new(ResponseCode::SUBSCRIPTION_PARSE_FAILED, remark))
}
