//! Messages found by key, by unique key and by time: across segments and derived extents, after restarts and kills, with
//! the derived files gone, and after old segments went.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::frame::Frame;
use harness::process::{Dev, Running};
use harness::record::{Record, decode_all};
use harness::request::{
    CODE_NOT_FOUND, CODE_OK, EARLIEST_TIME, MAX_OFFSET, MIN_OFFSET, Queue, Stored, about_queue, await_count,
    create_topic, offset_by_time, offset_of, query, read_queue, send,
};
use harness::target::{TARGET_VARIABLE, Target};
use harness::{left_out, unique_name};

const DELETE_EXPIRED: i32 = 329;
const QUEUES: u32 = 2;
const SEGMENT_BYTES: u64 = 1 << 20;
/// Of a message without keys, which lies beside each that has some: they make the logs long, and are not found.
const FILLER_BYTES: usize = 60_000;
/// With the fillers, of each of the two logs: 2 derived extents of 64 MiB that are whole, and a third that grows.
const MESSAGES: u32 = 4_500;
const IN_FLIGHT: u32 = 50;
/// Each key of a message that it shares with others is that of every so manieth.
const SHARED_BY: u32 = 97;
/// Messages of one answer.
const ANSWER_MAX: usize = 64;
const ALL_TIMES: (i64, i64) = (0, i64::MAX);
const CLEANED_WITHIN: Duration = Duration::from_secs(60);

/// What was sent, as it was read once: by number.
type Model = BTreeMap<u32, Message>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    queue: u32,
    offset: u64,
    store_ms: i64,
    physical_offset: u64,
}

fn connect(dev: &Dev) -> Connection {
    Connection::open(&dev.broker).expect("the broker takes connections")
}

fn number_of(record: &Record) -> u32 {
    u32::from_be_bytes(record.body[..4].try_into().expect("four bytes"))
}

fn has_key(number: u32, key: &str) -> bool {
    keys_of(number).split(' ').any(|own| own == key)
}

/// Its own key; one that it shares with others, named twice; one that all have.
fn keys_of(number: u32) -> String {
    let shared = number % SHARED_BY;
    format!("k{number} s{shared} s{shared} all")
}

fn fill(dev: &Dev, topic: &str) {
    let mut connection = connect(dev);
    for first in (0..MESSAGES).step_by(IN_FLIGHT as usize) {
        for number in first..first + IN_FLIGHT {
            let queue = Queue::new(topic, number % QUEUES);
            let properties = format!("UNIQ_KEY\u{1}u{number}\u{2}KEYS\u{1}{}\u{2}", keys_of(number));
            connection.send(&send(&queue, number.to_be_bytes(), &properties)).expect("sent");
            connection.send(&send(&Queue { id: queue.id + QUEUES, ..queue }, [b'.'; FILLER_BYTES], "")).expect("sent");
        }
        for _ in 0..2 * IN_FLIGHT {
            Stored::of(&connection.receive().expect("answered")).expect("stored");
        }
    }
}

fn model(dev: &Dev, topic: &str) -> Model {
    let mut connection = connect(dev);
    let mut model = Model::new();
    for queue in 0..QUEUES {
        for record in read_queue(&mut connection, &Queue::new(topic, queue), 0).expect("read") {
            let message = Message {
                queue,
                offset: record.queue_offset,
                store_ms: record.store_ms.cast_signed(),
                physical_offset: record.physical_offset,
            };
            model.insert(number_of(&record), message);
        }
    }
    model
}

/// The newest of the messages that satisfy a condition, by number, in the order in which they were stored.
fn newest(model: &Model, count: usize, holds: impl Fn(u32, &Message) -> bool) -> Vec<u32> {
    let mut found: Vec<_> = model.iter().filter(|(number, message)| holds(**number, message)).collect();
    found.sort_by_key(|(_, message)| (message.store_ms, message.physical_offset));
    found[found.len().saturating_sub(count)..].iter().map(|(number, _)| **number).collect()
}

/// What a query finds; that what is found has its place is checked too.
fn found(connection: &mut Connection, request: &Frame) -> Vec<Record> {
    let answer = connection.call(request).expect("a query is answered");
    match answer.code {
        CODE_OK => {
            answer.number("indexLastUpdateTimestamp").expect("clients need it");
            answer.number("indexLastUpdatePhyoffset").expect("clients need it");
            decode_all(&answer.body).expect("records")
        }
        CODE_NOT_FOUND => Vec::new(),
        code => panic!("a query is refused with {code}: {}", answer.remark),
    }
}

