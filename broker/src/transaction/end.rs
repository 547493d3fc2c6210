//! Ends of transactions: the first one wins, and what it decides is appended in one step.

use std::rc::Rc;
use std::slice;

use base::{Millis, PhysicalOffset, QueueId, QueueOffset};
use remoting::code::ResponseCode;
use remoting::header::transaction::EndTransaction;
use remoting::properties::{PRODUCER_GROUP, UNIQUE_KEY};
use remoting::record::RecordView;
use runtime::clock;
use storage::Log;

use super::ledger::{Ledger, Taken, Way};
use super::message::{Message, chosen_immunity, target};
use super::note::End;
use super::pending::Missed;
use crate::call::Refusal;
use crate::core::Core;
use crate::delay::{Due, Held, Wish};
use crate::light;
use crate::processor::send::{self, Known};
use crate::topic::Topic;

/// How much later a message is delivered whose time came while its commit was cut off.
const SOON_MS: u64 = 1_000;

/// What a producer says about its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Commit,
    Rollback,
}

/// Ends a half message as its producer wishes; on the core of its log. The end survives a crash when this returns.
///
/// # Errors
/// When the request does not fit a pending half message, comes too late, or cannot be stored: the half message stays as
/// it was.
pub(crate) async fn end(core: &Rc<Core>, wish: &EndTransaction, verdict: Verdict) -> Result<(), Refusal> {
    let (at, offset) = place(wish)?;
    if core.core_of_offset(offset) != Some(core.id) {
        return Err(not_pending(wish));
    }
    let ledger = core.transactions.of(offset.log());
    let taken = ledger.take(at, offset).map_err(|missed| match missed {
        Missed::NotPending => not_pending(wish),
        Missed::Taken => failed(format!("transaction {} is being ended by another request", wish.message_id)),
    })?;
    let bytes = ledger.record(&taken.half).await.map_err(|error| failed(error.to_string()))?;
    let record = bytes.as_deref().and_then(|bytes| RecordView::decode(bytes).ok());
    let record = record.ok_or_else(|| failed(format!("the half message {at} cannot be read any more")))?;
    check(wish, &record, core.config().transactions.immune_time, clock::now_ms())?;
    if verdict == Verdict::Rollback {
        settle(core, &ledger, &taken, &record, End::Rollback, Way::ToQueue(None)).await?;
        return Ok(());
    }
    let (topic, queue) = target(&record).ok_or_else(|| failed(format!("half message {at} does not say its topic")))?;
    let Some(topic) = core.topics.get(topic) else {
        let remark = format!("topic {topic} was deleted: the transaction stays pending; create it again, then commit");
        return Err(Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark));
    };
    // The time of a message that is to wait may come until it is stored.
    while !commit(core, &ledger, &taken, &record, &topic, queue).await? {}
    Ok(())
}

/// False when nothing was done: see [`Ledger::settle`].
async fn commit(
    core: &Rc<Core>,
    ledger: &Rc<Ledger>,
    taken: &Taken,
    record: &RecordView<'_>,
    topic: &Topic,
    queue: QueueId,
) -> Result<bool, Refusal> {
    if let Some(held) = held(core, record)? {
        return settle(core, ledger, taken, record, End::Commit, Way::Held(&core.delays, &held)).await;
    }
    let Some(message) = Message::committed(record) else { return Err(failed("the half has no target".to_owned())) };
    let draft = message.draft(record, core.advertised());
    let told = light::dispatched(core, slice::from_ref(&draft), true).await?;
    settle(core, ledger, taken, record, End::Commit, Way::ToQueue(told[0].as_deref())).await?;
    core.stats.sent(topic, queue, 1, record.total_bytes() as u64);
    Ok(true)
}

/// How a message that is committed now waits, if its sender wanted it later: its delay begins with the commit.
pub(super) fn held(core: &Core, half: &RecordView<'_>) -> Result<Option<Held>, Refusal> {
    let wish = Known::of(half.properties()).wish;
    if wish == Wish::default() {
        return Ok(None);
    }
    let due = wish.due(&core.config().delays, core.delays.now())?;
    let Some(message) = Message::committed(half) else { return Ok(None) };
    Held::of(&message.draft(half, core.advertised()), due)
}

/// As [`held`], where a crash has cut a commit off. Only a delivery can put a message that had to wait into its light queues
/// now, so it waits for that although its time may have come. A wish that is not served any more is as good as none: the
/// message must not be lost.
pub(super) fn held_again(core: &Core, half: &RecordView<'_>) -> Option<Held> {
    let held = held(core, half).ok().flatten();
    let known = Known::of(half.properties());
    if held.is_some() || !known.wish.is_any() || !light::is_told_by(core, half.properties()) {
        return held;
    }
    let soon = Due::Timer(Millis(core.delays.now().0 + SOON_MS));
    Held::of(&Message::committed(half)?.draft(half, core.advertised()), soon).ok().flatten()
}

