//! Questions to producers about half messages that nobody has ended (39), in rounds.
//!
//! A half message is asked about once a round, from the end of its immunity on, and given up when it was asked about
//! too often or has become older than messages get. The questions are one-way: the answer is an ordinary end.

use std::rc::Rc;
use std::time::Duration;

use base::{Millis, QueueOffset};
use remoting::code::RequestCode;
use remoting::command::Command;
use remoting::header::transaction::CheckTransactionState;
use remoting::message_id::OffsetId;
use remoting::name::CHECK_MAX_TIME_TOPIC;
use remoting::properties::{PRODUCER_GROUP, UNIQUE_KEY};
use remoting::record::RecordView;
use remoting::text::Text;
use runtime::clock;

use super::ledger::{Ledger, Way};
use super::message::{Message, chosen_immunity};
use super::note::End;
use super::pending::Half;
use crate::config::Config;
use crate::core::Core;
use crate::topic;

/// Bytes of questions that one log sends in a round, so that producers which do not read cannot fill the memory. The
/// rest is asked in the next round.
const ROUND_BYTES_MAX: usize = 32 << 20;
/// Questions noted by one record of the journal.
const NOTED_TOGETHER_MAX: usize = 1024;
const HOUR_MS: u64 = 3_600_000;

/// What is to be done about a half message that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Ask,
    /// Its sender chose a later time.
    Wait {
        until_ms: u64,
    },
    GiveUp,
}

/// When a half message is given up.
#[derive(Clone, Copy, Debug)]
struct Limits {
    checks_max: u32,
    age_ms_max: u64,
}

impl Limits {
    fn of(config: &Config) -> Limits {
        let age_ms_max = config.retention.keep_hours.saturating_mul(HOUR_MS);
        Limits { checks_max: config.transactions.checks_max, age_ms_max }
    }
}

/// Starts the rounds of a core.
pub(crate) fn start_background(core: &Rc<Core>) {
    let core = core.clone();
    runtime::spawn_background(async move {
        while !core.draining.get() {
            clock::sleep(Duration::from_millis(core.config().transactions.check_interval.0)).await;
            for ledger in core.transactions.all() {
                round(&core, &ledger).await;
            }
        }
    });
}

/// Looks at each half message of a log that is due.
async fn round(core: &Rc<Core>, ledger: &Rc<Ledger>) {
    let now = clock::now_ms();
    let mut asked = Vec::new();
    let mut bytes_asked = 0;
    while bytes_asked < ROUND_BYTES_MAX && !core.draining.get() {
        let Some((at, half)) = ledger.first_due(now.0) else { break };
        // Whatever comes of it: it is not looked at twice in one round.
        ledger.pending.borrow_mut().set_due(at, now.0 + 1);
        let bytes = match ledger.record(&half).await {
            Ok(bytes) => bytes,
            Err(error) => {
                core.transactions
                    .unreadable
                    .warn(format_args!("half message {at} cannot be read, the next round tries again: {error}"));
                continue;
            }
        };
        let Some(half_record) = bytes.as_deref().and_then(|bytes| RecordView::decode(bytes).ok()) else {
            drop_unreadable(ledger, at, &half).await;
            continue;
        };
        let config = core.config();
        let for_all = config.transactions.immune_time;
        let immune = chosen_immunity(&half_record, for_all).unwrap_or(for_all);
        match due(&half, immune, Limits::of(&config), now) {
            Due::Wait { until_ms } => ledger.pending.borrow_mut().set_due(at, until_ms),
            Due::GiveUp => give_up(core, ledger, at, &half_record).await,
            // It may have been ended while it was read.
            Due::Ask if ledger.pending.borrow().is_open(at) => {
                bytes_asked += ask(core, &half_record, half.checks + 1).await;
                asked.push(at);
            }
            Due::Ask => {}
        }
        if asked.len() >= NOTED_TOGETHER_MAX {
            note(ledger, &mut asked);
        }
        runtime::yield_if_needed().await;
    }
    note(ledger, &mut asked);
}

/// A count that is not noted is lost at a restart: one question more is asked then, so a full log may refuse it.
fn note(ledger: &Rc<Ledger>, asked: &mut Vec<QueueOffset>) {
    if !asked.is_empty() {
        let _ = ledger.note_checked(std::mem::take(asked));
    }
}

fn due(half: &Half, immune: Millis, limits: Limits, now: Millis) -> Due {
    let until_ms = half.stored_ms.saturating_add(immune.0);
    if half.checks >= limits.checks_max || now.0.saturating_sub(half.stored_ms) > limits.age_ms_max {
        Due::GiveUp
    } else if until_ms > now.0 {
        Due::Wait { until_ms }
    } else {
        Due::Ask
    }
}

