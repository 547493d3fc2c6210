//! What a stranger can send: each fault harms only itself, gets the answer that its sender can use, and leaves nothing behind.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Random;
use harness::connection::{Connection, Reaction};
use harness::folder::listing;
use harness::frame::{FRAME_BYTES_MAX, Frame};
use harness::process::Dev;
use harness::request::{
    self, CODE_INVALID_PARAMETER, CODE_MESSAGE_ILLEGAL, CODE_NOT_SUPPORTED, CODE_OK, CODE_PULL_NOT_FOUND,
    CODE_SYSTEM_ERROR, CODE_TOPIC_NOT_EXIST, MAX_OFFSET, MIN_OFFSET, Queue, Stored, about_queue, offset_of,
    read_queue_of,
};
use harness::target::Target;
use harness::{left_out, patterned_body};

/// How long a server may take to close a connection over an illegal frame.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);
/// How long we listen to be sure that nothing is said.
const SILENCE: Duration = Duration::from_millis(500);
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
const UNKNOWN_CODE: i32 = 29_998;

/// Sends bytes to both servers; each must close the connection, and answer others.
fn assert_closes_and_lives(target: &Target, what: &str, bytes: &[u8]) {
    for address in [&target.namesrv, &target.broker] {
        let mut connection = Connection::open(address).expect("the server accepts connections");
        // The server may close before it has read everything: then the write fails, which is as good.
        let _ = connection.send_bytes(bytes);
        let reaction = connection.reaction(CLOSE_WITHIN).expect("the connection can be read");
        assert_eq!(reaction, Reaction::Closed, "{what} at {address}");
    }
    target.assert_alive();
}

#[test]
fn an_impossible_length_closes_the_connection() {
    let target = Target::start("lengths");
    let mut cases: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for (what, length) in [
        ("negative length", -1i32),
        ("smallest length", i32::MIN),
        ("largest length", i32::MAX),
        ("length over the limit", i32::try_from(FRAME_BYTES_MAX).expect("16 MiB fit") - 3),
    ] {
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0; 64]);
        cases.insert(what, bytes);
    }
    let mut header_too_long = Frame::request(105).field("topic", "T").encode();
    header_too_long[5..8].copy_from_slice(&[0xff, 0xff, 0xff]);
    cases.insert("header longer than its frame", header_too_long);
    let mut header_longer_by_one = Frame::request(105).field("topic", "T").encode();
    header_longer_by_one[7] += 1;
    cases.insert("header one byte longer than its frame", header_longer_by_one);
    for (what, bytes) in cases {
        assert_closes_and_lives(&target, what, &bytes);
    }
}

#[test]
fn garbage_harms_nobody() {
    let target = Target::start("garbage");
    let mut random = Random::new(20_260_101);
    for round in 0..50 {
        let length = usize::try_from(1 + random.below(4_096)).expect("a small number");
        let bytes: Vec<u8> = (0..length).map(|_| random.next_u64().to_le_bytes()[0]).collect();
        for address in [&target.namesrv, &target.broker] {
            let mut connection = Connection::open(address).expect("the server accepts connections");
            let _ = connection.send_bytes(&bytes);
            connection.close_write().ok();
            // The server may close or, where the bytes read as the beginning of a frame, wait until we are gone.
            match connection.reaction(CLOSE_WITHIN).expect("the connection can be read") {
                Reaction::Closed => {}
                other => panic!("round {round} at {address}: {other:?} to {bytes:02x?}"),
            }
        }
    }
    target.assert_alive();
}

