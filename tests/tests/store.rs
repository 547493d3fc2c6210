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
    let folder = store.to_string_lossy();
    let finished = program::run(&[&["store", "dump", &folder, "--json"], more].concat(), WITHIN);
    assert_eq!(finished.code, Some(0), "{}", finished.text());
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
    let damaged = dump(&store, &["--queue", "T:2"]);
    let damage = of_kind(&damaged, "damage");
    assert_eq!((damage.len(), damage[0]["offset"].as_u64()), (1, Some(place)), "{damage:?}");
    assert!(damage[0]["reason"].as_str().is_some_and(|reason| reason.contains("checksum")), "{damage:?}");
    assert_eq!(of_kind(&damaged, "record").len(), 19, "the others are shown");
    let text = program::run(&["store", "dump", &store.to_string_lossy(), "--limit", "2"], WITHIN);
    assert!(text.stdout.contains("checkpoint") && text.stdout.contains("topic="), "{}", text.text());
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
