//! Pops that wait: a message that comes wakes somebody who takes it, whatever else ends, changes or waits meanwhile.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::frame::Frame;
use harness::pop::{NOTIFICATION, Popped, SET_REQUEST_MODE, pop};
use harness::request::{Queue, commit_offset, consumer_offset, create_topic, heartbeat, send};
use harness::target::Target;
use harness::unique_name;

const QUEUES: u32 = 8;
const LONG_MS: u64 = 60_000;
const POLL_MS: u64 = 15_000;
/// A pop that was not woken looks again by itself after 5 s.
const WOKEN_WITHIN: Duration = Duration::from_secs(4);
/// So long takes it until what was sent is parked.
const PARKED_AFTER: Duration = Duration::from_millis(300);

/// A topic, and a group that has consumed nothing.
fn prepare(connection: &mut Connection, stem: &str, queues: u32) -> (String, String) {
    let (topic, group) = (unique_name(stem), unique_name("group"));
    connection.call_ok(&create_topic(&topic, queues)).expect("the topic is made");
    connection.call_ok(&heartbeat("popper", &group)).expect("the group is made");
    (topic, group)
}

fn one(group: &str, topic: &str) -> Frame {
    pop(group, topic, LONG_MS, POLL_MS).field("maxMsgNums", 1)
}

fn ask(group: &str, topic: &str) -> Frame {
    Frame::request(NOTIFICATION)
        .field("consumerGroup", group)
        .field("topic", topic)
        .field("queueId", -1)
        .field("pollTime", POLL_MS)
        .field("bornTime", 0)
}

/// Pops that wait, each with a connection of its own.
fn park(target: &Target, request: &Frame, count: u32) -> Vec<Connection> {
    let mut waiting = Vec::new();
    for _ in 0..count {
        let mut connection = target.connect();
        connection.send(request).expect("it can be sent");
        waiting.push(connection);
    }
    std::thread::sleep(PARKED_AFTER);
    waiting
}

fn send_each(connection: &mut Connection, topic: &str, numbers: std::ops::Range<u32>) {
    for number in numbers.clone() {
        connection.send(&send(&Queue::new(topic, number % QUEUES), format!("m{number}"), "")).expect("sent");
    }
    for _ in numbers {
        assert_eq!(connection.receive().expect("answered").code, 0);
    }
}

fn answered(waiting: &mut Connection) -> Vec<String> {
    let answer = waiting.receive().expect("the pop is answered");
    Popped::all_of(&answer).expect("an answer of a pop").iter().map(Popped::body).collect()
}

#[test]
fn who_is_gone_takes_nothing() {
    let target = Target::start("gone-pops");
    let mut sender = target.connect();
    for in_order in [false, true] {
        let (topic, group) = prepare(&mut sender, "gone-pops", QUEUES);
        let request = pop(&group, &topic, LONG_MS, POLL_MS).field("order", in_order);
        // An orderly end, as of a process that ends: what is sent to it meanwhile is not refused.
        drop(park(&target, &request, 6));
        std::thread::sleep(PARKED_AFTER);
        send_each(&mut sender, &topic, 0..QUEUES);
        let (mut live, begun, mut seen) = (target.connect(), Instant::now(), BTreeSet::new());
        while seen.len() < QUEUES as usize && begun.elapsed() < WOKEN_WITHIN {
            live.send(&pop(&group, &topic, LONG_MS, 500).field("order", in_order)).expect("sent");
            seen.extend(answered(&mut live));
        }
        assert_eq!(seen.len(), QUEUES as usize, "in order {in_order}: only {seen:?} came to who is there");
    }
}

#[test]
fn as_many_are_woken_as_messages_come() {
    let target = Target::start("many-pops");
    let mut sender = target.connect();
    let (topic, group) = prepare(&mut sender, "many-pops", QUEUES);
    for _ in 0..5 {
        let mut waiting = park(&target, &one(&group, &topic), QUEUES);
        let begun = Instant::now();
        send_each(&mut sender, &topic, 0..QUEUES);
        let mut seen: Vec<String> = waiting.iter_mut().flat_map(answered).collect();
        assert!(begun.elapsed() < WOKEN_WITHIN, "the last was woken after {:?}", begun.elapsed());
        seen.sort_unstable();
        assert!(seen.iter().eq((0..QUEUES).map(|number| format!("m{number}")).collect::<Vec<_>>().iter()), "{seen:?}");
    }
}

