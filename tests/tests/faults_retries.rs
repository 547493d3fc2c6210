//! Public faults of such brokers about retries, dead letters, delays and order, replayed: each test is named after its
//! entry in the list of them.

use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::frame::Frame;
use harness::process::Dev;
use harness::record::Record;
use harness::request::{
    CODE_OK, LOCK_QUEUES, MAX_OFFSET, Pulled, Queue, commit_offset, create_topic, heartbeat, offset_of, pull,
    read_queue, read_queue_of, route, send, send_back,
};
use harness::target::{TARGET_VARIABLE, Target};
use harness::{left_out, now_ms, unique_name};
use serde_json::{Value, json};

fn retry_queue(group: &str) -> Queue {
    Queue::new(&format!("%RETRY%{group}"), 0)
}

fn dead_queue(group: &str) -> Queue {
    Queue::new(&format!("%DLQ%{group}"), 0)
}

fn sent(connection: &mut Connection, queue: &Queue, body: &str, properties: &str) -> Record {
    let at = offset_of(connection, MAX_OFFSET, queue).expect("answered");
    connection.call_ok(&send(queue, body, properties)).expect("stored");
    read_queue_of(connection, queue, usize::try_from(at).expect("small") + 1).pop().expect("it is there")
}

#[test]
fn c1_the_last_failure_leads_to_the_dead_letters_without_another_delay() {
    let target = Target::start("c1");
    let mut connection = target.connect();
    let (queue, group) = (target.queue("c1"), target.group(&mut connection, "c1"));
    let back = |offset| send_back(&group, offset, 1).field("maxReconsumeTimes", 2);
    let mut last = sent(&mut connection, &queue, "x", "");
    for times in 1..=2 {
        connection.call_ok(&back(last.physical_offset)).expect("taken");
        last = read_queue_of(&mut connection, &retry_queue(&group), times).remove(times - 1);
    }
    let failed_ms = now_ms();
    connection.call_ok(&back(last.physical_offset)).expect("taken");
    let dead = read_queue_of(&mut connection, &dead_queue(&group), 1).remove(0);
    assert!(dead.store_ms <= failed_ms + 2_000, "{} ms later", dead.store_ms - failed_ms);
}

#[test]
fn c2_dead_letters_have_one_queue_that_can_be_read() {
    let target = Target::start("c2");
    let mut connection = target.connect();
    let (queue, group) = (target.queue("c2"), target.group(&mut connection, "c2"));
    let first = sent(&mut connection, &queue, "x", "");
    connection.call_ok(&send_back(&group, first.physical_offset, -1)).expect("taken");
    let answer = target.connect_namesrv().call_ok(&route(&dead_queue(&group).topic)).expect("a route");
    let route: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let data = &route["queueDatas"][0];
    assert_eq!((data["readQueueNums"].as_u64(), data["perm"].as_u64()), (Some(1), Some(6)), "{route}");
    assert_eq!(read_queue_of(&mut connection, &dead_queue(&group), 1).len(), 1);
}

#[test]
fn c4_a_new_group_has_its_retry_topic_at_once() {
    let target = Target::start("c4");
    let mut connection = target.connect();
    let group = target.group(&mut connection, "c4");
    let mut namesrv = target.connect_namesrv();
    let until = Instant::now() + Duration::from_secs(1);
    while namesrv.call(&route(&retry_queue(&group).topic)).expect("answered").code != CODE_OK {
        assert!(Instant::now() < until, "no route of the retry topic a second after the heartbeat");
    }
    let stats = Frame::request(208).field("consumerGroup", &group);
    assert_eq!(connection.call(&stats).expect("answered").code, CODE_OK);
}

