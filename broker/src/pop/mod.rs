//! POP consumption: the broker hands out messages of any queue, and remembers what is in whose hands.
//!
//! What is in flight of a queue lives with the queue, in a `ledger::Ledger` of its log. A pop of a whole topic asks the owners
//! of its queues one after the other; a pop that finds nothing waits on all of them ([`waits`]). What is not acknowledged
//! in time comes again by a retry topic ([`revive`]).
//! [docs/design/006-pop.md](../../../docs/design/006-pop.md) has the reasons.

pub(crate) mod answer;
pub(crate) mod in_flight;
mod ledger;
pub(crate) mod look;
mod note;
mod order;
mod peek;
pub(crate) mod receipt;
pub(crate) mod request_modes;
mod revive;
mod settle;
mod take;
pub(crate) mod waits;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use base::{LogId, LogOffset, QueueId, QueueOffset, stable_hash};
use remoting::name;
use remoting::text::Text;
use runtime::clock;
use runtime::sync::Notify;
use storage::{Log, StorageError};

pub(crate) use self::revive::{Revive, is_any_before, start_background};
pub(crate) use self::settle::{acknowledge, acknowledge_all, hold};
pub(crate) use self::take::Purpose;

use self::in_flight::PopQueue;
use self::ledger::Ledger;
use self::request_modes::RequestModes;
use self::waits::PopWaits;
use crate::core::Core;
use crate::journal::Journal;
use crate::trouble::Trouble;

/// What a core knows of pops.
#[derive(Default)]
pub(crate) struct Pops {
    /// Of the logs that this core opened.
    ledgers: RefCell<HashMap<LogId, Rc<Ledger>>>,
    pub(crate) waits: PopWaits,
    /// How groups want to consume, as the tables' core published it.
    pub(crate) request_modes: RequestModes,
    due_earlier: Rc<Notify>,
}

impl Pops {
    fn of(&self, log: LogId) -> Rc<Ledger> {
        let ledgers = self.ledgers.borrow();
        ledgers.get(&log).unwrap_or_else(|| panic!("pops of log {log} are another core's")).clone()
    }

    fn all(&self) -> Vec<Rc<Ledger>> {
        let mut ledgers: Vec<_> = self.ledgers.borrow().values().cloned().collect();
        ledgers.sort_unstable_by_key(|ledger| ledger.log.id());
        ledgers
    }

    /// A group committed an offset of a queue of this core by itself.
    pub(crate) fn committed(&self, core: &Core, group: &Text, topic: &Text, queue: QueueId, offset: QueueOffset) {
        let ledger = self.of(core.log_of_queue(topic, queue).id());
        if !ledger.is_empty() {
            ledger.go_on_from(&PopQueue { group: group.clone(), topic: topic.clone(), queue }, offset);
        }
    }

    /// A topic was deleted.
    pub(crate) fn forget_topic(&self, topic: &str) {
        self.all().iter().for_each(|ledger| ledger.forget(|of| of.topic == *topic));
    }

    /// A group was deleted.
    pub(crate) fn forget_group(&self, group: &str) {
        self.all().iter().for_each(|ledger| ledger.forget(|of| of.group == *group));
    }
}

/// Finds what was popped of a log of this core.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn open(core: &Rc<Core>, log: &Rc<Log>) -> Result<(), StorageError> {
    let topic = Text::from(name::revive_topic(&core.config().identity.cluster));
    let queue = core.placement.queue_in_log(stable_hash(&topic), log.id());
    let journal = Journal::new(log.clone(), topic, queue, core.advertised());
    let ledger = Rc::new(Ledger::new(log.clone(), journal, core.pops.due_earlier.clone()));
    ledger.recover(clock::now_ms().0).await?;
    core.pops.ledgers.borrow_mut().insert(log.id(), ledger);
    Ok(())
}

/// Lets a start need nothing in front of an offset of what a log's journal says. False when that would take more bytes.
pub(crate) async fn leave(core: &Rc<Core>, log: LogId, limit: LogOffset, bytes_max: usize) -> Result<bool, Trouble> {
    core.pops.of(log).leave(limit, bytes_max).await
}

/// Tells the groups' owners how far they have popped: more than the file of offsets may know after a crash. Where they
/// committed more themselves, they pop behind that. On every core, once the offsets are loaded.
pub(crate) async fn commit_recovered(core: &Rc<Core>) {
    for ledger in core.pops.all() {
        for (of, consumed) in ledger.all_consumed() {
            let (owner, of) = (core.placement.core_of_group(&of.group), PopQueue::clone(&of));
            core.on(owner, move |core| async move {
                let PopQueue { group, topic, queue } = &of;
                let known = core.groups.with(group, |known| known.offsets.get(topic, *queue)).flatten();
                match known {
                    Some(known) if known >= consumed => crate::group::tell_pops(&core, group, topic, *queue, known),
                    _ => crate::group::commit(&core, group, topic, *queue, consumed).await,
                }
            })
            .await;
        }
    }
}
