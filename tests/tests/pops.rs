//! POP consumption: nothing lost, nothing twice without need, whatever core a queue or a client is on.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::frame::Frame;
use harness::pop::{
    BATCH_ACK, CODE_POLLING_TIMEOUT, NOTIFICATION, PEEK, Popped, QUERY_ASSIGNMENT, SET_REQUEST_MODE, pop, property,
};
use harness::process::Dev;
use harness::record::decode_all;
use harness::request::{
    CODE_INVALID_PARAMETER, CODE_OK, CODE_PULL_NOT_FOUND, CODE_SYSTEM_ERROR, Queue, UPDATE_GROUP, await_count,
    create_topic, heartbeat, send,
};
use harness::target::{TARGET_VARIABLE, Target};
use harness::{left_out, unique_name};

const QUEUES: u32 = 8;
/// A group has popped all that it can when it found nothing for so long.
const POLL_MS: u64 = 300;
const LONG_MS: u64 = 60_000;

/// A topic with messages in each queue, and a group that has consumed nothing.
fn prepare(connection: &mut Connection, stem: &str, queues: u32, messages: u32) -> (String, String, BTreeSet<String>) {
    let (topic, group) = (unique_name(stem), unique_name("group"));
    connection.call_ok(&create_topic(&topic, queues)).expect("the topic is made");
    connection.call_ok(&heartbeat("popper", &group)).expect("the group is made");
    let bodies: Vec<String> = (0..messages).map(|number| format!("m{number}")).collect();
    for (number, body) in (0..).zip(&bodies) {
        connection.call_ok(&send(&Queue::new(&topic, number % queues), body.as_str(), "")).expect("stored");
    }
    (topic, group, bodies.into_iter().collect())
}

fn popped(connection: &mut Connection, request: &Frame) -> Vec<Popped> {
    Popped::all_of(&connection.call(request).expect("a pop is answered")).expect("an answer of a pop")
}

