//! Many connections, slow ones and half ones: each costs only what is its own.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::{Connection, Reaction};
use harness::limits::{raise_open_files, resident_bytes};
use harness::process::Dev;
use harness::request::{self, CODE_OK, MAX_OFFSET, Pulled, Queue, Stored, about_queue, read_queue_of};
use harness::target::Target;
use harness::{left_out, patterned_body, unique_name};

/// How long a server may take to close a connection over an illegal frame.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);
/// How long we listen to be sure that nothing is said.
const SILENCE: Duration = Duration::from_millis(500);

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
    let records = read_queue_of(&mut target.connect(), &queue, 4_000);
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
        Stored::of(&connection.call(&request::send(&queue, patterned_body(8_000), "")).expect("served"))
            .expect("stored");
    }
    read_queue_of(&mut connection, &queue, 64);
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

/// A6 in the list of public faults.
#[test]
fn a_hundred_thousand_tiny_messages_arrive() {
    const SENDERS: u32 = 32;
    const ROUNDS: u32 = 49;
    const IN_FLIGHT: u32 = 64;
    let target = Target::start_with(Dev::new("tiny").property("flushDiskType=ASYNC_FLUSH"));
    let topic = target.topic("tiny", 4);
    // Writes gather what waits: with bodies of one byte these are more pieces than one call takes.
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (target, queue) = (&target, Queue::new(&topic, sender % 4));
            scope.spawn(move || {
                let mut connection = target.connect();
                for _ in 0..ROUNDS {
                    let mut bytes = Vec::new();
                    for opaque in 0..IN_FLIGHT {
                        let opaque = i32::try_from(opaque).expect("small");
                        bytes.extend_from_slice(&request::send(&queue, "x", "").with_opaque(opaque).encode());
                    }
                    connection.send_bytes(&bytes).expect("sends can be sent");
                    for _ in 0..IN_FLIGHT {
                        let answer = connection.receive().expect("every send is answered");
                        Stored::of(&answer).expect("every message is stored");
                    }
                }
            });
        }
    });
    let mut connection = target.connect();
    let wanted = (SENDERS * ROUNDS * IN_FLIGHT / 4) as usize;
    for id in 0..4 {
        let records = read_queue_of(&mut connection, &Queue::new(&topic, id), wanted);
        assert_eq!(records.len(), wanted, "queue {id}");
        for (record, offset) in records.iter().zip(0..) {
            assert_eq!((record.queue_offset, record.body.as_slice()), (offset, b"x".as_slice()));
        }
    }
}
