//! Light queues: topics named `%LMQ%…` that make themselves, and messages that go into several of them. A name that begins
//! with a letter and a number is that of an entry in the list of public faults.

use std::collections::BTreeSet;
use std::thread;

use harness::connection::Connection;
use harness::pop::{Popped, pop};
use harness::process::Dev;
use harness::record::Record;
use harness::request::{
    CODE_MESSAGE_ILLEGAL, CODE_OK, CODE_PULL_NOT_FOUND, CODE_SYSTEM_ERROR, MAX_OFFSET, Pulled, Queue, SEND_REPLY_V2,
    await_count, batch, commit_offset, consumer_offset, create_topic, offset_of, pull, read_queue, read_queue_of,
    recall, route, send, send_back, send_v1,
};
use harness::target::{TARGET_VARIABLE, Target};
use harness::transaction::{COMMIT, Half, ROLLBACK, half};
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
        (to(&[&light("fourth")]) + "DELAY\u{1}1\u{2}", CODE_SYSTEM_ERROR),
        (to(&[&queue]) + "DELAY\u{1}1\u{2}", CODE_MESSAGE_ILLEGAL),
    ] {
        let answer = connection.call(&send(&queue, "refused", &properties)).expect("answered");
        assert_eq!(answer.code, code, "{properties:?}: {}", answer.remark);
    }
    assert_eq!(offset_of(&mut connection, MAX_OFFSET, &queue).expect("known"), 1, "what is refused is not stored");
    assert_eq!(offset_of(&mut connection, MAX_OFFSET, &x).expect("known"), 1);
}

