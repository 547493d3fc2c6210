//! Acknowledgements and new holds of popped messages, on the owner of their queue.

use std::rc::Rc;

use storage::Ticket;

use super::in_flight::PopQueue;
use super::ledger::{Acknowledged, Ledger, Times};
use super::receipt::Receipt;
use crate::call::Refusal;
use crate::core::Core;
use crate::group;
use crate::processor::send;

/// A message is done. Gives the note of it; `None` when the receipt holds no more and does nothing: its message came again,
/// or is done already.
///
/// # Errors
/// When that cannot be stored.
pub(crate) async fn acknowledge(core: &Rc<Core>, of: &PopQueue, receipt: &Receipt) -> Result<Option<Ticket>, Refusal> {
    let ledger = core.pops.of(core.log_of_queue(&of.topic, of.queue).id());
    let Acknowledged::Noted(ticket) = send::append(core, &ledger.log, || ledger.acknowledge(of, receipt)).await? else {
        return Ok(None);
    };
    send::reached(&ledger.log, &ticket, true).await?;
    went_on(core, &ledger, of, receipt);
    Ok(Some(ticket))
}

/// Messages of queues of this core are done.
///
/// # Errors
/// As [`acknowledge`]; those before the first that fails are done.
pub(crate) async fn acknowledge_all(core: &Rc<Core>, all: Vec<(PopQueue, Receipt)>) -> Result<(), Refusal> {
    for (of, receipt) in all {
        acknowledge(core, &of, &receipt).await?;
        runtime::yield_if_needed().await;
    }
    Ok(())
}

/// A message is held anew, from `pop_ms` on and for `invisible_ms`. Gives its new receipt; `None` when the old one holds
/// no more.
///
/// # Errors
/// When that cannot be stored.
pub(crate) async fn hold(
    core: &Rc<Core>,
    of: &PopQueue,
    receipt: &Receipt,
    (pop_ms, invisible_ms): (u64, u64),
) -> Result<Option<Receipt>, Refusal> {
    let ledger = core.pops.of(core.log_of_queue(&of.topic, of.queue).id());
    let times = Times { pop_ms, invisible_ms };
    let Some((fresh, ticket)) = send::append(core, &ledger.log, || ledger.hold(of, receipt, times)).await? else {
        return Ok(None);
    };
    send::reached(&ledger.log, &ticket, true).await?;
    if receipt.is_ordered() {
        // Whoever waits for the queue asks anew when it opens.
        core.pops.waits.reopened(core, &of.group, &of.topic, of.queue);
    }
    Ok(Some(fresh))
}

/// The group's offset follows; a queue that is popped in order may be open again.
fn went_on(core: &Rc<Core>, ledger: &Ledger, of: &PopQueue, receipt: &Receipt) {
    if let Some(consumed) = ledger.consumed(of) {
        group::commit_from_pop(core, &of.group, &of.topic, of.queue, consumed);
    }
    if receipt.is_ordered() {
        core.pops.waits.reopened(core, &of.group, &of.topic, of.queue);
    }
}
