//! Brokers and clusters as the nameserver tells them.

use std::collections::{BTreeMap, BTreeSet};

use super::body;
use crate::text::Text;

/// The id of a broker's master.
pub const MASTER_ID: i64 = 0;

body! {
    /// The addresses of one broker name. Go takes `brokerAddrs` apart by hand: it must be there, compact, and plain.
    struct BrokerData {
        /// `ip:port` by broker id; 0 is the master.
        pub broker_addrs: BTreeMap<i64, Text>,
        pub broker_name: Text,
        pub cluster: Text,
        pub enable_acting_master: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub zone_name: Option<Text>,
    }

    /// Body of 106.
    struct ClusterInfo {
        pub broker_addr_table: BTreeMap<Text, BrokerData>,
        pub cluster_addr_table: BTreeMap<Text, BTreeSet<Text>>,
    }

    /// The addresses of one broker name, of 901.
    struct BrokerMemberGroup {
        pub broker_addrs: BTreeMap<i64, Text>,
        pub broker_name: Text,
        pub cluster: Text,
    }

    /// Body of 901.
    struct BrokerMemberGroupBody {
        pub broker_member_group: BrokerMemberGroup,
    }
}
