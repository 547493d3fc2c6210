//! Public faults of such brokers about storage and recovery, replayed: each test is named after its entry in the list of
//! them. Other tests replay A4 and A14 (`bad_input`), A5 (`durability`), A6 (`connections`), A8 (`offsets`), A10
//! (`full_disk`), A11 and A18 (`retention`).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base::Random;
use harness::connection::Connection;
use harness::frame::Frame;
use harness::mounted::Mounted;
use harness::process::{Dev, Running};
use harness::program;
use harness::request::{
    BATCHED_BYTES, CODE_MESSAGE_ILLEGAL, CODE_OK, MAX_OFFSET, MIN_OFFSET, Pulled, Queue, Stored, batch, create_topic,
    offset_of, pull, read_queue, runtime_number, send,
};
use harness::target::TARGET_VARIABLE;
use harness::{left_out, patterned_body, unique_name};

/// Something done to a file.
type Harm = fn(&Path);

const LOG_OFFSET_BITS: u32 = 48;

fn is_given(test: &str) -> bool {
    let given = std::env::var_os(TARGET_VARIABLE).is_some();
    if given {
        left_out(test, "it stops the process and touches its files");
    }
    given
}

fn dev(stem: &str, segment_mib: u64) -> Dev {
    let mut dev = Dev::new(stem).property(&format!("mapedFileSizeCommitLog={}", segment_mib << 20));
    (dev.cores, dev.logs) = (1, 1);
    dev
}

fn connect(dev: &Dev) -> Connection {
    Connection::open(&dev.broker).expect("the broker takes connections")
}

fn topic(dev: &Dev, stem: &str, queues: u32) -> String {
    let topic = unique_name(stem);
    connect(dev).call_ok(&create_topic(&topic, queues)).expect("made");
    topic
}

/// A body that tells its number.
fn body(number: u64, bytes: usize) -> Vec<u8> {
    let mut body = format!("{number}:").into_bytes();
    body.resize(bytes.max(body.len()), b'.');
    body
}

/// Sends so many messages, some at a time, and gives the physical offset of each in the log.
fn fill(dev: &Dev, queue: &Queue, numbers: std::ops::Range<u64>, bytes: usize) -> Vec<u64> {
    const IN_FLIGHT: usize = 64;
    let mut connection = connect(dev);
    let mut offsets = Vec::new();
    let numbers: Vec<u64> = numbers.collect();
    for some in numbers.chunks(IN_FLIGHT) {
        for number in some {
            connection.send(&send(queue, body(*number, bytes), "")).expect("sent");
        }
        for _ in some {
            let answer = connection.receive().expect("answered");
            Stored::of(&answer).expect("stored");
            offsets.push(log_offset(&answer));
        }
    }
    offsets
}

/// Where in its log a message lies, by its id.
fn log_offset(answer: &Frame) -> u64 {
    let id = answer.text("msgId").expect("an id");
    u64::from_str_radix(&id[id.len() - 16..], 16).expect("an offset") & ((1 << LOG_OFFSET_BITS) - 1)
}

/// All messages of a queue by their offsets, past whatever is missing.
fn read_past_gaps(dev: &Dev, queue: &Queue) -> BTreeMap<u64, Vec<u8>> {
    let mut connection = connect(dev);
    let max = offset_of(&mut connection, MAX_OFFSET, queue).expect("known");
    let (mut found, mut offset) = (BTreeMap::new(), 0);
    while offset < max {
        let answer = connection.call(&pull("harness-reader", queue, offset, 32)).expect("answered");
        let pulled = Pulled::of(&answer).expect("a pull");
        assert!(pulled.next_offset > offset, "stuck at {offset}: {pulled:?}");
        offset = pulled.next_offset;
        found.extend(pulled.records.into_iter().map(|record| (record.queue_offset, record.body)));
    }
    found
}

fn stop(running: &mut Running) {
    assert_eq!(running.stop(), Some(0), "{}", running.log());
}

