//! Reads a record where it lies, without copying.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::{PhysicalOffset, QueueId, QueueOffset};

use super::{
    BLANK_BYTES, BODY_CRC_AT, BORN_HOST_AT, BORN_TIMESTAMP_AT, CHECKSUM_TAIL_BYTES, FIXED_BYTES, FLAG_AT,
    HOST_V4_BYTES, HOST_V6_BYTES, MAGIC_AT, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PHYSICAL_OFFSET_AT,
    PROPERTIES_BYTES_TAIL_CERTAIN, QUEUE_ID_AT, QUEUE_OFFSET_AT, RecordError, SYS_FLAG_AT, TOPIC_BYTES_MAX,
    TOTAL_BYTES_AT, body_crc, checksum_tail, sys_flag, without_tail,
};
use crate::properties;

/// A record whose lengths add up and whose texts are UTF-8. Checksums are a matter of [`verify`].
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    bytes: &'a [u8],
    store_timestamp_at: usize,
    body: &'a [u8],
    topic: &'a str,
    /// As stored, the checksum tail included.
    properties_stored: &'a str,
}

impl<'a> RecordView<'a> {
    /// Reads the record at the front of `bytes`, which may go on behind it.
    ///
    /// # Errors
    /// When there is no record; a filler is told apart as [`RecordError::Blank`].
    pub fn decode(bytes: &'a [u8]) -> Result<RecordView<'a>, RecordError> {
        let available_bytes = bytes.len();
        if available_bytes < BLANK_BYTES {
            return Err(RecordError::Cut { needed_bytes: BLANK_BYTES, available_bytes });
        }
        let total_bytes = u32_at(bytes, TOTAL_BYTES_AT) as i32;
        let magic = u32_at(bytes, MAGIC_AT);
        let topic_length_bytes = match magic {
            MAGIC_V1 => 1,
            MAGIC_V2 => 2,
            MAGIC_BLANK => return Err(RecordError::Blank { total_bytes: total_bytes as u32 }),
            found => return Err(RecordError::Magic { found }),
        };
        if total_bytes < FIXED_BYTES as i32 {
            return Err(RecordError::TotalBytes { total_bytes });
        }
        let needed_bytes = total_bytes as usize;
        if available_bytes < needed_bytes {
            return Err(RecordError::Cut { needed_bytes, available_bytes });
        }
        RecordView::decode_parts(&bytes[..needed_bytes], topic_length_bytes)
    }

    /// Reads the parts of a record of exactly these bytes.
    fn decode_parts(bytes: &'a [u8], topic_length_bytes: usize) -> Result<RecordView<'a>, RecordError> {
        let wrong = |what| RecordError::Structure { total_bytes: bytes.len(), what };
        let flag = u32_at(bytes, SYS_FLAG_AT) as i32;
        let store_timestamp_at = BORN_HOST_AT + host_bytes(flag & sys_flag::BORN_HOST_V6 != 0);
        let store_host_bytes = host_bytes(flag & sys_flag::STORE_HOST_V6 != 0);
        let body_bytes_at = store_timestamp_at + 8 + store_host_bytes + 4 + 8;
        let rest = bytes.get(body_bytes_at..).ok_or_else(|| wrong("no room for the body's length"))?;
        let (body, rest) = take::<4>(rest).ok_or_else(|| wrong("the body's length is out of range"))?;
        let (topic, rest) = match topic_length_bytes {
            1 => take::<1>(rest),
            _ => take::<2>(rest),
        }
        .ok_or_else(|| wrong("the topic's length is out of range"))?;
        if topic.len() > TOPIC_BYTES_MAX || topic.is_empty() {
            return Err(wrong("the topic's length is out of range"));
        }
        let (properties, rest) = take::<2>(rest).ok_or_else(|| wrong("the properties' length is out of range"))?;
        if !rest.is_empty() {
            return Err(wrong("bytes are left behind the properties"));
        }
        let text = |bytes, what| std::str::from_utf8(bytes).map_err(|_| RecordError::NotText { what });
        Ok(RecordView {
            bytes,
            store_timestamp_at,
            body,
            topic: text(topic, "topic")?,
            properties_stored: text(properties, "properties text")?,
        })
    }

    /// The whole record.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn magic(&self) -> u32 {
        u32_at(self.bytes, MAGIC_AT)
    }

    /// As the record tells it; see [`body_crc`].
    pub fn body_crc(&self) -> u32 {
        u32_at(self.bytes, BODY_CRC_AT)
    }

    pub fn queue_id(&self) -> QueueId {
        QueueId(u32_at(self.bytes, QUEUE_ID_AT))
    }

    pub fn flag(&self) -> i32 {
        u32_at(self.bytes, FLAG_AT) as i32
    }

    pub fn queue_offset(&self) -> QueueOffset {
        QueueOffset(u64_at(self.bytes, QUEUE_OFFSET_AT))
    }

    pub fn physical_offset(&self) -> PhysicalOffset {
        PhysicalOffset(u64_at(self.bytes, PHYSICAL_OFFSET_AT))
    }

    pub fn sys_flag(&self) -> i32 {
        u32_at(self.bytes, SYS_FLAG_AT) as i32
    }

    /// The bits of [`sys_flag::TRANSACTION_MASK`].
    pub fn transaction_kind(&self) -> i32 {
        self.sys_flag() & sys_flag::TRANSACTION_MASK
    }

    pub fn born_timestamp_ms(&self) -> i64 {
        u64_at(self.bytes, BORN_TIMESTAMP_AT) as i64
    }

    pub fn born_host(&self) -> SocketAddr {
        host(&self.bytes[BORN_HOST_AT..self.store_timestamp_at])
    }

    pub fn store_timestamp_ms(&self) -> i64 {
        u64_at(self.bytes, self.store_timestamp_at) as i64
    }

    pub fn store_host(&self) -> SocketAddr {
        host(&self.bytes[self.store_timestamp_at + 8..self.reconsume_times_at()])
    }

    pub fn reconsume_times(&self) -> i32 {
        u32_at(self.bytes, self.reconsume_times_at()) as i32
    }

    pub fn prepared_transaction_offset(&self) -> i64 {
        u64_at(self.bytes, self.reconsume_times_at() + 4) as i64
    }

    /// As stored, so perhaps compressed.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    pub fn topic(&self) -> &'a str {
        self.topic
    }

