//! The nameserver's own settings (318, 319).

use bytes::Bytes;
use remoting::ResponseCode;

use crate::config::{self, Property};
use crate::dispatch::{Reply, Request, Save};
use crate::refusal::Refusal;
use crate::server::State;

/// Settings that name a path, or that guard those: no request may change them, whatever `configBlackList` says.
const NEVER_BY_REQUEST: [&str; 4] = ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"];

pub(crate) fn get(state: &State, _request: &Request<'_>) -> Result<Reply, Refusal> {
    Ok(Reply::with_body(Bytes::from(state.config.borrow().to_properties())))
}

/// Changes settings: all that the request names, or none.
pub(crate) fn update(state: &State, request: &Request<'_>) -> Result<Reply, Refusal> {
    let text = std::str::from_utf8(&request.command.body)
        .map_err(|error| Refusal::failed(format!("the body is no UTF-8 from byte {}", error.valid_up_to())))?;
    let changes = config::parse_properties(text)
        .map_err(|error| Refusal::failed(format!("the body is no key=value text: {error}")))?;
    if changes.is_empty() {
        return Ok(Reply::done());
    }
    let mut changed = state.config.borrow().clone();
    if let Some(key) = guarded_key(&changed.config_black_list, &changes) {
        let remark = format!(
            "{key} cannot be changed by a request, it is in the black list; change it in the configuration file and \
             restart"
        );
        return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
    }
    for Property { key, value } in &changes {
        changed.set(key, value).map_err(|error| Refusal::failed(format!("nothing was changed: {error}")))?;
    }
    *state.config.borrow_mut() = changed;
    state.settings_file.add(changes);
    Ok(Reply::after(Save::Config))
}

fn guarded_key<'a>(black_list: &str, changes: &'a [Property]) -> Option<&'a str> {
    let is_guarded =
        |key: &str| NEVER_BY_REQUEST.contains(&key) || black_list.split(';').any(|name| name.trim() == key);
    changes.iter().map(|change| change.key.as_str()).find(|key| is_guarded(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_guarded_whatever_the_list_says() {
        let change = |key: &str| Property { key: key.to_owned(), value: "x".to_owned() };
        let own = "listenPort; clusterTest";
        for (list, key, guarded) in [
            ("", "rocketmqHome", true),
            ("", "kvConfigPath", true),
            ("", "configStorePath", true),
            ("", "configBlackList", true),
            ("", "listenPort", false),
            (own, "listenPort", true),
            (own, "clusterTest", true),
            (own, "kvConfigPath", true),
            (own, "enableTopicList", false),
        ] {
            let changes = [change("productEnvName"), change(key)];
            assert_eq!(guarded_key(list, &changes), guarded.then_some(key), "{list} {key}");
        }
    }
}
