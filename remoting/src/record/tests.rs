//! Records survive the trip, and no flipped bit does.

use std::net::SocketAddr;

use base::{PhysicalOffset, QueueId, QueueOffset, Random};

use super::*;

/// What a draft borrows.
struct Owned {
    topic: String,
    body: Vec<u8>,
    properties: String,
    born_host: SocketAddr,
    store_host: SocketAddr,
    numbers: [i64; 6],
}

impl Owned {
    fn new(topic: &str, body: &[u8], properties: &str) -> Owned {
        Owned {
            topic: topic.to_owned(),
            body: body.to_vec(),
            properties: properties.to_owned(),
            born_host: "10.1.2.3:40000".parse().unwrap(),
            store_host: "127.0.0.1:10911".parse().unwrap(),
            numbers: [3, 7, 0, 1_700_000_000_000, 2, 4096],
        }
    }

    fn random(random: &mut Random) -> Owned {
        let topic_bytes = if random.below(8) == 0 { 128 + random.below(128) } else { 1 + random.below(127) };
        let mut owned = Owned::new(&"t".repeat(topic_bytes as usize), b"", "");
        owned.body = (0..random.below(300)).map(|_| random.next_u64() as u8).collect();
        for number in 0..random.below(6) {
            owned.properties.push_str(&format!("name{number}\u{1}wért{}\u{2}", random.below(1000)));
        }
        if random.below(3) == 0 {
            owned.properties.pop();
        }
        if random.below(3) == 0 {
            owned.born_host = "[2001:db8::1]:65535".parse().unwrap();
        }
        if random.below(3) == 0 {
            owned.store_host = "[::ffff:1.2.3.4]:1".parse().unwrap();
        }
        if random.below(3) == 0 {
            owned.store_host = "[fe80::2]:10911".parse().unwrap();
        }
        owned.numbers = std::array::from_fn(|_| random.next_u64() as i64);
        owned
    }

    fn draft(&self) -> RecordDraft<'_> {
        RecordDraft {
            topic: &self.topic,
            queue_id: QueueId(self.numbers[0] as u32),
            flag: self.numbers[1] as i32,
            sys_flag: self.numbers[2] as i32,
            born_timestamp_ms: self.numbers[3],
            born_host: self.born_host,
            store_host: self.store_host,
            reconsume_times: self.numbers[4] as i32,
            prepared_transaction_offset: self.numbers[5],
            body: &self.body,
            properties: &self.properties,
        }
    }

    fn encoded(&self) -> Vec<u8> {
        let mut out = vec![0xee; record_bytes(&self.draft())];
        encode(&self.draft(), PLACEMENT, &mut out);
        out
    }
}

const PLACEMENT: Placement = Placement {
    queue_offset: QueueOffset(9),
    physical_offset: PhysicalOffset(0x0003_0000_0000_1000),
    store_timestamp_ms: 1_700_000_000_123,
};

fn host_flags(flag: i32) -> i32 {
    flag & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6)
}

#[test]
fn decoding_gives_back_what_was_encoded() {
    let mut random = Random::new(3);
    for _ in 0..2_000 {
        let owned = Owned::random(&mut random);
        let (draft, bytes) = (owned.draft(), owned.encoded());
        let view = verify(&bytes, PLACEMENT.physical_offset).unwrap();
        assert_eq!((view.total_bytes(), view.topic(), view.body()), (bytes.len(), draft.topic, draft.body));
        assert_eq!((view.queue_id(), view.flag()), (draft.queue_id, draft.flag));
        assert_eq!(host_flags(view.sys_flag()), host_flags(draft.sys_flag));
        assert_eq!(
            (view.queue_offset(), view.store_timestamp_ms()),
            (PLACEMENT.queue_offset, PLACEMENT.store_timestamp_ms)
        );
        assert_eq!(view.born_host(), SocketAddr::new(draft.born_host.ip().to_canonical(), draft.born_host.port()));
        assert_eq!(view.store_host(), SocketAddr::new(draft.store_host.ip().to_canonical(), draft.store_host.port()));
        assert_eq!(
            (view.born_timestamp_ms(), view.reconsume_times()),
            (draft.born_timestamp_ms, draft.reconsume_times)
        );
        assert_eq!(view.prepared_transaction_offset(), draft.prepared_transaction_offset);
        assert_eq!(view.properties().trim_end_matches('\u{2}'), draft.properties.trim_end_matches('\u{2}'));
        assert_eq!(view.magic() == MAGIC_V2, draft.topic.len() > TOPIC_BYTES_V1_MAX);
        assert_eq!(view.body_crc(), body_crc(draft.body));
        let again = RecordDraft::of(&view);
        let mut copy = vec![0; record_bytes(&again)];
        encode(&again, PLACEMENT, &mut copy);
        assert_eq!(copy, bytes, "a message that is stored once more at the same place is the same record");
    }
}

