//! Topics: configurations, lists and figures.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{QueueMap, body, words};
use crate::text::Text;

words! {
    /// How many tags a message of the topic has.
    TopicFilterType {
        #[default]
        SingleTag = "SINGLE_TAG",
        MultiTag = "MULTI_TAG",
    }
}

/// A topic of one broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfig {
    pub attributes: BTreeMap<Text, Text>,
    pub order: bool,
    /// The bits of [`super::route::permission`].
    pub perm: i32,
    pub read_queue_nums: i32,
    pub topic_filter_type: TopicFilterType,
    pub topic_name: Text,
    pub topic_sys_flag: i32,
    pub write_queue_nums: i32,
}

/// Queues of a topic whose configuration does not tell their number.
const QUEUES_DEFAULT: i32 = 16;

impl Default for TopicConfig {
    fn default() -> TopicConfig {
        TopicConfig {
            attributes: BTreeMap::new(),
            order: false,
            perm: super::route::permission::READ_WRITE,
            read_queue_nums: QUEUES_DEFAULT,
            topic_filter_type: TopicFilterType::SingleTag,
            topic_name: Text::EMPTY,
            topic_sys_flag: 0,
            write_queue_nums: QUEUES_DEFAULT,
        }
    }
}

/// Tells one state of a table from another. Two are equal when all three numbers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataVersion {
    pub counter: i64,
    pub state_version: i64,
    /// Milliseconds.
    pub timestamp: i64,
}

body! {
    /// Body of 18.
    struct TopicConfigList {
        pub topic_config_list: Vec<TopicConfig>,
    }

    /// All topics of a broker: body of 21, part of 103.
    struct TopicConfigTable {
        pub data_version: DataVersion,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mapping_data_version: Option<DataVersion>,
        pub topic_config_table: BTreeMap<Text, TopicConfig>,
        /// Of static topics.
        pub topic_queue_mapping_detail_map: BTreeMap<Text, Value>,
        /// Of static topics; only in 103.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub topic_queue_mapping_info_map: Option<BTreeMap<Text, Value>>,
    }

    /// Body of 206, 224, 304, 305, 311 to 313, 343 and 5002.
    struct TopicList {
        /// Some live broker; only in 304 and 343.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub broker_addr: Option<Text>,
        pub topic_list: BTreeSet<Text>,
    }

    /// The offsets of one queue.
    struct TopicOffset {
        /// Store time of the newest message, milliseconds; 0 of an empty queue.
        pub last_update_timestamp: i64,
        pub max_offset: i64,
        pub min_offset: i64,
    }

    /// Body of 202.
    struct TopicStatsTable {
        pub offset_table: QueueMap<TopicOffset>,
        /// Messages a second.
        pub topic_put_tps: f64,
    }
}
