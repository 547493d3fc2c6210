//! The JSON header encoding: a scanner that leaves all texts in their frame, and a writer of the peer's very form.
//!
//! More than a million headers a second pass here on one core, so there is no tree and no string per field. Lenient
//! as the peer is: any order of keys, unknown keys, numbers in quotes, plain numbers as field values.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use crate::command::{Command, DecodeError, HeaderEncoding, Language};
use crate::decimal::{self, Decimal};
use crate::fields::{FIELDS_MAX, Fields, Span};
use crate::find::{EIGHT_ONES, EIGHT_TOPS, position_of, zero_bytes};
use crate::frame::HEADER_WORD_BYTES;

/// Nesting of values that are skipped. A real header has none.
const DEPTH_MAX: usize = 32;

/// What is wrong; where, the scanner knows.
type Wrong = &'static str;

/// Reads a frame whose header goes from its word to `header_limit` and whose body follows.
pub(crate) fn decode(mut frame: BytesMut, header_limit: usize) -> Result<Command, DecodeError> {
    let mut command = Command {
        code: 0,
        language: Language::Other,
        version: 0,
        opaque: 0,
        flag: 0,
        remark: None,
        fields: Fields::for_frame(),
        body: Bytes::new(),
        encoding: HeaderEncoding::Json,
    };
    let header = &mut frame[HEADER_WORD_BYTES..header_limit];
    std::str::from_utf8(header)
        .map_err(|error| DecodeError::NotText { at: HEADER_WORD_BYTES + error.valid_up_to() })?;
    let mut scanner = Scanner { bytes: header, at: 0, remark: None };
    scanner.command(&mut command).map_err(|what| DecodeError::Json { at: HEADER_WORD_BYTES + scanner.at, what })?;
    let remark = scanner.remark;
    let frame = frame.freeze();
    command.body = frame.slice(header_limit..);
    command.fields.lie_in(frame);
    command.remark = remark.map(|span| command.fields.text_of(span)).filter(|remark| !remark.is_empty());
    Ok(command)
}

/// A member of the header.
#[derive(Clone, Copy)]
enum Key {
    Code,
    Fields,
    Flag,
    Language,
    Opaque,
    Remark,
    Version,
    Other,
}

/// The keys as they are written, up to their value.
const KEYS: [(&[u8], Key); 7] = [
    (b"\"code\":", Key::Code),
    (b"\"extFields\":", Key::Fields),
    (b"\"flag\":", Key::Flag),
    (b"\"language\":", Key::Language),
    (b"\"opaque\":", Key::Opaque),
    (b"\"remark\":", Key::Remark),
    (b"\"version\":", Key::Version),
];

struct Scanner<'a> {
    /// The header, which is UTF-8. A string with escapes is unescaped where it lies, as it gets no longer by that.
    bytes: &'a mut [u8],
    at: usize,
    remark: Option<Span>,
}

