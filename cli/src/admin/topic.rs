//! Topics: lists, routes, figures, making and deleting.

use clap::{ArgAction, Args};
use client::{ClientError, TopicSettings};
use remoting::body::cluster::BrokerData;
use remoting::body::route::{TopicRouteData, permission};
use remoting::code::ResponseCode;
use remoting::name;
use remoting::text::Text;
use serde_json::Value;

use super::targets::{Targets, masters_of};
use super::{Session, Tally, order};
use crate::failure::{Exit, Failure};
use crate::table::Table;
use crate::time;

/// Queues of a topic that is made without their number.
const QUEUES_DEFAULT: i32 = 8;

#[derive(Debug, Args)]
pub(super) struct TopicList {
    /// Print cluster and consumer groups too, and leave out topics of retries and dead letters
    #[arg(short = 'c', long = "clusterModel")]
    with_clusters: bool,
}

impl TopicList {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let topics = session.client.topic_list().await?.topic_list;
        if self.with_clusters {
            return list_with_clusters(session, topics.iter()).await;
        }
        if session.output.is_json() {
            let mut table = Table::new(&[("#Topic", "topic")]);
            topics.iter().for_each(|topic| table.push([Value::from(topic.as_str())]));
            return Ok(session.output.table(&table)?);
        }
        for topic in &topics {
            session.output.line(topic)?;
        }
        Ok(())
    }
}

async fn list_with_clusters(session: &mut Session, topics: impl Iterator<Item = &Text>) -> Result<(), Failure> {
    let mut table =
        Table::new(&[("#Cluster Name", "clusterName"), ("#Topic", "topic"), ("#Consumer Group", "consumerGroup")]);
    let mut tally = Tally::default();
    for topic in topics.filter(|topic| !name::is_retry_topic(topic) && !name::is_dlq_topic(topic)) {
        let Some(route) = tally.wait(session.client.route(topic)).await else { continue };
        let cluster = route.data.broker_datas.first().map(|broker| broker.cluster.clone()).unwrap_or_default();
        let mut groups = std::collections::BTreeSet::new();
        for (_, address) in route.brokers() {
            if let Some(list) = tally.wait(session.client.groups_of_topic(address, topic)).await {
                groups.extend(list.group_list);
            }
        }
        if groups.is_empty() {
            groups.insert(Text::EMPTY);
        }
        for group in groups {
            table.push([&cluster, topic, &group].map(|text| Value::from(text.as_str())));
        }
    }
    session.output.table(&table)?;
    tally.end()
}

#[derive(Debug, Args)]
pub(super) struct TopicRoute {
    #[arg(short = 't', long = "topic")]
    topic: String,
    /// Print a table instead of the route itself
    #[arg(short = 'l', long = "list")]
    list: bool,
}

impl TopicRoute {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let route = session.client.route(&self.topic).await?.data;
        if self.list {
            return Ok(session.output.table(&route_table(&route))?);
        }
        let value = serde_json::to_value(&route).expect("a route that was read can be written");
        let text = if session.output.is_json() { value.to_string() } else { format!("{value:#}") };
        Ok(session.output.line(&text)?)
    }
}

fn route_table(route: &TopicRouteData) -> Table {
    let mut table = Table::new(&[
        ("#ClusterName", "clusterName"),
        ("#BrokerName", "brokerName"),
        ("#BrokerAddrs", "brokerAddrs"),
        ("#ReadQueue", "readQueueNums"),
        ("#WriteQueue", "writeQueueNums"),
        ("#Perm", "perm"),
    ]);
    for queue in &route.queue_datas {
        let broker = route.broker_datas.iter().find(|broker| broker.broker_name == queue.broker_name);
        let addresses: Vec<String> = broker
            .iter()
            .flat_map(|broker| &broker.broker_addrs)
            .map(|(id, address)| format!("{id}={address}"))
            .collect();
        table.push([
            Value::from(broker.map_or("", |broker| broker.cluster.as_str())),
            Value::from(queue.broker_name.as_str()),
            Value::from(format!("{{{}}}", addresses.join(", "))),
            Value::from(queue.read_queue_nums),
            Value::from(queue.write_queue_nums),
            Value::from(queue.perm),
        ]);
    }
    table
}

#[derive(Debug, Args)]
pub(super) struct TopicStatus {
    #[arg(short = 't', long = "topic")]
    topic: String,
}

impl TopicStatus {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let route = session.client.route(&self.topic).await?;
        let mut table = Table::new(&[
            ("#Broker Name", "brokerName"),
            ("#QID", "queueId"),
            ("#Min Offset", "minOffset"),
            ("#Max Offset", "maxOffset"),
            ("#Last Updated", "lastUpdated"),
        ]);
        let mut tally = Tally::default();
        let mut puts_per_second = 0.0;
        for (_, address) in route.brokers() {
            let Some(status) = tally.wait(session.client.topic_status(address, &self.topic)).await else { continue };
            puts_per_second += status.topic_put_tps;
            for (queue, offsets) in status.offset_table.iter() {
                table.push([
                    Value::from(queue.broker_name.as_str()),
                    Value::from(queue.queue_id),
                    Value::from(offsets.min_offset),
                    Value::from(offsets.max_offset),
                    Value::from(time::text_unless_zero(offsets.last_update_timestamp)),
                ]);
            }
        }
        session.output.table(&table)?;
        session.output.note(&format!("\nTopic Put TPS: {puts_per_second:.1}"))?;
        tally.end()
    }
}

