//! Consumer groups: settings, progress, members.

use std::collections::BTreeMap;

use clap::{ArgAction, Args};
use client::{Client, ClientError};
use remoting::body::MessageQueue;
use remoting::body::connection::ConsumerConnection as Members;
use remoting::body::consume::OffsetWrapper;
use remoting::body::group::SubscriptionGroupConfig;
use remoting::body::heartbeat::ConsumeType;
use remoting::code::ResponseCode;
use remoting::name;
use remoting::text::Text;
use serde_json::Value;

use super::targets::Targets;
use super::topic::is_missing_topic;
use super::{Session, Tally};
use crate::failure::{Exit, Failure};
use crate::table::Table;
use crate::time;

#[derive(Debug, Args)]
pub(super) struct UpdateSubGroup {
    #[command(flatten)]
    targets: Targets,
    #[arg(short = 'g', long = "groupName")]
    group: String,
    /// May the group consume
    #[arg(short = 's', long = "consumeEnable", action = ArgAction::Set, default_value_t = true)]
    consume_enable: bool,
    /// May it begin with the oldest message
    #[arg(short = 'm', long = "consumeFromMinEnable", action = ArgAction::Set, default_value_t = false)]
    consume_from_min_enable: bool,
    /// May each member get every message
    #[arg(short = 'd', long = "consumeBroadcastEnable", action = ArgAction::Set, default_value_t = false)]
    consume_broadcast_enable: bool,
    #[arg(short = 'o', long = "consumeMessageOrderly", action = ArgAction::Set, default_value_t = false)]
    consume_message_orderly: bool,
    /// Queues of the group's topic for retries
    #[arg(short = 'q', long = "retryQueueNums", default_value_t = 1)]
    retry_queue_nums: i32,
    /// Retries before a message becomes a dead letter
    #[arg(short = 'r', long = "retryMaxTimes", default_value_t = 16)]
    retry_max_times: i32,
    /// The broker id to consume from
    #[arg(short = 'i', long = "brokerId", default_value_t = 0)]
    broker_id: i64,
    /// The broker id to consume from when the group lags behind
    #[arg(short = 'w', long = "whichBrokerWhenConsumeSlowly", default_value_t = 1)]
    which_broker_when_consume_slowly: i64,
    /// Are members told when the membership changes
    #[arg(short = 'a', long = "notifyConsumerIdsChanged", action = ArgAction::Set, default_value_t = true)]
    notify_consumer_ids_changed: bool,
}

impl UpdateSubGroup {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        name::check_group(&self.group).map_err(|error| Failure::new(Exit::Failure, error.to_string()))?;
        let config = self.config();
        let mut tally = Tally::default();
        for address in self.targets.addresses(&session.client).await? {
            if tally.wait(session.client.update_group(&address, &config)).await.is_some() {
                session.output.line(&format!("create subscription group to {address} success."))?;
            }
        }
        if tally.done > 0 {
            let config = serde_json::to_string(&config).expect("settings are texts and numbers");
            session.output.note(&config)?;
        }
        tally.end()
    }

    fn config(&self) -> SubscriptionGroupConfig {
        SubscriptionGroupConfig {
            broker_id: self.broker_id,
            consume_broadcast_enable: self.consume_broadcast_enable,
            consume_enable: self.consume_enable,
            consume_from_min_enable: self.consume_from_min_enable,
            consume_message_orderly: self.consume_message_orderly,
            group_name: Text::from(&self.group),
            notify_consumer_ids_changed_enable: self.notify_consumer_ids_changed,
            retry_max_times: self.retry_max_times,
            retry_queue_nums: self.retry_queue_nums,
            which_broker_when_consume_slowly: self.which_broker_when_consume_slowly,
            ..SubscriptionGroupConfig::default()
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct ConsumerProgress {
    /// Queue by queue of this group; without it, all groups with a line each
    #[arg(short = 'g', long = "groupName")]
    group: Option<String>,
    /// Only this topic
    #[arg(short = 't', long = "topicName", requires = "group")]
    topic: Option<String>,
}

/// How far one group has come.
#[derive(Debug, Default)]
struct Progress {
    queues: BTreeMap<MessageQueue, OffsetWrapper>,
    consumed_per_second: f64,
}

impl Progress {
    fn lag(&self) -> i64 {
        self.queues.values().map(|offsets| offsets.broker_offset - offsets.consumer_offset).sum()
    }

    fn in_flight(&self) -> i64 {
        self.queues.values().map(|offsets| offsets.pull_offset - offsets.consumer_offset).sum()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("#Topic", "topic"),
            ("#Broker Name", "brokerName"),
            ("#QID", "queueId"),
            ("#Broker Offset", "brokerOffset"),
            ("#Consumer Offset", "consumerOffset"),
            ("#Diff", "diff"),
            ("#Inflight", "inflight"),
            ("#LastTime", "lastTime"),
        ]);
        for (queue, offsets) in &self.queues {
            table.push([
                Value::from(queue.topic.as_str()),
                Value::from(queue.broker_name.as_str()),
                Value::from(queue.queue_id),
                Value::from(offsets.broker_offset),
                Value::from(offsets.consumer_offset),
                Value::from(offsets.broker_offset - offsets.consumer_offset),
                Value::from(offsets.pull_offset - offsets.consumer_offset),
                Value::from(time::text_unless_zero(offsets.last_timestamp)),
            ]);
        }
        table
    }
}

