//! Cores: pinned threads, each with an executor of its own, and what runs on them.
//!
//! Work on a core runs in one of two task queues: data (requests, the log) and background (retention, preparation,
//! persisting tables), which gets a tenth of the time while both have work. A panic on any core ends the process: a
//! half-dead server is worse than none.

use std::cell::Cell;
use std::future::Future;
use std::thread::JoinHandle;
use std::time::Duration;

use base::CoreId;
use glommio::{
    ExecutorJoinHandle, Latency, LocalExecutorBuilder, Placement, PoolPlacement, Shares, TaskQueueHandle, executor,
    spawn_local_into,
};

/// How long one task may run while others wait. Also bounds how late a wake from another core is seen.
const PREEMPT: Duration = Duration::from_millis(1);
/// A timer that is always armed: should the reactor ever park with work queued, this ends the wait.
const TICK: Duration = Duration::from_millis(5);
/// Registered memory an executor asks for. Its own buffers are hardly used here, and 8 MiB may be all that a user may
/// lock.
const IO_MEMORY_BYTES: usize = 64 << 10;
const SHARES_DATA: usize = 1000;
const SHARES_BACKGROUND: usize = 100;
/// Helper threads a core may use for calls that block.
const BLOCKING_THREADS: usize = 2;

/// Which task queue a task runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Data,
    Background,
}

thread_local! {
    static QUEUES: Cell<Option<(TaskQueueHandle, TaskQueueHandle)>> = const { Cell::new(None) };
}

/// The running cores.
pub struct Cores {
    threads: Vec<ExecutorJoinHandle<()>>,
}

impl Cores {
    /// Starts a core for each seed. Each is pinned to the CPU of its number where there are enough CPUs, and runs the
    /// future that `main` makes of its seed to its end.
    pub fn start<Seed, F, Made>(seeds: Vec<Seed>, name: &str, main: F) -> std::io::Result<Cores>
    where
        Seed: Send + 'static,
        F: Fn(CoreId, Seed) -> Made + Clone + Send + 'static,
        Made: Future<Output = ()> + 'static,
    {
        assert!(!seeds.is_empty(), "a process needs at least one core");
        let cpus = std::thread::available_parallelism()?.get();
        let enough = seeds.len() <= cpus;
        let mut threads = Vec::new();
        for (core, seed) in seeds.into_iter().enumerate() {
            let placement = if enough { Placement::Fixed(core) } else { Placement::Unbound };
            let main = main.clone();
            let thread = builder(placement, &format!("{name}-{core}"))
                .spawn(move || async move { run_main(main(CoreId(core as u16), seed)).await })
                .map_err(|error| std::io::Error::other(format!("core {core} does not start: {error}")))?;
            threads.push(thread);
        }
        Ok(Cores { threads })
    }

    /// Waits until all cores have ended.
    pub fn join(self) {
        for thread in self.threads {
            thread.join().expect("a core ends normally: a panic would have ended the process");
        }
    }
}

/// Runs one future on an executor of the calling thread: for command line tools and tests.
pub fn run_here<T: 'static>(future: impl Future<Output = T> + 'static) -> std::io::Result<T> {
    let executor = builder(Placement::Unbound, "main")
        .make()
        .map_err(|error| std::io::Error::other(format!("no executor: {error}")))?;
    Ok(executor.run(run_main(future)))
}

/// A plain thread, for work that is not a core's.
pub fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}

fn builder(placement: Placement, name: &str) -> LocalExecutorBuilder {
    LocalExecutorBuilder::new(placement)
        .name(name)
        .io_memory(IO_MEMORY_BYTES)
        .preempt_timer(PREEMPT)
        .blocking_thread_pool_placement(PoolPlacement::Unbound(BLOCKING_THREADS))
}

async fn run_main<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
    let data = executor().create_task_queue(Shares::Static(SHARES_DATA), Latency::Matters(PREEMPT), "data");
    let background =
        executor().create_task_queue(Shares::Static(SHARES_BACKGROUND), Latency::Matters(PREEMPT), "background");
    QUEUES.set(Some((data, background)));
    spawn_background(async {
        loop {
            crate::clock::sleep(TICK).await;
        }
    });
    spawn_local_into(main, data).expect("the queue was just made").await
}

/// Starts a task in the data queue of this core. It runs to its end by itself.
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    spawn_in(Share::Data, future);
}

/// Starts a task in the background queue of this core.
pub fn spawn_background(future: impl Future<Output = ()> + 'static) {
    spawn_in(Share::Background, future);
}

fn spawn_in(share: Share, future: impl Future<Output = ()> + 'static) {
    let (data, background) = QUEUES.get().expect("tasks are started on a core");
    let queue = match share {
        Share::Data => data,
        Share::Background => background,
    };
    spawn_local_into(future, queue).expect("both queues live as long as the core").detach();
}

/// Lets other tasks run if this one had its time.
pub async fn yield_if_needed() {
    executor().yield_if_needed().await;
}

/// Goes to the end of the queue once.
pub async fn yield_now() {
    futures_lite::future::yield_now().await;
}

/// Runs a call that blocks on a helper thread of this core, and waits for its result without blocking the core.
pub async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    executor().spawn_blocking(call).await
}