/// Each message of a queue tells that it lies where it does in the light queue, which has them in that order.
fn assert_tells(connection: &mut Connection, queue: &Queue, light: &Queue, expected: &[&str]) {
    let own = read_queue_of(connection, queue, expected.len());
    let there = read_queue_of(connection, light, expected.len());
    assert_eq!((bodies(&own), bodies(&there)), (texts(expected), texts(expected)), "{queue:?} and {light:?}");
    let told: Vec<u64> = own.iter().map(|record| told_offset(record, light)).collect();
    assert_eq!(told, (0..expected.len() as u64).collect::<Vec<_>>());
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

fn count(connection: &mut Connection, queue: &Queue) -> usize {
    read_queue(connection, queue, 0).expect("readable").len()
}

/// Apache's broker forgets the light queues of batches.
#[test]
fn the_messages_of_a_batch_go_into_the_light_queues_that_each_names() {
    let target = Target::start_with(dev("light-batch"));
    if target.is_given() {
        return left_out("the_messages_of_a_batch", "Apache's broker puts them into no light queue, and says nothing");
    }
    let mut connection = target.connect();
    let (queue, one, two) = (target.queue("light-batch"), light("one"), light("two"));
    let (both, first) = (to(&[&one, &two]), to(&[&one]));
    connection.call_ok(&batch(&queue, &[("a", &*both), ("b", ""), ("c", &*first)])).expect("stored");
    connection.call_ok(&batch(&queue, &[("d", &*both)])).expect("stored");
    assert_eq!(bodies(&read_queue_of(&mut connection, &queue, 4)), ["a", "b", "c", "d"]);
    let there = read_queue_of(&mut connection, &one, 3);
    assert_eq!(bodies(&there), ["a", "c", "d"]);
    assert_eq!(bodies(&read_queue_of(&mut connection, &two, 2)), ["a", "d"]);
    let own = read_queue(&mut connection, &queue, 0).expect("readable");
    assert_eq!(own[1].property("INNER_MULTI_QUEUE_OFFSET"), None);
    assert_eq!([0, 2, 3].map(|at: usize| told_offset(&own[at], &one)), [0, 1, 2]);
    let whole = batch(&queue, &[("e", "")]).field("i", &both);
    let wrong = batch(&queue, &[("f", &*both), ("g", &*to(&[&queue]))]);
    for refused in [whole, wrong] {
        let answer = connection.call(&refused).expect("answered");
        assert_eq!(answer.code, CODE_MESSAGE_ILLEGAL, "{}", answer.remark);
    }
    assert_eq!((count(&mut connection, &queue), count(&mut connection, &one)), (4, 3), "nothing of what is refused");
}

/// Apache's broker shows a half message in its light queues before its end, and keeps it there after a rollback.
#[test]
fn a_half_message_goes_into_its_light_queues_with_its_commit() {
    let target = Target::start_with(dev("light-half"));
    if target.is_given() {
        return left_out("a_half_message_goes_into_its_light_queues", "Apache's broker shows halves in them");
    }
    let mut connection = target.connect();
    let (queue, one, two) = (target.queue("light-half"), light("one"), light("two"));
    let send_half = |connection: &mut Connection, body: &str, properties: &str| {
        Half::of(&connection.call(&half(&queue, body, properties)).expect("answered")).expect("stored")
    };
    let kept = send_half(&mut connection, "kept", &to(&[&one, &two]));
    let dropped = send_half(&mut connection, "dropped", &to(&[&one]));
    let late = send_half(&mut connection, "late", &(to(&[&one, &two]) + "DELAY\u{1}1\u{2}"));
    assert_eq!((count(&mut connection, &one), count(&mut connection, &two)), (0, 0), "nobody knows their ends");
    connection.call_ok(&dropped.end(ROLLBACK)).expect("ended");
    connection.call_ok(&late.end(COMMIT)).expect("ended");
    connection.call_ok(&kept.end(COMMIT)).expect("ended");
    assert_eq!(bodies(&read_queue_of(&mut connection, &one, 1)), ["kept"], "it does not wait for its time");
    for light in [&one, &two] {
        assert_tells(&mut connection, &queue, light, &["kept", "late"]);
    }
    assert_ne!(connection.call(&kept.end(COMMIT)).expect("answered").code, CODE_OK, "once");
    let wrong = half(&queue, "refused", &to(&[&queue]));
    assert_eq!(connection.call(&wrong).expect("answered").code, CODE_MESSAGE_ILLEGAL);
    assert_eq!(count(&mut connection, &one), 2);
}

#[test]
fn a_delayed_message_goes_into_its_light_queues_at_its_time() {
    let target = Target::start_with(dev("light-delay").property("recallMessageEnable=true"));
    let mut connection = target.connect();
    let (queue, x) = (target.queue("light-delay"), light("x"));
    let timed = connection.call_ok(&send(&queue, "taken back", &(to(&[&x]) + "TIMER_DELAY_MS\u{1}3000\u{2}")));
    let handle = timed.expect("stored").text("recallHandle").expect("a handle").to_owned();
    connection.call_ok(&send(&queue, "timer", &(to(&[&x]) + "TIMER_DELAY_MS\u{1}2500\u{2}"))).expect("stored");
    connection.call_ok(&send(&queue, "level", &(to(&[&x]) + "DELAY\u{1}1\u{2}"))).expect("stored");
    assert_eq!(count(&mut connection, &x), 0, "they wait");
    connection.call_ok(&recall(&queue.topic, &handle)).expect("taken back");
    assert_tells(&mut connection, &queue, &x, &["level", "timer"]);
    connection.call_ok(&send(&queue, "now", &to(&[&x]))).expect("stored");
    assert_tells(&mut connection, &queue, &x, &["level", "timer", "now"]);
}

#[test]
fn delayed_messages_are_in_their_light_queues_though_the_broker_is_killed() {
    const COUNT: usize = 60;
    let name = "delayed_messages_are_in_their_light_queues_though_the_broker_is_killed";
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(name, "it kills the broker");
    }
    let dev = dev("light-delay-kill");
    let (topic, lights) = (unique_name("light"), [light("a"), light("b")]);
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic(&topic, 4)).expect("made");
    let properties = to(&[&lights[0], &lights[1]]) + "TIMER_DELAY_MS\u{1}1500\u{2}";
    for number in 0..COUNT {
        let queue = Queue::new(&topic, number as u32 % 4);
        connection.call_ok(&send(&queue, number.to_string(), &properties)).expect("stored");
    }
    // The first are delivered, or are about to be.
    await_count(&mut connection, &lights[0], 1);
    process.kill();
    let _process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    let mut own = Vec::new();
    for id in 0..4 {
        own.extend(read_queue_of(&mut connection, &Queue::new(&topic, id), COUNT / 4));
    }
    assert_eq!(own.len(), COUNT, "each once in its own queue");
    let expected: BTreeSet<String> = (0..COUNT).map(|number| number.to_string()).collect();
    for light in &lights {
        let there = read_queue_of(&mut connection, light, COUNT);
        assert_eq!(bodies(&there).into_iter().collect::<BTreeSet<_>>(), expected, "all are there, at least once");
        for record in &own {
            let told = usize::try_from(told_offset(record, light)).expect("small");
            assert_eq!(there[told].body, record.body, "it tells where it lies");
        }
    }
}