#[test]
fn a_header_that_cannot_be_read_closes_at_most_its_connection() {
    let target = Target::start("headers");
    let json = |header: &[u8]| frame_of(0, header);
    let binary = |header: &[u8]| frame_of(1, header);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("no JSON", json(b"this is no json")),
        ("half an object", json(br#"{"code":105,"fl"#)),
        ("code is a text", json(br#"{"code":"x","flag":0,"opaque":1}"#)),
        ("deeply nested", json("[".repeat(100_000).as_bytes())),
        ("not UTF-8", json(b"{\"code\":105,\"remark\":\"\xff\xfe\"}")),
        ("empty header", json(b"")),
        ("binary, too short", binary(&[0, 105, 0])),
        ("binary, remark longer than the header", binary(&[0, 105, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0, 0])),
        (
            "binary, negative length of the fields",
            binary(&[0, 105, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
        ),
        ("unknown encoding", frame_of(9, b"{}")),
    ];
    for (what, bytes) in cases {
        for address in [&target.namesrv, &target.broker] {
            let mut connection = Connection::open(address).expect("the server accepts connections");
            connection.send_bytes(&bytes).ok();
            let reaction = connection.reaction(SILENCE).expect("the connection can be read");
            if let Reaction::Answered(answer) = &reaction {
                assert_ne!(answer.code, CODE_OK, "{what} at {address} succeeds: {answer:?}");
            }
        }
    }
    target.assert_alive();
}

fn frame_of(encoding: u8, header: &[u8]) -> Vec<u8> {
    let length = u32::try_from(header.len()).expect("a small header");
    let mut bytes = (4 + length).to_be_bytes().to_vec();
    bytes.extend_from_slice(&((u32::from(encoding) << 24) | length).to_be_bytes());
    bytes.extend_from_slice(header);
    bytes
}

#[test]
fn a_missing_required_field_is_named_and_the_connection_lives() {
    let target = Target::start("fields");
    let mut connection = target.connect();
    let group = target.group(&mut connection, "fields");
    let queue = target.queue("fields");
    let needed: Vec<(Frame, &[&str])> = vec![
        (request::send(&queue, "body", ""), &["b", "e", "f", "g", "h"]),
        (request::send_v1(&queue, "body"), &["topic", "queueId", "sysFlag", "bornTimestamp", "flag"]),
        (
            request::pull(&group, &queue, 0, 32),
            &["consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag"],
        ),
        (about_queue(MAX_OFFSET, &queue), &["topic", "queueId"]),
        (about_queue(MIN_OFFSET, &queue), &["topic", "queueId"]),
        (request::offset_by_time(&queue, 0, "LOWER"), &["topic", "queueId", "timestamp"]),
        (request::consumer_offset(&group, &queue), &["consumerGroup", "topic", "queueId"]),
        (request::commit_offset(&group, &queue, 0), &["consumerGroup", "topic", "queueId", "commitOffset"]),
        (request::create_topic(&queue.topic, 1), &["topic"]),
    ];
    // Declared as required, and yet Apache goes on without them: both ways are right here.
    let dispensable: Vec<(Frame, &[&str])> = vec![
        (request::send(&queue, "body", ""), &["a", "c", "d"]),
        (request::send_v1(&queue, "body"), &["producerGroup", "defaultTopic", "defaultTopicQueueNums"]),
        (request::pull(&group, &queue, 0, 32), &["commitOffset", "suspendTimeoutMillis", "subVersion"]),
    ];
    let mut faults = Vec::new();
    let cases = needed.iter().map(|case| (case, false)).chain(dispensable.iter().map(|case| (case, true)));
    for ((complete, names), may_succeed) in cases {
        for name in *names {
            let answer = connection.call(&complete.clone().without(name)).expect("the connection lives");
            let named = answer.remark.contains(name) || name.len() == 1 && answer.remark.contains(long_name(name));
            // Apache's remark is often that of its null pointer.
            let refused = answer.code == CODE_SYSTEM_ERROR && named || answer.code != CODE_OK && target.is_given();
            let succeeded = may_succeed && matches!(answer.code, CODE_OK | CODE_PULL_NOT_FOUND);
            if !refused && !succeeded {
                faults.push(format!("{} without {name}: {} {:?}", complete.code, answer.code, answer.remark));
            }
        }
    }
    assert!(faults.is_empty(), "missing fields that are not named with code 1:\n{}", faults.join("\n"));
    let answer = target.connect_namesrv().call(&Frame::request(request::ROUTE)).expect("the connection lives");
    // Apache's nameserver answers that it knows no topic called null.
    let code = if target.is_given() { CODE_TOPIC_NOT_EXIST } else { CODE_SYSTEM_ERROR };
    assert_eq!(answer.code, code, "{answer:?}");
    assert!(answer.remark.contains("topic"), "the remark must name the field: {answer:?}");
    let answer = connection.call(&request::send(&queue, "body", "")).expect("the connection lives");
    assert_eq!(answer.code, CODE_OK, "{answer:?}");
}

/// The field of SEND_MESSAGE for a letter of SEND_MESSAGE_V2: either may be named in a remark.
fn long_name(letter: &str) -> &'static str {
    match letter {
        "a" => "producerGroup",
        "b" => "topic",
        "c" => "defaultTopic",
        "d" => "defaultTopicQueueNums",
        "e" => "queueId",
        "f" => "sysFlag",
        "g" => "bornTimestamp",
        "h" => "flag",
        other => panic!("{other} is no required field of a send"),
    }
}

#[test]
fn a_field_that_is_no_number_is_refused_and_the_connection_lives() {
    let target = Target::start("numbers");
    let mut connection = target.connect();
    let queue = target.queue("numbers");
    for value in ["", "x", "1.5", "99999999999999999999", "0x10", " 1"] {
        let answer =
            connection.call(&request::send(&queue, "body", "").field("e", value)).expect("the connection lives");
        assert_ne!(answer.code, CODE_OK, "queue id {value:?}: {answer:?}");
        let answer = connection.call(&about_queue(MAX_OFFSET, &queue).field("queueId", value)).expect("it lives");
        assert_ne!(answer.code, CODE_OK, "queue id {value:?}: {answer:?}");
    }
    for queue_id in ["1", "1000000", "2147483647"] {
        let answer = connection.call(&request::send(&queue, "body", "").field("e", queue_id)).expect("it lives");
        assert_eq!(answer.code, CODE_INVALID_PARAMETER, "queue {queue_id} of a topic with one: {answer:?}");
    }
    assert_eq!(offset_of(&mut connection, MAX_OFFSET, &queue).expect("answered"), 0, "a refused message was stored");
}

#[test]
fn f1_an_illegal_topic_name_leaves_no_trace() {
    let target = Target::start("names");
    let too_long = "x".repeat(128);
    let names = [
        "../x",
        "../../../../ringmq-escaped",
        "a/b",
        r"a\b",
        "",
        &too_long,
        "a.b",
        "a b",
        "a\nb",
        "a\0b",
        "tøpic",
        "主题",
        "/tmp/x",
        ".",
        "..",
        "a+b",
        "a:b",
        "$a",
        "a*",
    ];
    let before = target.store.as_deref().map(listing);
    for name in names {
        let mut connection = target.connect();
        let queue = Queue::new(name, 0);
        for request in [request::send(&queue, "body", ""), request::send_v1(&queue, "body")] {
            let answer = connection.call(&request).expect("the connection lives");
            assert_eq!(answer.code, CODE_INVALID_PARAMETER, "send to {name:?}: {answer:?}");
            assert!(!answer.remark.is_empty(), "send to {name:?} is refused without a reason");
        }
        let answer = connection.call(&request::create_topic(name, 1)).expect("the connection lives");
        assert_ne!(answer.code, CODE_OK, "topic {name:?} was made: {answer:?}");
        let answer = connection.call(&request::pull("harness-reader", &queue, 0, 1)).expect("the connection lives");
        assert_ne!(answer.code, CODE_OK, "pull from {name:?}: {answer:?}");
    }
    let ok = "y".repeat(127);
    let answer = target.connect().call(&request::send(&Queue::new(&ok, 0), "body", "")).expect("it lives");
    assert_eq!(answer.code, CODE_OK, "127 characters are legal: {answer:?}");
    let (Some(before), Some(store)) = (before, target.store.as_deref()) else {
        return left_out(
            "f1_an_illegal_topic_name_leaves_no_trace",
            "the store of the given servers is not known: its files were not looked at",
        );
    };
    for path in listing(store).into_iter().filter(|path| !before.contains(path)) {
        let last = path.rsplit('/').next().expect("rsplit gives at least one part");
        let trace = ["x", "b", "a b", "a.b", "escaped", "tøpic", "主题", "a+b", "a:b", "$a", "a*"].contains(&last)
            || path.contains(&too_long)
            || path.contains("escaped");
        assert!(!trace, "an illegal name left {path:?} in the store");
    }
    let outside = store.parent().expect("the store has a parent");
    assert!(!listing(outside).iter().any(|path| path.contains("ringmq-escaped")), "a name left the store");
}

/// A14 and F4 in the list of public faults.
#[test]
fn bodies_and_properties_have_exact_limits() {
    // Segments that hold the largest body: with smaller ones the limit is lower.
    let target = Target::start_with(Dev::new("limits").property("mapedFileSizeCommitLog=16777216"));
    let mut connection = target.connect();
    let queue = target.queue("limits");
    for (bytes, code) in [(1, CODE_OK), (BODY_BYTES_MAX, CODE_OK), (BODY_BYTES_MAX + 1, CODE_MESSAGE_ILLEGAL)] {
        let answer = connection.call(&request::send(&queue, patterned_body(bytes), "")).expect("the connection lives");
        assert_eq!(answer.code, code, "a body of {bytes} bytes: {answer:?}");
        if code != CODE_OK && !target.is_given() {
            assert!(answer.remark.contains("4194304"), "the remark must name the limit: {answer:?}");
        }
    }
    // The broker adds properties of its own, some 60 bytes: a little below the limit is legal, above it is not.
    for (bytes, code) in [(32_000, CODE_OK), (32_768, CODE_MESSAGE_ILLEGAL), (70_000, CODE_MESSAGE_ILLEGAL)] {
        let properties = format!("long\u{1}{}\u{2}", "v".repeat(bytes - 6));
        let answer = connection.call(&request::send(&queue, "body", &properties)).expect("the connection lives");
        assert_eq!(answer.code, code, "properties of {bytes} bytes: {answer:?}");
    }
    // Characters of three bytes: the limit counts bytes, not characters.
    let properties = format!("long\u{1}{}\u{2}", "語".repeat(12_000));
    let answer = connection.call(&request::send(&queue, "body", &properties)).expect("the connection lives");
    assert_eq!(answer.code, CODE_MESSAGE_ILLEGAL, "properties of 36,000 bytes in 12,000 characters: {answer:?}");

    let records = read_queue_of(&mut connection, &queue, 3);
    let lengths: Vec<usize> = records.iter().map(|record| record.body.len()).collect();
    assert_eq!(lengths, [1, BODY_BYTES_MAX, 4]);
    assert!(records[1].body == patterned_body(BODY_BYTES_MAX), "the largest body came back different");
}

/// A4 in the list of public faults.
#[test]
fn an_illegal_message_harms_only_itself() {
    let target = Target::start("mixed");
    let mut connection = target.connect();
    let queue = target.queue("mixed");
    let long = format!("long\u{1}{}\u{2}", "v".repeat(33_000));
    for number in 0..300 {
        let bad = match number % 3 {
            0 => request::send(&queue, Vec::new(), ""),
            1 => request::send(&queue, "body", &long),
            _ => request::send(&Queue::new(&"x".repeat(200), 0), "body", ""),
        };
        let answer = connection.call(&bad).expect("the connection lives");
        assert_ne!(answer.code, CODE_OK, "illegal message {number}: {answer:?}");
        let answer = connection.call(&request::send(&queue, format!("{number}"), "")).expect("the connection lives");
        let stored = Stored::of(&answer).expect("a good message is stored");
        assert_eq!(stored.queue_offset, number, "an illegal message took an offset");
    }
    let records = read_queue_of(&mut connection, &queue, 300);
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record.body, number.to_string().into_bytes());
    }
    assert_eq!(records.len(), 300);
}

#[test]
fn unknown_requests_are_answered_and_one_way_ones_are_not() {
    let target = Target::start("unknown");
    for mut connection in [target.connect(), target.connect_namesrv()] {
        for code in [UNKNOWN_CODE, 0, -1, 9, 32_767] {
            for request in [Frame::request(code), Frame::request(code).binary()] {
                let answer = connection.call(&request).expect("an unknown request is answered");
                assert_eq!(answer.code, CODE_NOT_SUPPORTED, "{request:?} is answered {answer:?}");
                assert!(answer.remark.contains(&code.to_string()), "the remark must name {code}: {answer:?}");
            }
        }
        connection.send(&Frame::request(UNKNOWN_CODE).one_way()).expect("a one-way request can be sent");
        assert_eq!(connection.reaction(SILENCE).expect("readable"), Reaction::Silent);
        connection.call(&Frame::request(UNKNOWN_CODE)).expect("the connection lives");
    }
    let queue = target.queue("unknown");
    let mut connection = target.connect();
    connection.send(&request::send(&queue, "quiet", "").one_way()).expect("a one-way send can be sent");
    connection.send(&request::send(&Queue::new("a/b", 0), "quiet", "").one_way()).expect("so can an illegal one");
    connection.send(&about_queue(MAX_OFFSET, &queue).without("topic").one_way()).expect("so can one without fields");
    assert_eq!(connection.reaction(SILENCE).expect("readable"), Reaction::Silent, "one-way requests were answered");
    assert_eq!(read_queue_of(&mut connection, &queue, 1)[0].body, b"quiet");
}