/// Pops until there is nothing more.
fn pop_all(connection: &mut Connection, group: &str, topic: &str, invisible_ms: u64) -> Vec<Popped> {
    let mut all = Vec::new();
    loop {
        let more = popped(connection, &pop(group, topic, invisible_ms, POLL_MS));
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

fn bodies(messages: &[Popped]) -> BTreeSet<String> {
    messages.iter().map(Popped::body).collect()
}

/// Pops until `count` messages came.
fn pop_some(connection: &mut Connection, group: &str, topic: &str, count: usize) -> Vec<Popped> {
    let until = Instant::now() + Duration::from_secs(20);
    let mut all = Vec::new();
    while all.len() < count && Instant::now() < until {
        all.extend(popped(connection, &pop(group, topic, LONG_MS, 5_000)));
    }
    assert_eq!(all.len(), count, "{:?}", bodies(&all));
    all
}

#[test]
fn what_is_acknowledged_is_gone_and_the_rest_comes_again() {
    let target = Target::start("pops");
    let mut connection = target.connect();
    let (topic, group, sent) = prepare(&mut connection, "pops", QUEUES, 100);
    let mut others = target.connect();
    let (one, two) = thread::scope(|scope| {
        let (group, topic) = (&group, &topic);
        let one = scope.spawn(|| pop_all(&mut connection, group, topic, 4_000));
        let two = scope.spawn(|| pop_all(&mut others, group, topic, 4_000));
        (one.join().expect("it pops"), two.join().expect("it pops"))
    });
    let all: Vec<Popped> = one.into_iter().chain(two).collect();
    assert_eq!((all.len(), bodies(&all)), (100, sent), "each once");
    let (kept, done): (Vec<_>, Vec<_>) = all.into_iter().enumerate().partition(|(index, _)| index % 10 == 0);
    for (_, message) in &done {
        connection.call_ok(&message.ack(&group)).expect("acknowledged");
        connection.call_ok(&message.ack(&group)).expect("once more does no harm");
    }
    let again = pop_some(&mut connection, &group, &topic, kept.len());
    let kept: Vec<Popped> = kept.into_iter().map(|(_, message)| message).collect();
    assert_eq!(bodies(&again), bodies(&kept));
    for message in &again {
        assert_eq!(message.record.topic, topic, "it comes under its own topic");
        assert!(property(&message.record, "1ST_POP_TIME").is_some(), "{message:?}");
        connection.call_ok(&message.ack(&group)).expect("acknowledged");
    }
    assert_eq!(pop_all(&mut connection, &group, &topic, LONG_MS).len(), 0);
    let other = unique_name("group");
    connection.call_ok(&heartbeat("popper", &other)).expect("the group is made");
    assert_eq!(pop_all(&mut connection, &other, &topic, LONG_MS).len(), 100, "another group has its own");
}

#[test]
fn many_acknowledgements_fit_into_one_request() {
    let target = Target::start("batch-ack");
    let mut connection = target.connect();
    let (topic, group, _) = prepare(&mut connection, "batch-ack", 2, 6);
    let mut acks: BTreeMap<(String, String), u8> = BTreeMap::new();
    for message in pop_all(&mut connection, &group, &topic, 2_000).iter().filter(|message| message.body() != "m3") {
        let parts: Vec<&str> = message.receipt.split(' ').collect();
        let bit = message.record.queue_offset - parts[0].parse::<u64>().expect("a start");
        let key = (parts[6].to_owned(), format!("\"so\":{},\"pt\":{},\"it\":{}", parts[0], parts[1], parts[2]));
        *acks.entry(key).or_insert(0) |= 1 << bit;
    }
    let acks: Vec<String> = acks
        .into_iter()
        .map(|((queue, times), bits)| {
            let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            let base64: String =
                [bits >> 2, (bits & 3) << 4].map(|index| char::from(letters[usize::from(index)])).iter().collect();
            format!("{{\"c\":\"{group}\",\"t\":\"{topic}\",\"r\":\"0\",\"q\":{queue},\"rq\":0,{times},\"b\":\"{base64}==\"}}")
        })
        .collect();
    let body = format!("{{\"brokerName\":\"b\",\"acks\":[{}]}}", acks.join(","));
    connection.call_ok(&Frame::request(BATCH_ACK).body(body)).expect("acknowledged");
    assert_eq!(bodies(&pop_some(&mut connection, &group, &topic, 1)), BTreeSet::from(["m3".to_owned()]));
}

#[test]
fn a_held_message_comes_when_its_new_time_is_over() {
    let target = Target::start("held-pops");
    let mut connection = target.connect();
    let (topic, group, _) = prepare(&mut connection, "held-pops", 1, 1);
    let first = pop_some(&mut connection, &group, &topic, 1).remove(0);
    let answer = connection.call_ok(&first.hold(&group, 1_500)).expect("it is held");
    let held = first.held(&answer).expect("a new receipt");
    assert_ne!(held.receipt, first.receipt);
    connection.call_ok(&first.ack(&group)).expect("the old receipt does nothing");
    let again = pop_some(&mut connection, &group, &topic, 1).remove(0);
    let answer = connection.call_ok(&again.hold(&group, LONG_MS)).expect("it is held");
    connection.call_ok(&again.held(&answer).expect("a receipt").ack(&group)).expect("the new receipt acknowledges");
    assert_eq!(pop_all(&mut connection, &group, &topic, LONG_MS).len(), 0);
}

#[test]
fn a_waiting_pop_is_woken_from_every_queue() {
    let target = Target::start("waiting-pops");
    let mut sender = target.connect();
    let (topic, group, _) = prepare(&mut sender, "waiting-pops", QUEUES, 0);
    for number in 0..2 * QUEUES {
        let mut popper = target.connect();
        popper.send(&pop(&group, &topic, LONG_MS, 15_000)).expect("a pop can be sent");
        let body = format!("wake {number}");
        sender.call_ok(&send(&Queue::new(&topic, number % QUEUES), body.as_str(), "")).expect("stored");
        let sent = Instant::now();
        let answer = popper.receive().expect("the pop is answered");
        let woken = Popped::all_of(&answer).expect("an answer of a pop");
        assert_eq!(bodies(&woken), BTreeSet::from([body]));
        assert!(sent.elapsed() < Duration::from_secs(4), "woken after {:?}", sent.elapsed());
        popper.call_ok(&woken[0].ack(&group)).expect("acknowledged");
    }
    let asked = Frame::request(NOTIFICATION)
        .field("consumerGroup", &group)
        .field("topic", &topic)
        .field("queueId", -1)
        .field("pollTime", 0)
        .field("bornTime", 0);
    assert_eq!(sender.call_ok(&asked).expect("answered").text("hasMsg").expect("a word"), "false");
    sender.call_ok(&send(&Queue::new(&topic, 5), "there", "")).expect("stored");
    assert_eq!(sender.call_ok(&asked).expect("answered").text("hasMsg").expect("a word"), "true");
}

#[test]
fn a_queue_popped_in_order_is_one_consumers_at_a_time() {
    let target = Target::start("ordered-pops");
    let mut connection = target.connect();
    let (topic, group, _) = prepare(&mut connection, "ordered-pops", 1, 6);
    let in_order = |attempt: &str, invisible_ms: u64, poll_ms: u64| {
        pop(&group, &topic, invisible_ms, poll_ms)
            .field("order", true)
            .field("attemptId", attempt)
            .field("maxMsgNums", 4)
    };
    let first = popped(&mut connection, &in_order("one", LONG_MS, 0));
    assert_eq!(first.iter().map(Popped::body).collect::<Vec<_>>(), ["m0", "m1", "m2", "m3"]);
    let other = connection.call(&in_order("two", LONG_MS, 0)).expect("answered");
    assert_eq!(other.code, CODE_POLLING_TIMEOUT, "the batch is in somebody's hands: {other:?}");
    let same = popped(&mut connection, &in_order("one", 1_000, 0));
    assert_eq!(bodies(&same), bodies(&first), "the first answer was lost");
    assert_eq!(same[0].times, 0, "an answer that is given once more does not count");
    for message in &same[..2] {
        connection.call_ok(&message.ack(&group)).expect("acknowledged");
    }
    // Its time is over after a second; nobody acknowledged the others.
    let rest = popped(&mut connection, &in_order("three", LONG_MS, 10_000));
    assert_eq!(rest.iter().map(Popped::body).collect::<Vec<_>>(), ["m2", "m3", "m4", "m5"]);
    assert_eq!(rest.iter().map(|message| message.times).collect::<Vec<_>>(), [1, 1, 0, 0]);
    let mut waiting = target.connect();
    waiting.send(&in_order("four", LONG_MS, 15_000)).expect("a pop can be sent");
    for message in &rest {
        connection.call_ok(&message.ack(&group)).expect("acknowledged");
    }
    connection.call_ok(&send(&Queue::new(&topic, 0), "m6", "")).expect("stored");
    let last = Popped::all_of(&waiting.receive().expect("the pop is answered")).expect("an answer of a pop");
    assert_eq!(last.iter().map(Popped::body).collect::<Vec<_>>(), ["m6"]);
}

#[test]
fn request_modes_are_kept_and_queues_assigned_by_them() {
    let dev = Dev::new("request-modes");
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(
            "request_modes_are_kept_and_queues_assigned_by_them",
            "the given servers are not ours to stop",
        );
    }
    let mut running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    let (topic, group, _) = prepare(&mut connection, "modes", 4, 0);
    let mode =
        format!("{{\"topic\":\"{topic}\",\"consumerGroup\":\"{group}\",\"mode\":\"POP\",\"popShareQueueNum\":0}}");
    connection.call_ok(&Frame::request(SET_REQUEST_MODE).body(mode)).expect("the mode is set");
    running.kill();
    let _running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    let asked = format!(
        "{{\"topic\":\"{topic}\",\"consumerGroup\":\"{group}\",\"clientId\":\"popper\",\"strategyName\":\"AVG\",\
         \"messageModel\":\"CLUSTERING\"}}"
    );
    let answer = connection.call_ok(&Frame::request(QUERY_ASSIGNMENT).body(asked)).expect("answered");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(text.contains("\"mode\":\"POP\"") && text.contains("\"queueId\":-1"), "{text}");
}

#[test]
fn e1_a_kill_loses_no_message_that_is_in_flight() {
    const TEST: &str = "e1_a_kill_loses_no_message_that_is_in_flight";
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(TEST, "the given servers are not ours to kill");
    }
    for new_retry_topics in [false, true] {
        let dev = Dev::new("pops-kill9").property(&format!("enableRetryTopicV2={new_retry_topics}"));
        let mut running = dev.start();
        let mut connection = Connection::open(&dev.broker).expect("it listens");
        let (topic, group, sent) = prepare(&mut connection, "kill9", QUEUES, 200);
        let first = pop_all(&mut connection, &group, &topic, 3_000);
        assert_eq!(bodies(&first), sent);
        let (done, open) = first.split_at(120);
        for message in done {
            connection.call_ok(&message.ack(&group)).expect("acknowledged");
        }
        running.kill();
        let mut running = dev.start();
        let mut connection = Connection::open(&dev.broker).expect("it listens");
        let again = pop_some(&mut connection, &group, &topic, open.len());
        assert_eq!(bodies(&again), bodies(open), "exactly what was not acknowledged");
        for message in &again {
            connection.call_ok(&message.ack(&group)).expect("acknowledged");
        }
        running.kill();
        let _running = dev.start();
        let mut connection = Connection::open(&dev.broker).expect("it listens");
        assert_eq!(pop_all(&mut connection, &group, &topic, LONG_MS).len(), 0, "all is acknowledged");
    }
}

