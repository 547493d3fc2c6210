//! The black-box tests' harness: starts `ringmq` processes, speaks the remoting protocol to them, reads what they stored.
//!
//! It shares no protocol code with the product (only the seeded random numbers of `base`), so a fault that broker and
//! client have in common is still seen. Everything here blocks; a test's thread is its own.
//!
//! Environment:
//! - `RINGMQ_BIN`: the program to test. Without it the program of the same profile is built and used.
//! - `RINGMQ_TEST_TARGET=namesrv_address,broker_address`: use these running servers instead of starting one. Tests
//!   that must own the process say that they were left out.

pub mod bench;
pub mod benchmarks;
pub mod compat;
pub mod connection;
pub mod folder;
pub mod frame;
pub mod kill9;
pub mod limits;
pub mod mounted;
pub mod official;
pub mod picture;
pub mod pop;
pub mod ports;
pub mod process;
pub mod producer;
pub mod program;
pub mod record;
pub mod relay;
pub mod request;
pub mod target;
pub mod transaction;

use std::time::{SystemTime, UNIX_EPOCH};

/// Says loudly that a test did not check anything, and why.
pub fn left_out(test: &str, reason: &str) {
    eprintln!("LEFT OUT {test}: {reason}");
}

/// A name that no other test and no earlier run has used: the servers under test may be shared and long-lived.
pub fn unique_name(stem: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{stem}-{}-{}-{count}", std::process::id(), now_ms())
}

/// Milliseconds since 1970, the unit of the protocol's times.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    u64::try_from(since.as_millis()).expect("milliseconds fit 64 bits until far in the future")
}

/// Bytes that differ from place to place, so that a shifted or cut copy is seen.
pub fn patterned_body(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| u8::try_from((index * 31 + index / 251) % 251).expect("below 251")).collect()
}
