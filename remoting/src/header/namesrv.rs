//! Headers of calls to the nameserver (100 to 106, 205, 216, 219, 224, 322, 327, 901, 904, 905).

use crate::header::header;
use crate::text::Text;

header! {
    /// Header of 100.
    PutKvConfig {
        namespace: Text = required "namespace",
        key: Text = required "key",
        value: Text = required "value",
    }
}

header! {
    /// Header of 101 and 102.
    KvConfigRequest {
        namespace: Text = required "namespace",
        key: Text = required "key",
    }
}

header! {
    /// Answer to 101.
    GetKvConfigResponse {
        value: Option<Text> = optional "value",
    }
}

header! {
    /// Header of 219.
    KvListByNamespace {
        namespace: Text = required "namespace",
    }
}

header! {
    /// Header of 103.
    RegisterBroker {
        broker_name: Text = required "brokerName",
        /// `ip:port` that clients dial.
        broker_addr: Text = required "brokerAddr",
        cluster_name: Text = required "clusterName",
        ha_server_addr: Text = required "haServerAddr",
        /// 0 is the master.
        broker_id: i64 = required "brokerId",
        heartbeat_timeout_ms: Option<i64> = optional "heartbeatTimeoutMillis",
        /// Absent of brokers that do not know it.
        enable_acting_master: Option<bool> = optional "enableActingMaster",
        compressed: bool = or(false) "compressed",
        /// 0: not checked.
        body_crc32: i32 = or(0) "bodyCrc32",
        zone_name: Option<Text> = optional "__ZONE_NAME",
    }
}

header! {
    /// Answer to 103.
    RegisterBrokerResponse {
        ha_server_addr: Option<Text> = optional "haServerAddr",
        master_addr: Option<Text> = optional "masterAddr",
    }
}

header! {
    /// Header of 104.
    UnregisterBroker {
        broker_name: Text = required "brokerName",
        broker_addr: Text = required "brokerAddr",
        cluster_name: Text = required "clusterName",
        broker_id: i64 = required "brokerId",
    }
}

header! {
    /// Header of 105.
    GetRouteInfo {
        topic: Text = required "topic",
        accept_standard_json_only: bool = or(false) "acceptStandardJsonOnly",
        zone_name: Option<Text> = optional "__ZONE_NAME",
        zone_mode: bool = or(false) "__ZONE_MODE",
    }
}

header! {
    /// Header of 205 and 327.
    BrokerNameRequest {
        broker_name: Text = required "brokerName",
    }
}

header! {
    /// Answer to 205.
    WipeWritePermResponse {
        topic_count: i32 = required "wipeTopicCount",
    }
}

header! {
    /// Answer to 327.
    AddWritePermResponse {
        topic_count: i32 = required "addTopicCount",
    }
}

header! {
    /// Header of 216.
    DeleteTopicInNamesrv {
        topic: Text = required "topic",
        cluster_name: Option<Text> = optional "clusterName",
    }
}

header! {
    /// Header of 224.
    TopicsByCluster {
        cluster: Text = required "cluster",
    }
}

header! {
    /// Header of 322.
    QueryDataVersion {
        broker_name: Text = required "brokerName",
        broker_addr: Text = required "brokerAddr",
        cluster_name: Text = required "clusterName",
        broker_id: i64 = required "brokerId",
    }
}

header! {
    /// Answer to 322.
    QueryDataVersionResponse {
        changed: bool = required "changed",
    }
}

header! {
    /// Header of 901.
    GetBrokerMemberGroup {
        cluster_name: Text = required "clusterName",
        broker_name: Text = required "brokerName",
    }
}

header! {
    /// Header of 904.
    BrokerHeartbeat {
        cluster_name: Text = required "clusterName",
        broker_addr: Text = required "brokerAddr",
        broker_name: Text = required "brokerName",
        broker_id: Option<i64> = optional "brokerId",
        epoch: Option<i32> = optional "epoch",
        max_offset: Option<i64> = optional "maxOffset",
        confirm_offset: Option<i64> = optional "confirmOffset",
        heartbeat_timeout_ms: Option<i64> = optional "heartbeatTimeoutMills",
        election_priority: Option<i32> = optional "electionPriority",
    }
}

header! {
    /// Header of 905, which nameservers send.
    NotifyMinBrokerIdChange {
        min_broker_id: Option<i64> = optional "minBrokerId",
        broker_name: Option<Text> = optional "brokerName",
        min_broker_addr: Option<Text> = optional "minBrokerAddr",
        offline_broker_addr: Option<Text> = optional "offlineBrokerAddr",
        ha_broker_addr: Option<Text> = optional "haBrokerAddr",
    }
}
