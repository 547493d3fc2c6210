//! Public faults of such brokers about offsets, pulls and the division of queues, replayed: each test is named after its
//! entry in the list of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::frame::Frame;
use harness::pop::{Popped, QUERY_ASSIGNMENT, pop};
use harness::process::Dev;
use harness::request::{
    self, CODE_INVALID_PARAMETER, CODE_NOT_FOUND, CODE_OK, CONSUMER_LIST, MAX_OFFSET, MEMBERS_CHANGED, Pulled, Queue,
    await_count, commit_offset, consumer_offset, create_topic, heartbeat, heartbeat_of, offset_of, pull, read_queue_of,
    route, send,
};
use harness::target::{TARGET_VARIABLE, Target};
use harness::{left_out, unique_name};
use serde_json::Value;

const CONSUME_STATS: i32 = 208;
const RUNTIME_INFO: i32 = 28;

fn is_given(name: &str) -> bool {
    let given = std::env::var_os(TARGET_VARIABLE).is_some();
    if given {
        left_out(name, "it needs a process of its own");
    }
    given
}

fn offset(connection: &mut Connection, group: &str, queue: &Queue) -> Frame {
    connection.call(&consumer_offset(group, queue)).expect("answered")
}

/// As a consumer asks that leaves it to the broker where to begin.
fn beginning(connection: &mut Connection, group: &str, queue: &Queue) -> Frame {
    connection.call(&consumer_offset(group, queue).without("setZeroIfNotFound")).expect("answered")
}

fn send_all(connection: &mut Connection, topic: &str, queues: u32, count: u32) {
    for number in 0..count {
        let queue = Queue::new(topic, number % queues);
        connection.call_ok(&send(&queue, number.to_string(), "")).expect("stored");
    }
    for id in 0..queues.min(count) {
        let of_queue = (count - id).div_ceil(queues);
        assert!(await_count(connection, &Queue::new(topic, id), i64::from(of_queue)), "all is visible");
    }
}

/// A body of JSON, also where maps have objects as keys: then only parts of its text can be looked at.
fn body_text(answer: &Frame) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

#[test]
fn b2_an_ordered_consumer_goes_on_where_it_committed() {
    const EACH: u32 = 40;
    if is_given("b2") {
        return;
    }
    let dev = Dev::new("b2");
    let (topic, group) = (unique_name("b2"), unique_name("b2"));
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic(&topic, 4)).expect("made");
    send_all(&mut connection, &topic, 4, 4 * EACH);
    let queues: Vec<Queue> = (0..4).map(|id| Queue::new(&topic, id)).collect();
    let locked = |connection: &mut Connection| {
        connection.call_ok(&heartbeat("ordered", &group)).expect("taken");
        let queues: Vec<_> =
            (0..4).map(|id| serde_json::json!({"topic": topic, "brokerName": "b", "queueId": id})).collect();
        let body = serde_json::json!({"consumerGroup": group, "clientId": "ordered", "mqSet": queues});
        let answer = connection.call_ok(&Frame::request(request::LOCK_QUEUES).body(body.to_string())).expect("locked");
        body_text(&answer).matches("queueId").count()
    };
    let mut bodies: Vec<Vec<String>> = vec![Vec::new(); 4];
    for round in 1..=4 {
        assert_eq!(locked(&mut connection), 4, "nobody else holds them");
        for (queue, bodies) in queues.iter().zip(&mut bodies) {
            let begins = connection.call(&consumer_offset(&group, queue)).expect("answered");
            let mut next = if round == 1 { 0 } else { begins.number("offset").expect("it is known") };
            while next < i64::from(round * EACH / 4) {
                let request = pull(&group, queue, next, 1);
                let pulled = Pulled::of(&connection.call(&request).expect("answered")).expect("a pull");
                bodies.push(String::from_utf8(pulled.records[0].body.clone()).expect("text"));
                next = pulled.next_offset;
                connection.call_ok(&commit_offset(&group, queue, next.unsigned_abs())).expect("taken");
            }
        }
        assert_eq!(process.stop(), Some(0));
        process = dev.start();
        connection = Connection::open(&dev.broker).expect("it listens");
    }
    for (id, bodies) in (0..).zip(&bodies) {
        let expected: Vec<String> = (0..EACH).map(|number| (number * 4 + id).to_string()).collect();
        assert_eq!(*bodies, expected, "queue {id}: each once, in order");
    }
}

