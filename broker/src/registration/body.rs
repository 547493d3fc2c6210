//! What a broker tells a nameserver: header and body of a registration. Pure.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use remoting::body::register::RegisterBrokerBody;
use remoting::body::route::permission;
use remoting::body::topic::{DataVersion, TopicConfig, TopicConfigTable};
use remoting::header::namesrv::{QueryDataVersion, RegisterBroker, UnregisterBroker};
use remoting::json;
use remoting::name;
use remoting::text::Text;

use crate::config::Config;
use crate::topic::Topic;

/// How the broker is known to nameservers and clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) cluster: Text,
    pub(crate) broker: Text,
    /// `ip:port` that clients dial.
    pub(crate) address: Text,
    pub(crate) ha_address: Text,
    pub(crate) broker_id: i64,
    /// The permission of the whole broker.
    pub(crate) permission: i32,
}

impl Facts {
    /// As the configuration says, with the port that the broker really listens on.
    pub(crate) fn new(config: &Config, listen_port: u16) -> Facts {
        let address = config.network.advertised_address;
        // There is no replication; the port beside ours is where others expect it.
        let ha_address = SocketAddr::new(address, listen_port.wrapping_add(1));
        Facts {
            cluster: Text::from(&config.identity.cluster),
            broker: Text::from(&config.identity.broker),
            address: Text::from(SocketAddr::new(address, listen_port).to_string()),
            ha_address: Text::from(ha_address.to_string()),
            broker_id: i64::try_from(config.identity.broker_id).unwrap_or(i64::MAX),
            permission: i32::from(config.registration.permission.0),
        }
    }

    pub(super) fn register_header(&self) -> RegisterBroker {
        RegisterBroker {
            broker_name: self.broker.clone(),
            broker_addr: self.address.clone(),
            cluster_name: self.cluster.clone(),
            ha_server_addr: self.ha_address.clone(),
            broker_id: self.broker_id,
            heartbeat_timeout_ms: None,
            enable_acting_master: Some(false),
            compressed: false,
            body_crc32: 0,
            zone_name: None,
        }
    }

    pub(super) fn version_header(&self) -> QueryDataVersion {
        QueryDataVersion {
            broker_name: self.broker.clone(),
            broker_addr: self.address.clone(),
            cluster_name: self.cluster.clone(),
            broker_id: self.broker_id,
        }
    }

    pub(super) fn unregister_header(&self) -> UnregisterBroker {
        UnregisterBroker {
            broker_name: self.broker.clone(),
            broker_addr: self.address.clone(),
            cluster_name: self.cluster.clone(),
            broker_id: self.broker_id,
        }
    }
}

/// The body of a registration of these topics. Light queues are not told: there are too many, and who reads one knows
/// the broker by the topic that its messages are sent to.
pub(super) fn register_body(topics: &[Arc<Topic>], version: DataVersion, broker_permission: i32) -> Bytes {
    let published = |topic: &Arc<Topic>| {
        let perm = published_permission(topic.config.perm, broker_permission);
        (topic.name().clone(), TopicConfig { perm, ..topic.config.clone() })
    };
    json::encode(&RegisterBrokerBody {
        filter_server_list: Vec::new(),
        topic_config_serialize_wrapper: TopicConfigTable {
            data_version: version,
            mapping_data_version: Some(DataVersion::default()),
            topic_config_table: topics
                .iter()
                .filter(|topic| !name::is_light_topic(topic.name()))
                .map(published)
                .collect(),
            topic_queue_mapping_detail_map: BTreeMap::new(),
            topic_queue_mapping_info_map: Some(BTreeMap::new()),
        },
    })
}

/// Reading and writing need the broker's permission too; the other bits are the topic's alone.
fn published_permission(topic: i32, broker: i32) -> i32 {
    topic & (broker | !permission::READ_WRITE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brokers_permission_takes_away_but_does_not_give() {
        for (topic, broker, published) in
            [(6, 6, 6), (7, 6, 7), (6, 4, 4), (7, 4, 5), (4, 2, 0), (2, 6, 2), (6, 0, 0), (1, 6, 1)]
        {
            assert_eq!(published_permission(topic, broker), published, "{topic} of {broker}");
        }
    }

    #[test]
    fn a_body_looks_like_the_peers() {
        let config = TopicConfig { topic_name: Text::from("T"), ..TopicConfig::default() };
        let topic = Arc::new(Topic::new(0, config, false));
        let version = DataVersion { counter: 2, state_version: 0, timestamp: 1_700_000_000_000 };
        let body = register_body(&[topic], version, 4);
        assert_eq!(
            std::str::from_utf8(&body).unwrap(),
            concat!(
                r#"{"filterServerList":[],"topicConfigSerializeWrapper":{"#,
                r#""dataVersion":{"counter":2,"stateVersion":0,"timestamp":1700000000000},"#,
                r#""mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"#,
                r#""topicConfigTable":{"T":{"attributes":{},"order":false,"perm":4,"readQueueNums":16,"#,
                r#""topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":16}},"#,
                r#""topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}"#
            )
        );
    }
}