impl ConsumerProgress {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let mut tally = Tally::default();
        match &self.group {
            Some(group) => {
                let progress = progress_of(&session.client, group, self.topic.as_deref(), &mut tally).await?;
                if progress.queues.is_empty() && tally.failed == 0 {
                    let cause = format!("the group {group} has no offset on any broker");
                    let fix = "consumerProgress without -g lists the groups; a group that never consumed is none";
                    return Err(Failure::new(Exit::Failure, cause).with_fix(fix));
                }
                session.output.table(&progress.table())?;
                session.output.note(&format!(
                    "\nConsume TPS: {:.2}\nConsume Diff Total: {}\nConsume Inflight Total: {}",
                    progress.consumed_per_second,
                    progress.lag(),
                    progress.in_flight()
                ))?;
            }
            None => list_groups(session, &mut tally).await?,
        }
        tally.end()
    }
}

async fn list_groups(session: &mut Session, tally: &mut Tally) -> Result<(), Failure> {
    let mut table = Table::new(&[
        ("#Group", "group"),
        ("#Count", "count"),
        ("#Version", "version"),
        ("#Type", "type"),
        ("#Model", "model"),
        ("#TPS", "tps"),
        ("#Diff Total", "diffTotal"),
    ]);
    for topic in session.client.topic_list().await?.topic_list {
        let Some(group) = name::group_of_retry_topic(&topic) else { continue };
        let progress = progress_of(&session.client, group, None, tally).await?;
        let members = members_of(&session.client, group).await?;
        let (version, kind, model) = match &members {
            Some(members) => {
                let version = members.connection_set.iter().map(|member| member.version).min().unwrap_or_default();
                (version_text(version), type_text(members.consume_type), members.message_model.name())
            }
            None => ("OFFLINE".to_owned(), "", ""),
        };
        table.push([
            Value::from(group),
            Value::from(members.as_ref().map_or(0, |members| members.connection_set.len())),
            Value::from(version),
            Value::from(kind),
            Value::from(model),
            Value::from(format!("{:.0}", progress.consumed_per_second)),
            Value::from(progress.lag()),
        ]);
    }
    Ok(session.output.table(&table)?)
}

async fn progress_of(
    client: &Client,
    group: &str,
    topic: Option<&str>,
    tally: &mut Tally,
) -> Result<Progress, Failure> {
    let mut progress = Progress::default();
    for address in brokers_of_group(client, group).await? {
        if let Some(stats) = tally.wait(client.consume_stats(&address, group, topic)).await {
            progress.consumed_per_second += stats.consume_tps;
            progress.queues.extend(stats.offset_table.0);
        }
    }
    Ok(progress)
}

/// The brokers that have the group's topic for retries; before the group's first heartbeat there is none, and every
/// master is asked.
async fn brokers_of_group(client: &Client, group: &str) -> Result<Vec<Text>, ClientError> {
    match client.route(&name::retry_topic(group)).await {
        Ok(route) => Ok(route.brokers().map(|(_, address)| address.clone()).collect()),
        Err(error) if is_missing_topic(&error) => {
            let info = client.cluster_info().await?;
            let brokers = info.broker_addr_table.values();
            Ok(brokers.filter_map(|broker| broker.broker_addrs.values().next().cloned()).collect())
        }
        Err(error) => Err(error),
    }
}

