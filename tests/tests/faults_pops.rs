//! Public faults of such brokers about POP, replayed: each test is named after its entry in the list of them.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use base::Random;
use harness::connection::Connection;
use harness::frame::Frame;
use harness::left_out;
use harness::pop::{Popped, pop};
use harness::request::{Queue, await_count, send};
use harness::target::Target;

fn popped(connection: &mut Connection, request: &Frame) -> Vec<Popped> {
    Popped::all_of(&connection.call(request).expect("a pop is answered")).expect("an answer of a pop")
}

/// Sends bodies from 0 on, in turn to the queues of a topic.
fn send_all(connection: &mut Connection, topic: &str, queues: u32, count: u32) -> BTreeSet<String> {
    let bodies: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    for (number, body) in (0..).zip(&bodies) {
        connection.call_ok(&send(&Queue::new(topic, number % queues), body.as_str(), "")).expect("stored");
    }
    for id in 0..queues.min(count) {
        assert!(await_count(connection, &Queue::new(topic, id), i64::from((count - id).div_ceil(queues))));
    }
    bodies.into_iter().collect()
}

#[test]
fn e2_what_is_acknowledged_by_chance_is_all_acknowledged_in_the_end() {
    const INVISIBLE: Duration = Duration::from_millis(2_500);
    let target = Target::start("e2");
    if target.is_given() {
        return left_out("e2", "Apache takes minutes to bring all of them back");
    }
    let mut connection = target.connect();
    let (topic, group) = (target.topic("e2", 4), target.group(&mut connection, "e2"));
    let mut open = send_all(&mut connection, &topic, 4, 200);
    let mut done = BTreeSet::new();
    let mut random = Random::new(2);
    let until = Instant::now() + Duration::from_secs(90);
    while !open.is_empty() {
        assert!(Instant::now() < until, "never acknowledged: {open:?}");
        let popped_at = Instant::now();
        let request = pop(&group, &topic, INVISIBLE.as_millis() as u64, 500).field("maxMsgNums", 8);
        for message in popped(&mut connection, &request) {
            assert!(!done.contains(&message.body()), "{} was acknowledged and came again", message.body());
            if random.below(2) == 0 {
                connection.call_ok(&message.ack(&group)).expect("acknowledged");
                open.remove(&message.body());
                // Later it may have been too late.
                if popped_at.elapsed() < INVISIBLE {
                    done.insert(message.body());
                }
            }
        }
    }
    assert!(done.len() > 100, "the machine is too slow for this test: {} in time", done.len());
    thread::sleep(INVISIBLE);
    let more = popped(&mut connection, &pop(&group, &topic, 60_000, 200));
    assert!(more.iter().all(|message| !done.contains(&message.body())));
}

#[test]
fn e3_what_was_acknowledged_behind_a_filters_holes_never_returns() {
    let target = Target::start("e3");
    if target.is_given() {
        return left_out("e3", "Apache 5.4.0 did not bring back within 40 s what was left alone for 1.5 s");
    }
    let mut connection = target.connect();
    let (topic, group) = (target.topic("e3", 1), target.group(&mut connection, "e3"));
    for number in 0..60 {
        let tag = if number % 7 == 0 { "wanted" } else { "other" };
        let request = send(&Queue::new(&topic, 0), number.to_string(), &format!("TAGS\u{1}{tag}\u{2}"));
        connection.call_ok(&request).expect("stored");
    }
    assert!(await_count(&mut connection, &Queue::new(&topic, 0), 60));
    let request = pop(&group, &topic, 1_500, 200).field("exp", "wanted").field("maxMsgNums", 2);
    let (mut acknowledged, mut given) = (BTreeSet::new(), BTreeSet::new());
    let until = Instant::now() + Duration::from_secs(20);
    while acknowledged.len() < 9 {
        assert!(Instant::now() < until, "{acknowledged:?} of {given:?}");
        for message in Popped::all_of(&connection.call(&request).expect("answered")).expect("a pop") {
            assert!(!acknowledged.contains(&message.body()), "{} returns", message.body());
            // Every second one is left alone the first time, and comes again.
            if given.insert(message.body()) && given.len() % 2 == 0 {
                continue;
            }
            connection.call_ok(&message.ack(&group)).expect("acknowledged");
            acknowledged.insert(message.body());
        }
    }
    thread::sleep(Duration::from_millis(1_600));
    let more = Popped::all_of(&connection.call(&request).expect("answered")).expect("a pop");
    assert!(more.is_empty(), "{:?}", more.iter().map(Popped::body).collect::<Vec<_>>());
}

