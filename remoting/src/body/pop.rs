//! Bodies of POP consumption: acknowledgements (200151), assignments (400) and request modes (401, 402).

use std::collections::BTreeMap;

use super::heartbeat::MessageModel;
use super::{MessageQueue, body, words};
use crate::text::Text;

words! {
    /// How a group gets its messages.
    MessageRequestMode {
        #[default]
        Pull = "PULL",
        Pop = "POP",
    }
}

body! {
    /// Messages that were popped together, by one receipt. The long names are those of older clients.
    struct BatchAck {
        /// Base64 of bits, the lowest first: bit n is the message `n` behind the start.
        #[serde(rename = "b", alias = "bitSet")]
        pub bits: Text,
        #[serde(rename = "c", alias = "consumerGroup")]
        pub consumer_group: Text,
        #[serde(rename = "it", alias = "invisibleTime")]
        pub invisible_time_ms: i64,
        #[serde(rename = "pt", alias = "popTime")]
        pub pop_time_ms: i64,
        #[serde(rename = "q", alias = "queueId")]
        pub queue_id: i32,
        /// The kind of the topic that they were popped from, as a digit.
        #[serde(rename = "r", alias = "retry")]
        pub retry: Text,
        #[serde(rename = "rq", alias = "reviveQueueId")]
        pub revive_queue_id: i32,
        #[serde(rename = "so", alias = "startOffset")]
        pub start_offset: i64,
        #[serde(rename = "t", alias = "topic")]
        pub topic: Text,
    }

    /// Body of 200151.
    struct BatchAckBody {
        pub acks: Vec<BatchAck>,
        pub broker_name: Text,
    }

    /// Body of 400.
    struct QueryAssignment {
        pub client_id: Text,
        pub consumer_group: Text,
        pub message_model: MessageModel,
        pub strategy_name: Text,
        pub topic: Text,
    }

    struct MessageQueueAssignment {
        pub message_queue: MessageQueue,
        pub mode: MessageRequestMode,
    }

    /// Answer to 400. Without a list the client keeps what it has.
    struct QueryAssignmentResponse {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub message_queue_assignments: Option<Vec<MessageQueueAssignment>>,
    }

    /// Body of 401.
    struct SetMessageRequestMode {
        pub consumer_group: Text,
        pub mode: MessageRequestMode,
        /// How many others' queues a client pops beside its own; none or less: all queues.
        pub pop_share_queue_num: i32,
        pub topic: Text,
    }

    /// Answer to 402: modes by topic and group.
    struct MessageRequestModes {
        pub message_request_mode_map: BTreeMap<Text, BTreeMap<Text, SetMessageRequestMode>>,
    }
}

/// The numbers of the bits that are set in a base64 text, ascending; `None` when it is no such text.
pub fn bits_set(base64: &str) -> Option<Vec<u32>> {
    let (mut bits, mut at) = (Vec::new(), 0);
    let (mut held, mut held_bits) = (0_u32, 0);
    for letter in base64.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        held = held << 6 | u32::from(value);
        held_bits += 6;
        if held_bits >= 8 {
            held_bits -= 8;
            let byte = held >> held_bits & 0xff;
            bits.extend((0..8).filter(|bit| byte & 1 << bit != 0).map(|bit| at + bit));
            at += 8;
        }
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn bits_are_counted_from_the_lowest() {
        assert_eq!(bits_set("AQI="), Some(vec![0, 9]));
        assert_eq!(bits_set("/w=="), Some((0..8).collect()));
        assert_eq!((bits_set(""), bits_set("A?==")), (Some(Vec::new()), None));
    }

    #[test]
    fn acknowledgements_have_short_and_long_names() {
        let short =
            r#"{"acks":[{"c":"g","t":"T","r":"0","so":5,"q":1,"rq":0,"pt":9,"it":60,"b":"AQ=="}],"brokerName":"b"}"#;
        let long = r#"{"acks":[{"consumerGroup":"g","topic":"T","retry":"0","startOffset":5,"queueId":1,"reviveQueueId":0,"popTime":9,"invisibleTime":60,"bitSet":"AQ=="}],"brokerName":"b"}"#;
        let (short, long): (BatchAckBody, BatchAckBody) =
            (json::decode(short.as_bytes()).unwrap(), json::decode(long.as_bytes()).unwrap());
        assert_eq!(short, long);
        assert_eq!((short.acks[0].start_offset, &*short.acks[0].topic), (5, "T"));
    }
}
