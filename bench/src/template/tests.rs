use super::*;
use crate::payload::Content;
use base::Random;
use flate2::read::ZlibDecoder;
use remoting::frame;
use remoting::properties;
use remoting::record::BatchItems;
use std::io::Read as _;

fn form(encoding: HeaderEncoding, batch: u16, extras: Extras) -> SendForm {
    let mut random = Random::new(5);
    let bodies = [64, 100, 200].map(|bytes| payload::blank(bytes, 0.5, &mut random)).to_vec();
    SendForm {
        encoding,
        group: Text::from("G"),
        lanes: Lanes { topics: vec![Text::from("T"), Text::from("U")], queues: 2 },
        run: 0xabc,
        bodies,
        batch,
        extras,
    }
}

fn written(templates: &Templates, patch: &Patch) -> (Command, SendMessage) {
    let mut out = BytesMut::new();
    templates.write(patch, &mut out);
    let command = Command::decode(frame::split(&mut out).unwrap().unwrap()).unwrap();
    assert!(out.is_empty());
    let header = SendMessage::decode(&command.fields).unwrap();
    (command, header)
}

#[test]
fn a_patched_frame_is_what_the_codec_would_have_made() {
    for encoding in [HeaderEncoding::Json, HeaderEncoding::Compact] {
        let templates = Templates::new(&form(encoding, 1, Extras::default()), 1);
        for (opaque, number) in [(1_000_000_000, 0), (i32::MAX, 0xf0), (i32::MAX, 0xf1)] {
            let patch = Patch { opaque, born_ms: 1_700_000_000_001, number, due_ns: 77 };
            let (command, header) = written(&templates, &patch);
            assert_eq!((command.code, command.opaque, command.encoding), (310, opaque, encoding));
            let lane = templates.lane(number);
            let place = (["T", "U"][lane / 2], (lane % 2) as i32);
            assert_eq!((header.topic.as_str(), header.queue_id), place);
            assert_eq!((lane as u64, header.born_timestamp_ms), (2 * number % 4, 1_700_000_000_001));
            let key = properties::get(&header.properties, UNIQUE_KEY);
            assert_eq!(key, Some(format!("0000000000000ABC{number:016X}").as_str()));
            assert_eq!(payload::read(&command.body), Content::Ours(Stamp { due_ns: 77, number }));
        }
    }
}

#[test]
fn extras_are_properties_of_each_message() {
    let extras = Extras {
        keys: true,
        tags: vec!["a".into(), "b".into()],
        properties: vec![("region".into(), "eu".into())],
        delay_ms: Some(1500),
        unflushed: true,
        zlib: true,
        ..Extras::default()
    };
    let templates = Templates::new(&form(HeaderEncoding::Json, 1, extras), 1);
    let mut tags = Vec::new();
    for number in 0..8 {
        let patch = Patch { opaque: 1_000_000_000, born_ms: 1_700_000_000_001, number, due_ns: 1 };
        let (command, header) = written(&templates, &patch);
        let get = |name| properties::get(&header.properties, name).unwrap_or("-");
        assert_eq!(get(KEYS), format!("{number:016X}"));
        assert_eq!([get("region"), get(TIMER_DELAY_MS), get(WAIT_STORE)], ["eu", "1500", "false"]);
        tags.push(get(TAGS).to_owned());
        assert_eq!(header.sys_flag, sys_flag::COMPRESSED | sys_flag::COMPRESSION_ZLIB);
        let mut body = Vec::new();
        ZlibDecoder::new(&command.body[..]).read_to_end(&mut body).unwrap();
        assert_eq!(payload::read(&body), Content::Ours(Stamp { due_ns: 1, number }));
    }
    assert!(tags.contains(&"a".to_owned()) && tags.contains(&"b".to_owned()), "{tags:?}");
}

#[test]
fn a_batch_has_messages_of_all_sizes_with_numbers_in_a_row() {
    let extras = Extras { keys: true, ..Extras::default() };
    let templates = Templates::new(&form(HeaderEncoding::Compact, 5, extras), 1);
    let patch = Patch { opaque: 1_000_000_000, born_ms: 1_700_000_000_001, number: 3, due_ns: 9 };
    let (command, header) = written(&templates, &patch);
    assert_eq!((command.code, header.batch), (320, true));
    let items: Vec<_> = BatchItems::new(&command.body).map(Result::unwrap).collect();
    assert_eq!(items.len(), 5);
    for (number, item) in (15..).zip(items) {
        assert_eq!(payload::read(item.body), Content::Ours(Stamp { due_ns: 9, number }));
        assert_eq!(properties::get(item.properties, KEYS), Some(format!("{number:016X}").as_str()));
    }
}
#[test]
fn ordered_messages_carry_their_key_and_keep_their_queue() {
    for batch in [1, 3] {
        let extras = Extras { ordered_keys: Some(3), ..Extras::default() };
        let templates = Templates::new(&form(HeaderEncoding::Json, batch, extras), 1);
        let mut lanes = std::collections::HashMap::new();
        for number in 0..12 {
            let patch = Patch { opaque: 1_000_000_000, born_ms: 1_700_000_000_001, number, due_ns: 1 };
            let (command, header) = written(&templates, &patch);
            let key = format!("{:016X}", number % 3);
            let found = match batch {
                1 => vec![properties::get(&header.properties, KEYS).map(str::to_owned)],
                _ => BatchItems::new(&command.body)
                    .map(|item| properties::get(item.unwrap().properties, KEYS).map(str::to_owned))
                    .collect(),
            };
            assert!(found.iter().all(|found| found.as_deref() == Some(&key)), "{found:?}");
            let lane = (header.topic.as_str().to_owned(), header.queue_id);
            assert_eq!(*lanes.entry(key).or_insert(lane.clone()), lane);
        }
        assert_eq!(lanes.len(), 3);
    }
}

#[test]
fn half_messages_say_that_they_are() {
    let extras = Extras { commit_share: Some(0.5), ..Extras::default() };
    let templates = Templates::new(&form(HeaderEncoding::Json, 1, extras), 1);
    let patch = Patch { opaque: 1_000_000_000, born_ms: 1_700_000_000_001, number: 1, due_ns: 1 };
    let (_, header) = written(&templates, &patch);
    assert_eq!(header.sys_flag, sys_flag::TRANSACTION_PREPARED);
    let get = |name| properties::get(&header.properties, name);
    assert_eq!((get(TRANSACTION_PREPARED), get(PRODUCER_GROUP)), (Some("true"), Some("G")));
}
