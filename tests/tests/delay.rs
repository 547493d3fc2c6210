//! Messages that are delivered later: each once and never early, whatever happens to the broker meanwhile.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use base::Random;
use harness::connection::Connection;
use harness::process::Dev;
use harness::record::Record;
use harness::request::{
    self, CODE_MESSAGE_ILLEGAL, CODE_OK, CODE_PULL_NOT_FOUND, Queue, await_count, create_topic, pull_waiting,
    read_queue,
};
use harness::target::{TARGET_VARIABLE, Target};
use harness::{left_out, now_ms, unique_name};

const QUEUES: u32 = 8;
/// How long a delivery may take that is due: a debug build on a busy machine, and its restart.
const DELIVERED_WITHIN: Duration = Duration::from_secs(30);
const CODE_ILLEGAL_OPERATION: i32 = 604;

fn is_given(test: &str) -> bool {
    let given = std::env::var_os(TARGET_VARIABLE).is_some();
    if given {
        left_out(test, "the given servers are not ours to kill");
    }
    given
}

fn connect(dev: &Dev) -> Connection {
    Connection::open(&dev.broker).expect("the broker takes connections")
}

/// What was sent: by its body, the first moment at which it may be delivered.
type Sent = BTreeMap<String, u64>;

/// Sends all, one behind the other without waiting, then takes the answers.
fn send_all(connection: &mut Connection, topic: &str, messages: &[(String, String)]) {
    for (number, (body, properties)) in messages.iter().enumerate() {
        let queue = Queue::new(topic, number as u32 % QUEUES);
        connection.send(&request::send(&queue, body.as_str(), properties)).expect("sent");
    }
    for _ in messages {
        let answer = connection.receive().expect("answered");
        assert_eq!(answer.code, CODE_OK, "{}", answer.remark);
    }
}

/// Waits until so many messages are there, then reads all queues.
fn read_all(connection: &mut Connection, topic: &str, count: usize) -> Vec<Record> {
    let deadline = Instant::now() + DELIVERED_WITHIN;
    loop {
        let read = |id| read_queue(connection, &Queue::new(topic, id), 0).expect("a queue can be read");
        let records: Vec<Record> = (0..QUEUES).flat_map(read).collect();
        if records.len() >= count || Instant::now() > deadline {
            return records;
        }
        // The next message wakes this pull; which queue it comes to is not known, so it waits for a moment only.
        let end = records.iter().filter(|record| record.queue_id == 0).count();
        connection.call(&pull_waiting("harness-reader", &Queue::new(topic, 0), end as i64, 50)).expect("answered");
    }
}

/// Fails unless each was delivered exactly once and not early.
fn check(records: &[Record], sent: &Sent) {
    let mut delivered: BTreeMap<String, u32> = BTreeMap::new();
    for record in records {
        let body = String::from_utf8(record.body.clone()).expect("a text");
        let due = sent.get(&body).unwrap_or_else(|| panic!("{body} was never sent"));
        assert!(record.store_ms >= *due, "{body} came {} ms early", due - record.store_ms);
        *delivered.entry(body).or_default() += 1;
    }
    let doubled: Vec<_> = delivered.iter().filter(|(_, count)| **count > 1).collect();
    assert!(doubled.is_empty(), "delivered more than once: {doubled:?}");
    let lost: Vec<_> = sent.keys().filter(|body| !delivered.contains_key(*body)).collect();
    assert!(lost.is_empty(), "{} of {} were not delivered: {lost:?}", lost.len(), sent.len());
}

