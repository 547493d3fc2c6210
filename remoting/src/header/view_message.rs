//! Headers of queries for messages (12, 33).

use crate::header::header;
use crate::text::Text;

header! {
    /// Header of 33.
    ViewMessage {
        /// Physical.
        offset: i64 = required "offset",
        topic: Option<Text> = optional "topic",
    }
}

header! {
    /// Header of 12.
    QueryMessage {
        topic: Text = required "topic",
        key: Text = required "key",
        message_count_max: i32 = required "maxNum",
        begin_timestamp_ms: i64 = required "beginTimestamp",
        end_timestamp_ms: i64 = required "endTimestamp",
        /// The key is a unique id.
        unique_key_query: bool = or(false) "_UNIQUE_KEY_QUERY",
        index_type: Option<Text> = optional "indexType",
        last_key: Option<Text> = optional "lastKey",
    }
}

header! {
    /// Answer to 12.
    QueryMessageResponse {
        index_last_update_timestamp_ms: i64 = required "indexLastUpdateTimestamp",
        index_last_update_physical_offset: i64 = required "indexLastUpdatePhyoffset",
    }
}
