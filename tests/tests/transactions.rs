//! Transactions: what consumers see, whom the broker asks, and what a kill leaves.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use base::Random;
use harness::connection::Connection;
use harness::frame::Frame;
use harness::process::Dev;
use harness::record::decode_all;
use harness::request::{
    CODE_MESSAGE_ILLEGAL, CODE_OK, CODE_SYSTEM_ERROR, MAX_OFFSET, Queue, await_count, create_topic, heartbeat,
    offset_of, read_queue, read_queue_of, send,
};
use harness::target::{TARGET_VARIABLE, Target};
use harness::transaction::{CHECK_TRANSACTION, COMMIT, Half, RESUME_CHECK, ROLLBACK, half};
use harness::{left_out, now_ms, unique_name};

/// Enough for each of four logs to have two.
const QUEUES: u32 = 8;
const GIVEN_UP_TOPIC: &str = "TRANS_CHECK_MAX_TIME_TOPIC";

fn topic(target: &Target, stem: &str) -> String {
    let topic = unique_name(stem);
    target.connect().call_ok(&create_topic(&topic, QUEUES)).expect("the topic is made");
    topic
}

fn send_half(connection: &mut Connection, queue: &Queue, body: &str) -> Half {
    Half::of(&connection.call(&half(queue, body, "")).expect("a half message is answered")).expect("it is stored")
}

fn end(connection: &mut Connection, half: &Half, verdict: i32) -> i32 {
    connection.call(&half.end(verdict)).expect("an end is answered").code
}

/// A connection of a producer that is online.
fn producer(target: &Target, stem: &str) -> Connection {
    let mut connection = target.connect();
    connection.call_ok(&heartbeat(&unique_name(stem), "harness-consumer")).expect("a heartbeat is answered");
    connection
}

/// The next question about a transaction.
fn question(connection: &mut Connection) -> Frame {
    loop {
        let frame = connection.receive().expect("a question comes in time");
        if frame.code == CHECK_TRANSACTION && !frame.is_answer() {
            return frame;
        }
    }
}

#[test]
fn the_first_end_wins_in_every_queue() {
    let target = Target::start("transactions");
    if target.is_given() {
        return left_out("the_first_end_wins_in_every_queue", "Apache lets a second end win as well");
    }
    let topic = topic(&target, "ends");
    let (mut connection, mut other) = (target.connect(), target.connect());
    for id in 0..QUEUES {
        let queue = Queue::new(&topic, id);
        let (kept, dropped, open) = (
            send_half(&mut connection, &queue, "kept"),
            send_half(&mut connection, &queue, "dropped"),
            send_half(&mut connection, &queue, "open"),
        );
        assert_eq!(offset_of(&mut connection, MAX_OFFSET, &queue).expect("its end"), 0, "nothing is seen yet");
        assert_eq!(end(&mut other, &dropped, ROLLBACK), CODE_OK);
        assert_eq!(end(&mut other, &kept, COMMIT), CODE_OK);
        for (half, verdict) in [(&kept, COMMIT), (&kept, ROLLBACK), (&dropped, COMMIT), (&dropped, ROLLBACK)] {
            assert_eq!(end(&mut connection, half, verdict), CODE_SYSTEM_ERROR, "the second end: {half:?}");
        }
        let strange = Half { queue_offset: open.queue_offset, ..kept.clone() };
        assert_eq!(end(&mut connection, &strange, COMMIT), CODE_SYSTEM_ERROR, "two halves mixed up");
        let stranger = open.end(COMMIT).field("producerGroup", "another");
        assert_eq!(connection.call(&stranger).expect("answered").code, CODE_SYSTEM_ERROR);
        let records = read_queue(&mut connection, &queue, 0).expect("the queue can be read");
        assert_eq!(records.iter().map(|record| &record.body[..]).collect::<Vec<_>>(), [b"kept"]);
        assert!(records[0].properties.contains("TRAN_MSG\u{1}true"), "{:?}", records[0]);
        assert_eq!(end(&mut connection, &open, COMMIT), CODE_OK, "a stranger has not ended it");
    }
}

