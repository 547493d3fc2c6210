//! Offsets as consumers see them: pulls at every kind of offset, searches by time, commits, and reading one's own writes.
//! A name that begins with a letter and a number is that of an entry in the list of public faults.

use std::thread;
use std::time::{Duration, Instant};

use base::Random;
use harness::connection::Connection;
use harness::process::Dev;
use harness::request::{
    self, CODE_INVALID_PARAMETER, CODE_NOT_FOUND, CODE_OK, CODE_PULL_NOT_FOUND, CODE_PULL_OFFSET_MOVED, EARLIEST_TIME,
    MAX_OFFSET, MIN_OFFSET, Pulled, Queue, Stored, await_count, offset_of, read_queue,
};
use harness::target::Target;
use harness::{left_out, now_ms, unique_name};

fn send(connection: &mut Connection, queue: &Queue, body: &str) -> u64 {
    let answer = connection.call(&request::send(queue, body, "")).expect("a send is answered");
    Stored::of(&answer).expect("a send is stored").queue_offset
}

/// Waits until a queue shows `count` messages.
fn await_visible(connection: &mut Connection, queue: &Queue, count: i64) {
    assert!(await_count(connection, queue, count), "{queue:?} does not show {count} messages");
}

fn pull(connection: &mut Connection, queue: &Queue, offset: i64) -> Pulled {
    let answer = connection.call(&request::pull("harness-reader", queue, offset, 32)).expect("a pull is answered");
    Pulled::of(&answer).expect("the pull is not refused")
}

#[test]
fn b1_a_pull_at_any_offset_leads_to_the_right_place() {
    let target = Target::start("pull-table");
    let mut connection = target.connect();
    let (empty, full) = (target.queue("pull-empty"), target.queue("pull-full"));
    for number in 0..10 {
        assert_eq!(send(&mut connection, &full, &number.to_string()), number);
    }
    await_visible(&mut connection, &full, 10);
    // (queue, offset, code, next offset, messages): the table of Apache RocketMQ 5.4.0.
    let table = [
        (&full, -1, CODE_PULL_OFFSET_MOVED, 0, 0),
        (&full, i64::MIN, CODE_PULL_OFFSET_MOVED, 0, 0),
        (&full, 0, CODE_OK, 10, 10),
        (&full, 1, CODE_OK, 10, 9),
        (&full, 9, CODE_OK, 10, 1),
        (&full, 10, CODE_PULL_NOT_FOUND, 10, 0),
        (&full, 11, CODE_PULL_OFFSET_MOVED, 10, 0),
        (&full, 10 + 1_000_000, CODE_PULL_OFFSET_MOVED, 10, 0),
        (&full, i64::MAX, CODE_PULL_OFFSET_MOVED, 10, 0),
        (&empty, 0, CODE_PULL_NOT_FOUND, 0, 0),
        (&empty, 1, CODE_PULL_OFFSET_MOVED, 0, 0),
        (&empty, -1, CODE_PULL_OFFSET_MOVED, 0, 0),
        (&empty, 1_000_000, CODE_PULL_OFFSET_MOVED, 0, 0),
    ];
    let mut faults = Vec::new();
    for (queue, offset, code, next, count) in table {
        let pulled = pull(&mut connection, queue, offset);
        let max = if *queue == full { 10 } else { 0 };
        let got = (pulled.code, pulled.next_offset, pulled.records.len(), pulled.min_offset, pulled.max_offset);
        if got != (code, next, count, 0, max) {
            faults.push(format!("{} at {offset}: {got:?}, not {:?}", queue.topic, (code, next, count, 0, max)));
        }
        for (record, expected) in pulled.records.iter().zip(offset.max(0)..) {
            assert_eq!(i64::try_from(record.queue_offset).expect("small"), expected);
            assert_eq!(record.body, expected.to_string().into_bytes());
        }
    }
    assert!(faults.is_empty(), "(code, next, messages, min, max):\n{}", faults.join("\n"));
    let beyond = Queue::new(&full.topic, 1);
    for (queue, code) in [(&beyond, CODE_INVALID_PARAMETER), (&Queue::new(&unique_name("nobody"), 0), 17)] {
        let answer = connection.call(&request::pull("harness-reader", queue, 0, 1)).expect("a pull is answered");
        assert_eq!(answer.code, code, "{queue:?}: {answer:?}");
    }
}

