//! Light queues: topics named `%LMQ%…` that make themselves, and messages that go into several of them. A name that begins
//! with a letter and a number is that of an entry in the list of public faults.

use std::collections::BTreeSet;
use std::thread;

use harness::connection::Connection;
use harness::process::Dev;
use harness::record::Record;
use harness::request::{
    CODE_MESSAGE_ILLEGAL, CODE_OK, CODE_PULL_NOT_FOUND, CODE_SYSTEM_ERROR, MAX_OFFSET, Pulled, Queue, await_count,
    commit_offset, consumer_offset, create_topic, offset_of, pull, read_queue, read_queue_of, route, send, send_back,
};
use harness::target::{TARGET_VARIABLE, Target};
use harness::{left_out, unique_name};

fn dev(stem: &str) -> Dev {
    Dev::new(stem).property("enableLmq=true").property("enableMultiDispatch=true")
}

/// A light queue with a name of its own.
fn light(stem: &str) -> Queue {
    Queue::new(&format!("%LMQ%{}", unique_name(stem)), 0)
}

fn to(queues: &[&Queue]) -> String {
    let names: Vec<&str> = queues.iter().map(|queue| queue.topic.as_str()).collect();
    format!("INNER_MULTI_DISPATCH\u{1}{}\u{2}mine\u{1}kept\u{2}", names.join(","))
}

fn bodies(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8_lossy(&record.body).into_owned()).collect()
}

/// The offset in a light queue that a message tells of itself.
fn told_offset(record: &Record, queue: &Queue) -> u64 {
    let names = record.property("INNER_MULTI_DISPATCH").expect("the light queues").split(',');
    let offsets = record.property("INNER_MULTI_QUEUE_OFFSET").expect("its offsets there").split(',');
    let (_, offset) = names.zip(offsets).find(|(name, _)| *name == queue.topic).expect("this one among them");
    offset.parse().expect("a number")
}

#[test]
fn e7_concurrent_sends_to_one_light_queue_get_dense_offsets() {
    const THREADS: u32 = 8;
    const EACH: u32 = 250;
    let target = Target::start_with(dev("e7"));
    let (topic, x) = (target.topic("e7", THREADS), light("x"));
    thread::scope(|scope| {
        for id in 0..THREADS {
            let (target, topic, x) = (&target, &topic, &x);
            scope.spawn(move || {
                let mut connection = target.connect();
                for number in 0..EACH {
                    let request = send(&Queue::new(topic, id), format!("{id}-{number}"), &to(&[x]));
                    let answer = connection.call_ok(&request).expect("stored");
                    assert_eq!(answer.number("queueOffset").expect("an offset"), i64::from(number), "in its own queue");
                }
            });
        }
    });
    let mut connection = target.connect();
    let all = read_queue_of(&mut connection, &x, (THREADS * EACH) as usize);
    let offsets: Vec<u64> = all.iter().map(|record| told_offset(record, &x)).collect();
    assert_eq!(offsets, (0..u64::from(THREADS * EACH)).collect::<Vec<_>>(), "dense, and in their order");
    let distinct: BTreeSet<String> = bodies(&all).into_iter().collect();
    assert_eq!(distinct.len(), (THREADS * EACH) as usize, "each once");
    for id in 0..THREADS {
        let own = read_queue_of(&mut connection, &Queue::new(&topic, id), EACH as usize);
        assert_eq!(own.len(), EACH as usize);
        for record in &own {
            let there = &all[usize::try_from(told_offset(record, &x)).expect("small")];
            assert_eq!(record.body, there.body, "it tells where it lies in the light queue");
        }
    }
}

#[test]
fn e8_a_retry_goes_to_the_retry_topic_alone() {
    let target = Target::start_with(dev("e8"));
    let mut connection = target.connect();
    let (queue, group) = (target.queue("e8"), target.group(&mut connection, "e8"));
    let (one, two) = (light("one"), light("two"));
    for body in ["a", "b"] {
        connection.call_ok(&send(&queue, body, &to(&[&one, &two]))).expect("stored");
    }
    let seen = read_queue_of(&mut connection, &two, 2);
    connection.call_ok(&send_back(&group, seen[0].physical_offset, 1).field("originTopic", &two.topic)).expect("taken");
    let retry = Queue::new(&format!("%RETRY%{group}"), 0);
    assert_eq!(bodies(&read_queue_of(&mut connection, &retry, 1)), ["a"]);
    // As clients send their retries themselves, with all properties that the message had.
    let own = send(&retry, "b", &format!("{}DELAY\u{1}1\u{2}RETRY_TOPIC\u{1}{}\u{2}", seen[1].properties, two.topic));
    connection.call_ok(&own.field("j", 1).field("l", 16)).expect("stored");
    assert_eq!(bodies(&read_queue_of(&mut connection, &retry, 2)), ["a", "b"]);
    for light in [&one, &two] {
        let all = read_queue(&mut connection, light, 0).expect("readable");
        assert_eq!(bodies(&all), ["a", "b"], "no repeat, no hole");
        assert_eq!(offset_of(&mut connection, MAX_OFFSET, light).expect("known"), 2);
    }
}

