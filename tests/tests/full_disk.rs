//! A disk that is full: sends are refused with the cause, reads go on, and sends resume by themselves (A10 in the list of
//! public faults), or the oldest messages go.
//!
//! Each test has a file system of its own, in an image that is mounted by a loop device; without the permission to mount it
//! is left out.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::frame::Frame;
use harness::mounted::{Mounted, take_all_but};
use harness::process::Dev;
use harness::request::{
    CODE_BUSY, CODE_OK, CODE_PULL_OFFSET_MOVED, CODE_TOPIC_NOT_EXIST, MIN_OFFSET, Pulled, Queue, Stored, commit_offset,
    consumer_offset, create_topic, heartbeat, offset_of, pull, read_queue, send,
};
use harness::target::TARGET_VARIABLE;
use harness::{left_out, patterned_body, unique_name};

const IMAGE_BYTES: u64 = 256 << 20;
/// What another leaves of it.
const LEFT_BYTES: u64 = 110 << 20;
const QUEUES: u32 = 2;
const CODE_NO_SERVICE: i32 = 14;
const BODY_BYTES: usize = 60_000;
const IN_FLIGHT: usize = 32;
/// So soon sends must be taken again when there is space.
const RESUMED_WITHIN: Duration = Duration::from_secs(10);
const REFUSED_WITHIN: Duration = Duration::from_secs(240);
/// So soon each send is answered, also the last ones that a disk has room for.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

fn connect(dev: &Dev) -> Connection {
    Connection::open(&dev.broker).expect("the broker takes connections")
}

/// Sends until the broker has no room. Gives the bodies' numbers that were acknowledged, and the refusal.
fn send_until_refused(dev: &Dev, topic: &str, numbers: &mut std::ops::RangeFrom<u32>) -> (Vec<u32>, Frame) {
    let mut connection = connect(dev);
    let mut acknowledged = Vec::new();
    let deadline = Instant::now() + REFUSED_WITHIN;
    loop {
        assert!(Instant::now() < deadline, "{} messages, and no refusal", acknowledged.len());
        let batch: Vec<u32> = numbers.by_ref().take(IN_FLIGHT).collect();
        let opaques: Vec<i32> = batch
            .iter()
            .map(|number| connection.send(&send(&Queue::new(topic, number % QUEUES), body(*number), "")).expect("sent"))
            .collect();
        let (mut refusal, sent) = (None, Instant::now());
        for _ in &batch {
            let answer = connection.receive().expect("answered");
            assert!(sent.elapsed() < ANSWERED_WITHIN, "answered after {:?}: {}", sent.elapsed(), answer.remark);
            let at = opaques.iter().position(|opaque| *opaque == answer.opaque).expect("of this batch");
            match answer.code {
                CODE_OK => acknowledged.push(batch[at]),
                CODE_BUSY => {}
                _ => refusal = Some(answer),
            }
        }
        if let Some(refusal) = refusal {
            return (acknowledged, refusal);
        }
    }
}

fn body(number: u32) -> Vec<u8> {
    static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| patterned_body(BODY_BYTES));
    [&number.to_be_bytes()[..], &PATTERN].concat()
}

/// All that can be read, by the numbers in the bodies.
fn read_all(dev: &Dev, topic: &str) -> BTreeSet<u32> {
    let mut connection = connect(dev);
    let mut numbers = BTreeSet::new();
    for id in 0..QUEUES {
        for record in read_queue(&mut connection, &Queue::new(topic, id), 0).expect("a queue can be read") {
            let number = u32::from_be_bytes(record.body[..4].try_into().expect("four bytes"));
            assert!(record.body == body(number), "message {number} is not what was sent");
            assert!(numbers.insert(number), "message {number} is there twice");
        }
    }
    numbers
}

/// Reads queue 0 again and again, as far as it goes, until it is told to end. Gives the number of pulls that were served.
fn keep_reading(dev: &Dev, topic: &str, ends: &AtomicBool) -> u64 {
    let (mut connection, queue) = (connect(dev), Queue::new(topic, 0));
    let (mut offset, mut served) = (0, 0);
    while !ends.load(Ordering::Relaxed) {
        let answer = connection.call(&pull("reader", &queue, offset, 32)).expect("a pull is answered");
        let pulled = Pulled::of(&answer).expect("a pull is served");
        served += 1;
        offset = if pulled.code == 0 { pulled.next_offset } else { 0 };
    }
    served
}

fn send_one(dev: &Dev, topic: &str, number: u32) -> Frame {
    connect(dev).call(&send(&Queue::new(topic, number % QUEUES), body(number), "")).expect("a send is answered")
}

