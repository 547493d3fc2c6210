//! Headers of calls about how far groups have come (208, 222, 303, 308, 314, 317, 345).

use crate::header::header;
use crate::text::Text;

header! {
    /// Header of 208.
    ConsumeStatsRequest {
        consumer_group: Text = required "consumerGroup",
        topic: Option<Text> = optional "topic",
        /// Topics joined by `;`.
        topic_list: Option<Text> = optional "topicList",
    }
}

header! {
    /// Header of 317.
    BrokerConsumeStats {
        order: bool = required "isOrder",
    }
}

header! {
    /// Header of 222.
    InvokeResetOffset {
        group: Text = required "group",
        topic: Text = required "topic",
        /// -1 is the latest.
        timestamp_ms: i64 = required "timestamp",
        force: bool = required "isForce",
        /// Negative: all queues.
        queue_id: i32 = or(-1) "queueId",
        /// Negative: by the timestamp.
        offset: i64 = or(-1) "offset",
    }
}

header! {
    /// Header of 303.
    ConsumeTimeSpan {
        topic: Text = required "topic",
        group: Text = required "group",
    }
}

header! {
    /// Header of 308.
    CorrectionOffset {
        compare_group: Text = required "compareGroup",
        topic: Text = required "topic",
        /// Groups joined by commas.
        filter_groups: Option<Text> = optional "filterGroups",
    }
}

header! {
    /// Header of 314.
    CloneGroupOffset {
        source_group: Text = required "srcGroup",
        target_group: Text = required "destGroup",
        topic: Option<Text> = optional "topic",
        offline: bool = or(false) "offline",
    }
}

header! {
    /// Header of 345.
    QuerySubscriptionByConsumer {
        group: Text = required "group",
        topic: Option<Text> = optional "topic",
    }
}
