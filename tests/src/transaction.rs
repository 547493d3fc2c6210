//! Transactions as a producer makes them: a half message, its end, and the broker's questions.

use std::io;

use crate::frame::{Frame, bad};
use crate::request::{Queue, Stored, send};

pub const END_TRANSACTION: i32 = 37;
pub const CHECK_TRANSACTION: i32 = 39;
pub const RESUME_CHECK: i32 = 323;

/// Bits of a message's sysFlag, and the values of an end.
pub const PREPARED: i32 = 4;
pub const COMMIT: i32 = 8;
pub const ROLLBACK: i32 = 12;

/// The group that the harness sends for.
pub const PRODUCER_GROUP: &str = "harness-producer";

/// The send of a half message.
pub fn half(queue: &Queue, body: &str, properties: &str) -> Frame {
    let properties = format!("TRAN_MSG\u{1}true\u{2}PGROUP\u{1}{PRODUCER_GROUP}\u{2}{properties}");
    send(queue, body, &properties).field("f", PREPARED)
}

/// A half message as the answer to its send names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Half {
    pub queue_offset: u64,
    pub log_offset: u64,
    /// The id that names its place.
    pub offset_id: String,
    pub transaction_id: String,
}

impl Half {
    /// # Errors
    /// When the send was refused, or its answer does not carry what an end needs.
    pub fn of(answer: &Frame) -> io::Result<Half> {
        let stored = Stored::of(answer)?;
        let offset_id = answer.text("msgId")?.to_owned();
        let digits = offset_id.len().checked_sub(16).and_then(|at| offset_id.get(at..));
        let log_offset = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let log_offset = log_offset.ok_or_else(|| bad(format!("no offset in {offset_id}")))?;
        let transaction_id = answer.text("transactionId")?.to_owned();
        Ok(Half { queue_offset: stored.queue_offset, log_offset, offset_id, transaction_id })
    }

    /// Its end by the producer's own word.
    pub fn end(&self, verdict: i32) -> Frame {
        Frame::request(END_TRANSACTION)
            .field("producerGroup", PRODUCER_GROUP)
            .field("tranStateTableOffset", self.queue_offset)
            .field("commitLogOffset", self.log_offset)
            .field("commitOrRollback", verdict)
            .field("fromTransactionCheck", false)
            .field("msgId", &self.transaction_id)
            .field("transactionId", &self.transaction_id)
    }
}
