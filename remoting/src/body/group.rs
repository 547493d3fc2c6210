//! Consumer groups: configurations and lists.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::topic::DataVersion;
use super::{body, words};
use crate::text::Text;

words! {
    RetryPolicyType {
        Exponential = "EXPONENTIAL",
        #[default]
        Customized = "CUSTOMIZED",
    }
}

body! {
    /// Delays one after the other, milliseconds.
    struct CustomizedRetryPolicy {
        pub next: Vec<i64>,
    }

    /// Delays that grow, milliseconds.
    struct ExponentialRetryPolicy {
        pub initial: i64,
        pub max: i64,
        pub multiplier: i64,
    }

    /// How long a message waits before it is tried again; of use to POP only.
    struct GroupRetryPolicy {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub customized_retry_policy: Option<CustomizedRetryPolicy>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub exponential_retry_policy: Option<ExponentialRetryPolicy>,
        #[serde(rename = "type")]
        pub kind: RetryPolicyType,
    }

    /// A topic that a group is configured to subscribe to.
    struct SimpleSubscriptionData {
        pub expression: Text,
        pub expression_type: Text,
        pub topic: Text,
        pub version: i64,
    }
}

/// A group of one broker: body of 200 and 352.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupConfig {
    pub attributes: BTreeMap<Text, Text>,
    pub broker_id: i64,
    pub consume_broadcast_enable: bool,
    pub consume_enable: bool,
    pub consume_from_min_enable: bool,
    pub consume_message_orderly: bool,
    pub consume_timeout_minute: i32,
    pub group_name: Text,
    pub group_retry_policy: GroupRetryPolicy,
    pub group_sys_flag: i32,
    pub notify_consumer_ids_changed_enable: bool,
    pub retry_max_times: i32,
    pub retry_queue_nums: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data_set: Option<Vec<SimpleSubscriptionData>>,
    pub which_broker_when_consume_slowly: i64,
}

impl Default for SubscriptionGroupConfig {
    fn default() -> SubscriptionGroupConfig {
        SubscriptionGroupConfig {
            attributes: BTreeMap::new(),
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            consume_message_orderly: false,
            consume_timeout_minute: 15,
            group_name: Text::EMPTY,
            group_retry_policy: GroupRetryPolicy::default(),
            group_sys_flag: 0,
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            subscription_data_set: None,
            which_broker_when_consume_slowly: 1,
        }
    }
}

body! {
    /// Body of 225.
    struct SubscriptionGroupList {
        pub group_config_list: Vec<SubscriptionGroupConfig>,
    }

    /// Body of 201.
    struct SubscriptionGroupTable {
        pub data_version: DataVersion,
        /// Group, topic, and bits; bit 2 forbids reading.
        pub forbidden_table: BTreeMap<Text, BTreeMap<Text, i32>>,
        pub subscription_group_table: BTreeMap<Text, SubscriptionGroupConfig>,
    }

    /// Body of 300.
    struct GroupList {
        pub group_list: BTreeSet<Text>,
    }

    /// Body of 5003.
    struct DeleteGroupList {
        pub clean_offset: bool,
        pub group_name_list: Vec<Text>,
    }

    /// Answer to 353.
    struct GroupForbidden {
        pub group: Text,
        pub readable: bool,
        pub topic: Text,
    }
}
