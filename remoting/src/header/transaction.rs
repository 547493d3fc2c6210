//! Headers of transactions (37, 39).

use crate::header::header;
use crate::text::Text;

header! {
    /// Header of 37.
    EndTransaction {
        producer_group: Text = required "producerGroup",
        /// Queue offset of the half message.
        half_queue_offset: i64 = required "tranStateTableOffset",
        half_physical_offset: i64 = required "commitLogOffset",
        /// One of [`crate::record::sys_flag`]: commit, rollback, or none for not known.
        commit_or_rollback: i32 = required "commitOrRollback",
        from_transaction_check: bool = or(false) "fromTransactionCheck",
        message_id: Text = required "msgId",
        transaction_id: Option<Text> = optional "transactionId",
        topic: Option<Text> = optional "topic",
    }
}

header! {
    /// Header of 39, which brokers send.
    CheckTransactionState {
        topic: Option<Text> = optional "topic",
        half_queue_offset: i64 = required "tranStateTableOffset",
        half_physical_offset: i64 = required "commitLogOffset",
        message_id: Option<Text> = optional "msgId",
        transaction_id: Option<Text> = optional "transactionId",
        offset_message_id: Option<Text> = optional "offsetMsgId",
        broker_name: Option<Text> = optional "bname",
    }
}
