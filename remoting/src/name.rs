//! What topics and groups may be called, and the names that mean something by themselves.
//!
//! A name becomes a folder and a key on disk, so the rule is checked before anything else is done with it.

use thiserror::Error;

/// The longest name of an ordinary topic.
pub const TOPIC_BYTES_MAX: usize = 127;
/// The longest name of a retry or dead letter topic, which holds a group's name and more.
pub const DERIVED_TOPIC_BYTES_MAX: usize = 255;
pub const GROUP_BYTES_MAX: usize = 120;

pub const RETRY_PREFIX: &str = "%RETRY%";
pub const DLQ_PREFIX: &str = "%DLQ%";
/// Of light queues: topics of one queue that make themselves.
pub const LIGHT_PREFIX: &str = "%LMQ%";
/// Between group and topic in the newer names of retry topics. No other name holds it.
pub const NEW_RETRY_SEPARATOR: char = '+';
/// What the names of topics start with that belong to the system, beside the fixed ones.
pub const SYSTEM_TOPIC_PREFIX: &str = "rmq_sys_";
/// What the names of topics start with in which is noted what popping consumers have.
pub const REVIVE_TOPIC_PREFIX: &str = "rmq_sys_REVIVE_LOG_";
/// What the names of groups start with that belong to the system, beside the fixed ones.
pub const SYSTEM_GROUP_PREFIX: &str = "CID_RMQ_SYS_";

/// The topic whose settings topics are made with on the first send.
pub const AUTO_CREATE_TOPIC: &str = "TBW102";
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
pub const BENCHMARK_TOPIC: &str = "BenchmarkTest";
pub const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
pub const OP_HALF_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
pub const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
pub const CHECK_MAX_TIME_TOPIC: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
pub const SELF_TEST_TOPIC: &str = "SELF_TEST_TOPIC";
pub const OFFSET_MOVED_TOPIC: &str = "OFFSET_MOVED_EVENT";
pub const CHECKPOINT_TOPIC: &str = "CHECKPOINT_TOPIC";
pub const TIMER_TOPIC: &str = "rmq_sys_wheel_timer";

/// Topics of the system, whatever cluster and broker are called.
pub const SYSTEM_TOPICS: [&str; 10] = [
    AUTO_CREATE_TOPIC,
    SCHEDULE_TOPIC,
    BENCHMARK_TOPIC,
    HALF_TOPIC,
    TRACE_TOPIC,
    OP_HALF_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    SELF_TEST_TOPIC,
    OFFSET_MOVED_TOPIC,
    CHECKPOINT_TOPIC,
];

/// Topics that clients may not send to.
pub const UNSENDABLE_TOPICS: [&str; 7] =
    [SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC, TIMER_TOPIC];

/// Groups that exist when a broker starts.
pub const BOOT_GROUPS: [&str; 8] = [
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
];

/// A name that breaks the rule. The text says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    #[error("the {kind} name is empty")]
    Empty { kind: &'static str },
    #[error("the {kind} name has {bytes} bytes, at most {bytes_max} are allowed")]
    TooLong { kind: &'static str, bytes: usize, bytes_max: usize },
    #[error("the {kind} name holds {character:?} at byte {at}; allowed are letters, digits, '_', '-', '%' and '|'")]
    Character { kind: &'static str, character: char, at: usize },
}

/// # Errors
/// Telling what is wrong with the name and what is allowed.
pub fn check_topic(topic: &str) -> Result<(), NameError> {
    let derived = is_retry_topic(topic) || is_dlq_topic(topic);
    let bytes_max = if derived { DERIVED_TOPIC_BYTES_MAX } else { TOPIC_BYTES_MAX };
    match topic.split_once(NEW_RETRY_SEPARATOR) {
        Some((group, of_group)) if is_retry_topic(topic) && topic.len() <= bytes_max => {
            check("topic", group, bytes_max)?;
            check("topic", of_group, bytes_max)
        }
        _ => check("topic", topic, bytes_max),
    }
}

/// # Errors
/// Telling what is wrong with the name and what is allowed.
pub fn check_group(group: &str) -> Result<(), NameError> {
    check("group", group, GROUP_BYTES_MAX)
}

fn check(kind: &'static str, name: &str, bytes_max: usize) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty { kind });
    }
    if let Some((at, character)) = name.char_indices().find(|(_, character)| !is_allowed(*character)) {
        return Err(NameError::Character { kind, character, at });
    }
    let bytes = name.len();
    if bytes > bytes_max { Err(NameError::TooLong { kind, bytes, bytes_max }) } else { Ok(()) }
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '%' | '|')
}

/// Whether the topic belongs to the system by its name. Cluster, broker and reply topics are known to the broker only.
pub fn is_system_topic(topic: &str) -> bool {
    SYSTEM_TOPICS.contains(&topic) || topic.starts_with(SYSTEM_TOPIC_PREFIX)
}

