//! The two ids of a message: where it is stored, and who made it.
//!
//! Both are upper-case hex. An offset id is host and physical offset: 32 digits with IPv4, 56 with IPv6. A unique id
//! has the same lengths and is opaque to brokers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::{Millis, PhysicalOffset};
use bytes::BufMut;
use thiserror::Error;

const ID_V4_BYTES: usize = 4 + 4 + 8;
const ID_V6_BYTES: usize = 16 + 4 + 8;

/// A text that is no offset id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{text}\" is no message id: {} or {} hex digits are expected", 2 * ID_V4_BYTES, 2 * ID_V6_BYTES)]
pub struct MessageIdError {
    text: String,
}

/// Where a message is stored: the broker's address for clients, and the place in its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetId {
    pub host: SocketAddr,
    pub physical_offset: PhysicalOffset,
}

impl OffsetId {
    /// Appends the id to `out`.
    pub fn write_to(&self, out: &mut impl BufMut) {
        push_ip(self.host.ip(), out);
        push_hex(u64::from(self.host.port()), 4, out);
        push_hex(self.physical_offset.0, 8, out);
    }

    pub fn encode(&self) -> String {
        hex_text(|out| self.write_to(out))
    }

    /// Reads an id in either case.
    ///
    /// # Errors
    /// When the text is none.
    pub fn decode(text: &str) -> Result<OffsetId, MessageIdError> {
        let wrong = || MessageIdError { text: text.chars().take(2 * ID_V6_BYTES + 1).collect() };
        let bytes = from_hex(text).ok_or_else(wrong)?;
        let (rest, physical_offset) = bytes.split_last_chunk::<8>().ok_or_else(wrong)?;
        let (ip, port) = rest.split_last_chunk::<4>().ok_or_else(wrong)?;
        let ip: IpAddr = match ip.len() {
            4 => <[u8; 4]>::try_from(ip).map(Ipv4Addr::from).map_err(|_| wrong())?.into(),
            16 => <[u8; 16]>::try_from(ip).map(Ipv6Addr::from).map_err(|_| wrong())?.into(),
            _ => return Err(wrong()),
        };
        let port = u16::try_from(u32::from_be_bytes(*port)).map_err(|_| wrong())?;
        let physical_offset = PhysicalOffset(u64::from_be_bytes(*physical_offset));
        Ok(OffsetId { host: SocketAddr::new(ip, port), physical_offset })
    }
}

/// What is the same in every unique id of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueIdSource {
    pub ip: IpAddr,
    pub process_id: u16,
    /// Tells processes with one number apart: a random one, or the core's.
    pub process_hash: u32,
}

impl UniqueIdSource {
    /// An id for a message made now; `counter` differs for those of one millisecond.
    pub fn id(&self, now: Millis, counter: u16) -> String {
        hex_text(|out| {
            push_ip(self.ip, out);
            push_hex(u64::from(self.process_id), 2, out);
            push_hex(u64::from(self.process_hash), 4, out);
            push_hex(ms_of_month(now), 4, out);
            push_hex(u64::from(counter), 2, out);
        })
    }
}

/// Milliseconds since the first of the month, UTC.
fn ms_of_month(now: Millis) -> u64 {
    const DAY_MS: u64 = 86_400_000;
    const DAYS_FROM_MARCH_0000: u64 = 719_468;
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let days = now.0 / DAY_MS;
    // Years that start in March end with the odd February, so a day's month is a plain division.
    let day_of_era = (days + DAYS_FROM_MARCH_0000) % DAYS_IN_400_YEARS;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5;
    day_of_month * DAY_MS + now.0 % DAY_MS
}

fn hex_text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::with_capacity(2 * ID_V6_BYTES);
    write(&mut out);
    String::from_utf8(out).expect("only digits are written")
}

fn push_ip(ip: IpAddr, out: &mut impl BufMut) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => push_hex(u64::from(u32::from(ip)), 4, out),
        IpAddr::V6(ip) => {
            let bits = u128::from(ip);
            push_hex((bits >> 64) as u64, 8, out);
            push_hex(bits as u64, 8, out);
        }
    }
}

/// Appends the lower `bytes` bytes of a number.
fn push_hex(number: u64, bytes: usize, out: &mut impl BufMut) {
    let digits: [u8; 16] = std::array::from_fn(|at| b"0123456789ABCDEF"[(number >> (60 - 4 * at) & 0xf) as usize]);
    out.put_slice(&digits[16 - 2 * bytes..]);
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if digits.len() != 2 * ID_V4_BYTES && digits.len() != 2 * ID_V6_BYTES {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16);
    digits.chunks_exact(2).map(|pair| Some((value(pair[0])? << 4 | value(pair[1])?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_ids_are_the_peers() {
        let cases = [
            ("127.0.0.1:10911", 0x1234, "7F00000100002A9F0000000000001234"),
            ("[::ffff:127.0.0.1]:10911", 0x1234, "7F00000100002A9F0000000000001234"),
            ("[2001:db8::1]:1", 3 << 48, "20010DB8000000000000000000000001000000010003000000000000"),
        ];
        for (host, offset, text) in cases {
            let host: SocketAddr = host.parse().unwrap();
            let id = OffsetId { host, physical_offset: PhysicalOffset(offset) };
            assert_eq!(id.encode(), text);
            let host = SocketAddr::new(host.ip().to_canonical(), host.port());
            assert_eq!(OffsetId::decode(text), Ok(OffsetId { host, ..id }));
            assert_eq!(OffsetId::decode(&text.to_lowercase()), Ok(OffsetId { host, ..id }));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let long = "0".repeat(1000);
        for text in [
            "",
            "7F",
            "7F00000100002A9F000000000000123",
            "7F00000100002A9F000000000000123G",
            "7F000001FFFF2A9F0000000000001234",
            &long,
            "é000000100002A9F0000000000001234",
        ] {
            assert!(OffsetId::decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unique_ids_tell_the_time_of_the_month() {
        let source = UniqueIdSource { ip: Ipv4Addr::LOCALHOST.into(), process_id: 0xabcd, process_hash: 0x0102_0304 };
        // 2024-03-01T00:00:00.005Z
        assert_eq!(source.id(Millis(1_709_251_200_005), 9), "7F000001ABCD01020304000000050009");
        // 2024-02-29T00:00:00Z, 2023-12-31T23:59:59.999Z
        assert_eq!(ms_of_month(Millis(1_709_164_800_000)), 28 * 86_400_000);
        assert_eq!(ms_of_month(Millis(1_704_067_199_999)), 31 * 86_400_000 - 1);
        assert_eq!(ms_of_month(Millis(0)), 0);
    }
}
