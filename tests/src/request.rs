//! The requests that the tests need, as frames, and the answers' values.

use std::io;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::connection::Connection;
use crate::frame::{Frame, bad};
use crate::now_ms;
use crate::record::{Record, decode_all};

pub const SEND: i32 = 10;
pub const PULL: i32 = 11;
pub const QUERY_MESSAGE: i32 = 12;
pub const CONSUMER_OFFSET: i32 = 14;
pub const COMMIT_OFFSET: i32 = 15;
pub const CREATE_TOPIC: i32 = 17;
pub const RUNTIME_INFO: i32 = 28;
pub const OFFSET_BY_TIME: i32 = 29;
pub const MAX_OFFSET: i32 = 30;
pub const MIN_OFFSET: i32 = 31;
pub const EARLIEST_TIME: i32 = 32;
pub const HEARTBEAT: i32 = 34;
pub const SEND_BACK: i32 = 36;
pub const CONSUMER_LIST: i32 = 38;
/// Asked by the broker.
pub const MEMBERS_CHANGED: i32 = 40;
pub const LOCK_QUEUES: i32 = 41;
pub const ROUTE: i32 = 105;
pub const UPDATE_GROUP: i32 = 200;
pub const SEND_V2: i32 = 310;
pub const SEND_BATCH: i32 = 320;
pub const SEND_REPLY_V2: i32 = 325;
pub const RECALL: i32 = 370;

pub const CODE_OK: i32 = 0;
pub const CODE_SYSTEM_ERROR: i32 = 1;
pub const CODE_BUSY: i32 = 2;
pub const CODE_NOT_SUPPORTED: i32 = 3;
pub const CODE_MESSAGE_ILLEGAL: i32 = 13;
pub const CODE_TOPIC_NOT_EXIST: i32 = 17;
pub const CODE_PULL_NOT_FOUND: i32 = 19;
pub const CODE_PULL_OFFSET_MOVED: i32 = 21;
pub const CODE_NOT_FOUND: i32 = 22;
pub const CODE_INVALID_PARAMETER: i32 = 29;

/// How long a broker may take to show what it has acknowledged.
const VISIBLE_WITHIN: Duration = Duration::from_secs(10);

/// The bit of a pull's sysFlag that lets the broker hold the pull until a message comes.
const PULL_MAY_WAIT: u32 = 2;
/// The bit of a pull's sysFlag that says the subscription is in the request.
const PULL_HAS_SUBSCRIPTION: u32 = 4;

/// A queue of a topic, as most calls name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Queue {
    pub topic: String,
    pub id: u32,
}

impl Queue {
    pub fn new(topic: &str, id: u32) -> Queue {
        Queue { topic: topic.to_owned(), id }
    }
}

/// A send with the short field names of SEND_MESSAGE_V2; `properties` is the wire's text.
pub fn send(queue: &Queue, body: impl Into<Vec<u8>>, properties: &str) -> Frame {
    Frame::request(SEND_V2)
        .field("a", "harness-producer")
        .field("b", &queue.topic)
        .field("c", "TBW102")
        .field("d", 4)
        .field("e", queue.id)
        .field("f", 0)
        .field("g", now_ms())
        .field("h", 0)
        .field("i", properties)
        .field("j", 0)
        .field("k", false)
        .field("m", false)
        .body(body)
}

/// Bytes of a message in a batch beside its body and its properties.
pub const BATCHED_BYTES: usize = 4 + 4 + 4 + 4 + 4 + 2;

/// A batch of messages, each a body and its properties.
pub fn batch<B: AsRef<[u8]>>(queue: &Queue, messages: &[(B, &str)]) -> Frame {
    let mut bytes = Vec::new();
    for (body, properties) in messages {
        let body = body.as_ref();
        // Total, magic, checksum and flag, body, properties.
        bytes.extend(((BATCHED_BYTES + body.len() + properties.len()) as u32).to_be_bytes());
        bytes.extend([0; 12]);
        bytes.extend((body.len() as u32).to_be_bytes());
        bytes.extend(body);
        bytes.extend(u16::try_from(properties.len()).expect("short properties").to_be_bytes());
        bytes.extend(properties.as_bytes());
    }
    let mut request = send(queue, bytes, "").field("m", true);
    request.code = SEND_BATCH;
    request
}

/// A message sent back by a group that could not consume it; level 0 leaves the delay to the broker.
pub fn send_back(group: &str, physical_offset: u64, delay_level: i32) -> Frame {
    Frame::request(SEND_BACK)
        .field("group", group)
        .field("offset", physical_offset)
        .field("delayLevel", delay_level)
        .field("unitMode", false)
        // Apache's broker cannot do without one, and takes any.
        .field("originTopic", "")
}

