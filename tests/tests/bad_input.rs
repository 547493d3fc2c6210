//! What a stranger can send: each fault harms only itself, gets the answer that its sender can use, and leaves nothing behind.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base::Random;
use harness::connection::{Connection, Reaction};
use harness::folder::listing;
use harness::frame::{FRAME_BYTES_MAX, Frame};
use harness::limits::{raise_open_files, resident_bytes};
use harness::process::Dev;
use harness::request::{
    self, CODE_INVALID_PARAMETER, CODE_MESSAGE_ILLEGAL, CODE_NOT_SUPPORTED, CODE_OK, CODE_PULL_NOT_FOUND,
    CODE_SYSTEM_ERROR, CODE_TOPIC_NOT_EXIST, MAX_OFFSET, MIN_OFFSET, Pulled, Queue, Stored, about_queue, offset_of,
    read_queue,
};
use harness::target::Target;
use harness::{left_out, unique_name};

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
fn truncated_frames_and_half_frames_cost_only_their_connection() {
    let target = Target::start("halves");
    let queue = target.queue("halves");
    let whole = about_queue(MAX_OFFSET, &queue).with_opaque(77).encode();
    for cut in [1, 3, 4, 7, 8, whole.len() / 2, whole.len() - 1] {
        let mut connection = target.connect();
        connection.send_bytes(&whole[..cut]).expect("the first part can be sent");
        connection.close_write().expect("the connection can be half closed");
        assert_eq!(connection.reaction(CLOSE_WITHIN).expect("readable"), Reaction::Closed, "cut at {cut}");
    }
    let mut held: Vec<Connection> = (0..200).map(|_| target.connect()).collect();
    for (index, connection) in held.iter_mut().enumerate() {
        connection.send_bytes(&whole[..1 + index % (whole.len() - 1)]).expect("the first part can be sent");
    }
    let started = Instant::now();
    let mut other = target.connect();
    for number in 0..100 {
        let answer = other.call(&request::send(&queue, format!("{number}"), "")).expect("others are served");
        Stored::of(&answer).expect("others' sends are stored");
    }
    assert!(started.elapsed() < Duration::from_secs(10), "100 sends took {:?}", started.elapsed());
    for (index, connection) in held.iter_mut().enumerate() {
        assert_eq!(connection.reaction(Duration::from_millis(1)).expect("readable"), Reaction::Silent, "{index}");
        connection.send_bytes(&whole[1 + index % (whole.len() - 1)..]).expect("the rest can be sent");
        let answer = connection.receive().expect("the completed frame is answered");
        assert_eq!((answer.opaque, answer.code), (77, CODE_OK), "{answer:?}");
    }
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
fn an_illegal_topic_name_leaves_no_trace() {
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
            "an_illegal_topic_name_leaves_no_trace",
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

#[test]
fn bodies_and_properties_have_exact_limits() {
    let target = Target::start("limits");
    let mut connection = target.connect();
    let queue = target.queue("limits");
    for (bytes, code) in [(1, CODE_OK), (BODY_BYTES_MAX, CODE_OK), (BODY_BYTES_MAX + 1, CODE_MESSAGE_ILLEGAL)] {
        let answer = connection.call(&request::send(&queue, body_of(bytes), "")).expect("the connection lives");
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

    let records = read_all_eventually(&mut connection, &queue, 3);
    let lengths: Vec<usize> = records.iter().map(|record| record.body.len()).collect();
    assert_eq!(lengths, [1, BODY_BYTES_MAX, 4]);
    assert!(records[1].body == body_of(BODY_BYTES_MAX), "the largest body came back different");
}

/// Bytes that differ from place to place, so that a shifted or cut copy is seen.
fn body_of(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| u8::try_from((index * 31 + index / 251) % 251).expect("below 251")).collect()
}

/// Reads a queue once it has `count` messages: Apache shows a message some milliseconds after its answer.
fn read_all_eventually(connection: &mut Connection, queue: &Queue, count: usize) -> Vec<harness::record::Record> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let records = read_queue(connection, queue, 0).expect("the queue can be read");
        if records.len() >= count || Instant::now() > deadline {
            return records;
        }
        // A held pull ends when the next message comes; its answer is read again from the start.
        let wanted = request::pull_waiting("harness-reader", queue, records.len().try_into().expect("small"), 5_000);
        connection.call(&wanted).expect("a held pull is answered");
    }
}

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
    let records = read_all_eventually(&mut connection, &queue, 300);
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
    assert_eq!(read_all_eventually(&mut connection, &queue, 1)[0].body, b"quiet");
}

