//! Headers of queries and updates of a group's offset in one queue (14, 15).

use crate::header::header;
use crate::text::Text;

header! {
    /// Header of 14.
    QueryConsumerOffset {
        consumer_group: Text = required "consumerGroup",
        topic: Text = required "topic",
        queue_id: i32 = required "queueId",
        /// False: a group without an offset is told so, never answered 0.
        set_zero_if_not_found: Option<bool> = optional "setZeroIfNotFound",
    }
}

header! {
    /// Answer to 14.
    QueryConsumerOffsetResponse {
        offset: i64 = required "offset",
    }
}

header! {
    /// Header of 15.
    UpdateConsumerOffset {
        consumer_group: Text = required "consumerGroup",
        topic: Text = required "topic",
        queue_id: i32 = required "queueId",
        commit_offset: i64 = required "commitOffset",
    }
}