#[test]
fn a1_nothing_is_seen_that_a_stalled_disk_could_still_lose() {
    const NAME: &str = "a1_nothing_is_seen_that_a_stalled_disk_could_still_lose";
    const STALL: Duration = Duration::from_secs(3);
    if is_given(NAME) {
        return;
    }
    let dev = dev("a1", 4).property("flushDiskType=SYNC_FLUSH");
    let (image, copy) = (dev.folder().join("image"), dev.folder().join("copy"));
    let mounted = match Mounted::new(&image, &dev.store(), 128 << 20) {
        Ok(mounted) => mounted,
        Err(reason) => return left_out(NAME, &format!("no file system can be mounted: {reason}")),
    };
    let mut running = dev.start();
    let queue = Queue::new(&topic(&dev, "a1", 1), 0);
    let (ends, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let seen = Mutex::new(BTreeMap::new());
    let seen_in_the_stall = thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = connect(&dev);
            for number in 0.. {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                connection.call_ok(&send(&queue, body(number, 1000), "")).expect("stored, some of them late");
                acknowledged.store(number + 1, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            let (mut connection, mut offset) = (connect(&dev), 0);
            while !ends.load(Ordering::Relaxed) {
                let answer = connection.call(&pull("a1", &queue, offset, 32)).expect("answered");
                let pulled = Pulled::of(&answer).expect("a pull");
                offset = pulled.next_offset;
                let mut seen = seen.lock().expect("nobody panics with it");
                seen.extend(pulled.records.into_iter().map(|record| (record.queue_offset, record.body)));
            }
        });
        while acknowledged.load(Ordering::Relaxed) < 50 {
            thread::sleep(Duration::from_millis(10));
        }
        let frozen = mounted.freeze().expect("a file system can be frozen");
        thread::sleep(STALL / 3);
        let before = acknowledged.load(Ordering::Relaxed);
        thread::sleep(STALL);
        // The disk as a loss of power would leave it now.
        let copied = Command::new("cp").arg("--sparse=always").args([&image, &copy]).status();
        assert!(copied.expect("cp runs").success());
        let seen = seen.lock().expect("nobody panics with it").clone();
        assert_eq!(acknowledged.load(Ordering::Relaxed), before, "acknowledged by a disk that stands still");
        drop(frozen);
        ends.store(true, Ordering::Relaxed);
        seen
    });
    running.kill();
    drop(mounted);
    let _copy = Mounted::of(&copy, &dev.store()).expect("the copy can be mounted");
    let _running = dev.start();
    assert!(seen_in_the_stall.len() >= 20, "{} messages were seen", seen_in_the_stall.len());
    let found = read_past_gaps(&dev, &queue);
    for (offset, body) in &seen_in_the_stall {
        assert_eq!(found.get(offset), Some(body), "message {offset} was seen and is gone");
    }
}

#[test]
fn a2_a_kill_right_behind_a_roll_loses_no_entry() {
    const NAME: &str = "a2_a_kill_right_behind_a_roll_loses_no_entry";
    const ROUNDS: u32 = 8;
    if is_given(NAME) {
        return;
    }
    let dev = dev("a2", 1);
    let mut running = dev.start();
    let queue = Queue::new(&topic(&dev, "a2", 1), 0);
    let (mut number, mut acknowledged) = (0, BTreeMap::new());
    for round in 0..ROUNDS {
        let mut connection = connect(&dev);
        let (mut first, mut in_flight) = (None, BTreeMap::new());
        loop {
            while in_flight.len() < 16 {
                let opaque = connection.send(&send(&queue, body(number, 3072), "")).expect("sent");
                in_flight.insert(opaque, number);
                number += 1;
            }
            let answer = connection.receive().expect("answered");
            let stored = Stored::of(&answer).expect("stored");
            acknowledged.insert(stored.queue_offset, in_flight.remove(&answer.opaque).expect("one of ours"));
            let segment = log_offset(&answer) >> 20;
            if segment > *first.get_or_insert(segment) {
                break;
            }
        }
        running.kill();
        running = dev.start();
        let records = read_queue(&mut connect(&dev), &queue, 0).expect("read");
        let dense = records.iter().zip(0..).all(|(record, offset)| record.queue_offset == offset);
        assert!(dense, "round {round}: the offsets have holes");
        for (offset, number) in &acknowledged {
            let found = records.get(*offset as usize).map(|record| &record.body);
            assert_eq!(found, Some(&body(*number, 3072)), "round {round}: message {number} at {offset}");
        }
    }
}