#[test]
fn fifty_requests_in_one_write_are_all_answered() {
    let target = Target::start("pipelined");
    let queue = target.queue("pipelined");
    let mut bytes = Vec::new();
    for opaque in 0..50 {
        let request = request::send(&queue, format!("{opaque}"), "").with_opaque(opaque - 25);
        let request = if opaque % 2 == 0 { request } else { request.binary() };
        bytes.extend_from_slice(&request.encode());
    }
    let mut connection = target.connect();
    connection.send_bytes(&bytes).expect("the requests can be sent");
    let mut offsets = BTreeMap::new();
    for _ in 0..50 {
        let answer = connection.receive().expect("every request is answered");
        assert!(answer.is_answer(), "{answer:?}");
        let stored = Stored::of(&answer).expect("the message is stored");
        assert!(offsets.insert(answer.opaque, stored.queue_offset).is_none(), "{} answered twice", answer.opaque);
    }
    assert_eq!(offsets.keys().copied().collect::<Vec<i32>>(), (-25..25).collect::<Vec<i32>>());
    let mut given: Vec<u64> = offsets.values().copied().collect();
    given.sort_unstable();
    assert_eq!(given, (0..50).collect::<Vec<u64>>());
    assert_eq!(connection.reaction(SILENCE).expect("readable"), Reaction::Silent, "one answer too many");
}

#[test]
fn two_thousand_connections_are_served() {
    const CONNECTIONS: u64 = 2_000;
    if let Err(reason) = raise_open_files(CONNECTIONS + 500) {
        return left_out("two_thousand_connections_are_served", &reason);
    }
    let target = Target::start("many");
    let queue = target.queue("many");
    let mut connections: Vec<Connection> = (0..CONNECTIONS).map(|_| target.connect()).collect();
    for round in 0..2 {
        for (index, connection) in connections.iter_mut().enumerate() {
            connection.send(&request::send(&queue, format!("{round}-{index}"), "")).expect("a send can be sent");
        }
        for (index, connection) in connections.iter_mut().enumerate() {
            let answer = connection.receive().unwrap_or_else(|error| panic!("connection {index}: {error}"));
            Stored::of(&answer).unwrap_or_else(|error| panic!("connection {index}: {error}"));
        }
    }
    drop(connections);
    target.assert_alive();
    let records = read_all_eventually(&mut target.connect(), &queue, 4_000);
    assert_eq!(records.len(), 4_000);
}

#[test]
fn a_slow_reader_is_alone_with_its_slowness() {
    const PULLS: u32 = 2_000;
    const BYTES_MORE_MAX: u64 = 256 * 1024 * 1024;
    let target = Target::start_with(Dev::new("slow").property("mapedFileSizeCommitLog=67108864"));
    let queue = target.queue("slow");
    let mut connection = target.connect();
    for _ in 0..64 {
        Stored::of(&connection.call(&request::send(&queue, body_of(8_000), "")).expect("served")).expect("stored");
    }
    read_all_eventually(&mut connection, &queue, 64);
    let resident_before = target.process().and_then(|process| resident_bytes(process.pid()));

    // It asks for about 500 MB and reads nothing. The server may stop reading it, so a full pipe ends the asking.
    let mut slow = target.connect();
    slow.set_write_timeout(Duration::from_secs(2)).expect("the time-out can be set");
    let group = unique_name("slow");
    let mut asked = 0;
    while asked < PULLS && slow.send(&request::pull(&group, &queue, 0, 32)).is_ok() {
        asked += 1;
    }
    assert!(asked > 10, "only {asked} pulls could be sent");

    let started = Instant::now();
    let other = target.queue("slow-other");
    for number in 0..200 {
        let answer = connection.call(&request::send(&other, format!("{number}"), "")).expect("others are served");
        Stored::of(&answer).expect("others' sends are stored");
        let answer = connection.call(&request::pull("harness-reader", &queue, 0, 32)).expect("others are served");
        assert!(!Pulled::of(&answer).expect("a pull is answered").records.is_empty());
    }
    assert!(started.elapsed() < Duration::from_secs(10), "200 sends and pulls took {:?}", started.elapsed());
    if let (Some(before), Some(process)) = (resident_before, target.process()) {
        let after = resident_bytes(process.pid()).expect("the process is there");
        assert!(after < before + BYTES_MORE_MAX, "a slow reader made the process grow from {before} to {after} bytes");
    }
    // Everything that was asked for completely is still answered, once it is read.
    let complete = if asked == PULLS { PULLS } else { asked.min(10) };
    for _ in 0..complete {
        let answer = slow.receive().expect("the slow reader's pulls are answered");
        assert!(!Pulled::of(&answer).expect("a pull is answered").records.is_empty());
    }
}
