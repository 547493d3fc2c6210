//! Threads for calls that block, shared by all cores of the process.

use std::future::poll_fn;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::Poll;

use atomic_waker::AtomicWaker;
use crossbeam_queue::ArrayQueue;

use crate::scheduling;

/// Calls of a kind at once. More wait their turn.
const THREADS: usize = 8;

type Call = Box<dyn FnOnce() + Send>;

/// For what can wait: cores go first.
static HELPERS: LazyLock<Sender<Call>> = LazyLock::new(|| start("helper", scheduling::as_helper));
/// For what answers wait for: equal to the core that starts them, on any CPU.
static WRITERS: LazyLock<Sender<Call>> = LazyLock::new(|| {
    start("writer", || {
        // Where it is refused they stay on the CPU of that core.
        let _ = scheduling::leave();
    })
});

fn start(name: &str, begin: fn()) -> Sender<Call> {
    let (sender, receiver) = channel::<Call>();
    let receiver = Arc::new(Mutex::new(receiver));
    for number in 0..THREADS {
        let receiver = receiver.clone();
        let work = move || {
            begin();
            work(&receiver);
        };
        let thread = std::thread::Builder::new().name(format!("{name}-{number}")).spawn(work);
        thread.expect("a few more threads can be started");
    }
    sender
}

fn work(calls: &Mutex<Receiver<Call>>) {
    loop {
        let call = calls.lock().expect("nobody panics while waiting for a call").recv();
        let Ok(call) = call else { return };
        call();
    }
}

/// Where a thread puts its result. No lock: a core would wait for a thread that lost its CPU while holding it.
struct Slot<T> {
    result: ArrayQueue<T>,
    waker: AtomicWaker,
}

/// Runs a call on a helper thread and waits for its result.
pub(super) async fn help<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    run(&HELPERS, call).await
}

/// As [`help`], on a thread that no core goes before.
pub(super) async fn write<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    run(&WRITERS, call).await
}

async fn run<T: Send + 'static>(threads: &Sender<Call>, call: impl FnOnce() -> T + Send + 'static) -> T {
    let slot = Arc::new(Slot { result: ArrayQueue::new(1), waker: AtomicWaker::new() });
    let filling = slot.clone();
    let work = move || {
        let filled = filling.result.push(call());
        assert!(filled.is_ok(), "a slot takes one result");
        filling.waker.wake();
    };
    threads.send(Box::new(work)).expect("the threads live as long as the process");
    poll_fn(|context| {
        slot.waker.register(context.waker());
        slot.result.pop().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
