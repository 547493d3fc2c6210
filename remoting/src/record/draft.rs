//! Writes a record: everything about it is known before it has a place, and its size does not depend on the place.

use std::net::{IpAddr, SocketAddr};

use base::{Millis, PhysicalOffset, QueueId, QueueOffset};
use crc32fast::Hasher;

use super::{
    BODY_BYTES_MAX, CHECKSUM_TAIL_BYTES, FIXED_BYTES, HOST_V4_BYTES, HOST_V6_BYTES, MAGIC_V1, MAGIC_V2, RecordView,
    TOPIC_BYTES_MAX, TOPIC_BYTES_V1_MAX, body_crc_of, sys_flag, without_tail,
};
use crate::properties::{PROPERTIES_BYTES_MAX, VALUE_END};

/// What is in front of a body, at most.
const HEAD_BYTES_MAX: usize = FIXED_BYTES + 2 * (HOST_V6_BYTES - HOST_V4_BYTES);
/// From here on joining two checksums is quicker than to sum up a body once more.
const COMBINED_FROM_BYTES: usize = 8 << 10;

/// A message that is to be stored.
#[derive(Clone, Copy, Debug)]
pub struct RecordDraft<'a> {
    pub topic: &'a str,
    pub queue_id: QueueId,
    pub flag: i32,
    /// The bits that tell the kind of the hosts are set by the encoder.
    pub sys_flag: i32,
    pub born_timestamp_ms: i64,
    pub born_host: SocketAddr,
    pub store_host: SocketAddr,
    pub reconsume_times: i32,
    pub prepared_transaction_offset: i64,
    pub body: &'a [u8],
    /// At most [`PROPERTIES_BYTES_MAX`]. A checksum tail copied from another record is dropped.
    pub properties: &'a str,
}

impl<'a> RecordDraft<'a> {
    /// A record that nobody sent: both hosts are the same, there are no properties, and the rest is 0.
    pub fn own(topic: &'a str, queue_id: QueueId, body: &'a [u8], host: SocketAddr, born: Millis) -> RecordDraft<'a> {
        RecordDraft {
            topic,
            queue_id,
            flag: 0,
            sys_flag: 0,
            born_timestamp_ms: born.0 as i64,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body,
            properties: "",
        }
    }

    /// The message of a record, to be stored once more with whatever is to differ.
    pub fn of(record: &RecordView<'a>) -> RecordDraft<'a> {
        RecordDraft {
            topic: record.topic(),
            queue_id: record.queue_id(),
            flag: record.flag(),
            sys_flag: record.sys_flag(),
            born_timestamp_ms: record.born_timestamp_ms(),
            born_host: record.born_host(),
            store_host: record.store_host(),
            reconsume_times: record.reconsume_times(),
            prepared_transaction_offset: record.prepared_transaction_offset(),
            body: record.body(),
            properties: record.properties(),
        }
    }
}

/// Where and when a record comes to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub queue_offset: QueueOffset,
    pub physical_offset: PhysicalOffset,
    pub store_timestamp_ms: i64,
}

/// How the properties are stored.
struct PropertiesPlan<'a> {
    text: &'a str,
    separator: bool,
    tail: bool,
}

