//! Settings: typed, with the names that RocketMQ's tools and files use.

mod edit;
mod properties;
mod settings;
mod suggest;

pub use settings::{Config, SETTINGS, Setting};

pub(crate) use edit::{Syntax, edited};
pub(crate) use properties::{Property, parse as parse_properties};

use thiserror::Error;

/// A value that a setting cannot take.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    #[error("there is no nameserver setting {key}{}; remove it", nearest.map(|name| format!(", did you mean {name}?")).unwrap_or_default())]
    Unknown { key: String, nearest: Option<&'static str> },
    #[error("the setting {key} must be {kind}, but is \"{value}\"")]
    Value { key: &'static str, kind: &'static str, value: String },
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    #[error("line {line}: {what}")]
    Properties { line: usize, what: &'static str },
    #[error("the file is no TOML: {what}")]
    Toml { what: String },
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// What a reader of the configuration should know, although it can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Other servers of RocketMQ share their files with the nameserver, so such a key is no error there.
    Unknown {
        key: String,
        nearest: Option<&'static str>,
    },
    NoEffect {
        key: &'static str,
        reason: &'static str,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::Unknown { key, nearest: Some(name) } => {
                write!(out, "unknown nameserver setting {key}, did you mean {name}?")
            }
            Warning::Unknown { key, nearest: None } => write!(out, "unknown nameserver setting {key}"),
            Warning::NoEffect { key, reason } => write!(out, "{key} is accepted without effect: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests;