#[test]
fn c5_a_name_with_a_namespace_is_a_name() {
    let target = Target::start("c5");
    let mut connection = target.connect();
    let plain = unique_name("c5");
    let (group, queue) = (format!("ns1%{plain}"), Queue::new(&format!("ns1%{plain}"), 0));
    for topic in [&plain, &queue.topic] {
        connection.call_ok(&create_topic(topic, 1)).expect("made");
    }
    connection.call_ok(&heartbeat("c", &group)).expect("taken");
    let first = sent(&mut connection, &queue, "x", "");
    connection.call_ok(&send_back(&group, first.physical_offset, 1)).expect("taken");
    let again = read_queue_of(&mut connection, &retry_queue(&group), 1).remove(0);
    assert_eq!(again.property("RETRY_TOPIC"), Some(queue.topic.as_str()));
    connection.call_ok(&send_back(&group, again.physical_offset, -1)).expect("taken");
    assert_eq!(read_queue_of(&mut connection, &dead_queue(&group), 1).len(), 1);
    assert_eq!(offset_of(&mut connection, MAX_OFFSET, &Queue::new(&plain, 0)).expect("answered"), 0);
}

#[test]
fn c7_delayed_messages_come_once_over_several_restarts() {
    let name = "c7_delayed_messages_come_once_over_several_restarts";
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(name, "it needs a process of its own");
    }
    let dev = Dev::new("c7").property("messageDelayLevel=1s 6s 1h");
    let topic = unique_name("c7");
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic(&topic, 2)).expect("made");
    let mut pending_from_ms = 0;
    for (id, level) in [(0, 1), (1, 2)] {
        let queue = Queue::new(&topic, id);
        pending_from_ms = now_ms();
        for number in 0..200 {
            let request = send(&queue, number.to_string(), &format!("DELAY\u{1}{level}\u{2}"));
            connection.call_ok(&request).expect("stored");
        }
    }
    assert_eq!(read_queue_of(&mut connection, &Queue::new(&topic, 0), 200).len(), 200);
    for _ in 0..2 {
        assert_eq!(process.stop(), Some(0));
        process = dev.start();
    }
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    let late = read_queue_of(&mut connection, &Queue::new(&topic, 1), 200);
    assert_eq!(late.len(), 200);
    assert!(late.iter().all(|record| record.store_ms >= pending_from_ms + 6_000), "none is early");
    let early = read_queue(&mut connection, &Queue::new(&topic, 0), 0).expect("it can be read");
    assert_eq!(early.len(), 200, "what was delivered does not come again");
}

#[test]
fn c12_a_lock_is_renewed_by_its_holder_and_refused_to_others() {
    let target = Target::start("c12");
    let (mut one, mut other) = (target.connect(), target.connect());
    let group = target.group(&mut one, "c12");
    let lock = |connection: &mut Connection, client: &str, queues: &[u32]| {
        let queues: Vec<_> = queues.iter().map(|id| json!({"topic": "T", "brokerName": "b", "queueId": id})).collect();
        let body = json!({"consumerGroup": group, "clientId": client, "mqSet": queues}).to_string();
        let answer = connection.call_ok(&Frame::request(LOCK_QUEUES).body(body)).expect("answered");
        let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let locked = answer["lockOKMQSet"].as_array().expect("a list").iter();
        let mut locked: Vec<u64> = locked.map(|queue| queue["queueId"].as_u64().expect("a queue")).collect();
        locked.sort_unstable();
        locked
    };
    assert_eq!(lock(&mut one, "one", &[0, 1]), [0, 1]);
    for _ in 0..3 {
        assert_eq!(lock(&mut one, "one", &[0, 1]), [0, 1], "renewed");
        assert_eq!(lock(&mut other, "other", &[0, 1, 2]), [2], "exactly those that are free");
    }
}

