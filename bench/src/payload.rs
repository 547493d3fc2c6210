//! The body of a message: a stamp, a number and a checksum, then bytes that do not compress.
//!
//! ```text
//! offset size field
//! 0      4    "RMb1"
//! 4      4    u32 checksum: CRC-32 of bytes 8 to 24, xor CRC-32 of the rest
//! 8      8    u64 when it was due, nanoseconds of the run's clock
//! 16     8    u64 number of the message in its run
//! 24     n    random bytes, zeros behind them if it shall compress; or a payload that was given
//! ```
//!
//! The rest never changes, so its checksum is computed once and a send costs that of 16 bytes.

use base::Random;

const MAGIC: [u8; 4] = *b"RMb1";
const CHECKSUM_AT: usize = MAGIC.len();
const DUE_AT: usize = CHECKSUM_AT + 4;
const NUMBER_AT: usize = DUE_AT + 8;
const REST_AT: usize = NUMBER_AT + 8;
/// The shortest body.
pub(crate) const BODY_BYTES_MIN: usize = 32;

const _: () = assert!(BODY_BYTES_MIN >= REST_AT);

/// What the front of a body tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) due_ns: u64,
    pub(crate) number: u64,
}

/// What is in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Ours(Stamp),
    /// Somebody else's message.
    Foreign,
    /// Begins as ours do, but its checksum is another.
    Damaged,
}

/// A body without its stamp yet.
#[derive(Clone, Debug)]
pub(crate) struct Blank {
    pub(crate) bytes: Vec<u8>,
    /// Of what never changes.
    pub(crate) rest_checksum: u32,
}

impl Blank {
    /// A body whose rest is given; at least [`BODY_BYTES_MIN`] long.
    pub(crate) fn around(rest: &[u8]) -> Blank {
        let mut bytes = vec![0; (REST_AT + rest.len()).max(BODY_BYTES_MIN)];
        bytes[..CHECKSUM_AT].copy_from_slice(&MAGIC);
        bytes[REST_AT..REST_AT + rest.len()].copy_from_slice(rest);
        let rest_checksum = crc32fast::hash(&bytes[REST_AT..]);
        Blank { bytes, rest_checksum }
    }
}

/// A body of so many bytes; of its rest the share `random_share` does not compress, and what is behind it is zeros.
pub(crate) fn blank(bytes: usize, random_share: f64, random: &mut Random) -> Blank {
    assert!(bytes >= BODY_BYTES_MIN, "a body of {bytes} bytes has no room for its stamp");
    let mut rest = vec![0; bytes - REST_AT];
    let random_bytes = (rest.len() as f64 * random_share).round() as usize;
    for chunk in rest[..random_bytes].chunks_mut(8) {
        let random = random.next_u64().to_le_bytes();
        chunk.copy_from_slice(&random[..chunk.len()]);
    }
    Blank::around(&rest)
}

/// Writes the stamp into a body made by [`blank`].
pub(crate) fn stamp(body: &mut [u8], rest_checksum: u32, stamp: Stamp) {
    body[DUE_AT..NUMBER_AT].copy_from_slice(&stamp.due_ns.to_be_bytes());
    body[NUMBER_AT..REST_AT].copy_from_slice(&stamp.number.to_be_bytes());
    let checksum = crc32fast::hash(&body[DUE_AT..REST_AT]) ^ rest_checksum;
    body[CHECKSUM_AT..DUE_AT].copy_from_slice(&checksum.to_be_bytes());
}

/// Reads a body and checks it.
pub(crate) fn read(body: &[u8]) -> Content {
    if body.len() < BODY_BYTES_MIN || body[..CHECKSUM_AT] != MAGIC {
        return Content::Foreign;
    }
    let word = |at: usize| *body[at..].first_chunk::<8>().expect("the body is long enough");
    let found = (u64::from_be_bytes(word(CHECKSUM_AT)) >> 32) as u32;
    let computed = crc32fast::hash(&body[DUE_AT..REST_AT]) ^ crc32fast::hash(&body[REST_AT..]);
    if found != computed {
        return Content::Damaged;
    }
    Content::Ours(Stamp { due_ns: u64::from_be_bytes(word(DUE_AT)), number: u64::from_be_bytes(word(NUMBER_AT)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_lies_behind_the_stamp() {
        for given in [&b""[..], b"{}", &[7; 500]] {
            let Blank { mut bytes, rest_checksum } = Blank::around(given);
            stamp(&mut bytes, rest_checksum, Stamp { due_ns: 1, number: 2 });
            assert_eq!(read(&bytes), Content::Ours(Stamp { due_ns: 1, number: 2 }));
            assert_eq!(&bytes[REST_AT..REST_AT + given.len()], given);
        }
    }

    #[test]
    fn a_stamp_is_read_back_and_any_flipped_bit_is_seen() {
        let Blank { bytes: mut body, rest_checksum: rest } = blank(100, 1.0, &mut Random::new(1));
        for written in [Stamp { due_ns: 1, number: u64::MAX }, Stamp { due_ns: 1 << 40, number: 7 }] {
            stamp(&mut body, rest, written);
            assert_eq!(read(&body), Content::Ours(written));
        }
        for at in 0..body.len() {
            let mut bad = body.clone();
            bad[at] ^= 0x10;
            let expected = if at < CHECKSUM_AT { Content::Foreign } else { Content::Damaged };
            assert_eq!(read(&bad), expected, "byte {at}");
        }
        assert_eq!(read(b"somebody else's"), Content::Foreign);
    }
}