fn check(dev: &Dev, topic: &str, model: &Model, state: &str) {
    let mut connection = connect(dev);
    let mut numbers = |request: &Frame| -> Vec<u32> { found(&mut connection, request).iter().map(number_of).collect() };
    let (first, last) = (*model.keys().next().expect("some"), *model.keys().last().expect("some"));
    for number in model.keys().copied().step_by(173).chain([last]) {
        let unique = query(topic, &format!("u{number}"), 1, ALL_TIMES).field("_UNIQUE_KEY_QUERY", true);
        assert_eq!(numbers(&unique), [number], "{state}: by unique key");
        assert_eq!(numbers(&query(topic, &format!("k{number}"), 9, ALL_TIMES)), [number], "{state}: by its own key");
    }
    for number in (0..first).step_by(59) {
        assert!(numbers(&query(topic, &format!("k{number}"), 9, ALL_TIMES)).is_empty(), "{state}: {number} is gone");
    }
    for shared in (0..SHARED_BY).step_by(11) {
        let key = format!("s{shared}");
        for count in [1, 7, 32, 100] {
            let expected = newest(model, ANSWER_MAX.min(count as usize), |number, _| has_key(number, &key));
            assert_eq!(numbers(&query(topic, &key, count, ALL_TIMES)), expected, "{state}: {count} of {key}");
        }
    }
    let newest_of_all = newest(model, ANSWER_MAX, |_, _| true);
    assert_eq!(numbers(&query(topic, "all", 1000, ALL_TIMES)), newest_of_all, "{state}: a key of all");
    for nothing in
        [query(topic, "s1", 0, ALL_TIMES), query(topic, "none", 9, ALL_TIMES), query("no", "s1", 9, ALL_TIMES)]
    {
        assert!(numbers(&nothing).is_empty(), "{state}: {nothing:?}");
    }
    check_times(dev, topic, model, state);
}

fn check_times(dev: &Dev, topic: &str, model: &Model, state: &str) {
    let mut connection = connect(dev);
    let (first, last) = (*model.keys().next().expect("some"), *model.keys().last().expect("some"));
    let step = (last - first) as usize / 12;
    let times: Vec<i64> =
        (first..=last).step_by(step).filter_map(|number| Some(model.get(&number)?.store_ms)).collect();
    for (index, from) in times.iter().enumerate() {
        let to = times[(index + 2).min(times.len() - 1)];
        for range in [(*from, to), (from + 1, to), (*from, to - 1), (*from, *from), (to, *from), (to + 1, i64::MAX)] {
            for key in ["all", "s7"] {
                let within = |_: u32, message: &Message| (range.0..=range.1).contains(&message.store_ms);
                let expected =
                    newest(model, ANSWER_MAX, |number, message| has_key(number, key) && within(number, message));
                let numbers: Vec<u32> =
                    found(&mut connection, &query(topic, key, 64, range)).iter().map(number_of).collect();
                assert_eq!(numbers, expected, "{state}: {key} from {} to {}", range.0, range.1);
            }
        }
    }
    for queue in 0..QUEUES {
        let of_queue: BTreeMap<u64, i64> = model
            .values()
            .filter(|message| message.queue == queue)
            .map(|message| (message.offset, message.store_ms))
            .collect();
        let (min, max) = (*of_queue.keys().next().expect("some"), of_queue.keys().last().expect("some") + 1);
        let queue = Queue::new(topic, queue);
        let ends = [MIN_OFFSET, MAX_OFFSET].map(|code| offset_of(&mut connection, code, &queue).expect("known"));
        assert_eq!(ends, [min.cast_signed(), max.cast_signed()], "{state}: the ends of {queue:?}");
        let earliest = connection.call_ok(&about_queue(EARLIEST_TIME, &queue)).expect("answered");
        assert_eq!(earliest.number("timestamp").expect("a time"), of_queue[&min], "{state}: the earliest of {queue:?}");
        for time in times.iter().flat_map(|time| [time - 1, *time, time + 1]).chain([0, i64::MAX]) {
            let lower = of_queue.iter().find(|(_, ms)| **ms >= time).map_or(max, |(offset, _)| *offset);
            let upper = of_queue.iter().rev().find(|(_, ms)| **ms <= time).map_or(min, |(offset, _)| *offset);
            for (boundary, expected) in [("LOWER", lower), ("UPPER", upper)] {
                let asked = offset_by_time(&queue, time.cast_unsigned(), boundary);
                let offset = connection.call_ok(&asked).expect("answered").number("offset").expect("an offset");
                assert_eq!(offset, expected.cast_signed(), "{state}: {boundary} of {time} in {queue:?}");
            }
        }
    }
}

fn stop(running: &mut Running) {
    assert_eq!(running.stop(), Some(0), "{}", running.log());
}