impl Scanner<'_> {
    fn command(&mut self, command: &mut Command) -> Result<(), Wrong> {
        self.expect(b'{', "the header is no object")?;
        let mut first = true;
        while self.member_follows(&mut first)? {
            match self.key()? {
                Key::Code => command.code = self.number()?,
                Key::Flag => command.flag = self.number()?,
                Key::Opaque => command.opaque = self.number()?,
                Key::Version => command.version = self.number()?,
                Key::Language => command.language = self.language()?,
                Key::Fields => self.fields(&mut command.fields)?,
                Key::Remark => self.remark = self.remark()?,
                Key::Other => self.skip(0)?,
            }
        }
        self.blanks();
        if self.at < self.bytes.len() { Err("something follows the object") } else { Ok(()) }
    }

    /// Steps to the value of the next key.
    #[inline]
    fn key(&mut self) -> Result<Key, Wrong> {
        // The form without blanks, which every client writes, is compared as it stands.
        let rest = &self.bytes[self.at..];
        for (written, key) in KEYS {
            if rest.starts_with(written) {
                self.at += written.len();
                self.blanks();
                return Ok(key);
            }
        }
        let name = self.raw_string()?;
        self.expect(b':', "a key without a colon")?;
        self.blanks();
        let known = KEYS.iter().find(|(written, _)| written[1..written.len() - 2] == self.bytes[name.clone()]);
        Ok(known.map_or(Key::Other, |(_, key)| *key))
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    #[inline]
    fn expect(&mut self, byte: u8, wrong: Wrong) -> Result<(), Wrong> {
        self.blanks();
        if self.peek() != Some(byte) {
            return Err(wrong);
        }
        self.at += 1;
        Ok(())
    }

    /// Steps to the next member of an object, or over its end.
    #[inline]
    fn member_follows(&mut self, first: &mut bool) -> Result<bool, Wrong> {
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(false);
        }
        if !std::mem::take(first) {
            self.expect(b',', "a comma or the end of the object is missing")?;
            self.blanks();
            // A comma before the end of an object is harmless and some writers leave it.
            if self.peek() == Some(b'}') {
                self.at += 1;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next quote or backslash from here.
    #[inline]
    fn special(&self) -> Option<usize> {
        position_of(self.bytes.get(self.at..)?, [b'"', b'\\']).map(|position| self.at + position)
    }

    /// Where a string lies, escapes left as they are.
    #[inline]
    fn raw_string(&mut self) -> Result<Range<usize>, Wrong> {
        self.expect(b'"', "a string is missing")?;
        let start = self.at;
        loop {
            let found = self.special().ok_or("a string does not end")?;
            if self.bytes[found] == b'"' {
                self.at = found + 1;
                return Ok(start..found);
            }
            self.at = found + 2;
        }
    }

    /// A string as a span of the frame.
    #[inline]
    fn string(&mut self) -> Result<Span, Wrong> {
        self.expect(b'"', "a string is missing")?;
        let start = self.at;
        let found = self.special().ok_or("a string does not end")?;
        self.at = found;
        let end = if self.bytes[found] == b'"' { found } else { self.unescape()? };
        self.at += 1;
        Ok(Span::in_frame(HEADER_WORD_BYTES + start, end - start))
    }

    /// From the first backslash of a string to its closing quote. Returns where the unescaped text ends.
    fn unescape(&mut self) -> Result<usize, Wrong> {
        let mut end = self.at;
        while self.bytes[self.at] == b'\\' {
            self.at += 1;
            let character = self.escaped()?;
            end += character.encode_utf8(&mut self.bytes[end..self.at]).len();
            let found = self.special().ok_or("a string does not end")?;
            self.bytes.copy_within(self.at..found, end);
            end += found - self.at;
            self.at = found;
        }
        Ok(end)
    }

    /// The character behind a backslash.
    #[inline]
    fn escaped(&mut self) -> Result<char, Wrong> {
        // The separators of properties, of which a send has a dozen.
        if let Some(&[b'u', b'0', b'0', b'0', digit @ b'0'..=b'7']) = self.bytes[self.at..].first_chunk() {
            self.at += 5;
            return Ok(char::from(digit - b'0'));
        }
        let escape = self.peek().ok_or("a string ends within an escape")?;
        self.at += 1;
        match escape {
            b'u' => self.unicode(),
            b'n' => Ok('\n'),
            b't' => Ok('\t'),
            b'r' => Ok('\r'),
            b'b' => Ok('\u{8}'),
            b'f' => Ok('\u{c}'),
            b'v' => Ok('\u{b}'),
            b'"' | b'\\' | b'/' | b'\'' => Ok(char::from(escape)),
            _ => Err("an unknown escape"),
        }
    }

    /// The character behind `\u`. Half of a surrogate pair alone becomes the replacement character.
    #[inline]
    fn unicode(&mut self) -> Result<char, Wrong> {
        let unit = self.hex4()?;
        if !(0xd800..0xe000).contains(&unit) {
            return Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let follows_low = self.bytes.get(self.at..self.at + 2) == Some(b"\\u");
        if unit < 0xdc00 && follows_low {
            let back = self.at;
            self.at += 2;
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                let joined = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    #[inline]
    fn hex4(&mut self) -> Result<u32, Wrong> {
        let digits = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<4>()).ok_or("an escape is cut")?;
        let mut unit = 0;
        for digit in digits {
            let value = char::from(*digit).to_digit(16).ok_or("an escape without hex digits")?;
            unit = unit << 4 | value;
        }
        self.at += 4;
        Ok(unit)
    }

    /// A number, quoted or not; `null` is 0.
    #[inline]
    fn number(&mut self) -> Result<i32, Wrong> {
        let start = self.at;
        let digits = match self.peek() {
            Some(b'"') => self.raw_string()?,
            _ => self.literal()?,
        };
        let digits = &self.bytes[digits];
        if digits == b"null" {
            return Ok(0);
        }
        let number = decimal::parse(digits).and_then(|number| i32::try_from(number).ok());
        number.ok_or_else(|| {
            self.at = start;
            "no 32-bit number"
        })
    }

    /// A bare word: number, `true`, `false` or `null`.
    #[inline]
    fn literal(&mut self) -> Result<Range<usize>, Wrong> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')) {
            self.at += 1;
        }
        if start == self.at { Err("a value is missing") } else { Ok(start..self.at) }
    }

    fn language(&mut self) -> Result<Language, Wrong> {
        match self.peek() {
            Some(b'"') => {
                let name = self.raw_string()?;
                Ok(std::str::from_utf8(&self.bytes[name]).map_or(Language::Other, Language::from_name))
            }
            Some(b'n') => self.literal().map(|_| Language::Other),
            _ => self.number().map(|ordinal| Language::from_ordinal(i64::from(ordinal))),
        }
    }

    fn remark(&mut self) -> Result<Option<Span>, Wrong> {
        if self.peek() == Some(b'"') { self.string().map(Some) } else { self.skip(0).map(|()| None) }
    }

    /// Steps over a name of one letter and its colon, the form that nearly every field of a send has.
    #[inline]
    fn letter(&mut self) -> Option<Span> {
        let &[b'"', letter, b'"', b':'] = self.bytes[self.at..].first_chunk()? else { return None };
        if !letter.is_ascii_alphanumeric() {
            return None;
        }
        let name = Span::in_frame(HEADER_WORD_BYTES + self.at + 1, 1);
        self.at += 4;
        Some(name)
    }

    /// The object of custom fields. A field whose value is `null` is not there.
    fn fields(&mut self, fields: &mut Fields) -> Result<(), Wrong> {
        if self.peek() == Some(b'n') {
            return self.literal().map(|_| ());
        }
        self.expect(b'{', "the custom fields are no object")?;
        let mut first = true;
        while self.member_follows(&mut first)? {
            let name = match self.letter() {
                Some(name) => name,
                None => {
                    let name = self.string()?;
                    self.expect(b':', "a field without a colon")?;
                    name
                }
            };
            self.blanks();
            if self.peek() == Some(b'"') {
                let value = self.string()?;
                fields.push_spans(name, value);
            } else {
                let start = self.at;
                self.skip(0)?;
                if &self.bytes[start..self.at] != b"null" {
                    fields.push_spans(name, Span::in_frame(HEADER_WORD_BYTES + start, self.at - start));
                }
            }
            if fields.len() > FIELDS_MAX {
                return Err("too many custom fields");
            }
        }
        Ok(())
    }

    /// Steps over any value.
    fn skip(&mut self, depth: usize) -> Result<(), Wrong> {
        self.blanks();
        match self.peek() {
            Some(b'"') => self.raw_string().map(|_| ()),
            Some(b'{') => self.skip_members(b'}', depth),
            Some(b'[') => self.skip_members(b']', depth),
            _ => self.literal().map(|_| ()),
        }
    }

    fn skip_members(&mut self, end: u8, depth: usize) -> Result<(), Wrong> {
        if depth == DEPTH_MAX {
            return Err("values are nested too deeply");
        }
        self.at += 1;
        loop {
            self.blanks();
            match self.peek() {
                Some(byte) if byte == end => {
                    self.at += 1;
                    return Ok(());
                }
                // What stands between the members of a skipped value is nobody's business, as long as it ends.
                Some(b',' | b':') => self.at += 1,
                _ => self.skip(depth + 1)?,
            }
        }
    }
}

/// Appends the header: keys in alphabetical order, absent values left out, no blanks.
pub(crate) fn encode(command: &Command, out: &mut impl BufMut) {
    out.put_slice(b"{\"code\":");
    put_number(command.code, out);
    if !command.fields.is_empty() {
        let mut before: &[u8] = b",\"extFields\":{\"";
        for (name, value) in command.fields.iter_bytes() {
            out.put_slice(before);
            put_escaped(name, out);
            out.put_slice(b"\":\"");
            put_escaped(value, out);
            before = b"\",\"";
        }
        out.put_slice(b"\"}");
    }
    out.put_slice(b",\"flag\":");
    put_number(command.flag, out);
    out.put_slice(b",\"language\":\"");
    out.put_slice(command.language.name().as_bytes());
    out.put_slice(b"\",\"opaque\":");
    put_number(command.opaque, out);
    if let Some(remark) = &command.remark {
        out.put_slice(b",\"remark\":\"");
        put_escaped(remark.as_bytes(), out);
        out.put_slice(b"\"");
    }
    out.put_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    put_number(command.version, out);
    out.put_slice(b"}");
}

pub(crate) fn put_number(number: impl Into<i64>, out: &mut impl BufMut) {
    out.put_slice(Decimal::new(number.into()).as_bytes());
}

/// Appends UTF-8 bytes, with escapes for quotes, backslashes and control characters.
pub(crate) fn put_escaped(text: &[u8], out: &mut impl BufMut) {
    let mut rest = text;
    while let Some(at) = first_to_escape(rest) {
        out.put_slice(&rest[..at]);
        match rest[at] {
            b'"' => out.put_slice(b"\\\""),
            b'\\' => out.put_slice(b"\\\\"),
            b'\n' => out.put_slice(b"\\n"),
            b'\r' => out.put_slice(b"\\r"),
            b'\t' => out.put_slice(b"\\t"),
            0x8 => out.put_slice(b"\\b"),
            0xc => out.put_slice(b"\\f"),
            control => {
                let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
                out.put_slice(&[b'\\', b'u', b'0', b'0', digit(control >> 4), digit(control & 0xf)]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.put_slice(rest);
}

/// The first quote, backslash or control character, eight bytes at a step.
#[inline]
fn first_to_escape(text: &[u8]) -> Option<usize> {
    let (chunks, rest) = text.as_chunks::<8>();
    for (number, chunk) in chunks.iter().enumerate() {
        let word = u64::from_le_bytes(*chunk);
        let quotes = zero_bytes(word ^ (EIGHT_ONES * b'"' as u64));
        let backslashes = zero_bytes(word ^ (EIGHT_ONES * b'\\' as u64));
        let controls = word.wrapping_sub(EIGHT_ONES * 0x20) & !word & EIGHT_TOPS;
        let found = quotes | backslashes | controls;
        if found != 0 {
            return Some(8 * number + (found.trailing_zeros() / 8) as usize);
        }
    }
    let position = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
    Some(8 * chunks.len() + position)
}

#[cfg(test)]
mod tests {

    use super::*;

    fn decoded(header: &str) -> Result<Command, DecodeError> {
        let frame = [&[0; HEADER_WORD_BYTES][..], header.as_bytes()].concat();
        let limit = frame.len();
        decode(BytesMut::from(&frame[..]), limit)
    }

    #[test]
    fn headers_of_real_clients_are_understood() {
        let java = decoded(
            r#"{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":0,"serializeTypeCurrentRPC":"JSON","version":515}"#,
        )
        .unwrap();
        assert_eq!((java.code, java.version, java.language), (105, 515, Language::Java));
        assert_eq!(java.fields.get("topic"), Some("T"));

        let go = decoded(
            r#"{"code":10,"language":"GO","version":317,"opaque":-7,"flag":2,"remark":"","extFields":{"properties":"KEYS\u0001k\u0002TAGS\u0001\u0026a\u0002","batch":"false"}}"#,
        )
        .unwrap();
        assert_eq!((go.opaque, go.remark.clone(), go.language), (-7, None, Language::Go));
        assert_eq!(go.fields.get("properties"), Some("KEYS\u{1}k\u{2}TAGS\u{1}&a\u{2}"));
    }

    #[test]
    fn what_the_peer_accepts_is_accepted() {
        let command = decoded(
            " { \"version\" : \"317\", \"language\":9, \"x\":[1,{\"y\":[\"]\"]}], \"extFields\":{ \"a\" : 4,\"b\":true ,\"c\":null,\"d\":[1,2],\
             \"f\": \"g\",\"e\\u0041\":\"\\ud83d\\ude00\\ud83dx\\\\\\/\",\"a\":\"5\",}, \"flag\":null, \"remark\":null, \"code\":34}\n",
        )
        .unwrap();
        assert_eq!((command.code, command.version, command.language, command.flag), (34, 317, Language::Go, 0));
        let fields: Vec<_> = command.fields.iter().collect();
        assert_eq!(
            fields,
            [("a", "4"), ("b", "true"), ("d", "[1,2]"), ("f", "g"), ("eA", "😀\u{fffd}x\\/"), ("a", "5")]
        );
        assert_eq!(command.fields.get("a"), Some("5"));
        assert!(decoded(r#"{"extFields":null}"#).unwrap().fields.is_empty());
        assert!(decoded("{}").is_ok());
    }

    #[test]
    fn broken_headers_are_refused() {
        let deep = format!("{{\"x\":{}", "[".repeat(100_000));
        let many = format!("{{\"extFields\":{{{}}}}}", "\"a\":\"b\",".repeat(FIELDS_MAX + 1));
        let cases = [
            "",
            "null",
            "[]",
            "{",
            "{\"",
            "{\"code",
            "{\"code\"",
            "{\"code\":",
            "{\"code\":}",
            "{\"code\":1",
            "{\"code\":1,",
            "{\"code\":x}",
            "{\"code\":1.5}",
            "{\"code\":2147483648}",
            "{\"code\":99999999999999999999}",
            "{\"code\":-}",
            "{\"code\":1 \"flag\":0}",
            "{\"code\":1}x",
            "{\"remark\":\"\\u12\"}",
            "{\"remark\":\"\\uzzzz\"}",
            "{\"remark\":\"\\",
            "{\"remark\":\"\\q\"}",
            "{\"extFields\":[]}",
            "{\"extFields\":{\"a\"}}",
            "{\"x\":[}",
            &deep,
            &many,
        ];
        for header in cases {
            assert!(decoded(header).is_err(), "{}", &header[..header.len().min(40)]);
        }
    }

    #[test]
    fn the_writer_escapes_as_the_peer_does() {
        let mut command = decoded("{}").unwrap().with_remark("\u{1}\u{1f}\"\\\n\t\r\u{8}\u{c}é");
        command.fields.push("a", "b\u{2}");
        let mut out = BytesMut::new();
        encode(&command, &mut out);
        assert_eq!(
            std::str::from_utf8(&out).unwrap(),
            r#"{"code":0,"extFields":{"a":"b\u0002"},"flag":0,"language":"OTHER","opaque":0,"remark":"\u0001\u001f\"\\\n\t\r\b\fé","serializeTypeCurrentRPC":"JSON","version":0}"#
        );
        assert_eq!(decoded(std::str::from_utf8(&out).unwrap()).unwrap(), command);
    }
}