#[test]
fn checksums_of_long_bodies_are_joined_as_short_ones_are_summed_up() {
    for body_bytes in [0, 1, 8 << 10, (8 << 10) - 1, (8 << 10) + 1, 100_003] {
        let bytes = Owned::new("TopicA", &vec![b'x'; body_bytes], "KEYS\u{1}k\u{2}").encoded();
        let tail = format!("{:08X}", crc32fast::hash(&bytes[..bytes.len() - 8]));
        assert_eq!(bytes[bytes.len() - 8..], *tail.as_bytes(), "{body_bytes} bytes");
    }
}

#[test]
fn the_bytes_are_the_formats() {
    let bytes = Owned::new("TopicA", b"hello", "KEYS\u{1}k\u{2}").encoded();
    let tail = format!("{:08X}", crc32fast::hash(&bytes[..bytes.len() - 8]));
    let expected = [
        &(bytes.len() as u32).to_be_bytes()[..],
        &(-626_843_481_i32).to_be_bytes(),
        &0x3610_a686_u32.to_be_bytes(),
        &[0, 0, 0, 3, 0, 0, 0, 7],
        &9_u64.to_be_bytes(),
        &[0, 3, 0, 0, 0, 0, 0x10, 0],
        &[0, 0, 0, 0],
        &1_700_000_000_000_u64.to_be_bytes(),
        &[10, 1, 2, 3, 0, 0, 0x9c, 0x40],
        &1_700_000_000_123_u64.to_be_bytes(),
        &[127, 0, 0, 1, 0, 0, 0x2a, 0x9f],
        &[0, 0, 0, 2],
        &4096_u64.to_be_bytes(),
        &[0, 0, 0, 5],
        b"hello",
        b"\x06TopicA",
        b"\x00\x0fKEYS\x01k\x02",
        tail.as_bytes(),
    ]
    .concat();
    assert_eq!(bytes, expected);
    assert_eq!(bytes.len(), FIXED_BYTES + 5 + 6 + 7 + CHECKSUM_TAIL_BYTES);
}

#[test]
fn every_flipped_bit_is_found() {
    let mut v6 = Owned::new(&"t".repeat(130), b"\xff\x00body", "TAGS\u{1}a");
    v6.born_host = "[2001:db8::1]:1".parse().unwrap();
    for owned in [Owned::new("T", b"", ""), Owned::new("TopicA", b"hello world", "KEYS\u{1}k\u{2}TAGS\u{1}t\u{2}"), v6]
    {
        let good = owned.encoded();
        assert!(verify(&good, PLACEMENT.physical_offset).is_ok());
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(&bad, PLACEMENT.physical_offset).is_err(), "bit {bit} of {} bytes", good.len());
        }
    }
}

#[test]
fn cuts_zeros_ones_and_strange_places_are_refused() {
    let good = Owned::new("TopicA", b"hello", "KEYS\u{1}k\u{2}").encoded();
    for bytes in 0..good.len() {
        assert!(verify(&good[..bytes], PLACEMENT.physical_offset).is_err(), "cut at {bytes}");
    }
    for byte in [0, 0xff] {
        for bytes in [0, 1, 8, 91, 4096] {
            assert!(RecordView::decode(&vec![byte; bytes]).is_err(), "{bytes} bytes of {byte}");
        }
    }
    assert_eq!(
        verify(&good, PhysicalOffset(0)).unwrap_err(),
        RecordError::PhysicalOffset { expected: 0, found: PLACEMENT.physical_offset.0 }
    );
}