#[test]
fn c13_a_retry_passes_the_filter_that_its_first_delivery_passed() {
    let target = Target::start_with(Dev::new("c13").property("enablePropertyFilter=true"));
    let mut connection = target.connect();
    let (queue, group) = (target.queue("c13"), target.group(&mut connection, "c13"));
    let first = sent(&mut connection, &queue, "x", "TAGS\u{1}TagA\u{2}a\u{1}6\u{2}");
    connection.call_ok(&send_back(&group, first.physical_offset, 1)).expect("taken");
    let retry = retry_queue(&group);
    assert_eq!(read_queue_of(&mut connection, &retry, 1).len(), 1);
    let mut found = |kind: &str, expression: &str| {
        let request = pull(&group, &retry, 0, 32).field("subscription", expression).field("expressionType", kind);
        Pulled::of(&connection.call(&request).expect("answered")).expect("a pull").records.len()
    };
    assert_eq!([found("TAG", "*"), found("TAG", "TagA"), found("TAG", "TagB")], [1, 1, 0]);
    assert_eq!([found("SQL92", "a > 5"), found("SQL92", "a > 6")], [1, 0]);
}

#[test]
fn c14_a_message_sent_back_is_stored_when_that_is_answered() {
    let name = "c14_a_message_sent_back_is_stored_when_that_is_answered";
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(name, "it kills the broker");
    }
    let dev = Dev::new("c14");
    let (topic, group) = (unique_name("c14"), unique_name("c14"));
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic(&topic, 4)).expect("made");
    connection.call_ok(&heartbeat("c", &group)).expect("taken");
    let mut taken = Vec::new();
    for number in 0..40u32 {
        let record = sent(&mut connection, &Queue::new(&topic, number % 4), &number.to_string(), "");
        connection.call_ok(&send_back(&group, record.physical_offset, 1)).expect("taken");
        taken.push(number.to_string());
    }
    process.kill();
    let _process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    let again = read_queue_of(&mut connection, &retry_queue(&group), taken.len());
    let mut again: Vec<String> =
        again.into_iter().map(|record| String::from_utf8(record.body).expect("text")).collect();
    again.sort();
    taken.sort();
    assert_eq!(again, taken, "each once");
    thread::sleep(Duration::from_millis(300));
    let dead = connection.call(&pull("harness-reader", &dead_queue(&group), 0, 1)).expect("answered");
    assert_ne!(dead.code, CODE_OK, "none is dead: {dead:?}");
}

#[test]
fn c6_an_ordered_message_that_always_fails_is_given_up_and_the_next_ones_go_on() {
    let target = Target::start("c6");
    let mut connection = target.connect();
    let (queue, group) = (target.queue("c6"), target.group(&mut connection, "c6"));
    for body in ["bad", "next", "last"] {
        sent(&mut connection, &queue, body, "");
    }
    let lock = json!({"consumerGroup": group, "clientId": "c", "mqSet": [
        {"topic": queue.topic, "brokerName": "b", "queueId": 0}]});
    connection.call_ok(&Frame::request(LOCK_QUEUES).body(lock.to_string())).expect("locked");
    let mut done = Vec::new();
    let mut offset = 0;
    while done.len() < 2 {
        let pulled = Pulled::of(&connection.call(&pull(&group, &queue, offset, 1)).expect("answered")).expect("a pull");
        let record = &pulled.records[0];
        if record.body == b"bad" {
            // A client that consumes in order tries by itself, here three times, then sends the message away.
            let properties = format!("{}RETRY_TOPIC\u{1}{}\u{2}DELAY\u{1}6\u{2}", record.properties, queue.topic);
            let given_up = send(&retry_queue(&group), record.body.clone(), &properties).field("j", 3).field("l", 3);
            connection.call_ok(&given_up).expect("taken");
        } else {
            done.push(String::from_utf8(record.body.clone()).expect("text"));
        }
        offset = pulled.next_offset;
        connection.call_ok(&commit_offset(&group, &queue, offset.unsigned_abs())).expect("committed");
    }
    assert_eq!(done, ["next", "last"]);
    let dead = read_queue_of(&mut connection, &dead_queue(&group), 1);
    assert_eq!(dead.iter().map(|record| &record.body[..]).collect::<Vec<_>>(), [b"bad"], "at once, without a delay");
    assert_eq!(offset_of(&mut connection, MAX_OFFSET, &retry_queue(&group)).expect("answered"), 0);
}

