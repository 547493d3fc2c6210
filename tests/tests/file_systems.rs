//! The store on XFS and on btrfs (A9 in the list of public faults): large bodies through rolls, kills and restarts, read cold,
//! and a disk that is full.
//!
//! Each test has a file system of its own, in an image that is mounted by a loop device. Without the permission to mount, or
//! the program that makes such a file system, it is left out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::mounted::{Kind, Mounted, take_all_but};
use harness::process::{Dev, Running};
use harness::request::{CODE_BUSY, CODE_OK, Pulled, Queue, create_topic, pull, send};
use harness::target::TARGET_VARIABLE;
use harness::{left_out, patterned_body, unique_name};

const DISK_BYTES: u64 = 1 << 30;
const BODY_BYTES: usize = (4 << 20) - 1024;
/// More than six segments of 32 MiB.
const MESSAGES: u32 = 50;
/// Each is there so soon.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// What others leave of the disk.
const LEFT_BYTES: u64 = 160 << 20;
const CODE_NO_SERVICE: i32 = 14;
const REFUSED_WITHIN: Duration = Duration::from_secs(120);
const RESUMED_WITHIN: Duration = Duration::from_secs(10);

fn connect(dev: &Dev) -> Connection {
    Connection::open(&dev.broker).expect("the broker takes connections")
}

fn body(number: u32) -> Vec<u8> {
    let mut body = patterned_body(BODY_BYTES);
    body[..4].copy_from_slice(&number.to_be_bytes());
    body
}

/// Each of the messages, pulled by itself.
fn check(dev: &Dev, queue: &Queue, offsets: impl IntoIterator<Item = u32>, state: &str) {
    let mut connection = connect(dev);
    let mut slowest = Duration::ZERO;
    for offset in offsets {
        let started = Instant::now();
        let answer = connection.call(&pull("reader", queue, i64::from(offset), 1)).expect("answered");
        let took = started.elapsed();
        let pulled = Pulled::of(&answer).expect("a pull");
        assert!(pulled.records.len() == 1 && pulled.records[0].body == body(offset), "{state}: message {offset}");
        assert!(took < READ_WITHIN, "{state}: message {offset} took {took:?}");
        slowest = slowest.max(took);
    }
    eprintln!("{state}: the slowest pull took {slowest:?}");
}

/// Sends the next message; whether it was taken.
fn send_next(connection: &mut Connection, queue: &Queue, next: &mut u32) -> bool {
    let answer = connection.call(&send(queue, body(*next), "")).expect("answered");
    match answer.code {
        CODE_OK => {
            assert_eq!(answer.number("queueOffset").expect("an offset"), i64::from(*next));
            *next += 1;
        }
        CODE_BUSY => {}
        CODE_NO_SERVICE => return false,
        code => panic!("message {next} is refused with {code}: {}", answer.remark),
    }
    true
}

fn stop(running: &mut Running) {
    assert_eq!(running.stop(), Some(0), "{}", running.log());
}

fn tested(name: &str, kind: Kind, flush: &str) {
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(name, "the store must lie on a disk of this test's own");
    }
    let mut dev = Dev::new("file-system").property("mapedFileSizeCommitLog=33554432");
    dev = dev.property(&format!("flushDiskType={flush}"));
    (dev.cores, dev.logs) = (1, 1);
    let (image, at) = (dev.folder().join("image"), dev.store());
    let mounted = match Mounted::make(kind, &image, &at, DISK_BYTES) {
        Ok(mounted) => mounted,
        Err(reason) => return left_out(name, &format!("no such file system can be made or mounted: {reason}")),
    };
    let mut running = dev.start();
    eprintln!("{}", running.await_line("store  ", Duration::from_secs(5)).expect("the banner"));
    let queue = Queue::new(&unique_name("file-system"), 0);
    let mut connection = connect(&dev);
    connection.call_ok(&create_topic(&queue.topic, 1)).expect("made");
    let mut next = 0;
    while next < MESSAGES {
        assert!(send_next(&mut connection, &queue, &mut next), "the disk is empty");
    }
    running.kill();
    let mut running = dev.start();
    check(&dev, &queue, 0..MESSAGES, "after a kill");
    stop(&mut running);
    // Mounted anew, nothing of it is in the page cache.
    drop(mounted);
    let mounted = Mounted::of(&image, &at).expect("mounted again");
    let running = dev.start();
    check(&dev, &queue, 0..MESSAGES, "after a stop and a new mount");
    fill(&dev, running, mounted.at(), &queue, next);
}

/// Sends until the disk is full, then makes room.
fn fill(dev: &Dev, mut running: Running, at: &Path, queue: &Queue, mut next: u32) {
    let foreign = at.join("foreign");
    take_all_but(LEFT_BYTES, &foreign);
    let mut connection = connect(dev);
    let refused_by = Instant::now() + REFUSED_WITHIN;
    while send_next(&mut connection, queue, &mut next) {
        assert!(Instant::now() < refused_by, "{next} messages, and no refusal");
    }
    take_all_but(0, &at.join("rest"));
    check(dev, queue, (0..next).step_by(7), "on a full disk");
    stop(&mut running);
    let mut running = dev.start();
    check(dev, queue, (0..next).step_by(7), "started on a full disk");
    ["foreign", "rest"].iter().for_each(|name| fs::remove_file(at.join(name)).expect("removed"));
    // Btrfs gives space back with its next commit, which may take it half a minute.
    let synced = Command::new("sync").arg("-f").arg(at).status().expect("sync runs");
    assert!(synced.success());
    let freed = Instant::now();
    let mut connection = connect(dev);
    let before = next;
    while next == before {
        send_next(&mut connection, queue, &mut next);
        assert!(freed.elapsed() < RESUMED_WITHIN, "still refused after {:?}", freed.elapsed());
        thread::sleep(Duration::from_millis(50));
    }
    eprintln!("{next} messages; sends went on {:?} after there was room", freed.elapsed());
    running.kill();
    let _running = dev.start();
    check(
        dev,
        queue,
        BTreeSet::from_iter((0..next).step_by(5).chain([next - 1])),
        "after a kill on a disk that was full",
    );
}

#[test]
fn a9_xfs_gives_large_bodies_back() {
    tested("a9_xfs_gives_large_bodies_back", Kind::Xfs, "SYNC_FLUSH");
}

#[test]
fn a9_xfs_gives_large_bodies_back_that_were_flushed_later() {
    tested("a9_xfs_gives_large_bodies_back_that_were_flushed_later", Kind::Xfs, "ASYNC_FLUSH");
}

#[test]
fn a9_btrfs_gives_large_bodies_back() {
    tested("a9_btrfs_gives_large_bodies_back", Kind::Btrfs, "SYNC_FLUSH");
}

#[test]
fn a9_btrfs_gives_large_bodies_back_that_were_flushed_later() {
    tested("a9_btrfs_gives_large_bodies_back_that_were_flushed_later", Kind::Btrfs, "ASYNC_FLUSH");
}