#[test]
fn a_half_cannot_come_in_by_other_ways() {
    let target = Target::start("half-ways");
    let mut connection = target.connect();
    for topic in ["RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", GIVEN_UP_TOPIC] {
        let answer = connection.call(&send(&Queue::new(topic, 0), "x", "")).expect("answered");
        assert_eq!(answer.code, 16, "{topic}: {answer:?}");
    }
}

#[test]
fn d5_any_live_producer_of_the_group_is_asked() {
    let dev = Dev::new("checks").property("transactionTimeOut=300").property("transactionCheckInterval=200");
    let target = Target::start_with(dev);
    if target.is_given() {
        return left_out("d5_any_live_producer_of_the_group_is_asked", "its check times are not ours to choose");
    }
    let topic = topic(&target, "checks");
    // On both cores, whichever core a connection goes to.
    for id in 0..QUEUES {
        let queue = Queue::new(&topic, id);
        let body = format!("body {id}");
        let half = send_half(&mut target.connect(), &queue, &body);
        let mut asked = producer(&target, "checked");
        let question = question(&mut asked);
        for (name, value) in [
            ("tranStateTableOffset", half.queue_offset.to_string()),
            ("commitLogOffset", half.log_offset.to_string()),
            ("msgId", half.transaction_id.clone()),
            ("transactionId", half.transaction_id.clone()),
            ("offsetMsgId", half.offset_id.clone()),
            ("topic", topic.clone()),
        ] {
            assert_eq!(question.fields.get(name), Some(&value), "{name} of {question:?}");
        }
        let shown = &decode_all(&question.body).expect("a message")[0];
        assert_eq!((&shown.topic, shown.queue_id, &shown.body[..]), (&topic, id, body.as_bytes()));
        assert!(shown.properties.contains("TRANSACTION_CHECK_TIMES\u{1}"), "{shown:?}");
        let verdict = half.end(COMMIT).field("fromTransactionCheck", true);
        asked.call_ok(&verdict).expect("the end is taken");
        assert_eq!(read_queue(&mut asked, &queue, 0).expect("readable").len(), 1);
    }
}

#[test]
fn what_nobody_knows_is_given_up_and_can_be_resumed() {
    let dev = Dev::new("given-up")
        .property("transactionTimeOut=100")
        .property("transactionCheckInterval=100")
        .property("transactionCheckMax=2");
    let target = Target::start_with(dev);
    if target.is_given() {
        return left_out("what_nobody_knows_is_given_up_and_can_be_resumed", "its limits are not ours to choose");
    }
    let queue = Queue::new(&topic(&target, "given-up"), 3);
    let mut asked = producer(&target, "given-up");
    let half = send_half(&mut target.connect(), &queue, "whose?");
    let mut times = Vec::new();
    for _ in 0..2 {
        let shown = decode_all(&question(&mut asked).body).expect("a message").remove(0);
        let (_, rest) = shown.properties.split_once("TRANSACTION_CHECK_TIMES\u{1}").expect("the number of checks");
        times.push(rest.split('\u{2}').next().expect("a value").to_owned());
    }
    assert_eq!(times, ["1", "2"]);
    let (kept, number) = kept_copy(&mut target.connect());
    assert_eq!((&kept.body[..], number), (&b"whose?"[..], 1));
    assert_eq!(end(&mut target.connect(), &half, COMMIT), CODE_SYSTEM_ERROR, "it is too late");
    let id = half.offset_id.replace(&format!("{:016X}", half.log_offset), &format!("{:016X}", kept.physical_offset));
    target.connect().call_ok(&Frame::request(RESUME_CHECK).field("msgId", id)).expect("it is resumed");
    let resumed = question(&mut asked);
    let verdict = half
        .end(COMMIT)
        .field("tranStateTableOffset", resumed.text("tranStateTableOffset").expect("an offset"))
        .field("commitLogOffset", resumed.text("commitLogOffset").expect("an offset"))
        .field("fromTransactionCheck", true);
    asked.call_ok(&verdict).expect("the end is taken");
    assert_eq!(read_queue(&mut asked, &queue, 0).expect("readable").len(), 1);
}

