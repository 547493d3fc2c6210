//! Public faults of such brokers about POP, replayed: each test is named after its entry in the list of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use base::Random;
use harness::connection::Connection;
use harness::frame::Frame;
use harness::pop::{Popped, pop};
use harness::process::Dev;
use harness::program;
use harness::record::Record;
use harness::request::{
    CODE_OK, CODE_SYSTEM_ERROR, Queue, await_count, commit_offset, consumer_offset, create_topic, heartbeat,
    read_queue, read_queue_of, send,
};
use harness::target::{TARGET_VARIABLE, Target};
use harness::transaction::{COMMIT, Half, half};
use harness::{left_out, unique_name};
use serde_json::Value;

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

/// How long messages are popped for in E9: longer than its restarts take.
const HELD_MS: u64 = 25_000;

/// The topics of E9, and what is done with them before and after the last flush in front of a loss of power.
struct Lossy {
    timed: Queue,
    popped: String,
    halves: Queue,
    read: Queue,
    group: String,
}

impl Lossy {
    fn send_timed(&self, connection: &mut Connection, stem: &str, count: u32) {
        for number in 0..count {
            let properties = format!("KEYS\u{1}{stem}-{number}\u{2}TIMER_DELAY_MS\u{1}9000\u{2}");
            connection.call_ok(&send(&self.timed, format!("{stem}-{number}"), &properties)).expect("stored");
        }
    }

    fn send_halves(&self, connection: &mut Connection, stem: &str, count: u32) -> Vec<Half> {
        let half = |number| half(&self.halves, &format!("{stem}-{number}"), &format!("KEYS\u{1}{stem}-{number}\u{2}"));
        (0..count).map(|number| Half::of(&connection.call(&half(number)).expect("answered")).expect("stored")).collect()
    }

    fn send_keyed(connection: &mut Connection, queue: &Queue, stem: &str, count: u32) {
        for number in 0..count {
            let properties = format!("KEYS\u{1}{stem}-{number}\u{2}");
            connection.call_ok(&send(queue, format!("{stem}-{number}"), &properties)).expect("stored");
        }
    }

    /// What is durable. Gives the halves.
    fn begin(&self, connection: &mut Connection) -> Vec<Half> {
        for topic in [&self.timed.topic, &self.popped, &self.halves.topic, &self.read.topic] {
            connection.call_ok(&create_topic(topic, 1)).expect("made");
        }
        connection.call_ok(&heartbeat("c", &self.group)).expect("taken");
        self.send_timed(connection, "t1", 8);
        let halves = self.send_halves(connection, "h1", 6);
        Lossy::send_keyed(connection, &self.read, "r1", 5);
        Lossy::send_keyed(connection, &Queue::new(&self.popped, 0), "p1", 10);
        let first = popped(connection, &pop(&self.group, &self.popped, HELD_MS, 1_000));
        assert_eq!(first.len(), 10);
        for message in first.iter().step_by(2) {
            connection.call_ok(&message.ack(&self.group)).expect("acknowledged");
        }
        halves
    }

    /// What the disk has not taken when the power goes.
    fn go_on(&self, connection: &mut Connection, halves: &mut Vec<Half>) {
        connection.call_ok(&heartbeat("c", &self.group)).expect("taken");
        self.send_timed(connection, "t2", 8);
        for half in &halves[..3] {
            connection.call_ok(&half.end(COMMIT)).expect("ended");
        }
        halves.extend(self.send_halves(connection, "h2", 6));
        Lossy::send_keyed(connection, &self.read, "r2", 10);
        Lossy::send_keyed(connection, &Queue::new(&self.popped, 0), "p2", 8);
        popped(connection, &pop(&self.group, &self.popped, HELD_MS, 0));
        connection.call_ok(&commit_offset(&self.group, &self.read, 15)).expect("committed");
    }

    /// A committed offset does not pass over what is stored where the lost messages were.
    fn check_offset(&self, connection: &mut Connection, kept: usize) {
        let known = connection.call_ok(&consumer_offset(&self.group, &self.read)).expect("known");
        let next = known.number("offset").expect("a number");
        assert_eq!(next, 5 + kept as i64);
        Lossy::send_keyed(connection, &self.read, "r3", 12);
        let bodies: Vec<String> =
            read_queue(connection, &self.read, next).expect("readable").iter().map(text).collect();
        assert_eq!(bodies, (0..12).map(|number| format!("r3-{number}")).collect::<Vec<_>>());
    }

    /// New halves come to lie where lost ones were, and are not ended in their stead.
    fn check_halves(&self, connection: &mut Connection, halves: &[Half], kept: BTreeSet<String>) {
        let fresh = self.send_halves(connection, "h3", 6);
        for half in halves {
            let answer = connection.call(&half.end(COMMIT)).expect("answered");
            assert!([CODE_OK, CODE_SYSTEM_ERROR].contains(&answer.code), "{answer:?}");
        }
        let mut expected = kept;
        expected.extend((0..6).map(|number| format!("h1-{number}")));
        assert_once(connection, &self.halves, &expected);
        connection.call_ok(&fresh[0].end(COMMIT)).expect("transactions go on");
        expected.insert("h3-0".to_owned());
        assert_once(connection, &self.halves, &expected);
    }

