//! Sends: one message or a batch, answered or not, tried on other brokers when one fails.

use bytes::Bytes;
use remoting::body::MessageQueue;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::Command;
use remoting::fields::Fields;
use remoting::header::send::{SendMessage, SendMessageResponse};
use remoting::name::AUTO_CREATE_TOPIC;
use remoting::record::{BatchItem, encode_item};
use remoting::text::Text;
use runtime::clock;

use crate::Client;
use crate::error::ClientError;
use crate::link::refused;
use crate::message::Message;
use crate::route::{NEW_TOPIC_QUEUES, choose_queue};

/// The group under which a send goes when none is named.
pub const GROUP_DEFAULT: &str = "DEFAULT_PRODUCER";
/// Refusals after which another broker may take the message.
const RETRIED: [ResponseCode; 8] = [
    ResponseCode::SYSTEM_ERROR,
    ResponseCode::SYSTEM_BUSY,
    ResponseCode::SERVICE_NOT_AVAILABLE,
    ResponseCode::NO_PERMISSION,
    ResponseCode::TOPIC_NOT_EXIST,
    ResponseCode::NO_BUYER_ID,
    ResponseCode::NOT_IN_CURRENT_UNIT,
    ResponseCode::GO_AWAY,
];

/// How a send is done.
#[derive(Clone, Debug, Default)]
pub struct SendOptions {
    /// Empty: [`GROUP_DEFAULT`].
    pub group: Text,
    /// Only this broker; then no other is tried.
    pub broker: Option<Text>,
    /// Only this queue of it.
    pub queue_id: Option<i32>,
}

/// What became of a stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreStatus {
    /// As durable as the broker's settings promise.
    Ok,
    /// Stored, but not on its disk in time.
    FlushDiskTimeout,
    /// Stored, but not on a slave in time.
    FlushSlaveTimeout,
    /// Stored, but there is no slave that takes it.
    SlaveNotAvailable,
}

impl StoreStatus {
    fn from_code(code: i32) -> Option<StoreStatus> {
        match ResponseCode(code) {
            ResponseCode::SUCCESS => Some(StoreStatus::Ok),
            ResponseCode::FLUSH_DISK_TIMEOUT => Some(StoreStatus::FlushDiskTimeout),
            ResponseCode::FLUSH_SLAVE_TIMEOUT => Some(StoreStatus::FlushSlaveTimeout),
            ResponseCode::SLAVE_NOT_AVAILABLE => Some(StoreStatus::SlaveNotAvailable),
            _ => None,
        }
    }

    /// The name that the official tools print.
    pub fn name(self) -> &'static str {
        match self {
            StoreStatus::Ok => "SEND_OK",
            StoreStatus::FlushDiskTimeout => "FLUSH_DISK_TIMEOUT",
            StoreStatus::FlushSlaveTimeout => "FLUSH_SLAVE_TIMEOUT",
            StoreStatus::SlaveNotAvailable => "SLAVE_NOT_AVAILABLE",
        }
    }
}

/// Proof of a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub status: StoreStatus,
    pub queue: MessageQueue,
    /// Of a batch, that of its first message; the others follow without a gap.
    pub queue_offset: i64,
    /// Made here; of a batch, one a message joined by commas.
    pub unique_id: String,
    /// Made by the broker; of a batch, one a message joined by commas.
    pub offset_id: Text,
}

/// A send that only lacks its queue.
struct Prepared {
    request: RequestCode,
    group: Text,
    topic: Text,
    flag: i32,
    properties: String,
    born_timestamp_ms: i64,
    body: Bytes,
    unique_id: String,
}

impl Client {
    /// Sends a message and waits until it is stored. After a failure that another broker may not have, others are
    /// tried, so a message may be stored twice when an answer was lost.
    ///
    /// # Errors
    /// That of the last attempt.
    pub async fn send(&self, message: &Message, options: &SendOptions) -> Result<Receipt, ClientError> {
        let prepared = self.prepare(message, options)?;
        self.send_prepared(&prepared, options).await
    }

    /// Sends messages of one topic to one queue; all or none of them are stored.
    ///
    /// # Errors
    /// As [`Client::send`], and when there is no message or not all are of one topic.
    pub async fn send_batch(&self, messages: &[Message], options: &SendOptions) -> Result<Receipt, ClientError> {
        let prepared = self.prepare_batch(messages, options)?;
        self.send_prepared(&prepared, options).await
    }

    /// Sends a message that is not answered: nobody tells whether it was stored.
    ///
    /// # Errors
    /// When there is no connection to send it over.
    pub async fn send_oneway(&self, message: &Message, options: &SendOptions) -> Result<MessageQueue, ClientError> {
        let prepared = self.prepare(message, options)?;
        let (queue, address) = self.queue_to_send(&message.topic, options, None).await?;
        let reach_time_max = self.inner.limits.broker_reach_time_max;
        let connection = self
            .inner
            .links
            .reach(&address, reach_time_max)
            .await
            .map_err(|attempt| ClientError::Unreachable { what: "the broker", attempts: vec![attempt] })?;
        connection.send(prepared.command(&queue).oneway());
        Ok(queue)
    }

