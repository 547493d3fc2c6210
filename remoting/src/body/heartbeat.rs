//! What clients tell brokers of themselves, and the bodies of the calls around a consumer group.

use std::collections::BTreeSet;

use super::{MessageQueue, body, words};
use crate::subscription::SubscriptionData;
use crate::text::Text;

words! {
    ConsumeType {
        /// Pulls.
        Actively = "CONSUME_ACTIVELY",
        /// Is pushed to.
        #[default]
        Passively = "CONSUME_PASSIVELY",
        Pop = "CONSUME_POP",
    }
}

words! {
    MessageModel {
        Broadcasting = "BROADCASTING",
        #[default]
        Clustering = "CLUSTERING",
    }
}

words! {
    /// Where a group without offsets begins.
    ConsumeFromWhere {
        #[default]
        LastOffset = "CONSUME_FROM_LAST_OFFSET",
        LastOffsetAndMinWhenBootFirst = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        MinOffset = "CONSUME_FROM_MIN_OFFSET",
        MaxOffset = "CONSUME_FROM_MAX_OFFSET",
        FirstOffset = "CONSUME_FROM_FIRST_OFFSET",
        Timestamp = "CONSUME_FROM_TIMESTAMP",
    }
}

body! {
    struct ProducerData {
        pub group_name: Text,
    }

    struct ConsumerData {
        pub consume_from_where: ConsumeFromWhere,
        pub consume_type: ConsumeType,
        pub group_name: Text,
        pub message_model: MessageModel,
        pub subscription_data_set: Vec<SubscriptionData>,
        pub unit_mode: bool,
    }

    /// Body of 34.
    struct Heartbeat {
        #[serde(rename = "clientID")]
        pub client_id: Text,
        pub consumer_data_set: Vec<ConsumerData>,
        /// 0 of clients that do not know it.
        pub heartbeat_fingerprint: i32,
        pub producer_data_set: Vec<ProducerData>,
        /// The subscriptions are left out and the known ones stay.
        pub without_sub: bool,
    }

    /// Body of 46.
    struct CheckClientConfig {
        pub client_id: Text,
        pub group: Text,
        pub namespace: Text,
        pub subscription_data: SubscriptionData,
    }

    /// Answer to 38.
    struct ConsumerList {
        pub consumer_id_list: Vec<Text>,
    }

    /// Body of 41 and 42.
    struct LockBatch {
        pub client_id: Text,
        pub consumer_group: Text,
        pub mq_set: BTreeSet<MessageQueue>,
        pub only_this_broker: bool,
    }

    /// Answer to 41: the queues that are the caller's now.
    struct LockBatchResponse {
        #[serde(rename = "lockOKMQSet")]
        pub locked: BTreeSet<MessageQueue>,
    }
}