#[test]
fn a_group_in_order_goes_on_in_order_after_a_kill() {
    let name = "a_group_in_order_goes_on_in_order_after_a_kill";
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(name, "it kills the broker");
    }
    let dev = Dev::new("pop-order-kill");
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("the broker listens");
    let (topic, group, _) = prepare(&mut connection, "pop-order-kill", 1, 40);
    let pop_in_order = |attempt: &str, invisible_ms: u64| {
        pop(&group, &topic, invisible_ms, POLL_MS)
            .field("order", true)
            .field("attemptId", attempt)
            .field("maxMsgNums", 4)
    };
    let texts = |messages: &[Popped]| messages.iter().map(Popped::body).collect::<Vec<_>>();
    let mut done = Vec::new();
    for round in 0..3 {
        let attempt = format!("a{round}");
        let first = popped(&mut connection, &pop_in_order(&attempt, LONG_MS));
        assert_eq!(first.len(), 4, "{:?}", texts(&first));
        for message in &first[..2] {
            connection.call_ok(&message.ack(&group)).expect("acknowledged");
            done.push(message.body());
        }
        process.kill();
        process = dev.start();
        connection = Connection::open(&dev.broker).expect("the broker listens");
        let other = popped(&mut connection, &pop_in_order("other", LONG_MS));
        assert!(other.is_empty(), "the queue is held over the kill: {:?}", texts(&other));
        let same = popped(&mut connection, &pop_in_order(&attempt, LONG_MS));
        assert_eq!(texts(&same)[..2], texts(&first)[2..], "what was acknowledged does not come again");
        assert_eq!((same[0].times, same[1].times), (0, 0));
        for message in &same {
            connection.call_ok(&message.ack(&group)).expect("acknowledged");
            done.push(message.body());
        }
    }
    loop {
        let more = popped(&mut connection, &pop_in_order("last", LONG_MS));
        if more.is_empty() {
            break;
        }
        for message in more {
            connection.call_ok(&message.ack(&group)).expect("acknowledged");
            done.push(message.body());
        }
    }
    let expected: Vec<String> = (0..40).map(|number| format!("m{number}")).collect();
    assert_eq!(done, expected, "each once, in order");
}

