//! What is derived from a record: its entry in a queue and its keys.

use base::{LogOffset, java_string_hash, stable_hash};
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

/// What of a record's properties is derived, found in one pass: this runs for each message appended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Indexed<'a> {
    tags: Option<&'a str>,
    keys: Option<&'a str>,
    unique_key: Option<&'a str>,
    due_ms: Option<&'a str>,
}

impl<'a> Indexed<'a> {
    pub(crate) fn of(text: &'a str) -> Indexed<'a> {
        let mut indexed = Indexed::default();
        // Of several entries with one name the last counts.
        for (name, value) in properties::parse(text) {
            match name {
                properties::TAGS => indexed.tags = Some(value),
                properties::KEYS => indexed.keys = Some(value),
                properties::UNIQUE_KEY => indexed.unique_key = Some(value),
                properties::TIMER_OUT_MS => indexed.due_ms = Some(value),
                _ => {}
            }
        }
        indexed
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
    pub(crate) fn key_hashes(&self, scratch: &mut String, topic: &str, mut each: impl FnMut(u64)) {
        if let Some(unique_key) = self.unique_key {
            each(hash_in(scratch, topic, unique_key));
        }
        let keys = self.keys.unwrap_or_default().split(properties::KEY_SEPARATOR);
        keys.filter(|key| !key.is_empty()).for_each(|key| each(hash_in(scratch, topic, key)));
    }
}

/// The hash under which a key of a topic is found.
pub fn key_hash(topic: &str, key: &str) -> u64 {
    hash_in(&mut String::with_capacity(topic.len() + 1 + key.len()), topic, key)
}

/// As [`key_hash`], with a text that is used again and again.
fn hash_in(scratch: &mut String, topic: &str, key: &str) -> u64 {
    scratch.clear();
    scratch.push_str(topic);
    scratch.push('#');
    scratch.push_str(key);
    stable_hash(scratch)
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
        Indexed::of(text).key_hashes(&mut String::new(), "T", |hash| hashes.push(hash));
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
