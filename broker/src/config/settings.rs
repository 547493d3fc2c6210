//! The texts of all keys: what was given, by whom, and what holds.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::str::FromStr;

use super::error::{ConfigError, ConfigErrors, Fault, Origin};
use super::key::{DefaultText, Effect, Key, find_key};
use super::typed::Config;

/// What defaults follow from, found out by the caller.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub host_name: String,
    /// The address of this machine that others reach.
    pub local_address: IpAddr,
    /// The folder that `store` is put in when no folder is given.
    pub home: String,
    pub processors: u32,
}

/// A value that someone gave.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// In its usual form, see [`Kind::normal`](super::Kind::normal).
    pub(super) text: String,
    pub(super) origin: Origin,
    /// The name it was given under, which may be an older spelling.
    pub(super) spelled: String,
}

/// The values of all keys. Every text in it passed the check of its key.
#[derive(Clone, Debug)]
pub struct Settings {
    surroundings: Surroundings,
    given: BTreeMap<&'static str, Given>,
    /// Accepted while running, in force from the next start on.
    pending: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Nothing given.
    pub(super) fn new(surroundings: Surroundings) -> Settings {
        Settings { surroundings, given: BTreeMap::new(), pending: BTreeMap::new() }
    }

    pub(super) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// The value that is in force.
    ///
    /// # Panics
    /// When there is no such key.
    pub fn text(&self, name: &str) -> String {
        self.text_of(known(name))
    }

    pub(super) fn text_of(&self, key: &'static Key) -> String {
        if let Effect::Later { in_force: Some(text), .. } = key.effect {
            return text.to_owned();
        }
        self.given_text(key).map_or_else(|| self.default_text(key), str::to_owned)
    }

    fn given_text(&self, key: &'static Key) -> Option<&str> {
        self.given.get(key.name).map(|given| given.text.as_str())
    }

    pub(super) fn default_text(&self, key: &'static Key) -> String {
        match key.default {
            DefaultText::Fixed(text) => text.to_owned(),
            DefaultText::Derived { text, .. } => text(self),
        }
    }

    /// Where the value in force came from.
    ///
    /// # Panics
    /// When there is no such key.
    pub fn origin(&self, name: &str) -> Origin {
        self.given.get(known(name).name).map_or(Origin::Default, |given| given.origin.clone())
    }

    /// What was given, in the order of the keys' names.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static Key, &Given)> {
        self.given.iter().map(|(name, given)| (known(name), given))
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.value(name)
    }

    /// The value as a number (or a flag, or anything else that its text says).
    ///
    /// # Panics
    /// When the text is no `T`: the key's kind and the type asked for differ, which is our fault.
    pub(super) fn value<T>(&self, name: &str) -> T
    where
        T: FromStr,
        T::Err: Debug,
    {
        let text = self.text(name);
        text.parse().unwrap_or_else(|error| panic!("{name}={text} passed its check and is no value: {error:?}"))
    }

    /// Puts a value above those given before.
    pub(super) fn give(&mut self, key: &'static Key, given: Given) {
        self.pending.remove(key.name);
        self.given.insert(key.name, given);
    }

    /// Keeps a value for the next start.
    pub(super) fn give_later(&mut self, key: &'static Key, text: String) {
        self.pending.insert(key.name, text);
    }

    /// Says which port was opened where `listenPort` left the choice open, so that everyone is shown the real one.
    pub fn port_chosen(&mut self, port: u16) {
        let origin = self.origin("listenPort");
        self.give(known("listenPort"), Given { text: port.to_string(), origin, spelled: "listenPort".to_owned() });
    }

    /// The settings as they will be read at the next start.
    pub(super) fn after_restart(&self) -> Settings {
        let mut settings = self.clone();
        for (name, text) in std::mem::take(&mut settings.pending) {
            let given = Given { text, origin: Origin::Update, spelled: name.to_owned() };
            settings.given.insert(name, given);
        }
        settings
    }

    /// The typed values in force.
    ///
    /// # Errors
    /// Values that are right by themselves and do not go together.
    pub fn config(&self) -> Result<Config, ConfigErrors> {
        let errors = self.contradictions();
        if errors.is_empty() { Ok(Config::of(self)) } else { Err(ConfigErrors(errors)) }
    }

    fn contradictions(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let mut wrong = |name: &str, what: String| {
            errors.push(ConfigError { origin: self.origin(name), fault: Fault::Other { what } });
        };
        if self.text("brokerRole") == "SLAVE" {
            let what = "brokerRole=SLAVE needs replication, which comes in a later version; \
                        ASYNC_MASTER is what this version can be";
            wrong("brokerRole", what.to_owned());
        }
        let port: u16 = self.value("listenPort");
        if (1..=2).contains(&port) {
            let what =
                format!("listenPort={port} leaves no room for the port two below it; use 0 to choose, or 3 and above");
            wrong("listenPort", what);
        }
        let body_bytes: u64 = self.value("maxMessageSize");
        let record_bytes = super::keys_acting::record_bytes_max(body_bytes);
        let segment_bytes: u64 = self.value("mappedFileSizeCommitLog");
        if record_bytes > segment_bytes {
            let what = format!(
                "maxMessageSize={body_bytes} does not fit into a segment of mappedFileSizeCommitLog={segment_bytes}; \
                 the segment needs {} bytes more",
                record_bytes - segment_bytes
            );
            wrong("maxMessageSize", what);
        }
        let unwritten_bytes: u64 = self.value("unwrittenBytesMax");
        if record_bytes > unwritten_bytes {
            let what = format!(
                "unwrittenBytesMax={unwritten_bytes} has no room for one message of maxMessageSize={body_bytes}; \
                 it needs at least {record_bytes}"
            );
            wrong("unwrittenBytesMax", what);
        }
        errors
    }
}

fn known(name: &str) -> &'static Key {
    find_key(name).unwrap_or_else(|| panic!("{name} is no key"))
}
