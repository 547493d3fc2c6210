//! Headers of calls about a broker's figures, configuration and state (26, 315, 321, 323, 906, 908).

use crate::header::header;
use crate::text::Text;

header! {
    /// Answer to 26.
    BrokerConfigResponse {
        /// A data version as JSON.
        version: Text = required "version",
    }
}

header! {
    /// Header of 315.
    ViewBrokerStatsData {
        stats_name: Text = required "statsName",
        stats_key: Text = required "statsKey",
    }
}

header! {
    /// Header of 321.
    QueryConsumeQueue {
        topic: Text = required "topic",
        queue_id: i32 = required "queueId",
        index: i64 = required "index",
        count: i32 = required "count",
        consumer_group: Option<Text> = optional "consumerGroup",
    }
}

header! {
    /// Header of 323.
    ResumeCheckHalfMessage {
        topic: Option<Text> = optional "topic",
        message_id: Text = required "msgId",
    }
}

header! {
    /// Header of 906 and its answer.
    ExchangeHaInfo {
        master_ha_address: Option<Text> = optional "masterHaAddress",
        master_flush_offset: Option<i64> = optional "masterFlushOffset",
        master_address: Option<Text> = optional "masterAddress",
    }
}

header! {
    /// Header of 908.
    ResetMasterFlushOffset {
        master_flush_offset: i64 = required "masterFlushOffset",
    }
}
