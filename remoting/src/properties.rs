//! The properties of a message: names and values in one text.
//!
//! `name 0x01 value 0x02 name 0x01 value 0x02 …`. Entries without 0x01, without a name or without a value do not
//! exist for any reader. Nothing here allocates but the builder and the functions that return a new text.

use crate::fields::ToFieldText;
use crate::find::position_of;

/// Between a name and its value.
pub const NAME_END: char = '\u{1}';
/// Behind a value.
pub const VALUE_END: char = '\u{2}';
/// Between the keys of a message within [`KEYS`].
pub const KEY_SEPARATOR: char = ' ';
/// The longest text a record can hold; its length is a signed 16-bit number.
pub const PROPERTIES_BYTES_MAX: usize = i16::MAX as usize;

pub const KEYS: &str = "KEYS";
pub const TAGS: &str = "TAGS";
/// "false": the answer need not wait for the disk.
pub const WAIT_STORE: &str = "WAIT";
pub const DELAY_LEVEL: &str = "DELAY";
pub const UNIQUE_KEY: &str = "UNIQ_KEY";
pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
pub const REAL_TOPIC: &str = "REAL_TOPIC";
pub const REAL_QUEUE_ID: &str = "REAL_QID";
pub const ORIGIN_MESSAGE_ID: &str = "ORIGIN_MESSAGE_ID";
pub const RECONSUME_TIME: &str = "RECONSUME_TIME";
pub const MAX_RECONSUME_TIMES: &str = "MAX_RECONSUME_TIMES";
pub const DLQ_ORIGIN_TOPIC: &str = "DLQ_ORIGIN_TOPIC";
pub const DLQ_ORIGIN_MESSAGE_ID: &str = "DLQ_ORIGIN_MESSAGE_ID";
pub const TRANSACTION_PREPARED: &str = "TRAN_MSG";
pub const PRODUCER_GROUP: &str = "PGROUP";
pub const TRANSACTION_PREPARED_QUEUE_OFFSET: &str = "TRAN_PREPARED_QUEUE_OFFSET";
pub const TRANSACTION_ID: &str = "__transactionId__";
pub const TRANSACTION_CHECK_TIMES: &str = "TRANSACTION_CHECK_TIMES";
pub const CHECK_IMMUNITY_TIME_SECONDS: &str = "CHECK_IMMUNITY_TIME_IN_SECONDS";
pub const MIN_OFFSET: &str = "MIN_OFFSET";
pub const MAX_OFFSET: &str = "MAX_OFFSET";
pub const CONSUME_START_TIME: &str = "CONSUME_START_TIME";
pub const MSG_REGION: &str = "MSG_REGION";
pub const TRACE_ON: &str = "TRACE_ON";
pub const CLUSTER: &str = "CLUSTER";
pub const INSTANCE_ID: &str = "INSTANCE_ID";
pub const CORRELATION_ID: &str = "CORRELATION_ID";
pub const REPLY_TO_CLIENT: &str = "REPLY_TO_CLIENT";
pub const TIME_TO_LIVE: &str = "TTL";
pub const MESSAGE_TYPE: &str = "MSG_TYPE";
pub const ARRIVE_TIME: &str = "ARRIVE_TIME";
pub const PUSH_REPLY_TIME: &str = "PUSH_REPLY_TIME";
pub const SHARDING_KEY: &str = "__SHARDINGKEY";
pub const PRIORITY: &str = "_SYS_MSG_PRIORITY_";
pub const TIMER_DELAY_SECONDS: &str = "TIMER_DELAY_SEC";
pub const TIMER_DELAY_MS: &str = "TIMER_DELAY_MS";
pub const TIMER_DELIVER_MS: &str = "TIMER_DELIVER_MS";
pub const TIMER_OUT_MS: &str = "TIMER_OUT_MS";
pub const TIMER_ENQUEUE_MS: &str = "TIMER_ENQUEUE_MS";
pub const TIMER_DEQUEUE_MS: &str = "TIMER_DEQUEUE_MS";
pub const TIMER_ROLL_TIMES: &str = "TIMER_ROLL_TIMES";
pub const TIMER_DELAY_LEVEL: &str = "TIMER_DELAY_LEVEL";
pub const TIMER_DELETE_UNIQUE_KEY: &str = "TIMER_DEL_UNIQKEY";
pub const POP_CHECKPOINT: &str = "POP_CK";
pub const POP_CHECKPOINT_OFFSET: &str = "POP_CK_OFFSET";
pub const FIRST_POP_TIME: &str = "1ST_POP_TIME";
/// The group of a message that comes again since nobody acknowledged it.
pub const ORIGIN_GROUP: &str = "ORIGIN_GROUP";
pub const INNER_NUM: &str = "INNER_NUM";
pub const INNER_BASE: &str = "INNER_BASE";
pub const INNER_MULTI_DISPATCH: &str = "INNER_MULTI_DISPATCH";
pub const INNER_MULTI_QUEUE_OFFSET: &str = "INNER_MULTI_QUEUE_OFFSET";
pub const DUP_INFO: &str = "DUP_INFO";
pub const EXTEND_UNIQUE_INFO: &str = "EXTEND_UNIQ_INFO";
pub const CRC32: &str = "__CRC32#";
pub const BORN_TIMESTAMP: &str = "BORN_TIMESTAMP";
pub const BORN_HOST: &str = "__BORNHOST";

