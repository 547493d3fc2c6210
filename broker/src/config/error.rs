//! What can be wrong with a configuration, and where a value came from.

use std::fmt;

use thiserror::Error;

/// Where a value came from. Later variants win over earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// `line` counts from 1.
    File {
        path: String,
        line: usize,
    },
    Environment {
        variable: String,
    },
    Argument,
    /// A change while the broker runs.
    Update,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => out.write_str("default"),
            Origin::File { path, line } => write!(out, "{path}:{line}"),
            Origin::Environment { variable } => write!(out, "environment {variable}"),
            Origin::Argument => out.write_str("argument"),
            Origin::Update => out.write_str("update"),
        }
    }
}

/// One fault, with what is needed to mend it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{origin}: {fault}")]
pub struct ConfigError {
    pub origin: Origin,
    pub fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    #[error("unknown key {key}{}", did_you_mean(.hint.as_deref()))]
    UnknownKey { key: String, hint: Option<String> },
    #[error("{key}={value} is not allowed: {allowed}")]
    BadValue { key: String, value: String, allowed: String },
    /// Two values that do not go together, or a text that is no configuration at all.
    #[error("{what}")]
    Other { what: String },
}

pub(super) fn did_you_mean(hint: Option<&str>) -> String {
    hint.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// Everything that is wrong, so that one look mends it all. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            error.fmt(out)?;
        }
        Ok(())
    }
}