async fn settle(
    core: &Core,
    ledger: &Rc<Ledger>,
    taken: &Taken,
    record: &RecordView<'_>,
    end: End,
    way: Way<'_>,
) -> Result<bool, Refusal> {
    let log: &Log = &ledger.log;
    let Some(ticket) = send::append(core, log, || ledger.settle(taken, Some(record), end, way)).await? else {
        return Ok(false);
    };
    send::reached(log, &ticket, true).await?;
    Ok(true)
}

fn place(wish: &EndTransaction) -> Result<(QueueOffset, PhysicalOffset), Refusal> {
    match (u64::try_from(wish.half_queue_offset), u64::try_from(wish.half_physical_offset)) {
        (Ok(at), Ok(offset)) => Ok((QueueOffset(at), PhysicalOffset(offset))),
        _ => Err(not_pending(wish)),
    }
}

/// Whether the half message is the one that the request means, and may be ended by it now.
fn check(wish: &EndTransaction, half: &RecordView<'_>, immune: Millis, now: Millis) -> Result<(), Refusal> {
    let group = half.property(PRODUCER_GROUP).unwrap_or_default();
    if group != &*wish.producer_group {
        let remark = format!("the half message belongs to producer group {group}, not to {}", wish.producer_group);
        return Err(failed(remark));
    }
    // Where a loss of power took a half message another one may lie by now.
    let key = half.property(UNIQUE_KEY).unwrap_or_default();
    let is_named = |name: &str| name.is_empty() || name == key;
    if !wish.transaction_id.as_deref().is_none_or(is_named) && !is_named(&wish.message_id) {
        return Err(not_pending(wish));
    }
    let Some(immune) = chosen_immunity(half, immune) else { return Ok(()) };
    let age_ms = now.0.saturating_sub(half.store_timestamp_ms().max(0) as u64);
    if wish.from_transaction_check || age_ms <= immune.0 {
        return Ok(());
    }
    let remark = format!(
        "the half message is {age_ms} ms old, and its sender asked to be checked after {} ms: it is ended by the answer \
         to a check only",
        immune.0
    );
    Err(Refusal::new(ResponseCode::ILLEGAL_OPERATION, remark))
}

fn not_pending(wish: &EndTransaction) -> Refusal {
    failed(format!(
        "no half message is pending at queue offset {} and log offset {}: transaction {} was ended before, or never was",
        wish.half_queue_offset, wish.half_physical_offset, wish.message_id
    ))
}

fn failed(remark: String) -> Refusal {
    Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
}

#[cfg(test)]
mod tests {
    use remoting::text::Text;

    use super::super::samples::{STORED_MS, draft, stored};
    use super::*;

    fn wish(group: &str, from_transaction_check: bool) -> EndTransaction {
        EndTransaction {
            producer_group: Text::from(group),
            half_queue_offset: 0,
            half_physical_offset: 0,
            commit_or_rollback: 8,
            from_transaction_check,
            message_id: Text::from("id"),
            transaction_id: None,
            topic: None,
        }
    }

    #[test]
    fn another_half_at_the_place_of_a_lost_one_is_not_ended() {
        let bytes = stored(&draft("x", "PGROUP\u{1}g\u{2}UNIQ_KEY\u{1}new\u{2}"));
        let half = RecordView::decode(&bytes).expect("a record");
        for (transaction_id, message_id, is_it) in [
            (Some("lost"), "lost", false),
            (Some("lost"), "7F00000100002A9F0000000000000000", false),
            (Some("new"), "7F00000100002A9F0000000000000000", true),
            (Some("of a client's own"), "new", true),
            (Some(""), "lost", true),
            (None, "lost", true),
        ] {
            let transaction_id = transaction_id.map(Text::from);
            let wish = EndTransaction { transaction_id, message_id: Text::from(message_id), ..wish("g", true) };
            let checked = check(&wish, &half, Millis(6_000), Millis(STORED_MS));
            assert_eq!(checked.is_ok(), is_it, "{wish:?}");
        }
    }

    #[test]
    fn strangers_and_late_ends_are_refused() {
        let chosen = "PGROUP\u{1}g\u{2}CHECK_IMMUNITY_TIME_IN_SECONDS\u{1}10\u{2}";
        for (properties, group, from_check, age_ms, code) in [
            ("PGROUP\u{1}g\u{2}", "g", false, u64::MAX / 2, None),
            ("PGROUP\u{1}g\u{2}", "h", false, 0, Some(ResponseCode::SYSTEM_ERROR)),
            ("", "g", true, 0, Some(ResponseCode::SYSTEM_ERROR)),
            (chosen, "g", false, 10_000, None),
            (chosen, "g", false, 10_001, Some(ResponseCode::ILLEGAL_OPERATION)),
            (chosen, "g", true, 10_001, None),
        ] {
            let bytes = stored(&draft("x", properties));
            let half = RecordView::decode(&bytes).expect("a record");
            let checked = check(&wish(group, from_check), &half, Millis(6_000), Millis(STORED_MS + age_ms));
            assert_eq!(checked.err().map(|refusal| refusal.code), code, "{properties} {group} {from_check} {age_ms}");
        }
    }
}
