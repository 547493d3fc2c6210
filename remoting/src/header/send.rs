//! Headers of sends (10, 310, 320, 324, 325) and of their answers.

use crate::fields::{FieldError, Fields, FromField, ToFieldText};
use crate::header::header;
use crate::text::Text;

/// The region told to clients that ask for none.
pub const REGION_DEFAULT: &str = "DefaultRegion";

/// A send. `T` is how its texts are held: on their own, or as `&str` where the fields have them. Codes 10 and 324 carry long field names, 310, 320 and 325 single letters; both may come with any code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendMessage<T = Text> {
    pub producer_group: T,
    pub topic: T,
    /// The topic whose settings a new topic takes over.
    pub default_topic: T,
    pub default_topic_queue_nums: i32,
    /// Negative: the broker picks a queue.
    pub queue_id: i32,
    pub sys_flag: i32,
    pub born_timestamp_ms: i64,
    pub flag: i32,
    /// Names and values as [`crate::properties`] reads them.
    pub properties: T,
    pub reconsume_times: i32,
    pub unit_mode: bool,
    pub max_reconsume_times: Option<i32>,
    /// The body holds several messages, see [`crate::record::BatchItems`].
    pub batch: bool,
    pub broker_name: Option<T>,
}

/// Long name and letter of each field, in the order of the letters.
const NAMES: [(&str, &str); 14] = [
    ("producerGroup", "a"),
    ("topic", "b"),
    ("defaultTopic", "c"),
    ("defaultTopicQueueNums", "d"),
    ("queueId", "e"),
    ("sysFlag", "f"),
    ("bornTimestamp", "g"),
    ("flag", "h"),
    ("properties", "i"),
    ("reconsumeTimes", "j"),
    ("unitMode", "k"),
    ("maxReconsumeTimes", "l"),
    ("batch", "m"),
    ("bname", "n"),
];

/// Where each of [`NAMES`] stands in the fields, found in one walk.
struct Found<'a> {
    fields: &'a Fields,
    at: [Option<usize>; NAMES.len()],
}

impl<'a> Found<'a> {
    fn new(fields: &'a Fields) -> Found<'a> {
        let mut at = [None; NAMES.len()];
        for (index, name) in fields.names_bytes().enumerate() {
            let number = match name {
                [letter @ b'a'..=b'n'] => Some(usize::from(letter - b'a')),
                _ => NAMES.iter().position(|(long, _)| long.as_bytes() == name),
            };
            if let Some(number) = number {
                at[number] = Some(index);
            }
        }
        Found { fields, at }
    }

    fn optional<T: FromField<'a>>(&self, number: usize) -> Result<Option<T>, FieldError> {
        self.at[number].map(|index| self.fields.read_at(index, NAMES[number].0)).transpose()
    }

    fn required<T: FromField<'a>>(&self, number: usize) -> Result<T, FieldError> {
        self.optional(number)?.ok_or(FieldError::Missing { name: NAMES[number].0 })
    }
}

/// What decides where a send goes, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination<'a> {
    pub topic: &'a str,
    pub queue: &'a str,
    /// Empty where there are none.
    pub properties: &'a str,
}

/// All that is needed to pass a send on, found in one walk.
pub fn destination(fields: &Fields) -> Option<Destination<'_>> {
    let (mut topic, mut queue, mut properties) = (None, None, None);
    for (index, name) in fields.names_bytes().enumerate() {
        match name {
            b"b" | b"topic" => topic = Some(index),
            b"e" | b"queueId" => queue = Some(index),
            b"i" | b"properties" => properties = Some(index),
            _ => {}
        }
    }
    Some(Destination {
        topic: fields.read_at(topic?, "topic").ok()?,
        queue: fields.read_at(queue?, "queueId").ok()?,
        properties: properties.map_or(Ok(""), |index| fields.read_at(index, "properties")).ok()?,
    })
}

impl SendMessage {
    /// Reads either form of names.
    ///
    /// # Errors
    /// Naming the first field that is missing or unreadable, by its long name.
    pub fn decode(fields: &Fields) -> Result<SendMessage, FieldError> {
        SendMessage::decode_as(fields)
    }
}

impl<T> SendMessage<T> {
    /// As [`SendMessage::decode`], with the texts held as the caller wants them.
    ///
    /// # Errors
    /// As that function.
    pub fn decode_as<'a>(fields: &'a Fields) -> Result<SendMessage<T>, FieldError>
    where
        T: FromField<'a> + Default,
    {
        let found = Found::new(fields);
        Ok(SendMessage {
            producer_group: found.required(0)?,
            topic: found.required(1)?,
            default_topic: found.required(2)?,
            default_topic_queue_nums: found.required(3)?,
            queue_id: found.required(4)?,
            sys_flag: found.required(5)?,
            born_timestamp_ms: found.required(6)?,
            flag: found.required(7)?,
            properties: found.optional(8)?.unwrap_or_default(),
            reconsume_times: found.optional(9)?.unwrap_or(0),
            unit_mode: found.optional(10)?.unwrap_or(false),
            max_reconsume_times: found.optional(11)?,
            batch: found.optional(12)?.unwrap_or(false),
            broker_name: found.optional(13)?,
        })
    }
}