/// The one message that was given up, in whichever queue it lies, and how many there are.
fn kept_copy(connection: &mut Connection) -> (harness::record::Record, usize) {
    loop {
        let mut kept = Vec::new();
        for id in 0..4 {
            let answer =
                connection.call(&harness::request::pull("harness-reader", &Queue::new(GIVEN_UP_TOPIC, id), 0, 32));
            // The topic is made when the first message is given up.
            let answer = answer.expect("a pull is answered");
            if answer.code == CODE_OK {
                kept.extend(decode_all(&answer.body).expect("messages"));
            }
        }
        if let Some(first) = kept.first() {
            return (first.clone(), kept.len());
        }
        thread::yield_now();
    }
}

/// What is known of a transaction when its broker was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Ended(i32),
    /// The end was sent and not answered.
    Asked(i32),
}

#[derive(Clone, Debug)]
struct Transaction {
    queue: u32,
    body: String,
    half: Half,
    fate: Fate,
}

/// Starts transactions and ends two thirds of them, until the broker is killed.
fn produce(broker: &str, topic: &str, seed: u64, killed: &AtomicBool, all: &Mutex<Vec<Transaction>>) {
    let outcome = produce_forever(broker, topic, seed, all);
    let error = outcome.expect_err("only the kill ends it");
    assert!(killed.load(Ordering::SeqCst), "before the kill: {error}");
}

fn produce_forever(broker: &str, topic: &str, seed: u64, all: &Mutex<Vec<Transaction>>) -> io::Result<()> {
    let mut connection = Connection::open(broker)?;
    let mut random = Random::new(seed);
    for number in 0.. {
        let queue = u32::try_from(random.below(u64::from(QUEUES))).expect("a small number");
        let body = format!("{seed}-{number}-{}", "x".repeat(usize::try_from(random.below(3_000)).expect("small")));
        let half = Half::of(&connection.call(&half(&Queue::new(topic, queue), &body, ""))?)?;
        let mut transaction = Transaction { queue, body, half, fate: Fate::Open };
        let verdict = [0, COMMIT, ROLLBACK][usize::try_from(random.below(3)).expect("small")];
        if verdict != 0 {
            transaction.fate = Fate::Asked(verdict);
            let answer = connection.call(&transaction.half.end(verdict));
            if let Ok(answer) = &answer {
                assert_eq!(answer.code, CODE_OK, "{answer:?}");
                transaction.fate = Fate::Ended(verdict);
            }
            all.lock().expect("nobody panics with the lock held").push(transaction);
            answer?;
        } else {
            all.lock().expect("nobody panics with the lock held").push(transaction);
        }
    }
    unreachable!("numbers do not end")
}

fn count_bodies(connection: &mut Connection, topic: &str) -> HashMap<(u32, String), usize> {
    let mut counts = HashMap::new();
    for id in 0..QUEUES {
        for record in read_queue(connection, &Queue::new(topic, id), 0).expect("the queue can be read") {
            *counts.entry((id, String::from_utf8_lossy(&record.body).into_owned())).or_insert(0) += 1;
        }
    }
    counts
}

#[test]
fn a_kill_loses_and_doubles_no_transaction() {
    const TEST: &str = "a_kill_loses_and_doubles_no_transaction";
    const ROUNDS: u64 = 6;
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(TEST, "the given servers are not ours to kill");
    }
    let seed = std::env::var("RINGMQ_KILL9_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(now_ms);
    println!("{TEST}: RINGMQ_KILL9_SEED={seed}");
    let mut random = Random::new(seed);
    let dev = Dev::new("transactions-kill9");
    let topic = unique_name("kill9");
    let mut known: Vec<Transaction> = Vec::new();
    for round in 0..ROUNDS {
        let mut running = dev.start();
        if round == 0 {
            let mut connection = Connection::open(&dev.broker).expect("it listens");
            connection.call_ok(&create_topic(&topic, QUEUES)).expect("the topic is made");
        }
        let (killed, fresh) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for number in 0..4 {
                let (dev, topic, killed, fresh) = (&dev, &topic, &killed, &fresh);
                let seed = seed ^ (round << 8 | number);
                scope.spawn(move || produce(&dev.broker, topic, seed, killed, fresh));
            }
            // Not a wait for an event: the moment of the kill is what is drawn.
            thread::sleep(Duration::from_millis(300 + random.below(1_200)));
            killed.store(true, Ordering::SeqCst);
            running.kill();
        });
        known.extend(fresh.into_inner().expect("nobody panics with the lock held"));
        let mut running = dev.start();
        let mut connection = Connection::open(&dev.broker).expect("it listens");
        check_and_settle(&mut connection, &topic, &mut known, &mut random);
        running.kill();
    }
    assert!(known.len() > 100, "only {} transactions in {ROUNDS} rounds", known.len());
}