#[test]
fn a3_lost_and_cut_files_of_queues_are_made_anew() {
    const NAME: &str = "a3_lost_and_cut_files_of_queues_are_made_anew";
    if is_given(NAME) {
        return;
    }
    let dev = dev("a3", 4);
    let mut running = dev.start();
    let topic = topic(&dev, "a3", 2);
    let queues = [0, 1].map(|id| Queue::new(&topic, id));
    for queue in &queues {
        fill(&dev, queue, 0..200, 100);
    }
    stop(&mut running);
    let harms: [(&str, Harm); 3] = [
        ("deleted", |path| fs::remove_file(path).expect("removed")),
        ("emptied", |path| fs::write(path, b"").expect("emptied")),
        ("cut by 7 bytes", |path| {
            let file = OpenOptions::new().write(true).open(path).expect("opened");
            file.metadata().and_then(|found| file.set_len(found.len() - 7)).expect("cut");
        }),
    ];
    for (name, harm) in harms {
        let files = dev.numbered_files("queues");
        harm(files.last().unwrap_or_else(|| panic!("{name}: no file of queues")));
        let mut running = dev.start();
        let mut connection = connect(&dev);
        for queue in &queues {
            let ends = [MIN_OFFSET, MAX_OFFSET].map(|code| offset_of(&mut connection, code, queue).expect("known"));
            assert_eq!(ends, [0, 200], "{name}");
            let records = read_queue(&mut connection, queue, 0).expect("read");
            assert!(records.iter().zip(0..).all(|(record, number)| record.body == body(number, 100)), "{name}");
        }
        stop(&mut running);
    }
}

#[test]
fn a7_rolls_beside_flushes_cost_no_message_and_no_thread() {
    const NAME: &str = "a7_rolls_beside_flushes_cost_no_message_and_no_thread";
    const SENDERS: u32 = 32;
    const FOR: Duration = Duration::from_secs(3);
    if is_given(NAME) {
        return;
    }
    for flush in ["SYNC_FLUSH", "ASYNC_FLUSH"] {
        let mut dev = Dev::new("a7").property("mapedFileSizeCommitLog=1048576");
        dev = dev.property(&format!("flushDiskType={flush}")).property("flushIntervalCommitLog=50");
        let mut running = dev.start();
        let topic = topic(&dev, "a7", 8);
        let cores = core_threads(&running);
        let until = Instant::now() + FOR;
        let sent: u64 = thread::scope(|scope| {
            let send_on = |sender| {
                let (mut connection, queue, mut sent) = (connect(&dev), Queue::new(&topic, sender % 8), 0);
                while Instant::now() < until {
                    connection.call_ok(&send(&queue, body(sent, 10 << 10), "")).expect("stored");
                    sent += 1;
                }
                sent
            };
            let senders: Vec<_> = (0..SENDERS).map(|sender| scope.spawn(move || send_on(sender))).collect();
            senders.into_iter().map(|sender| sender.join().expect("a sender ends")).sum()
        });
        let stored: i64 =
            (0..8).map(|id| offset_of(&mut connect(&dev), MAX_OFFSET, &Queue::new(&topic, id)).expect("known")).sum();
        assert_eq!((stored as u64, core_threads(&running)), (sent, cores), "{flush}");
        stop(&mut running);
    }
}

fn core_threads(running: &Running) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", running.pid())).expect("the process has threads");
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.flatten().map(name).filter(|name| name.starts_with("broker")).count()
}