/// A broker of its own with one topic, or `None` when the servers are given.
fn own(name: &str, properties: &[&str]) -> Option<(Dev, String)> {
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        left_out(name, "it needs a process of its own");
        return None;
    }
    let dev = properties.iter().fold(Dev::new(name), |dev, property| dev.property(property));
    Some((dev, unique_name(name)))
}

fn connect(dev: &Dev) -> Connection {
    Connection::open(&dev.broker).expect("it listens")
}

#[test]
fn c8_a_delay_goes_on_over_a_restart() {
    let Some((dev, topic)) = own("c8", &["messageDelayLevel=1s 8s"]) else { return };
    let (short, long) = (Queue::new(&topic, 0), Queue::new(&topic, 1));
    let mut process = dev.start();
    let mut connection = connect(&dev);
    connection.call_ok(&create_topic(&topic, 2)).expect("made");
    let begun = now_ms();
    connection.call_ok(&send(&long, "later", "DELAY\u{1}2\u{2}")).expect("held");
    connection.call_ok(&send(&short, "past", "DELAY\u{1}1\u{2}")).expect("held");
    assert_eq!(process.stop(), Some(0));
    thread::sleep(Duration::from_millis((begun + 1_500).saturating_sub(now_ms())));
    let _process = dev.start();
    let ready = now_ms();
    let mut connection = connect(&dev);
    let past = read_queue_of(&mut connection, &short, 1).remove(0);
    assert!(past.store_ms <= ready + 5_000, "what was due while it was away comes {} ms late", past.store_ms - ready);
    let later = read_queue_of(&mut connection, &long, 1).remove(0);
    let waited = later.store_ms - begun;
    assert!(waited >= 8_000, "{waited} ms: the restart must not shorten the delay");
    // Counted from when it could be: the start may have taken longer than the delay.
    let due = (begun + 8_000).max(ready);
    assert!(later.store_ms <= due + 2_000, "{waited} ms: nor begin it anew");
}

#[test]
fn c9_files_about_delays_decide_nothing() {
    let Some((dev, topic)) = own("c9", &["messageDelayLevel=1s 3s"]) else { return };
    let queue = Queue::new(&topic, 0);
    let mut process = dev.start();
    let mut connection = connect(&dev);
    connection.call_ok(&create_topic(&topic, 1)).expect("made");
    connection.call_ok(&send(&queue, "before", "DELAY\u{1}2\u{2}")).expect("held");
    assert_eq!(process.stop(), Some(0));
    // Where Apache's broker keeps how far each level is; and all that is derived from our logs.
    let config = dev.store().join("store").join("config");
    let offsets = "{\"offsetTable\":{1:1000000000,2:1000000000,3:1000000000}}";
    std::fs::write(config.join("delayOffset.json"), offsets).expect("written");
    for log in 0..dev.logs {
        let queues = dev.store().join("store").join(format!("log-{log:02}")).join("queues");
        std::fs::remove_dir_all(&queues).unwrap_or_else(|error| panic!("{}: {error}", queues.display()));
    }
    let _process = dev.start();
    let mut connection = connect(&dev);
    connection.call_ok(&send(&queue, "after", "DELAY\u{1}2\u{2}")).expect("held");
    let came = read_queue_of(&mut connection, &queue, 2);
    assert_eq!(came.iter().map(|record| &record.body[..]).collect::<Vec<_>>(), [&b"before"[..], b"after"]);
}

