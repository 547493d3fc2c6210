//! What is derived from a record: its entry in a queue and its keys.

use base::{LogOffset, StableHash, java_string_hash};
use remoting::name::TIMER_TOPIC;
use remoting::properties;
use remoting::record::sys_flag;

/// One message of a queue. 28 bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub offset: LogOffset,
    /// Bytes of the record.
    pub bytes: u32,
    /// Java's hash of the tag, or 0 without one. In the topic of messages that wait for their time it is that time, in
    /// milliseconds since 1970, so that what is due is found without reading records.
    pub tags_code: i64,
    pub store_timestamp_ms: u64,
}

impl Entry {
    /// Behind the record.
    pub fn limit(&self) -> LogOffset {
        self.offset.plus(u64::from(self.bytes))
    }
}

/// One key of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyEntry {
    pub(crate) hash: u64,
    pub(crate) offset: u64,
    pub(crate) store_timestamp_ms: u64,
}

/// What of a record's properties is derived. Who walks through them anyway gathers it on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indexed<'a> {
    tags: Option<&'a str>,
    keys: Option<&'a str>,
    unique_key: Option<&'a str>,
    due_ms: Option<&'a str>,
}

impl<'a> Indexed<'a> {
    pub fn of(text: &'a str) -> Indexed<'a> {
        let mut indexed = Indexed::default();
        properties::parse(text).for_each(|(name, value)| indexed.take(name, value));
        indexed
    }

    /// The next property. Of several with one name the last counts.
    pub fn take(&mut self, name: &str, value: &'a str) {
        match name {
            properties::TAGS => self.tags = Some(value),
            properties::KEYS => self.keys = Some(value),
            properties::UNIQUE_KEY => self.unique_key = Some(value),
            properties::TIMER_OUT_MS => self.due_ms = Some(value),
            _ => {}
        }
    }

    pub fn unique_key(&self) -> Option<&'a str> {
        self.unique_key
    }

    /// The tags code of a record of this topic with these flags.
    pub(crate) fn tags_code(&self, topic: &str, flags: i32) -> i64 {
        if topic == TIMER_TOPIC {
            return self.due_ms.and_then(|due_ms| due_ms.parse().ok()).unwrap_or(0);
        }
        if flags & sys_flag::MULTI_TAGS != 0 {
            return 0;
        }
        self.tags.map_or(0, |tags| i64::from(java_string_hash(tags)))
    }

    /// The hashes of all keys: the unique key, and each of the keys.
    pub(crate) fn key_hashes(&self, topic: KeyHash, each: impl FnMut(u64)) {
        let keys = self.keys.unwrap_or_default().split(properties::KEY_SEPARATOR);
        let keys = self.unique_key.into_iter().chain(keys.filter(|key| !key.is_empty()));
        keys.map(|key| topic.of(key)).for_each(each);
    }
}

/// The hash under which a key of a topic is found.
pub fn key_hash(topic: &str, key: &str) -> u64 {
    KeyHash::in_topic(topic).of(key)
}

/// [`key_hash`] of keys of one topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHash(StableHash);

impl KeyHash {
    pub(crate) fn in_topic(topic: &str) -> KeyHash {
        KeyHash(StableHash::of(topic).then("#"))
    }

    fn of(self, key: &str) -> u64 {
        self.0.then(key).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_keys_are_found() {
        let text = "KEYS\u{1}a  b\u{2}UNIQ_KEY\u{1}u\u{2}TAGS\u{1}TagA\u{2}";
        assert_eq!(Indexed::of(text).tags_code("T", 0), 2_598_919);
        assert_eq!(Indexed::of(text).tags_code("T", sys_flag::MULTI_TAGS), 0);
        assert_eq!(Indexed::of("").tags_code("T", 0), 0);
        let last_counts = Indexed::of("TAGS\u{1}a\u{2}TAGS\u{1}消息\u{2}").tags_code("T", 0);
        assert_eq!(last_counts, i64::from(java_string_hash("消息")));
        let mut hashes = Vec::new();
        Indexed::of(text).key_hashes(KeyHash::in_topic("T"), |hash| hashes.push(hash));
        assert_eq!(hashes, [key_hash("T", "u"), key_hash("T", "a"), key_hash("T", "b")]);
    }

    #[test]
    fn a_message_that_waits_is_indexed_by_its_time() {
        let text = "TAGS\u{1}TagA\u{2}TIMER_OUT_MS\u{1}1700000000123\u{2}";
        assert_eq!(Indexed::of(text).tags_code(TIMER_TOPIC, 0), 1_700_000_000_123);
        assert_eq!(Indexed::of(text).tags_code("T", 0), 2_598_919, "elsewhere it is a property like any other");
        assert_eq!(Indexed::of("").tags_code(TIMER_TOPIC, 0), 0);
    }
}