/// A timed message that its producer takes back.
pub fn recall(topic: &str, handle: &str) -> Frame {
    Frame::request(RECALL)
        .field("topic", topic)
        .field("recallHandle", handle)
        .field("producerGroup", "harness-producer")
}

/// A send with the long field names of SEND_MESSAGE.
pub fn send_v1(queue: &Queue, body: impl Into<Vec<u8>>) -> Frame {
    Frame::request(SEND)
        .field("producerGroup", "harness-producer")
        .field("topic", &queue.topic)
        .field("defaultTopic", "TBW102")
        .field("defaultTopicQueueNums", 4)
        .field("queueId", queue.id)
        .field("sysFlag", 0)
        .field("bornTimestamp", now_ms())
        .field("flag", 0)
        .field("properties", "")
        .field("reconsumeTimes", 0)
        .field("unitMode", false)
        .body(body)
}

/// A pull that carries its subscription and is answered at once, also when there is nothing.
pub fn pull(group: &str, queue: &Queue, offset: i64, count_max: u32) -> Frame {
    Frame::request(PULL)
        .field("consumerGroup", group)
        .field("topic", &queue.topic)
        .field("queueId", queue.id)
        .field("queueOffset", offset)
        .field("maxMsgNums", count_max)
        .field("sysFlag", PULL_HAS_SUBSCRIPTION)
        .field("commitOffset", 0)
        .field("suspendTimeoutMillis", 0)
        .field("subscription", "*")
        .field("subVersion", 0)
        .field("expressionType", "TAG")
}

/// A pull that the broker may hold for `wait_ms`.
pub fn pull_waiting(group: &str, queue: &Queue, offset: i64, wait_ms: u64) -> Frame {
    pull(group, queue, offset, 32)
        .field("sysFlag", PULL_HAS_SUBSCRIPTION | PULL_MAY_WAIT)
        .field("suspendTimeoutMillis", wait_ms)
}

/// Any of the calls that take a queue and nothing else.
pub fn about_queue(code: i32, queue: &Queue) -> Frame {
    Frame::request(code).field("topic", &queue.topic).field("queueId", queue.id)
}

pub fn offset_by_time(queue: &Queue, time_ms: u64, boundary: &str) -> Frame {
    about_queue(OFFSET_BY_TIME, queue).field("timestamp", time_ms).field("boundaryType", boundary)
}

/// A query for messages with a key that were stored between two times.
pub fn query(topic: &str, key: &str, count_max: i32, (from_ms, to_ms): (i64, i64)) -> Frame {
    Frame::request(QUERY_MESSAGE)
        .field("topic", topic)
        .field("key", key)
        .field("maxNum", count_max)
        .field("beginTimestamp", from_ms)
        .field("endTimestamp", to_ms)
}

pub fn commit_offset(group: &str, queue: &Queue, offset: u64) -> Frame {
    about_queue(COMMIT_OFFSET, queue).field("consumerGroup", group).field("commitOffset", offset)
}

pub fn consumer_offset(group: &str, queue: &Queue) -> Frame {
    about_queue(CONSUMER_OFFSET, queue).field("consumerGroup", group).field("setZeroIfNotFound", false)
}

pub fn create_topic(topic: &str, queue_count: u32) -> Frame {
    Frame::request(CREATE_TOPIC)
        .field("topic", topic)
        .field("defaultTopic", "TBW102")
        .field("readQueueNums", queue_count)
        .field("writeQueueNums", queue_count)
        .field("perm", 6)
        .field("topicFilterType", "SINGLE_TAG")
        .field("topicSysFlag", 0)
        .field("order", false)
}

/// A heartbeat of a pull consumer: makes its group known to the broker.
pub fn heartbeat(client_id: &str, group: &str) -> Frame {
    heartbeat_of(client_id, group, "CLUSTERING", &[])
}

/// A heartbeat of a consumer with subscriptions: topic, tags and version of each.
pub fn heartbeat_of(client_id: &str, group: &str, model: &str, subscriptions: &[(&str, &str, u64)]) -> Frame {
    let subscriptions: Vec<_> = subscriptions
        .iter()
        .map(|(topic, tags, version)| {
            json!({
                "topic": topic, "subString": tags, "subVersion": version, "expressionType": "TAG",
                "classFilterMode": false, "tagsSet": [], "codeSet": [],
            })
        })
        .collect();
    let body = json!({
        "clientID": client_id, "producerDataSet": [{"groupName": "harness-producer"}],
        "consumerDataSet": [{
            "groupName": group, "consumeType": "CONSUME_ACTIVELY", "messageModel": model,
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "unitMode": false, "subscriptionDataSet": subscriptions,
        }],
        "heartbeatFingerprint": 0, "withoutSub": false,
    });
    Frame::request(HEARTBEAT).body(body.to_string())
}

