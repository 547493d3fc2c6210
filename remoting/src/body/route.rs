//! Where a topic's queues are.

use std::collections::BTreeMap;

use serde_json::Value;

use super::body;
use super::cluster::BrokerData;
use crate::text::Text;

/// Bits of a topic's and a broker's permission.
pub mod permission {
    pub const INHERIT: i32 = 1;
    pub const WRITE: i32 = 2;
    pub const READ: i32 = 4;
    pub const PRIORITY: i32 = 8;
    pub const READ_WRITE: i32 = READ | WRITE;
}

/// Bits of a topic's system flag.
pub mod topic_sys_flag {
    pub const UNIT: i32 = 1;
    pub const UNIT_SUB: i32 = 2;
}

body! {
    /// The queues of a topic on one broker.
    struct QueueData {
        pub broker_name: Text,
        /// The [`permission`] bits.
        pub perm: i32,
        pub read_queue_nums: i32,
        pub topic_sys_flag: i32,
        pub write_queue_nums: i32,
    }

    /// Body of 105 and 217.
    struct TopicRouteData {
        pub broker_datas: Vec<BrokerData>,
        pub filter_server_table: BTreeMap<Text, Vec<Text>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub order_topic_conf: Option<Text>,
        pub queue_datas: Vec<QueueData>,
        /// Of static topics, by broker name. Anything but absence makes clients use logical queues.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub topic_queue_mapping_by_broker: Option<BTreeMap<Text, Value>>,
    }
}