#[test]
fn b3_a_committed_offset_is_never_denied_while_the_broker_starts() {
    if is_given("b3") {
        return;
    }
    let dev = Dev::new("b3");
    let queue = Queue::new(&unique_name("b3"), 0);
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic(&queue.topic, 1)).expect("made");
    connection.call_ok(&heartbeat("c", "b3")).expect("taken");
    send_all(&mut connection, &queue.topic, 1, 60);
    connection.call_ok(&commit_offset("b3", &queue, 57)).expect("taken");
    drop(connection);
    let (over, answers) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let asked = Connection::open(&dev.broker)
                    .and_then(|mut connection| connection.call(&consumer_offset("b3", &queue)));
                match asked {
                    Ok(answer) => answers.lock().expect("not poisoned").push(answer),
                    // There is nobody yet; asking for it in a closed loop would slow the start down.
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        for _ in 0..20 {
            assert_eq!(process.stop(), Some(0));
            process = dev.start();
        }
        thread::sleep(Duration::from_millis(100));
        over.store(true, Ordering::Relaxed);
    });
    let answers = answers.into_inner().expect("not poisoned");
    assert!(!answers.is_empty());
    for answer in answers {
        assert_ne!(answer.code, CODE_NOT_FOUND, "{answer:?}");
        assert!(answer.code != CODE_OK || answer.number("offset").expect("a number") == 57, "{answer:?}");
    }
}

#[test]
fn b4_a_commit_survives_a_kill_once_its_interval_is_over() {
    if is_given("b4") {
        return;
    }
    let dev = Dev::new("b4").property("flushConsumerOffsetInterval=200");
    let queue = Queue::new(&unique_name("b4"), 0);
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic(&queue.topic, 1)).expect("made");
    connection.call_ok(&heartbeat("c", "b4")).expect("taken");
    send_all(&mut connection, &queue.topic, 1, 10);
    connection.call_ok(&commit_offset("b4", &queue, 7)).expect("taken");
    thread::sleep(Duration::from_millis(1_500));
    process.kill();
    let _process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    assert_eq!(offset(&mut connection, "b4", &queue).number("offset").expect("known"), 7);
}