#[derive(Debug, Args)]
pub(super) struct UpdateTopic {
    #[command(flatten)]
    targets: Targets,
    #[arg(short = 't', long = "topic")]
    topic: String,
    #[arg(short = 'r', long = "readQueueNums", default_value_t = QUEUES_DEFAULT)]
    read_queue_nums: i32,
    #[arg(short = 'w', long = "writeQueueNums", default_value_t = QUEUES_DEFAULT)]
    write_queue_nums: i32,
    /// 2 write only, 4 read only, 6 both
    #[arg(short = 'p', long = "perm", default_value = "6", value_parser = parse_permission)]
    perm: i32,
    /// Are messages of the topic ordered over all its queues; nameservers are told then how many each broker has
    #[arg(short = 'o', long = "order", action = ArgAction::Set, default_value_t = false)]
    order: bool,
    /// Changes of attributes: +name=value and -name, joined by commas
    #[arg(short = 'a', long = "attributes", allow_hyphen_values = true)]
    attributes: Option<String>,
}

impl UpdateTopic {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        name::check_topic(&self.topic).map_err(|error| Failure::new(Exit::Failure, error.to_string()))?;
        let settings = TopicSettings {
            topic: Text::from(&self.topic),
            read_queue_nums: self.read_queue_nums,
            write_queue_nums: self.write_queue_nums,
            perm: self.perm,
            order: self.order,
            topic_sys_flag: 0,
            attributes: self.attributes.map(Text::from).unwrap_or_default(),
        };
        let mut tally = Tally::default();
        let mut done = Vec::new();
        for address in self.targets.addresses(&session.client).await? {
            if tally.wait(session.client.update_topic(&address, &settings)).await.is_some() {
                session.output.line(&format!("create topic to {address} success."))?;
                done.push(address);
            }
        }
        if self.order && !done.is_empty() {
            let info = session.client.cluster_info().await?;
            let is_done = |broker: &BrokerData| broker.broker_addrs.values().any(|address| done.contains(address));
            let brokers = info.broker_addr_table.values().filter(|broker| is_done(broker));
            let queues = brokers.map(|broker| (broker.broker_name.to_string(), self.write_queue_nums)).collect();
            tally.take(order::put(&session.client, &self.topic, &queues).await);
        }
        if tally.done > 0 {
            session.output.note(&settings_text(&settings))?;
        }
        tally.end()
    }
}

fn settings_text(settings: &TopicSettings) -> String {
    format!(
        "TopicConfig [topicName={}, readQueueNums={}, writeQueueNums={}, perm={}, topicFilterType=SINGLE_TAG, \
         topicSysFlag={}, order={}, attributes={{{}}}]",
        settings.topic,
        settings.read_queue_nums,
        settings.write_queue_nums,
        permission_text(settings.perm),
        settings.topic_sys_flag,
        settings.order,
        settings.attributes,
    )
}

fn parse_permission(text: &str) -> Result<i32, String> {
    match text.parse() {
        Ok(perm @ (permission::WRITE | permission::READ | permission::READ_WRITE)) => Ok(perm),
        _ => Err("write 2 for write only, 4 for read only, 6 for both".to_owned()),
    }
}

fn permission_text(perm: i32) -> String {
    [(permission::READ, 'R'), (permission::WRITE, 'W'), (permission::INHERIT, 'X')]
        .map(|(bit, letter)| if perm & bit == 0 { '-' } else { letter })
        .iter()
        .collect()
}

#[derive(Debug, Args)]
pub(super) struct DeleteTopic {
    #[arg(short = 'c', long = "clusterName")]
    cluster: String,
    #[arg(short = 't', long = "topic")]
    topic: String,
}

impl DeleteTopic {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let (topic, cluster) = (self.topic.as_str(), self.cluster.as_str());
        let mut tally = Tally::default();
        for address in masters_of(&session.client, cluster).await? {
            tally.wait(session.client.delete_topic_in_broker(&address, topic)).await;
        }
        if tally.failed > 0 {
            // Its route must stay as long as a broker still has it.
            return tally.end();
        }
        session.output.line(&format!("delete topic [{topic}] from cluster [{cluster}] success."))?;
        let nameservers = session.client.nameservers().to_vec();
        for address in &nameservers {
            let deleted = session.client.delete_topic_in_nameserver(address, topic, Some(cluster)).await;
            if tally.take(deleted).is_some() {
                session.output.line(&format!("delete topic [{topic}] from NameServer {address} success."))?;
            }
        }
        tally.end()
    }
}

/// Whether an error says that a topic is not there, which for derived topics only means that nobody consumed yet.
pub(super) fn is_missing_topic(error: &ClientError) -> bool {
    matches!(error, ClientError::NoRoute { .. }) || error.refusal() == Some(ResponseCode::TOPIC_NOT_EXIST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_numbers_and_letters() {
        for (text, letters) in [("2", "-W-"), ("4", "R--"), ("6", "RW-")] {
            assert_eq!(permission_text(parse_permission(text).expect(text)), letters);
        }
        assert_eq!(permission_text(7), "RWX");
        for wrong in ["0", "7", "rw", ""] {
            assert!(parse_permission(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_route_is_a_table_of_brokers() {
        let body = br#"{"brokerDatas":[{"brokerAddrs":{"0":"h:1","1":"h:2"},"brokerName":"a","cluster":"C"}],
            "queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":4,"writeQueueNums":8}]}"#;
        let route: TopicRouteData = remoting::json::decode(body).expect("a route");
        assert_eq!(
            route_table(&route).text(),
            "#ClusterName  #BrokerName  #BrokerAddrs    #ReadQueue  #WriteQueue  #Perm\n\
             C             a            {0=h:1, 1=h:2}  4           8            6\n"
        );
    }
}
