//! Who is connected.

use std::collections::BTreeMap;

use super::body;
use super::heartbeat::{ConsumeFromWhere, ConsumeType, MessageModel};
use crate::subscription::SubscriptionData;
use crate::text::Text;

body! {
    struct Connection {
        /// `ip:port`.
        pub client_addr: Text,
        pub client_id: Text,
        /// A name of [`crate::command::Language`].
        pub language: Text,
        pub version: i32,
    }

    /// Body of 203.
    struct ConsumerConnection {
        pub connection_set: Vec<Connection>,
        pub consume_from_where: ConsumeFromWhere,
        pub consume_type: ConsumeType,
        pub message_model: MessageModel,
        pub subscription_table: BTreeMap<Text, SubscriptionData>,
    }

    /// Body of 204.
    struct ProducerConnection {
        pub connection_set: Vec<Connection>,
    }

    struct ProducerInfo {
        pub client_id: Text,
        pub language: Text,
        /// Milliseconds.
        pub last_update_timestamp: i64,
        #[serde(rename = "remoteIP")]
        pub remote_ip: Text,
        pub version: i32,
    }

    /// Body of 328: the producers of each group.
    struct ProducerTable {
        pub data: BTreeMap<Text, Vec<ProducerInfo>>,
    }
}
