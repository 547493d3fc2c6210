//! The message record: what the log stores is byte for byte what a pull answers.
//!
//! Offsets below hold from the front of a record; hosts are 8 bytes (IPv4) or 20 (IPv6), as `sys_flag` tells, so what
//! follows the first host is chained at run time.
//!
//! ```text
//! i32 total bytes, i32 magic, i32 body crc, i32 queue id, i32 flag, i64 queue offset, i64 physical offset,
//! i32 sys flag, i64 born ms, born host, i64 store ms, store host, i32 reconsume times, i64 prepared offset,
//! i32 body bytes, body, u8 (V1) or i16 (V2) topic bytes, topic, i16 properties bytes, properties
//! ```
//!
//! Our own addition: the stored properties end in a tail of 8 upper-case hex digits behind their last 0x02, the CRC-32
//! of everything before the tail. Readers of properties drop an entry without 0x01, so clients do not see it.
//! The writer is [`encode`], the reader [`RecordView`].

mod batch;
mod draft;
mod view;

use crc32fast::Hasher;
use thiserror::Error;

pub use batch::{BatchError, BatchItem, BatchItems, encode_item};
pub use draft::{Placement, RecordDraft, encode, record_bytes};
pub use view::{RecordView, Records, blank_bytes, verify, verify_foreign};

use crate::properties::PROPERTIES_BYTES_MAX;

pub const MAGIC_V1: u32 = 0xdaa3_20a7;
/// With a topic length of two bytes: used only when the topic does not fit a V1 reader's signed byte.
pub const MAGIC_V2: u32 = 0xdaa3_20ab;
/// A filler up to the end of a file.
pub const MAGIC_BLANK: u32 = 0xcbd4_3194;

pub const TOTAL_BYTES_AT: usize = 0;
pub const MAGIC_AT: usize = TOTAL_BYTES_AT + 4;
pub const BODY_CRC_AT: usize = MAGIC_AT + 4;
pub const QUEUE_ID_AT: usize = BODY_CRC_AT + 4;
pub const FLAG_AT: usize = QUEUE_ID_AT + 4;
pub const QUEUE_OFFSET_AT: usize = FLAG_AT + 4;
pub const PHYSICAL_OFFSET_AT: usize = QUEUE_OFFSET_AT + 8;
pub const SYS_FLAG_AT: usize = PHYSICAL_OFFSET_AT + 8;
pub const BORN_TIMESTAMP_AT: usize = SYS_FLAG_AT + 4;
pub const BORN_HOST_AT: usize = BORN_TIMESTAMP_AT + 8;

/// Four address bytes and four of port.
pub const HOST_V4_BYTES: usize = 4 + 4;
/// Sixteen address bytes and four of port.
pub const HOST_V6_BYTES: usize = 16 + 4;
/// Bytes of a record besides body, topic and properties: V1 and two IPv4 hosts.
pub const FIXED_BYTES: usize = BORN_HOST_AT + HOST_V4_BYTES + 8 + HOST_V4_BYTES + 4 + 8 + 4 + 1 + 2;
/// Bytes of a blank: its own length and [`MAGIC_BLANK`]. What follows up to its end is undefined.
pub const BLANK_BYTES: usize = 8;

const _: () = assert!(QUEUE_OFFSET_AT == 20 && PHYSICAL_OFFSET_AT == 28 && SYS_FLAG_AT == 36);
const _: () = assert!(BORN_HOST_AT == 48 && FIXED_BYTES == 91);

/// The longest topic that a V1 record holds.
pub const TOPIC_BYTES_V1_MAX: usize = i8::MAX as usize;
/// The longest topic at all.
pub const TOPIC_BYTES_MAX: usize = 255;
/// The longest body that can be stored. The broker's own limit is far below.
pub const BODY_BYTES_MAX: usize = 1 << 30;

/// Upper-case hex digits at the end of the stored properties.
pub const CHECKSUM_TAIL_BYTES: usize = 8;
/// Properties shorter than this certainly have a tail; from here on the tail may not have fitted, and the record is
/// then guarded by its body checksum and its structure only.
pub const PROPERTIES_BYTES_TAIL_CERTAIN: usize = PROPERTIES_BYTES_MAX - CHECKSUM_TAIL_BYTES;