impl<T: ToFieldText> SendMessage<T> {
    /// Appends the fields with their long names, for code 10.
    pub fn encode_long(&self, fields: &mut Fields) {
        self.encode_with(fields, |number| NAMES[number].0);
    }

    /// Appends the fields with single letters, for codes 310 and 320.
    pub fn encode_short(&self, fields: &mut Fields) {
        self.encode_with(fields, |number| NAMES[number].1);
    }

    fn encode_with(&self, fields: &mut Fields, name: impl Fn(usize) -> &'static str) {
        fields.push(name(0), &self.producer_group);
        fields.push(name(1), &self.topic);
        fields.push(name(2), &self.default_topic);
        fields.push(name(3), self.default_topic_queue_nums);
        fields.push(name(4), self.queue_id);
        fields.push(name(5), self.sys_flag);
        fields.push(name(6), self.born_timestamp_ms);
        fields.push(name(7), self.flag);
        fields.push(name(8), &self.properties);
        fields.push(name(9), self.reconsume_times);
        fields.push(name(10), self.unit_mode);
        if let Some(times) = self.max_reconsume_times {
            fields.push(name(11), times);
        }
        fields.push(name(12), self.batch);
        if let Some(broker_name) = &self.broker_name {
            fields.push(name(13), broker_name);
        }
    }
}

header! {
    /// The answer to a send, for every code that means "stored".
    SendMessageResponse {
        /// The id made of broker address and physical offset; of a batch, the ids joined by commas.
        msg_id: Text = required "msgId",
        queue_id: i32 = required "queueId",
        queue_offset: i64 = required "queueOffset",
        transaction_id: Option<Text> = optional "transactionId",
        batch_uniq_id: Option<Text> = optional "batchUniqId",
        recall_handle: Option<Text> = optional "recallHandle",
        region: Text = or(Text::from_static(REGION_DEFAULT)) "MSG_REGION",
        trace_on: bool = or(true) "TRACE_ON",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SendMessage {
        SendMessage {
            producer_group: Text::from("pg"),
            topic: Text::from("T"),
            default_topic: Text::from("TBW102"),
            default_topic_queue_nums: 4,
            queue_id: -1,
            sys_flag: 0,
            born_timestamp_ms: 1_700_000_000_000,
            flag: 0,
            properties: Text::from("TAGS\u{1}a\u{2}"),
            reconsume_times: 0,
            unit_mode: false,
            max_reconsume_times: Some(16),
            batch: true,
            broker_name: None,
        }
    }

    #[test]
    fn long_and_short_names_mean_the_same() {
        let (mut long, mut short) = (Fields::new(), Fields::new());
        sample().encode_long(&mut long);
        sample().encode_short(&mut short);
        assert_eq!((long.get("topic"), short.get("b"), short.get("topic")), (Some("T"), Some("T"), None));
        assert_eq!(SendMessage::decode(&long), Ok(sample()));
        assert_eq!(SendMessage::decode(&short), Ok(sample()));
        let found = sample();
        let found = Destination { topic: "T", queue: "-1", properties: &found.properties };
        assert_eq!((destination(&long), destination(&short)), (Some(found), Some(found)));
        short.remove("e");
        assert_eq!(destination(&short), None);
    }

    #[test]
    fn each_required_field_is_missed_by_name() {
        for (number, (long, short)) in NAMES.into_iter().enumerate() {
            let mut fields = Fields::new();
            sample().encode_short(&mut fields);
            fields.remove(short);
            match SendMessage::decode(&fields) {
                Ok(_) => assert!(number >= 8, "{long} must be demanded"),
                Err(error) => assert_eq!((number < 8, error.name()), (true, long)),
            }
        }
    }

    #[test]
    fn answers_carry_region_and_trace() {
        let response = SendMessageResponse {
            msg_id: Text::from("7F00000100002A9F0000000000000000"),
            queue_id: 1,
            queue_offset: 2,
            transaction_id: None,
            batch_uniq_id: None,
            recall_handle: None,
            region: Text::from_static(REGION_DEFAULT),
            trace_on: true,
        };
        let fields = response.to_fields();
        assert_eq!((fields.get("MSG_REGION"), fields.get("TRACE_ON")), (Some("DefaultRegion"), Some("true")));
        assert_eq!(SendMessageResponse::decode(&fields), Ok(response));
    }
}
