//! One command: a request or a reply, as it travels in a frame, in either header encoding.
//!
//! Decoding copies nothing: the body and the field values are slices of the frame.

use std::ops::DerefMut;

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

use crate::fields::Fields;
use crate::frame::{HEADER_BYTES_MAX, HEADER_WORD_BYTES, LENGTH_BYTES, header_bytes_of};
use crate::text::Text;
use crate::{command_compact, command_json};

/// The release whose behaviour is kept, as an ordinal in every header: 5.4.0.
pub const VERSION_ORDINAL: i32 = 493;
/// The name that goes with [`VERSION_ORDINAL`].
pub const VERSION_NAME: &str = "V5_4_0";
/// Flag bit: a reply. Without it the command is a request.
pub const FLAG_RESPONSE: i32 = 1;
/// Flag bit: a request that must not be answered, not even when it fails.
pub const FLAG_ONEWAY: i32 = 2;

/// How a header is written. The first byte behind the length word tells it, per frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderEncoding {
    #[default]
    Json,
    Compact,
}

impl HeaderEncoding {
    fn tag(self) -> u8 {
        match self {
            HeaderEncoding::Json => 0,
            HeaderEncoding::Compact => 1,
        }
    }
}

macro_rules! languages {
    ($($variant:ident = $ordinal:literal $name:literal,)*) => {
        /// The client library's language. An unknown one is read as `Other`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Language {
            #[default]
            $($variant = $ordinal,)*
        }

        impl Language {
            /// The name on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(Language::$variant => $name,)*
                }
            }

            pub fn from_name(name: &str) -> Language {
                match name {
                    $($name => Language::$variant,)*
                    _ => Language::Other,
                }
            }

            pub fn from_ordinal(ordinal: i64) -> Language {
                match ordinal {
                    $($ordinal => Language::$variant,)*
                    _ => Language::Other,
                }
            }

            /// The number on the wire.
            pub fn ordinal(self) -> u8 {
                self as u8
            }
        }
    };
}

languages! {
    Java = 0 "JAVA",
    Cpp = 1 "CPP",
    Dotnet = 2 "DOTNET",
    Python = 3 "PYTHON",
    Delphi = 4 "DELPHI",
    Erlang = 5 "ERLANG",
    Ruby = 6 "RUBY",
    Other = 7 "OTHER",
    Http = 8 "HTTP",
    Go = 9 "GO",
    Php = 10 "PHP",
    Oms = 11 "OMS",
    Rust = 12 "RUST",
    NodeJs = 13 "NODE_JS",
}

/// A request or a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// A request code, or a response code when this is a reply.
    pub code: i32,
    pub language: Language,
    pub version: i32,
    /// Chosen by the sender of a request, repeated by the reply.
    pub opaque: i32,
    pub flag: i32,
    pub remark: Option<Text>,
    pub fields: Fields,
    pub body: Bytes,
    pub encoding: HeaderEncoding,
}

