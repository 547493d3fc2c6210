//! The frames of sends: heads encoded once for each lane and tag, bodies once for each size; a request is a copy of both
//! with some places overwritten.
//!
//! What is sent is what the official Java client sends: SEND_MESSAGE_V2, or SEND_BATCH_MESSAGE, with the properties UNIQ_KEY
//! and WAIT and what else is asked for.

use std::io::Write as _;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use remoting::code::RequestCode;
use remoting::command::{Command, HeaderEncoding};
use remoting::fields::Fields;
use remoting::frame::LENGTH_BYTES;
use remoting::header::send::SendMessage;
use remoting::name::AUTO_CREATE_TOPIC;
use remoting::properties::{
    KEY_SEPARATOR, KEYS, NAME_END, PRODUCER_GROUP, TAGS, TIMER_DELAY_MS, TRANSACTION_PREPARED, UNIQUE_KEY, VALUE_END,
    WAIT_STORE,
};
use remoting::record::{BatchItem, encode_item, sys_flag};
use remoting::text::Text;
use serde_json::{Value, json};

use crate::order::Order;
use crate::payload::{self, Blank, Stamp};
use crate::places::{OPAQUE_DIGITS, OPAQUE_PLACE, place_of, places_of};
use crate::target::Lanes;
use crate::transaction::Ends;

const BORN_DIGITS: usize = 13;
const UNIQUE_KEY_DIGITS: usize = 32;
/// The first half of a unique key tells runs apart, the second the messages of a run.
const RUN_DIGITS: usize = UNIQUE_KEY_DIGITS / 2;
/// Texts that stand in the template where each message writes its own.
const BORN_PLACE_MS: i64 = 8_765_432_109_876;
const NUMBER_PLACE: &str = "ZZZZZZZZZZZZZZZZ";
const KEY_PLACE: &str = "YYYYYYYYYYYYYYYY";
/// Spreads neighbouring numbers over the sizes: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

const _: () = assert!(NUMBER_PLACE.len() == UNIQUE_KEY_DIGITS - RUN_DIGITS);
const _: () = assert!(KEY_PLACE.len() == NUMBER_PLACE.len());

/// What the messages of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct SendForm {
    pub(crate) encoding: HeaderEncoding,
    pub(crate) group: Text,
    pub(crate) lanes: Lanes,
    /// Tells the unique keys of this run from those of others.
    pub(crate) run: u64,
    /// Bodies without their stamps; messages take them in no order.
    pub(crate) bodies: Vec<Blank>,
    /// Messages of a request.
    pub(crate) batch: u16,
    pub(crate) extras: Extras,
}

impl SendForm {
    /// Of its messages on so many connections.
    pub(crate) fn order(&self, connections: usize) -> Option<Order> {
        self.extras.ordered_keys.map(|keys| Order::new(keys, connections as u64))
    }

    /// What becomes of its half messages.
    pub(crate) fn ends(&self) -> Option<Ends> {
        let (group, encoding) = (self.group.clone(), self.encoding);
        self.extras.commit_share.map(|commit_share| Ends { group, encoding, commit_share })
    }

    pub(crate) fn body_bytes_mean(&self) -> f64 {
        let bytes: usize = self.bodies.iter().map(|body| body.bytes.len()).sum();
        bytes as f64 / self.bodies.len().max(1) as f64
    }
}

/// What a message may have besides its body.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extras {
    /// Each message has a key of its own.
    pub(crate) keys: bool,
    /// Messages take them in turn.
    pub(crate) tags: Vec<String>,
    /// Names and values that all have.
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) delay_ms: Option<u64>,
    /// Answered before it is flushed, also by a broker that flushes before it answers.
    pub(crate) unflushed: bool,
    /// Bodies travel and are stored as zlib.
    pub(crate) zlib: bool,
    /// Messages are ordered by so many keys.
    pub(crate) ordered_keys: Option<u64>,
    /// They are half messages, of which this share is committed and the others are rolled back.
    pub(crate) commit_share: Option<f64>,
}

