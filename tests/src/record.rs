//! The message record, as pull bodies carry it: records one after the other, without anything between.

use std::io;

use crate::frame::{Reader, bad};

const MAGIC_V1: u32 = 0xdaa3_20a7;
const MAGIC_V2: u32 = 0xdaa3_20ab;
const SYS_FLAG_BORN_IPV6: u32 = 0x10;
const SYS_FLAG_STORE_IPV6: u32 = 0x20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub queue_id: u32,
    pub queue_offset: u64,
    pub physical_offset: u64,
    pub store_ms: u64,
    pub reconsume_times: u32,
    pub body: Vec<u8>,
    pub topic: String,
    pub properties: String,
}

/// Decodes a whole body; bytes that are left over are an error.
pub fn decode_all(bytes: &[u8]) -> io::Result<Vec<Record>> {
    let mut reader = Reader { bytes };
    let mut records = Vec::new();
    while !reader.bytes.is_empty() {
        let before = reader.bytes.len();
        let total = reader.u32()? as usize;
        let record = decode_one(&mut reader)?;
        let used = before - reader.bytes.len();
        if used != total {
            return Err(bad(format!("a record says {total} bytes and has {used}")));
        }
        records.push(record);
    }
    Ok(records)
}

fn decode_one(reader: &mut Reader<'_>) -> io::Result<Record> {
    let magic = reader.u32()?;
    if magic != MAGIC_V1 && magic != MAGIC_V2 {
        return Err(bad(format!("record magic {magic:#x}")));
    }
    reader.u32()?; // CRC of the body; the body itself is compared by the tests
    let queue_id = reader.u32()?;
    reader.u32()?; // flag
    let queue_offset = reader.u64()?;
    let physical_offset = reader.u64()?;
    let sys_flag = reader.u32()?;
    reader.u64()?; // born time
    reader.take(host_bytes(sys_flag & SYS_FLAG_BORN_IPV6 != 0))?;
    let store_ms = reader.u64()?;
    reader.take(host_bytes(sys_flag & SYS_FLAG_STORE_IPV6 != 0))?;
    let reconsume_times = reader.u32()?;
    reader.u64()?; // prepared transaction offset
    let body_length = reader.u32()? as usize;
    let body = reader.take(body_length)?.to_vec();
    let topic_length = if magic == MAGIC_V1 { usize::from(reader.take(1)?[0]) } else { reader.u16()? as usize };
    let topic = String::from_utf8_lossy(reader.take(topic_length)?).into_owned();
    let properties_length = reader.u16()? as usize;
    let properties = String::from_utf8_lossy(reader.take(properties_length)?).into_owned();
    Ok(Record { queue_id, queue_offset, physical_offset, store_ms, reconsume_times, body, topic, properties })
}

impl Record {
    /// The value of a property; of several, the last.
    pub fn property(&self, name: &str) -> Option<&str> {
        let mut entries = self.properties.rsplit('\u{2}').filter_map(|entry| entry.split_once('\u{1}'));
        entries.find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

/// Address and port: 4 or 16 bytes, then 4.
fn host_bytes(ipv6: bool) -> usize {
    if ipv6 { 16 + 4 } else { 4 + 4 }
}