/// Apache's broker puts dead letters into all their light queues again, as it once did with retries.
#[test]
fn what_comes_again_goes_into_no_light_queue() {
    let target = Target::start_with(dev("light-again"));
    let mut connection = target.connect();
    let (queue, group) = (target.queue("light-again"), target.group(&mut connection, "light-again"));
    let (one, two) = (light("one"), light("two"));
    let properties = to(&[&one, &two]);
    connection.call_ok(&send(&queue, "m", &properties)).expect("stored");
    let seen = read_queue_of(&mut connection, &two, 1).remove(0);
    let retry = Queue::new(&format!("%RETRY%{group}"), 0);
    let dead = Queue::new(&format!("%DLQ%{group}"), 0);
    let back = |level: i32| send_back(&group, seen.physical_offset, level).field("originTopic", &two.topic);
    connection.call_ok(&back(1)).expect("taken");
    assert_eq!(read_queue_of(&mut connection, &retry, 1).len(), 1);
    // Popped and not acknowledged, it comes again in its retry topic.
    let popped = connection.call(&pop(&group, &queue.topic, 1_000, 0)).expect("answered");
    assert_eq!(Popped::all_of(&popped).expect("a pop").len(), 1);
    let again = connection.call(&pop(&group, &queue.topic, 60_000, 20_000)).expect("answered");
    assert_eq!(Popped::all_of(&again).expect("a pop")[0].record.body, b"m");
    if !target.is_given() {
        connection.call_ok(&back(-1)).expect("taken");
        connection.call_ok(&send(&retry, "m", &properties).field("j", 17).field("l", 16)).expect("stored");
        assert_eq!(read_queue_of(&mut connection, &dead, 2).len(), 2);
    }
    for light in [&one, &two] {
        assert_eq!(count(&mut connection, light), 1, "{light:?}");
    }
}

#[test]
fn however_a_message_is_sent_it_goes_into_its_light_queues_once() {
    let target = Target::start_with(dev("light-ways"));
    let mut connection = target.connect();
    let (queue, x, y) = (target.queue("light-ways"), light("x"), light("y"));
    let properties = to(&[&x]);
    connection.call_ok(&send_v1(&queue, "old").field("properties", &properties)).expect("stored");
    connection.call_ok(&send(&queue, "tried before", &properties).field("j", 3)).expect("stored");
    let mut reply = send(&queue, "reply", &(properties + "REPLY_TO_CLIENT\u{1}nobody\u{2}"));
    reply.code = SEND_REPLY_V2;
    assert_eq!(connection.call(&reply).expect("answered").code, CODE_SYSTEM_ERROR, "nobody waits for it");
    assert_tells(&mut connection, &queue, &x, &["old", "tried before", "reply"]);
    // A message that was read there and is sent there again, with all its properties.
    connection.call_ok(&send(&y, "straight", &to(&[&y]))).expect("stored");
    assert_eq!(bodies(&read_queue_of(&mut connection, &y, 1)), ["straight"]);
    connection.call_ok(&send(&y, "both", &to(&[&y, &x]))).expect("stored");
    assert_eq!(bodies(&read_queue_of(&mut connection, &x, 4))[3], "both");
    if !target.is_given() {
        assert_eq!(bodies(&read_queue_of(&mut connection, &y, 2)), ["straight", "both"]);
    }
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
