//! Waking a task of a core from outside of it.
//!
//! Whoever has something for the task publishes it first and rings then. The task says when it is about to wait and looks
//! once more after saying so, so nothing published is missed; and while it does not wait nobody wakes it. Its core is
//! interrupted only if it sleeps: one that is awake looks at its woken tasks each turn.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Poll;

use atomic_waker::AtomicWaker;

/// The bell of one task; shared by all who may ring it.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    waits: AtomicBool,
    waker: AtomicWaker,
}

impl Bell {
    pub(crate) fn new() -> Arc<Bell> {
        Arc::default()
    }

    /// Wakes the task if it waits. Call after publishing.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.waits.load(Ordering::Relaxed) && self.waits.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Waits until the bell rings, unless `idle` says that something was published meanwhile. One task waits at a time.
    pub(crate) async fn rung(&self, idle: impl FnOnce() -> bool) {
        let mut idle = Some(idle);
        poll_fn(|context| {
            self.waker.register(context.waker());
            if let Some(idle) = idle.take() {
                self.waits.store(true, Ordering::SeqCst);
                fence(Ordering::SeqCst);
                if !idle() {
                    self.waits.store(false, Ordering::SeqCst);
                }
            }
            if self.waits.load(Ordering::SeqCst) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
}
