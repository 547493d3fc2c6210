//! One at a time, for work that suspends: whoever holds the turn runs, the others wait, in the order in which they came.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

#[derive(Debug, Default)]
pub(crate) struct Turn {
    taken: Cell<bool>,
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
}

#[derive(Debug, Default)]
struct Waiter {
    given: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// The turn. Dropping it gives it to the next.
pub struct TurnHeld<'a> {
    turn: &'a Turn,
}

/// A place in the line. Dropping it leaves the line.
struct Place<'a> {
    turn: &'a Turn,
    waiter: Option<Rc<Waiter>>,
}

impl Turn {
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.get()
    }

    pub(crate) async fn take(&self) -> TurnHeld<'_> {
        if self.taken.replace(true) {
            let waiter = Rc::new(Waiter::default());
            self.waiting.borrow_mut().push_back(waiter.clone());
            let mut place = Place { turn: self, waiter: Some(waiter.clone()) };
            poll_fn(|context| {
                if waiter.given.get() {
                    return Poll::Ready(());
                }
                waiter.waker.replace(Some(context.waker().clone()));
                Poll::Pending
            })
            .await;
            place.waiter = None;
        }
        TurnHeld { turn: self }
    }

    fn pass(&self) {
        let Some(next) = self.waiting.borrow_mut().pop_front() else {
            self.taken.set(false);
            return;
        };
        next.given.set(true);
        if let Some(waker) = next.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for TurnHeld<'_> {
    fn drop(&mut self) {
        self.turn.pass();
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        if waiter.given.get() {
            self.turn.pass();
        } else {
            self.turn.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, &waiter));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also past those that give up, before and after it was theirs.
    #[test]
    fn turns_come_in_the_order_of_their_asking() {
        runtime::run_here(async {
            let turn = Rc::new(Turn::default());
            let had = Rc::new(RefCell::new(Vec::new()));
            let first = turn.take().await;
            for number in 0..6 {
                let (turn, had) = (turn.clone(), had.clone());
                runtime::spawn(async move {
                    let mut asked = Box::pin(turn.take());
                    let gives_up = number % 3 == 1;
                    if gives_up {
                        // It is in the line, and leaves it.
                        assert!(futures_lite::future::poll_once(&mut asked).await.is_none());
                        return;
                    }
                    let _held = asked.await;
                    assert!(turn.is_taken());
                    had.borrow_mut().push(number);
                    runtime::yield_now().await;
                });
            }
            runtime::yield_now().await;
            drop(first);
            // Who comes now goes behind those who wait.
            let last = turn.take().await;
            assert_eq!(*had.borrow(), [0, 2, 3, 5]);
            {
                let mut given = Box::pin(turn.take());
                assert!(futures_lite::future::poll_once(&mut given).await.is_none());
                drop(last);
            }
            assert!(!turn.is_taken(), "what was given and not taken is free again");
        })
        .expect("an executor");
    }
}
