//! Reads of an answer's header what the generator needs, without allocating.
//!
//! The usual header, JSON without escapes, is scanned here; any other form goes through the full decoder. A generator
//! that takes a microsecond for each answer would measure itself.

use bytes::BytesMut;
use remoting::command::{Command, DecodeError};
use remoting::frame::{HEADER_WORD_BYTES, LENGTH_BYTES};

/// Header word's tag of JSON.
const TAG_JSON: u8 = 0;
/// Digits of any number that 64 bits hold. What has more goes through the full decoder.
const DIGITS_MAX: usize = 18;

/// An answer, or a request that the server makes of its client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) code: i32,
    pub(crate) opaque: i32,
    pub(crate) is_response: bool,
    pub(crate) queue_id: Option<i64>,
    pub(crate) queue_offset: Option<i64>,
    pub(crate) next_begin_offset: Option<i64>,
    /// Where the body begins in the frame.
    pub(crate) body_at: usize,
}

/// Reads a whole frame, its length word included.
///
/// # Errors
/// When the header is none.
pub(crate) fn read(frame: &[u8]) -> Result<Reply, DecodeError> {
    scan(frame).map_or_else(|| decode(frame), Ok)
}

/// The remark of an answer; only looked for when something went wrong.
pub(crate) fn remark(frame: &[u8]) -> String {
    let command = Command::decode(BytesMut::from(&frame[LENGTH_BYTES..]));
    command.ok().and_then(|command| command.remark).map(|remark| remark.as_str().to_owned()).unwrap_or_default()
}

fn decode(frame: &[u8]) -> Result<Reply, DecodeError> {
    let command = Command::decode(BytesMut::from(&frame[LENGTH_BYTES..]))?;
    let number = |name: &str| command.fields.get(name).and_then(|text| text.parse().ok());
    Ok(Reply {
        code: command.code,
        opaque: command.opaque,
        is_response: command.is_response(),
        queue_id: number("queueId"),
        queue_offset: number("queueOffset"),
        next_begin_offset: number("nextBeginOffset"),
        body_at: frame.len() - command.body.len(),
    })
}

/// The quick way; `None` for everything unusual.
fn scan(frame: &[u8]) -> Option<Reply> {
    let word = frame.get(LENGTH_BYTES..LENGTH_BYTES + HEADER_WORD_BYTES)?;
    if word[0] != TAG_JSON {
        return None;
    }
    let header_at = LENGTH_BYTES + HEADER_WORD_BYTES;
    let header_bytes = usize::from(word[1]) << 16 | usize::from(word[2]) << 8 | usize::from(word[3]);
    let body_at = header_at + header_bytes;
    let header = frame.get(header_at..body_at)?;
    let mut reply = Reply { body_at, ..Reply::default() };
    let (mut seen_code, mut seen_opaque) = (false, false);
    let mut at = 0;
    while let Some(quote) = header.get(at..)?.iter().position(|byte| *byte == b'"').map(|step| at + step) {
        let name = text_from(header, quote)?;
        let colon = quote + name.len() + 2;
        if header.get(colon) != Some(&b':') {
            return None;
        }
        let value_at = colon + 1;
        let (value, limit) = match header.get(value_at)? {
            b'"' => {
                let value = text_from(header, value_at)?;
                (value, value_at + value.len() + 2)
            }
            b'{' => (&header[..0], value_at + 1),
            _ => {
                let length = header[value_at..].iter().take_while(|byte| !matches!(byte, b',' | b'}')).count();
                (&header[value_at..value_at + length], value_at + length)
            }
        };
        match name {
            b"code" => (reply.code, seen_code) = (i32::try_from(number(value)?).ok()?, true),
            b"opaque" => (reply.opaque, seen_opaque) = (i32::try_from(number(value)?).ok()?, true),
            b"flag" => reply.is_response = number(value)? & 1 != 0,
            b"queueId" => reply.queue_id = Some(number(value)?),
            b"queueOffset" => reply.queue_offset = Some(number(value)?),
            b"nextBeginOffset" => reply.next_begin_offset = Some(number(value)?),
            _ => {}
        }
        at = limit;
    }
    (seen_code && seen_opaque).then_some(reply)
}

