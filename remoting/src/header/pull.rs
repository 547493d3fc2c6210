//! Headers of pulls (11, 361) and of their answers.

use crate::header::header;
use crate::text::Text;

/// The commit offset in the request counts.
pub const PULL_FLAG_COMMIT_OFFSET: i32 = 1;
/// The request may be held until something arrives.
pub const PULL_FLAG_SUSPEND: i32 = 2;
/// The request carries its subscription; without this bit the one of the heartbeat counts.
pub const PULL_FLAG_SUBSCRIPTION: i32 = 4;
/// A filter class, long gone.
pub const PULL_FLAG_CLASS_FILTER: i32 = 8;
/// The request comes from a lite pull consumer.
pub const PULL_FLAG_LITE: i32 = 16;

/// Why a pull was refused with "no permission": what lacks it.
pub mod forbidden {
    pub const BROKER: i32 = 1;
    pub const GROUP: i32 = 2;
    pub const TOPIC: i32 = 3;
    pub const BROADCAST: i32 = 4;
    pub const SUBSCRIPTION: i32 = 5;
}

header! {
    /// A pull from one queue.
    PullMessage {
        consumer_group: Text = required "consumerGroup",
        topic: Text = required "topic",
        queue_id: i32 = required "queueId",
        /// The first wanted offset.
        queue_offset: i64 = required "queueOffset",
        message_count_max: i32 = required "maxMsgNums",
        /// The `PULL_FLAG_…` bits.
        sys_flag: i32 = required "sysFlag",
        commit_offset: i64 = required "commitOffset",
        suspend_timeout_ms: i64 = required "suspendTimeoutMillis",
        subscription: Option<Text> = optional "subscription",
        subscription_version: i64 = required "subVersion",
        expression_type: Option<Text> = optional "expressionType",
        message_bytes_max: Option<i32> = optional "maxMsgBytes",
    }
}

impl PullMessage {
    /// Whether one of the `PULL_FLAG_…` bits is set.
    pub fn has(&self, flag: i32) -> bool {
        self.sys_flag & flag != 0
    }
}

header! {
    /// The answer to a pull; found, not found and moved offsets all carry it.
    PullMessageResponse {
        suggest_which_broker_id: i64 = required "suggestWhichBrokerId",
        next_begin_offset: i64 = required "nextBeginOffset",
        min_offset: i64 = required "minOffset",
        max_offset: i64 = required "maxOffset",
        offset_delta: Option<i64> = optional "offsetDelta",
        topic_sys_flag: Option<i32> = optional "topicSysFlag",
        group_sys_flag: Option<i32> = optional "groupSysFlag",
        forbidden_type: Option<i32> = optional "forbiddenType",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;

    #[test]
    fn a_pull_of_a_real_client_is_read() {
        let mut fields = Fields::new();
        for (name, value) in [
            ("consumerGroup", "cg"),
            ("topic", "T"),
            ("queueId", "2"),
            ("queueOffset", "5"),
            ("maxMsgNums", "32"),
            ("sysFlag", "3"),
            ("commitOffset", "5"),
            ("suspendTimeoutMillis", "15000"),
            ("subVersion", "1700000000000"),
            ("expressionType", "TAG"),
            ("bname", "broker-a"),
        ] {
            fields.push_named(name, value);
        }
        let pull = PullMessage::decode(&fields).unwrap();
        assert_eq!((pull.queue_offset, pull.suspend_timeout_ms, pull.subscription.clone()), (5, 15_000, None));
        assert!(pull.has(PULL_FLAG_SUSPEND) && pull.has(PULL_FLAG_COMMIT_OFFSET) && !pull.has(PULL_FLAG_SUBSCRIPTION));
        fields.remove("queueOffset");
        assert_eq!(PullMessage::decode(&fields).unwrap_err().name(), "queueOffset");
    }

    #[test]
    fn an_answer_survives_the_trip() {
        let response = PullMessageResponse {
            suggest_which_broker_id: 0,
            next_begin_offset: 7,
            min_offset: 0,
            max_offset: i64::MAX,
            offset_delta: None,
            topic_sys_flag: Some(0),
            group_sys_flag: None,
            forbidden_type: Some(forbidden::GROUP),
        };
        assert_eq!(PullMessageResponse::decode(&response.to_fields()), Ok(response));
    }
}