/// Names and values in the order they are written.
pub fn parse(properties: &str) -> impl Iterator<Item = (&str, &str)> {
    walk(properties).filter(Entry::exists).map(|entry| (entry.name, entry.value))
}

/// What stands between two ends of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub name: &'a str,
    pub value: &'a str,
    /// There is one [`NAME_END`], with something on both sides.
    pub is_clean: bool,
}

impl Entry<'_> {
    /// Whether readers see it. A second [`NAME_END`] belongs to the value.
    pub fn exists(&self) -> bool {
        !self.name.is_empty() && !self.value.is_empty()
    }
}

/// All entries, whether readers see them or not, each byte looked at once: this runs for each message.
pub fn walk(properties: &str) -> impl Iterator<Item = Entry<'_>> {
    const ENDS: [u8; 2] = [NAME_END as u8, VALUE_END as u8];
    let mut rest = Some(properties);
    std::iter::from_fn(move || {
        let text = rest?;
        let end_of_name = position_of(text.as_bytes(), ENDS).filter(|at| text.as_bytes()[*at] == NAME_END as u8);
        let Some(end_of_name) = end_of_name else {
            let (name, behind) = first_and_rest(text, VALUE_END);
            rest = behind;
            return Some(Entry { name, value: "", is_clean: false });
        };
        let (name, behind) = (&text[..end_of_name], &text[end_of_name + 1..]);
        let end = position_of(behind.as_bytes(), ENDS);
        let is_alone = end.is_none_or(|at| behind.as_bytes()[at] == VALUE_END as u8);
        let (value, next) = match end {
            Some(at) if is_alone => (&behind[..at], Some(&behind[at + 1..])),
            _ => first_and_rest(behind, VALUE_END),
        };
        rest = next;
        Some(Entry { name, value, is_clean: is_alone && !name.is_empty() && !value.is_empty() })
    })
}

/// The value of `name`; of several, the last, which is what a reader that fills a map ends up with.
pub fn get<'a>(properties: &'a str, name: &str) -> Option<&'a str> {
    parse(properties).filter(|entry| entry.0 == name).last().map(|entry| entry.1)
}

/// The values of several names, as [`get`] finds each, in one walk. A name has no separators in it, and stands once.
pub fn get_all<'a, N: AsRef<str>>(properties: &'a str, names: &[N], values: &mut [Option<&'a str>]) {
    values.fill(None);
    for (name, value) in parse(properties) {
        if let Some(at) = names.iter().position(|wanted| wanted.as_ref() == name) {
            values[at] = Some(value);
        }
    }
}

/// A copy without the entries of these names and without entries that no reader sees; it ends in 0x02 if anything
/// is left.
pub fn without(properties: &str, names: &[&str]) -> String {
    let mut kept = String::with_capacity(properties.len() + 1);
    for (name, value) in parse(properties).filter(|(name, _)| !names.contains(name)) {
        kept.push_str(name);
        kept.push(NAME_END);
        kept.push_str(value);
        kept.push(VALUE_END);
    }
    kept
}

/// A copy in which `name` has this value and no other.
pub fn with(properties: &str, name: &str, value: impl ToFieldText) -> String {
    let mut builder = Builder { text: without(properties, &[name]) };
    builder.push(name, value);
    builder.finish()
}

/// The keys of a message, each of which can be queried for.
pub fn keys(properties: &str) -> impl Iterator<Item = &str> {
    get(properties, KEYS).unwrap_or_default().split(KEY_SEPARATOR).filter(|key| !key.is_empty())
}

/// Whether a name or a value can be written: it holds neither separator and is not empty.
pub fn is_writable(text: &str) -> bool {
    !text.is_empty() && !text.bytes().any(|byte| byte == NAME_END as u8 || byte == VALUE_END as u8)
}

/// Writes properties.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    text: String,
}

