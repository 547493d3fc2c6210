//! The frame of a send, encoded once for each queue; a message is a copy of it with four places overwritten.
//!
//! What is sent is what the official Java client sends: SEND_MESSAGE_V2 with the properties UNIQ_KEY and WAIT.

use base::Random;
use bytes::{Bytes, BytesMut};
use remoting::code::RequestCode;
use remoting::command::{Command, HeaderEncoding};
use remoting::fields::Fields;
use remoting::header::send::SendMessage;
use remoting::name::AUTO_CREATE_TOPIC;
use remoting::properties::{UNIQUE_KEY, WAIT_STORE};
use remoting::text::Text;

use crate::payload::{self, Stamp};

/// Decimal digits of every opaque, so that one fits where another stood.
const OPAQUE_DIGITS: usize = 10;
const BORN_DIGITS: usize = 13;
const UNIQUE_KEY_DIGITS: usize = 32;
/// The first half of a unique key tells runs apart, the second the messages of a run.
const RUN_DIGITS: usize = UNIQUE_KEY_DIGITS / 2;
/// Texts that stand in the template where each message writes its own.
const OPAQUE_PLACE: i32 = 1_987_654_321;
const BORN_PLACE_MS: i64 = 8_765_432_109_876;
const NUMBER_PLACE: &str = "ZZZZZZZZZZZZZZZZ";

const _: () = assert!(NUMBER_PLACE.len() == UNIQUE_KEY_DIGITS - RUN_DIGITS);

/// What the messages of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct SendForm {
    pub(crate) encoding: HeaderEncoding,
    pub(crate) group: Text,
    pub(crate) topic: Text,
    pub(crate) body_bytes: usize,
    /// Tells the unique keys of this run from those of others.
    pub(crate) run: u64,
}

/// What each message has of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patch {
    /// From [`crate::in_flight`]: ten decimal digits.
    pub(crate) opaque: i32,
    pub(crate) born_ms: u64,
    pub(crate) stamp: Stamp,
}

/// The frame of a send to one queue.
#[derive(Debug)]
pub(crate) struct SendTemplate {
    frame: Vec<u8>,
    encoding: HeaderEncoding,
    opaque_at: usize,
    born_at: usize,
    number_at: usize,
    body_at: usize,
    rest_checksum: u32,
}

impl SendTemplate {
    pub(crate) fn new(form: &SendForm, queue_id: i32, random: &mut Random) -> SendTemplate {
        let (body, rest_checksum) = payload::blank(form.body_bytes, random);
        let run = form.run;
        let properties = format!("{UNIQUE_KEY}\u{1}{run:016X}{NUMBER_PLACE}\u{2}{WAIT_STORE}\u{1}true\u{2}");
        let header = SendMessage {
            producer_group: &form.group,
            topic: &form.topic,
            default_topic: AUTO_CREATE_TOPIC,
            default_topic_queue_nums: 4,
            queue_id,
            sys_flag: 0,
            born_timestamp_ms: BORN_PLACE_MS,
            flag: 0,
            properties: &properties,
            reconsume_times: 0,
            unit_mode: false,
            max_reconsume_times: None,
            batch: false,
            broker_name: None,
        };
        let mut fields = Fields::new();
        header.encode_short(&mut fields);
        let mut command = Command::request(RequestCode::SEND_MESSAGE_V2, fields).with_body(Bytes::from(body));
        (command.opaque, command.encoding) = (OPAQUE_PLACE, form.encoding);
        let mut frame = BytesMut::new();
        command.encode(&mut frame);
        let frame = frame.to_vec();
        let body_at = frame.len() - form.body_bytes;
        let head = &frame[..body_at];
        let opaque_at = match form.encoding {
            HeaderEncoding::Json => place_of(head, OPAQUE_PLACE.to_string().as_bytes()),
            HeaderEncoding::Compact => place_of(head, &OPAQUE_PLACE.to_be_bytes()),
        };
        let born_at = place_of(head, BORN_PLACE_MS.to_string().as_bytes());
        let number_at = place_of(head, NUMBER_PLACE.as_bytes());
        SendTemplate { encoding: form.encoding, opaque_at, born_at, number_at, body_at, rest_checksum, frame }
    }

    /// Appends a message.
    pub(crate) fn write(&self, patch: &Patch, out: &mut BytesMut) {
        let start = out.len();
        out.extend_from_slice(&self.frame);
        let frame = &mut out[start..];
        match self.encoding {
            HeaderEncoding::Json => {
                let opaque = u64::from(patch.opaque.unsigned_abs());
                write_decimal(opaque, &mut frame[self.opaque_at..self.opaque_at + OPAQUE_DIGITS]);
            }
            HeaderEncoding::Compact => {
                frame[self.opaque_at..self.opaque_at + 4].copy_from_slice(&patch.opaque.to_be_bytes());
            }
        }
        write_decimal(patch.born_ms, &mut frame[self.born_at..self.born_at + BORN_DIGITS]);
        write_hexadecimal(patch.stamp.number, &mut frame[self.number_at..self.number_at + NUMBER_PLACE.len()]);
        payload::stamp(&mut frame[self.body_at..], self.rest_checksum, patch.stamp);
    }
}

/// Where a text that stands in the header once begins.
fn place_of(head: &[u8], text: &[u8]) -> usize {
    let mut places = head.windows(text.len()).enumerate().filter(|(_, window)| *window == text).map(|(at, _)| at);
    let at = places.next().expect("the header was encoded with this text in it");
    assert!(places.next().is_none(), "the text that keeps a place stands in the header twice");
    at
}

/// Fills `out` with a number whose digits fill it.
fn write_decimal(number: u64, out: &mut [u8]) {
    let mut rest = number;
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    assert!(rest == 0 && out[0] != b'0', "{number} does not have {} digits", out.len());
}

fn write_hexadecimal(number: u64, out: &mut [u8]) {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    for (step, digit) in out.iter_mut().rev().enumerate() {
        *digit = DIGITS[(number >> (4 * step)) as usize & 0xf];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Content;
    use remoting::frame;
    use remoting::properties;

    #[test]
    fn a_patched_frame_is_what_the_codec_would_have_made() {
        for encoding in [HeaderEncoding::Json, HeaderEncoding::Compact] {
            let form =
                SendForm { encoding, group: Text::from("G"), topic: Text::from("T"), body_bytes: 64, run: 0xabc };
            let template = SendTemplate::new(&form, 3, &mut Random::new(5));
            let stamp = Stamp { due_ns: 77, number: 0xf0 };
            let mut out = BytesMut::new();
            for opaque in [1_000_000_000, i32::MAX] {
                template.write(&Patch { opaque, born_ms: 1_700_000_000_001, stamp }, &mut out);
                let command = Command::decode(frame::split(&mut out).unwrap().unwrap()).unwrap();
                let header = SendMessage::decode(&command.fields).unwrap();
                assert_eq!((command.code, command.opaque, command.encoding), (310, opaque, encoding));
                assert_eq!((header.queue_id, header.born_timestamp_ms), (3, 1_700_000_000_001));
                let key = properties::get(&header.properties, UNIQUE_KEY);
                assert_eq!(key, Some("0000000000000ABC00000000000000F0"));
                assert_eq!(payload::read(&command.body), Content::Ours(stamp));
            }
        }
    }
}