/// The checksum of a body as the record tells it: without the sign bit.
pub fn body_crc(body: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(body);
    body_crc_of(hasher)
}

fn body_crc_of(body: Hasher) -> u32 {
    body.finalize() & 0x7fff_ffff
}

/// The bits of `sys_flag`.
pub mod sys_flag {
    pub const COMPRESSED: i32 = 0x1;
    pub const MULTI_TAGS: i32 = 0x2;
    pub const TRANSACTION_MASK: i32 = 0xc;
    pub const TRANSACTION_NONE: i32 = 0;
    pub const TRANSACTION_PREPARED: i32 = 0x4;
    pub const TRANSACTION_COMMIT: i32 = 0x8;
    pub const TRANSACTION_ROLLBACK: i32 = 0xc;
    pub const BORN_HOST_V6: i32 = 0x10;
    pub const STORE_HOST_V6: i32 = 0x20;
    pub const NEED_UNWRAP: i32 = 0x40;
    pub const INNER_BATCH: i32 = 0x80;
    pub const COMPRESSION_MASK: i32 = 0x700;
    pub const COMPRESSION_LZ4: i32 = 0x100;
    pub const COMPRESSION_ZSTD: i32 = 0x200;
    pub const COMPRESSION_ZLIB: i32 = 0x300;
}

/// Bytes that are not the record they should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    #[error("{available_bytes} bytes are too few for a record that needs {needed_bytes}")]
    Cut { needed_bytes: usize, available_bytes: usize },
    #[error("the magic {found:#010x} is none of a record")]
    Magic { found: u32 },
    #[error("the filler of {total_bytes} bytes up to the end of its file")]
    Blank { total_bytes: u32 },
    #[error("the total length {total_bytes} is no length of a record")]
    TotalBytes { total_bytes: i32 },
    #[error("the lengths within the record do not add up to its total of {total_bytes} bytes: {what}")]
    Structure { total_bytes: usize, what: &'static str },
    #[error("the {what} is no UTF-8")]
    NotText { what: &'static str },
    #[error("the record says it lies at {found}, but lies at {expected}")]
    PhysicalOffset { expected: u64, found: u64 },
    #[error("the body's checksum is {computed:#010x}, the record says {found:#010x}")]
    BodyChecksum { computed: u32, found: u32 },
    #[error("the record's checksum is {computed:08X}, its tail says {found:08X}")]
    Checksum { computed: u32, found: u32 },
    #[error("the record has no checksum tail")]
    ChecksumMissing,
}

/// A filler for the last `remaining_bytes` of a file, of which only these 8 bytes are defined.
///
/// # Panics
/// When there is no room for them.
pub fn blank(remaining_bytes: u32) -> [u8; BLANK_BYTES] {
    assert!(remaining_bytes as usize >= BLANK_BYTES, "no room for a filler in {remaining_bytes} bytes");
    let mut bytes = [0; BLANK_BYTES];
    bytes[TOTAL_BYTES_AT..MAGIC_AT].copy_from_slice(&remaining_bytes.to_be_bytes());
    bytes[MAGIC_AT..].copy_from_slice(&MAGIC_BLANK.to_be_bytes());
    bytes
}

/// The tail's checksum, if `properties` end in one: alone, or behind a 0x02.
fn checksum_tail(properties: &[u8]) -> Option<u32> {
    let (before, tail) = properties.split_last_chunk::<CHECKSUM_TAIL_BYTES>()?;
    if !matches!(before.last(), None | Some(&2)) {
        return None;
    }
    tail.iter().try_fold(0, |checksum: u32, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        Some(checksum << 4 | u32::from(value))
    })
}

/// The properties without a checksum tail.
fn without_tail(properties: &str) -> &str {
    match checksum_tail(properties.as_bytes()) {
        Some(_) => &properties[..properties.len() - CHECKSUM_TAIL_BYTES],
        None => properties,
    }
}

#[cfg(test)]
mod tests;
