//! What turns a core: tasks, timers, and waiting for descriptors.
//!
//! There are two. `ring` is our own, one io_uring a core; it is the default. `glommio` runs the same crates on glommio,
//! for comparison. All above this module sees the functions here only.

pub(crate) mod glommio;
mod pool;
mod ring;
mod tick;

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use io_uring::squeue;

use crate::core::{Share, Standing};
pub(crate) use ring::Outcome;

/// Which reactor the cores of a process run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reactor {
    /// One io_uring a core, made for this program.
    #[default]
    Ring,
    /// glommio's executor.
    Glommio,
}

/// The variable that names the reactor: `ring` or `glommio`.
pub const REACTOR_VARIABLE: &str = "RINGMQ_REACTOR";

static CHOSEN: OnceLock<Reactor> = OnceLock::new();

impl Reactor {
    /// Makes it that of all cores of this process. Must come before the first of them.
    ///
    /// # Panics
    /// When one was chosen, by a call or by a core that could not wait for it.
    pub fn choose(self) {
        CHOSEN.set(self).expect("the reactor is chosen once, before the first core");
    }

    /// The one that was chosen; else as the environment says, for tests; else the default.
    pub(crate) fn chosen() -> Reactor {
        *CHOSEN.get_or_init(|| match std::env::var(REACTOR_VARIABLE).as_deref() {
            Ok("glommio") => Reactor::Glommio,
            _ => Reactor::Ring,
        })
    }
}

thread_local! {
    static TURNING: Cell<Option<Reactor>> = const { Cell::new(None) };
}

fn turning() -> Reactor {
    TURNING.get().expect("this is called on a core")
}

/// Runs a future on a reactor of the calling thread, which is pinned to a CPU if one is named.
pub(crate) fn run<T: 'static>(
    reactor: Reactor,
    cpu: Option<usize>,
    name: &str,
    main: impl Future<Output = T> + 'static,
) -> io::Result<T> {
    assert!(TURNING.get().is_none(), "a thread is one core at most");
    TURNING.set(Some(reactor));
    let outcome = match reactor {
        Reactor::Ring => ring::run(cpu, main),
        Reactor::Glommio => glommio::run(cpu, name, main),
    };
    TURNING.set(None);
    outcome
}

pub(crate) fn spawn(share: Share, future: impl Future<Output = ()> + 'static) {
    match turning() {
        Reactor::Ring => ring::spawn(share, future),
        Reactor::Glommio => glommio::spawn(share, future),
    }
}

/// Starts a task whose share is what `standing` says each time it is woken; on glommio, where a task cannot change its
/// queue, that of data.
pub(crate) fn spawn_with(standing: Standing, future: impl Future<Output = ()> + 'static) {
    match turning() {
        Reactor::Ring => ring::spawn_by(move || standing.get(), future),
        Reactor::Glommio => glommio::spawn(Share::Data, future),
    }
}

/// The share of the task that runs.
pub(crate) fn running() -> Share {
    match turning() {
        Reactor::Ring => ring::running(),
        Reactor::Glommio => glommio::running(),
    }
}

/// Whether the core has more to do before it would sleep. On glommio nobody can tell.
pub(crate) fn has_work() -> bool {
    turning() == Reactor::Ring && ring::has_work()
}

pub(crate) async fn yield_if_needed() {
    match turning() {
        Reactor::Ring => ring::yield_if_needed().await,
        Reactor::Glommio => glommio::yield_if_needed().await,
    }
}

pub(crate) async fn sleep(span: Duration) {
    match turning() {
        Reactor::Ring => ring::sleep(span).await,
        Reactor::Glommio => glommio::sleep(span).await,
    }
}

pub(crate) async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    match turning() {
        Reactor::Ring => pool::help(call).await,
        Reactor::Glommio => glommio::blocking(call).await,
    }
}

/// As [`blocking`], on a thread that no core goes before.
pub(crate) async fn blocking_write<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    pool::write(call).await
}

/// Which readiness of a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Readable,
    Writable,
}

/// Waits until a descriptor is ready, or broken. Only on our own reactor.
pub(crate) async fn ready(descriptor: RawFd, readiness: Readiness) -> io::Result<()> {
    ring::ready(descriptor, readiness).await
}

/// Gives a chain of operations to the kernel and waits for all of them; what they refer to is kept until then, also if
/// the waiting is given up. `None` where the reactor cannot: the caller needs a ring of its own.
pub(crate) fn submit(entries: &[squeue::Entry], keep: Box<dyn std::any::Any>) -> Option<ring::Chain> {
    (turning() == Reactor::Ring).then(|| ring::submit(entries, keep))
}

/// When the turn of this core began, without a reading of the clock. Only on our own reactor.
pub(crate) fn turn_began() -> Option<Instant> {
    ring::turn_began()
}

pub(crate) fn is_ring() -> bool {
    turning() == Reactor::Ring
}