#[test]
fn a_peek_shows_what_a_pop_would_give_and_changes_nothing() {
    let target = Target::start("peeks");
    let mut connection = target.connect();
    let (topic, group, _) = prepare(&mut connection, "peeks", 2, 6);
    for id in 0..2 {
        assert!(await_count(&mut connection, &Queue::new(&topic, id), 3), "all are visible");
    }
    let mut peek = |queue: i32, count: i32| {
        let request = Frame::request(PEEK)
            .field("consumerGroup", &group)
            .field("topic", &topic)
            .field("queueId", queue)
            .field("maxMsgNums", count);
        let answer = connection.call(&request).expect("answered");
        let bodies = decode_all(&answer.body).expect("records").into_iter().map(|record| record.queue_offset);
        (answer.code, answer.number("restNum").unwrap_or(-1), bodies.collect::<Vec<u64>>())
    };
    for _ in 0..2 {
        assert_eq!(peek(0, 10), (0, 3, vec![0, 1, 2]));
        assert_eq!(peek(1, 1), (0, 3, vec![0]));
        let (code, rest, offsets) = peek(-1, 4);
        assert_eq!((code, rest, offsets.len()), (0, 6, 4));
        assert_eq!(peek(0, 0), (CODE_PULL_NOT_FOUND, 3, vec![]));
        assert_eq!(peek(2, 1).0, CODE_INVALID_PARAMETER);
    }
    let mut other = target.connect();
    let one = pop(&group, &topic, LONG_MS, POLL_MS).field("queueId", 0).field("maxMsgNums", 1);
    assert_eq!(popped(&mut other, &one).len(), 1);
    assert_eq!(peek(0, 10), (0, 2, vec![1, 2]));
}

