//! The broker's configuration: texts in, checked values out.
//!
//! Nothing here reads a file or the environment. The caller hands over texts; [`Loader`] puts them above the defaults in the
//! order file, environment, arguments, and each value remembers where it came from. [`Settings`] holds the texts, as the
//! admin calls show and change them; [`Config`] holds the same as typed values, for the rest of the broker.
//!
//! Keys have RocketMQ's names. A key is a row of a table ([`Key`]) which says what the value may be and what it does here:
//! it acts, it has no effect for a reason, or its feature comes in a later version.

mod error;
mod hint;
mod key;
mod keys_acting;
mod keys_engine;
mod keys_later;
mod keys_other;
mod kind;
mod load;
mod properties;
mod rewrite;
mod settings;
mod show;
#[cfg(test)]
mod tests;
mod toml_text;
mod typed;
mod update;

pub use error::{ConfigError, ConfigErrors, Fault, Origin};
pub use key::{Change, DefaultText, Effect, Key, all_keys, find_key};
pub use kind::{DELAY_SECONDS_MAX, Kind};
pub use load::{FileFormat, Loaded, Loader};
pub use rewrite::rewrite_file;
pub use settings::{Settings, Surroundings};
pub use typed::{
    BrokerRole, Config, Consumers, Delays, FlushDiskType, HostPort, Identity, Machine, Messages, Network, Permission,
    Pop, Registration, Retention, Stages, Store, Topics, Transactions,
};
pub use update::{Update, UpdateRefused, apply_update};
