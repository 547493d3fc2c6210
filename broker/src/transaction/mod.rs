//! Transactions: half messages, their ends, and the questions to producers that have not told one.
//!
//! Each log has a [`Ledger`] of its own, on the core that opened it: a half message lies in the log of the queue that it
//! is meant for, so nothing about it crosses cores but the question to its producers.
//! [docs/design/005-transactions.md](../../../docs/design/005-transactions.md) has the reasons.

mod check;
mod end;
mod ledger;
mod message;
mod note;
mod pending;
mod recovery;
mod resume;
#[cfg(test)]
mod samples;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use base::LogId;
use storage::{Log, StorageError};

pub(crate) use self::check::start_background;
pub(crate) use self::end::{Verdict, end};
pub(crate) use self::ledger::Ledger;
pub(crate) use self::resume::resume;

use crate::core::Core;
use crate::log::Repeated;

/// The ledgers of the logs that a core opened.
#[derive(Default)]
pub(crate) struct Transactions {
    ledgers: RefCell<HashMap<LogId, Rc<Ledger>>>,
    unreadable: Repeated,
    not_given_up: Repeated,
}

impl Transactions {
    /// The ledger of a log of this core.
    ///
    /// # Panics
    /// When another core opened the log.
    pub(crate) fn of(&self, log: LogId) -> Rc<Ledger> {
        let ledgers = self.ledgers.borrow();
        ledgers.get(&log).unwrap_or_else(|| panic!("the ledger of log {log} lives on another core")).clone()
    }

    fn all(&self) -> Vec<Rc<Ledger>> {
        let mut ledgers: Vec<_> = self.ledgers.borrow().values().cloned().collect();
        ledgers.sort_unstable_by_key(|ledger| ledger.log.id());
        ledgers
    }
}

/// Completes the ends that the last crash has cut off, in this core's logs; once delays are started, and before anything
/// else is appended.
///
/// # Errors
/// As [`recovery::complete`].
pub(crate) async fn complete(core: &Rc<Core>) -> Result<(), StorageError> {
    for ledger in core.transactions.all() {
        recovery::complete(&ledger, &core.delays, |half| end::held_again(core, half)).await?;
    }
    Ok(())
}

/// Finds what is pending in a log of this core, before anything is appended to it.
///
/// # Errors
/// As [`recovery::recover`].
pub(crate) async fn open(core: &Rc<Core>, log: &Rc<Log>) -> Result<(), StorageError> {
    let ledger = Rc::new(Ledger::new(log.clone(), core.placement, core.advertised()));
    recovery::recover(&ledger, core.config().transactions.immune_time.0).await?;
    core.transactions.ledgers.borrow_mut().insert(log.id(), ledger);
    Ok(())
}