/// Bytes that are a frame but no command. The connection must be closed. `at` counts from the header word.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("a frame of {frame_bytes} bytes has no room for its header word")]
    FrameTooShort { frame_bytes: usize },
    #[error("the header length {header_bytes} exceeds the {available_bytes} bytes of its frame")]
    HeaderTooLong { header_bytes: usize, available_bytes: usize },
    #[error("unknown header encoding {tag}; known are 0 (JSON) and 1 (compact)")]
    UnknownEncoding { tag: u8 },
    #[error("the header is not UTF-8 from byte {at}")]
    NotText { at: usize },
    #[error("the JSON header is wrong at byte {at}: {what}")]
    Json { at: usize, what: &'static str },
    #[error("the compact header is wrong at byte {at}: {what}")]
    Compact { at: usize, what: &'static str },
}

impl Command {
    pub fn request(code: impl Into<i32>, fields: Fields) -> Command {
        Command {
            code: code.into(),
            language: Language::Java,
            version: VERSION_ORDINAL,
            opaque: 0,
            flag: 0,
            remark: None,
            fields,
            body: Bytes::new(),
            encoding: HeaderEncoding::Json,
        }
    }

    /// An empty reply to the request with that opaque, in JSON, which every client reads.
    pub fn reply(opaque: i32, code: impl Into<i32>) -> Command {
        Command { opaque, flag: FLAG_RESPONSE, ..Command::request(code, Fields::new()) }
    }

    /// An empty reply to `request`, in JSON, which every client reads.
    pub fn reply_to(request: &Command, code: impl Into<i32>) -> Command {
        Command::reply(request.opaque, code)
    }

    pub fn with_remark(mut self, remark: impl Into<Text>) -> Command {
        self.remark = Some(remark.into());
        self
    }

    pub fn with_fields(mut self, fields: Fields) -> Command {
        self.fields = fields;
        self
    }

    pub fn with_body(mut self, body: impl Into<Bytes>) -> Command {
        self.body = body.into();
        self
    }

    /// Marks a request as one that is not answered.
    pub fn oneway(mut self) -> Command {
        self.flag |= FLAG_ONEWAY;
        self
    }

    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }

    /// Reads a frame as [`crate::frame::split`] gives it: header word, header, body.
    ///
    /// # Errors
    /// When the header is not one; the connection it came from cannot be trusted any more.
    pub fn decode(frame: BytesMut) -> Result<Command, DecodeError> {
        let frame_bytes = frame.len();
        let Some(word) = frame.first_chunk::<HEADER_WORD_BYTES>() else {
            return Err(DecodeError::FrameTooShort { frame_bytes });
        };
        let (tag, header_bytes) = (word[0], header_bytes_of(*word));
        let available_bytes = frame_bytes - HEADER_WORD_BYTES;
        if header_bytes > available_bytes {
            return Err(DecodeError::HeaderTooLong { header_bytes, available_bytes });
        }
        let header_limit = HEADER_WORD_BYTES + header_bytes;
        match tag {
            0 => command_json::decode(frame, header_limit),
            1 => command_compact::decode(frame.freeze(), header_limit),
            tag => Err(DecodeError::UnknownEncoding { tag }),
        }
    }

    /// Appends length word, header word and header for a body of `body_bytes`, which the caller sends behind it.
    /// The command's own body is not looked at.
    ///
    /// # Panics
    /// When the header or the frame is longer than its length word can tell, which no reply of ours is.
    pub fn encode_header(&self, body_bytes: usize, out: &mut impl FrameBuffer) {
        let start = out.len();
        out.put_u64(0);
        match self.encoding {
            HeaderEncoding::Json => command_json::encode(self, out),
            HeaderEncoding::Compact => command_compact::encode(self, out),
        }
        put_words(&mut out[start..], self.encoding, body_bytes);
    }

    /// Appends the whole frame: length word, header and body.
    ///
    /// # Panics
    /// As [`Command::encode_header`].
    pub fn encode(&self, out: &mut BytesMut) {
        out.reserve(self.header_bytes_estimate() + self.body.len());
        self.encode_header(self.body.len(), out);
        out.extend_from_slice(&self.body);
    }

    /// Enough room for words and header without escapes, so that it is usually reserved once.
    pub fn header_bytes_estimate(&self) -> usize {
        const FIXED_BYTES: usize = 192;
        const FIELD_PUNCTUATION_BYTES: usize = 6;
        let fields: usize =
            self.fields.iter_bytes().map(|(name, value)| name.len() + value.len() + FIELD_PUNCTUATION_BYTES).sum();
        FIXED_BYTES + fields + self.remark.as_ref().map_or(0, Text::len)
    }
}

/// What frames are written into: `BytesMut` where they are sent from, `Vec<u8>` where they are made to be handed on.
pub trait FrameBuffer: BufMut + DerefMut<Target = [u8]> {}

impl<B: BufMut + DerefMut<Target = [u8]>> FrameBuffer for B {}