/// What one node can show of B5, which speaks of two: a master that is killed and away while its consumers go on, and its
/// older offsets beside their newer ones. The larger is kept, and at most one commit interval is consumed once more.
#[test]
fn b5_a_master_that_was_away_takes_no_offset_back() {
    const QUEUES: u32 = 4;
    const INTERVAL: Duration = Duration::from_secs(1);
    if is_given("b5") {
        return;
    }
    let dev = Dev::new("b5").property("flushConsumerOffsetInterval=1000").property("flushDiskType=ASYNC_FLUSH");
    let (topic, group, pops) = (unique_name("b5"), unique_name("b5"), unique_name("b5-pop"));
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic(&topic, QUEUES)).expect("made");
    send_all(&mut connection, &topic, QUEUES, QUEUES * 1_000);
    let queues: Vec<Queue> = (0..QUEUES).map(|id| Queue::new(&topic, id)).collect();
    // Where each consumer is, which it knows itself.
    let mut consumed = [0_i64; QUEUES as usize];
    for _ in 0..3 {
        connection.call_ok(&heartbeat("c", &group)).expect("taken");
        connection.call_ok(&heartbeat("p", &pops)).expect("taken");
        // Each commit with its time, of each queue.
        let mut commits = vec![Vec::new(); QUEUES as usize];
        let until = Instant::now() + 3 * INTERVAL;
        let mut acknowledged = 0;
        while Instant::now() < until {
            for (queue, next) in queues.iter().zip(&mut consumed) {
                let pulled =
                    Pulled::of(&connection.call(&pull(&group, queue, *next, 3)).expect("answered")).expect("one");
                *next = pulled.next_offset;
                connection.call_ok(&commit_offset(&group, queue, next.unsigned_abs())).expect("taken");
                commits[queue.id as usize].push((Instant::now(), *next));
            }
            for message in
                Popped::all_of(&connection.call(&pop(&pops, &topic, 60_000, 0)).expect("a pop")).expect("one")
            {
                connection.call_ok(&message.ack(&pops)).expect("acknowledged");
                acknowledged += 1;
            }
        }
        let of_pops = |connection: &mut Connection| -> Vec<i64> {
            let of_queue = |queue| connection.call(&consumer_offset(&pops, queue)).expect("answered");
            queues.iter().map(of_queue).map(|answer| answer.number("offset").unwrap_or(0)).collect()
        };
        let popped_before = of_pops(&mut connection);
        let killed = Instant::now();
        process.kill();
        // It is away, and its consumers wait.
        thread::sleep(2 * INTERVAL);
        process = dev.start();
        connection = Connection::open(&dev.broker).expect("it listens");
        for (queue, next) in queues.iter().zip(consumed) {
            let known = offset(&mut connection, &group, queue).number("offset").expect("it is known");
            let of_queue = &commits[queue.id as usize];
            let older =
                of_queue.iter().filter(|(at, _)| killed.duration_since(*at) > INTERVAL).map(|(_, to)| *to).max();
            assert!(known >= older.unwrap_or(0), "{queue:?}: {known}, though {older:?} was older than the interval");
            assert!(known <= next, "{queue:?}: {known} was never committed");
            // The consumer is further than the broker knows, and says so.
            connection.call_ok(&commit_offset(&group, queue, next.unsigned_abs())).expect("taken");
            assert_eq!(offset(&mut connection, &group, queue).number("offset").expect("known"), next);
        }
        // Acknowledgements lie in the log, which knows more than the file of offsets: the larger is kept.
        assert!(acknowledged > 0 || popped_before.iter().sum::<i64>() == i64::from(QUEUES) * 1_000);
        let popped_after = of_pops(&mut connection);
        assert!(popped_after.iter().zip(&popped_before).all(|(after, before)| after >= before), "{popped_after:?}");
    }
}

#[test]
fn b6_a_commit_beyond_the_end_is_cut_to_it() {
    let target = Target::start("b6");
    if target.is_given() {
        return left_out("b6", "Apache keeps it, and shows a negative lag");
    }
    let mut connection = target.connect();
    let (queue, group) = (target.queue("b6"), target.group(&mut connection, "b6"));
    send_all(&mut connection, &queue.topic, 1, 3);
    connection.call_ok(&commit_offset(&group, &queue, 1_000_003)).expect("taken");
    assert_eq!(offset(&mut connection, &group, &queue).number("offset").expect("known"), 3);
    let stats = connection.call_ok(&Frame::request(CONSUME_STATS).field("consumerGroup", &group)).expect("answered");
    let stats = body_text(&stats);
    assert!(stats.contains("\"brokerOffset\":3") && stats.contains("\"consumerOffset\":3"), "{stats}");
}

#[test]
fn b7_where_a_new_group_begins_is_the_same_after_a_restart() {
    if is_given("b7") {
        return;
    }
    let dev = Dev::new("b7");
    let topic = unique_name("b7");
    let mut process = dev.start();
    for round in 0..2 {
        let mut connection = Connection::open(&dev.broker).expect("it listens");
        if round == 0 {
            connection.call_ok(&create_topic(&topic, 2)).expect("made");
            connection.call_ok(&send(&Queue::new(&topic, 0), "x", "")).expect("stored");
        }
        let group = unique_name("b7");
        connection.call_ok(&heartbeat("c", &group)).expect("taken");
        let young = beginning(&mut connection, &group, &Queue::new(&topic, 0));
        assert_eq!((young.code, young.number("offset").ok()), (CODE_OK, Some(0)), "a young queue");
        let empty = beginning(&mut connection, &group, &Queue::new(&topic, 1));
        assert_eq!(empty.code, CODE_NOT_FOUND, "an empty queue: the client decides");
        if round == 0 {
            assert_eq!(process.stop(), Some(0));
            process = dev.start();
        }
    }
}