impl<'a> PropertiesPlan<'a> {
    fn new(properties: &'a str) -> PropertiesPlan<'a> {
        let text = without_tail(properties);
        let separator = !text.is_empty() && !text.ends_with(VALUE_END);
        let tail = text.len() + usize::from(separator) + CHECKSUM_TAIL_BYTES <= PROPERTIES_BYTES_MAX;
        PropertiesPlan { text, separator: separator && tail, tail }
    }

    fn bytes(&self) -> usize {
        self.text.len() + usize::from(self.separator) + if self.tail { CHECKSUM_TAIL_BYTES } else { 0 }
    }
}

/// The exact size of the record.
///
/// # Panics
/// When topic, body or properties exceed what a record can hold: the sender was to be refused.
pub fn record_bytes(draft: &RecordDraft<'_>) -> usize {
    bytes_with(draft, &PropertiesPlan::new(draft.properties))
}

fn bytes_with(draft: &RecordDraft<'_>, properties: &PropertiesPlan<'_>) -> usize {
    let topic_bytes = draft.topic.len();
    assert!((1..=TOPIC_BYTES_MAX).contains(&topic_bytes), "a topic of {topic_bytes} bytes");
    assert!(draft.body.len() <= BODY_BYTES_MAX, "a body of {} bytes", draft.body.len());
    assert!(draft.properties.len() <= PROPERTIES_BYTES_MAX, "properties of {} bytes", draft.properties.len());
    let host_bytes = |host| if is_v6(host) { HOST_V6_BYTES - HOST_V4_BYTES } else { 0 };
    FIXED_BYTES
        + host_bytes(draft.born_host)
        + host_bytes(draft.store_host)
        + usize::from(topic_bytes > TOPIC_BYTES_V1_MAX)
        + draft.body.len()
        + topic_bytes
        + properties.bytes()
}

/// Writes the record, checksums included.
///
/// # Panics
/// When `out` is not [`record_bytes`] long, and as that function.
pub fn encode(draft: &RecordDraft<'_>, placement: Placement, out: &mut [u8]) {
    let properties = PropertiesPlan::new(draft.properties);
    let total_bytes = bytes_with(draft, &properties);
    assert!(out.len() == total_bytes, "a record of {total_bytes} bytes for a place of {}", out.len());
    let long_topic = draft.topic.len() > TOPIC_BYTES_V1_MAX;
    let mut body = Hasher::new();
    body.update(draft.body);
    let mut head = [0; HEAD_BYTES_MAX];
    let mut writer = Writer { out: &mut head, at: 0 };
    writer.put((total_bytes as u32).to_be_bytes());
    writer.put(if long_topic { MAGIC_V2 } else { MAGIC_V1 }.to_be_bytes());
    writer.put(body_crc_of(body.clone()).to_be_bytes());
    writer.put(draft.queue_id.0.to_be_bytes());
    writer.put(draft.flag.to_be_bytes());
    writer.put(placement.queue_offset.0.to_be_bytes());
    writer.put(placement.physical_offset.0.to_be_bytes());
    writer.put(sys_flag_with_hosts(draft).to_be_bytes());
    writer.put(draft.born_timestamp_ms.to_be_bytes());
    writer.host(draft.born_host);
    writer.put(placement.store_timestamp_ms.to_be_bytes());
    writer.host(draft.store_host);
    writer.put(draft.reconsume_times.to_be_bytes());
    writer.put(draft.prepared_transaction_offset.to_be_bytes());
    writer.put((draft.body.len() as u32).to_be_bytes());
    let head_bytes = writer.at;
    let mut record = CheckedWriter { writer: Writer { out, at: 0 }, checksum: Hasher::new() };
    record.slice(&head[..head_bytes]);
    record.body(draft.body, &body);
    if long_topic {
        record.slice(&(draft.topic.len() as u16).to_be_bytes());
    } else {
        record.slice(&[draft.topic.len() as u8]);
    }
    record.slice(draft.topic.as_bytes());
    record.slice(&(properties.bytes() as u16).to_be_bytes());
    record.slice(properties.text.as_bytes());
    if properties.separator {
        record.slice(&[VALUE_END as u8]);
    }
    let CheckedWriter { mut writer, checksum } = record;
    if properties.tail {
        writer.put(hex_digits(checksum.finalize()));
    }
    assert!(writer.at == total_bytes, "wrote {} of {total_bytes} bytes", writer.at);
}

struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.slice(&bytes);
    }

    fn slice(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn host(&mut self, host: SocketAddr) {
        match host.ip().to_canonical() {
            IpAddr::V4(ip) => self.put(ip.octets()),
            IpAddr::V6(ip) => self.put(ip.octets()),
        }
        self.put(u32::from(host.port()).to_be_bytes());
    }
}

/// Writes and sums up. The sum is made of what is copied and not of the copy: memory that was just written, and is in no
/// cache yet, is slow to read.
struct CheckedWriter<'a> {
    writer: Writer<'a>,
    checksum: Hasher,
}

impl CheckedWriter<'_> {
    fn slice(&mut self, bytes: &[u8]) {
        self.checksum.update(bytes);
        self.writer.slice(bytes);
    }

    /// As [`CheckedWriter::slice`], for a body whose own checksum is known.
    fn body(&mut self, body: &[u8], checksum: &Hasher) {
        if body.len() >= COMBINED_FROM_BYTES {
            self.checksum.combine(checksum);
            self.writer.slice(body);
        } else {
            self.slice(body);
        }
    }
}

/// An IPv4 address in IPv6 clothes counts as what it is.
fn is_v6(host: SocketAddr) -> bool {
    host.ip().to_canonical().is_ipv6()
}

fn sys_flag_with_hosts(draft: &RecordDraft<'_>) -> i32 {
    let mut flag = draft.sys_flag & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6);
    if is_v6(draft.born_host) {
        flag |= sys_flag::BORN_HOST_V6;
    }
    if is_v6(draft.store_host) {
        flag |= sys_flag::STORE_HOST_V6;
    }
    flag
}

fn hex_digits(checksum: u32) -> [u8; CHECKSUM_TAIL_BYTES] {
    std::array::from_fn(|index| {
        let shift = 4 * (CHECKSUM_TAIL_BYTES - 1 - index);
        b"0123456789ABCDEF"[(checksum >> shift & 0xf) as usize]
    })
}
