//! Messages whose time is over: they come again, by way of the retry topic of their group.
//!
//! A message is appended to the retry topic first, and is done in its old queue after that: a crash in between lets it
//! come twice, never not at all.

use std::rc::Rc;
use std::time::Duration;

use base::{LogId, LogOffset, QueueId, QueueOffset};
use bytes::Bytes;
use remoting::name;
use remoting::properties::{self, FIRST_POP_TIME, ORIGIN_GROUP, POP_CHECKPOINT, PROPERTIES_BYTES_MAX};
use remoting::record::{RecordDraft, RecordView};
use runtime::clock;

use super::in_flight::PopQueue;
use super::ledger::{Due, Ledger};
use crate::core::Core;
use crate::log::Repeated;
use crate::processor::send;
use crate::topic;

/// The longest time between two looks at a core's queues: those that nobody pops are forgotten then.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// After a failure the next try comes no earlier.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Starts what a core does for messages that were not acknowledged.
pub(crate) fn start_background(core: &Rc<Core>) {
    let core = core.clone();
    runtime::spawn_background(async move {
        let reviving = Repeated::default();
        while !core.draining.get() {
            let ledgers = core.pops.all();
            let now_ms = clock::now_ms().0;
            let next_due_ms = ledgers.iter().filter_map(|ledger| ledger.next_due_ms()).min();
            let span = next_due_ms.map_or(LOOK_EVERY, |due_ms| Duration::from_millis(due_ms.saturating_sub(now_ms)));
            if ledgers.iter().all(|ledger| ledger.is_idle()) {
                core.pops.due_earlier.notified().await;
                continue;
            }
            clock::within(span.min(LOOK_EVERY), core.pops.due_earlier.notified()).await;
            for ledger in ledgers {
                match revive_due(&core, &ledger).await {
                    Ok(()) => reviving.over(format_args!("messages that were popped and not acknowledged come again")),
                    Err(why) => {
                        reviving.warn(format_args!(
                            "messages that were popped and not acknowledged cannot come again yet, it is tried again: \
                             {why}"
                        ));
                        clock::sleep(TRY_AGAIN_AFTER).await;
                    }
                }
                ledger.tidy(clock::now_ms().0);
            }
        }
    });
}

async fn revive_due(core: &Rc<Core>, ledger: &Rc<Ledger>) -> Result<(), String> {
    while let Some(due) = ledger.first_due(clock::now_ms().0) {
        if core.draining.get() {
            return Ok(());
        }
        revive(core, ledger, &due).await?;
        runtime::yield_if_needed().await;
    }
    Ok(())
}

/// Whether a message in front of an offset of a log is in somebody's hands. If `now` is, none is afterwards: they come
/// again at once, as if their time were over.
///
/// # Errors
/// When one of them can be read or stored no more.
pub(crate) async fn is_any_before(core: &Rc<Core>, log: LogId, limit: LogOffset, now: Revive) -> Result<bool, String> {
    let ledger = core.pops.of(log);
    while let Some(due) = ledger.first_before(limit).await.map_err(|error| error.to_string())? {
        match now {
            Revive::WhenDue => return Ok(true),
            Revive::AtOnce => revive(core, &ledger, &due).await?,
        }
        runtime::yield_if_needed().await;
    }
    Ok(false)
}

/// When messages come again that were popped and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revive {
    WhenDue,
    AtOnce,
}

async fn revive(core: &Rc<Core>, ledger: &Rc<Ledger>, due: &Due) -> Result<(), String> {
    let of = &due.of;
    let wanted = core.group_configs.get(&of.group).is_some() && core.topics.get(&of.topic).is_some();
    if wanted {
        let retry_topic = retry_topic(core, of);
        topic::ensure_own_topic(core, &retry_topic, 1).await.map_err(|refusal| refusal.remark.to_string())?;
        for offset in &due.offsets {
            // What went bad on disk, or is gone with its segment, cannot come again.
            if let Some(record) = record_of(ledger, of, *offset).await? {
                append(core, &retry_topic, due, record).await?;
            }
        }
    }
    let messages = due.offsets.iter().map(|offset| (due.id, *offset)).collect();
    ledger.note_done(messages).map_err(|error| error.to_string())?;
    if let Some(consumed) = ledger.consumed(of) {
        crate::group::commit_from_pop(core, &of.group, &of.topic, of.queue, consumed);
    }
    Ok(())
}

