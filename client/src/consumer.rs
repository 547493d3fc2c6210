//! Pulls, a group's offsets, and heartbeats.

use std::time::Duration;

use bytes::Bytes;
use remoting::body::MessageQueue;
use remoting::body::heartbeat::Heartbeat;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::Command;
use remoting::fields::Fields;
use remoting::header::client::UnregisterClient;
use remoting::header::consumer_offset::{QueryConsumerOffset, QueryConsumerOffsetResponse, UpdateConsumerOffset};
use remoting::header::pull::{PULL_FLAG_SUBSCRIPTION, PULL_FLAG_SUSPEND, PullMessage, PullMessageResponse};
use remoting::json;
use remoting::record::Records;
use remoting::text::Text;

use crate::Client;
use crate::error::ClientError;
use crate::link::refused;

/// Some brokers look only this often whether the time of a held pull is over.
const HOLD_ROUND: Duration = Duration::from_secs(5);

/// What is pulled.
#[derive(Clone, Debug)]
pub struct PullRequest {
    pub group: Text,
    pub queue: MessageQueue,
    /// The first wanted offset.
    pub offset: i64,
    /// The broker may give fewer.
    pub count_max: i32,
    /// Tags joined by `||`, or `*`.
    pub expression: Text,
    /// How long the broker may hold the pull until something arrives.
    pub suspend: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullStatus {
    Found,
    /// Nothing at that offset yet.
    NoNewMessage,
    /// What is there does not match the expression; go on at the next offset.
    NoMatchedMessage,
    /// The offset is none of the queue's; go on at the next offset.
    OffsetMoved,
}

impl PullStatus {
    fn from_code(code: i32) -> Option<PullStatus> {
        match ResponseCode(code) {
            ResponseCode::SUCCESS => Some(PullStatus::Found),
            ResponseCode::PULL_NOT_FOUND => Some(PullStatus::NoNewMessage),
            ResponseCode::PULL_RETRY_IMMEDIATELY => Some(PullStatus::NoMatchedMessage),
            ResponseCode::PULL_OFFSET_MOVED => Some(PullStatus::OffsetMoved),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct PullAnswer {
    pub status: PullStatus,
    /// Where the next pull begins.
    pub next_offset: i64,
    pub min_offset: i64,
    /// One behind the last.
    pub max_offset: i64,
    body: Bytes,
}

impl PullAnswer {
    /// The messages, where they lie in the answer.
    pub fn records(&self) -> Records<'_> {
        Records::new(&self.body)
    }

    /// The messages as they came, one record behind the other.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
}

impl Client {
    /// Pulls from one queue of one broker.
    ///
    /// # Errors
    /// When the broker cannot be found or reached, is silent, or refuses with another code than those of a
    /// [`PullStatus`].
    pub async fn pull(&self, pull: &PullRequest) -> Result<PullAnswer, ClientError> {
        let address = self.address_of_queue(&pull.queue).await?;
        let suspend_timeout_ms = i64::try_from(pull.suspend.as_millis()).unwrap_or(i64::MAX);
        let header = PullMessage {
            consumer_group: pull.group.clone(),
            topic: pull.queue.topic.clone(),
            queue_id: pull.queue.queue_id,
            queue_offset: pull.offset,
            message_count_max: pull.count_max,
            sys_flag: PULL_FLAG_SUBSCRIPTION | if suspend_timeout_ms > 0 { PULL_FLAG_SUSPEND } else { 0 },
            commit_offset: 0,
            suspend_timeout_ms,
            subscription: Some(pull.expression.clone()),
            subscription_version: 0,
            expression_type: Some(Text::from_static(remoting::subscription::EXPRESSION_TAG)),
            message_bytes_max: None,
        };
        let request = RequestCode::PULL_MESSAGE;
        let answer_time_max = pull.suspend + HOLD_ROUND + self.inner.limits.answer_time_max;
        let command = Command::request(request, header.to_fields());
        let answer = self.call_broker_within(&address, command, answer_time_max).await?;
        let Some(status) = PullStatus::from_code(answer.code) else {
            return Err(refused(&answer, &address, request));
        };
        let header = PullMessageResponse::decode(&answer.fields)
            .map_err(|error| ClientError::unreadable_fields(&address, request, &error))?;
        Ok(PullAnswer {
            status,
            next_offset: header.next_begin_offset,
            min_offset: header.min_offset,
            max_offset: header.max_offset,
            body: answer.body,
        })
    }

    /// The stored offset of a group in a queue; `None` when the group has none there.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn consumer_offset(&self, group: &str, queue: &MessageQueue) -> Result<Option<i64>, ClientError> {
        let header = QueryConsumerOffset {
            consumer_group: Text::from(group),
            topic: queue.topic.clone(),
            queue_id: queue.queue_id,
            set_zero_if_not_found: None,
        };
        let address = self.address_of_queue(queue).await?;
        let request = RequestCode::QUERY_CONSUMER_OFFSET;
        match self.call_broker(&address, Command::request(request, header.to_fields())).await {
            Ok(answer) => QueryConsumerOffsetResponse::decode(&answer.fields)
                .map(|header| Some(header.offset))
                .map_err(|error| ClientError::unreadable_fields(&address, request, &error)),
            Err(error) if error.refusal() == Some(ResponseCode::QUERY_NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores the offset of a group in a queue: that of the first message it has not consumed.
    ///
    /// # Errors
    /// When the broker does not take it.
    pub async fn commit_offset(&self, group: &str, queue: &MessageQueue, offset: i64) -> Result<(), ClientError> {
        let header = UpdateConsumerOffset {
            consumer_group: Text::from(group),
            topic: queue.topic.clone(),
            queue_id: queue.queue_id,
            commit_offset: offset,
        };
        let address = self.address_of_queue(queue).await?;
        let command = Command::request(RequestCode::UPDATE_CONSUMER_OFFSET, header.to_fields());
        self.call_broker(&address, command).await.map(|_| ())
    }

    /// Tells a broker who this client is and what it subscribes to.
    ///
    /// # Errors
    /// When the broker does not take it.
    pub async fn heartbeat(&self, broker_address: &str, heartbeat: &Heartbeat) -> Result<(), ClientError> {
        let command = Command::request(RequestCode::HEART_BEAT, Fields::new()).with_body(json::encode(heartbeat));
        self.call_broker(broker_address, command).await.map(|_| ())
    }

    /// Tells a broker that a client is a member of a consumer group no more.
    ///
    /// # Errors
    /// When the broker does not take it.
    pub async fn unregister_consumer(
        &self,
        broker_address: &str,
        client_id: &str,
        group: &str,
    ) -> Result<(), ClientError> {
        let header = UnregisterClient {
            client_id: Text::from(client_id),
            producer_group: None,
            consumer_group: Some(Text::from(group)),
        };
        let command = Command::request(RequestCode::UNREGISTER_CLIENT, header.to_fields());
        self.call_broker(broker_address, command).await.map(|_| ())
    }
}