#[test]
fn a_held_pull_is_woken_by_its_message_and_ends_in_time() {
    let target = Target::start("held");
    let mut connection = target.connect();
    let queue = target.queue("held");
    let started = Instant::now();
    let answer = connection.call(&request::pull_waiting("harness-reader", &queue, 0, 1_500)).expect("it is answered");
    assert_eq!(answer.code, CODE_PULL_NOT_FOUND, "{answer:?}");
    assert!(started.elapsed() >= Duration::from_millis(1_400), "held only {:?}", started.elapsed());
    // Apache looks at held pulls every 5 s, so its end comes later than asked.
    assert!(started.elapsed() < Duration::from_secs(8), "held {:?}", started.elapsed());

    let mut sender = target.connect();
    for number in 0..20 {
        let wait = request::pull_waiting("harness-reader", &queue, number, 15_000);
        connection.send(&wait).expect("a pull can be sent");
        let sent = Instant::now();
        send(&mut sender, &queue, &number.to_string());
        let pulled = Pulled::of(&connection.receive().expect("the pull is answered")).expect("not refused");
        assert_eq!(pulled.records.len(), 1, "{pulled:?}");
        assert!(sent.elapsed() < Duration::from_secs(2), "message {number} woke its pull after {:?}", sent.elapsed());
    }
}

#[test]
fn b12_a_search_by_time_finds_the_message_on_both_sides() {
    const MESSAGES: i64 = 10;
    const GAP: Duration = Duration::from_millis(30);
    let target = Target::start("times");
    let mut connection = target.connect();
    let queue = target.queue("times");
    for number in 0..MESSAGES {
        send(&mut connection, &queue, &number.to_string());
        // The messages must differ in their times: that is what is searched for.
        thread::sleep(GAP);
    }
    await_visible(&mut connection, &queue, MESSAGES);
    let records = read_queue(&mut connection, &queue, 0).expect("the queue can be read");
    let times: Vec<u64> = records.iter().map(|record| record.store_ms).collect();
    assert_eq!(times.len(), 10);
    assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
    let mut cases = Vec::new();
    for (index, time) in (0i64..).zip(&times) {
        cases.push((*time, "LOWER", index));
        cases.push((*time, "UPPER", index));
        cases.push((*time + 1, "LOWER", index + 1));
        cases.push((*time + 1, "UPPER", index));
        cases.push((*time - 1, "LOWER", index));
        cases.push((*time - 1, "UPPER", (index - 1).max(0)));
    }
    let (first, last) = (times[0], times[9]);
    cases.extend([(0, "LOWER", 0), (first - 60_000, "LOWER", 0), (first - 60_000, "UPPER", 0)]);
    cases.extend([(last + 60_000, "LOWER", MESSAGES), (u64::MAX >> 1, "LOWER", MESSAGES)]);
    cases.push((last + 60_000, "UPPER", MESSAGES - 1));
    let mut faults = Vec::new();
    for (time, boundary, expected) in cases {
        let answer = connection.call_ok(&request::offset_by_time(&queue, time, boundary)).expect("it is answered");
        let offset = answer.number("offset").expect("the answer has an offset");
        if offset != expected {
            let after_first = time.cast_signed() - first.cast_signed();
            faults.push(format!("{boundary} of first + {after_first} ms: {offset}, not {expected}"));
        }
    }
    assert!(faults.is_empty(), "store times {times:?}:\n{}", faults.join("\n"));
    let earliest = connection.call_ok(&request::about_queue(EARLIEST_TIME, &queue)).expect("it is answered");
    assert_eq!(earliest.number("timestamp").expect("it has a time"), first.cast_signed());
    let empty = target.queue("times-empty");
    for boundary in ["LOWER", "UPPER"] {
        let answer = connection.call_ok(&request::offset_by_time(&empty, first, boundary)).expect("it is answered");
        assert_eq!(answer.number("offset").expect("it has an offset"), 0, "an empty queue, {boundary}");
    }
    let answer = connection.call_ok(&request::about_queue(EARLIEST_TIME, &empty)).expect("it is answered");
    assert_eq!(answer.number("timestamp").expect("it has a time"), -1, "an empty queue");
}

