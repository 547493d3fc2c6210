//! Figures of a broker.

use super::body;
use crate::text::Text;

body! {
    /// A count within a window.
    struct BrokerStatsItem {
        /// Value a call.
        pub avgpt: f64,
        pub sum: i64,
        /// Value a second.
        pub tps: f64,
    }

    /// Body of 315.
    struct BrokerStatsData {
        pub stats_day: BrokerStatsItem,
        pub stats_hour: BrokerStatsItem,
        pub stats_minute: BrokerStatsItem,
    }

    /// A slave as its master sees it.
    struct HaConnectionInfo {
        pub addr: Text,
        pub diff: i64,
        pub in_sync: bool,
        pub slave_ack_offset: i64,
        pub transfer_from_where: i64,
        pub transferred_byte_in_second: i64,
    }

    /// The replication of a slave.
    struct HaClientInfo {
        pub last_read_timestamp: i64,
        pub last_write_timestamp: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub master_addr: Option<Text>,
        pub master_flush_offset: i64,
        pub max_offset: i64,
        pub transferred_byte_in_second: i64,
    }

    /// Body of 907.
    struct HaRuntimeInfo {
        pub ha_client_runtime_info: HaClientInfo,
        pub ha_connection_info: Vec<HaConnectionInfo>,
        pub in_sync_slave_nums: i32,
        pub master: bool,
        pub master_commit_log_max_offset: i64,
    }
}