#[test]
fn b8_a_queue_that_is_new_to_a_known_group_is_read_from_its_first_message() {
    let target = Target::start("b8");
    let mut connection = target.connect();
    let (topic, group) = (target.topic("b8", 4), target.group(&mut connection, "b8"));
    send_all(&mut connection, &topic, 4, 8);
    for id in 0..4 {
        connection.call_ok(&commit_offset(&group, &Queue::new(&topic, id), 2)).expect("taken");
    }
    connection.call_ok(&create_topic(&topic, 8)).expect("grown");
    if !target.is_given() {
        let empty = beginning(&mut connection, &group, &Queue::new(&topic, 7));
        assert_eq!(empty.number("offset").ok(), Some(0), "what comes next must not be skipped: {empty:?}");
    }
    for id in 0..8 {
        connection.call_ok(&send(&Queue::new(&topic, id), "new", "")).expect("stored");
        assert!(await_count(&mut connection, &Queue::new(&topic, id), if id < 4 { 3 } else { 1 }));
    }
    for id in 0..8 {
        let begins = beginning(&mut connection, &group, &Queue::new(&topic, id));
        assert_eq!(begins.number("offset").ok(), Some(if id < 4 { 2 } else { 0 }), "queue {id}: {begins:?}");
    }
}

#[test]
fn b9_more_queues_are_in_the_route_at_once() {
    let target = Target::start("b9");
    let topic = target.topic("b9", 4);
    let mut connection = target.connect();
    let mut namesrv = target.connect_namesrv();
    for count in [8, 3, 16] {
        connection.call_ok(&create_topic(&topic, count)).expect("changed");
        let answer = namesrv.call_ok(&route(&topic)).expect("a route");
        let route: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let queues = &route["queueDatas"][0];
        let counts = (queues["readQueueNums"].as_u64(), queues["writeQueueNums"].as_u64());
        assert_eq!(counts, (Some(u64::from(count)), Some(u64::from(count))), "{route}");
    }
}

#[test]
fn b9_members_divide_more_queues_without_a_gap() {
    let target = Target::start("b9-members");
    let (topic, group) = (target.topic("b9", 4), unique_name("b9"));
    let mut members: Vec<Connection> = (0..3).map(|_| target.connect()).collect();
    for (number, member) in members.iter_mut().enumerate() {
        let request = heartbeat_of(&format!("m{number}"), &group, "CLUSTERING", &[(&topic, "*", 1)]);
        member.call_ok(&request).expect("taken");
    }
    for count in [4, 8, 5] {
        members[0].call_ok(&create_topic(&topic, count)).expect("changed");
        let mut owned = Vec::new();
        for (number, member) in members.iter_mut().enumerate() {
            let asked = serde_json::json!({"topic": topic, "consumerGroup": group, "clientId": format!("m{number}"),
                "strategyName": "AVG", "messageModel": "CLUSTERING"});
            let request = Frame::request(QUERY_ASSIGNMENT).body(asked.to_string());
            let answer = member.call_ok(&request).expect("answered");
            let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
            let queues = answer["messageQueueAssignments"].as_array().expect("a list").iter();
            let queues: Vec<u64> =
                queues.filter_map(|assignment| assignment["messageQueue"]["queueId"].as_u64()).collect();
            assert!(!queues.is_empty(), "member {number} of {count} queues has none");
            owned.extend(queues);
        }
        owned.sort_unstable();
        assert_eq!(owned, (0..u64::from(count)).collect::<Vec<_>>(), "each queue has one owner");
    }
}

