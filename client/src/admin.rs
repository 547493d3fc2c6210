//! Calls of the administration tools to one broker.

use std::time::Duration;

use remoting::body::connection::ConsumerConnection;
use remoting::body::consume::ConsumeStats;
use remoting::body::group::{GroupList, SubscriptionGroupConfig};
use remoting::body::kv::KvTable;
use remoting::body::stages::StageTimes;
use remoting::body::topic::{TopicConfig, TopicFilterType, TopicStatsTable};
use remoting::code::RequestCode;
use remoting::command::Command;
use remoting::fields::Fields;
use remoting::header::connection::ConsumerConnectionList;
use remoting::header::consume::ConsumeStatsRequest;
use remoting::header::group::DeleteSubscriptionGroup;
use remoting::header::topic::{CreateTopic, TopicRequest};
use remoting::json;
use remoting::name::AUTO_CREATE_TOPIC;
use remoting::text::Text;
use serde::de::DeserializeOwned;

use crate::Client;
use crate::error::ClientError;
use crate::link::accepted;

/// What a topic shall be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSettings {
    pub topic: Text,
    pub read_queue_nums: i32,
    pub write_queue_nums: i32,
    /// The bits of [`remoting::body::route::permission`].
    pub perm: i32,
    pub order: bool,
    /// The bits of [`remoting::body::route::topic_sys_flag`].
    pub topic_sys_flag: i32,
    /// `+name=value` and `-name`, joined by commas; empty for no change.
    pub attributes: Text,
}

impl Client {
    /// Sends a request to a broker and gives whatever it answers, a refusal too.
    ///
    /// # Errors
    /// When the broker cannot be reached or is silent.
    pub async fn call_broker_raw(&self, address: &str, command: Command) -> Result<Command, ClientError> {
        self.call_broker_within(address, command, self.inner.limits.answer_time_max).await
    }

    pub(crate) async fn call_broker_within(
        &self,
        address: &str,
        command: Command,
        answer_time_max: Duration,
    ) -> Result<Command, ClientError> {
        let times = (self.inner.limits.broker_reach_time_max, answer_time_max);
        self.call_at(address, "the broker", command, times).await
    }

    /// Sends a request to a broker.
    ///
    /// # Errors
    /// When the broker cannot be reached, is silent or refuses.
    pub async fn call_broker(&self, address: &str, command: Command) -> Result<Command, ClientError> {
        let request = RequestCode(command.code);
        accepted(self.call_broker_raw(address, command).await?, address, request)
    }

    /// Makes a topic on a broker, or changes all settings of one that is there.
    ///
    /// # Errors
    /// When the broker does not do so.
    pub async fn update_topic(&self, address: &str, settings: &TopicSettings) -> Result<(), ClientError> {
        let header = CreateTopic {
            topic: settings.topic.clone(),
            default_topic: Text::from_static(AUTO_CREATE_TOPIC),
            read_queue_nums: settings.read_queue_nums,
            write_queue_nums: settings.write_queue_nums,
            perm: settings.perm,
            topic_filter_type: Text::from_static(TopicFilterType::SingleTag.name()),
            order: settings.order,
            topic_sys_flag: settings.topic_sys_flag,
            attributes: (!settings.attributes.is_empty()).then(|| settings.attributes.clone()),
            force: false,
        };
        let command = Command::request(RequestCode::UPDATE_AND_CREATE_TOPIC, header.to_fields());
        self.call_broker(address, command).await?;
        self.forget_route(&settings.topic);
        Ok(())
    }

    /// Deletes a topic and its messages on a broker. That there is none is no error.
    ///
    /// # Errors
    /// When the broker does not do so.
    pub async fn delete_topic_in_broker(&self, address: &str, topic: &str) -> Result<(), ClientError> {
        let fields = TopicRequest { topic: Text::from(topic) }.to_fields();
        self.call_broker(address, Command::request(RequestCode::DELETE_TOPIC_IN_BROKER, fields)).await?;
        self.forget_route(topic);
        Ok(())
    }

