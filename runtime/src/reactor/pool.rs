//! Helper threads for calls that block, shared by all cores of the process.

use std::future::poll_fn;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::Poll;

use atomic_waker::AtomicWaker;
use crossbeam_queue::ArrayQueue;

use crate::scheduling;

/// Calls that block at once. More wait their turn.
const THREADS: usize = 8;

type Call = Box<dyn FnOnce() + Send>;

static CALLS: LazyLock<Sender<Call>> = LazyLock::new(|| {
    let (sender, receiver) = channel::<Call>();
    let receiver = Arc::new(Mutex::new(receiver));
    for number in 0..THREADS {
        let receiver = receiver.clone();
        std::thread::Builder::new()
            .name(format!("helper-{number}"))
            .spawn(move || work(&receiver))
            .expect("a few more threads can be started");
    }
    sender
});

fn work(calls: &Mutex<Receiver<Call>>) {
    scheduling::as_helper();
    loop {
        let call = calls.lock().expect("nobody panics while waiting for a call").recv();
        let Ok(call) = call else { return };
        call();
    }
}

/// Where a helper puts its result. No lock: a core would wait for a helper that lost its CPU while holding it.
struct Slot<T> {
    result: ArrayQueue<T>,
    waker: AtomicWaker,
}

/// Runs a call on a helper thread and waits for its result.
pub(super) async fn run<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let slot = Arc::new(Slot { result: ArrayQueue::new(1), waker: AtomicWaker::new() });
    let filling = slot.clone();
    let work = move || {
        let filled = filling.result.push(call());
        assert!(filled.is_ok(), "a slot takes one result");
        filling.waker.wake();
    };
    CALLS.send(Box::new(work)).expect("the helpers live as long as the process");
    poll_fn(|context| {
        slot.waker.register(context.waker());
        slot.result.pop().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
