//! Calls to whichever nameserver answers, and to each of them.

use std::time::Duration;

use remoting::body::cluster::ClusterInfo;
use remoting::body::topic::TopicList;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::Command;
use remoting::fields::Fields;
use remoting::header::namesrv::{
    DeleteTopicInNamesrv, GetKvConfigResponse, KvConfigRequest, PutKvConfig, TopicsByCluster,
};
use remoting::json;
use remoting::text::Text;
use serde::de::DeserializeOwned;

use crate::Client;
use crate::error::{Attempt, ClientError};
use crate::link::{accepted, call};

impl Client {
    /// Asks the nameservers one after the other, beginning with the last that answered. A refusal is an answer.
    ///
    /// # Errors
    /// When none of them answers: unreachable if none took a connection, else why the last one was silent.
    pub async fn call_nameserver(&self, command: Command) -> Result<(String, Command), ClientError> {
        let inner = &self.inner;
        let first = inner.nameserver_turn.get();
        let mut attempts = Vec::new();
        let mut silent = None;
        for step in 0..inner.nameservers.len() {
            let turn = (first + step) % inner.nameservers.len();
            let address = &inner.nameservers[turn];
            let connection = match inner.links.reach(address, inner.limits.nameserver_reach_time_max).await {
                Ok(connection) => connection,
                Err(attempt) => {
                    attempts.push(attempt);
                    continue;
                }
            };
            match call(&inner.links, &connection, address, command.clone(), inner.limits.answer_time_max).await {
                Ok(answer) => {
                    inner.nameserver_turn.set(turn);
                    return Ok((address.clone(), answer));
                }
                Err(error) => {
                    attempts.push(Attempt { address: address.clone(), error: error.to_string() });
                    silent = Some(error);
                }
            }
        }
        Err(silent.unwrap_or(ClientError::Unreachable { what: "a nameserver", attempts }))
    }

    /// Asks one nameserver.
    ///
    /// # Errors
    /// When it cannot be reached, is silent or refuses.
    pub async fn call_one_nameserver(&self, address: &str, command: Command) -> Result<Command, ClientError> {
        let request = RequestCode(command.code);
        let limits = &self.inner.limits;
        let times = (limits.nameserver_reach_time_max, limits.answer_time_max);
        let answer = self.call_at(address, "the nameserver", command, times).await?;
        accepted(answer, address, request)
    }

    /// Sends a request to an address, connecting within the first time and answered within the second.
    pub(crate) async fn call_at(
        &self,
        address: &str,
        what: &'static str,
        command: Command,
        (reach_time_max, answer_time_max): (Duration, Duration),
    ) -> Result<Command, ClientError> {
        let connection = self
            .inner
            .links
            .reach(address, reach_time_max)
            .await
            .map_err(|attempt| ClientError::Unreachable { what, attempts: vec![attempt] })?;
        call(&self.inner.links, &connection, address, command, answer_time_max).await
    }

    /// Clusters, their brokers, and the brokers' addresses.
    ///
    /// # Errors
    /// When no nameserver tells.
    pub async fn cluster_info(&self) -> Result<ClusterInfo, ClientError> {
        self.nameserver_body(RequestCode::GET_BROKER_CLUSTER_INFO, Fields::new()).await
    }

    /// The names of all topics.
    ///
    /// # Errors
    /// When no nameserver tells.
    pub async fn topic_list(&self) -> Result<TopicList, ClientError> {
        self.nameserver_body(RequestCode::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Fields::new()).await
    }

    /// The names of a cluster's topics; none of an unknown cluster.
    ///
    /// # Errors
    /// When no nameserver tells.
    pub async fn topic_list_of_cluster(&self, cluster: &str) -> Result<TopicList, ClientError> {
        let header = TopicsByCluster { cluster: Text::from(cluster) };
        self.nameserver_body(RequestCode::GET_TOPICS_BY_CLUSTER, header.to_fields()).await
    }