/// The members of a group; `None` when nobody is online. Members talk to every broker, so the first that knows any
/// knows all.
async fn members_of(client: &Client, group: &str) -> Result<Option<Members>, ClientError> {
    for address in brokers_of_group(client, group).await? {
        match client.consumer_connection(&address, group).await {
            Ok(members) => return Ok(Some(members)),
            Err(error) if error.refusal() == Some(ResponseCode::CONSUMER_NOT_ONLINE) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[derive(Debug, Args)]
pub(super) struct ConsumerConnection {
    #[arg(short = 'g', long = "consumerGroup")]
    group: String,
    /// Ask this broker
    #[arg(short = 'b', long = "brokerAddr", value_name = "ADDR")]
    broker_address: Option<String>,
}

impl ConsumerConnection {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let members = match &self.broker_address {
            Some(address) => Some(session.client.consumer_connection(address, &self.group).await?),
            None => members_of(&session.client, &self.group).await?,
        };
        let Some(members) = members else {
            let cause = format!("no member of the group {} is online", self.group);
            return Err(Failure::new(Exit::Failure, cause).with_fix("start a consumer of that group"));
        };
        if session.output.is_json() {
            let text = serde_json::to_string(&members).expect("members that were read can be written");
            return Ok(session.output.line(&text)?);
        }
        session.output.table(&members_table(&members))?;
        session.output.line("\nBelow is subscription:")?;
        session.output.table(&subscriptions_table(&members))?;
        session.output.line(&format!(
            "\nConsumeType: {}\nMessageModel: {}\nConsumeFromWhere: {}",
            members.consume_type.name(),
            members.message_model.name(),
            members.consume_from_where.name()
        ))?;
        Ok(())
    }
}

fn members_table(members: &Members) -> Table {
    let mut table = Table::new(&[
        ("#ClientId", "clientId"),
        ("#ClientAddr", "clientAddr"),
        ("#Language", "language"),
        ("#Version", "version"),
    ]);
    for member in &members.connection_set {
        table.push([
            Value::from(member.client_id.as_str()),
            Value::from(member.client_addr.as_str()),
            Value::from(member.language.as_str()),
            Value::from(version_text(member.version)),
        ]);
    }
    table
}

fn subscriptions_table(members: &Members) -> Table {
    let mut table = Table::new(&[("#Topic", "topic"), ("#SubExpression", "subExpression")]);
    for (topic, subscription) in &members.subscription_table {
        table.push([Value::from(topic.as_str()), Value::from(subscription.sub_string.as_str())]);
    }
    table
}

/// The name of the release that we speak as, the number of any other.
fn version_text(ordinal: i32) -> String {
    if ordinal == remoting::VERSION_ORDINAL { remoting::command::VERSION_NAME.to_owned() } else { ordinal.to_string() }
}

fn type_text(kind: ConsumeType) -> &'static str {
    match kind {
        ConsumeType::Actively => "PULL",
        ConsumeType::Passively => "PUSH",
        ConsumeType::Pop => "POP",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_adds_up() {
        let queue = |queue_id| MessageQueue { broker_name: Text::from("b"), queue_id, topic: Text::from("T") };
        let offsets = |broker_offset, consumer_offset, pull_offset| OffsetWrapper {
            broker_offset,
            consumer_offset,
            last_timestamp: 0,
            pull_offset,
        };
        let queues = [(queue(1), offsets(9, 5, 7)), (queue(0), offsets(3, 3, 3))].into();
        let progress = Progress { queues, consumed_per_second: 0.0 };
        assert_eq!((progress.lag(), progress.in_flight()), (4, 2));
        let text = progress.table().text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("#Topic  #Broker Name  #QID  #Broker Offset"), "{text}");
        assert!(
            lines[2].starts_with("T       b             1     9               5                 4      2"),
            "{text}"
        );
    }

    #[test]
    fn members_are_two_tables() {
        let body = br#"{"connectionSet":[{"clientAddr":"1.2.3.4:5","clientId":"c","language":"JAVA","version":493}],
            "consumeType":"CONSUME_PASSIVELY","subscriptionTable":{"T":{"topic":"T","subString":"a||b"}}}"#;
        let members: Members = remoting::json::decode(body).expect("members");
        assert_eq!(members_table(&members).text().lines().last(), Some("c          1.2.3.4:5    JAVA       V5_4_0"));
        assert_eq!(subscriptions_table(&members).text().lines().last(), Some("T       a||b"));
        assert_eq!((type_text(members.consume_type), version_text(401).as_str()), ("PUSH", "401"));
    }
}