/// Compares the queues with what is known, then ends what is open or unsure, which must work exactly where it must.
fn check_and_settle(connection: &mut Connection, topic: &str, known: &mut [Transaction], random: &mut Random) {
    let mut counts = count_bodies(connection, topic);
    for transaction in known.iter_mut() {
        let key = (transaction.queue, transaction.body.clone());
        let seen = counts.get(&key).copied().unwrap_or(0);
        match transaction.fate {
            Fate::Ended(COMMIT) => assert_eq!(seen, 1, "committed: {transaction:?}"),
            Fate::Ended(_) | Fate::Open => assert_eq!(seen, 0, "not committed: {transaction:?}"),
            Fate::Asked(COMMIT) => assert!(seen <= 1, "committed twice: {transaction:?}"),
            Fate::Asked(_) => assert_eq!(seen, 0, "rolled back: {transaction:?}"),
        }
        match transaction.fate {
            Fate::Ended(_) if random.below(20) == 0 => {
                assert_eq!(end(connection, &transaction.half, COMMIT), CODE_SYSTEM_ERROR, "ended: {transaction:?}");
            }
            Fate::Open if random.below(2) == 0 => {
                assert_eq!(end(connection, &transaction.half, COMMIT), CODE_OK, "it was pending: {transaction:?}");
                transaction.fate = Fate::Ended(COMMIT);
            }
            Fate::Asked(verdict) => {
                let again = end(connection, &transaction.half, verdict);
                let was_ended = again == CODE_SYSTEM_ERROR;
                assert!(was_ended || again == CODE_OK, "{again} for {transaction:?}");
                assert_eq!(seen == 1, was_ended && verdict == COMMIT, "seen and ended are one: {transaction:?}");
                transaction.fate = Fate::Ended(verdict);
            }
            _ => {}
        }
    }
    counts = count_bodies(connection, topic);
    for transaction in known.iter() {
        let expected = usize::from(transaction.fate == Fate::Ended(COMMIT));
        let key = (transaction.queue, transaction.body.clone());
        assert_eq!(counts.remove(&key).unwrap_or(0), expected, "after its end: {transaction:?}");
    }
    assert!(counts.is_empty(), "messages that nobody committed: {counts:?}");
}

#[test]
fn checks_go_on_after_a_kill() {
    const TEST: &str = "checks_go_on_after_a_kill";
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(TEST, "the given servers are not ours to kill");
    }
    let dev = Dev::new("checks-kill9").property("transactionTimeOut=100").property("transactionCheckInterval=100");
    let topic = unique_name("checks");
    let mut running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic(&topic, QUEUES)).expect("the topic is made");
    let halves: Vec<Half> =
        (0..QUEUES).map(|id| send_half(&mut connection, &Queue::new(&topic, id), &id.to_string())).collect();
    for half in &halves[..4] {
        assert_eq!(end(&mut connection, half, COMMIT), CODE_OK);
    }
    running.kill();
    let _running = dev.start();
    let mut asked = Connection::open(&dev.broker).expect("it listens");
    asked.call_ok(&heartbeat("asked", "harness-consumer")).expect("a heartbeat is answered");
    let mut open: Vec<&Half> = halves[4..].iter().collect();
    while !open.is_empty() {
        let question = question(&mut asked);
        let id = question.text("msgId").expect("an id");
        assert!(halves[..4].iter().all(|half| half.transaction_id != id), "it was ended: {question:?}");
        if let Some(index) = open.iter().position(|half| half.transaction_id == id) {
            let half = open.swap_remove(index);
            let verdict = half.end(COMMIT).field("fromTransactionCheck", true).one_way();
            asked.send(&verdict).expect("an end can be sent");
        }
    }
    let mut reader = Connection::open(&dev.broker).expect("it listens");
    for id in 0..QUEUES {
        let queue = Queue::new(&topic, id);
        assert!(await_count(&mut reader, &queue, 1));
        assert_eq!(read_queue_of(&mut reader, &queue, 1).len(), 1, "{queue:?}");
    }
}