    /// Takes a topic, or its part in one cluster, out of one nameserver's routes.
    ///
    /// # Errors
    /// When that nameserver does not do so.
    pub async fn delete_topic_in_nameserver(
        &self,
        address: &str,
        topic: &str,
        cluster: Option<&str>,
    ) -> Result<(), ClientError> {
        let header = DeleteTopicInNamesrv { topic: Text::from(topic), cluster_name: cluster.map(Text::from) };
        let command = Command::request(RequestCode::DELETE_TOPIC_IN_NAMESRV, header.to_fields());
        self.call_one_nameserver(address, command).await?;
        self.inner.routes.borrow_mut().remove(topic);
        Ok(())
    }

    /// One nameserver's configuration, as lines of `key=value`.
    ///
    /// # Errors
    /// When that nameserver does not tell.
    pub async fn nameserver_config(&self, address: &str) -> Result<String, ClientError> {
        let request = RequestCode::GET_NAMESRV_CONFIG;
        let answer = self.call_one_nameserver(address, Command::request(request, Fields::new())).await?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// A value that one nameserver keeps; `None` when it has none of that name.
    ///
    /// # Errors
    /// When that nameserver does not tell.
    pub async fn kv_value(&self, address: &str, namespace: &str, key: &str) -> Result<Option<String>, ClientError> {
        let request = RequestCode::GET_KV_CONFIG;
        let header = KvConfigRequest { namespace: Text::from(namespace), key: Text::from(key) };
        match self.call_one_nameserver(address, Command::request(request, header.to_fields())).await {
            Ok(answer) => GetKvConfigResponse::decode(&answer.fields)
                .map(|header| header.value.map(|value| value.to_string()))
                .map_err(|error| ClientError::unreadable_fields(address, request, &error)),
            Err(error) if error.refusal() == Some(ResponseCode::QUERY_NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes one nameserver keep a value.
    ///
    /// # Errors
    /// When that nameserver does not do so.
    pub async fn put_kv_value(
        &self,
        address: &str,
        namespace: &str,
        key: &str,
        value: &str,
    ) -> Result<(), ClientError> {
        let header = PutKvConfig { namespace: Text::from(namespace), key: Text::from(key), value: Text::from(value) };
        let command = Command::request(RequestCode::PUT_KV_CONFIG, header.to_fields());
        self.call_one_nameserver(address, command).await.map(|_| ())
    }

    /// The master's address of each broker of a cluster, by broker name.
    ///
    /// # Errors
    /// When no nameserver tells.
    pub async fn masters_of_cluster(&self, cluster: &str) -> Result<Vec<(Text, Text)>, ClientError> {
        let info = self.cluster_info().await?;
        let names = info.cluster_addr_table.get(cluster).into_iter().flatten();
        Ok(names
            .filter_map(|name| {
                let addresses = &info.broker_addr_table.get(name)?.broker_addrs;
                Some((name.clone(), addresses.get(&remoting::body::cluster::MASTER_ID)?.clone()))
            })
            .collect())
    }

    async fn nameserver_body<T: DeserializeOwned>(
        &self,
        request: RequestCode,
        fields: Fields,
    ) -> Result<T, ClientError> {
        let (address, answer) = self.call_nameserver(Command::request(request, fields)).await?;
        let answer = accepted(answer, &address, request)?;
        json::decode(&answer.body).map_err(|error| ClientError::unreadable_body(&address, request, &error))
    }

    /// The body of a route, or `None` when the nameserver knows none of that topic.
    pub(crate) async fn route_body(&self, fields: Fields) -> Result<Option<(String, Command)>, ClientError> {
        let request = RequestCode::GET_ROUTEINFO_BY_TOPIC;
        let (address, answer) = self.call_nameserver(Command::request(request, fields)).await?;
        if answer.code == ResponseCode::TOPIC_NOT_EXIST.0 {
            return Ok(None);
        }
        let answer = accepted(answer, &address, request)?;
        Ok(Some((address, answer)))
    }
}
