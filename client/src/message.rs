//! A message to be sent, and the ids that tell messages apart.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};

use base::Random;
use bytes::Bytes;
use remoting::message_id::UniqueIdSource;
use remoting::properties::{self, Builder, PROPERTIES_BYTES_MAX};
use remoting::text::Text;
use runtime::clock;

use crate::error::ClientError;

/// A message as its sender sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    pub topic: Text,
    pub body: Bytes,
    /// One tag; empty for none.
    pub tag: Text,
    /// Keys joined by single spaces; empty for none.
    pub keys: Text,
    /// Anything of the sender's own, and the reserved names that order a delay and the like.
    pub properties: Vec<(Text, Text)>,
    /// Carried as it is; means nothing to a broker.
    pub flag: i32,
}

impl Message {
    pub fn new(topic: impl Into<Text>, body: impl Into<Bytes>) -> Message {
        Message { topic: topic.into(), body: body.into(), ..Message::default() }
    }

    pub fn with_tag(mut self, tag: impl Into<Text>) -> Message {
        self.tag = tag.into();
        self
    }

    pub fn with_keys(mut self, keys: impl Into<Text>) -> Message {
        self.keys = keys.into();
        self
    }

    pub fn with_property(mut self, name: impl Into<Text>, value: impl Into<Text>) -> Message {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// The properties as they travel.
    pub(crate) fn properties_text(&self, unique_id: &str) -> Result<String, ClientError> {
        let mut builder = Builder::new();
        let own = self.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let named = [(properties::KEYS, self.keys.as_str()), (properties::TAGS, self.tag.as_str())];
        let named = named.into_iter().filter(|(_, value)| !value.is_empty());
        for (name, value) in own.chain(named).chain([(properties::UNIQUE_KEY, unique_id)]) {
            if !properties::is_writable(name) || !properties::is_writable(value) {
                let what = format!("property {name:?} or its value is empty or holds a byte 1 or 2");
                return Err(ClientError::BadMessage { what });
            }
            builder.push(name, value);
        }
        let text = builder.finish();
        if text.len() > PROPERTIES_BYTES_MAX {
            let what = format!("its properties have {} bytes, more than {PROPERTIES_BYTES_MAX}", text.len());
            return Err(ClientError::BadMessage { what });
        }
        Ok(text)
    }
}

/// Makes ids that no other message has.
pub(crate) struct UniqueIds {
    source: UniqueIdSource,
    next: Cell<u16>,
}

impl UniqueIds {
    pub(crate) fn new() -> UniqueIds {
        static CLIENTS: AtomicU32 = AtomicU32::new(0);
        // Host and process tell processes apart, the number tells the clients of one process apart.
        let process_id = std::process::id();
        let client_number = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let host_hash = base::stable_hash(&runtime::process::host_name());
        let seed = clock::now_ms().0 ^ host_hash ^ u64::from(process_id) << 32;
        let mut random = Random::new(seed.wrapping_add(u64::from(client_number) << 48));
        let source = UniqueIdSource {
            ip: IpAddr::V4(Ipv4Addr::from(random.next_u64() as u32)),
            process_id: process_id as u16,
            process_hash: random.next_u64() as u32,
        };
        UniqueIds { source, next: Cell::new(0) }
    }

    pub(crate) fn next(&self) -> String {
        let counter = self.next.get();
        self.next.set(counter.wrapping_add(1));
        self.source.id(clock::now_ms(), counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_what_the_message_says() {
        let message = Message::new("T", "body").with_tag("a").with_keys("k1 k2").with_property("color", "red");
        let text = message.properties_text("ID").expect("properties");
        let entries: Vec<_> = properties::parse(&text).collect();
        assert_eq!(entries, [("color", "red"), ("KEYS", "k1 k2"), ("TAGS", "a"), ("UNIQ_KEY", "ID")]);
        for bad in [Message::new("T", "").with_property("a\u{1}", "b"), Message::new("T", "").with_property("a", "")] {
            assert!(matches!(bad.properties_text("ID"), Err(ClientError::BadMessage { .. })), "{bad:?}");
        }
        let long = Message::new("T", "").with_property("a", "x".repeat(PROPERTIES_BYTES_MAX));
        assert!(matches!(long.properties_text("ID"), Err(ClientError::BadMessage { .. })));
    }

    #[test]
    fn ids_differ_within_and_between_clients() {
        let (one, two) = (UniqueIds::new(), UniqueIds::new());
        let mut ids: Vec<String> = (0..100).map(|_| one.next()).collect();
        ids.push(two.next());
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!((ids.len(), ids[0].len()), (count, 32));
    }
}
