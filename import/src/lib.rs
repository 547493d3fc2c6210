//! Takes the store of an Apache RocketMQ 5 broker over: makes a store of RingMQ with the same messages under the same
//! offsets, and the same topics, groups and progress.
//!
//! [`run`] is all that a program needs: it reads the one store, which is never written, record by record, and makes the
//! other. Everything blocks. See `docs/design/011-store-import.md`.

mod commit_log;
mod consume_queue;
mod delays;
mod delivered;
mod error;
mod halves;
mod popped;
mod report;
mod run;
mod source;
mod tables;
mod target;
mod timers;
mod transfer;

pub use commit_log::{CommitLog, Found, Scanner};
pub use error::ImportError;
pub use report::{Difference, LeftOut, Lost, Report};
pub use run::{Options, Progress, run};

#[cfg(test)]
mod tests;
