//! The broker: requests to owners, owners to logs, answers back.
//!
//! [`run`] is all that a program needs; [`Filter`] is there to be measured. One [`core::Core`] a thread holds the state; `dispatch` sends each request to
//! its owner; `processor` has one file a family of requests.

mod banner;
mod call;
pub mod config;
mod core;
mod delay;
mod dispatch;
mod filter;
mod group;
mod handles;
mod journal;
mod light;
mod live_config;
mod log;
mod parcel;
mod placement;
mod pop;
mod processor;
mod registration;
mod retention;
mod stages;
mod start;
mod stats;
mod table_path;
pub mod takeover;
mod topic;
mod transaction;
mod trouble;
mod wait;

pub use filter::{Filter, FilterError};
pub use start::{BrokerError, Launch, run};