    async fn send_prepared(&self, prepared: &Prepared, options: &SendOptions) -> Result<Receipt, ClientError> {
        let topic = &prepared.topic;
        let (mut queue, mut address) = self.queue_to_send(topic, options, None).await?;
        let mut attempts_left = self.inner.limits.send_attempts_max;
        loop {
            attempts_left -= 1;
            let error = match self.send_to(prepared, &queue, &address).await {
                Ok(receipt) => return Ok(receipt),
                Err(error) => error,
            };
            let retried = error.is_silence() || error.refusal().is_some_and(|code| RETRIED.contains(&code));
            if !retried || attempts_left == 0 {
                return Err(error);
            }
            self.forget_route(topic);
            // Without a way to another attempt, the failure of this one says more than why there is no way.
            let Ok(next) = self.queue_to_send(topic, options, Some(&queue.broker_name)).await else {
                return Err(error);
            };
            (queue, address) = next;
        }
    }

    async fn send_to(&self, prepared: &Prepared, queue: &MessageQueue, address: &str) -> Result<Receipt, ClientError> {
        let answer = self.call_broker_raw(address, prepared.command(queue)).await?;
        let Some(status) = StoreStatus::from_code(answer.code) else {
            return Err(refused(&answer, address, prepared.request));
        };
        let header = SendMessageResponse::decode(&answer.fields)
            .map_err(|error| ClientError::unreadable_fields(address, prepared.request, &error))?;
        Ok(Receipt {
            status,
            queue: MessageQueue { queue_id: header.queue_id, ..queue.clone() },
            queue_offset: header.queue_offset,
            unique_id: prepared.unique_id.clone(),
            offset_id: header.msg_id.detached(),
        })
    }

    /// The queue that the next send goes to, and its broker's address.
    async fn queue_to_send(
        &self,
        topic: &str,
        options: &SendOptions,
        avoided: Option<&str>,
    ) -> Result<(MessageQueue, Text), ClientError> {
        let route = self.route_to_send(topic).await?;
        let mut queues = route.queues_to_send(topic);
        if let Some(broker) = &options.broker {
            queues.retain(|queue| queue.broker_name == *broker);
        }
        if let Some(queue_id) = options.queue_id {
            queues.retain(|queue| queue.queue_id == queue_id);
        }
        let turn = self.inner.queue_turn.get();
        self.inner.queue_turn.set(turn.wrapping_add(1));
        let queue = choose_queue(&queues, avoided, turn).cloned().ok_or_else(|| ClientError::NoQueue {
            topic: topic.to_owned(),
            purpose: "send to",
            broker: options.broker.as_ref().map(|broker| broker.as_str().to_owned()),
        })?;
        let address = route.address_to_send(&queue.broker_name).expect("queues to send to have a master").clone();
        Ok((queue, address))
    }

    fn prepare(&self, message: &Message, options: &SendOptions) -> Result<Prepared, ClientError> {
        let unique_id = self.inner.ids.next();
        Ok(Prepared {
            request: RequestCode::SEND_MESSAGE_V2,
            group: group_of(options),
            topic: message.topic.clone(),
            flag: message.flag,
            properties: message.properties_text(&unique_id)?,
            born_timestamp_ms: clock::now_ms().0 as i64,
            body: message.body.clone(),
            unique_id,
        })
    }

    fn prepare_batch(&self, messages: &[Message], options: &SendOptions) -> Result<Prepared, ClientError> {
        let bad = |what: &str| ClientError::BadMessage { what: what.to_owned() };
        let first = messages.first().ok_or_else(|| bad("a batch without messages"))?;
        if messages.iter().any(|message| message.topic != first.topic) {
            return Err(bad("the messages of a batch have different topics"));
        }
        let mut body = Vec::new();
        let mut unique_ids = Vec::new();
        for message in messages {
            let unique_id = self.inner.ids.next();
            let properties = message.properties_text(&unique_id)?;
            encode_item(&BatchItem { flag: message.flag, body: &message.body, properties: &properties }, &mut body);
            unique_ids.push(unique_id);
        }
        Ok(Prepared {
            request: RequestCode::SEND_BATCH_MESSAGE,
            group: group_of(options),
            topic: first.topic.clone(),
            flag: 0,
            properties: String::new(),
            born_timestamp_ms: clock::now_ms().0 as i64,
            body: Bytes::from(body),
            unique_id: unique_ids.join(","),
        })
    }
}

impl Prepared {
    fn command(&self, queue: &MessageQueue) -> Command {
        let header = SendMessage {
            producer_group: &self.group,
            topic: &self.topic,
            default_topic: AUTO_CREATE_TOPIC,
            default_topic_queue_nums: NEW_TOPIC_QUEUES,
            queue_id: queue.queue_id,
            sys_flag: 0,
            born_timestamp_ms: self.born_timestamp_ms,
            flag: self.flag,
            properties: &self.properties,
            reconsume_times: 0,
            unit_mode: false,
            max_reconsume_times: None,
            batch: self.request == RequestCode::SEND_BATCH_MESSAGE,
            broker_name: Some(&queue.broker_name),
        };
        let mut fields = Fields::new();
        header.encode_short(&mut fields);
        Command::request(self.request, fields).with_body(self.body.clone())
    }
}

fn group_of(options: &SendOptions) -> Text {
    if options.group.is_empty() { Text::from_static(GROUP_DEFAULT) } else { options.group.clone() }
}
