//! One frame of the remoting protocol, in both header encodings, as bytes and as values.
//!
//! Layout: `i32 total` (bytes after this field), `u8 encoding`, `u24 header length`, header, body. All big-endian.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Map, Value, json};

/// The bit of `flag` that marks an answer.
pub const FLAG_ANSWER: i32 = 1;
/// The bit of `flag` that forbids an answer.
pub const FLAG_ONE_WAY: i32 = 2;

/// The largest frame that either side accepts, length field included.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

const HEADER_BINARY_FIXED_BYTES: usize = 21;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Binary,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub encoding: Encoding,
    pub code: i32,
    pub opaque: i32,
    pub flag: i32,
    pub remark: String,
    pub fields: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Frame {
    /// A two-way request without fields and body. The connection gives it its opaque.
    pub fn request(code: i32) -> Frame {
        Frame {
            encoding: Encoding::Json,
            code,
            opaque: 0,
            flag: 0,
            remark: String::new(),
            fields: BTreeMap::new(),
            body: Vec::new(),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "calls give numbers and strings, with and without `&`")]
    pub fn field(mut self, name: &str, value: impl ToString) -> Frame {
        self.fields.insert(name.to_owned(), value.to_string());
        self
    }

    pub fn without(mut self, name: &str) -> Frame {
        self.fields.remove(name);
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Frame {
        self.body = body.into();
        self
    }

    pub fn binary(mut self) -> Frame {
        self.encoding = Encoding::Binary;
        self
    }

    pub fn one_way(mut self) -> Frame {
        self.flag |= FLAG_ONE_WAY;
        self
    }

    pub fn with_opaque(mut self, opaque: i32) -> Frame {
        self.opaque = opaque;
        self
    }

    pub fn is_answer(&self) -> bool {
        self.flag & FLAG_ANSWER != 0
    }

    /// A field of an answer that must be a whole number.
    pub fn number(&self, name: &str) -> io::Result<i64> {
        let text = self.fields.get(name).ok_or_else(|| bad(format!("field {name} is missing in {self:?}")))?;
        text.parse().map_err(|_| bad(format!("field {name} is not a number: {text:?}")))
    }

    pub fn text(&self, name: &str) -> io::Result<&str> {
        self.fields.get(name).map(String::as_str).ok_or_else(|| bad(format!("field {name} is missing in {self:?}")))
    }

    /// The whole frame as it goes over the wire.
    pub fn encode(&self) -> Vec<u8> {
        let header = match self.encoding {
            Encoding::Json => self.header_json(),
            Encoding::Binary => self.header_binary(),
        };
        let kind = match self.encoding {
            Encoding::Json => 0u32,
            Encoding::Binary => 1u32,
        };
        let header_length = u32::try_from(header.len()).expect("headers of tests are small");
        let total = u32::try_from(4 + header.len() + self.body.len()).expect("frames of tests are below 4 GiB");
        let mut bytes = Vec::with_capacity(8 + header.len() + self.body.len());
        bytes.extend_from_slice(&total.to_be_bytes());
        bytes.extend_from_slice(&((kind << 24) | header_length).to_be_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&self.body);
        bytes
    }

    fn header_json(&self) -> Vec<u8> {
        let fields: Map<String, Value> = self.fields.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        let mut header = json!({
            "code": self.code, "flag": self.flag, "language": "JAVA", "opaque": self.opaque,
            "serializeTypeCurrentRPC": "JSON", "version": 493,
        });
        if !fields.is_empty() {
            header["extFields"] = Value::Object(fields);
        }
        header.to_string().into_bytes()
    }

    fn header_binary(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        for (name, value) in &self.fields {
            fields.extend_from_slice(&u16::try_from(name.len()).expect("a field name is short").to_be_bytes());
            fields.extend_from_slice(name.as_bytes());
            fields.extend_from_slice(&u32::try_from(value.len()).expect("a field value is short").to_be_bytes());
            fields.extend_from_slice(value.as_bytes());
        }
        let mut header = Vec::with_capacity(HEADER_BINARY_FIXED_BYTES + self.remark.len() + fields.len());
        header.extend_from_slice(&i16::try_from(self.code).expect("the binary header has 16-bit codes").to_be_bytes());
        header.push(0); // language JAVA
        header.extend_from_slice(&493i16.to_be_bytes());
        header.extend_from_slice(&self.opaque.to_be_bytes());
        header.extend_from_slice(&self.flag.to_be_bytes());
        header.extend_from_slice(&u32::try_from(self.remark.len()).expect("a remark is short").to_be_bytes());
        header.extend_from_slice(self.remark.as_bytes());
        header.extend_from_slice(&u32::try_from(fields.len()).expect("fields are short").to_be_bytes());
        header.extend_from_slice(&fields);
        header
    }

    /// Decodes what follows the length field.
    pub fn decode(bytes: &[u8]) -> io::Result<Frame> {
        let mut reader = Reader { bytes };
        let word = reader.u32()?;
        let header = reader.take((word & 0x00ff_ffff) as usize)?;
        let mut frame = match word >> 24 {
            0 => Frame::decode_json(header)?,
            1 => Frame::decode_binary(header)?,
            other => return Err(bad(format!("unknown header encoding {other}"))),
        };
        frame.body = reader.bytes.to_vec();
        Ok(frame)
    }

    fn decode_json(header: &[u8]) -> io::Result<Frame> {
        let value: Value =
            serde_json::from_slice(header).map_err(|error| bad(format!("header is not JSON: {error}")))?;
        let number = |name: &str| {
            value[name]
                .as_i64()
                .and_then(|n| i32::try_from(n).ok())
                .ok_or_else(|| bad(format!("no number {name}: {value}")))
        };
        let mut frame = Frame::request(number("code")?).with_opaque(number("opaque")?);
        frame.flag = number("flag")?;
        frame.remark = value["remark"].as_str().unwrap_or_default().to_owned();
        if let Some(fields) = value["extFields"].as_object() {
            for (name, field) in fields {
                // Go's client decodes into strings and fails on anything else, so the test does too.
                let text = field.as_str().ok_or_else(|| bad(format!("field {name} is not a string: {field}")))?;
                frame.fields.insert(name.clone(), text.to_owned());
            }
        }
        Ok(frame)
    }

    fn decode_binary(header: &[u8]) -> io::Result<Frame> {
        let mut reader = Reader { bytes: header };
        let code = i32::from(reader.u16()?.cast_signed());
        reader.take(1 + 2)?; // language and version
        let opaque = reader.u32()?.cast_signed();
        let flag = reader.u32()?.cast_signed();
        let remark_length = reader.u32()? as usize;
        let remark = utf8(reader.take(remark_length)?)?;
        let fields_length = reader.u32()? as usize;
        let mut fields_reader = Reader { bytes: reader.take(fields_length)? };
        let mut fields = BTreeMap::new();
        while !fields_reader.bytes.is_empty() {
            let name_length = fields_reader.u16()? as usize;
            let name = utf8(fields_reader.take(name_length)?)?;
            let value_length = fields_reader.u32()? as usize;
            fields.insert(name, utf8(fields_reader.take(value_length)?)?);
        }
        Ok(Frame { encoding: Encoding::Binary, code, opaque, flag, remark, fields, body: Vec::new() })
    }
}

/// Takes numbers and bytes off the front; running out of bytes is an error, never a panic.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (head, rest) = self
            .bytes
            .split_at_checked(count)
            .ok_or_else(|| bad(format!("{count} bytes wanted, {} there", self.bytes.len())))?;
        self.bytes = rest;
        Ok(head)
    }

    pub(crate) fn u16(&mut self) -> io::Result<u16> {
        Ok(u16::from_be_bytes(self.take(2)?.try_into().expect("two bytes were taken")))
    }

    pub(crate) fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_be_bytes(self.take(4)?.try_into().expect("four bytes were taken")))
    }

    pub(crate) fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_be_bytes(self.take(8)?.try_into().expect("eight bytes were taken")))
    }
}

fn utf8(bytes: &[u8]) -> io::Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|error| bad(format!("text is not UTF-8: {error}")))
}

pub(crate) fn bad(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_come_back_as_they_went() {
        for encoding in [Encoding::Json, Encoding::Binary] {
            let mut frame =
                Frame::request(310).field("a", "group").field("e", -1).with_opaque(-7).body(*b"body").one_way();
            frame.encoding = encoding;
            let bytes = frame.encode();
            assert_eq!(bytes.len() - 4, u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize);
            let mut decoded = Frame::decode(&bytes[4..]).unwrap();
            decoded.encoding = encoding;
            assert_eq!(decoded, frame);
        }
    }

    #[test]
    fn cut_frames_are_errors() {
        let bytes = Frame::request(105).field("topic", "T").binary().encode();
        for length in 4..bytes.len() {
            assert!(Frame::decode(&bytes[4..length]).is_err(), "{length} of {} bytes", bytes.len());
        }
    }
}