/// The disk is looked at each second, so the first refusal may have another cause that is as true.
fn await_cause(dev: &Dev, topic: &str, says: &str, first: Frame, numbers: &mut std::ops::RangeFrom<u32>) {
    let deadline = Instant::now() + RESUMED_WITHIN;
    let mut refusal = first;
    while !refusal.remark.contains(says) {
        assert!(Instant::now() < deadline, "{}", refusal.remark);
        thread::sleep(Duration::from_millis(100));
        // The other log may still have prepared room.
        refusal = send_one(dev, topic, numbers.next().expect("numbers do not end"));
    }
}

/// Lets the reader end also when the test fails.
struct EndsReader<'a>(&'a AtomicBool);

impl Drop for EndsReader<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a full disk is tested with.
struct Case {
    test: &'static str,
    segment_bytes: u64,
    /// What the refusal says.
    says: &'static str,
}

fn fill_free_and_resume(case: &Case) {
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(case.test, "the store must lie on a disk of this test's own");
    }
    let mut dev = Dev::new("full-disk")
        .property(&format!("mapedFileSizeCommitLog={}", case.segment_bytes))
        .property("cleanFileForciblyEnable=false");
    dev.logs = 2;
    let mounted = match Mounted::new(&dev.folder().join("image"), &dev.store(), IMAGE_BYTES) {
        Ok(mounted) => mounted,
        Err(reason) => return left_out(case.test, &format!("no file system can be mounted: {reason}")),
    };
    let foreign = mounted.at().join("foreign");
    take_all_but(LEFT_BYTES, &foreign);
    let mut running = dev.start();
    let topic = unique_name("full");
    connect(&dev).call_ok(&create_topic(&topic, QUEUES)).expect("made");
    let ends = AtomicBool::new(false);
    let mut numbers = 0..;
    let (mut acknowledged, served) = thread::scope(|scope| {
        let reader = scope.spawn(|| keep_reading(&dev, &topic, &ends));
        let _ends = EndsReader(&ends);
        let (acknowledged, refusal) = send_until_refused(&dev, &topic, &mut numbers);
        assert_eq!(refusal.code, CODE_NO_SERVICE, "{}", refusal.remark);
        await_cause(&dev, &topic, case.says, refusal, &mut numbers);
        // Others take the rest, to the last byte.
        let rest = mounted.at().join("rest");
        take_all_but(0, &rest);
        let (more, refusal) = send_until_refused(&dev, &topic, &mut numbers);
        assert_eq!(refusal.code, CODE_NO_SERVICE, "{}", refusal.remark);
        ends.store(true, Ordering::Relaxed);
        ([acknowledged, more].concat(), reader.join().expect("the reader ends"))
    });
    assert!(served > 0 && !acknowledged.is_empty());
    check_all(&dev, &topic, &acknowledged);
    // A stop and a start work on the full disk, also while others take each byte that comes free. Nothing is read again.
    let (queue, committed) = (Queue::new(&topic, 0), acknowledged.len() as u64 / 4);
    let greedy = Greedy::start(mounted.at());
    for number in 0..TABLES_WRITTEN {
        connect(&dev).call_ok(&create_topic(&format!("{topic}-{number}"), 1)).expect("stored on the full disk");
    }
    connect(&dev).call_ok(&heartbeat("client", "reader")).expect("the group makes itself");
    connect(&dev).call_ok(&commit_offset("reader", &queue, committed)).expect("committed");
    assert_eq!(running.stop(), Some(0), "{}", running.log());
    assert!(!running.log().contains("cannot be stored"), "{}", running.log());
    let mut running = dev.start();
    let found = connect(&dev).call_ok(&consumer_offset("reader", &queue)).expect("known");
    assert_eq!(found.number("offset").expect("an offset"), committed as i64);
    for number in 0..TABLES_WRITTEN {
        let queue = Queue::new(&format!("{topic}-{number}"), 0);
        let answer = connect(&dev).call(&pull("reader", &queue, 0, 1)).expect("answered");
        assert_ne!(answer.code, CODE_TOPIC_NOT_EXIST, "{}", answer.remark);
    }
    assert!(!running.log().contains("read again"), "{}", running.log());
    drop(greedy);
    check_all(&dev, &topic, &acknowledged);
    let freed = Instant::now();
    fs::remove_file(mounted.at().join("rest")).expect("removed");
    fs::remove_file(&foreign).expect("removed");
    let number = numbers.next().expect("numbers do not end");
    loop {
        let answer = send_one(&dev, &topic, number);
        if answer.code == CODE_OK {
            Stored::of(&answer).expect("stored");
            break;
        }
        assert!(freed.elapsed() < RESUMED_WITHIN, "still refused after {:?}: {}", freed.elapsed(), answer.remark);
        thread::sleep(Duration::from_millis(100));
    }
    acknowledged.push(number);
    eprintln!("{}: {} messages, resumed after {:?}", case.test, acknowledged.len(), freed.elapsed());
    running.kill();
    let _running = dev.start();
    check_all(&dev, &topic, &acknowledged);
}

