//! Changes while the broker runs (UPDATE_BROKER_CONFIG, code 25).
//!
//! A key acts at once only if its row says so. Keys that name a path, an address, a class or a command are refused, since
//! an admin call must not be a way to write files or start programs.

use thiserror::Error;

use super::error::{ConfigErrors, Origin};
use super::key::{Change, Effect, Key, find_key};
use super::load::checked;
use super::properties;
use super::settings::{Given, Settings};
use super::typed::Config;

/// Ends of names that are refused even if no such key is known here: they are paths elsewhere in RocketMQ.
const PATH_ENDINGS: [&str; 3] = ["path", "home", "dir"];
const PATH_BEGINNING: &str = "storepath";

/// What an accepted change did.
#[derive(Clone, Debug)]
pub struct Update {
    /// The values in force from now on. Keys that need a restart have their old values in it.
    pub config: Config,
    /// Names and texts that differ from before, to be written to the file.
    pub changed: Vec<(String, String)>,
    /// Those names among them that act from the next start on.
    pub needs_restart: Vec<String>,
    /// Names that are no keys, or that would turn on what this version lacks. RocketMQ accepts unknown names silently,
    /// and its tools expect that.
    pub ignored: Vec<String>,
}

/// Why nothing was changed. The text is the remark for the client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UpdateRefused {
    /// Answered with NO_PERMISSION (16).
    #[error(
        "Can not update config in black list: {key}. Keys that name a path, an address or a command, and those of \
         configBlackList, are set in the file only."
    )]
    Forbidden { key: String },
    /// Answered with SYSTEM_ERROR (1).
    #[error("{what}")]
    Invalid { what: String },
}

/// Applies a text of `key=value` lines as a whole or not at all.
///
/// # Errors
/// The first key that may not be changed, or what is wrong with the values.
pub fn apply_update(settings: &mut Settings, text: &str) -> Result<Update, UpdateRefused> {
    let invalid = |what: String| UpdateRefused::Invalid { what };
    let entries = properties::parse(text)
        .map_err(|error| invalid(format!("line {} of the update: {}", error.line, error.what)))?;
    if let Some(entry) = entries.iter().find(|entry| is_forbidden(settings, &entry.key)) {
        return Err(UpdateRefused::Forbidden { key: entry.key.clone() });
    }
    let mut candidate = settings.clone();
    let mut update_keys: Vec<&'static Key> = Vec::new();
    let mut ignored = Vec::new();
    for entry in entries {
        let Some(key) = find_key(&entry.key) else {
            ignored.push(entry.key);
            continue;
        };
        let text = checked(key, &entry.key, &entry.value).map_err(|fault| invalid(fault.to_string()))?;
        if !update_keys.iter().any(|known| known.name == key.name) {
            update_keys.push(key);
        }
        match (key.effect, key.change) {
            (_, Change::Refused) => unreachable!("{} was looked for before", key.name),
            (Effect::Later { in_force: Some(in_force), .. }, _) => {
                if text != in_force {
                    ignored.push(entry.key);
                }
            }
            (Effect::Acts, Change::Restart) => candidate.give_later(key, text),
            _ => candidate.give(key, Given { text, origin: Origin::Update, spelled: entry.key }),
        }
    }
    let told = |errors: ConfigErrors| {
        invalid(errors.0.iter().map(|error| error.fault.to_string()).collect::<Vec<_>>().join("; "))
    };
    let (before, after) = (settings.after_restart(), candidate.after_restart());
    after.config().map_err(told)?;
    let config = candidate.config().map_err(told)?;
    update_keys.retain(|key| after.text_of(key) != before.text_of(key));
    let changed = update_keys.iter().map(|key| (key.name.to_owned(), after.text_of(key))).collect();
    let waits = |key: &&&Key| key.effect == Effect::Acts && key.change == Change::Restart;
    let needs_restart = update_keys.iter().filter(waits).map(|key| key.name.to_owned()).collect();
    *settings = candidate;
    Ok(Update { config, changed, needs_restart, ignored })
}

fn is_forbidden(settings: &Settings, name: &str) -> bool {
    let key = find_key(name);
    let listed = settings.text("configBlackList");
    let in_list =
        listed.split(';').map(str::trim).any(|entry| entry == name || key.is_some_and(|key| key.is_called(entry)));
    in_list
        || match key {
            Some(key) => key.change == Change::Refused,
            None => {
                let lower = name.to_ascii_lowercase();
                lower.starts_with(PATH_BEGINNING) || PATH_ENDINGS.iter().any(|ending| lower.ends_with(ending))
            }
        }
}
