//! A reply that is written field by field into its frame.
//!
//! What [`Command`](crate::Command) with a table of fields costs, in time and allocations, is nothing beside most
//! requests. Beside a send it is a tenth, so its reply is written this way. The bytes are the same.

use bytes::BufMut;

use crate::command::{FLAG_RESPONSE, HeaderEncoding, VERSION_ORDINAL, put_words};
use crate::command_json::{put_escaped, put_number};
use crate::frame::{HEADER_WORD_BYTES, LENGTH_BYTES};
use crate::message_id::OffsetId;

/// Room taken at once: that of a reply to a send.
const BYTES_USUAL: usize = 416;

/// Fields that many replies have, written once for all of them.
#[derive(Clone, Debug, Default)]
pub struct ReplyFields {
    text: Vec<u8>,
}

impl ReplyFields {
    pub fn new(fields: &[(&'static str, &str)]) -> ReplyFields {
        let mut text = Vec::new();
        for (name, value) in fields {
            text.put_slice(if text.is_empty() { b"\"" } else { b",\"" });
            text.put_slice(name.as_bytes());
            text.put_slice(b"\":\"");
            put_escaped(value.as_bytes(), &mut text);
            text.put_u8(b'"');
        }
        ReplyFields { text }
    }
}

/// A reply in JSON, which every client reads, without remark and body.
#[derive(Debug)]
pub struct ReplyWriter {
    out: Vec<u8>,
    has_fields: bool,
}

impl ReplyWriter {
    pub fn new(code: impl Into<i32>) -> ReplyWriter {
        let mut out = Vec::with_capacity(BYTES_USUAL);
        out.extend_from_slice(&[0; LENGTH_BYTES + HEADER_WORD_BYTES]);
        out.extend_from_slice(b"{\"code\":");
        put_number(code.into(), &mut out);
        ReplyWriter { out, has_fields: false }
    }

    /// Appends a field. Its name is one of the protocol, in which nothing is to be escaped.
    pub fn text(&mut self, name: &'static str, value: &str) {
        self.name(name);
        put_escaped(value.as_bytes(), &mut self.out);
        self.out.put_u8(b'"');
    }

    /// Appends a field that is a number.
    pub fn number(&mut self, name: &'static str, value: i64) {
        self.name(name);
        put_number(value, &mut self.out);
        self.out.put_u8(b'"');
    }

    /// Appends a field that is a message's place.
    pub fn offset_id(&mut self, name: &'static str, id: OffsetId) {
        self.name(name);
        id.write_to(&mut self.out);
        self.out.put_u8(b'"');
    }

    /// Appends fields that were written before.
    pub fn fields(&mut self, fields: &ReplyFields) {
        if !fields.text.is_empty() {
            self.out.extend_from_slice(if self.has_fields { b"," } else { b",\"extFields\":{" });
            self.has_fields = true;
            self.out.extend_from_slice(&fields.text);
        }
    }

    /// The whole frame.
    pub fn finish(mut self, opaque: i32) -> Vec<u8> {
        if self.has_fields {
            self.out.put_u8(b'}');
        }
        self.out.extend_from_slice(b",\"flag\":");
        put_number(FLAG_RESPONSE, &mut self.out);
        self.out.extend_from_slice(b",\"language\":\"JAVA\",\"opaque\":");
        put_number(opaque, &mut self.out);
        self.out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
        put_number(VERSION_ORDINAL, &mut self.out);
        self.out.put_u8(b'}');
        put_words(&mut self.out, HeaderEncoding::Json, 0);
        self.out
    }

    fn name(&mut self, name: &'static str) {
        self.out.extend_from_slice(if self.has_fields { b",\"" } else { b",\"extFields\":{\"" });
        self.has_fields = true;
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::fields::Fields;

    #[test]
    fn fields_written_before_are_those_of_a_command() {
        let always = [("region", "a \"b\"\u{1}"), ("traceOn", "true")];
        for own in [vec![], vec![("queueOffset", "42")]] {
            let mut writer = ReplyWriter::new(0);
            let mut table = Fields::new();
            for (name, value) in own.iter().chain(&always) {
                table.push(name, *value);
            }
            own.iter().for_each(|(name, value)| writer.text(name, value));
            writer.fields(&ReplyFields::new(&always));
            let mut expected = Vec::new();
            Command::reply(7, 0).with_fields(table).encode_header(0, &mut expected);
            assert_eq!(writer.finish(7), expected);
        }
        let mut writer = ReplyWriter::new(0);
        writer.fields(&ReplyFields::default());
        let mut expected = Vec::new();
        Command::reply(7, 0).encode_header(0, &mut expected);
        assert_eq!(writer.finish(7), expected);
    }

    #[test]
    fn the_bytes_are_those_of_a_command() {
        for fields in [vec![], vec![("msgId", "7F00"), ("region", "a \"b\"\u{1}"), ("queueOffset", "-42")]] {
            let mut writer = ReplyWriter::new(10);
            let mut table = Fields::new();
            for (name, value) in fields {
                match value.parse() {
                    Ok(number) => writer.number(name, number),
                    Err(_) => writer.text(name, value),
                }
                table.push(name, value);
            }
            let mut expected = Vec::new();
            Command::reply(i32::MIN, 10).with_fields(table).encode_header(0, &mut expected);
            assert_eq!(writer.finish(i32::MIN), expected);
        }
    }
}