/// Whether clients may send to the topic.
pub fn is_sendable(topic: &str) -> bool {
    !UNSENDABLE_TOPICS.contains(&topic)
}

pub fn is_system_group(group: &str) -> bool {
    const OTHERS: [&str; 2] = ["__MONITOR_CONSUMER", "CLIENT_INNER_PRODUCER"];
    BOOT_GROUPS.contains(&group) || OTHERS.contains(&group) || group.starts_with(SYSTEM_GROUP_PREFIX)
}

pub fn is_retry_topic(topic: &str) -> bool {
    topic.starts_with(RETRY_PREFIX)
}

pub fn is_light_topic(topic: &str) -> bool {
    topic.starts_with(LIGHT_PREFIX)
}

pub fn is_dlq_topic(topic: &str) -> bool {
    topic.starts_with(DLQ_PREFIX)
}

/// Where what a group failed to consume comes again.
pub fn retry_topic(group: &str) -> String {
    format!("{RETRY_PREFIX}{group}")
}

/// Where what a group failed to consume ends.
pub fn dlq_topic(group: &str) -> String {
    format!("{DLQ_PREFIX}{group}")
}

/// The retry topic of a group that pops from `topic`.
pub fn pop_retry_topic(group: &str, topic: &str) -> String {
    format!("{RETRY_PREFIX}{group}_{topic}")
}

/// As [`pop_retry_topic`], by the newer rule: no group and topic share a name with others.
pub fn pop_retry_topic_new(group: &str, topic: &str) -> String {
    format!("{RETRY_PREFIX}{group}{NEW_RETRY_SEPARATOR}{topic}")
}

/// Where what is in the hands of popping consumers is noted.
pub fn revive_topic(cluster: &str) -> String {
    format!("{REVIVE_TOPIC_PREFIX}{cluster}")
}

/// Where answers to requests of clients are sent.
pub fn reply_topic(cluster: &str) -> String {
    format!("{cluster}_REPLY_TOPIC")
}

/// The group of a retry topic.
pub fn group_of_retry_topic(topic: &str) -> Option<&str> {
    topic.strip_prefix(RETRY_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_to_the_byte() {
        let name = |bytes| "a".repeat(bytes);
        for (topic, legal) in [(name(1), true), (name(127), true), (name(128), false), (name(0), false)] {
            assert_eq!(check_topic(&topic).is_ok(), legal, "{} bytes", topic.len());
        }
        assert!(check_group(&name(120)).is_ok() && check_group(&name(121)).is_err());
        for (prefix, rest) in [(RETRY_PREFIX, 248), (DLQ_PREFIX, 250)] {
            assert!(check_topic(&format!("{prefix}{}", name(rest))).is_ok());
            assert!(check_topic(&format!("{prefix}{}", name(rest + 1))).is_err());
        }
        assert!(check_topic(&retry_topic(&name(120))).is_ok());
    }

    #[test]
    fn names_that_would_leave_the_store_are_refused() {
        for topic in ["../x", "a/b", "a\\b", "", ".", "a.b", "a b", "a\n", "a\0", "主题", "a+b", "x:y"] {
            assert!(check_topic(topic).is_err(), "{topic:?}");
            assert!(check_group(topic).is_err(), "{topic:?}");
        }
        for topic in ["T", "%RETRY%g", "ns1%topic", "a_b-c|d", "0"] {
            assert!(check_topic(topic).is_ok(), "{topic}");
        }
        assert_eq!(
            check_topic("a/b").unwrap_err().to_string(),
            "the topic name holds '/' at byte 1; allowed are letters, digits, '_', '-', '%' and '|'"
        );
        assert_eq!(
            check_topic(&"a".repeat(128)).unwrap_err().to_string(),
            "the topic name has 128 bytes, at most 127 are allowed"
        );
    }

    #[test]
    fn system_names_are_known() {
        assert!(is_system_topic("TBW102") && is_system_topic("rmq_sys_wheel_timer") && !is_system_topic("T"));
        assert!(is_sendable("TBW102") && !is_sendable("SCHEDULE_TOPIC_XXXX"));
        assert!(is_system_group("CID_RMQ_SYS_TRANS") && !is_system_group("cg"));
        assert_eq!(group_of_retry_topic("%RETRY%g"), Some("g"));
        assert_eq!(pop_retry_topic("g", "T"), "%RETRY%g_T");
        assert_eq!(pop_retry_topic_new("g", "T"), "%RETRY%g+T");
        assert!(
            check_topic("%RETRY%g+T").is_ok() && check_topic("g+T").is_err() && check_topic("%RETRY%g+T+U").is_err()
        );
        assert_eq!((dlq_topic("g"), reply_topic("c")), ("%DLQ%g".to_owned(), "c_REPLY_TOPIC".to_owned()));
    }
}