#[test]
fn random_damage_never_panics() {
    let mut random = Random::new(5);
    for _ in 0..20_000 {
        let mut bytes = Owned::random(&mut random).encoded();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        if let Ok(view) = RecordView::decode(&bytes) {
            let _ = (view.born_host(), view.store_host(), view.reconsume_times(), view.properties());
        }
    }
}

#[test]
fn properties_too_long_for_a_tail_are_kept_whole() {
    let longest = format!("a\u{1}{}\u{2}", "x".repeat(PROPERTIES_BYTES_MAX - 3));
    for bytes in PROPERTIES_BYTES_MAX - 12..=PROPERTIES_BYTES_MAX {
        for closed in [false, true] {
            let mut properties = longest[..bytes - usize::from(closed)].to_owned();
            if closed {
                properties.push('\u{2}');
            }
            let encoded = Owned::new("T", b"body", &properties).encoded();
            let view = verify(&encoded, PLACEMENT.physical_offset).unwrap();
            assert_eq!(view.properties().trim_end_matches('\u{2}'), properties.trim_end_matches('\u{2}'));
            assert!(view.total_bytes() <= FIXED_BYTES + 5 + PROPERTIES_BYTES_MAX);
        }
    }
}

#[test]
fn a_tail_that_a_client_sends_is_no_tail() {
    let long = format!("a\u{1}{}\u{2}0123ABCD", "x".repeat(PROPERTIES_BYTES_MAX - 11));
    for properties in ["0123ABCD", "a\u{1}b\u{2}0123ABCD", &long] {
        let encoded = Owned::new("T", b"body", properties).encoded();
        let view = verify(&encoded, PLACEMENT.physical_offset).unwrap();
        assert_eq!(view.properties(), &properties[..properties.len() - 8]);
        assert_eq!(
            Owned::new("T", b"body", view.properties_stored()).encoded(),
            encoded,
            "storing it again changes nothing"
        );
    }
}

#[test]
fn records_of_other_brokers_are_read() {
    let ours = Owned::new("T", b"body", "a\u{1}b").encoded();
    let mut theirs = ours[..ours.len() - 9].to_vec();
    let total_bytes = theirs.len() as u32;
    theirs[..4].copy_from_slice(&total_bytes.to_be_bytes());
    let length_at = theirs.len() - 5;
    theirs[length_at..length_at + 2].copy_from_slice(&[0, 3]);
    let view = verify_foreign(&theirs, PLACEMENT.physical_offset).unwrap();
    assert_eq!(view.properties(), "a\u{1}b");
    assert_eq!(verify(&theirs, PLACEMENT.physical_offset).unwrap_err(), RecordError::ChecksumMissing);
    theirs[89] ^= 1;
    assert!(matches!(verify_foreign(&theirs, PLACEMENT.physical_offset), Err(RecordError::BodyChecksum { .. })));
}

#[test]
fn fillers_are_told_apart() {
    assert_eq!(blank(8), [0, 0, 0, 8, 0xcb, 0xd4, 0x31, 0x94]);
    assert_eq!(blank_bytes(&blank(1 << 20)), Some(1 << 20));
    assert_eq!(RecordView::decode(&blank(100)).unwrap_err(), RecordError::Blank { total_bytes: 100 });
    assert_eq!(blank_bytes(&Owned::new("T", b"", "").encoded()), None);
    assert_eq!(blank_bytes(&[0; 8]), None);
}

#[test]
fn a_pulls_body_is_walked() {
    let records = [Owned::new("A", b"1", "").encoded(), Owned::new("B", b"22", "").encoded()];
    let mut body = records.concat();
    let topics: Vec<_> = Records::new(&body).map(|view| view.unwrap().topic()).collect();
    assert_eq!(topics, ["A", "B"]);
    body.truncate(body.len() - 1);
    let read: Vec<_> = Records::new(&body).map(|view| view.is_ok()).collect();
    assert_eq!(read, [true, false]);
}
