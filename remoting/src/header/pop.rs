//! Headers of POP consumption (200050 to 200055) and the request mode of groups (401).

use crate::header::header;
use crate::text::Text;

header! {
    /// Header of 200050.
    PopMessage {
        consumer_group: Text = required "consumerGroup",
        topic: Text = required "topic",
        /// Negative: any queue.
        queue_id: i32 = required "queueId",
        message_count_max: i32 = required "maxMsgNums",
        invisible_time_ms: i64 = required "invisibleTime",
        poll_time_ms: i64 = required "pollTime",
        born_time_ms: i64 = required "bornTime",
        /// Where a group without offsets begins: 0 at the first message, 1 behind the last.
        init_mode: i32 = required "initMode",
        expression_type: Option<Text> = optional "expType",
        expression: Option<Text> = optional "exp",
        order: bool = or(false) "order",
        attempt_id: Option<Text> = optional "attemptId",
    }
}

header! {
    /// Answer to 200050, whatever its code.
    PopMessageResponse {
        pop_time_ms: i64 = required "popTime",
        invisible_time_ms: i64 = required "invisibleTime",
        revive_queue_id: i32 = required "reviveQid",
        rest_count: i64 = required "restNum",
        start_offset_info: Option<Text> = optional "startOffsetInfo",
        message_offset_info: Option<Text> = optional "msgOffsetInfo",
        order_count_info: Option<Text> = optional "orderCountInfo",
    }
}

header! {
    /// Header of 200052.
    PeekMessage {
        consumer_group: Text = required "consumerGroup",
        topic: Text = required "topic",
        /// Negative: any queue.
        queue_id: i32 = required "queueId",
        message_count_max: i32 = required "maxMsgNums",
    }
}

header! {
    /// Header of 200051.
    AckMessage {
        consumer_group: Text = required "consumerGroup",
        /// The topic that the message was popped from, which may be a retry topic.
        topic: Text = required "topic",
        queue_id: i32 = required "queueId",
        receipt: Text = required "extraInfo",
        offset: i64 = required "offset",
    }
}

header! {
    /// Header of 200053.
    ChangeInvisibleTime {
        consumer_group: Text = required "consumerGroup",
        topic: Text = required "topic",
        queue_id: i32 = required "queueId",
        receipt: Text = required "extraInfo",
        offset: i64 = required "offset",
        invisible_time_ms: i64 = required "invisibleTime",
    }
}

header! {
    /// Answer to 200053: what the new receipt is made of.
    ChangeInvisibleTimeResponse {
        pop_time_ms: i64 = required "popTime",
        invisible_time_ms: i64 = required "invisibleTime",
        revive_queue_id: i32 = required "reviveQid",
    }
}

header! {
    /// Header of 200054.
    Notification {
        consumer_group: Text = required "consumerGroup",
        topic: Text = required "topic",
        /// Negative: any queue.
        queue_id: i32 = required "queueId",
        poll_time_ms: i64 = required "pollTime",
        born_time_ms: i64 = required "bornTime",
        order: bool = or(false) "order",
        attempt_id: Option<Text> = optional "attemptId",
    }
}

header! {
    /// Answer to 200054.
    NotificationResponse {
        has_message: bool = required "hasMsg",
        polling_full: bool = or(false) "pollingFull",
    }
}

header! {
    /// Header of 200055.
    PollingInfo {
        consumer_group: Text = required "consumerGroup",
        topic: Text = required "topic",
        queue_id: i32 = required "queueId",
    }
}