impl Extras {
    /// As results tell it: what is not as it is by default.
    pub(crate) fn config(&self) -> Vec<(&'static str, Value)> {
        let properties: Vec<String> = self.properties.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let members = [
            ("keys", self.keys.then_some(Value::Bool(true))),
            ("tags", (!self.tags.is_empty()).then(|| json!(self.tags.join(",")))),
            ("properties", (!properties.is_empty()).then(|| json!(properties.join(",")))),
            ("delay_ms", self.delay_ms.map(|delay_ms| json!(delay_ms))),
            ("flushed", self.unflushed.then_some(Value::Bool(false))),
            ("compression", self.zlib.then(|| json!("zlib"))),
            ("ordered_keys", self.ordered_keys.map(|keys| json!(keys))),
            ("commit_share", self.commit_share.map(|share| json!(share))),
        ];
        members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Those of one message, with [`NUMBER_PLACE`] where its number goes, and [`KEY_PLACE`] for its key.
    fn properties(&self, run: u64, group: &str, tag: Option<&str>) -> String {
        let mut text = String::new();
        let mut property = |name: &str, value: &str| {
            text.extend([name, &NAME_END.to_string(), value, &VALUE_END.to_string()]);
        };
        property(UNIQUE_KEY, &format!("{run:016X}{NUMBER_PLACE}"));
        property(WAIT_STORE, if self.unflushed { "false" } else { "true" });
        match (self.ordered_keys, self.keys) {
            (Some(_), false) => property(KEYS, KEY_PLACE),
            (Some(_), true) => property(KEYS, &format!("{KEY_PLACE}{KEY_SEPARATOR}{NUMBER_PLACE}")),
            (None, true) => property(KEYS, NUMBER_PLACE),
            (None, false) => {}
        }
        if self.commit_share.is_some() {
            property(TRANSACTION_PREPARED, "true");
            property(PRODUCER_GROUP, group);
        }
        if let Some(tag) = tag {
            property(TAGS, tag);
        }
        if let Some(delay_ms) = self.delay_ms {
            property(TIMER_DELAY_MS, &delay_ms.to_string());
        }
        self.properties.iter().for_each(|(name, value)| property(name, value));
        text
    }
}

/// What each request has of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patch {
    /// From [`crate::in_flight`]: ten decimal digits.
    pub(crate) opaque: i32,
    pub(crate) born_ms: u64,
    /// Of the request in its run.
    pub(crate) number: u64,
    pub(crate) due_ns: u64,
}

/// All frames of a run.
#[derive(Debug)]
pub(crate) struct Templates {
    /// Of all lanes for the first tag, then for the second.
    heads: Vec<Head>,
    bodies: Vec<Body>,
    lanes: u64,
    connections: u64,
    batch: u64,
    zlib: bool,
    order: Option<Order>,
}

/// A frame up to its body, for one lane and tag.
#[derive(Debug)]
struct Head {
    frame: Vec<u8>,
    encoding: HeaderEncoding,
    opaque_at: usize,
    born_at: usize,
    number_at: Vec<usize>,
    key_at: Vec<usize>,
}

/// A body of one message or of several.
#[derive(Debug)]
struct Body {
    bytes: Vec<u8>,
    messages: Vec<MessagePlaces>,
}

/// Where a message lies in a body.
#[derive(Debug)]
struct MessagePlaces {
    body_at: usize,
    body_limit: usize,
    rest_checksum: u32,
    number_at: Vec<usize>,
    key_at: Vec<usize>,
}

impl Templates {
    pub(crate) fn new(form: &SendForm, connections: usize) -> Templates {
        let tags: Vec<Option<&str>> = match &form.extras.tags[..] {
            [] => vec![None],
            tags => tags.iter().map(|tag| Some(tag.as_str())).collect(),
        };
        // The messages of a batch have their properties each.
        let head_tags = if form.batch > 1 { &tags[..1] } else { &tags[..] };
        let lanes = form.lanes.count();
        let heads = head_tags.iter().flat_map(|tag| (0..lanes).map(|lane| Head::new(form, lane, *tag)));
        let bodies = (0..form.bodies.len()).map(|first| Body::new(form, first, &tags));
        Templates {
            heads: heads.collect(),
            bodies: bodies.collect(),
            lanes: lanes as u64,
            connections: connections as u64,
            batch: form.batch.into(),
            zlib: form.extras.zlib,
            order: form.order(connections),
        }
    }

    /// Messages of a request.
    pub(crate) fn batch(&self) -> u64 {
        self.batch
    }

    pub(crate) fn order(&self) -> Option<Order> {
        self.order
    }

    /// Where the messages of a request go. Without an order requests move on by one more lane with every round of the
    /// connections, so that each connection sends to all lanes.
    pub(crate) fn lane(&self, number: u64) -> usize {
        let lane = self.order.map_or_else(|| self.turn(number) % self.lanes, |order| order.lane(number, self.lanes));
        lane as usize
    }

    fn turn(&self, number: u64) -> u64 {
        number + number / self.connections
    }

    /// Appends a request.
    pub(crate) fn write(&self, patch: &Patch, out: &mut BytesMut) {
        let tags = self.heads.len() as u64 / self.lanes;
        let tag = self.turn(patch.number) / self.lanes % tags;
        let head = &self.heads[tag as usize * self.lanes as usize + self.lane(patch.number)];
        let key = self.order.map_or(0, |order| order.key(patch.number));
        let body = &self.bodies[((patch.number.wrapping_mul(SPREAD) >> 32) % self.bodies.len() as u64) as usize];
        let start = out.len();
        head.write(patch, patch.number * self.batch, key, out);
        let body_at = out.len();
        out.extend_from_slice(&body.bytes);
        body.stamp(patch.due_ns, patch.number * self.batch, key, &mut out[body_at..]);
        if self.zlib {
            let packed = zlib(&out[body_at..]);
            out.truncate(body_at);
            out.extend_from_slice(&packed);
        }
        let follow_bytes = (out.len() - start - LENGTH_BYTES) as u32;
        out[start..start + LENGTH_BYTES].copy_from_slice(&follow_bytes.to_be_bytes());
    }
}

