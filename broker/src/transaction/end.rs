//! Ends of transactions: the first one wins, and what it decides is appended in one step.

use std::rc::Rc;

use base::{Millis, PhysicalOffset, QueueOffset};
use remoting::code::ResponseCode;
use remoting::header::transaction::EndTransaction;
use remoting::properties::PRODUCER_GROUP;
use remoting::record::RecordView;
use runtime::clock;
use storage::Log;

use super::ledger::{Ledger, Taken};
use super::message::{Message, chosen_immunity, target};
use super::note::End;
use super::pending::Missed;
use crate::call::Refusal;
use crate::core::Core;
use crate::delay::{Held, Wish};
use crate::processor::send::{self, Known};

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
        return settle(core, &ledger, &taken, &record, End::Rollback, None).await;
    }
    let (topic, queue) = target(&record).ok_or_else(|| failed(format!("half message {at} does not say its topic")))?;
    let Some(topic) = core.topics.get(topic) else {
        let remark = format!("topic {topic} was deleted: the transaction stays pending; create it again, then commit");
        return Err(Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark));
    };
    let held = held(core, &record)?;
    settle(core, &ledger, &taken, &record, End::Commit, held.as_ref()).await?;
    if held.is_none() {
        core.stats.sent(&topic, queue, 1, record.total_bytes() as u64);
    }
    Ok(())
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

async fn settle(
    core: &Core,
    ledger: &Rc<Ledger>,
    taken: &Taken,
    record: &RecordView<'_>,
    end: End,
    held: Option<&Held>,
) -> Result<(), Refusal> {
    let log: &Log = &ledger.log;
    let held = held.map(|held| (&core.delays, held));
    let ticket = send::append(core, log, || ledger.settle(taken, Some(record), end, held)).await?;
    send::reached(log, &ticket, true).await
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