#[test]
fn a9_large_bodies_are_read_from_the_disk_after_a_restart() {
    const NAME: &str = "a9_large_bodies_are_read_from_the_disk_after_a_restart";
    const MESSAGES: u64 = 20;
    const BYTES: usize = (4 << 20) - 1024;
    const READ_WITHIN: Duration = Duration::from_secs(5);
    if is_given(NAME) {
        return;
    }
    let dev = dev("a9", 32);
    let mut running = dev.start();
    let queue = Queue::new(&topic(&dev, "a9", 1), 0);
    let mut connection = connect(&dev);
    for number in 0..MESSAGES {
        connection.call_ok(&send(&queue, body(number, BYTES), "")).expect("stored");
    }
    stop(&mut running);
    let _running = dev.start();
    let mut connection = connect(&dev);
    for number in 0..MESSAGES {
        let started = Instant::now();
        let answer = connection.call(&pull("a9", &queue, number as i64, 1)).expect("answered");
        let pulled = Pulled::of(&answer).expect("a pull");
        assert!(pulled.records.len() == 1 && pulled.records[0].body == body(number, BYTES), "message {number}");
        assert!(started.elapsed() < READ_WITHIN, "message {number} took {:?}", started.elapsed());
    }
}

#[test]
fn a12_a_start_after_a_kill_reads_the_end_of_the_store_only() {
    const NAME: &str = "a12_a_start_after_a_kill_reads_the_end_of_the_store_only";
    const MESSAGES: u64 = 3600;
    const BYTES: usize = 50_000;
    if is_given(NAME) {
        return;
    }
    let dev = dev("a12", 16).property("flushDiskType=ASYNC_FLUSH");
    let mut running = dev.start();
    let queue = Queue::new(&topic(&dev, "a12", 1), 0);
    fill(&dev, &queue, 0..MESSAGES, BYTES);
    running.kill();
    let scanned_at_start = |stem: &str| {
        let running = dev.start();
        let line = running.await_line("recovery ", Duration::from_secs(5)).expect("the recovery is told");
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "bytes").unwrap_or_else(|| panic!("{stem}: {line}"));
        let bytes: u64 = words[at - 1].parse().unwrap_or_else(|_| panic!("{stem}: {line}"));
        assert_eq!(offset_of(&mut connect(&dev), MAX_OFFSET, &queue).expect("known"), MESSAGES as i64, "{stem}");
        (running, bytes)
    };
    let (mut running, bytes) = scanned_at_start("killed");
    assert!(bytes < 80 << 20, "{bytes} bytes were read of {}", MESSAGES * BYTES as u64);
    stop(&mut running);
    let contents = |dev: &Dev| -> Vec<(PathBuf, Vec<u8>)> {
        dev.numbered_files("queues").into_iter().map(|path| (path.clone(), fs::read(path).expect("read"))).collect()
    };
    let before = contents(&dev);
    assert!(before.len() >= 3, "{} files", before.len());
    before.iter().for_each(|(path, _)| fs::remove_file(path).expect("removed"));
    let (mut running, bytes) = scanned_at_start("without files of queues");
    assert!(bytes > MESSAGES * BYTES as u64, "{bytes} bytes");
    stop(&mut running);
    let after = contents(&dev);
    let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before));
    assert!(after == before, "what was made anew differs");
}

#[test]
fn a13_consumers_pass_a_file_that_is_missing_in_the_middle() {
    const NAME: &str = "a13_consumers_pass_a_file_that_is_missing_in_the_middle";
    const MESSAGES: u64 = 500;
    if is_given(NAME) {
        return;
    }
    let dev = dev("a13", 1);
    let mut running = dev.start();
    let queue = Queue::new(&topic(&dev, "a13", 1), 0);
    let offsets = fill(&dev, &queue, 0..MESSAGES, 10_000);
    stop(&mut running);
    let gone = dev.numbered_files("commitlog").remove(2);
    fs::rename(&gone, dev.folder().join("away")).expect("moved away");
    let running = dev.start();
    let lost = offsets.iter().filter(|offset| **offset >> 20 == 2).count();
    let found = read_past_gaps(&dev, &queue);
    assert!(lost > 50 && found.len() == MESSAGES as usize - lost, "{} of {MESSAGES}, {lost} lost", found.len());
    for (offset, content) in &found {
        assert_eq!(*content, body(*offset, 10_000), "message {offset}");
        assert_ne!(offsets[*offset as usize] >> 20, 2);
    }
    assert_eq!(
        runtime_number(&mut connect(&dev), "skippedMessagesTotal"),
        lost as u64,
        "what was passed over is counted"
    );
    let line = running.await_line("no file holds", Duration::from_secs(5)).expect("the loss is told");
    assert!(line.contains("commitlog"), "{line}");
    let stored = connect(&dev).call_ok(&send(&queue, "next", "")).expect("stored");
    assert_eq!(stored.number("queueOffset").expect("an offset"), MESSAGES as i64);
}