#[test]
fn b10_queues_taken_away_and_given_back_have_lost_nothing() {
    let target = Target::start("b10");
    let mut connection = target.connect();
    let topic = target.topic("b10", 8);
    send_all(&mut connection, &topic, 8, 80);
    connection.call_ok(&create_topic(&topic, 4)).expect("shrunk");
    for id in [4, 7] {
        let answer = connection.call(&pull("harness-reader", &Queue::new(&topic, id), 0, 32)).expect("answered");
        assert_eq!(answer.code, CODE_INVALID_PARAMETER, "{answer:?}");
        let answer = connection.call(&send(&Queue::new(&topic, id), "x", "")).expect("answered");
        assert_eq!(answer.code, CODE_INVALID_PARAMETER, "{answer:?}");
    }
    connection.call_ok(&create_topic(&topic, 8)).expect("regrown");
    let count: usize = (0..8).map(|id| read_queue_of(&mut connection, &Queue::new(&topic, id), 10).len()).sum();
    assert_eq!(count, 80);
}

#[test]
fn b11_each_broadcasting_member_gets_every_message() {
    let target = Target::start("b11");
    let (topic, group) = (target.topic("b11", 2), unique_name("b11"));
    let mut members: Vec<Connection> = (0..3).map(|_| target.connect()).collect();
    for (number, member) in members.iter_mut().enumerate() {
        let request = heartbeat_of(&format!("m{number}"), &group, "BROADCASTING", &[(&topic, "*", 1)]);
        member.call_ok(&request).expect("taken");
    }
    send_all(&mut members[0], &topic, 2, 40);
    for member in &mut members {
        for id in 0..2 {
            // Without a subscription of its own, as push consumers pull: what the heartbeat said counts.
            let request = pull(&group, &Queue::new(&topic, id), 0, 32).field("sysFlag", 0).field("subVersion", 1);
            let pulled = Pulled::of(&member.call(&request).expect("answered")).expect("a pull");
            assert_eq!((pulled.code, pulled.records.len()), (CODE_OK, 20));
        }
    }
    // Offsets of broadcasting members are theirs: the broker has none, and says so without a fault.
    let stats = members[0].call_ok(&Frame::request(CONSUME_STATS).field("consumerGroup", &group)).expect("answered");
    assert!(body_text(&stats).contains("\"offsetTable\":{}"), "{}", body_text(&stats));
    let refusing = Frame::request(request::UPDATE_GROUP).body(format!(
        "{{\"groupName\":\"{group}\",\"consumeEnable\":true,\"consumeBroadcastEnable\":false,\"retryQueueNums\":1}}"
    ));
    members[0].call_ok(&refusing).expect("changed");
    let request = pull(&group, &Queue::new(&topic, 0), 0, 32).field("sysFlag", 0).field("subVersion", 1);
    assert_eq!(members[0].call(&request).expect("answered").code, 16);
}

