//! Cores: pinned threads, each with an executor of its own, and what runs on them.
//!
//! Work on a core runs in one of two task queues: data (requests, the log) and background (retention, preparation,
//! persisting tables), which gets a tenth of the time while both have work. A panic on any core ends the process: a
//! half-dead server is worse than none.

use std::future::Future;
use std::thread::JoinHandle;

use base::CoreId;

use crate::reactor::{self, Reactor};
use crate::scheduling;

/// Which task queue a task runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Data,
    Background,
}

/// The running cores.
pub struct Cores {
    threads: Vec<JoinHandle<()>>,
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
        let reactor = Reactor::chosen();
        for (core, seed) in seeds.into_iter().enumerate() {
            let main = main.clone();
            let name = format!("{name}-{core}");
            let cpu = enough.then_some(core);
            let run = move |name: &str| {
                let made = async move {
                    if let Some(cpu) = cpu {
                        spawn_background(scheduling::leave_when_busy(cpu));
                    }
                    main(CoreId(core as u16), seed).await;
                };
                if let Err(error) = reactor::run(reactor, cpu, name, made) {
                    panic!("core {core} does not run: {error}");
                }
            };
            threads.push(thread(&name.clone(), move || run(&name))?);
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

/// Runs one future on a reactor of the calling thread: for command line tools and tests.
pub fn run_here<T: 'static>(future: impl Future<Output = T> + 'static) -> std::io::Result<T> {
    reactor::run(Reactor::chosen(), None, "main", future)
}

/// A plain thread, for work that is not a core's.
pub fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
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
    reactor::spawn(share, future);
}

/// Lets other tasks run if this one had its time.
pub async fn yield_if_needed() {
    reactor::yield_if_needed().await;
}

/// Goes to the end of the queue once.
pub async fn yield_now() {
    futures_lite::future::yield_now().await;
}

/// Runs a call that blocks on a helper thread of this core, and waits for its result without blocking the core.
pub async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    reactor::blocking(call).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    #[should_panic(expected = "the words of a task")]
    fn a_task_that_panics_is_heard_though_others_sleep() {
        let _ = reactor::run(Reactor::Ring, None, "main", async {
            spawn(crate::clock::sleep(Duration::from_secs(1000)));
            crate::clock::sleep(Duration::from_millis(1)).await;
            panic!("the words of a task");
        });
    }
}
