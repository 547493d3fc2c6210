//! The vocabulary of numbers that all crates share. No I/O, no dependency of ours.
//!
//! A **log** is persistent (a folder in the store); a **core** is a running thread. The two words are never mixed:
//! log `l` is opened by core `l % cores`.

mod hash;
mod number;
mod random;

pub use hash::{StableHash, java_string_hash, stable_hash};
pub use number::{CoreId, LogId, LogOffset, Millis, PhysicalOffset, QueueId, QueueOffset};
pub use random::Random;