#[test]
fn light_queues_make_themselves_and_are_read_like_any_queue() {
    let target = Target::start_with(dev("light").property("maxLmqConsumeQueueNum=3"));
    if target.is_given() {
        return left_out("light_queues_make_themselves", "Apache's own limit and its confusion by direct sends differ");
    }
    let mut connection = target.connect();
    let (queue, group) = (target.queue("light"), target.group(&mut connection, "light"));
    let (early, x, direct) = (light("early"), light("x"), light("direct"));
    let nothing = Pulled::of(&connection.call(&pull(&group, &early, 0, 32)).expect("answered")).expect("a pull");
    assert_eq!((nothing.code, nothing.next_offset), (CODE_PULL_NOT_FOUND, 0), "who reads may come first");
    connection.call_ok(&send(&queue, "m", &(to(&[&early, &x]) + "TAGS\u{1}t\u{2}"))).expect("stored");
    for light in [&early, &x] {
        let record = read_queue_of(&mut connection, light, 1).remove(0);
        assert_eq!((record.property("mine"), told_offset(&record, light)), (Some("kept"), 0));
        let other = pull(&group, light, 0, 32).field("subscription", "other");
        assert!(Pulled::of(&connection.call(&other).expect("answered")).expect("a pull").records.is_empty());
    }
    let record = read_queue_of(&mut connection, &queue, 1).remove(0);
    assert_eq!(record.property("INNER_MULTI_QUEUE_OFFSET"), Some("0,0"));
    connection.call_ok(&commit_offset(&group, &x, 1)).expect("committed");
    let offset = connection.call_ok(&consumer_offset(&group, &x)).expect("known");
    assert_eq!(offset.number("offset").expect("a number"), 1);
    connection.call_ok(&send(&direct, "straight", "")).expect("stored");
    assert_eq!(bodies(&read_queue_of(&mut connection, &direct, 1)), ["straight"]);
    assert_ne!(target.connect_namesrv().call(&route(&x.topic)).expect("answered").code, CODE_OK, "no route");
    for (properties, code) in [
        (to(&[&light("fourth")]), CODE_SYSTEM_ERROR),
        (to(&[&queue]), CODE_MESSAGE_ILLEGAL),
        (to(&[&x, &x]), CODE_MESSAGE_ILLEGAL),
        (to(&[&x]) + "DELAY\u{1}1\u{2}", CODE_MESSAGE_ILLEGAL),
    ] {
        let answer = connection.call(&send(&queue, "refused", &properties)).expect("answered");
        assert_eq!(answer.code, code, "{properties:?}: {}", answer.remark);
    }
    assert_eq!(offset_of(&mut connection, MAX_OFFSET, &queue).expect("known"), 1, "what is refused is not stored");
    assert_eq!(offset_of(&mut connection, MAX_OFFSET, &x).expect("known"), 1);
}

#[test]
fn what_is_acknowledged_is_in_all_its_light_queues_after_a_kill() {
    let name = "what_is_acknowledged_is_in_all_its_light_queues_after_a_kill";
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(name, "it kills the broker");
    }
    let dev = dev("light-kill");
    let (topic, lights) = (unique_name("light"), [light("a"), light("b"), light("c")]);
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic(&topic, 4)).expect("made");
    let mut sent = Vec::new();
    for number in 0..60u32 {
        let request =
            send(&Queue::new(&topic, number % 4), number.to_string(), &to(&[&lights[0], &lights[1], &lights[2]]));
        connection.call_ok(&request).expect("stored");
        sent.push(number.to_string());
    }
    process.kill();
    let _process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    for light in &lights {
        assert!(await_count(&mut connection, light, 60));
        assert_eq!(bodies(&read_queue(&mut connection, light, 0).expect("readable")), sent, "{light:?}");
    }
    connection.call_ok(&send(&Queue::new(&topic, 0), "next", &to(&[&lights[1]]))).expect("stored");
    let next = read_queue_of(&mut connection, &lights[1], 61).remove(60);
    assert_eq!(told_offset(&next, &lights[1]), 60);
}

#[test]
fn without_the_settings_the_property_is_only_kept() {
    let target = Target::start("light-off");
    let mut connection = target.connect();
    let (queue, x) = (target.queue("light-off"), light("x"));
    connection.call_ok(&send(&queue, "m", &to(&[&x]))).expect("stored");
    let record = read_queue_of(&mut connection, &queue, 1).remove(0);
    assert_eq!(record.property("INNER_MULTI_QUEUE_OFFSET"), None);
    let answer = connection.call(&pull("harness-reader", &x, 0, 1)).expect("answered");
    assert_eq!(answer.code, harness::request::CODE_TOPIC_NOT_EXIST, "{answer:?}");
}
