//! The compact header encoding, which the peer calls ROCKETMQ: fixed numbers, then length-prefixed texts.
//!
//! ```text
//! i16 code, u8 language, i16 version, i32 opaque, i32 flag,
//! i32 remark bytes, remark, i32 bytes of all fields, per field: i16 name bytes, name, i32 value bytes, value
//! ```
//!
//! The code has 16 bits only. Request codes of the POP family (2000xx) come in wrapped; they are read as what
//! was meant, because no other request has the wrapped value.

use bytes::{BufMut, Bytes};

use crate::code::request;
use crate::command::{Command, DecodeError, FLAG_RESPONSE, FrameBuffer, HeaderEncoding, Language};
use crate::fields::{FIELDS_MAX, Fields, Span};
use crate::frame::HEADER_WORD_BYTES;
use crate::text::Text;

/// What the 16 bits of the code have lost of a request code above 196,608.
const CODE_WRAPPED: i32 = 3 << 16;

/// A cursor over the header that knows where it is, for errors.
struct Reader<'a> {
    /// The frame up to the end of its header.
    header: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let bytes = self.header[self.at..].first_chunk::<N>();
        let bytes = *bytes.ok_or(DecodeError::Compact { at: self.at, what: "the header ends within a number" })?;
        self.at += N;
        Ok(bytes)
    }

    fn i16(&mut self) -> Result<i16, DecodeError> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, DecodeError> {
        self.take().map(i32::from_be_bytes)
    }

    /// Steps over `bytes` bytes of text, which must end by `limit`.
    fn text(&mut self, bytes: i64, limit: usize) -> Result<Span, DecodeError> {
        let at = self.at;
        let available_bytes = limit.saturating_sub(at) as i64;
        if bytes < 0 || bytes > available_bytes {
            return Err(DecodeError::Compact { at, what: "a text is longer than what is left, or negative" });
        }
        let end = at + bytes as usize;
        if let Err(error) = std::str::from_utf8(&self.header[at..end]) {
            return Err(DecodeError::NotText { at: at + error.valid_up_to() });
        }
        self.at = end;
        Ok(Span::in_frame(at, bytes as usize))
    }
}

/// Reads a frame whose header goes from its word to `header_limit` and whose body follows.
pub(crate) fn decode(frame: Bytes, header_limit: usize) -> Result<Command, DecodeError> {
    let body = frame.slice(header_limit..);
    let mut fields = Fields::for_frame();
    let mut reader = Reader { header: &frame[..header_limit], at: HEADER_WORD_BYTES };
    let code = i32::from(reader.i16()?);
    let language = Language::from_ordinal(i64::from(reader.take::<1>()?[0]));
    let version = i32::from(reader.i16()?);
    let opaque = reader.i32()?;
    let flag = reader.i32()?;
    let remark_bytes = reader.i32()?;
    let remark = reader.text(i64::from(remark_bytes), header_limit)?;
    let fields_bytes = reader.i32()?;
    let fields_start = reader.at;
    if fields_bytes < 0 || fields_bytes as usize > header_limit - fields_start {
        return Err(DecodeError::Compact { at: fields_start, what: "the fields are longer than what is left" });
    }
    let limit = fields_start + fields_bytes as usize;
    while reader.at < limit {
        let name_bytes = reader.i16()?;
        let name = reader.text(i64::from(name_bytes), limit)?;
        let value_bytes = reader.i32()?;
        let value = reader.text(i64::from(value_bytes), limit)?;
        if fields.len() == FIELDS_MAX {
            return Err(DecodeError::Compact { at: reader.at, what: "too many fields" });
        }
        fields.push_spans(name, value);
    }
    fields.lie_in(frame);
    let remark = (remark_bytes > 0).then(|| fields.text_of(remark));
    Ok(Command {
        code: unwrapped(code, flag),
        language,
        version,
        opaque,
        flag,
        remark,
        fields,
        body,
        encoding: HeaderEncoding::Compact,
    })
}