/// A8 in the list of public faults.
#[test]
fn what_was_acknowledged_can_be_read_at_once() {
    const MESSAGES: u64 = 20_000;
    let target = Target::start_with(Dev::new("own-writes").property("flushDiskType=ASYNC_FLUSH"));
    if target.is_given() {
        return left_out("what_was_acknowledged_can_be_read_at_once", "Apache shows a message only after its answer");
    }
    read_own_writes(&target, MESSAGES);
}

#[test]
fn what_was_acknowledged_as_durable_can_be_read_at_once() {
    const MESSAGES: u64 = 2_000;
    let target = Target::start_with(Dev::new("own-durable-writes").property("flushDiskType=SYNC_FLUSH"));
    if target.is_given() {
        return left_out("what_was_acknowledged_as_durable_can_be_read_at_once", "as above");
    }
    read_own_writes(&target, MESSAGES);
}

/// Sends on one connection and reads on another, which may be served by another core.
fn read_own_writes(target: &Target, messages: u64) {
    let (mut sender, mut reader) = (target.connect(), target.connect());
    let topic = target.topic("own-writes", 8);
    let mut random = Random::new(8);
    for number in 0..messages {
        let queue = Queue::new(&topic, u32::try_from(random.below(8)).expect("below 8"));
        let body = format!("{number}-{}", "x".repeat(usize::try_from(random.below(600)).expect("small")));
        let offset = i64::try_from(send(&mut sender, &queue, &body)).expect("a small offset");
        let answer = reader.call(&request::pull("harness-reader", &queue, offset, 1)).expect("a pull is answered");
        let pulled = Pulled::of(&answer).expect("the pull is not refused");
        assert_eq!(pulled.code, CODE_OK, "message {number}, offset {offset} of {queue:?}: {pulled:?}");
        assert_eq!(pulled.records[0].body, body.into_bytes());
        assert_eq!(offset_of(&mut reader, MAX_OFFSET, &queue).expect("answered"), offset + 1);
    }
}

#[test]
fn b13_commits_are_kept_for_each_group_and_queue() {
    const QUEUES: u32 = 16;
    const ROUNDS: u32 = 200;
    let target = Target::start("commits");
    let topic = target.topic("commits", QUEUES);
    let mut connection = target.connect();
    for id in 0..QUEUES {
        for number in 0..3 {
            send(&mut connection, &Queue::new(&topic, id), &number.to_string());
        }
    }
    for round in 0..ROUNDS {
        let group = target.group(&mut connection, "commits");
        // Different members commit different queues of a new group at the same moment: none may be lost.
        thread::scope(|scope| {
            for id in 0..QUEUES {
                let (group, queue, target) = (&group, Queue::new(&topic, id), &target);
                scope.spawn(move || {
                    let commit = request::commit_offset(group, &queue, u64::from(id % 3));
                    target.connect().call_ok(&commit).expect("a commit is taken");
                });
            }
        });
        for id in 0..QUEUES {
            let asked = request::consumer_offset(&group, &Queue::new(&topic, id));
            let answer = connection.call_ok(&asked).expect("the offset is known");
            assert_eq!(answer.number("offset").expect("a number"), i64::from(id % 3), "round {round}, queue {id}");
        }
    }
    let group = target.group(&mut connection, "commits-none");
    let answer = connection.call(&request::consumer_offset(&group, &Queue::new(&topic, 0))).expect("answered");
    assert_eq!(answer.code, CODE_NOT_FOUND, "a group that never committed: {answer:?}");
}