#[test]
fn c10_deliveries_that_find_no_room_are_tried_again_and_come_once() {
    const COUNT: usize = 4_000;
    // A group of deliveries is larger than what may wait for its write: nearly each is refused at first.
    let properties = ["maxMessageSize=20000", "unwrittenBytesMax=100000"];
    let Some((dev, topic)) = own("c10", &properties) else { return };
    let _process = dev.start();
    let mut connection = connect(&dev);
    connection.call_ok(&create_topic(&topic, 8)).expect("made");
    let due = now_ms() + 15_000;
    let properties = format!("TIMER_DELIVER_MS\u{1}{due}\u{2}");
    for batch in 0..COUNT / 100 {
        for number in batch * 100..(batch + 1) * 100 {
            let body = format!("{number:>1000}");
            connection.send(&send(&Queue::new(&topic, number as u32 % 8), body, &properties)).expect("sent");
        }
        for _ in 0..100 {
            let answer = connection.receive().expect("answered");
            assert_eq!(answer.code, CODE_OK, "{}", answer.remark);
        }
    }
    assert!(now_ms() < due, "the machine is too slow for this test: the messages are due already");
    thread::sleep(Duration::from_millis(due.saturating_sub(now_ms())));
    // Others send meanwhile, into the same logs.
    let until = Instant::now() + Duration::from_secs(60);
    let beside = Queue::new(&topic, 3);
    let mut count = 0;
    let mut others = 0;
    while count < COUNT as i64 {
        assert!(Instant::now() < until, "{count} of {COUNT}");
        connection.call_ok(&send(&beside, "beside", "")).expect("stored");
        others += 1;
        let ends = (0..8).map(|id| offset_of(&mut connection, MAX_OFFSET, &Queue::new(&topic, id)).expect("answered"));
        count = ends.sum::<i64>() - others;
    }
    let mut came = Vec::new();
    for id in 0..8 {
        let records = read_queue(&mut connection, &Queue::new(&topic, id), 0).expect("readable");
        came.extend(records.into_iter().filter(|record| record.body != b"beside"));
    }
    assert!(came.iter().all(|record| record.store_ms >= due), "none is early");
    let mut numbers: Vec<usize> =
        came.iter().map(|record| String::from_utf8_lossy(&record.body).trim().parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..COUNT).collect::<Vec<_>>(), "none lost, none twice");
}

#[test]
fn c11_timed_messages_are_never_early_and_hardly_late_over_a_kill() {
    const COUNT: u64 = 2_000;
    const SPREAD_MS: u64 = 12_000;
    let Some((dev, topic)) = own("c11", &[]) else { return };
    let mut process = dev.start();
    let mut connection = connect(&dev);
    connection.call_ok(&create_topic(&topic, 4)).expect("made");
    let begun = now_ms() + 3_000;
    let due_of = |number: u64| begun + number * SPREAD_MS / COUNT;
    for number in 0..COUNT {
        let properties = format!("TIMER_DELIVER_MS\u{1}{}\u{2}", due_of(number));
        connection.send(&send(&Queue::new(&topic, number as u32 % 4), number.to_string(), &properties)).expect("sent");
    }
    for _ in 0..COUNT {
        assert_eq!(connection.receive().expect("answered").code, CODE_OK);
    }
    let sent = now_ms();
    thread::sleep(Duration::from_millis((begun + SPREAD_MS / 3).saturating_sub(now_ms())));
    let killed = now_ms();
    process.kill();
    let _process = dev.start();
    let ready = now_ms();
    let mut connection = connect(&dev);
    thread::sleep(Duration::from_millis((begun + SPREAD_MS).saturating_sub(now_ms())));
    let mut came = vec![0; COUNT as usize];
    let mut latest = 0;
    for id in 0..4 {
        for record in read_queue_of(&mut connection, &Queue::new(&topic, id), COUNT as usize / 4) {
            let number: u64 = String::from_utf8_lossy(&record.body).parse().expect("a number");
            came[number as usize] += 1;
            assert!(record.store_ms >= due_of(number), "{number} came early");
            // While the broker is away nothing comes; what was sent too late for its time came at once.
            let away = if (killed..ready).contains(&due_of(number)) { ready } else { 0 };
            let possible = due_of(number).max(away).max(if due_of(number) < sent { sent } else { 0 });
            latest = latest.max(record.store_ms.saturating_sub(possible));
        }
    }
    assert!(came.iter().all(|times| *times == 1), "each once");
    assert!(latest <= 1_200, "{latest} ms late");
}
