//! Half messages: sent now, seen by consumers only when their transaction is committed.

use std::rc::Rc;

use base::QueueId;
use remoting::code::ResponseCode;
use remoting::header::send::SendMessage;
use remoting::name::HALF_TOPIC;
use remoting::properties::{
    self, Builder, PRODUCER_GROUP, PROPERTIES_BYTES_MAX, REAL_QUEUE_ID, REAL_TOPIC, TRANSACTION_ID,
    TRANSACTION_PREPARED, UNIQUE_KEY,
};
use remoting::record::{RecordDraft, sys_flag};

use super::properties::Known;
use super::{Stored, append, draft, due, reached, record_bytes};
use crate::call::{Refusal, Request};
use crate::core::Core;
use crate::light;
use crate::topic::Topic;

/// Room that the number of checks takes in the properties, once the broker has to ask.
const CHECKS_BYTES_MAX: usize = 64;

/// Whether the message is the first half of a transaction. One that a consumer sends for another try after its commit
/// still carries the mark, and is none.
pub(super) fn is_half(flags: i32, reconsume_times: i32, known: &Known<'_>) -> bool {
    let marked = flags & sys_flag::TRANSACTION_MASK == sys_flag::TRANSACTION_PREPARED;
    let is_retry = reconsume_times > 0 && known.wish.level.is_some();
    (marked || known.is_transaction) && !is_retry
}

/// Stores a half message in the log of the queue that it is meant for.
pub(super) async fn store_half(
    core: &Rc<Core>,
    header: &SendMessage,
    topic: &Topic,
    queue: QueueId,
    known: &Known<'_>,
    request: &Request,
) -> Result<Stored, Refusal> {
    let config = core.config();
    if config.messages.reject_transactions {
        let remark = "this broker takes no transactional messages (rejectTransactionMessage): send it elsewhere";
        return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
    }
    // Its delay begins with its commit, and must be one that is served then.
    due(core, known)?;
    let ledger = core.transactions.of(core.log_of_topic_queue(topic, queue).id());
    if !ledger.has_room() {
        let remark = "too many transactions are pending in the log of this queue: end some of them, or try again later";
        return Err(Refusal::new(ResponseCode::SYSTEM_BUSY, remark));
    }
    let properties = core.additions().stored(&header.properties, known, || core.unique_key())?;
    let properties = half_properties(&properties, header, queue)?;
    let message = draft(core, header, queue, request.peer, &request.command.body, &properties);
    // It goes into them with its commit.
    light::reserve(core, &message).await?;
    let half = RecordDraft {
        topic: HALF_TOPIC,
        queue_id: ledger.own_queue(HALF_TOPIC),
        // It is an ordinary record of its queue; a committed one gets its mark then.
        sys_flag: message.sys_flag & !sys_flag::TRANSACTION_MASK,
        ..message
    };
    let log = core.log_of_topic_queue(topic, queue);
    let immune_ms = config.transactions.immune_time.0;
    let ticket = append(core, log, || ledger.append_half(&half, immune_ms)).await?;
    if let Some(half_topic) = core.topics.get(HALF_TOPIC) {
        core.stats.sent(&half_topic, half.queue_id, 1, record_bytes(&ticket));
    }
    reached(log, &ticket, known.waits_for_flush).await?;
    let unique_key = properties::get(&properties, UNIQUE_KEY).map(str::to_owned);
    Ok(Stored::of(core, queue, &[ticket], unique_key))
}

/// The message's properties, and what its end needs to know.
fn half_properties(stored: &str, header: &SendMessage, queue: QueueId) -> Result<String, Refusal> {
    let group = properties::get(stored, PRODUCER_GROUP).unwrap_or(&header.producer_group);
    let unique_key = properties::get(stored, UNIQUE_KEY).unwrap_or_default();
    let ours = [TRANSACTION_PREPARED, PRODUCER_GROUP, REAL_TOPIC, REAL_QUEUE_ID, TRANSACTION_ID];
    let mut builder = Builder::from_text(&properties::without(stored, &ours), header.topic.len() + 256);
    builder.push(TRANSACTION_PREPARED, "true");
    builder.push(PRODUCER_GROUP, group);
    builder.push(REAL_TOPIC, &*header.topic);
    builder.push(REAL_QUEUE_ID, queue.0 as i32);
    builder.push(TRANSACTION_ID, unique_key);
    let properties = builder.finish();
    let bytes_max = PROPERTIES_BYTES_MAX - CHECKS_BYTES_MAX;
    if properties.len() > bytes_max {
        let remark = format!(
            "the properties of a transactional message take {} bytes with what the broker adds, the limit is {bytes_max}: \
             send fewer or shorter properties",
            properties.len()
        );
        return Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark));
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use remoting::fields::Fields;

    use super::*;

    fn header(flags: i32, reconsume_times: i32, properties: &str) -> SendMessage {
        let mut fields = Fields::new();
        for (name, value) in [("a", "pg"), ("b", "T"), ("c", "TBW102"), ("d", "4"), ("e", "3"), ("g", "0"), ("h", "0")]
        {
            fields.push(name, value);
        }
        fields.push("f", flags);
        fields.push("i", properties);
        fields.push("j", reconsume_times);
        SendMessage::decode(&fields).expect("a header")
    }

    #[test]
    fn a_half_is_marked_and_is_no_retry() {
        for (flags, times, properties, expected) in [
            (0, 0, "", false),
            (sys_flag::TRANSACTION_PREPARED, 0, "", true),
            (sys_flag::TRANSACTION_COMMIT, 0, "", false),
            (0, 0, "TRAN_MSG\u{1}true\u{2}", true),
            (0, 1, "TRAN_MSG\u{1}true\u{2}", true),
            (0, 1, "TRAN_MSG\u{1}true\u{2}DELAY\u{1}3\u{2}", false),
        ] {
            assert_eq!(is_half(flags, times, &Known::of(properties)), expected, "{flags} {times} {properties}");
        }
    }

    #[test]
    fn a_half_says_where_it_is_meant_for_and_whose_it_is() {
        let stored = "REAL_TOPIC\u{1}Old\u{2}a\u{1}b\u{2}UNIQ_KEY\u{1}U\u{2}";
        let half = half_properties(stored, &header(4, 0, ""), QueueId(3)).expect("they fit");
        for (name, value) in [
            ("a", "b"),
            ("TRAN_MSG", "true"),
            ("PGROUP", "pg"),
            ("REAL_TOPIC", "T"),
            ("REAL_QID", "3"),
            ("__transactionId__", "U"),
        ] {
            assert_eq!(properties::parse(&half).filter(|entry| *entry == (name, value)).count(), 1, "{name}: {half}");
        }
        let long = format!("a\u{1}{}\u{2}", "x".repeat(PROPERTIES_BYTES_MAX - 100));
        assert!(half_properties(&long, &header(4, 0, ""), QueueId(3)).is_err_and(|refusal| {
            refusal.code == ResponseCode::MESSAGE_ILLEGAL && refusal.remark.contains("32703")
        }));
    }
}