    /// Popped messages whose time is over come again, and no others.
    fn check_pops(&self, connection: &mut Connection, kept: BTreeSet<String>) {
        let mut expected = kept;
        expected.extend((1..10).step_by(2).map(|number| format!("p1-{number}")));
        let mut again = BTreeSet::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        let request = pop(&self.group, &self.popped, 60_000, 1_000);
        while again.len() < expected.len() && Instant::now() < deadline {
            for message in popped(connection, &request) {
                connection.call_ok(&message.ack(&self.group)).expect("acknowledged");
                assert!(again.insert(message.body()), "{} came twice", message.body());
            }
        }
        assert_eq!(again, expected);
        assert!(popped(connection, &request).is_empty(), "and nothing else");
    }

    /// Each timer that is there comes once.
    fn check_timers(&self, connection: &mut Connection, kept: BTreeSet<String>) {
        let mut expected = kept;
        expected.extend((0..8).map(|number| format!("t1-{number}")));
        assert_once(connection, &self.timed, &expected);
        self.send_timed(connection, "t3", 1);
        expected.insert("t3-0".to_owned());
        assert_once(connection, &self.timed, &expected);
    }
}

/// A log as it lies on the disk.
#[derive(Default)]
struct Dumped {
    /// Each record with its key.
    records: Vec<(u64, String)>,
    end: u64,
    /// No loss of power takes what lies in front of it.
    durable: u64,
}

fn dumped(store: &Path, log: u16) -> Dumped {
    let finished = program::run(
        &["store", "dump", &store.to_string_lossy(), "--json", "--log", &log.to_string()],
        Duration::from_secs(60),
    );
    assert_eq!(finished.code, Some(0), "{}", finished.text());
    let lines = finished.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut dumped = Dumped::default();
    for line in lines {
        let number = |name: &str| line[name].as_u64().expect("a number");
        match line["kind"].as_str() {
            Some("record") => {
                dumped.records.push((number("offset"), line["keys"].as_str().unwrap_or_default().to_owned()));
            }
            Some("checkpoint") => dumped.durable = number("durable"),
            Some("end") => dumped.end = number("offset"),
            _ => {}
        }
    }
    dumped
}

/// Lets each log lose the second half of what is not durable, with a torn record at its end, and its tail file. Gives the
/// keys of what is left.
fn lose_power(store: &Path, logs: u16) -> BTreeSet<String> {
    let mut kept = BTreeSet::new();
    for log in 0..logs {
        let Dumped { records, end, durable } = dumped(store, log);
        let cut = durable + (end - durable) / 2;
        let folder = store.join(format!("log-{log:02}"));
        let path = folder.join("commitlog").join(format!("{:020}", 0));
        let bytes = fs::metadata(&path).expect("a segment").len();
        assert!(end < bytes, "all lies in one segment");
        let segment = OpenOptions::new().write(true).open(&path).expect("opened");
        segment.write_all_at(&vec![0; (end - cut) as usize], cut).expect("written");
        fs::remove_file(folder.join("tail")).expect("it has a tail file");
        let limits = records.iter().skip(1).map(|(offset, _)| *offset).chain([end]);
        kept.extend(records.iter().zip(limits).filter(|(_, limit)| *limit <= cut).map(|((_, key), _)| key.clone()));
    }
    kept
}

/// What one node can show of E9, which speaks of two: its log loses its end, as by a loss of power, and with it what
/// timers, pops, transactions and committed offsets refer to.
#[test]
fn e9_what_a_log_lost_is_forgotten_by_all_that_referred_to_it() {
    const NAME: &str = "e9_what_a_log_lost_is_forgotten_by_all_that_referred_to_it";
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(NAME, "it stops the process and touches its files");
    }
    let keys = ["flushDiskType=ASYNC_FLUSH", "flushIntervalCommitLog=3600000", "flushConsumerOffsetInterval=200"];
    let dev = keys.iter().fold(Dev::new("e9"), |dev, key| dev.property(key));
    let store = dev.store().join("store");
    let connect = || Connection::open(&dev.broker).expect("it listens");
    let all = Lossy {
        timed: Queue::new(&unique_name("e9-timed"), 0),
        popped: unique_name("e9-popped"),
        halves: Queue::new(&unique_name("e9-halves"), 0),
        read: Queue::new(&unique_name("e9-read"), 0),
        group: unique_name("e9"),
    };
    let mut process = dev.start();
    let mut halves = all.begin(&mut connect());
    assert_eq!(process.stop(), Some(0));
    process = dev.start();
    all.go_on(&mut connect(), &mut halves);
    // Offsets are saved, and what was gathered is written.
    thread::sleep(Duration::from_millis(1_500));
    process.kill();
    let kept = lose_power(&store, dev.logs as u16);
    let process = dev.start();
    assert!(process.log().contains("is missing"), "the loss is told: {}", process.log());
    let mut connection = connect();
    connection.call_ok(&heartbeat("c", &all.group)).expect("taken");
    let kept_of = |stem: &str| kept.iter().filter(|key| key.starts_with(stem)).cloned().collect::<BTreeSet<_>>();
    all.check_offset(&mut connection, kept_of("r2").len());
    all.check_halves(&mut connection, &halves, kept_of("h2"));
    all.check_pops(&mut connection, kept_of("p2"));
    all.check_timers(&mut connection, kept_of("t2"));
}

fn text(record: &Record) -> String {
    String::from_utf8_lossy(&record.body).into_owned()
}

/// The queue gets these messages, each once, and no others.
fn assert_once(connection: &mut Connection, queue: &Queue, expected: &BTreeSet<String>) {
    let mut found: Vec<String> = read_queue_of(connection, queue, expected.len()).iter().map(text).collect();
    found.sort();
    assert_eq!(found, expected.iter().cloned().collect::<Vec<_>>(), "{queue:?}");
}
