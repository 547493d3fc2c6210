//! `ringmq store`: a store that is read by hand, and what an import refuses. Imports of real stores: `compat import`.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use harness::connection::Connection;
use harness::process::Dev;
use harness::program::{self, Finished};
use harness::request::{Queue, create_topic, send};
use serde_json::Value;

const WITHIN: Duration = Duration::from_secs(60);
const EXIT_STORE: i32 = 7;

fn dump(store: &Path, more: &[&str]) -> Vec<Value> {
    dump_ending_with(0, store, more)
}

/// What a dump shows that ends with this code.
fn dump_ending_with(code: i32, store: &Path, more: &[&str]) -> Vec<Value> {
    let folder = store.to_string_lossy();
    let finished = program::run(&[&["store", "dump", &folder, "--json"], more].concat(), WITHIN);
    assert_eq!(finished.code, Some(code), "{}", finished.text());
    assert!(code == 0 || finished.stderr.contains("not whole"), "{}", finished.text());
    finished.stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

#[test]
fn a_store_is_read_by_hand() {
    let dev = Dev::new("dump");
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic("T", 4)).expect("made");
    let queue = Queue::new("T", 2);
    for number in 0..20 {
        let properties = format!("KEYS\u{1}k{}\u{2}TAGS\u{1}t\u{2}", number % 5);
        connection.call_ok(&send(&queue, format!("body {number}"), &properties)).expect("taken");
    }
    let store = dev.store().join("store");
    let live = dump(&store, &["--queue", "T:2"]);
    assert!(live[0]["state"].as_str().is_some_and(|state| state.starts_with("in use")), "{}", live[0]);
    assert_eq!(process.stop(), Some(0));

    let all = dump(&store, &[]);
    assert_eq!((&all[0]["logs"], &all[0]["state"]), (&Value::from(4), &Value::from("stopped in order")));
    assert_eq!(
        (of_kind(&all, "log").len(), of_kind(&all, "checkpoint").len(), of_kind(&all, "damage").len()),
        (4, 4, 0)
    );
    let lines = dump(&store, &["--queue", "T:2", "--key", "k3"]);
    let records = of_kind(&lines, "record");
    let offsets: Vec<_> = records.iter().map(|record| record["queueOffset"].as_u64().expect("a number")).collect();
    assert_eq!(offsets, [3, 8, 13, 18]);
    assert!(records.iter().all(|record| record["checksum"] == "whole" && record["tags"] == "t"), "{records:?}");
    assert_eq!((of_kind(&lines, "entry").len(), of_kind(&lines, "key").len()), (20, 4));
    let place = records[1]["offset"].as_u64().expect("an offset");
    let log = records[1]["log"].as_u64().expect("a log").to_string();
    let from = dump(&store, &["--log", &log, "--from", &place.to_string(), "--limit", "1"]);
    assert_eq!(of_kind(&from, "record")[0]["offset"], place);

    let file = store.join(format!("log-0{log}/commitlog/{:020}", 0));
    let segment = OpenOptions::new().write(true).open(&file).expect("opened");
    segment.write_all_at(b"?", place + 90).expect("written");
    let damaged = dump_ending_with(EXIT_STORE, &store, &["--queue", "T:2"]);
    let damage = of_kind(&damaged, "damage");
    assert_eq!((damage.len(), damage[0]["offset"].as_u64()), (1, Some(place)), "{damage:?}");
    assert!(damage[0]["reason"].as_str().is_some_and(|reason| reason.contains("checksum")), "{damage:?}");
    assert_eq!(of_kind(&damaged, "record").len(), 19, "the others are shown");
    let text = program::run(&["store", "dump", &store.to_string_lossy(), "--limit", "2"], WITHIN);
    assert!(text.stdout.contains("checkpoint") && text.stdout.contains("topic="), "{}", text.text());
}