#[test]
fn killed_while_it_delivers_it_loses_doubles_and_hastens_none() {
    const ROUNDS: usize = 5;
    const MESSAGES: usize = 600;
    let test = "killed_while_it_delivers_it_loses_doubles_and_hastens_none";
    if is_given(test) {
        return;
    }
    let seed = std::env::var("RINGMQ_KILL9_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(now_ms);
    println!("{test}: RINGMQ_KILL9_SEED={seed}");
    let mut random = Random::new(seed);
    for flush in ["SYNC_FLUSH", "ASYNC_FLUSH"] {
        let dev = Dev::new("delay-kill").property(&format!("flushDiskType={flush}"));
        let topic = unique_name("delay-kill");
        let mut sent = Sent::new();
        let mut running = dev.start();
        connect(&dev).call_ok(&create_topic(&topic, QUEUES)).expect("a topic can be made");
        for round in 0..ROUNDS {
            // Two thirds are due at one moment, so that the kill meets groups of deliveries; the others come by a level.
            let due = now_ms() + 1_500;
            let messages: Vec<_> = (0..MESSAGES)
                .map(|number| {
                    let by_level = number % 3 == 0;
                    let earliest = if by_level { now_ms() + 1_000 } else { due };
                    let properties = if by_level {
                        "DELAY\u{1}1\u{2}".to_owned()
                    } else {
                        format!("TIMER_DELIVER_MS\u{1}{due}\u{2}")
                    };
                    let body = format!("{round}-{number}");
                    sent.insert(body.clone(), earliest);
                    (body, properties)
                })
                .collect();
            send_all(&mut connect(&dev), &topic, &messages);
            // Not a wait for an event: the moment of the kill is what is drawn.
            let kill_at = due + random.below(120);
            thread::sleep(Duration::from_millis(kill_at.saturating_sub(now_ms())));
            running.kill();
            running = dev.start();
        }
        check(&read_all(&mut connect(&dev), &topic, sent.len()), &sent);
        // A clean stop and another start bring nothing again.
        assert_eq!(running.stop(), Some(0), "{}", running.log());
        let _running = dev.start();
        check(&read_all(&mut connect(&dev), &topic, sent.len()), &sent);
    }
}

#[test]
fn what_was_due_while_the_broker_was_away_comes_at_its_start() {
    if is_given("what_was_due_while_the_broker_was_away_comes_at_its_start") {
        return;
    }
    let dev = Dev::new("delay-away");
    let topic = unique_name("delay-away");
    let mut running = dev.start();
    let mut connection = connect(&dev);
    connection.call_ok(&create_topic(&topic, QUEUES)).expect("a topic can be made");
    let now = now_ms();
    let sent: Sent = (0..40).map(|number| (format!("m{number}"), now + 200 + 50 * number)).collect();
    let messages: Vec<_> =
        sent.iter().map(|(body, due)| (body.clone(), format!("TIMER_DELIVER_MS\u{1}{due}\u{2}"))).collect();
    send_all(&mut connection, &topic, &messages);
    assert_eq!(running.stop(), Some(0), "{}", running.log());
    let until_all_due = (now + 200 + 50 * 40).saturating_sub(now_ms());
    thread::sleep(Duration::from_millis(until_all_due));
    let _running = dev.start();
    check(&read_all(&mut connect(&dev), &topic, sent.len()), &sent);
}

#[test]
fn a_delayed_message_comes_as_it_was_sent() {
    let target = Target::start("delay-kept");
    let mut connection = target.connect();
    let queue = Queue::new(&target.topic("delay-kept", 4), 3);
    for wish in ["DELAY\u{1}1\u{2}", "TIMER_DELAY_MS\u{1}1200\u{2}", "TIMER_DELAY_SEC\u{1}1\u{2}"] {
        let start = now_ms();
        let properties =
            format!("TAGS\u{1}t\u{2}KEYS\u{1}k1 k2\u{2}mine\u{1}grün\u{2}UNIQ_KEY\u{1}U{start}\u{2}{wish}");
        let before = read_queue(&mut connection, &queue, 0).expect("readable").len();
        let answer = connection.call_ok(&request::send(&queue, "later", &properties)).expect("stored");
        assert_eq!(answer.number("queueId").expect("told"), 3, "the queue that was asked for");
        let pull = request::pull("harness-reader", &queue, before as i64, 32);
        assert_eq!(connection.call(&pull).expect("answered").code, CODE_PULL_NOT_FOUND, "nothing is seen before");
        assert!(await_count(&mut connection, &queue, before as i64 + 1), "{wish:?} does not come");
        let record = read_queue(&mut connection, &queue, 0).expect("readable").pop().expect("one");
        let spread = if target.is_given() { 1_000 } else { 0 };
        assert!(record.store_ms + spread >= start + 1_000, "{wish:?} came early");
        assert_eq!((record.topic.as_str(), record.queue_id, record.body.as_slice()), (&*queue.topic, 3, &b"later"[..]));
        for (name, value) in [("TAGS", "t"), ("KEYS", "k1 k2"), ("mine", "grün"), ("REAL_QID", "3")] {
            assert_eq!(record.property(name), Some(value), "{wish:?}");
        }
        assert_eq!(record.property("UNIQ_KEY"), Some(&*format!("U{start}")));
    }
}

#[test]
fn wishes_that_cannot_be_met_are_refused() {
    let target = Target::start("delay-refused");
    let mut connection = target.connect();
    let queue = target.queue("delay-refused");
    let far = now_ms() + 10 * 24 * 3_600_000;
    for wish in [format!("TIMER_DELIVER_MS\u{1}{far}\u{2}"), "TIMER_DELAY_SEC\u{1}soon\u{2}".to_owned()] {
        let answer = connection.call(&request::send(&queue, "x", &wish)).expect("answered");
        assert_eq!(answer.code, CODE_MESSAGE_ILLEGAL, "{wish:?}: {}", answer.remark);
    }
    target.assert_alive();
}

#[test]
fn what_was_taken_back_never_comes_though_the_broker_is_killed() {
    if is_given("what_was_taken_back_never_comes_though_the_broker_is_killed") {
        return;
    }
    let dev = Dev::new("delay-recall").property("recallMessageEnable=true");
    let topic = unique_name("delay-recall");
    let mut running = dev.start();
    let mut connection = connect(&dev);
    connection.call_ok(&create_topic(&topic, QUEUES)).expect("a topic can be made");
    let due = now_ms() + 2_500;
    let mut sent = Sent::new();
    let mut handles = Vec::new();
    for number in 0..40_u32 {
        let queue = Queue::new(&topic, number % QUEUES);
        let properties = format!("TIMER_DELIVER_MS\u{1}{due}\u{2}UNIQ_KEY\u{1}U{number}\u{2}");
        let answer = connection.call_ok(&request::send(&queue, format!("m{number}"), &properties)).expect("stored");
        let handle = answer.fields.get("recallHandle").expect("a handle").clone();
        if number % 2 == 0 {
            let recalled = connection.call_ok(&request::recall(&topic, &handle)).expect("taken back");
            assert_eq!(recalled.fields.get("msgId"), Some(&format!("U{number}")));
            handles.push(handle);
        } else {
            sent.insert(format!("m{number}"), due);
        }
    }
    running.kill();
    let _running = dev.start();
    let mut connection = connect(&dev);
    // One that is sent afterwards, and due afterwards, comes behind all others.
    let properties = format!("TIMER_DELIVER_MS\u{1}{}\u{2}", due + 500);
    let queue = Queue::new(&topic, 0);
    connection.call_ok(&request::send(&queue, "last", &properties)).expect("stored");
    sent.insert("last".to_owned(), due + 500);
    check(&read_all(&mut connection, &topic, sent.len()), &sent);
    for handle in handles.iter().map(String::as_str).chain(["broken"]) {
        let answer = connection.call(&request::recall(&topic, handle)).expect("answered");
        assert_eq!(answer.code, CODE_ILLEGAL_OPERATION, "{}", answer.remark);
    }
}