/// What was cut off is lost; that it was there stays known.
#[test]
fn a_file_that_was_cut_in_the_middle_is_told_for_good() {
    const NAME: &str = "a_file_that_was_cut_in_the_middle_is_told_for_good";
    const MESSAGES: u64 = 400;
    if is_given(NAME) {
        return;
    }
    let dev = dev("cut", 1);
    let mut running = dev.start();
    let queue = Queue::new(&topic(&dev, "cut", 1), 0);
    let offsets = fill(&dev, &queue, 0..MESSAGES, 10_000);
    stop(&mut running);
    let file = dev.numbered_files("commitlog").remove(1);
    OpenOptions::new().write(true).open(&file).and_then(|file| file.set_len(400_000)).expect("cut");
    let mut running = dev.start();
    let told = running.await_line("had 400000 bytes and was given the 1048576 of a segment", Duration::from_secs(5));
    assert!(told.expect("the cut is told").contains(&*file.to_string_lossy()));
    let found = read_past_gaps(&dev, &queue);
    let kept = offsets.iter().filter(|at| **at >> 20 != 1 || **at + 10_500 < (1 << 20) + 400_000).count();
    assert!((kept..kept + 2).contains(&found.len()), "{} of {MESSAGES}, {kept} of them whole", found.len());
    stop(&mut running);
    for _ in 0..2 {
        let mut running = dev.start();
        stop(&mut running);
    }
    let store = dev.store().join("store");
    let dumped = program::run(&["store", "dump", &store.to_string_lossy(), "--json"], Duration::from_secs(60));
    let is_told = |line: &str| line.contains(r#""kind":"resized""#) && line.contains(r#""bytesFound":400000"#);
    assert!(dumped.stdout.lines().any(is_told), "{}", dumped.text());
}

#[test]
fn a15_the_limit_of_a_body_is_the_one_that_is_set() {
    const NAME: &str = "a15_the_limit_of_a_body_is_the_one_that_is_set";
    const LIMIT: usize = 8 << 20;
    if is_given(NAME) {
        return;
    }
    let dev = dev("a15", 64).property("maxMessageSize=8388608");
    let _running = dev.start();
    let queue = Queue::new(&topic(&dev, "a15", 1), 0);
    let mut connection = connect(&dev);
    let largest = patterned_body(LIMIT);
    connection.call_ok(&send(&queue, largest.clone(), "")).expect("stored");
    let records = read_queue(&mut connection, &queue, 0).expect("read");
    assert!(records.len() == 1 && records[0].body == largest);
    let batch = |bytes: usize| {
        let half = patterned_body(bytes / 2 - BATCHED_BYTES);
        let rest = patterned_body(bytes - bytes / 2 - BATCHED_BYTES);
        let request = batch(&queue, &[(half, ""), (rest, "")]);
        assert_eq!(request.body.len(), bytes);
        request
    };
    connection.call_ok(&batch(LIMIT)).expect("stored");
    for request in [send(&queue, patterned_body(LIMIT + 1), ""), batch(LIMIT + 1)] {
        let refused = connection.call(&request).expect("answered");
        assert_eq!(refused.code, CODE_MESSAGE_ILLEGAL, "{}", refused.remark);
        assert!(refused.remark.contains("8388608"), "{}", refused.remark);
    }
    assert_eq!(offset_of(&mut connection, MAX_OFFSET, &queue).expect("known"), 3);
}

#[test]
fn a16_no_body_holds_bytes_of_another_connection() {
    const NAME: &str = "a16_no_body_holds_bytes_of_another_connection";
    const PAIRS: u32 = 24;
    const QUEUES: u32 = 8;
    const FOR: Duration = Duration::from_secs(6);
    if is_given(NAME) {
        return;
    }
    let dev = Dev::new("a16").property("mapedFileSizeCommitLog=16777216").property("flushDiskType=ASYNC_FLUSH");
    let _running = dev.start();
    let topic = topic(&dev, "a16", QUEUES);
    let (until, checked) = (Instant::now() + FOR, AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..PAIRS {
            let (dev, checked, queue) = (&dev, &checked, Queue::new(&topic, number % QUEUES));
            let reading = queue.clone();
            scope.spawn(move || send_and_hang_up(dev, &queue, u64::from(number), until));
            scope.spawn(move || read_and_hang_up(dev, &reading, u64::from(number), until, checked));
        }
    });
    // At last each of them, by a reader that is not disturbed.
    let mut connection = connect(&dev);
    for id in 0..QUEUES {
        for record in read_queue(&mut connection, &Queue::new(&topic, id), 0).expect("read") {
            check_signed(&record.body);
        }
    }
    assert!(checked.load(Ordering::Relaxed) > 100, "{} bodies were read", checked.load(Ordering::Relaxed));
}

