//! Waiting for each other on one core. None of these may leave its core.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Wakes all who wait at the moment of `notify`; one who comes later waits for the next one.
#[derive(Debug, Default)]
pub struct Notify {
    round: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Notify {
    pub fn new() -> Notify {
        Notify::default()
    }

    pub fn notify(&self) {
        self.round.set(self.round.get() + 1);
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// Waits for the next `notify`.
    pub async fn notified(&self) {
        let seen = self.round.get();
        poll_fn(|context| {
            if self.round.get() != seen {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

struct Slot<T> {
    value: Option<T>,
    waker: Option<Waker>,
    sender_gone: bool,
}

/// The giving end of a value passed once.
pub struct OnceSender<T> {
    slot: Rc<RefCell<Slot<T>>>,
}

/// The waiting end of a value passed once.
pub struct OnceReceiver<T> {
    slot: Rc<RefCell<Slot<T>>>,
}

/// A value passed once from one task of this core to another.
pub fn once<T>() -> (OnceSender<T>, OnceReceiver<T>) {
    let slot = Rc::new(RefCell::new(Slot { value: None, waker: None, sender_gone: false }));
    (OnceSender { slot: slot.clone() }, OnceReceiver { slot })
}

impl<T> OnceSender<T> {
    pub fn send(self, value: T) {
        self.slot.borrow_mut().value = Some(value);
    }
}

impl<T> Drop for OnceSender<T> {
    fn drop(&mut self) {
        let mut slot = self.slot.borrow_mut();
        slot.sender_gone = true;
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}

impl<T> OnceReceiver<T> {
    /// The value, or `None` when the sender was dropped without giving one.
    pub async fn receive(self) -> Option<T> {
        poll_fn(|context| {
            let mut slot = self.slot.borrow_mut();
            if let Some(value) = slot.value.take() {
                return Poll::Ready(Some(value));
            }
            if slot.sender_gone {
                return Poll::Ready(None);
            }
            slot.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_arrives_once_and_a_dropped_sender_is_seen() {
        crate::run_here(async {
            let (sender, receiver) = once();
            crate::spawn(async move { sender.send(7) });
            assert_eq!(receiver.receive().await, Some(7));
            let (sender, receiver) = once::<u32>();
            drop(sender);
            assert_eq!(receiver.receive().await, None);
        })
        .expect("an executor");
    }
}