    /// Without the checksum tail.
    pub fn properties(&self) -> &'a str {
        without_tail(self.properties_stored)
    }

    /// As stored, the checksum tail included.
    pub fn properties_stored(&self) -> &'a str {
        self.properties_stored
    }

    /// The value of one property.
    pub fn property(&self, name: &str) -> Option<&'a str> {
        properties::get(self.properties(), name)
    }

    fn reconsume_times_at(&self) -> usize {
        self.store_timestamp_at + 8 + host_bytes(self.sys_flag() & sys_flag::STORE_HOST_V6 != 0)
    }

    fn check_body(&self) -> Result<(), RecordError> {
        let (computed, found) = (body_crc(self.body), self.body_crc());
        if computed == found { Ok(()) } else { Err(RecordError::BodyChecksum { computed, found }) }
    }

    fn check_place(&self, expected: PhysicalOffset) -> Result<(), RecordError> {
        let found = self.physical_offset();
        if found == expected {
            Ok(())
        } else {
            Err(RecordError::PhysicalOffset { expected: expected.0, found: found.0 })
        }
    }

    fn check_tail(&self, found: u32) -> Result<(), RecordError> {
        let covered = &self.bytes[..self.bytes.len() - CHECKSUM_TAIL_BYTES];
        let computed = crc32fast::hash(covered);
        if computed == found { Ok(()) } else { Err(RecordError::Checksum { computed, found }) }
    }
}

/// Reads and checks a record of our own at the front of `bytes`: structure, place and checksum. A single flipped bit
/// anywhere in it is found, unless its properties were too long for the tail; then its body and structure are checked.
///
/// # Errors
/// Telling what is wrong first.
pub fn verify(bytes: &[u8], expected: PhysicalOffset) -> Result<RecordView<'_>, RecordError> {
    let view = RecordView::decode(bytes)?;
    view.check_place(expected)?;
    match checksum_tail(view.properties_stored.as_bytes()) {
        Some(found) => view.check_tail(found)?,
        None if view.properties_stored.len() < PROPERTIES_BYTES_TAIL_CERTAIN => {
            return Err(RecordError::ChecksumMissing);
        }
        None => view.check_body()?,
    }
    Ok(view)
}

/// As [`verify`], for a record that another broker may have written: without a tail its body checksum is enough.
///
/// # Errors
/// Telling what is wrong first.
pub fn verify_foreign(bytes: &[u8], expected: PhysicalOffset) -> Result<RecordView<'_>, RecordError> {
    let view = RecordView::decode(bytes)?;
    view.check_place(expected)?;
    match checksum_tail(view.properties_stored.as_bytes()) {
        Some(found) => view.check_tail(found)?,
        None => view.check_body()?,
    }
    Ok(view)
}

/// The length of a filler at the front of `bytes`, its own 8 bytes included; `None` when there is no filler.
pub fn blank_bytes(bytes: &[u8]) -> Option<u32> {
    match RecordView::decode(bytes) {
        Err(RecordError::Blank { total_bytes }) if total_bytes as usize >= BLANK_BYTES => Some(total_bytes),
        _ => None,
    }
}

/// The records of a pull's body, one behind the other. Ends behind the first that cannot be read.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    pub fn new(body: &'a [u8]) -> Records<'a> {
        Records { rest: body }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordView<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let view = RecordView::decode(self.rest);
        self.rest = match &view {
            Ok(view) => &self.rest[view.total_bytes()..],
            Err(_) => &[],
        };
        Some(view)
    }
}

fn host_bytes(v6: bool) -> usize {
    if v6 { HOST_V6_BYTES } else { HOST_V4_BYTES }
}

fn host(bytes: &[u8]) -> SocketAddr {
    let (ip, port): (IpAddr, u32) = match bytes.len() {
        HOST_V4_BYTES => (Ipv4Addr::from(u32_at(bytes, 0)).into(), u32_at(bytes, 4)),
        _ => {
            let high = u128::from(u64_at(bytes, 0));
            let low = u128::from(u64_at(bytes, 8));
            (Ipv6Addr::from(high << 64 | low).into(), u32_at(bytes, 16))
        }
    };
    // Four bytes of port hold two: what others may have left in the upper ones means nothing.
    SocketAddr::new(ip, port as u16)
}

/// Splits a text behind its length of `N` bytes off; a length whose top bit is set is negative for every reader,
/// except in the one byte of a V1 topic, which some writers fill up to 255.
fn take<const N: usize>(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<N>()?;
    let negative = N > 1 && length[0] & 0x80 != 0;
    if negative {
        return None;
    }
    let length = length.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    rest.split_at_checked(length)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes[at..].first_chunk().expect("the record's fixed part is there");
    u32::from_be_bytes(*field)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let field = bytes[at..].first_chunk().expect("the record's fixed part is there");
    u64::from_be_bytes(*field)
}