    /// Where a broker's time went since it began. Brokers of other makes do not tell.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn stage_times(&self, address: &str) -> Result<StageTimes, ClientError> {
        self.broker_body(address, RequestCode::GET_STAGES, Fields::new()).await
    }

    /// The settings of a topic on a broker.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn topic_config(&self, address: &str, topic: &str) -> Result<TopicConfig, ClientError> {
        let fields = TopicRequest { topic: Text::from(topic) }.to_fields();
        self.broker_body(address, RequestCode::GET_TOPIC_CONFIG, fields).await
    }

    /// The offsets of a topic's queues on a broker.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn topic_status(&self, address: &str, topic: &str) -> Result<TopicStatsTable, ClientError> {
        let fields = TopicRequest { topic: Text::from(topic) }.to_fields();
        self.broker_body(address, RequestCode::GET_TOPIC_STATS_INFO, fields).await
    }

    /// The groups that consume a topic on a broker.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn groups_of_topic(&self, address: &str, topic: &str) -> Result<GroupList, ClientError> {
        let fields = TopicRequest { topic: Text::from(topic) }.to_fields();
        self.broker_body(address, RequestCode::QUERY_TOPIC_CONSUME_BY_WHO, fields).await
    }

    /// Makes a consumer group on a broker, or changes all settings of one that is there.
    ///
    /// # Errors
    /// When the broker does not do so.
    pub async fn update_group(&self, address: &str, config: &SubscriptionGroupConfig) -> Result<(), ClientError> {
        let command = Command::request(RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Fields::new())
            .with_body(json::encode(config));
        self.call_broker(address, command).await.map(|_| ())
    }

    /// Deletes a consumer group on a broker, and its offsets if so wanted.
    ///
    /// # Errors
    /// When the broker does not do so.
    pub async fn delete_group(&self, address: &str, group: &str, clean_offset: bool) -> Result<(), ClientError> {
        let header = DeleteSubscriptionGroup { group_name: Text::from(group), clean_offset };
        let command = Command::request(RequestCode::DELETE_SUBSCRIPTIONGROUP, header.to_fields());
        self.call_broker(address, command).await.map(|_| ())
    }

    /// How far a group has come on a broker, in one topic or in all.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn consume_stats(
        &self,
        address: &str,
        group: &str,
        topic: Option<&str>,
    ) -> Result<ConsumeStats, ClientError> {
        let header =
            ConsumeStatsRequest { consumer_group: Text::from(group), topic: topic.map(Text::from), topic_list: None };
        self.broker_body(address, RequestCode::GET_CONSUME_STATS, header.to_fields()).await
    }

    /// The members of a group that a broker knows.
    ///
    /// # Errors
    /// When the broker does not tell; CONSUMER_NOT_ONLINE when there is none.
    pub async fn consumer_connection(&self, address: &str, group: &str) -> Result<ConsumerConnection, ClientError> {
        let header = ConsumerConnectionList { consumer_group: Text::from(group) };
        self.broker_body(address, RequestCode::GET_CONSUMER_CONNECTION_LIST, header.to_fields()).await
    }

    /// A broker's configuration, as lines of `key=value`.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn broker_config(&self, address: &str) -> Result<String, ClientError> {
        let command = Command::request(RequestCode::GET_BROKER_CONFIG, Fields::new());
        let answer = self.call_broker(address, command).await?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// Changes one key of a broker's configuration.
    ///
    /// # Errors
    /// When the broker does not do so.
    pub async fn update_broker_config(&self, address: &str, key: &str, value: &str) -> Result<(), ClientError> {
        let command =
            Command::request(RequestCode::UPDATE_BROKER_CONFIG, Fields::new()).with_body(format!("{key}={value}\n"));
        self.call_broker(address, command).await.map(|_| ())
    }

    /// A broker's state.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn broker_status(&self, address: &str) -> Result<KvTable, ClientError> {
        self.broker_body(address, RequestCode::GET_BROKER_RUNTIME_INFO, Fields::new()).await
    }

    async fn broker_body<T: DeserializeOwned>(
        &self,
        address: &str,
        request: RequestCode,
        fields: Fields,
    ) -> Result<T, ClientError> {
        let answer = self.call_broker(address, Command::request(request, fields)).await?;
        json::decode(&answer.body).map_err(|error| ClientError::unreadable_body(address, request, &error))
    }
}
