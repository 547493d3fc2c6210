//! How far groups have come.

use std::collections::BTreeMap;

use super::topic::DataVersion;
use super::{MessageQueue, QueueMap, body};
use crate::subscription::SubscriptionData;
use crate::text::Text;

body! {
    /// How far a group has come in one queue.
    struct OffsetWrapper {
        pub broker_offset: i64,
        pub consumer_offset: i64,
        /// Store time of the last consumed message, milliseconds; 0 unknown.
        pub last_timestamp: i64,
        pub pull_offset: i64,
    }

    /// Body of 208.
    struct ConsumeStats {
        pub consume_tps: f64,
        pub offset_table: QueueMap<OffsetWrapper>,
    }

    /// Body of 317.
    struct ConsumeStatsList {
        pub broker_addr: Text,
        /// One map of one group each.
        pub consume_stats_list: Vec<BTreeMap<Text, Vec<ConsumeStats>>>,
        pub total_diff: i64,
        pub total_inflight_diff: i64,
    }

    /// Answer to 222, and body of the push 220 to clients.
    struct ResetOffsetBody {
        pub offset_table: QueueMap<i64>,
    }

    /// One queue of the push 220 to a C++ client.
    struct QueueOffsetForCpp {
        pub broker_name: Text,
        pub offset: i64,
        pub queue_id: i32,
        pub topic: Text,
    }

    /// Body of the push 220 to a C++ client, which reads plain JSON only.
    struct ResetOffsetBodyForCpp {
        pub offset_table: Vec<QueueOffsetForCpp>,
    }

    /// Answer to 221, and of the broker to 223.
    struct GetConsumerStatusBody {
        /// By client id; in the broker's answer.
        pub consumer_table: BTreeMap<Text, QueueMap<i64>>,
        /// In a client's answer.
        pub message_queue_table: QueueMap<i64>,
    }

    /// The times between which a group's backlog lies; milliseconds.
    struct QueueTimeSpan {
        pub consume_time_stamp: i64,
        pub delay_time: i64,
        pub max_time_stamp: i64,
        pub message_queue: MessageQueue,
        pub min_time_stamp: i64,
    }

    /// Body of 303.
    struct QueryConsumeTimeSpan {
        pub consume_time_span_set: Vec<QueueTimeSpan>,
    }

    /// Body of 308: offset by queue id.
    struct QueryCorrectionOffset {
        pub correction_offsets: BTreeMap<i32, i64>,
    }

    /// Body of 345.
    struct QuerySubscription {
        pub group: Text,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub subscription_data: Option<SubscriptionData>,
        pub topic: Text,
    }

    /// Body of 43: offset by queue id, by `topic@group`.
    struct ConsumerOffsetTable {
        pub data_version: DataVersion,
        pub offset_table: BTreeMap<Text, BTreeMap<i32, i64>>,
    }

    /// Body of 45: offset in the schedule queue by delay level.
    struct DelayOffsetTable {
        pub data_version: DataVersion,
        pub offset_table: BTreeMap<i32, i64>,
    }
}