/// Sends, and now and then closes the connection in the middle of a frame or with answers outstanding.
fn send_and_hang_up(dev: &Dev, queue: &Queue, seed: u64, until: Instant) {
    let mut random = Random::new(seed);
    let mut connection = connect(dev);
    while Instant::now() < until {
        // Most are small, some of up to a megabyte.
        let bits_max = if random.below(50) == 0 { 21 } else { 15 };
        let bits = random.below(bits_max);
        let bytes = 1 + random.below(1 << bits) as usize;
        let frame = send(queue, signed(&mut random, bytes), "");
        match random.below(20) {
            0 => {
                let whole = frame.with_opaque(1).encode();
                // The broker may have closed it first.
                let _ = connection.send_bytes(&whole[..whole.len() / 2]);
                connection = connect(dev);
            }
            1 => {
                let _ = connection.send(&frame);
                connection = connect(dev);
            }
            _ => drop(connection.call(&frame).expect("answered")),
        }
    }
}

fn read_and_hang_up(dev: &Dev, queue: &Queue, seed: u64, until: Instant, checked: &AtomicU64) {
    let mut random = Random::new(!seed);
    let (mut connection, mut offset) = (connect(dev), 0);
    while Instant::now() < until {
        let request = pull("a16", queue, offset, 8);
        if random.below(20) == 0 {
            let _ = connection.send(&request);
            connection = connect(dev);
            continue;
        }
        let pulled = Pulled::of(&connection.call(&request).expect("answered")).expect("a pull");
        pulled.records.iter().for_each(|record| check_signed(&record.body));
        checked.fetch_add(pulled.records.len() as u64, Ordering::Relaxed);
        offset = if pulled.code == CODE_OK { pulled.next_offset } else { 0 };
    }
}

/// A body of a length, a checksum, and random bytes.
fn signed(random: &mut Random, bytes: usize) -> Vec<u8> {
    let content: Vec<u8> =
        std::iter::repeat_with(|| random.next_u64().to_le_bytes()).take(bytes / 8).flatten().collect();
    [&(content.len() as u64).to_be_bytes()[..], &hash(&content).to_be_bytes(), &content].concat()
}

fn check_signed(body: &[u8]) {
    let (length, rest) = body.split_first_chunk::<8>().expect("a length");
    let (checksum, content) = rest.split_first_chunk::<8>().expect("a checksum");
    assert_eq!(content.len() as u64, u64::from_be_bytes(*length));
    assert_eq!(hash(content), u64::from_be_bytes(*checksum), "a body of {} bytes is not what was sent", body.len());
}

fn hash(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}

