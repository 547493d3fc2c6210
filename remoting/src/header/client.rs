//! Headers around clients and the members of groups (34, 35, 38, 40, 220, 221).

use crate::header::header;
use crate::text::Text;

header! {
    /// Answer to 34. Clients that see neither field stay with the first version of heartbeats.
    HeartbeatResponse {
        heartbeat_v2_supported: Option<bool> = optional "IS_SUPPORT_HEART_BEAT_V2",
        subscription_changed: Option<bool> = optional "IS_SUB_CHANGE",
    }
}

header! {
    /// Header of 35.
    UnregisterClient {
        client_id: Text = required "clientID",
        producer_group: Option<Text> = optional "producerGroup",
        consumer_group: Option<Text> = optional "consumerGroup",
    }
}

header! {
    /// Header of 38.
    ConsumerListByGroup {
        consumer_group: Text = required "consumerGroup",
    }
}

header! {
    /// Header of 40, which brokers send.
    NotifyConsumerIdsChanged {
        consumer_group: Text = required "consumerGroup",
    }
}

header! {
    /// Header of 220, which brokers send.
    ResetConsumerOffset {
        topic: Text = required "topic",
        group: Text = required "group",
        timestamp_ms: i64 = required "timestamp",
        force: bool = or(false) "isForce",
        queue_id: Option<i32> = optional "queueId",
    }
}

header! {
    /// Header of 221, which brokers send.
    ConsumerStatusFromClient {
        topic: Text = required "topic",
        group: Text = required "group",
        client_addr: Option<Text> = optional "clientAddr",
    }
}