/// Appends the header.
pub(crate) fn encode(command: &Command, out: &mut impl FrameBuffer) {
    out.put_i16(command.code as i16);
    out.put_u8(command.language.ordinal());
    out.put_i16(command.version as i16);
    out.put_i32(command.opaque);
    out.put_i32(command.flag);
    let remark = command.remark.as_ref().map_or(&[][..], Text::as_bytes);
    put_length(remark.len(), out);
    out.put_slice(remark);
    let fields_length_at = out.len();
    out.put_i32(0);
    for (name, value) in command.fields.iter_bytes() {
        assert!(name.len() <= i16::MAX as usize, "a field name of {} bytes", name.len());
        out.put_i16(name.len() as i16);
        out.put_slice(name);
        put_length(value.len(), out);
        out.put_slice(value);
    }
    let fields_bytes = (out.len() - fields_length_at - size_of::<i32>()) as i32;
    out[fields_length_at..fields_length_at + size_of::<i32>()].copy_from_slice(&fields_bytes.to_be_bytes());
}

fn put_length(bytes: usize, out: &mut impl BufMut) {
    out.put_i32(i32::try_from(bytes).expect("a text in memory of a header is below 16 MiB"));
}

fn unwrapped(code: i32, flag: i32) -> i32 {
    let is_request = flag & FLAG_RESPONSE == 0;
    let meant = code + CODE_WRAPPED;
    if is_request && request::name(code).is_none() && request::name(meant).is_some() { meant } else { code }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    fn header(code: i16, flag: i32, remark: &[u8], fields: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        out.put_i16(code);
        out.put_u8(9);
        out.put_i16(317);
        out.put_i32(-5);
        out.put_i32(flag);
        out.put_i32(remark.len() as i32);
        out.put_slice(remark);
        out.put_i32(fields.len() as i32);
        out.put_slice(fields);
        out.freeze()
    }

    fn decoded(header: &Bytes) -> Result<Command, DecodeError> {
        let frame = [&[0; HEADER_WORD_BYTES][..], header].concat();
        let limit = frame.len();
        decode(Bytes::from(frame), limit)
    }

    #[test]
    fn a_header_by_hand_is_understood() {
        let fields = b"\0\x05topic\0\0\0\x01T\0\x07queueId\0\0\0\x02-1";
        let command = decoded(&header(10, 2, b"", fields)).unwrap();
        assert_eq!((command.code, command.language, command.version), (10, Language::Go, 317));
        assert_eq!((command.opaque, command.remark.clone(), command.is_oneway()), (-5, None, true));
        assert_eq!(command.fields.iter().collect::<Vec<_>>(), [("topic", "T"), ("queueId", "-1")]);
        let mut out = BytesMut::new();
        encode(&command, &mut out);
        assert_eq!(out.freeze(), header(10, 2, b"", fields));
    }

    #[test]
    fn wrapped_pop_codes_are_what_was_meant() {
        for (code, flag, meant) in
            [(3442, 0, 200_050), (3543, 0, 200_151), (3442, 1, 3442), (310, 0, 310), (-1000, 1, -1000)]
        {
            assert_eq!(decoded(&header(code, flag, b"", b"")).unwrap().code, meant);
        }
    }

    #[test]
    fn every_cut_is_refused() {
        let whole = header(10, 0, b"remark", b"\0\x05topic\0\0\0\x01T");
        assert!(decoded(&whole).is_ok());
        for bytes in 0..whole.len() {
            assert!(decoded(&whole.slice(..bytes)).is_err(), "{bytes} of {} bytes", whole.len());
        }
        for wrong in [&b"\0\x05top"[..], b"\xff\xff", b"\0\x01t\x7f\xff\xff\xff", b"\0\x01t\xff\xff\xff\xff", b"\0"] {
            assert!(decoded(&header(10, 0, b"", wrong)).is_err(), "{wrong:?}");
        }
    }
}