#[test]
fn a_committed_message_with_a_delay_waits_from_its_commit_on() {
    let target = Target::start("late-commits");
    if target.is_given() {
        return left_out("a_committed_message_with_a_delay", "Apache delays the half, and never delivers the message");
    }
    let queue = Queue::new(&topic(&target, "late"), 3);
    let mut connection = target.connect();
    let send_half = |connection: &mut Connection, body: &str, wish: &str| {
        Half::of(&connection.call(&half(&queue, body, wish)).expect("answered")).expect("stored")
    };
    let level = send_half(&mut connection, "level", "DELAY\u{1}1\u{2}");
    let timer = send_half(&mut connection, "timer", "TIMER_DELAY_MS\u{1}1500\u{2}");
    let dropped = send_half(&mut connection, "dropped", "DELAY\u{1}1\u{2}");
    for (wish, code) in [
        ("DELAY\u{1}x\u{2}", CODE_SYSTEM_ERROR),
        ("TIMER_DELAY_SEC\u{1}259201\u{2}", CODE_MESSAGE_ILLEGAL),
        ("TIMER_DELAY_MS\u{1}x\u{2}", CODE_MESSAGE_ILLEGAL),
    ] {
        let answer = connection.call(&half(&queue, "refused", wish)).expect("answered");
        assert_eq!(answer.code, code, "{wish}: {}", answer.remark);
    }
    thread::sleep(Duration::from_millis(600));
    let committed_ms = now_ms();
    assert_eq!(end(&mut connection, &dropped, ROLLBACK), CODE_OK);
    for half in [&level, &timer] {
        assert_eq!(end(&mut connection, half, COMMIT), CODE_OK);
        assert_eq!(end(&mut connection, half, COMMIT), CODE_SYSTEM_ERROR, "once");
    }
    assert_eq!(offset_of(&mut connection, MAX_OFFSET, &queue).expect("its end"), 0, "they wait");
    let records = read_queue_of(&mut connection, &queue, 2);
    assert_eq!(records.iter().map(|record| &record.body[..]).collect::<Vec<_>>(), [&b"level"[..], b"timer"]);
    for (record, delay_ms) in records.iter().zip([1_000, 1_500]) {
        let waited = record.store_ms - committed_ms;
        assert!((delay_ms..delay_ms + 5_000).contains(&waited), "{waited} ms: {record:?}");
    }
}

#[test]
fn late_commits_are_delivered_once_whenever_the_broker_is_killed() {
    let name = "late_commits_are_delivered_once_whenever_the_broker_is_killed";
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(name, "it kills the broker");
    }
    let dev = Dev::new("late-kill");
    let topic = unique_name("late-kill");
    let mut random = Random::new(11);
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let mut process = dev.start();
        let mut connection = Connection::open(&dev.broker).expect("the broker listens");
        connection.call_ok(&create_topic(&topic, QUEUES)).expect("the topic is made");
        for number in 0..40 {
            let body = format!("{round}-{number}");
            let queue = Queue::new(&topic, number % QUEUES);
            let wish = ["DELAY\u{1}1\u{2}", "TIMER_DELAY_MS\u{1}700\u{2}"][number as usize % 2];
            let sent = Half::of(&connection.call(&half(&queue, &body, wish)).expect("answered")).expect("stored");
            assert_eq!(end(&mut connection, &sent, COMMIT), CODE_OK);
            acknowledged.push(body);
        }
        thread::sleep(Duration::from_millis(random.next_u64() % 1_500));
        process.kill();
    }
    let _process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("the broker listens");
    let mut found = Vec::new();
    for id in 0..QUEUES {
        for record in read_queue_of(&mut connection, &Queue::new(&topic, id), 3 * 40 / QUEUES as usize) {
            found.push(String::from_utf8(record.body).expect("text"));
        }
    }
    found.sort();
    acknowledged.sort();
    assert_eq!(found, acknowledged, "each once");
}
