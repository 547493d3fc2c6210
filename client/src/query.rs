//! Finding messages by key, by unique id, and by where they are stored.

use bytes::Bytes;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::Command;
use remoting::header::view_message::{QueryMessage, ViewMessage};
use remoting::message_id::OffsetId;
use remoting::text::Text;

use crate::Client;
use crate::error::ClientError;

/// Messages that one broker gives at most for a key when the caller names no number.
pub const MESSAGES_OF_KEY_MAX: i32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// One of the keys that the sender gave.
    Key,
    /// The id that the sender's client made.
    UniqueId,
}

/// What is looked for.
#[derive(Clone, Debug)]
pub struct KeyQuery {
    pub topic: Text,
    pub key: Text,
    pub kind: KeyKind,
    pub count_max: i32,
    /// Store times between which to look, milliseconds since 1970, both included.
    pub begin_ms: i64,
    pub end_ms: i64,
}

impl KeyQuery {
    /// Any time, at most [`MESSAGES_OF_KEY_MAX`] messages of a broker.
    pub fn new(topic: &str, key: &str, kind: KeyKind) -> KeyQuery {
        KeyQuery {
            topic: Text::from(topic),
            key: Text::from(key),
            kind,
            count_max: MESSAGES_OF_KEY_MAX,
            begin_ms: 0,
            end_ms: i64::MAX,
        }
    }
}

impl Client {
    /// Asks every broker of the topic, and gives the records of each that has any, one body a broker.
    ///
    /// # Errors
    /// When a broker cannot be asked; that it has nothing is no error.
    pub async fn query_key(&self, query: &KeyQuery) -> Result<Vec<Bytes>, ClientError> {
        let route = self.route(&query.topic).await?;
        let mut bodies = Vec::new();
        for (_, address) in route.brokers() {
            let header = QueryMessage {
                topic: query.topic.clone(),
                key: query.key.clone(),
                message_count_max: query.count_max,
                begin_timestamp_ms: query.begin_ms,
                end_timestamp_ms: query.end_ms,
                unique_key_query: query.kind == KeyKind::UniqueId,
                index_type: None,
                last_key: None,
            };
            match self.call_broker(address, Command::request(RequestCode::QUERY_MESSAGE, header.to_fields())).await {
                Ok(answer) => bodies.push(answer.body),
                Err(error) if error.refusal() == Some(ResponseCode::QUERY_NOT_FOUND) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bodies)
    }

    /// The record at the place that an offset id names, from the broker that it names.
    ///
    /// # Errors
    /// When that broker cannot be asked or has no message there.
    pub async fn view_message(&self, id: &OffsetId, topic: &str) -> Result<Bytes, ClientError> {
        let header = ViewMessage { offset: id.physical_offset.0 as i64, topic: Some(Text::from(topic)) };
        let command = Command::request(RequestCode::VIEW_MESSAGE_BY_ID, header.to_fields());
        let answer = self.call_broker(&id.host.to_string(), command).await?;
        Ok(answer.body)
    }
}