/// Lets all segments expire but those that are written to, and gives what is left of the messages.
fn expire(dev: &Dev, topic: &str, model: &Model) -> Model {
    let mut connection = connect(dev);
    let count = dev.numbered_files("commitlog").len();
    dev.age_segments();
    let deadline = Instant::now() + CLEANED_WITHIN;
    // Each log keeps the segment that is written to, the next one, and its spare.
    while dev.numbered_files("commitlog").len() > count / 2 {
        assert!(Instant::now() < deadline, "nothing expired in time");
        connection.call_ok(&Frame::request(DELETE_EXPIRED)).expect("accepted");
        thread::sleep(Duration::from_millis(100));
    }
    // What is left looks young, so nothing more goes.
    for path in dev.numbered_files("commitlog") {
        let touched = fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(std::time::SystemTime::now()));
        if let Err(error) = touched {
            assert!(!path.exists(), "{}: {error}", path.display());
        }
    }
    let min =
        |queue| offset_of(&mut connect(dev), MIN_OFFSET, &Queue::new(topic, queue)).expect("known").cast_unsigned();
    let mut mins = [0, 1].map(min);
    loop {
        thread::sleep(Duration::from_secs(1));
        let now = [0, 1].map(min);
        if now == std::mem::replace(&mut mins, now) {
            break;
        }
    }
    let is_left = |message: &Message| message.offset >= mins[message.queue as usize];
    model.iter().filter(|(_, message)| is_left(message)).map(|(number, message)| (*number, *message)).collect()
}

#[test]
fn keys_and_times_are_found_across_segments_restarts_and_kills() {
    const NAME: &str = "keys_and_times_are_found_across_segments_restarts_and_kills";
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(NAME, "it stops the process and touches its files");
    }
    let mut dev = Dev::new("keys").property(&format!("mapedFileSizeCommitLog={SEGMENT_BYTES}"));
    dev = dev.property("fileReservedTime=1").property("cleanResourceInterval=200");
    dev = dev.property("deleteCommitLogFilesInterval=1").property("deleteFileBatchMax=20");
    dev.logs = 2;
    let mut running = dev.start();
    let topic = unique_name("keys");
    connect(&dev).call_ok(&create_topic(&topic, 2 * QUEUES)).expect("made");
    fill(&dev, &topic);
    let sent = model(&dev, &topic);
    assert_eq!(sent.len() as u32, MESSAGES);
    let (segments, extents) = (dev.numbered_files("commitlog").len(), dev.numbered_files("queues").len());
    assert!(segments > 250 && extents >= 4, "{segments} segments, {extents} extents");
    check(&dev, &topic, &sent, "as sent");

    let remove_derived =
        |dev: &Dev| dev.numbered_files("queues").iter().for_each(|path| fs::remove_file(path).expect("removed"));
    for (state, kills, removes) in [
        ("after a stop", false, false),
        ("after a kill", true, false),
        ("after a stop, its derived files gone", false, true),
        ("after a kill, its derived files gone", true, true),
    ] {
        if kills {
            running.kill();
        } else {
            stop(&mut running);
        }
        if removes {
            remove_derived(&dev);
        }
        running = dev.start();
        check(&dev, &topic, &sent, state);
    }
    let left = expire(&dev, &topic, &sent);
    assert!(left.len() < sent.len() && left.len() > 10, "{} messages are left", left.len());
    check(&dev, &topic, &left, "after old segments went");
    running.kill();
    remove_derived(&dev);
    let _running = dev.start();
    check(&dev, &topic, &left, "after old segments went and all was derived anew");
}

/// Both ends of the time range of a query are included. Apache's index knows seconds, counted from its first message.
#[test]
fn a_query_takes_both_ends_of_its_time_range() {
    const MESSAGES: i64 = 5;
    const GAP: Duration = Duration::from_millis(1_300);
    let target = Target::start("query-times");
    let mut connection = target.connect();
    let queue = target.queue("query-times");
    for number in 0..MESSAGES as u32 {
        connection.call_ok(&send(&queue, number.to_be_bytes(), "KEYS\u{1}one two\u{2}")).expect("stored");
        // Apart by more than the second that Apache's index may be off.
        thread::sleep(GAP);
    }
    assert!(await_count(&mut connection, &queue, MESSAGES));
    let records = read_queue(&mut connection, &queue, 0).expect("read");
    let times: Vec<i64> = records.iter().map(|record| record.store_ms.cast_signed()).collect();
    let unsharp = if target.is_given() { 999 } else { 0 };
    for (from, to) in [(0, 0), (0, 4), (1, 3), (4, 4)] {
        let range = (times[from] - unsharp, times[to]);
        let numbers = |connection: &mut Connection, range| -> Vec<u32> {
            found(connection, &query(&queue.topic, "two", 32, range)).iter().map(number_of).collect()
        };
        assert_eq!(
            numbers(&mut connection, range),
            (from as u32..=to as u32).collect::<Vec<_>>(),
            "{range:?} of {times:?}"
        );
        let inner = (times[from] + 1, times[to] - 1 - unsharp);
        let expected: Vec<_> = (from as u32 + 1..to as u32).collect();
        assert_eq!(numbers(&mut connection, inner), expected, "{inner:?} of {times:?}");
    }
}