impl Builder {
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Goes on behind properties that somebody else has written.
    pub fn from_text(properties: &str, room_bytes: usize) -> Builder {
        let mut text = String::with_capacity(properties.len() + 1 + room_bytes);
        text.push_str(properties);
        if !text.is_empty() && !text.ends_with(VALUE_END) {
            text.push(VALUE_END);
        }
        Builder { text }
    }

    /// Appends one entry. An earlier entry of that name stays, and is no longer seen.
    pub fn push(&mut self, name: &str, value: impl ToFieldText) {
        self.text.push_str(name);
        self.text.push(NAME_END);
        value.write_to(&mut self.text);
        self.text.push(VALUE_END);
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn finish(self) -> String {
        self.text
    }
}

/// The texts in front of and behind the first separator, which is a character of one byte. Not `str::split_once`, which
/// takes several times as long on short texts.
fn first_and_rest(text: &str, separator: char) -> (&str, Option<&str>) {
    match position_of(text.as_bytes(), [separator as u8]) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "KEYS\u{1}k1 k2\u{2}\u{1}x\u{2}bare\u{2}EMPTY\u{1}\u{2}TAGS\u{1}a\u{2}\u{2}TAGS\u{1}b";

    #[test]
    fn entries_that_do_not_exist_are_skipped() {
        assert_eq!(parse(SAMPLE).collect::<Vec<_>>(), [("KEYS", "k1 k2"), ("TAGS", "a"), ("TAGS", "b")]);
        assert_eq!(parse("").count(), 0);
        assert_eq!(parse("a\u{1}b").collect::<Vec<_>>(), [("a", "b")], "the last 0x02 may be missing");
    }

    #[test]
    fn a_walk_tells_clean_entries_from_others() {
        let seen: Vec<_> = walk("a\u{1}b\u{2}\u{1}x\u{2}bare\u{2}E\u{1}\u{2}t\u{1}u\u{1}v\u{2}\u{2}z\u{1}y").collect();
        let told: Vec<_> = seen.iter().map(|entry| (entry.name, entry.value, entry.is_clean, entry.exists())).collect();
        assert_eq!(
            told,
            [
                ("a", "b", true, true),
                ("", "x", false, false),
                ("bare", "", false, false),
                ("E", "", false, false),
                ("t", "u\u{1}v", false, true),
                ("", "", false, false),
                ("z", "y", true, true),
            ]
        );
    }

    #[test]
    fn get_agrees_with_parse() {
        let cases = [
            ("KEYS", Some("k1 k2")),
            ("TAGS", Some("b")),
            ("EMPTY", None),
            ("bare", None),
            ("KEY", None),
            ("", None),
            ("x", None),
        ];
        for (name, value) in cases {
            assert_eq!(get(SAMPLE, name), value, "{name}");
            assert_eq!(parse(SAMPLE).filter(|entry| entry.0 == name).last().map(|entry| entry.1), value, "{name}");
        }
        let names = ["bare", "KEYS", "TAGS", "EMPTY", "KEY"];
        for properties in [SAMPLE, "", "\u{2}", "KEYS\u{1}a\u{2}", "TAGS\u{1}a\u{1}b", "KEYS\u{1}a\u{2}KEYS\u{1}\u{2}"]
        {
            let mut values = [Some("old"); 5];
            get_all(properties, &names, &mut values);
            assert_eq!(values, names.map(|name| get(properties, name)), "{properties:?}");
        }
        assert_eq!(keys(SAMPLE).collect::<Vec<_>>(), ["k1", "k2"]);
        assert_eq!(keys("KEYS\u{1}  a  b \u{2}").collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn changed_copies_end_in_a_separator() {
        assert_eq!(without(SAMPLE, &["TAGS"]), "KEYS\u{1}k1 k2\u{2}");
        assert_eq!(without("", &["TAGS"]), "");
        assert_eq!(with("a\u{1}b", "c", 7), "a\u{1}b\u{2}c\u{1}7\u{2}");
        assert_eq!(with("a\u{1}b\u{2}c\u{1}d\u{2}", "a", "x"), "c\u{1}d\u{2}a\u{1}x\u{2}");
        let mut builder = Builder::from_text("a\u{1}b", 16);
        builder.push(UNIQUE_KEY, "id");
        assert_eq!(builder.finish(), "a\u{1}b\u{2}UNIQ_KEY\u{1}id\u{2}");
    }

    #[test]
    fn separators_cannot_be_written() {
        assert!(is_writable("a b") && !is_writable("") && !is_writable("a\u{1}") && !is_writable("\u{2}"));
    }
}