#[test]
fn a_priority_chooses_the_queue_and_a_pop_takes_the_highest_first() {
    let target = Target::start("priorities");
    let mut connection = target.connect();
    let (topic, plain) = (unique_name("priority"), target.topic("no-priority", 4));
    let make = create_topic(&topic, 4).field("attributes", "+message.type=PRIORITY");
    connection.call_ok(&make).expect("the topic is made");
    let mut sent = |topic: &str, queue: i32, properties: &str| {
        let request = send(&Queue::new(topic, 0), format!("{properties:?}"), properties).field("e", queue);
        let answer = connection.call(&request).expect("answered");
        (answer.code, answer.number("queueId").unwrap_or(-1))
    };
    let priority = |value: &str| format!("_SYS_MSG_PRIORITY_\u{1}{value}\u{2}");
    // The type of the topic does not matter to a send.
    for topic in [&topic, &plain] {
        for (queue, value, goes_to) in [(0, "2", 2), (1, "9", 3), (2, "0", 0), (-1, "1", 1), (1, "-1", 1), (2, "x", 2)]
        {
            assert_eq!(sent(topic, queue, &priority(value)), (0, goes_to), "{value} to queue {queue}");
        }
        let delayed = priority("3") + "__SHARDINGKEY\u{1}k\u{2}";
        assert_eq!(sent(topic, 1, &delayed), (0, 1), "a message in order has none");
        assert_eq!(sent(topic, 4, &priority("1")).0, CODE_INVALID_PARAMETER);
    }
    let counts = [1, 3, 2, 1];
    for (id, count) in (0..).zip(counts) {
        assert!(await_count(&mut connection, &Queue::new(&topic, id), count), "queue {id}");
    }
    let take = |connection: &mut Connection, group: &str| {
        connection.call_ok(&heartbeat("popper", group)).expect("taken");
        let mut queues = Vec::new();
        loop {
            let request = pop(group, &topic, LONG_MS, POLL_MS).field("maxMsgNums", 2);
            let more = popped(connection, &request);
            if more.is_empty() {
                return queues;
            }
            queues.extend(more.iter().map(|message| message.record.queue_id));
        }
    };
    for _ in 0..5 {
        assert_eq!(take(&mut connection, &unique_name("group")), [3, 2, 2, 1, 1, 1, 0]);
    }
    let factor = |group: &str, modification: &str| {
        Frame::request(UPDATE_GROUP).body(format!("{{\"groupName\":\"{group}\",\"attributes\":{{{modification}}}}}"))
    };
    let group = unique_name("group");
    for (modification, code) in [
        ("\"+priority.factor\":\"101\"", CODE_SYSTEM_ERROR),
        ("\"+other\":\"1\"", CODE_SYSTEM_ERROR),
        ("\"+priority.factor\":\"0\"", CODE_OK),
        ("", CODE_OK),
    ] {
        let answer = connection.call(&factor(&group, modification)).expect("answered");
        assert_eq!(answer.code, code, "{modification}: {}", answer.remark);
    }
    // Pops of a group whose factor is 0 begin anywhere: of so many some do not begin with the highest.
    let starts: BTreeSet<u32> = (0..40)
        .map(|number| {
            let group = format!("{group}-{number}");
            connection.call_ok(&factor(&group, "\"+priority.factor\":\"0\"")).expect("made");
            popped(&mut connection, &pop(&group, &topic, LONG_MS, POLL_MS).field("maxMsgNums", 1))[0].record.queue_id
        })
        .collect();
    assert!(starts.len() > 1, "{starts:?}");
}
