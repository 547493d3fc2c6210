//! Work done in batches: while one batch is worked on, the next one gathers.

use std::cell::{Cell, RefCell};

use remoting::code::ResponseCode;
use runtime::sync::{OnceSender, once};

use crate::call::Refusal;

/// Asks that wait for one batch. Beyond it a new one is refused as busy.
const WAITING_MAX: usize = 10_000;

struct Waiting<Ask> {
    ask: Ask,
    done: OnceSender<Result<(), Refusal>>,
}

/// What waits for the next batch, and whether one is worked on.
pub(crate) struct Batches<Ask> {
    waiting: RefCell<Vec<Waiting<Ask>>>,
    working: Cell<bool>,
}

impl<Ask> Default for Batches<Ask> {
    fn default() -> Batches<Ask> {
        Batches { waiting: RefCell::default(), working: Cell::new(false) }
    }
}

impl<Ask> Batches<Ask> {
    /// Waits until a batch with `ask` in it is done. `start` is called when no worker runs: it must start one, which
    /// calls [`Batches::take`] until that gives nothing.
    pub(crate) async fn submit(&self, ask: Ask, start: impl FnOnce()) -> Result<(), Refusal> {
        let (done, receiver) = once();
        {
            let mut waiting = self.waiting.borrow_mut();
            if waiting.len() >= WAITING_MAX {
                let remark = format!("{WAITING_MAX} changes wait for the disk already; try again later");
                return Err(Refusal::new(ResponseCode::SYSTEM_BUSY, remark));
            }
            waiting.push(Waiting { ask, done });
        }
        if !self.working.replace(true) {
            start();
        }
        receiver.receive().await.expect("each batch tells its end")
    }

    /// The next batch; with `None` the worker must end.
    pub(crate) fn take(&self) -> Option<(Vec<Ask>, Batch)> {
        assert!(self.working.get(), "only the worker takes batches");
        let waiting = self.waiting.take();
        if waiting.is_empty() {
            self.working.set(false);
            return None;
        }
        let (asks, done) = waiting.into_iter().map(|one| (one.ask, one.done)).unzip();
        Some((asks, Batch { done }))
    }
}

/// The duty to tell those who wait how their batch ended.
pub(crate) struct Batch {
    done: Vec<OnceSender<Result<(), Refusal>>>,
}

impl Batch {
    pub(crate) fn finish(self, outcome: &Result<(), Refusal>) {
        for done in self.done {
            done.send(outcome.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn asks_of_one_time_share_a_batch_and_its_outcome() {
        runtime::run_here(async {
            let batches = Rc::new(Batches::<u32>::default());
            let sizes = Rc::new(RefCell::new(Vec::new()));
            let outcomes = Rc::new(RefCell::new(Vec::new()));
            for ask in 0..5 {
                let (batches, sizes, outcomes) = (batches.clone(), sizes.clone(), outcomes.clone());
                runtime::spawn(async move {
                    let worker = batches.clone();
                    let start = move || {
                        runtime::spawn(async move {
                            while let Some((asks, batch)) = worker.take() {
                                sizes.borrow_mut().push(asks.len());
                                runtime::yield_now().await;
                                let even = asks.iter().all(|ask| ask % 2 == 0);
                                let no = Refusal::new(ResponseCode::SYSTEM_ERROR, "odd");
                                batch.finish(&if even { Ok(()) } else { Err(no) });
                            }
                        });
                    };
                    let outcome = batches.submit(ask, start).await;
                    outcomes.borrow_mut().push(outcome.is_ok());
                });
            }
            while outcomes.borrow().len() < 5 {
                runtime::yield_now().await;
            }
            let total: usize = sizes.borrow().iter().sum();
            assert_eq!(total, 5, "each ask is worked on once: {:?}", sizes.borrow());
            assert!(sizes.borrow().len() < 5, "some shared a batch: {:?}", sizes.borrow());
            assert!(!batches.working.get());
        })
        .expect("an executor");
    }
}