/// So many tables are written on the full disk: more than a ballast that each of them spends would do for.
const TABLES_WRITTEN: u32 = 20;

/// Takes each byte of a file system that comes free, until the value is dropped.
struct Greedy {
    ends: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
    path: PathBuf,
}

impl Greedy {
    fn start(folder: &Path) -> Greedy {
        let (path, ends) = (folder.join("greedy"), Arc::new(AtomicBool::new(false)));
        let mut file = fs::File::create(&path).expect("a file can be made");
        let ended = ends.clone();
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                while file.write_all(&[7; 4096]).is_ok() {}
                // A program that finds the disk full tries it again later.
                thread::sleep(Duration::from_millis(50));
            }
        });
        Greedy { ends, thread: Some(thread), path }
    }
}

impl Drop for Greedy {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn check_all(dev: &Dev, topic: &str, acknowledged: &[u32]) {
    let read = read_all(dev, topic);
    let lost: Vec<_> = acknowledged.iter().filter(|number| !read.contains(number)).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), acknowledged.len());
}

#[test]
fn a_disk_above_the_limit_refuses_sends_until_it_has_room() {
    fill_free_and_resume(&Case {
        test: "a_disk_above_the_limit_refuses_sends_until_it_has_room",
        segment_bytes: 4 << 20,
        says: "above 90% (diskSpaceWarningLevelRatio)",
    });
}

#[test]
fn a_disk_without_room_for_a_segment_refuses_sends_until_it_has_it() {
    fill_free_and_resume(&Case {
        test: "a_disk_without_room_for_a_segment_refuses_sends_until_it_has_it",
        segment_bytes: 32 << 20,
        says: "a segment of 33554432 bytes is needed",
    });
}

#[test]
fn a_disk_that_fills_loses_its_oldest_messages_and_sends_go_on() {
    const TEST: &str = "a_disk_that_fills_loses_its_oldest_messages_and_sends_go_on";
    const DISK_BYTES: u64 = 112 << 20;
    // Twice what the disk holds, as many in each queue.
    const MESSAGES: u32 = (2 * DISK_BYTES / BODY_BYTES as u64) as u32 / QUEUES * QUEUES;
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(TEST, "the store must lie on a disk of this test's own");
    }
    let mut dev = Dev::new("forced").property("cleanFileForciblyEnable=true").property("deleteFileBatchMax=2");
    dev = dev.property("deleteCommitLogFilesInterval=1");
    (dev.cores, dev.logs) = (1, 2);
    let mounted = match Mounted::new(&dev.folder().join("image"), &dev.store(), DISK_BYTES) {
        Ok(mounted) => mounted,
        Err(reason) => return left_out(TEST, &format!("no file system can be mounted: {reason}")),
    };
    let running = dev.start();
    let topic = unique_name("forced");
    let mut connection = connect(&dev);
    connection.call_ok(&create_topic(&topic, QUEUES)).expect("made");
    let (mut fullest, mut refused) = (0, 0);
    for number in 0..MESSAGES {
        let until = Instant::now() + RESUMED_WITHIN;
        loop {
            let answer =
                connection.call(&send(&Queue::new(&topic, number % QUEUES), body(number), "")).expect("answered");
            if answer.code == CODE_OK {
                break;
            }
            // A sender may outrun the cleaning for a moment.
            refused += 1;
            assert!(Instant::now() < until, "{}", answer.remark);
            thread::sleep(Duration::from_millis(50));
        }
        if number % 100 == 0 {
            fullest = fullest.max(mounted.used_percent());
        }
    }
    // The disk is looked at each second, so a quick sender may fill a small one before segments go.
    assert!(fullest > 80, "{fullest}% at the fullest");
    assert!(running.log().contains("is gone: the disk fills"), "{}", running.log());
    for id in 0..QUEUES {
        let queue = Queue::new(&topic, id);
        let min = offset_of(&mut connection, MIN_OFFSET, &queue).expect("known");
        assert!(min > 0, "nothing of queue {id} is gone");
        let moved = Pulled::of(&connection.call(&pull("late", &queue, 0, 1)).expect("answered")).expect("a pull");
        assert_eq!((moved.code, moved.next_offset), (CODE_PULL_OFFSET_MOVED, min));
        let rest = read_queue(&mut connection, &queue, min).expect("the rest is read");
        let numbers: Vec<u32> = rest.iter().map(|record| record.queue_offset as u32 * QUEUES + id).collect();
        assert!(rest.iter().zip(&numbers).all(|(record, number)| record.body == body(*number)), "queue {id}");
        assert_eq!(numbers.last(), Some(&(MESSAGES - QUEUES + id)), "the newest are there");
    }
    eprintln!("{TEST}: {fullest}% at the fullest, {refused} sends were refused and sent again");
}
