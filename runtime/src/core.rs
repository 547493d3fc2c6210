//! Cores: pinned threads, each with an executor of its own, and what runs on them.
//!
//! Work on a core runs in one of two task queues: data (messages, the log) and background (who comes and goes, what
//! tools ask, retention, persisting tables), which gets a small part of each turn. A panic on any core ends the process:
//! a half-dead server is worse than none.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::CoreId;

use crate::reactor::{self, Reactor};
use crate::scheduling;

/// Which task queue a task runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Data,
    Background,
}

/// The share of the tasks of one thing, which may change while they run: each goes where it says when it is woken.
#[derive(Clone, Debug)]
pub struct Standing {
    is_data: Arc<AtomicBool>,
}

impl Standing {
    pub fn new(share: Share) -> Standing {
        Standing { is_data: Arc::new(AtomicBool::new(share == Share::Data)) }
    }

    pub fn get(&self) -> Share {
        if self.is_data.load(Ordering::Relaxed) { Share::Data } else { Share::Background }
    }

    pub fn set(&self, share: Share) {
        self.is_data.store(share == Share::Data, Ordering::Relaxed);
    }
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

/// Starts a task in one of the queues of this core.
pub fn spawn_in(share: Share, future: impl Future<Output = ()> + 'static) {
    reactor::spawn(share, future);
}

/// Starts a task that goes where its standing says each time it is woken. On glommio that is always the data queue.
pub fn spawn_with(standing: &Standing, future: impl Future<Output = ()> + 'static) {
    reactor::spawn_with(standing.clone(), future);
}

/// The share of the task that runs.
pub fn share() -> Share {
    reactor::running()
}

/// Lets other tasks run if this one had its time.
pub async fn yield_if_needed() {
    reactor::yield_if_needed().await;
}

/// Lets this core run what is ready, and take in what has arrived, until it would sleep, but not for longer than `span`, nor
/// once `is_enough`.
pub async fn settle(span: Duration, is_enough: impl Fn() -> bool) {
    if !reactor::has_work() {
        return;
    }
    let began = Instant::now();
    while !is_enough() && reactor::has_work() && began.elapsed() < span {
        yield_now().await;
    }
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
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use super::*;

    /// Long background tasks are ready, many of them; a task of data that becomes ready then waits for one or two.
    #[test]
    fn data_does_not_wait_for_all_that_is_in_the_background() {
        const TASKS: u32 = 100;
        run_here(async {
            let ended = Rc::new(Cell::new(0));
            for _ in 0..TASKS {
                let ended = ended.clone();
                spawn_background(async move {
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_micros(300) {
                        std::hint::spin_loop();
                    }
                    ended.set(ended.get() + 1);
                });
            }
            for round in 1..10 {
                crate::clock::sleep(Duration::from_micros(1)).await;
                if Reactor::chosen() == Reactor::Ring {
                    assert!(ended.get() <= round, "{} background tasks ran in {round} turns", ended.get());
                }
            }
            while ended.get() < TASKS {
                yield_now().await;
            }
        })
        .expect("an executor");
    }

    #[test]
    fn a_task_goes_where_its_standing_says() {
        run_here(async {
            let (standing, seen) = (Standing::new(Share::Background), Rc::new(RefCell::new(Vec::new())));
            let (changing, noting) = (standing.clone(), seen.clone());
            spawn_with(&standing, async move {
                for share in [Share::Background, Share::Data, Share::Background] {
                    changing.set(share);
                    yield_now().await;
                    noting.borrow_mut().push(super::share());
                }
            });
            while seen.borrow().len() < 3 {
                yield_now().await;
            }
            let expected = match Reactor::chosen() {
                Reactor::Ring => [Share::Background, Share::Data, Share::Background],
                Reactor::Glommio => [Share::Data; 3],
            };
            assert_eq!(*seen.borrow(), expected);
            let (sender, receiver) = crate::sync::once();
            spawn_background(async move { sender.send(share()) });
            assert_eq!((share(), receiver.receive().await), (Share::Data, Some(Share::Background)));
        })
        .expect("an executor");
    }

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
