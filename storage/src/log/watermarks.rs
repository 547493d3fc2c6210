//! How far a log is appended, safe, written and durable, and who waits for what.
//!
//! appended ≥ safe ≥ written ≥ durable, and none goes back. Waiters are kept in the order of the ends they wait for, so one
//! step forward wakes all of them that it reaches and looks at no other.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use crate::error::StorageError;

/// What a ticket can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The record survives the end of the process: it is in the tail file, or the device has taken it.
    Safe,
    /// The record survives a loss of power.
    Durable,
}

enum Waiting {
    Task(Waker),
    /// What is done when a mark is reached, or when it never will be.
    Call(Box<dyn FnOnce(Result<(), StorageError>)>),
}

struct Waiter {
    end: u64,
    waiting: Waiting,
}

#[derive(Default)]
pub(crate) struct Watermarks {
    appended: Cell<u64>,
    safe: Cell<u64>,
    written: Cell<u64>,
    durable: Cell<u64>,
    waiting_safe: RefCell<VecDeque<Waiter>>,
    waiting_durable: RefCell<VecDeque<Waiter>>,
    failure: RefCell<Option<StorageError>>,
}

impl Watermarks {
    /// All marks at the end of a recovered log.
    pub(crate) fn at(end: u64) -> Watermarks {
        let marks = Watermarks::default();
        marks.appended.set(end);
        marks.safe.set(end);
        marks.written.set(end);
        marks.durable.set(end);
        marks
    }

    pub(crate) fn appended(&self) -> u64 {
        self.appended.get()
    }

    pub(crate) fn safe(&self) -> u64 {
        self.safe.get()
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.get()
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.get()
    }

    pub(crate) fn advance_appended(&self, to: u64) {
        assert!(to >= self.appended.get(), "appended goes back from {} to {to}", self.appended.get());
        self.appended.set(to);
    }

    /// Moves the mark. Waiters sleep on until [`Watermarks::wake`]: first the records must be visible.
    pub(crate) fn advance_safe(&self, to: u64) {
        assert!(to >= self.safe.get(), "safe goes back from {} to {to}", self.safe.get());
        assert!(to <= self.appended.get(), "safe {to} is past appended {}", self.appended.get());
        self.safe.set(to);
    }

    /// As [`Watermarks::advance_safe`], which it may do too.
    pub(crate) fn advance_written(&self, to: u64) {
        assert!(to >= self.written.get(), "written goes back from {} to {to}", self.written.get());
        assert!(to <= self.appended.get(), "written {to} is past appended {}", self.appended.get());
        self.written.set(to);
        self.safe.set(to.max(self.safe.get()));
    }

    /// As [`Watermarks::advance_written`].
    pub(crate) fn advance_durable(&self, to: u64) {
        assert!(to >= self.durable.get(), "durable goes back from {} to {to}", self.durable.get());
        assert!(to <= self.written.get(), "durable {to} is past written {}", self.written.get());
        self.durable.set(to);
    }

    pub(crate) fn wake(&self) {
        wake_below(&self.waiting_safe, self.safe.get(), &Ok(()));
        wake_below(&self.waiting_durable, self.durable.get(), &Ok(()));
    }

    /// Nothing will advance any more: all waiters get this error.
    pub(crate) fn fail(&self, error: StorageError) {
        let error = self.failure.borrow_mut().get_or_insert(error).clone();
        self.wake();
        wake_below(&self.waiting_safe, u64::MAX, &Err(error.clone()));
        wake_below(&self.waiting_durable, u64::MAX, &Err(error));
    }

    pub(crate) fn failure(&self) -> Option<StorageError> {
        self.failure.borrow().clone()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    pub(crate) async fn reached(&self, end: u64, mark: Mark) -> Result<(), StorageError> {
        let (reached, waiting) = self.of(mark);
        let mut registered: Option<Waker> = None;
        poll_fn(|context| {
            if reached.get() >= end {
                return Poll::Ready(Ok(()));
            }
            if let Some(error) = &*self.failure.borrow() {
                return Poll::Ready(Err(error.clone()));
            }
            if !registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                insert(&mut waiting.borrow_mut(), end, Waiting::Task(context.waker().clone()));
                registered = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// As [`Watermarks::reached`] for who has no task: the call is made in the step that wakes, or at once.
    pub(crate) fn when_reached(&self, end: u64, mark: Mark, call: impl FnOnce(Result<(), StorageError>) + 'static) {
        let (reached, waiting) = self.of(mark);
        if reached.get() >= end {
            return call(Ok(()));
        }
        if let Some(error) = self.failure() {
            return call(Err(error));
        }
        insert(&mut waiting.borrow_mut(), end, Waiting::Call(Box::new(call)));
    }

    fn of(&self, mark: Mark) -> (&Cell<u64>, &RefCell<VecDeque<Waiter>>) {
        match mark {
            Mark::Safe => (&self.safe, &self.waiting_safe),
            Mark::Durable => (&self.durable, &self.waiting_durable),
        }
    }
}

/// Tickets are waited for nearly in the order of their ends, so the place is found at the back.
fn insert(list: &mut VecDeque<Waiter>, end: u64, waiting: Waiting) {
    let mut place = list.len();
    while place > 0 && list[place - 1].end > end {
        place -= 1;
    }
    list.insert(place, Waiter { end, waiting });
}

fn wake_below(waiting: &RefCell<VecDeque<Waiter>>, mark: u64, outcome: &Result<(), StorageError>) {
    loop {
        let mut list = waiting.borrow_mut();
        if list.front().is_none_or(|waiter| waiter.end > mark) {
            return;
        }
        let waiter = list.pop_front().expect("just seen");
        drop(list);
        match waiter.waiting {
            Waiting::Task(waker) => waker.wake(),
            Waiting::Call(call) => call(outcome.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn waiters_are_woken_in_order_and_only_those_reached() {
        runtime::run_here(async {
            let marks = Rc::new(Watermarks::at(100));
            marks.advance_appended(1000);
            let order = Rc::new(RefCell::new(Vec::new()));
            for end in [300, 200, 400] {
                let (marks, order) = (marks.clone(), order.clone());
                runtime::spawn(async move {
                    if marks.reached(end, Mark::Safe).await.is_ok() {
                        order.borrow_mut().push(end);
                    }
                });
            }
            runtime::yield_now().await;
            marks.advance_written(350);
            marks.wake();
            for _ in 0..4 {
                runtime::yield_now().await;
            }
            assert_eq!(*order.borrow(), [200, 300]);
            let failed = {
                let marks = marks.clone();
                async move { marks.reached(400, Mark::Durable).await }
            };
            let calls = Rc::new(RefCell::new(Vec::new()));
            for end in [500, 360, 350] {
                let calls = calls.clone();
                let call = move |outcome: Result<(), StorageError>| calls.borrow_mut().push((end, outcome.is_ok()));
                marks.when_reached(end, Mark::Safe, call);
            }
            assert_eq!(*calls.borrow(), [(350, true)], "what is reached is told at once");
            // Moved, but nobody was woken yet: a failure does not take back what was reached.
            marks.advance_written(400);
            marks.fail(StorageError::Stopped { log: 0 });
            assert_eq!(*calls.borrow(), [(350, true), (360, true), (500, false)]);
            assert!(failed.await.is_err());
            assert!(marks.reached(350, Mark::Safe).await.is_ok(), "what was reached stays reached");
        })
        .expect("an executor");
    }
}
