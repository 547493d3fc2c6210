//! The body of a broker's registration, in its three forms.
//!
//! Full: JSON of topics and filter servers. Of brokers before 3.0.11: JSON of the topics only. Compressed: one zlib
//! stream of big-endian lengths and texts, see [`Reader`].

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;

use bytes::Bytes;
use flate2::read::ZlibDecoder;
use remoting::Text;
use remoting::body::register::RegisterBrokerBody;
use remoting::body::topic::{DataVersion, TopicConfig, TopicConfigTable, TopicFilterType};
use remoting::header::namesrv::RegisterBroker;
use remoting::json::{self, JsonError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use crate::route::table::Contents;

/// Brokers from this version on send filter servers too.
const VERSION_FULL_BODY: i32 = 37;
/// Brokers from this version on send static topics in the compressed form.
const VERSION_COMPRESSED_MAPPINGS: i32 = 413;
/// Bytes that a compressed body may unpack to. A larger one is refused: it is an attack or a fault.
const UNPACKED_BYTES_MAX: u64 = 256 << 20;
/// Begins a zlib stream of the usual window, and no JSON.
const ZLIB_FIRST_BYTE: u8 = 0x78;
/// The checksum travels in a signed number and therefore without its highest bit.
const CHECKSUM_MASK: u32 = 0x7fff_ffff;

/// A body that cannot be read. The broker is answered code 1 with this text and registers again later.
#[derive(Debug, Error)]
pub(crate) enum BodyError {
    #[error("the body's checksum is {found}, its header says {told}; it was damaged on the way, register again")]
    Checksum { told: i32, found: u32 },
    #[error("{0}; send the registration as the protocol describes it")]
    Json(#[from] JsonError),
    #[error("the compressed body does not unpack: {0}; send it with compressed=false")]
    Unpack(#[from] std::io::Error),
    #[error("the compressed body unpacks to more than {UNPACKED_BYTES_MAX} bytes; register fewer topics")]
    TooLarge,
    #[error("the compressed body is wrong at byte {at} of what it unpacks to: {what}; send it with compressed=false")]
    Shape { at: usize, what: &'static str },
}

/// A number that tells this registration from any other of the same broker: over the body and all of the header.
pub(crate) fn fingerprint(header: &RegisterBroker, version: i32, body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    version.hash(&mut hasher);
    (header.broker_name.as_str(), header.ha_server_addr.as_str(), header.broker_id).hash(&mut hasher);
    (header.enable_acting_master, header.zone_name.as_deref(), header.compressed).hash(&mut hasher);
    hasher.finish()
}

/// # Errors
/// When the checksum, where there is one, does not fit.
pub(crate) fn check(header: &RegisterBroker, body: &[u8]) -> Result<(), BodyError> {
    if header.body_crc32 == 0 {
        return Ok(());
    }
    let found = crc32fast::hash(body) & CHECKSUM_MASK;
    if i64::from(found) == i64::from(header.body_crc32) {
        return Ok(());
    }
    Err(BodyError::Checksum { told: header.body_crc32, found })
}

/// Reads the body of a broker of that version.
///
/// # Errors
/// When it is not one.
pub(crate) fn decode(header: &RegisterBroker, version: i32, body: &Bytes) -> Result<Contents, BodyError> {
    if body.is_empty() {
        return Ok(Contents::default());
    }
    if version < VERSION_FULL_BODY {
        return Ok(contents_of(read_json(body)?, Vec::new()));
    }
    // The peer's broker compresses with `compressedRegister`, but its header says that it did not.
    if header.compressed || body[0] == ZLIB_FIRST_BYTE {
        return decode_compressed(version, body);
    }
    let full: RegisterBrokerBody = read_json(body)?;
    Ok(contents_of(full.topic_config_serialize_wrapper, full.filter_server_list))
}

/// Plain JSON is read directly, without a tree of values between; the dialect is tried on what that refuses.
fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, JsonError> {
    serde_json::from_slice(body).or_else(|_| json::decode(body))
}

fn contents_of(table: TopicConfigTable, filter_servers: Vec<Text>) -> Contents {
    Contents {
        data_version: table.data_version,
        topics: table.topic_config_table,
        mappings: table.topic_queue_mapping_info_map.unwrap_or_default(),
        filter_servers,
    }
}

fn decode_compressed(version: i32, body: &[u8]) -> Result<Contents, BodyError> {
    let mut unpacked = Vec::new();
    ZlibDecoder::new(body).take(UNPACKED_BYTES_MAX + 1).read_to_end(&mut unpacked)?;
    if unpacked.len() as u64 > UNPACKED_BYTES_MAX {
        return Err(BodyError::TooLarge);
    }
    let mut reader = Reader { bytes: &unpacked, at: 0 };
    let data_version: DataVersion = read_json(reader.piece()?)?;
    let mut topics = BTreeMap::new();
    for _ in 0..reader.count()? {
        let at = reader.at;
        let text = reader.piece()?;
        let config = std::str::from_utf8(text).ok().and_then(topic_of_line);
        let config = config.ok_or(BodyError::Shape { at, what: "not the line of a topic" })?;
        topics.insert(config.topic_name.clone(), config);
    }
    let filter_servers = read_json(reader.piece()?)?;
    let mut mappings = BTreeMap::new();
    let count = if version >= VERSION_COMPRESSED_MAPPINGS { reader.count()? } else { 0 };
    for _ in 0..count {
        let mapping: Value = read_json(reader.piece()?)?;
        if let Some(topic) = mapping.get("topic").and_then(Value::as_str) {
            mappings.insert(Text::from(topic), mapping);
        }
    }
    Ok(Contents { data_version, topics, mappings, filter_servers })
}

/// A topic as `name readQueues writeQueues permission filterType attributes`; old brokers send no attributes.
fn topic_of_line(line: &str) -> Option<TopicConfig> {
    let mut words = line.splitn(6, ' ');
    let mut config = TopicConfig {
        topic_name: words.next().filter(|name| !name.is_empty())?.into(),
        read_queue_nums: words.next()?.parse().ok()?,
        write_queue_nums: words.next()?.parse().ok()?,
        perm: words.next()?.parse().ok()?,
        topic_filter_type: words.next().and_then(TopicFilterType::from_name)?,
        ..TopicConfig::default()
    };
    if let Some(attributes) = words.next() {
        config.attributes = read_json(attributes.as_bytes()).ok()?;
    }
    Some(config)
}

/// Walks over big-endian 32-bit counts and pieces with a 32-bit length before them.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn count(&mut self) -> Result<usize, BodyError> {
        let wrong = BodyError::Shape { at: self.at, what: "no 32-bit number that is 0 or more" };
        let Some(number) = self.bytes[self.at..].first_chunk::<4>() else { return Err(wrong) };
        self.at += number.len();
        usize::try_from(i32::from_be_bytes(*number)).map_err(|_| wrong)
    }

    fn piece(&mut self) -> Result<&'a [u8], BodyError> {
        let at = self.at;
        let length = self.count()?;
        let piece = self.bytes[self.at..].get(..length);
        self.at += length;
        piece.ok_or(BodyError::Shape { at, what: "a piece is longer than the rest" })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use remoting::Fields;

    use super::*;

    fn header(compressed: bool, body_crc32: i32) -> RegisterBroker {
        let mut fields = Fields::new();
        for name in ["brokerName", "brokerAddr", "clusterName", "haServerAddr"] {
            fields.push(name, "x");
        }
        fields.push("brokerId", 0);
        fields.push("compressed", compressed);
        fields.push("bodyCrc32", body_crc32);
        RegisterBroker::decode(&fields).unwrap()
    }

    const TABLE: &str = r#"{"dataVersion":{"counter":2,"stateVersion":1,"timestamp":9},"topicConfigTable":{"T":{"perm":7,"readQueueNums":3,"topicName":"T","topicSysFlag":2,"writeQueueNums":4}},"topicQueueMappingInfoMap":{"S":{"bname":"b","currIdMap":{0:0},"topic":"S"}}}"#;

    #[test]
    fn both_plain_forms_are_read() {
        let full = format!(r#"{{"filterServerList":["f:1"],"topicConfigSerializeWrapper":{TABLE}}}"#);
        let new = decode(&header(false, 0), 493, &Bytes::from(full)).unwrap();
        let old = decode(&header(false, 0), 36, &Bytes::from(TABLE)).unwrap();
        assert_eq!(new.filter_servers, ["f:1"]);
        assert_eq!(old, Contents { filter_servers: Vec::new(), ..new.clone() });
        let topic = &new.topics["T"];
        assert_eq!((topic.perm, topic.read_queue_nums, topic.write_queue_nums, topic.topic_sys_flag), (7, 3, 4, 2));
        assert_eq!(new.data_version, DataVersion { counter: 2, state_version: 1, timestamp: 9 });
        assert_eq!(new.mappings["S"]["currIdMap"]["0"], 0);
        assert_eq!(decode(&header(true, 0), 493, &Bytes::new()).unwrap(), Contents::default());
    }

    fn packed(pieces: &[u8]) -> Bytes {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(pieces).unwrap();
        Bytes::from(encoder.finish().unwrap())
    }

    fn piece(text: &str) -> Vec<u8> {
        [&(text.len() as i32).to_be_bytes()[..], text.as_bytes()].concat()
    }

    fn compressed_pieces() -> Vec<u8> {
        [
            piece(r#"{"counter":2,"stateVersion":1,"timestamp":9}"#),
            2_i32.to_be_bytes().to_vec(),
            piece("T 3 4 6 SINGLE_TAG"),
            piece(r#"U 8 8 7 MULTI_TAG {"+message.type":"DELAY","k":"a b"}"#),
            piece(r#"["f:1"]"#),
            1_i32.to_be_bytes().to_vec(),
            piece(r#"{"bname":"b","currIdMap":{0:0},"topic":"S"}"#),
        ]
        .concat()
    }

    #[test]
    fn the_compressed_form_is_read() {
        let body = packed(&compressed_pieces());
        let checksum = (crc32fast::hash(&body) & CHECKSUM_MASK) as i32;
        check(&header(true, checksum), &body).unwrap();
        check(&header(true, 0), &body).unwrap();
        let error = check(&header(true, checksum ^ 1), &body).unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
        let new = decode(&header(true, 0), 493, &body).unwrap();
        assert_eq!(new.topics.keys().collect::<Vec<_>>(), ["T", "U"]);
        assert_eq!(new.topics["U"].attributes["k"], "a b");
        assert_eq!((new.topics["T"].perm, new.topics["T"].read_queue_nums), (6, 3));
        assert_eq!((new.filter_servers.len(), new.mappings.len()), (1, 1));
        assert_eq!(decode(&header(true, 0), 412, &body).unwrap().mappings.len(), 0, "older ones have no such section");
        assert_eq!(decode(&header(false, 0), 493, &body).unwrap(), new, "whatever the header says");
    }

    #[test]
    fn what_is_no_registration_is_refused() {
        let pieces = compressed_pieces();
        for cut in 0..pieces.len() {
            assert!(decode(&header(true, 0), 493, &packed(&pieces[..cut])).is_err(), "cut at {cut}");
        }
        for (bytes, part) in [
            (packed(&(-1_i32).to_be_bytes()), "no 32-bit number"),
            (packed(&[piece("{}"), 1_i32.to_be_bytes().to_vec(), piece("T x 4 6 SINGLE_TAG")].concat()), "the line of"),
            (Bytes::from_static(b"nonsense"), "does not unpack"),
        ] {
            let error = decode(&header(true, 0), 493, &bytes).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let error = decode(&header(false, 0), 493, &Bytes::from_static(b"[")).unwrap_err().to_string();
        assert!(error.contains("the JSON body is wrong"), "{error}");
    }

    #[test]
    fn fingerprints_tell_registrations_apart() {
        let one = header(false, 0);
        let mut other = header(false, 0);
        other.zone_name = Some("z".into());
        let base = fingerprint(&one, 493, b"x");
        assert_eq!(base, fingerprint(&one, 493, b"x"));
        for different in [fingerprint(&one, 493, b"y"), fingerprint(&one, 492, b"x"), fingerprint(&other, 493, b"x")] {
            assert_ne!(base, different);
        }
    }
}