#[test]
fn offsets_and_topics_survive_a_restart() {
    if std::env::var_os(harness::target::TARGET_VARIABLE).is_some() {
        return left_out("offsets_and_topics_survive_a_restart", "the given servers are not ours to restart");
    }
    let dev = Dev::new("restart");
    let topic = unique_name("restart");
    let group = unique_name("restart");
    let mut running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("the broker accepts connections");
    connection.call_ok(&request::create_topic(&topic, 3)).expect("a topic can be made");
    connection.call_ok(&request::heartbeat("restart-client", &group)).expect("a heartbeat is taken");
    for id in 0..3u32 {
        for number in 0..100u32 {
            send(&mut connection, &Queue::new(&topic, id), &format!("{id}-{number}"));
        }
        let commit = request::commit_offset(&group, &Queue::new(&topic, id), u64::from(id) * 10);
        connection.call_ok(&commit).expect("a commit is taken");
    }
    assert_eq!(running.stop(), Some(0), "SIGTERM ends with 0: {}", running.log());
    for round in 0..2 {
        let mut running = dev.start();
        let mut connection = Connection::open(&dev.broker).expect("the broker accepts connections");
        connection.call_ok(&request::heartbeat("restart-client", &group)).expect("a heartbeat is taken");
        for id in 0..3u32 {
            let queue = Queue::new(&topic, id);
            let answer = connection.call_ok(&request::consumer_offset(&group, &queue)).expect("the offset is known");
            assert_eq!(answer.number("offset").expect("a number"), i64::from(id) * 10, "round {round}, queue {id}");
            assert_eq!(offset_of(&mut connection, MIN_OFFSET, &queue).expect("answered"), 0);
            let records = read_queue(&mut connection, &queue, 0).expect("the queue can be read");
            let bodies: Vec<String> = records.iter().map(|r| String::from_utf8_lossy(&r.body).into_owned()).collect();
            assert_eq!(bodies, (0..100).map(|number| format!("{id}-{number}")).collect::<Vec<_>>());
        }
        let mut namesrv = Connection::open(&dev.namesrv).expect("the nameserver accepts connections");
        let route = namesrv.call_ok(&request::route(&topic)).expect("the topic is routed again");
        assert!(String::from_utf8_lossy(&route.body).contains("\"readQueueNums\":3"), "{route:?}");
        assert_eq!(running.stop(), Some(0), "SIGTERM ends with 0: {}", running.log());
    }
}

#[test]
fn b12_the_ends_of_a_queue_are_right_after_each_send() {
    let target = Target::start("ends");
    let mut connection = target.connect();
    let queue = target.queue("ends");
    assert_eq!(offset_of(&mut connection, MAX_OFFSET, &queue).expect("answered"), 0);
    assert_eq!(offset_of(&mut connection, MIN_OFFSET, &queue).expect("answered"), 0);
    let before = now_ms();
    for number in 0..50 {
        send(&mut connection, &queue, "x");
        if target.is_given() {
            await_visible(&mut connection, &queue, number + 1);
        }
        assert_eq!(offset_of(&mut connection, MAX_OFFSET, &queue).expect("answered"), number + 1);
        assert_eq!(offset_of(&mut connection, MIN_OFFSET, &queue).expect("answered"), 0);
    }
    let earliest = connection.call_ok(&request::about_queue(EARLIEST_TIME, &queue)).expect("answered");
    let earliest = u64::try_from(earliest.number("timestamp").expect("a number")).expect("not negative");
    assert!((before..=now_ms()).contains(&earliest), "{earliest} is not between {before} and now");
}
