//! How clients and tools see the table: routes, clusters, lists of topics.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use remoting::Text;
use remoting::body::cluster::{BrokerData, BrokerMemberGroup, ClusterInfo, MASTER_ID};
use remoting::body::route::{QueueData, TopicRouteData, permission, topic_sys_flag};
use remoting::body::topic::TopicList;

use super::BrokerAddress;
use super::table::Table;

/// Topics of this prefix are for the brokers of one name among themselves: they see who is really there.
const SYNC_MEMBER_GROUP_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";

/// Which topics a list has, by their system flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitFilter {
    Unit,
    UnitSub,
    UnitSubButNotUnit,
}

impl UnitFilter {
    fn takes(self, flag: i32) -> bool {
        let (is_unit, is_unit_sub) = (flag & topic_sys_flag::UNIT != 0, flag & topic_sys_flag::UNIT_SUB != 0);
        match self {
            UnitFilter::Unit => is_unit,
            UnitFilter::UnitSub => is_unit_sub,
            UnitFilter::UnitSubButNotUnit => is_unit_sub && !is_unit,
        }
    }
}

impl Table {
    /// Where a topic's queues are; `None` when it has none. With `supports_acting_master`, the lowest slave of a name
    /// without a master is shown as its master, so that clients go on reading.
    pub(crate) fn route(&self, topic: &str, supports_acting_master: bool) -> Option<TopicRouteData> {
        let queues = self.topics.get(topic)?;
        let queue_datas: Vec<QueueData> = queues.values().cloned().collect();
        let mut broker_datas: Vec<BrokerData> = queues.keys().map(|name| self.brokers[name].clone()).collect();
        let mut filter_server_table = BTreeMap::new();
        for data in &broker_datas {
            for address in data.broker_addrs.values() {
                let broker = BrokerAddress { cluster: data.cluster.clone(), address: address.clone() };
                let known = self.known.get(&broker).filter(|known| !known.filter_servers.is_empty());
                if let Some(known) = known {
                    filter_server_table.insert(address.clone(), known.filter_servers.clone());
                }
            }
        }
        if supports_acting_master && !topic.starts_with(SYNC_MEMBER_GROUP_PREFIX) {
            broker_datas.iter_mut().for_each(|data| show_acting_master(data, &queues[&data.broker_name]));
        }
        let topic_queue_mapping_by_broker = self.mappings.get(topic).cloned();
        let order_topic_conf = None;
        Some(TopicRouteData {
            broker_datas,
            filter_server_table,
            order_topic_conf,
            queue_datas,
            topic_queue_mapping_by_broker,
        })
    }

    pub(crate) fn cluster_info(&self) -> ClusterInfo {
        ClusterInfo { broker_addr_table: self.brokers.clone(), cluster_addr_table: self.clusters.clone() }
    }

    /// Every topic.
    pub(crate) fn topic_list(&self) -> TopicList {
        TopicList { broker_addr: None, topic_list: self.topics.keys().cloned().collect() }
    }

    /// Topics with queues on a broker of the cluster.
    pub(crate) fn topics_of_cluster(&self, cluster: &str) -> TopicList {
        let Some(names) = self.clusters.get(cluster) else { return TopicList::default() };
        let is_there = |queues: &BTreeMap<Text, QueueData>| queues.keys().any(|name| names.contains(name));
        self.topics_where(is_there)
    }

    /// Topics of which a broker has the flags.
    pub(crate) fn unit_topics(&self, filter: UnitFilter) -> TopicList {
        self.topics_where(|queues| queues.values().any(|queue| filter.takes(queue.topic_sys_flag)))
    }

    fn topics_where(&self, takes: impl Fn(&BTreeMap<Text, QueueData>) -> bool) -> TopicList {
        let topics = self.topics.iter().filter(|(_, queues)| takes(queues)).map(|(topic, _)| topic.clone());
        TopicList { broker_addr: None, topic_list: topics.collect() }
    }

    /// The names that are topics of the system's own: those of clusters and brokers. Tools ask the broker whose
    /// address stands here for the rest.
    pub(crate) fn system_topics(&self) -> TopicList {
        let names = self.clusters.keys().chain(self.clusters.values().flatten());
        let mut addresses = self.brokers.values().flat_map(|data| data.broker_addrs.values());
        TopicList { broker_addr: addresses.next().cloned(), topic_list: names.cloned().collect() }
    }

    /// Who has this broker name; nobody when it is unknown.
    pub(crate) fn member_group(&self, cluster: &Text, broker_name: &Text) -> BrokerMemberGroup {
        let broker_addrs = self.brokers.get(broker_name).map(|data| data.broker_addrs.clone()).unwrap_or_default();
        BrokerMemberGroup { broker_addrs, broker_name: broker_name.clone(), cluster: cluster.clone() }
    }
}

fn show_acting_master(data: &mut BrokerData, queue: &QueueData) {
    if !data.enable_acting_master || queue.perm & permission::WRITE != 0 || data.broker_addrs.contains_key(&MASTER_ID) {
        return;
    }
    if let Some((_, address)) = data.broker_addrs.pop_first() {
        data.broker_addrs.insert(MASTER_ID, address);
    }
}

/// Leaves the brokers of one zone, and those without a master, which must be read from wherever they are.
pub(crate) fn keep_zone(route: &mut TopicRouteData, zone: &str) {
    let is_near = |data: &BrokerData| {
        let is_same = data.zone_name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(zone));
        is_same || !data.broker_addrs.contains_key(&MASTER_ID)
    };
    let (near, far): (Vec<_>, Vec<_>) = std::mem::take(&mut route.broker_datas).into_iter().partition(is_near);
    let names: BTreeSet<&Text> = near.iter().map(|data| &data.broker_name).collect();
    route.queue_datas.retain(|queue| names.contains(&queue.broker_name));
    for address in far.iter().flat_map(|data| data.broker_addrs.values()) {
        route.filter_server_table.remove(address);
    }
    route.broker_datas = near;
}

/// JSON with everything beyond ASCII escaped, as clients that want it strictly standard get it.
pub(crate) fn ascii_json(json: Bytes) -> Bytes {
    if json.is_ascii() {
        return json;
    }
    let text = std::str::from_utf8(&json).expect("a JSON writer writes text");
    let mut out = String::with_capacity(json.len() * 2);
    let mut units = [0; 2];
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04X}"));
        }
    }
    Bytes::from(out)
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
