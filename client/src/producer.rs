//! Sends: one message or a batch, answered or not, tried on other brokers when one fails.

use bytes::Bytes;
use remoting::body::MessageQueue;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::Command;
use remoting::fields::Fields;
use remoting::header::send::{SendMessage, SendMessageResponse};
use remoting::name::AUTO_CREATE_TOPIC;
use remoting::properties;
use remoting::record::{BatchItem, RecordView, encode_item, sys_flag};
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

/// A stored message that is to be sent once more, to a topic that may be another one.
#[derive(Clone, Debug)]
pub struct Copied<'a> {
    pub record: &'a RecordView<'a>,
    pub topic: Text,
    /// As they travel; the message's unique id is among them.
    pub properties: Text,
}

/// A send that only lacks its queue.
struct Prepared {
    request: RequestCode,
    header: SendMessage,
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

    /// Sends a copy of a stored message, once and to a topic that is there. Its body, flag and time of birth stay; its
    /// tries begin anew. When the answer is lost, nobody here knows whether the copy was stored.
    ///
    /// # Errors
    /// When no broker has the topic, or that of the one attempt.
    pub async fn send_copy(&self, copied: &Copied<'_>, options: &SendOptions) -> Result<Receipt, ClientError> {
        self.route(&copied.topic).await?;
        let record = copied.record;
        let header = SendMessage {
            sys_flag: record.sys_flag() & (sys_flag::COMPRESSED | sys_flag::COMPRESSION_MASK),
            born_timestamp_ms: record.born_timestamp_ms(),
            ..header(&copied.topic, options, copied.properties.clone(), record.flag())
        };
        let unique_id = record.property(properties::UNIQUE_KEY).unwrap_or_default().to_owned();
        let body = Bytes::copy_from_slice(record.body());
        let prepared = Prepared { request: RequestCode::SEND_MESSAGE_V2, header, body, unique_id };
        let (queue, address) = self.queue_to_send(&copied.topic, options, None).await?;
        self.send_to(&prepared, &queue, &address).await
    }

    async fn send_prepared(&self, prepared: &Prepared, options: &SendOptions) -> Result<Receipt, ClientError> {
        let topic = &prepared.header.topic;
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
        let properties = Text::from(message.properties_text(&unique_id)?);
        let header = header(&message.topic, options, properties, message.flag);
        Ok(Prepared { request: RequestCode::SEND_MESSAGE_V2, header, body: message.body.clone(), unique_id })
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
        let mut header = header(&first.topic, options, Text::EMPTY, 0);
        header.batch = true;
        let unique_id = unique_ids.join(",");
        Ok(Prepared { request: RequestCode::SEND_BATCH_MESSAGE, header, body: Bytes::from(body), unique_id })
    }
}

impl Prepared {
    fn command(&self, queue: &MessageQueue) -> Command {
        let header = SendMessage {
            queue_id: queue.queue_id,
            broker_name: Some(queue.broker_name.clone()),
            ..self.header.clone()
        };
        let mut fields = Fields::new();
        header.encode_short(&mut fields);
        Command::request(self.request, fields).with_body(self.body.clone())
    }
}

fn header(topic: &Text, options: &SendOptions, properties: Text, flag: i32) -> SendMessage {
    let group = if options.group.is_empty() { Text::from_static(GROUP_DEFAULT) } else { options.group.clone() };
    SendMessage {
        producer_group: group,
        topic: topic.clone(),
        default_topic: Text::from_static(AUTO_CREATE_TOPIC),
        default_topic_queue_nums: NEW_TOPIC_QUEUES,
        queue_id: 0,
        sys_flag: 0,
        born_timestamp_ms: clock::now_ms().0 as i64,
        flag,
        properties,
        reconsume_times: 0,
        unit_mode: false,
        max_reconsume_times: None,
        batch: false,
        broker_name: None,
    }
}