/// Each kind of file that is not whole is named, and the exit code tells.
#[test]
fn files_that_are_not_whole_are_told() {
    let mut dev = Dev::new("dump-flaws").property("flushDiskType=ASYNC_FLUSH");
    (dev.cores, dev.logs) = (1, 1);
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic("T", 1)).expect("made");
    let send_one = |connection: &mut Connection, number: u32| {
        let properties = format!("KEYS\u{1}k{number}\u{2}");
        connection.call_ok(&send(&Queue::new("T", 0), format!("body {number}"), &properties)).expect("taken");
    };
    (0..1500).for_each(|number| send_one(&mut connection, number));
    assert_eq!(process.stop(), Some(0));
    let store = dev.store().join("store");
    let log = store.join("log-00");
    assert!(of_kind(&dump(&store, &[]), "kept").is_empty(), "a stop in order leaves nothing in the tail file alone");
    let extent = dev.numbered_files("queues").pop().expect("an extent");
    let flip = |path: &Path, at: u64| {
        let file = OpenOptions::new().read(true).write(true).open(path).expect("opened");
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_all_at(&[byte[0] ^ 4], at).expect("flipped");
    };
    let extent_bytes = fs::metadata(&extent).expect("there").len();
    // The header, the directory, entries, keys.
    for at in [3, 100, extent_bytes / 4, extent_bytes - 5] {
        flip(&extent, at);
        let lines = dump_ending_with(EXIT_STORE, &store, &["--limit", "0"]);
        let state = of_kind(&lines, "extent")[0]["state"].as_str().unwrap_or_default().to_owned();
        assert!(state.starts_with("not whole"), "byte {at}: {state}");
        flip(&extent, at);
    }
    flip(&log.join("tail"), 9);
    let lines = dump_ending_with(EXIT_STORE, &store, &["--limit", "0"]);
    assert_eq!(of_kind(&lines, "tail")[0]["state"], "it is no whole tail file");
    flip(&log.join("tail"), 9);
    assert!(dump(&store, &["--limit", "0"]).len() > 3, "all is whole again");

    // After a kill the newest records may be in the tail file alone, and it says how far they go.
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    (1500..1600).for_each(|number| send_one(&mut connection, number));
    process.kill();
    let killed = dump(&store, &[]);
    let read = of_kind(&killed, "record").iter().filter(|record| record["topic"] == "T").count();
    assert!(read == 1600 || !of_kind(&killed, "kept").is_empty(), "{read} records, and nothing in the tail file");
    let (tail, end) = (of_kind(&killed, "tail")[0], of_kind(&killed, "end")[0]);
    let end = tail["end"].as_u64().expect("an offset").max(end["offset"].as_u64().expect("an offset"));
    let newer = OpenOptions::new().write(true).open(log.join("tail")).expect("opened");
    // Where the head has the end of what was put.
    newer.write_all_at(&(end + 1000).to_be_bytes(), 40).expect("written");
    let lines = dump_ending_with(EXIT_STORE, &store, &[]);
    let state = of_kind(&lines, "kept")[0]["state"].as_str().unwrap_or_default();
    assert!(state.contains("it should have records to"), "{lines:?}");
}

/// What is asked for and is not there is said, and a pipe in the place of a file keeps nobody waiting.
#[test]
fn what_a_store_does_not_have_is_said() {
    let dev = Dev::new("dump-none");
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&create_topic("T", 4)).expect("made");
    connection.call_ok(&send(&Queue::new("T", 2), "body", "")).expect("taken");
    assert_eq!(process.stop(), Some(0));
    let store = dev.store().join("store");
    let folder = store.to_string_lossy().into_owned();
    let dumped = |more: &[&str]| program::run(&[&["store", "dump", &folder], more].concat(), WITHIN);
    for (more, said) in [
        (&["--log", "9"][..], "there is no log 9"),
        (&["--queue", "T:3"], "no record and no entry of queue T:3"),
        (&["--queue", "Gone:0"], "no record and no entry of queue Gone:0"),
        (&["--from", "99999999"], "nothing lies at offset 99999999 or behind it"),
        (&["--commit-log", "/nowhere"], "/nowhere is no folder: name those of storePathCommitLog"),
    ] {
        let refused = dumped(more);
        assert!(refused.code != Some(0) && refused.stderr.contains(said), "{more:?}: {}", refused.text());
    }
    let wrong: Vec<Finished> = (0..4).map(|log: u32| dumped(&["--queue", "T:2", "--log", &log.to_string()])).collect();
    assert_eq!(wrong.iter().filter(|refused| refused.stderr.contains("T:2 lies in log")).count(), 3);
    for name in ["log-00/checkpoint", "store.json"] {
        fs::remove_file(store.join(name)).expect("removed");
        let made = Command::new("mkfifo").arg(store.join(name)).status();
        assert!(made.expect("mkfifo runs").success());
        let refused = dumped(&[]);
        assert!(refused.stderr.contains("it is a pipe"), "{name}: {}", refused.text());
    }
}

#[test]
fn what_cannot_be_imported_is_refused_with_the_cure() {
    let dev = Dev::new("refused");
    let old = dev.folder().join("old");
    let import = |source: &Path, target: &Path| -> Finished {
        let (source, target) = (source.to_string_lossy(), target.to_string_lossy());
        program::run(&["store", "import", &source, "--to", &target, "--segment-bytes", "4194304"], WITHIN)
    };
    let new = dev.folder().join("new");
    let refused = import(&old, &new);
    assert!(refused.stderr.contains("is no folder: name the one of storePathRootDir"), "{}", refused.text());
    fs::create_dir_all(old.join("config")).expect("a folder");
    let refused = import(&old, &new);
    assert!(refused.stderr.contains("is no store of Apache RocketMQ"), "{}", refused.text());
    fs::create_dir_all(old.join("commitlog")).expect("a folder");
    fs::write(old.join("config/topics.json"), r#"{"topicConfigTable":{}}"#).expect("written");
    fs::create_dir_all(new.join("something")).expect("a folder");
    let refused = import(&old, &new);
    assert!(refused.stderr.contains("name a folder that is new"), "{}", refused.text());
    assert_eq!(refused.code, Some(EXIT_STORE), "{}", refused.text());
    fs::remove_dir_all(&new).expect("removed");
    let done = import(&old, &new);
    assert_eq!(done.code, Some(0), "an empty store is one: {}", done.text());
    let again = import(&new, &dev.folder().join("other"));
    assert!(again.stderr.contains("is a store of RingMQ already"), "{}", again.text());
    assert!(!dev.folder().join("other").exists(), "nothing is left of an import that was refused");
}
