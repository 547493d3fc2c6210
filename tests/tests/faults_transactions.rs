//! Public faults of such brokers about transactions, replayed: each test is named after its entry in the list of them.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::{Connection, Reaction};
use harness::frame::Frame;
use harness::process::Dev;
use harness::record::decode_all;
use harness::request::{
    self, CODE_SYSTEM_ERROR, MAX_OFFSET, Queue, await_count, create_topic, heartbeat, offset_of, read_queue, send,
};
use harness::target::{TARGET_VARIABLE, Target};
use harness::transaction::{CHECK_TRANSACTION, COMMIT, Half, ROLLBACK, half};
use harness::{left_out, unique_name};

const CODE_NO_PERMISSION: i32 = 16;

/// The next question about a transaction that comes within a time.
fn question(connection: &mut Connection, within: Duration) -> Option<Frame> {
    let until = Instant::now() + within;
    while Instant::now() < until {
        if let Reaction::Answered(frame) = connection.reaction(Duration::from_millis(100)).expect("readable")
            && frame.code == CHECK_TRANSACTION
        {
            return Some(frame);
        }
    }
    None
}

#[test]
fn d1_d2_only_what_is_pending_is_asked_about_also_after_a_restart() {
    let name = "d1_d2_only_what_is_pending_is_asked_about_also_after_a_restart";
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(name, "it needs a process of its own");
    }
    let dev = Dev::new("d1")
        .property("transactionTimeOut=500")
        .property("transactionCheckInterval=500")
        .property("transactionCheckMax=1000");
    let topic = unique_name("d1");
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic(&topic, 4)).expect("made");
    let mut unknown = BTreeSet::new();
    for number in 0..60u32 {
        let request = half(&Queue::new(&topic, number % 4), &number.to_string(), "");
        let sent = Half::of(&connection.call(&request).expect("answered")).expect("stored");
        match number % 3 {
            0 => drop(connection.call_ok(&sent.end(COMMIT)).expect("taken")),
            1 => drop(connection.call_ok(&sent.end(ROLLBACK)).expect("taken")),
            _ => drop(unknown.insert(number.to_string())),
        }
    }
    for round in 0..2 {
        connection.call_ok(&heartbeat("producer", "d1")).expect("taken");
        let mut asked = BTreeSet::new();
        let mut until = Instant::now() + Duration::from_secs(15);
        while Instant::now() < until {
            if let Reaction::Answered(frame) = connection.reaction(Duration::from_millis(100)).expect("readable")
                && frame.code == CHECK_TRANSACTION
            {
                let records = decode_all(&frame.body).expect("a record");
                let all_were_asked = asked.is_superset(&unknown);
                asked.insert(String::from_utf8(records[0].body.clone()).expect("text"));
                if !all_were_asked && asked.is_superset(&unknown) {
                    // Two rounds more show that no others are asked about.
                    until = Instant::now() + Duration::from_millis(1_200);
                }
            }
        }
        assert_eq!(asked, unknown, "round {round}");
        if round == 0 {
            assert_eq!(process.stop(), Some(0));
            process = dev.start();
            connection = Connection::open(&dev.broker).expect("it listens");
        }
    }
}

#[test]
fn d3_what_a_check_has_rolled_back_no_late_commit_brings_back() {
    let dev = Dev::new("d3").property("transactionTimeOut=200").property("transactionCheckInterval=200");
    let target = Target::start_with(dev);
    if target.is_given() {
        return left_out("d3", "Apache lets the late commit win too");
    }
    let (queue, mut producer) = (target.queue("d3"), target.connect());
    producer.call_ok(&heartbeat("producer", "d3")).expect("taken");
    for (checked, late) in [(ROLLBACK, COMMIT), (COMMIT, ROLLBACK)] {
        let before = offset_of(&mut producer, MAX_OFFSET, &queue).expect("known");
        let sent = Half::of(&producer.call(&half(&queue, "slow", "")).expect("answered")).expect("stored");
        let question = question(&mut producer, Duration::from_secs(20)).expect("it is asked about");
        assert_eq!(question.text("transactionId").expect("an id"), sent.transaction_id);
        let verdict = sent.end(checked).field("fromTransactionCheck", true);
        producer.call_ok(&verdict).expect("the first end is taken");
        // The local transaction ends at last, and its producer says so.
        let answer = producer.call(&sent.end(late)).expect("answered");
        assert_eq!(answer.code, CODE_SYSTEM_ERROR, "{}", answer.remark);
        let came = offset_of(&mut producer, MAX_OFFSET, &queue).expect("known") - before;
        assert_eq!(came, i64::from(checked == COMMIT), "the first end counts");
    }
}

#[test]
fn d4_producers_that_leave_while_they_are_asked_stop_no_round() {
    const HALVES: u32 = 24;
    const PRODUCERS: usize = 100;
    let dev = Dev::new("d4").property("transactionTimeOut=100").property("transactionCheckInterval=100");
    let target = Target::start_with(dev.property("transactionCheckMax=100000"));
    if target.is_given() {
        return left_out("d4", "its check times are not ours to choose");
    }
    let topic = target.topic("d4", 8);
    let mut connection = target.connect();
    let mut open = BTreeSet::new();
    for number in 0..HALVES {
        let request = half(&Queue::new(&topic, number % 8), &number.to_string(), "");
        open.insert(Half::of(&connection.call(&request).expect("answered")).expect("stored").transaction_id);
    }
    // Each leaves with the first question, half of them without having read it.
    for number in 0..PRODUCERS {
        let mut producer = target.connect();
        producer.call_ok(&heartbeat(&format!("p{number}"), "d4")).expect("taken");
        if number % 2 == 0 {
            question(&mut producer, Duration::from_secs(20)).expect("rounds go on");
        } else {
            thread::sleep(Duration::from_millis(20));
        }
    }
    connection.call_ok(&heartbeat("last", "d4")).expect("taken");
    let until = Instant::now() + Duration::from_secs(60);
    while !open.is_empty() {
        let question = question(&mut connection, until.saturating_duration_since(Instant::now()));
        let question = question.unwrap_or_else(|| panic!("never asked about: {open:?}"));
        let id = question.text("transactionId").expect("an id").to_owned();
        if !open.remove(&id) {
            continue;
        }
        let end = Frame::request(harness::transaction::END_TRANSACTION)
            .field("producerGroup", harness::transaction::PRODUCER_GROUP)
            .field("tranStateTableOffset", question.text("tranStateTableOffset").expect("an offset"))
            .field("commitLogOffset", question.text("commitLogOffset").expect("an offset"))
            .field("commitOrRollback", COMMIT)
            .field("fromTransactionCheck", true)
            .field("msgId", &id)
            .field("transactionId", &id)
            .one_way();
        connection.send(&end).expect("sent");
    }
    let mut reader = target.connect();
    for id in 0..8 {
        assert!(await_count(&mut reader, &Queue::new(&topic, id), i64::from(HALVES / 8)), "queue {id}");
        assert_eq!(read_queue(&mut reader, &Queue::new(&topic, id), 0).expect("readable").len() as u32, HALVES / 8);
    }
}

#[test]
fn d6_the_brokers_own_topics_take_no_sends() {
    let target = Target::start("d6");
    let mut connection = target.connect();
    for topic in [
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "SCHEDULE_TOPIC_XXXX",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "OFFSET_MOVED_EVENT",
    ] {
        for request in [send(&Queue::new(topic, 0), "x", ""), request::send_v1(&Queue::new(topic, 0), "x")] {
            assert_eq!(connection.call(&request).expect("answered").code, CODE_NO_PERMISSION, "{topic}");
        }
    }
}
