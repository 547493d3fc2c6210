//! The nameserver: brokers tell it which topics they hold, clients ask it where to go.
//!
//! All of it runs on one core and waits for nothing but its two small files, so no table has a lock. What brokers
//! registered is soft state that comes back with their next registration; only the key-value table and changed
//! settings are kept on disk.
//!
//! `dispatch` knows the request codes, `processor` answers them, `route` is the pure table behind them.

mod config;
mod dispatch;
mod kv;
mod notify;
mod processor;
mod refusal;
mod registration;
mod route;
mod server;
mod settings_file;
mod turn;

pub use config::{Config, ConfigError, SETTINGS, Setting, SettingError, Warning};
pub use server::{Nameserver, StartError};