#[test]
fn e4_what_comes_again_says_how_often_so_that_a_limit_of_none_holds() {
    let target = Target::start("e4");
    let mut connection = target.connect();
    let (topic, group) = (target.topic("e4", 1), target.group(&mut connection, "e4"));
    send_all(&mut connection, &topic, 1, 1);
    // A client drops what came more often than its limit, which only it knows: it has to be told.
    let until = Instant::now() + Duration::from_secs(90);
    let mut times = Vec::new();
    while times.len() < 3 {
        assert!(Instant::now() < until, "it does not come again: {times:?}");
        // Apache's broker needs longer to bring a message back than such a short time.
        let invisible_ms = if target.is_given() { 10_000 } else { 500 };
        let all = popped(&mut connection, &pop(&group, &topic, invisible_ms, 2_000));
        times.extend(all.iter().map(|message| message.record.reconsume_times));
        if let (3, Some(last)) = (times.len(), all.last()) {
            connection.call_ok(&last.ack(&group)).expect("acknowledged");
        }
    }
    assert_eq!(times, [0, 1, 2]);
}

#[test]
fn e5_an_acknowledgement_in_time_always_wins() {
    const COUNT: u32 = 1_500;
    const INVISIBLE: Duration = Duration::from_secs(6);
    let target = Target::start("e5");
    let mut connection = target.connect();
    let (topic, group) = (target.topic("e5", 4), target.group(&mut connection, "e5"));
    send_all(&mut connection, &topic, 4, COUNT);
    let mut came: BTreeMap<String, u32> = BTreeMap::new();
    let mut taken = Vec::new();
    let until = Instant::now() + Duration::from_secs(120);
    let acknowledge = |connection: &mut Connection, message: &Popped, at: Instant| {
        connection.call_ok(&message.ack(&group)).expect("acknowledged");
        assert!(at.elapsed() < INVISIBLE, "the machine is too slow for this test: {:?}", at.elapsed());
    };
    while came.len() < COUNT as usize {
        assert!(Instant::now() < until, "{} of {COUNT} came", came.len());
        let now = Instant::now();
        let all = popped(&mut connection, &pop(&group, &topic, INVISIBLE.as_millis() as u64, 500));
        for message in all {
            *came.entry(message.body()).or_default() += 1;
            taken.push((message, now));
        }
        // Each waits for half of its time before it is acknowledged, one by one.
        while let Some((message, at)) = taken.pop_if(|(_, at)| at.elapsed() > INVISIBLE / 2) {
            acknowledge(&mut connection, &message, at);
        }
    }
    for (message, at) in taken {
        acknowledge(&mut connection, &message, at);
    }
    let again: Vec<_> = came.iter().filter(|(_, times)| **times > 1).collect();
    assert!(again.is_empty(), "{again:?}");
    thread::sleep(INVISIBLE);
    assert!(popped(&mut connection, &pop(&group, &topic, 60_000, 200)).is_empty());
}

#[test]
fn e6_an_attempt_whose_answer_was_lost_gets_its_batch_at_once() {
    let target = Target::start("e6");
    let mut connection = target.connect();
    let (topic, group) = (target.topic("e6", 1), target.group(&mut connection, "e6"));
    send_all(&mut connection, &topic, 1, 8);
    let in_order = pop(&group, &topic, 60_000, 0).field("order", true).field("attemptId", "lost");
    let in_order = in_order.field("maxMsgNums", 4);
    for _ in 0..3 {
        let mut lost = target.connect();
        lost.send(&in_order).expect("sent");
        let answer = lost.receive().expect("it is answered; nobody looks at it");
        assert_eq!(Popped::all_of(&answer).expect("a pop").len(), 4);
    }
    let started = Instant::now();
    let again = popped(&mut connection, &in_order);
    assert_eq!(again.iter().map(Popped::body).collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    assert!(started.elapsed() < Duration::from_secs(10), "the queue was held for {:?}", started.elapsed());
    for message in &again {
        connection.call_ok(&message.ack(&group)).expect("acknowledged");
    }
    let next = popped(&mut connection, &in_order.field("attemptId", "next"));
    assert_eq!(next.iter().map(Popped::body).collect::<Vec<_>>(), ["4", "5", "6", "7"]);
}
