//! Header of messages sent back for another try (36).

use crate::header::header;
use crate::text::Text;

header! {
    /// Header of 36.
    ConsumerSendMessageBack {
        /// Physical.
        offset: i64 = required "offset",
        group: Text = required "group",
        /// 0: the broker chooses; negative: to the dead letters.
        delay_level: i32 = required "delayLevel",
        origin_message_id: Option<Text> = optional "originMsgId",
        origin_topic: Option<Text> = optional "originTopic",
        unit_mode: bool = or(false) "unitMode",
        max_reconsume_times: Option<i32> = optional "maxReconsumeTimes",
    }
}
