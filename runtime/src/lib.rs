//! The thin floor under everything that runs: cores, files, sockets, memory and time.
//!
//! This is the only crate that names glommio, io-uring, libc or nix, and the only one with `unsafe`. All above it sees
//! safe values, so that the reactor below can be replaced by a change of this crate alone.

pub mod allocations;
pub mod ballast;
pub mod buffer;
pub mod clock;
pub mod console;
pub mod core;
pub mod file;
pub mod flush;
pub mod heap;
pub mod mapped;
pub mod mesh;
pub mod net;
pub mod priority;
pub mod process;
mod reactor;
pub mod ready_set;
pub mod ring;
mod scheduling;
pub mod sync;
pub mod table_file;
pub mod turns;
mod wake;

pub use self::core::{
    Cores, Share, Standing, blocking, run_here, settle, share, spawn, spawn_background, spawn_in, spawn_with,
    yield_if_needed, yield_now,
};
pub use self::reactor::{REACTOR_VARIABLE, Reactor};