pub fn route(topic: &str) -> Frame {
    Frame::request(ROUTE).field("topic", topic)
}

/// What the broker says of a stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub queue_id: u32,
    pub queue_offset: u64,
}

impl Stored {
    pub fn of(answer: &Frame) -> io::Result<Stored> {
        if answer.code != CODE_OK {
            return Err(io::Error::other(format!("send refused with {}: {}", answer.code, answer.remark)));
        }
        let unsigned = |n: i64| u64::try_from(n).map_err(|_| bad(format!("negative number in {answer:?}")));
        Ok(Stored {
            queue_id: u32::try_from(answer.number("queueId")?).map_err(|_| bad(format!("queue id in {answer:?}")))?,
            queue_offset: unsigned(answer.number("queueOffset")?)?,
        })
    }
}

/// What a pull brought, with the offsets that every pull answer must carry.
#[derive(Clone, Debug)]
pub struct Pulled {
    pub code: i32,
    pub next_offset: i64,
    pub min_offset: i64,
    pub max_offset: i64,
    pub records: Vec<Record>,
}

impl Pulled {
    pub fn of(answer: &Frame) -> io::Result<Pulled> {
        if ![0, 19, 20, 21].contains(&answer.code) {
            return Err(io::Error::other(format!("pull refused with {}: {}", answer.code, answer.remark)));
        }
        answer.number("suggestWhichBrokerId")?;
        Ok(Pulled {
            code: answer.code,
            next_offset: answer.number("nextBeginOffset")?,
            min_offset: answer.number("minOffset")?,
            max_offset: answer.number("maxOffset")?,
            records: decode_all(&answer.body)?,
        })
    }
}

/// One offset of a queue: the smallest or the largest.
pub fn offset_of(connection: &mut Connection, code: i32, queue: &Queue) -> io::Result<i64> {
    connection.call_ok(&about_queue(code, queue))?.number("offset")
}

/// A figure of the broker's runtime information; `None` if it has none of this name.
///
/// # Panics
/// When the broker does not answer with a table.
pub fn runtime_text(connection: &mut Connection, name: &str) -> Option<String> {
    let answer = connection.call_ok(&Frame::request(RUNTIME_INFO)).expect("answered");
    let table: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    table["table"][name].as_str().map(str::to_owned)
}

/// As [`runtime_text`], of a figure that is a number.
///
/// # Panics
/// When it is not there, or no number.
pub fn runtime_number(connection: &mut Connection, name: &str) -> u64 {
    let text = runtime_text(connection, name).unwrap_or_else(|| panic!("there is no {name}"));
    text.parse().unwrap_or_else(|_| panic!("{name} is {text}"))
}

/// Reads a queue from `start` until the broker has no more.
pub fn read_queue(connection: &mut Connection, queue: &Queue, start: i64) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut offset = start;
    loop {
        let pulled = Pulled::of(&connection.call(&pull("harness-reader", queue, offset, 32))?)?;
        match pulled.code {
            0 => records.extend(pulled.records),
            19 => return Ok(records),
            20 => {}
            code => return Err(bad(format!("{code} at {offset} of {queue:?}: {pulled:?}"))),
        }
        if pulled.next_offset <= offset {
            return Err(bad(format!("a pull at {offset} of {queue:?} leads back to {}", pulled.next_offset)));
        }
        offset = pulled.next_offset;
    }
}

/// Reads a queue from 0 once it has `count` messages; fewer are returned when they don't come in time.
///
/// # Panics
/// When the queue cannot be read.
pub fn read_queue_of(connection: &mut Connection, queue: &Queue, count: usize) -> Vec<Record> {
    await_count(connection, queue, count.try_into().expect("a small count"));
    read_queue(connection, queue, 0).unwrap_or_else(|error| panic!("{queue:?}: {error}"))
}

/// Waits, by held pulls, until a queue shows `count` messages; true when it does. Apache's broker shows a message some
/// milliseconds after it has acknowledged it.
///
/// # Panics
/// When the broker does not answer.
pub fn await_count(connection: &mut Connection, queue: &Queue, count: i64) -> bool {
    let deadline = Instant::now() + VISIBLE_WITHIN;
    while offset_of(connection, MAX_OFFSET, queue).expect("the queue's end is known") < count {
        if Instant::now() > deadline {
            return false;
        }
        let wait = pull_waiting("harness-reader", queue, count - 1, 1_000);
        connection.call(&wait).expect("a held pull is answered");
    }
    true
}
