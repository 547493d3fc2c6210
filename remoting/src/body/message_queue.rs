//! One queue of one broker, and the maps whose keys are queues: `{{"brokerName":"b","queueId":0,"topic":"T"}:…}`.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use bytes::{BufMut, BytesMut};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::{self, JsonError, RAW_KEY_MARK};
use crate::text::Text;

/// One queue of one broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageQueue {
    pub broker_name: Text,
    pub queue_id: i32,
    pub topic: Text,
}

/// A map by queue. It is written with objects as keys, which is no JSON but what the peer's library reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMap<V>(pub BTreeMap<MessageQueue, V>);

impl<V> Default for QueueMap<V> {
    fn default() -> QueueMap<V> {
        QueueMap(BTreeMap::new())
    }
}

impl<V> Deref for QueueMap<V> {
    type Target = BTreeMap<MessageQueue, V>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<V> DerefMut for QueueMap<V> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<V> FromIterator<(MessageQueue, V)> for QueueMap<V> {
    fn from_iter<I: IntoIterator<Item = (MessageQueue, V)>>(entries: I) -> QueueMap<V> {
        QueueMap(entries.into_iter().collect())
    }
}

impl<V: Serialize> Serialize for QueueMap<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(queue, value)| (marked_key(queue), value)))
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for QueueMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QueueMap<V>, D::Error> {
        let texts = BTreeMap::<String, V>::deserialize(deserializer)?;
        texts
            .into_iter()
            .map(|(key, value)| {
                let queue = json::decode(key.as_bytes()).map_err(D::Error::custom)?;
                Ok((queue, value))
            })
            .collect()
    }
}

/// Appends a map by queue, as it stands within a body.
pub fn write_queue_map<V: Serialize>(map: &QueueMap<V>, out: &mut BytesMut) {
    out.put_slice(&json::encode(map));
}

/// Reads a map by queue.
///
/// # Errors
/// When the text is none.
pub fn read_queue_map<V: DeserializeOwned>(text: &[u8]) -> Result<QueueMap<V>, JsonError> {
    json::decode(text)
}

fn marked_key(queue: &MessageQueue) -> String {
    let mut key = String::from(RAW_KEY_MARK);
    key.push_str(&serde_json::to_string(queue).expect("two texts and a number are JSON"));
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(queue_id: i32) -> MessageQueue {
        MessageQueue { broker_name: Text::from("b\"1"), queue_id, topic: Text::from("T") }
    }

    #[test]
    fn keys_are_objects() {
        let map: QueueMap<i64> = [(queue(1), 7), (queue(0), 5)].into_iter().collect();
        let mut out = BytesMut::new();
        write_queue_map(&map, &mut out);
        assert_eq!(
            std::str::from_utf8(&out).unwrap(),
            r#"{{"brokerName":"b\"1","queueId":0,"topic":"T"}:5,{"brokerName":"b\"1","queueId":1,"topic":"T"}:7}"#
        );
        assert_eq!(read_queue_map(&out), Ok(map));
        assert_eq!(read_queue_map::<i64>(b"{}"), Ok(QueueMap::default()));
        assert!(read_queue_map::<i64>(b"{\"x\":1}").is_err());
    }

    #[test]
    fn keys_that_are_texts_are_read_too() {
        let map: QueueMap<i64> =
            read_queue_map(br#"{"{\"topic\":\"T\",\"brokerName\":\"b\",\"queueId\":2}":9}"#).unwrap();
        let queue = MessageQueue { broker_name: Text::from("b"), queue_id: 2, topic: Text::from("T") };
        assert_eq!(map.get(&queue), Some(&9));
    }
}
