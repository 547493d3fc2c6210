//! Logs on several disks: each keeps its place, and a full disk is the matter of its own logs.
//!
//! The disks are file systems in images, mounted by loop devices; without the permission to mount them the tests are left
//! out.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::frame::Frame;
use harness::mounted::Mounted;
use harness::process::{Dev, Running};
use harness::request::{CODE_OK, Queue, create_topic, read_queue, send};
use harness::target::TARGET_VARIABLE;
use harness::{left_out, patterned_body, unique_name};

const DISK_BYTES: u64 = 96 << 20;
const BODY_BYTES: usize = 60_000;
const CODE_NO_SERVICE: i32 = 14;
const REFUSED_WITHIN: Duration = Duration::from_secs(60);
const REFUSED_START_WITHIN: Duration = Duration::from_secs(20);

struct Disks {
    // Declared before the owner of the folder that they are mounted in.
    mounted: [Option<Mounted>; 2],
    places: [PathBuf; 2],
    dev: Dev,
}

impl Disks {
    /// Two disks for the messages of two logs, beside the folder for everything else.
    fn new(stem: &str) -> Result<Disks, String> {
        let mut dev = Dev::new(stem).property("cleanFileForciblyEnable=false");
        (dev.cores, dev.logs) = (1, 2);
        let places = ["disk-a", "disk-b"].map(|name| dev.folder().join(name));
        let [a, b] = &places;
        let mount = |place: &PathBuf| Mounted::new(&place.with_extension("image"), place, DISK_BYTES).map(Some);
        let mounted = [mount(a)?, mount(b)?];
        let property = format!("storePathCommitLog={},{}", a.display(), b.display());
        Ok(Disks { mounted, places, dev: dev.property(&property) })
    }

    fn connect(&self) -> Connection {
        Connection::open(&self.dev.broker).expect("the broker takes connections")
    }

    /// The words with which a start is refused.
    fn refused_start(&self) -> String {
        let mut running = Running::start(&self.dev.arguments());
        let line = running.await_line("log-0", REFUSED_START_WITHIN);
        let line = line.unwrap_or_else(|log| panic!("the start is not refused: {log}"));
        let until = Instant::now() + REFUSED_START_WITHIN;
        while running.is_alive() {
            assert!(Instant::now() < until, "it goes on: {}", running.log());
            thread::sleep(Duration::from_millis(20));
        }
        line
    }
}

fn scene(test: &str) -> Option<Disks> {
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        left_out(test, "the store must lie on disks of this test's own");
        return None;
    }
    match Disks::new("disks") {
        Ok(disks) => Some(disks),
        Err(reason) => {
            left_out(test, &format!("no file system can be mounted: {reason}"));
            None
        }
    }
}

fn send_one(connection: &mut Connection, queue: &Queue) -> Frame {
    connection.call(&send(queue, patterned_body(BODY_BYTES), "")).expect("answered")
}

#[test]
fn a_full_disk_is_the_matter_of_its_own_logs() {
    let Some(disks) = scene("a_full_disk_is_the_matter_of_its_own_logs") else { return };
    let _running = disks.dev.start();
    let topic = unique_name("disks");
    let mut connection = disks.connect();
    connection.call_ok(&create_topic(&topic, 2)).expect("made");
    // Neighbouring queues lie in different logs.
    let queues = [0, 1].map(|id| Queue::new(&topic, id));
    let until = Instant::now() + REFUSED_WITHIN;
    let refused = loop {
        let answer = send_one(&mut connection, &queues[0]);
        if answer.code != CODE_OK {
            break answer;
        }
        assert!(Instant::now() < until, "sends to a disk of {DISK_BYTES} bytes go on");
    };
    assert_eq!(refused.code, CODE_NO_SERVICE, "{}", refused.remark);
    let is_named = disks.places.iter().any(|place| refused.remark.contains(&*place.to_string_lossy()));
    assert!(is_named, "{}", refused.remark);
    for _ in 0..20 {
        let answer = send_one(&mut connection, &queues[1]);
        assert_eq!(answer.code, CODE_OK, "the other disk is empty: {}", answer.remark);
    }
    let info = connection.call_ok(&Frame::request(28)).expect("answered");
    let text = String::from_utf8_lossy(&info.body).into_owned();
    for place in &disks.places {
        assert!(text.contains(&format!("commitLogDiskRatio_{}", place.display())), "{text}");
    }
}

#[test]
fn a_log_is_found_wherever_its_disk_is_and_missed_when_it_is_away() {
    let Some(mut disks) = scene("a_log_is_found_wherever_its_disk_is_and_missed_when_it_is_away") else { return };
    let mut running = disks.dev.start();
    let topic = unique_name("disks");
    let mut connection = disks.connect();
    connection.call_ok(&create_topic(&topic, 2)).expect("made");
    let queues = [0, 1].map(|id| Queue::new(&topic, id));
    for queue in &queues {
        for _ in 0..10 {
            assert_eq!(send_one(&mut connection, queue).code, CODE_OK);
        }
    }
    running.kill();
    // The disks have changed places.
    let [a, b] = disks.places.clone();
    disks.mounted = [None, None];
    disks.mounted = [
        Some(Mounted::of(&b.with_extension("image"), &a).expect("mounted")),
        Some(Mounted::of(&a.with_extension("image"), &b).expect("mounted")),
    ];
    let mut running = disks.dev.start();
    let mut connection = disks.connect();
    for queue in &queues {
        let records = read_queue(&mut connection, queue, 0).expect("read");
        assert_eq!(records.len(), 10, "{queue:?}");
        assert_eq!(send_one(&mut connection, queue).code, CODE_OK);
    }
    running.kill();
    disks.mounted[1] = None;
    let said = disks.refused_start();
    assert!(said.contains("is its disk mounted?"), "{said}");
}