#[test]
fn b14_a_filtering_consumer_beside_producers_gets_each_match_once() {
    let target = Target::start("b14");
    let queue = target.queue("b14");
    const COUNT: usize = 3_000;
    let (mut found, mut next) = (Vec::new(), 0);
    thread::scope(|scope| {
        for half in 0..2 {
            let (target, queue) = (&target, &queue);
            scope.spawn(move || {
                let mut connection = target.connect();
                for number in (half..COUNT).step_by(2) {
                    let tag = if number % 100 < 2 { "wanted" } else { "other" };
                    connection
                        .call_ok(&send(queue, number.to_string(), &format!("TAGS\u{1}{tag}\u{2}")))
                        .expect("stored");
                }
            });
        }
        let mut connection = target.connect();
        let until = Instant::now() + Duration::from_secs(60);
        while next < COUNT as i64 && Instant::now() < until {
            let request = pull("harness-reader", &queue, next, 32).field("subscription", "wanted");
            let pulled = Pulled::of(&connection.call(&request).expect("answered")).expect("a pull");
            found.extend(pulled.records.into_iter().map(|record| String::from_utf8(record.body).expect("text")));
            assert!(pulled.next_offset >= next, "{} behind {next}", pulled.next_offset);
            next = pulled.next_offset;
        }
    });
    let mut expected: Vec<String> = (0..COUNT).filter(|number| number % 100 < 2).map(|n| n.to_string()).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn b15_tags_of_one_hash_do_not_hold_up_the_offset() {
    let target = Target::start("b15");
    let mut connection = target.connect();
    let queue = target.queue("b15");
    for _ in 0..100 {
        connection.call_ok(&send(&queue, "x", "TAGS\u{1}BB\u{2}")).expect("stored");
    }
    assert!(await_count(&mut connection, &queue, 100));
    let mut next = 0;
    while next < 100 {
        // "Aa" and "BB" have the same hash in Java; consumers drop what the broker cannot tell apart.
        let request = pull("harness-reader", &queue, next, 32).field("subscription", "Aa");
        let pulled = Pulled::of(&connection.call(&request).expect("answered")).expect("a pull");
        assert!(pulled.next_offset > next, "{pulled:?}");
        next = pulled.next_offset;
    }
    assert_eq!(next, 100);
}

#[test]
fn b16_members_that_ask_for_different_messages_are_told_of() {
    let target = Target::start("b16");
    if target.is_given() {
        return left_out("b16", "Apache says nothing");
    }
    let (topic, group) = (target.topic("b16", 1), unique_name("b16"));
    let (mut one, mut other) = (target.connect(), target.connect());
    let counted = |connection: &mut Connection| {
        let info = connection.call_ok(&Frame::request(RUNTIME_INFO)).expect("answered");
        let info: Value = serde_json::from_slice(&info.body).expect("JSON");
        info["table"]["inconsistentSubscriptions"].as_str().expect("it is counted").to_owned()
    };
    one.call_ok(&heartbeat_of("one", &group, "CLUSTERING", &[(&topic, "TagA", 1)])).expect("taken");
    assert_eq!(counted(&mut one), "0");
    for version in 2..5 {
        other.call_ok(&heartbeat_of("other", &group, "CLUSTERING", &[(&topic, "TagB", version)])).expect("taken");
    }
    assert_eq!(counted(&mut one), "1", "once, however often they say so");
    let line = "inconsistent subscription";
    target.process().expect("it is ours").await_line(line, Duration::from_secs(5)).expect("it is logged");
}

#[test]
fn b17_the_end_of_one_of_two_connections_with_a_client_id_is_seen() {
    let target = Target::start("b17");
    let (group, mut observer) = (unique_name("b17"), target.connect());
    let list = |connection: &mut Connection| {
        let answer = connection.call(&Frame::request(CONSUMER_LIST).field("consumerGroup", &group)).expect("answered");
        body_text(&answer)
    };
    let (mut one, mut two) = (target.connect(), target.connect());
    for connection in [&mut one, &mut two] {
        connection.call_ok(&heartbeat("same", &group)).expect("taken");
    }
    drop(one);
    thread::sleep(Duration::from_millis(300));
    assert!(list(&mut observer).contains("same"), "the other connection lives");
    drop(two);
    let until = Instant::now() + Duration::from_secs(10);
    while list(&mut observer).contains("same") {
        assert!(Instant::now() < until, "nobody noticed the end of the second");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn b18_many_members_that_leave_at_once_are_told_of_in_few_notices() {
    const MEMBERS: usize = 200;
    let target = Target::start("b18");
    if target.is_given() {
        return left_out("b18", "Apache tells of each");
    }
    let group = unique_name("b18");
    let mut observer = target.connect();
    observer.call_ok(&heartbeat("observer", &group)).expect("taken");
    let members: Vec<Connection> = (0..MEMBERS)
        .map(|number| {
            let mut connection = target.connect();
            connection.call_ok(&heartbeat(&format!("m{number}"), &group)).expect("taken");
            connection
        })
        .collect();
    // What the joining told is taken by a call.
    offset_of(&mut observer, MAX_OFFSET, &target.queue("b18")).expect("answered");
    drop(members);
    let started = Instant::now();
    let mut notices = 0;
    loop {
        observer.send(&Frame::request(CONSUMER_LIST).field("consumerGroup", &group)).expect("sent");
        let answer = loop {
            let frame = observer.receive().expect("an answer comes");
            if frame.is_answer() {
                break frame;
            }
            notices += usize::from(frame.code == MEMBERS_CHANGED);
        };
        if !body_text(&answer).contains("\"m") && notices > 0 {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "members are still there: {}", body_text(&answer));
        thread::sleep(Duration::from_millis(20));
    }
    assert!(notices < MEMBERS / 2, "{notices} notices");
}
