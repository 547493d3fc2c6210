//! The cores on glommio 0.9.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, FromRawFd, IntoRawFd};
use std::time::Duration;

use glommio::io::BufferedFile;
use glommio::{
    Latency, LocalExecutorBuilder, Placement, PoolPlacement, Shares, TaskQueueHandle, executor, spawn_local_into,
};
use nix::sys::eventfd::EventFd;

use super::tick::take_ticks;
use crate::core::Share;

/// How long one task may run while others wait. Also bounds how late a wake from another core is seen.
const PREEMPT: Duration = Duration::from_millis(2);
/// Registered memory an executor asks for. Its own buffers are hardly used here, and 8 MiB may be all that a user may
/// lock.
const IO_MEMORY_BYTES: usize = 64 << 10;
const SHARES_DATA: usize = 1000;
const SHARES_BACKGROUND: usize = 100;
/// Helper threads a core may use for calls that block.
const BLOCKING_THREADS: usize = 2;

thread_local! {
    static QUEUES: Cell<Option<(TaskQueueHandle, TaskQueueHandle)>> = const { Cell::new(None) };
}

pub(super) fn run<T: 'static>(
    cpu: Option<usize>,
    name: &str,
    main: impl Future<Output = T> + 'static,
) -> io::Result<T> {
    let executor = LocalExecutorBuilder::new(cpu.map_or(Placement::Unbound, Placement::Fixed))
        .name(name)
        .io_memory(IO_MEMORY_BYTES)
        .preempt_timer(PREEMPT)
        .blocking_thread_pool_placement(PoolPlacement::Unbound(BLOCKING_THREADS))
        .make()
        .map_err(|error| io::Error::other(format!("no executor: {error}")))?;
    Ok(executor.run(run_main(main)))
}

async fn run_main<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
    let data = executor().create_task_queue(Shares::Static(SHARES_DATA), Latency::Matters(PREEMPT), "data");
    let background =
        executor().create_task_queue(Shares::Static(SHARES_BACKGROUND), Latency::Matters(PREEMPT), "background");
    QUEUES.set(Some((data, background)));
    // In a queue of its own, for which latency does not matter: so ticks cost an awake core nothing.
    let ticks = executor().create_task_queue(Shares::Static(1), Latency::NotImportant, "ticks");
    let ticking = spawn_local_into(take_ticks(), ticks).expect("the queue was just made");
    let outcome = spawn_local_into(main, data).expect("the queue was just made").await;
    ticking.cancel().await;
    outcome
}

pub(super) fn spawn(share: Share, future: impl Future<Output = ()> + 'static) {
    let (data, background) = QUEUES.get().expect("tasks are started on a core");
    let queue = match share {
        Share::Data => data,
        Share::Background => background,
    };
    spawn_local_into(future, queue).expect("both queues live as long as the core").detach();
}

pub(super) fn running() -> Share {
    let is_background = QUEUES.get().is_some_and(|(_, background)| executor().current_task_queue() == background);
    if is_background { Share::Background } else { Share::Data }
}

pub(super) async fn yield_if_needed() {
    executor().yield_if_needed().await;
}

pub(super) async fn sleep(span: Duration) {
    glommio::timer::sleep(span).await;
}

pub(super) async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    executor().spawn_blocking(call).await
}

/// An eventfd that a core on glommio waits for.
pub(crate) struct EventWait {
    file: BufferedFile,
}

impl EventWait {
    /// Waits on a duplicate of `event`.
    pub(crate) fn new(event: &EventFd) -> io::Result<EventWait> {
        let duplicate = event.as_fd().try_clone_to_owned()?;
        // SAFETY: the descriptor is open and its ownership passes to the file.
        Ok(EventWait { file: unsafe { BufferedFile::from_raw_fd(duplicate.into_raw_fd()) } })
    }

    /// Waits until the eventfd was written to, and resets it.
    pub(crate) async fn rung(&self) -> io::Result<()> {
        const COUNTER_BYTES: usize = 8;
        let read = self.file.read_at(0, COUNTER_BYTES).await?;
        assert!(read.len() == COUNTER_BYTES, "an eventfd read gives its counter");
        Ok(())
    }
}