/// The text in the quotes that open at `quote`; `None` when it has an escape or no end.
fn text_from(header: &[u8], quote: usize) -> Option<&[u8]> {
    let rest = header.get(quote + 1..)?;
    let end = quote_or_escape(rest)?;
    (rest[end] == b'"').then_some(&rest[..end])
}

/// Where the first quotation mark or backslash stands. Eight bytes at once: half of what an answer costs was the search for
/// the ends of its texts, byte by byte.
fn quote_or_escape(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH_BITS: u64 = u64::from_ne_bytes([0x80; 8]);
    const QUOTES: u64 = u64::from_ne_bytes([b'"'; 8]);
    const ESCAPES: u64 = u64::from_ne_bytes([b'\\'; 8]);
    // The high bit of each byte that is 0, and perhaps of some behind the first of these.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH_BITS;
    let mut at = 0;
    while let Some(eight) = text[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*eight);
        let found = zeros(word ^ QUOTES) | zeros(word ^ ESCAPES);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = text[at..].iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    Some(at + rest)
}

fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    let mut value = 0_i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use remoting::command::HeaderEncoding;
    use remoting::fields::Fields;

    fn frame(command: &Command) -> Vec<u8> {
        let mut out = BytesMut::new();
        command.encode(&mut out);
        out.to_vec()
    }

    fn stored(encoding: HeaderEncoding) -> Command {
        let mut fields = Fields::new();
        fields.push("msgId", "7F00000100002A9F0000000000000000");
        fields.push("queueId", 3);
        fields.push("queueOffset", 123_456_789_012_i64);
        fields.push("nextBeginOffset", -1);
        let mut command = Command::reply(1_234_567_890, 0).with_fields(fields).with_body("body");
        command.encoding = encoding;
        command
    }

    #[test]
    fn the_scanner_and_the_decoder_read_the_same() {
        for encoding in [HeaderEncoding::Json, HeaderEncoding::Compact] {
            let frame = frame(&stored(encoding));
            let reply = read(&frame).unwrap();
            assert_eq!(reply, decode(&frame).unwrap());
            assert_eq!((reply.queue_id, reply.queue_offset), (Some(3), Some(123_456_789_012)));
            assert_eq!((reply.opaque, reply.is_response), (1_234_567_890, true));
            assert_eq!(&frame[reply.body_at..], b"body");
        }
        assert!(scan(&frame(&stored(HeaderEncoding::Json))).is_some());
    }

    #[test]
    fn escapes_and_oddities_take_the_long_way() {
        let refused = Command::reply(7, 2).with_remark("[OVERLOAD] \"wait\"\n");
        let refused = frame(&refused);
        assert_eq!(scan(&refused), None);
        assert_eq!((read(&refused).unwrap().code, remark(&refused).as_str()), (2, "[OVERLOAD] \"wait\"\n"));
        let text = br#"{ "code" : 0, "flag" : 1, "opaque" : 5 }"#;
        let mut spaced = (text.len() as u32 + 4).to_be_bytes().to_vec();
        spaced.extend((text.len() as u32).to_be_bytes());
        spaced.extend(text);
        assert_eq!(read(&spaced).unwrap().opaque, 5);
    }

    #[test]
    fn ends_of_texts_are_found_wherever_they_stand() {
        for length in 0..40 {
            for end in [b'"', b'\\'] {
                let mut text = vec![0x80; length];
                text.push(end);
                text.extend(b"\"\\#!\xa2\xdc");
                assert_eq!(quote_or_escape(&text), Some(length));
                assert_eq!(quote_or_escape(&text[..length]), None);
            }
        }
    }

    #[test]
    fn no_bytes_make_the_scanner_panic() {
        let good = frame(&stored(HeaderEncoding::Json));
        let mut random = base::Random::new(3);
        for _ in 0..20_000 {
            let mut bad = good.clone();
            let at = LENGTH_BYTES + 1 + random.below((bad.len() - LENGTH_BYTES - 1) as u64) as usize;
            bad[at] = random.next_u64() as u8;
            let _ = read(&bad);
        }
    }
}
