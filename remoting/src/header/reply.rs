//! Header of replies that brokers pass on to the client that waits for them (326).

use crate::header::header;
use crate::text::Text;

header! {
    /// Header of 326, which brokers send: that of the reply's send, and what the broker knows of it.
    PushReplyMessage {
        producer_group: Text = required "producerGroup",
        topic: Text = required "topic",
        default_topic: Text = required "defaultTopic",
        default_topic_queue_nums: i32 = required "defaultTopicQueueNums",
        queue_id: i32 = required "queueId",
        sys_flag: i32 = required "sysFlag",
        born_timestamp_ms: i64 = required "bornTimestamp",
        flag: i32 = required "flag",
        properties: Option<Text> = optional "properties",
        reconsume_times: Option<i32> = optional "reconsumeTimes",
        unit_mode: bool = or(false) "unitMode",
        /// `ip:port`, as is the next.
        born_host: Text = required "bornHost",
        store_host: Text = required "storeHost",
        store_timestamp_ms: i64 = required "storeTimestamp",
    }
}