#[test]
fn a17_a_flipped_bit_costs_one_message_and_no_offset() {
    const NAME: &str = "a17_a_flipped_bit_costs_one_message_and_no_offset";
    const MESSAGES: u64 = 1000;
    const BYTES: usize = 3000;
    if is_given(NAME) {
        return;
    }
    // In a body, and in the length of a record.
    for (field, in_record) in [("body", 500), ("length", 2)] {
        let dev = dev("a17", 1);
        let mut running = dev.start();
        let queue = Queue::new(&topic(&dev, "a17", 1), 0);
        let offsets = fill(&dev, &queue, 0..MESSAGES, BYTES);
        stop(&mut running);
        let (victim, mut byte) = (MESSAGES / 10, [0]);
        let at = offsets[victim as usize] + in_record;
        let path = &dev.numbered_files("commitlog")[(at >> 20) as usize];
        let file = File::options().read(true).write(true).open(path).expect("opened");
        let in_file = at & ((1 << 20) - 1);
        file.read_exact_at(&mut byte, in_file).expect("read");
        file.write_all_at(&[byte[0] ^ 0x10], in_file).expect("flipped");
        let running = dev.start();
        let found = read_past_gaps(&dev, &queue);
        let missing: Vec<u64> = (0..MESSAGES).filter(|offset| !found.contains_key(offset)).collect();
        assert_eq!(missing, [victim], "{field}");
        let wrong = found.iter().filter(|(offset, content)| **content != body(**offset, BYTES));
        let wrong: Vec<_> = wrong
            .map(|(offset, content)| (offset, String::from_utf8_lossy(&content[..content.len().min(12)])))
            .collect();
        assert!(wrong.is_empty(), "{field}: {wrong:?}");
        running.await_line("records can't be read in", Duration::from_secs(5)).expect("the damage is told");
        let stored = Stored::of(&connect(&dev).call(&send(&queue, "next", "")).expect("answered"));
        assert_eq!(stored.expect("stored").queue_offset, MESSAGES, "{field}");
    }
}

/// Readers of several queues come to the hole from different sides.
#[test]
fn a17_a_zeroed_stretch_costs_the_messages_in_it() {
    const NAME: &str = "a17_a_zeroed_stretch_costs_the_messages_in_it";
    const QUEUES: u32 = 4;
    const ROUNDS: u64 = 20;
    const IN_ROUND: u64 = 40;
    const BYTES: usize = 1000;
    if is_given(NAME) {
        return;
    }
    let dev = dev("a17-hole", 1);
    let mut running = dev.start();
    let topic = topic(&dev, "a17-hole", QUEUES);
    let queues: Vec<Queue> = (0..QUEUES).map(|id| Queue::new(&topic, id)).collect();
    let mut places = vec![Vec::new(); queues.len()];
    for round in 0..ROUNDS {
        for (queue, places) in queues.iter().zip(&mut places) {
            places.extend(fill(&dev, queue, round * IN_ROUND..(round + 1) * IN_ROUND, BYTES));
        }
    }
    stop(&mut running);
    // From the middle of one record to the middle of another, both in the second file.
    let [from, to] = [7, 10].map(|round: usize| places[2][round * IN_ROUND as usize + 7] + 300);
    assert!(from >> 20 == 1 && to >> 20 == 1, "{from} to {to}");
    let file = File::options().write(true).open(&dev.numbered_files("commitlog")[1]).expect("opened");
    file.write_all_at(&vec![0; (to - from) as usize], from & ((1 << 20) - 1)).expect("zeroed");
    let running = dev.start();
    for (queue, places) in queues.iter().zip(&places) {
        let found = read_past_gaps(&dev, queue);
        let is_whole = |place: &u64| place + 2 * BYTES as u64 <= from || *place >= to;
        let whole = (0_u64..).zip(places).filter(|(_, place)| is_whole(place)).map(|(offset, _)| offset);
        for offset in whole {
            assert!(found.contains_key(&offset), "{queue:?}: {offset} is missing");
        }
        let torn = (0_u64..).zip(places).filter(|(_, place)| (from..to).contains(place)).map(|(offset, _)| offset);
        for offset in torn {
            assert!(!found.contains_key(&offset), "{queue:?}: {offset} comes out of a hole");
        }
        assert!(found.iter().all(|(offset, content)| *content == body(*offset, BYTES)), "{queue:?}");
    }
    let told = running.log().matches("records can't be read in").count();
    // Once, and again by a reader who comes to it further in front.
    assert!((1..=QUEUES as usize).contains(&told), "{}", running.log());
}