/// Fills in the length word and the header word in front of a header that is already there.
pub(crate) fn put_words(words_and_header: &mut [u8], encoding: HeaderEncoding, body_bytes: usize) {
    let (words, header) = words_and_header.split_at_mut(LENGTH_BYTES + HEADER_WORD_BYTES);
    let header_bytes = header.len();
    assert!(header_bytes <= HEADER_BYTES_MAX, "a header of {header_bytes} bytes");
    let follow_bytes = HEADER_WORD_BYTES + header_bytes + body_bytes;
    assert!(follow_bytes <= i32::MAX as usize, "a frame of {follow_bytes} bytes");
    let header_word = u32::from(encoding.tag()) << 24 | header_bytes as u32;
    words.copy_from_slice(&((follow_bytes as u64) << 32 | u64::from(header_word)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

    fn frame_of(tag: u8, header: &[u8], body: &[u8]) -> Bytes {
        let word = u32::from(tag) << 24 | header.len() as u32;
        Bytes::from([&word.to_be_bytes()[..], header, body].concat())
    }

    fn sample(encoding: HeaderEncoding) -> Command {
        let mut fields = Fields::new();
        fields.push("topic", "T");
        fields.push("properties", "KEYS\u{1}a \"b\"\u{2}TAGS\u{1}标签😀\u{2}");
        fields.push("queueId", -1);
        let mut command = Command::request(310, fields).with_remark("line\nline").with_body("body");
        (command.opaque, command.language, command.encoding) = (i32::MIN, Language::Go, encoding);
        command
    }

    #[test]
    fn both_encodings_keep_every_value() {
        for encoding in [HeaderEncoding::Json, HeaderEncoding::Compact] {
            let command = sample(encoding);
            let mut stream = BytesMut::new();
            command.encode(&mut stream);
            let frame = frame::split(&mut stream).unwrap().unwrap();
            assert!(stream.is_empty());
            assert_eq!(Command::decode(frame).unwrap(), command);
        }
    }

    #[test]
    fn the_header_announces_a_body_that_is_sent_apart() {
        let (mut whole, mut parts) = (BytesMut::new(), BytesMut::new());
        let command = sample(HeaderEncoding::Json);
        command.encode(&mut whole);
        Command { body: Bytes::new(), ..command.clone() }.encode_header(4, &mut parts);
        parts.extend_from_slice(b"body");
        assert_eq!(whole, parts);
    }

    #[test]
    fn a_reply_looks_like_the_peers() {
        let mut out = BytesMut::new();
        let mut request = Command::request(105, Fields::new());
        request.opaque = 3;
        Command::reply_to(&request, 17).with_remark("no route").encode(&mut out);
        assert_eq!(
            std::str::from_utf8(&out[8..]).unwrap(),
            r#"{"code":17,"flag":1,"language":"JAVA","opaque":3,"remark":"no route","serializeTypeCurrentRPC":"JSON","version":493}"#
        );
        assert_eq!(out[..8], [0, 0, 0, out.len() as u8 - 4, 0, 0, 0, out.len() as u8 - 8]);
    }

    #[test]
    fn flags_tell_replies_and_oneway_requests() {
        let request = Command::request(34, Fields::new()).oneway();
        assert!(request.is_oneway() && !request.is_response());
        let reply = Command::reply_to(&request, 0);
        assert!(reply.is_response() && !reply.is_oneway());
    }

    #[test]
    fn frames_that_are_no_command_are_refused() {
        let cases = [
            (Bytes::from_static(&[0, 0, 0]), DecodeError::FrameTooShort { frame_bytes: 3 }),
            (frame_of(2, b"{}", b""), DecodeError::UnknownEncoding { tag: 2 }),
            (
                Bytes::from_static(&[0, 0, 0, 9, b'{']),
                DecodeError::HeaderTooLong { header_bytes: 9, available_bytes: 1 },
            ),
            (frame_of(0, b"{\"remark\":\"\xc3\x28\"}", b""), DecodeError::NotText { at: 15 }),
        ];
        for (frame, error) in cases {
            assert_eq!(Command::decode(BytesMut::from(frame)).unwrap_err(), error);
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic() {
        let mut random = base::Random::new(11);
        for encoding in [HeaderEncoding::Json, HeaderEncoding::Compact] {
            let mut stream = BytesMut::new();
            sample(encoding).encode(&mut stream);
            let good = stream.split_off(4).freeze();
            for _ in 0..20_000 {
                let mut bad = good.to_vec();
                for _ in 0..=random.below(3) {
                    let at = 4 + random.below(bad.len() as u64 - 4) as usize;
                    bad[at] = random.next_u64() as u8;
                }
                let Ok(command) = Command::decode(BytesMut::from(&bad[..])) else { continue };
                assert!(command.fields.iter().count() <= command.fields.len());
            }
        }
    }

    #[test]
    fn languages_have_names_and_numbers() {
        assert_eq!(Language::from_name("GO"), Language::Go);
        assert_eq!(Language::from_ordinal(13).name(), "NODE_JS");
        assert_eq!((Language::from_name("COBOL"), Language::from_ordinal(-1)), (Language::Other, Language::Other));
    }
}