#[test]
fn who_only_asks_keeps_nothing_from_who_takes() {
    let target = Target::start("asking-pops");
    let mut sender = target.connect();
    let (topic, group) = prepare(&mut sender, "asking-pops", QUEUES);
    let ask = ask(&group, &topic);
    for ask_first in [true, false] {
        let requests = if ask_first { [&ask, &one(&group, &topic)] } else { [&one(&group, &topic), &ask] };
        let mut waiting: Vec<Connection> = requests.iter().flat_map(|request| park(&target, request, 1)).collect();
        let begun = Instant::now();
        send_each(&mut sender, &topic, 0..1);
        let popped = answered(&mut waiting[usize::from(ask_first)]);
        assert_eq!(popped, ["m0"], "ask first {ask_first}");
        assert!(begun.elapsed() < WOKEN_WITHIN, "ask first {ask_first}: after {:?}", begun.elapsed());
    }
}

/// On whatever core its connection is.
#[test]
fn who_only_asks_is_woken() {
    let target = Target::start("asked-pops");
    let mut sender = target.connect();
    let (topic, group) = prepare(&mut sender, "asked-pops", QUEUES);
    let mut waiting = park(&target, &ask(&group, &topic), 4);
    let begun = Instant::now();
    send_each(&mut sender, &topic, 0..1);
    for waiting in &mut waiting {
        let answer = waiting.receive().expect("answered");
        assert_eq!(answer.text("hasMsg").expect("a word"), "true");
    }
    assert!(begun.elapsed() < WOKEN_WITHIN, "the last was woken after {:?}", begun.elapsed());
}

#[test]
fn new_queues_of_a_topic_are_waited_for_too() {
    let target = Target::start("growing-pops");
    let mut sender = target.connect();
    let (topic, group) = prepare(&mut sender, "growing-pops", 1);
    // Connections are handed out in turn, so these live on both cores, and queues do.
    let mut waiting = park(&target, &one(&group, &topic), 2);
    sender.call_ok(&create_topic(&topic, QUEUES)).expect("it grows");
    std::thread::sleep(PARKED_AFTER);
    let begun = Instant::now();
    send_each(&mut sender, &topic, 1..QUEUES);
    waiting.iter_mut().for_each(|waiting| assert_eq!(answered(waiting).len(), 1));
    assert!(begun.elapsed() < WOKEN_WITHIN, "the last was woken after {:?}", begun.elapsed());
}

/// A group that pulls after it popped commits by itself: that is not taken back when the pops end.
#[test]
fn what_a_group_committed_itself_holds() {
    let target = Target::start("popped-and-pulled");
    let mut connection = target.connect();
    for acknowledged in [false, true] {
        let (topic, group) = prepare(&mut connection, "popped-and-pulled", 1);
        let queue = Queue::new(&topic, 0);
        for number in 0..20 {
            connection.call_ok(&send(&queue, format!("m{number}"), "")).expect("stored");
        }
        let take = |connection: &mut Connection, count: u32| {
            let answer = connection.call(&pop(&group, &topic, 1_500, 2_000).field("maxMsgNums", count));
            Popped::all_of(&answer.expect("answered")).expect("an answer of a pop")
        };
        let popped = take(&mut connection, 3);
        assert_eq!(popped.iter().map(Popped::body).collect::<Vec<_>>(), ["m0", "m1", "m2"]);
        if acknowledged {
            popped.iter().for_each(|message| drop(connection.call_ok(&message.ack(&group)).expect("acknowledged")));
        }
        connection.call_ok(&commit_offset(&group, &queue, 10)).expect("committed");
        // Longer than what was popped is held.
        std::thread::sleep(Duration::from_millis(3_000));
        let known = connection.call_ok(&consumer_offset(&group, &queue)).expect("answered");
        assert_eq!(known.number("offset").expect("an offset"), 10, "acknowledged {acknowledged}");
        let mut next = Vec::new();
        while next.len() < 2 {
            next.extend(
                take(&mut connection, 1)
                    .iter()
                    .map(Popped::body)
                    .filter(|body| !["m0", "m1", "m2"].contains(&body.as_str())),
            );
        }
        assert_eq!(next, ["m10", "m11"], "acknowledged {acknowledged}");
    }
}

/// A consumer may say how it wants to consume before it has started.
#[test]
fn a_request_mode_makes_its_group() {
    let target = Target::start("first-mode");
    let mut connection = target.connect();
    let topic = unique_name("first-mode");
    connection.call_ok(&create_topic(&topic, 1)).expect("the topic is made");
    let group = unique_name("never-seen");
    let mode =
        format!("{{\"topic\":\"{topic}\",\"consumerGroup\":\"{group}\",\"mode\":\"POP\",\"popShareQueueNum\":0}}");
    connection.call_ok(&Frame::request(SET_REQUEST_MODE).body(mode)).expect("the mode is set");
}
