//! The entries of one queue.

use super::body;
use crate::subscription::SubscriptionData;
use crate::text::Text;

body! {
    struct ConsumeQueueData {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bit_map: Option<Text>,
        /// Whether the entry matches the subscription asked for.
        pub eval: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub extend_data_json: Option<Text>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub msg: Option<Text>,
        pub physic_offset: i64,
        pub physic_size: i32,
        pub tags_code: i64,
    }

    /// Answer to 321.
    struct QueryConsumeQueueResponse {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub filter_data: Option<Text>,
        pub max_queue_index: i64,
        pub min_queue_index: i64,
        pub queue_data: Vec<ConsumeQueueData>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub subscription_data: Option<SubscriptionData>,
    }
}