impl Head {
    fn new(form: &SendForm, lane: usize, tag: Option<&str>) -> Head {
        let properties = if form.batch > 1 {
            format!("{WAIT_STORE}{NAME_END}{}{VALUE_END}", !form.extras.unflushed)
        } else {
            form.extras.properties(form.run, &form.group, tag)
        };
        let packed = if form.extras.zlib { sys_flag::COMPRESSED | sys_flag::COMPRESSION_ZLIB } else { 0 };
        let half = if form.extras.commit_share.is_some() { sys_flag::TRANSACTION_PREPARED } else { 0 };
        let header = SendMessage {
            producer_group: form.group.clone(),
            topic: form.lanes.topic(lane).clone(),
            default_topic: Text::from_static(AUTO_CREATE_TOPIC),
            default_topic_queue_nums: 4,
            queue_id: form.lanes.queue_id(lane),
            sys_flag: packed | half,
            born_timestamp_ms: BORN_PLACE_MS,
            flag: 0,
            properties: Text::from(properties),
            reconsume_times: 0,
            unit_mode: false,
            max_reconsume_times: None,
            batch: form.batch > 1,
            broker_name: None,
        };
        let mut fields = Fields::new();
        header.encode_short(&mut fields);
        let code = if form.batch > 1 { RequestCode::SEND_BATCH_MESSAGE } else { RequestCode::SEND_MESSAGE_V2 };
        let mut command = Command::request(code, fields).with_body(Bytes::new());
        (command.opaque, command.encoding) = (OPAQUE_PLACE, form.encoding);
        let mut frame = BytesMut::new();
        command.encode(&mut frame);
        let frame = frame.to_vec();
        let opaque_at = match form.encoding {
            HeaderEncoding::Json => place_of(&frame, OPAQUE_PLACE.to_string().as_bytes()),
            HeaderEncoding::Compact => place_of(&frame, &OPAQUE_PLACE.to_be_bytes()),
        };
        let born_at = place_of(&frame, BORN_PLACE_MS.to_string().as_bytes());
        let [number_at, key_at] = [NUMBER_PLACE, KEY_PLACE].map(|place| places_of(&frame, place.as_bytes()));
        Head { encoding: form.encoding, opaque_at, born_at, number_at, key_at, frame }
    }

    fn write(&self, patch: &Patch, number: u64, key: u64, out: &mut BytesMut) {
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
        write_numbers(number, &self.number_at, frame);
        write_numbers(key, &self.key_at, frame);
    }
}

impl Body {
    /// A request's body; of a batch, `first` is the blank of its first message and the others follow.
    fn new(form: &SendForm, first: usize, tags: &[Option<&str>]) -> Body {
        if form.batch <= 1 {
            let blank = &form.bodies[first];
            let (body_limit, rest_checksum) = (blank.bytes.len(), blank.rest_checksum);
            let (number_at, key_at) = (Vec::new(), Vec::new());
            let message = MessagePlaces { body_at: 0, body_limit, rest_checksum, number_at, key_at };
            return Body { bytes: blank.bytes.clone(), messages: vec![message] };
        }
        let mut bytes = Vec::new();
        let mut messages = Vec::new();
        for index in 0..usize::from(form.batch) {
            let blank = &form.bodies[(first + index) % form.bodies.len()];
            let properties = form.extras.properties(form.run, &form.group, tags[index % tags.len()]);
            let start = bytes.len();
            encode_item(&BatchItem { flag: 0, body: &blank.bytes, properties: &properties }, &mut bytes);
            let item = &bytes[start..];
            // Behind the body stand the properties and their length, and nothing else.
            let body_limit = bytes.len() - properties.len() - size_of::<u16>();
            let [number_at, key_at] = [NUMBER_PLACE, KEY_PLACE]
                .map(|place| places_of(item, place.as_bytes()).iter().map(|at| start + at).collect());
            let body_at = body_limit - blank.bytes.len();
            let rest_checksum = blank.rest_checksum;
            messages.push(MessagePlaces { body_at, body_limit, rest_checksum, number_at, key_at });
        }
        Body { bytes, messages }
    }

    /// Writes stamps and numbers into a copy.
    fn stamp(&self, due_ns: u64, number: u64, key: u64, copy: &mut [u8]) {
        for (number, message) in (number..).zip(&self.messages) {
            let body = &mut copy[message.body_at..message.body_limit];
            payload::stamp(body, message.rest_checksum, Stamp { due_ns, number });
            write_numbers(number, &message.number_at, copy);
            write_numbers(key, &message.key_at, copy);
        }
    }
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::with_capacity(bytes.len()), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes what is written")
}

fn write_numbers(number: u64, places: &[usize], out: &mut [u8]) {
    for at in places {
        write_hexadecimal(number, &mut out[*at..*at + NUMBER_PLACE.len()]);
    }
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
mod tests;