/// Asks any producer of the group that is online; another one each time, if there are several. Gives the bytes sent.
async fn ask(core: &Rc<Core>, half: &RecordView<'_>, checks: u32) -> usize {
    let Some(group) = half.property(PRODUCER_GROUP).map(Text::from) else { return 0 };
    let Some(message) = Message::asked(half, checks) else { return 0 };
    let unique_key = half.property(UNIQUE_KEY).map(Text::from);
    let id = OffsetId { host: core.advertised(), physical_offset: half.physical_offset() };
    let fields = CheckTransactionState {
        topic: Some(Text::from(message.topic.as_str())),
        half_queue_offset: half.queue_offset().0 as i64,
        half_physical_offset: half.physical_offset().0 as i64,
        message_id: unique_key.clone(),
        transaction_id: unique_key,
        offset_message_id: Some(Text::from(id.encode())),
        broker_name: Some(Text::from(&core.config().identity.broker)),
    }
    .to_fields();
    let body = message.encode(half);
    let bytes = body.len();
    let question = Command::request(RequestCode::CHECK_TRANSACTION_STATE, fields).oneway().with_body(body);
    let owner = core.placement.core_of_group(&group);
    // Whoever does not know the transaction says so; the next round asks the next one.
    let turn = half.queue_offset().0 as usize + checks as usize;
    core.on(owner, move |core| async move {
        let connection = core.groups.with_producers(&group, |producers| producers.connection_in_turn(turn)).flatten();
        if let Some(connection) = connection {
            core.send_to(connection, question);
        }
    })
    .await;
    bytes
}

/// Nobody knew the end for too long: operators get a copy.
async fn give_up(core: &Rc<Core>, ledger: &Rc<Ledger>, at: QueueOffset, half: &RecordView<'_>) {
    let made = topic::ensure_own_topic(core, CHECK_MAX_TIME_TOPIC, u32::from(core.placement.logs)).await;
    if let Err(refusal) = made {
        let why = refusal.remark;
        core.transactions.not_given_up.warn(format_args!("half message {at} cannot be given up yet: {why}"));
        return;
    }
    let Ok(taken) = ledger.take(at, half.physical_offset()) else { return };
    match ledger.settle(&taken, Some(half), End::GiveUp, Way::ToQueue(None)) {
        Ok(_) => crate::log::warn(format_args!(
            "transaction {} of producer group {} was asked about {} times and is given up; its message is kept in topic \
             {CHECK_MAX_TIME_TOPIC}",
            half.property(UNIQUE_KEY).unwrap_or_default(),
            half.property(PRODUCER_GROUP).unwrap_or_default(),
            taken.half.checks
        )),
        Err(error) => {
            core.transactions
                .not_given_up
                .warn(format_args!("half message {at} cannot be given up yet, the next round tries again: {error}"));
        }
    }
}

/// Its record went bad on disk, or is gone with its segment: there is nothing left that could be committed.
async fn drop_unreadable(ledger: &Rc<Ledger>, at: QueueOffset, half: &Half) {
    if half.offset.0 >= ledger.log.visible_end().0 {
        return;
    }
    let Ok(taken) = ledger.take(at, base::PhysicalOffset::new(ledger.log.id(), half.offset)) else { return };
    if ledger.settle(&taken, None, End::Rollback, Way::ToQueue(None)).is_ok() {
        let log = ledger.log.id();
        crate::log::warn(format_args!("log {log}: half message {at} cannot be read any more: its transaction is over"));
    }
}

#[cfg(test)]
mod tests {
    use base::LogOffset;

    use super::*;

    #[test]
    fn a_half_message_waits_is_asked_about_and_is_given_up() {
        let limits = Limits { checks_max: 2, age_ms_max: 100_000 };
        for (checks, immune, now, expected) in [
            (0, 6_000, 6_999, Due::Wait { until_ms: 7_000 }),
            (0, 6_000, 7_000, Due::Ask),
            (1, 6_000, 50_000, Due::Ask),
            (2, 6_000, 50_000, Due::GiveUp),
            (0, 6_000, 101_000, Due::Ask),
            (0, 6_000, 101_001, Due::GiveUp),
            (0, u64::MAX, 50_000, Due::Wait { until_ms: u64::MAX }),
        ] {
            let mut half = Half::new(LogOffset(0), 1_000, 0);
            half.checks = checks;
            assert_eq!(due(&half, Millis(immune), limits, Millis(now)), expected, "{checks} {immune} {now}");
        }
    }
}