/// Where messages of a queue come again: those of a retry topic in the same one.
fn retry_topic(core: &Core, of: &PopQueue) -> String {
    if name::is_retry_topic(&of.topic) {
        of.topic.to_string()
    } else if core.config().pop.new_retry_topics {
        name::pop_retry_topic_new(&of.group, &of.topic)
    } else {
        name::pop_retry_topic(&of.group, &of.topic)
    }
}

/// The stored bytes of a message; `None` when there are none that can be read.
async fn record_of(ledger: &Ledger, of: &PopQueue, offset: QueueOffset) -> Result<Option<Bytes>, String> {
    let Some(queue) = ledger.log.find_queue(&of.topic, of.queue) else { return Ok(None) };
    let Some(entry) = queue.entry(offset).await.map_err(|error| error.to_string())? else { return Ok(None) };
    let bytes = ledger.log.record_at(entry.offset).await.map_err(|error| error.to_string())?;
    Ok(bytes.map(Bytes::from))
}

/// Stores a message in the retry topic, on the core of its queue.
async fn append(core: &Rc<Core>, retry_topic: &str, due: &Due, record: Bytes) -> Result<(), String> {
    let queue = QueueId(0);
    let owner = core.placement.core_of_queue(retry_topic, queue);
    let (topic, group, pop_time_ms) = (retry_topic.to_owned(), due.of.group.clone(), due.pop_time_ms);
    core.on(owner, move |core| async move {
        let record = RecordView::decode(&record).map_err(|error| error.to_string())?;
        let properties = revived_properties(record.properties(), &group, pop_time_ms);
        let draft = RecordDraft {
            topic: &topic,
            queue_id: queue,
            store_host: core.advertised(),
            reconsume_times: record.reconsume_times().saturating_add(1),
            properties: &properties,
            ..RecordDraft::of(&record)
        };
        let log = core.log_of_queue(&topic, queue);
        let target = log.queue(&topic, queue);
        let appended = send::append(&core, log, || log.append(&target, &draft, clock::now_ms())).await;
        let ticket = appended.map_err(|refusal| refusal.remark.to_string())?;
        send::reached(log, &ticket, true).await.map_err(|refusal| refusal.remark.to_string())
    })
    .await
}

/// The message's properties, and when and by whom it was popped first. Without room for that they stay as they are.
fn revived_properties(properties: &str, group: &str, pop_time_ms: u64) -> String {
    let plain = properties::without(properties, &[POP_CHECKPOINT]);
    let mut with_origin = properties::with(&plain, ORIGIN_GROUP, group);
    if properties::get(&with_origin, FIRST_POP_TIME).is_none() {
        with_origin = properties::with(&with_origin, FIRST_POP_TIME, pop_time_ms as i64);
    }
    if with_origin.len() <= PROPERTIES_BYTES_MAX { with_origin } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pop_is_kept() {
        let once = revived_properties("a\u{1}b\u{2}POP_CK\u{1}x\u{2}", "g", 5);
        assert_eq!(once, "a\u{1}b\u{2}ORIGIN_GROUP\u{1}g\u{2}1ST_POP_TIME\u{1}5\u{2}");
        let twice = revived_properties(&once, "g", 9);
        assert_eq!(properties::get(&twice, FIRST_POP_TIME), Some("5"));
        let long = format!("a\u{1}{}\u{2}", "x".repeat(PROPERTIES_BYTES_MAX - 10));
        assert_eq!(revived_properties(&long, "g", 5), long);
    }
}
