//! A store made by hand, with everything that an import has to tell apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use base::{LogId, LogOffset, PhysicalOffset, QueueId, QueueOffset};
use remoting::name::{HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC};
use remoting::record::{BatchItem, Placement, RecordDraft, blank, encode, encode_item, record_bytes, sys_flag};
use runtime::file::TempFolder;
use storage::{Seen, StoreView};

use super::*;

const FILE_BYTES: u64 = 1 << 20;
const UNITS: u64 = 1000;
/// Long ago and far ahead.
const THEN: u64 = 1_700_000_000_000;
const LATER: u64 = 4_000_000_000_000;
const REVIVE: &str = "rmq_sys_REVIVE_LOG_C";

/// Writes a store as the other broker does.
struct Maker {
    root: PathBuf,
    files: Vec<Vec<u8>>,
    start: u64,
    at: u64,
    units: BTreeMap<(String, u32), BTreeMap<u64, [u8; 20]>>,
}

struct Put<'a> {
    topic: &'a str,
    queue: u32,
    offset: u64,
    body: &'a str,
    properties: &'a str,
    sys_flag: i32,
    prepared: i64,
    stored_ms: u64,
    tags_code: i64,
    in_queue: bool,
}

fn put<'a>(topic: &'a str, queue: u32, offset: u64, body: &'a str) -> Put<'a> {
    Put {
        topic,
        queue,
        offset,
        body,
        properties: "",
        sys_flag: 0,
        prepared: 0,
        stored_ms: THEN,
        tags_code: 0,
        in_queue: true,
    }
}

impl Maker {
    fn new(root: &Path, start: u64) -> Maker {
        let files = vec![vec![0; FILE_BYTES as usize]];
        Maker { root: root.to_owned(), files, start, at: start, units: BTreeMap::new() }
    }

    fn put(&mut self, put: &Put<'_>) -> u64 {
        let draft = RecordDraft {
            topic: put.topic,
            queue_id: QueueId(put.queue),
            flag: 5,
            sys_flag: put.sys_flag,
            born_timestamp_ms: THEN as i64,
            born_host: "[::1]:7".parse().expect("an address"),
            store_host: "127.0.0.1:10911".parse().expect("an address"),
            reconsume_times: 0,
            prepared_transaction_offset: put.prepared,
            body: put.body.as_bytes(),
            properties: put.properties,
        };
        let bytes = record_bytes(&draft);
        let room = FILE_BYTES - self.at % FILE_BYTES;
        if bytes as u64 + 8 > room {
            let in_file = (self.at % FILE_BYTES) as usize;
            self.files.last_mut().expect("a file")[in_file..in_file + 8].copy_from_slice(&blank(room as u32));
            self.files.push(vec![0; FILE_BYTES as usize]);
            self.at += room;
        }
        let at = self.at;
        let placement = Placement {
            queue_offset: QueueOffset(put.offset),
            physical_offset: PhysicalOffset(at),
            store_timestamp_ms: put.stored_ms as i64,
        };
        let in_file = (at % FILE_BYTES) as usize;
        encode(&draft, placement, &mut self.files.last_mut().expect("a file")[in_file..in_file + bytes]);
        self.at += bytes as u64;
        if put.in_queue {
            self.unit(put.topic, put.queue, put.offset, at, bytes as u32, put.tags_code);
        }
        at
    }

    fn unit(&mut self, topic: &str, queue: u32, offset: u64, at: u64, bytes: u32, tags_code: i64) {
        let mut unit = [0; 20];
        unit[..8].copy_from_slice(&at.to_be_bytes());
        unit[8..12].copy_from_slice(&bytes.to_be_bytes());
        unit[12..].copy_from_slice(&tags_code.to_be_bytes());
        self.units.entry((topic.to_owned(), queue)).or_default().insert(offset, unit);
    }

    fn table(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("written");
    }

    fn finish(&self) {
        fs::create_dir_all(self.root.join("commitlog")).expect("a folder");
        for (number, file) in self.files.iter().enumerate() {
            let name = format!("commitlog/{:020}", self.start + number as u64 * FILE_BYTES);
            fs::write(self.root.join(name), file).expect("written");
        }
        for ((topic, queue), units) in &self.units {
            let folder = self.root.join(format!("consumequeue/{topic}/{queue}"));
            fs::create_dir_all(&folder).expect("a folder");
            let first = units.keys().next().expect("a unit") / UNITS * UNITS;
            let mut bytes = vec![0; (UNITS * 20) as usize];
            let begins = *units.keys().next().expect("a unit");
            for at in first..begins {
                bytes[((at - first) * 20) as usize + 8..][..4].copy_from_slice(&i32::MAX.to_be_bytes());
            }
            for (at, unit) in units {
                bytes[((at - first) * 20) as usize..][..20].copy_from_slice(unit);
            }
            fs::write(folder.join(format!("{:020}", first * 20)), bytes).expect("written");
        }
        self.table(
            "config/topics.json",
            r#"{"topicConfigTable":{"T":{"topicName":"T","perm":4,"readQueueNums":4,"writeQueueNums":4,
                "attributes":{"message.type":"FIFO"}},"B":{"topicName":"B"},"TBW102":{"topicName":"TBW102"},
                "SCHEDULE_TOPIC_XXXX":{"topicName":"SCHEDULE_TOPIC_XXXX"}}}"#,
        );
    }

    fn import(&self, target: &Path) -> Result<Report, ImportError> {
        let options = Options {
            source: self.root.clone(),
            commit_logs: Vec::new(),
            target: target.to_owned(),
            logs: 3,
            segment_bytes: None,
        };
        run(&options, &mut |progress| assert!(progress.bytes <= progress.bytes_total))
    }
}

/// All records of a store of ours: topic, queue, queue offset and body.
fn records(root: &Path) -> BTreeSet<(String, u32, u64, String)> {
    let mut found = BTreeSet::new();
    let store = StoreView::open(root, &[]).expect("a store");
    for log in 0..store.logs() {
        let log = store.log(LogId(log)).expect("a log");
        log.read(LogOffset(0), |seen| {
            let Seen::Record(view, _) = seen else { panic!("{seen:?}") };
            let body = String::from_utf8_lossy(view.body()).into_owned();
            found.insert((view.topic().to_owned(), view.queue_id().0, view.queue_offset().0, body));
            ControlFlow::Continue(())
        })
        .expect("readable");
    }
    found
}

fn bodies(records: &BTreeSet<(String, u32, u64, String)>, topic: &str) -> Vec<String> {
    records.iter().filter(|record| record.0 == topic && record.1 < 8192).map(|record| record.3.clone()).collect()
}

#[test]
fn messages_keep_their_offsets_and_others_stay_behind() {
    let folder = TempFolder::new("import");
    let (root, target) = (folder.path().join("old"), folder.path().join("new"));
    // The log begins in its third file, so do the queues behind 0.
    let mut maker = Maker::new(&root, 2 * FILE_BYTES);
    maker.put(&Put { in_queue: false, ..put("T", 0, 0, "of a former life") });
    let long = "x".repeat(300_000);
    for number in 0..10 {
        maker.put(&Put { properties: "KEYS\u{1}k\u{2}", ..put("T", 0, 40 + number, &format!("{number} {long}")) });
        maker.put(&put("T", 1, number, "short"));
    }
    maker.put(&put("Gone", 0, 0, "of a topic that is gone"));
    maker.put(&Put { sys_flag: sys_flag::TRANSACTION_PREPARED, in_queue: false, ..put("T", 0, 0, "of old") });
    // A queue whose messages are all gone, and one that was not dispatched to the end.
    maker.unit("T", 2, 7, 100, 50, 0);
    maker.put(&Put { in_queue: false, ..put("T", 1, 10, "late") });
    let mut batch = Vec::new();
    for body in [&b"b0"[..], b"b1"] {
        encode_item(&BatchItem { flag: 1, body, properties: "TAGS\u{1}t\u{2}" }, &mut batch);
    }
    let text = String::from_utf8(batch).expect("text");
    let inner = sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP;
    maker.put(&Put {
        sys_flag: inner,
        in_queue: false,
        properties: "INNER_BASE\u{1}6\u{2}INNER_NUM\u{1}2\u{2}",
        ..put("B", 0, 6, &text)
    });
    maker.table("config/consumerOffset.json", r#"{"offsetTable":{"T@g":{0:45,1:3},"Gone@g":{0:1},"none":{0:1}}}"#);
    maker.table(
        "config/subscriptionGroup.json.bak",
        r#"{"subscriptionGroupTable":{"g":{"groupName":"g","retryMaxTimes":3}}}"#,
    );
    maker.finish();
    let report = maker.import(&target).expect("imported");
    assert!(report.is_whole(), "{report:?}");
    assert_eq!((report.records, report.queues, report.topics, report.groups, report.offsets), (23, 4, 2, 1, 2));
    let left: Vec<_> = report.left_out.iter().map(|(why, count)| (*why, *count)).collect();
    assert_eq!(left, [(LeftOut::NoTopic, 1), (LeftOut::NotInQueue, 1), (LeftOut::NoQueue, 1)]);
    let records = records(&target);
    let first: Vec<u64> =
        records.iter().filter(|record| record.0 == "T" && record.1 == 0).map(|record| record.2).collect();
    assert_eq!(first, (40..50).collect::<Vec<_>>());
    assert!(records.contains(&("T".to_owned(), 1, 10, "late".to_owned())));
    assert!(records.contains(&("B".to_owned(), 0, 7, "b1".to_owned())));
    let topics = fs::read_to_string(target.join("config/topics.json")).expect("topics");
    assert!(
        topics.contains(r#""message.type":"FIFO""#) && topics.contains(r#""perm":4"#) && !topics.contains("TBW102")
    );
    assert!(
        fs::read_to_string(target.join("config/consumerOffset.json"))
            .expect("offsets")
            .contains(r#""T@g":{"0":45,"1":3}"#)
    );
    let floors: Vec<_> =
        (0..3).filter_map(|log| fs::read_to_string(target.join(format!("log-0{log}/floors.json"))).ok()).collect();
    assert!(floors.len() == 1 && floors[0].contains(r#""T":{"2":{"next":8"#), "{floors:?}");
}

/// By level: one delivered and noted, one delivered since, one that waits.
fn put_delayed(maker: &mut Maker) {
    let level = |key: &str| format!("DELAY\u{1}2\u{2}UNIQ_KEY\u{1}{key}\u{2}REAL_TOPIC\u{1}T\u{2}REAL_QID\u{1}1\u{2}");
    for (offset, (key, due)) in [("noted", THEN), ("since", THEN + 10), ("waits", LATER)].into_iter().enumerate() {
        let properties = level(key);
        let at = offset as u64;
        maker.put(&Put { properties: &properties, tags_code: due as i64, ..put(SCHEDULE_TOPIC, 1, at, key) });
    }
    maker.put(&Put { properties: &level("since"), stored_ms: THEN + 11, ..put("T", 1, 0, "since") });
    maker.table("config/delayOffset.json", r#"{"offsetTable":{2:1}}"#);
}

/// By time: rolled, taken back both ways, delivered, waiting.
fn put_timed(maker: &mut Maker) {
    let timer = |key: &str, more: &str| {
        format!("TIMER_OUT_MS\u{1}{LATER}\u{2}UNIQ_KEY\u{1}{key}\u{2}REAL_TOPIC\u{1}T\u{2}REAL_QID\u{1}2\u{2}{more}")
    };
    let timers = [
        ("rolled", ""),
        ("back", ""),
        ("named", ""),
        ("came", ""),
        ("timed", ""),
        ("rolled", "TIMER_ROLL_TIMES\u{1}1\u{2}"),
        ("x", "TIMER_DEL_UNIQKEY\u{1}back\u{2}"),
        ("y", "TIMER_DEL_UNIQKEY\u{1}T+named\u{2}"),
    ];
    for (offset, (key, more)) in timers.into_iter().enumerate() {
        let body = if more.is_empty() { key.to_owned() } else { format!("{key} again") };
        maker.put(&Put { properties: &timer(key, more), ..put(TIMER_TOPIC, 0, offset as u64, &body) });
    }
    let came = timer("came", "TIMER_DEQUEUE_MS\u{1}5\u{2}");
    maker.put(&Put { properties: &came, stored_ms: THEN + 12, ..put("T", 2, 0, "came") });
    let check = [THEN.to_be_bytes(), [0; 8], 8_u64.to_be_bytes()].concat();
    fs::write(maker.root.join("config/timercheck"), check).expect("written");
}

/// Halves: ended by a mark, by a message, checked, pending.
fn put_halves(maker: &mut Maker) {
    let half = |key: &str| format!("UNIQ_KEY\u{1}{key}\u{2}REAL_TOPIC\u{1}T\u{2}REAL_QID\u{1}0\u{2}PGROUP\u{1}g\u{2}");
    let mut places = Vec::new();
    for (offset, key) in ["marked", "sent", "checked", "pending", "checked"].into_iter().enumerate() {
        places.push(maker.put(&Put { properties: &half(key), ..put(HALF_TOPIC, 0, offset as u64, key) }));
    }
    maker.put(&Put { properties: "TAGS\u{1}d\u{2}", ..put(OP_HALF_TOPIC, 0, 0, "0,17") });
    let commit = sys_flag::TRANSACTION_COMMIT;
    maker.put(&Put { sys_flag: commit, prepared: places[1] as i64, ..put("T", 0, 0, "sent") });
}

/// Popped: two of three acknowledged, one in the revive topic, one in the timer topic still.
fn put_popped(maker: &mut Maker) {
    for offset in 0..3 {
        maker.put(&put("T", 3, offset, &format!("popped {offset}")));
    }
    let popped = format!(r#"{{"bm":0,"c":"g","it":1000,"n":3,"pt":{LATER},"q":3,"ro":0,"so":0,"t":"T","d":[0,1,2]}}"#);
    maker.put(&Put { properties: "TAGS\u{1}ck\u{2}", ..put(REVIVE, 0, 4, &popped) });
    let ack = |offset| format!(r#"{{"ao":{offset},"c":"g","pt":{LATER},"q":3,"so":0,"t":"T"}}"#);
    maker.put(&Put { properties: "TAGS\u{1}ack\u{2}", ..put(REVIVE, 0, 5, &ack(0)) });
    let waits =
        format!("TAGS\u{1}ack\u{2}TIMER_OUT_MS\u{1}{LATER}\u{2}REAL_TOPIC\u{1}{REVIVE}\u{2}REAL_QID\u{1}0\u{2}");
    maker.put(&Put { properties: &waits, ..put(TIMER_TOPIC, 0, 8, &ack(2)) });
}

#[test]
fn what_waits_waits_once() {
    let folder = TempFolder::new("import");
    let (root, target) = (folder.path().join("old"), folder.path().join("new"));
    let mut maker = Maker::new(&root, 0);
    put_delayed(&mut maker);
    put_timed(&mut maker);
    put_halves(&mut maker);
    put_popped(&mut maker);
    maker.finish();
    let report = maker.import(&target).expect("imported");
    assert!(report.is_whole(), "{report:?}");
    assert_eq!((report.delayed, report.timed, report.halves, report.popped), (1, 2, 2, 1));
    let records = records(&target);
    let mut held = bodies(&records, TIMER_TOPIC);
    held.sort();
    assert_eq!(held, ["popped 1", "rolled again", "timed", "waits"]);
    let mut halves = bodies(&records, HALF_TOPIC);
    halves.sort();
    assert_eq!(halves, ["checked", "pending"]);
    let topics = fs::read_to_string(target.join("config/topics.json")).expect("topics");
    assert!(topics.contains(r#""%RETRY%g_T""#), "where popped messages come again: {topics}");
}

#[test]
fn damage_is_told_and_a_torn_tail_is_cut() {
    let folder = TempFolder::new("import");
    let (root, target) = (folder.path().join("old"), folder.path().join("new"));
    let mut maker = Maker::new(&root, 0);
    let places: Vec<u64> = (0..5).map(|offset| maker.put(&put("T", 0, offset, "body"))).collect();
    let torn = maker.put(&Put { in_queue: false, ..put("T", 0, 5, "torn") });
    for wrong in [places[2] + 90, torn + 95] {
        maker.files[0][wrong as usize] ^= 1;
    }
    maker.finish();
    let report = maker.import(&target).expect("imported");
    let lost: Vec<_> = report.damages.iter().map(|lost| (lost.start, lost.limit)).collect();
    assert_eq!(lost, [(places[2], places[3])]);
    assert_eq!(report.differences, [Difference { topic: "T".to_owned(), queue: 0, expected: 5, taken: 4 }]);
    assert!(report.cut_bytes > 90 && !report.is_whole(), "{report:?}");
    let offsets: Vec<u64> = records(&target).iter().filter(|record| record.0 == "T").map(|record| record.2).collect();
    assert_eq!(offsets, [0, 1, 3, 4], "the others keep theirs");
}

/// As a broker leaves it whose consume queues are behind: what no queue knows may be whole messages all the same.
#[test]
fn what_follows_damage_is_taken_though_no_queue_knows_it() {
    let folder = TempFolder::new("import");
    let (root, target) = (folder.path().join("old"), folder.path().join("new"));
    let mut maker = Maker::new(&root, 0);
    maker.put(&put("T", 0, 0, "known"));
    let places: Vec<u64> =
        (1..4).map(|offset| maker.put(&Put { in_queue: false, ..put("T", 0, offset, "unknown") })).collect();
    maker.files[0][places[0] as usize + 90] ^= 1;
    maker.finish();
    let report = maker.import(&target).expect("imported");
    let lost: Vec<_> = report.damages.iter().map(|lost| (lost.start, lost.limit)).collect();
    assert_eq!((lost, report.cut_bytes), (vec![(places[0], places[1])], 0));
    assert!(!report.is_whole() && (report.records, report.queues) == (3, 1), "{report:?}");
    let offsets: Vec<u64> = records(&target).iter().filter(|record| record.0 == "T").map(|record| record.2).collect();
    assert_eq!(offsets, [0, 2, 3]);
}

#[test]
fn a_file_that_was_cut_is_damage_from_its_end_on() {
    let folder = TempFolder::new("import");
    let (root, target) = (folder.path().join("old"), folder.path().join("new"));
    let mut maker = Maker::new(&root, 0);
    let body = "b".repeat(300_000);
    // Three in each file.
    let places: Vec<u64> = (0..8).map(|offset| maker.put(&put("T", 0, offset, &body))).collect();
    maker.finish();
    let cut = |file: u64, bytes: u64| {
        let path = root.join(format!("commitlog/{:020}", file * FILE_BYTES));
        fs::File::options().write(true).open(path).and_then(|file| file.set_len(bytes)).expect("cut");
    };
    cut(0, 400_000);
    cut(2, 100_000);
    let report = maker.import(&target).expect("imported");
    let ends: Vec<_> = report.damages.iter().filter(|lost| lost.reason.contains("was cut")).collect();
    assert_eq!(ends.iter().map(|lost| lost.start).collect::<Vec<_>>(), [400_000, 2 * FILE_BYTES + 100_000]);
    assert!(places[6] == 2 * FILE_BYTES && !report.is_whole(), "{report:?}");
    let offsets: Vec<u64> = records(&target).iter().filter(|record| record.0 == "T").map(|record| record.2).collect();
    assert_eq!(offsets, [0, 3, 4, 5], "what the files still have");
}

#[test]
fn messages_whose_consume_queue_is_gone_are_taken_or_told() {
    let folder = TempFolder::new("import");
    let (root, target) = (folder.path().join("old"), folder.path().join("new"));
    let mut maker = Maker::new(&root, 0);
    // Of a topic that was deleted, and made again without a message in that queue.
    maker.put(&Put { in_queue: false, ..put("T", 1, 0, "of its life before") });
    for offset in 0..3 {
        maker.put(&put("T", 0, offset, "kept"));
        maker.put(&Put { in_queue: false, ..put("T", 2, offset, "its queue is gone") });
    }
    maker.put(&Put { in_queue: false, ..put("B", 0, 0, "all of its topic is gone") });
    maker.put(&put("T", 0, 3, "kept"));
    maker.finish();
    let report = maker.import(&target).expect("imported");
    assert_eq!(report.without_queue, BTreeMap::from([(("B".to_owned(), 0), 1)]));
    assert_eq!((report.left_out.get(&LeftOut::NotInQueue), report.unknown, report.records), (Some(&1), 3, 7));
    assert!(!report.is_whole() && report.damages.is_empty(), "{report:?}");
    let whose: Vec<u32> = records(&target).iter().filter(|record| record.0 == "T").map(|record| record.1).collect();
    assert_eq!(whose, [0, 0, 0, 0, 2, 2, 2], "what is surely of the topic's own life is taken over");
}

#[test]
fn a_checkpoint_that_says_nothing_stops_no_import() {
    for checkpoint in [&b""[..], &[0; 7], &[0; 4096], &[0xff; 64]] {
        let folder = TempFolder::new("import");
        let (root, target) = (folder.path().join("old"), folder.path().join("new"));
        let mut maker = Maker::new(&root, 0);
        maker.put(&put("T", 0, 0, "known"));
        maker.put(&Put { in_queue: false, ..put("T", 0, 1, "late") });
        maker.put(&put("B", 0, 0, "known"));
        maker.finish();
        fs::write(root.join("abort"), "").expect("written");
        fs::write(root.join("checkpoint"), checkpoint).expect("written");
        let report = maker.import(&target).expect("imported");
        assert_eq!((report.records, report.is_whole()), (3, true), "{checkpoint:?}");
    }
}

#[test]
fn nothing_is_made_in_the_source() {
    let folder = TempFolder::new("import");
    let root = folder.path().join("old");
    let maker = Maker::new(&root, 0);
    maker.finish();
    for target in [root.join("new"), root.join("deep/er/new")] {
        let error = maker.import(&target).expect_err("within the source").to_string();
        assert!(error.contains("which is only read: name a folder elsewhere"), "{error}");
        assert!(!target.exists() && !root.join("deep").exists());
    }
}

#[test]
fn an_import_that_fails_leaves_no_store() {
    let folder = TempFolder::new("import");
    let (root, target) = (folder.path().join("old"), folder.path().join("new"));
    let maker = Maker::new(&root, 0);
    maker.finish();
    fs::write(root.join("config/topics.json"), "{").expect("written");
    let error = maker.import(&target).expect_err("no topics").to_string();
    assert!(error.contains("topics.json cannot be read"), "{error}");
    fs::remove_file(root.join("config/topics.json")).expect("removed");
    let error = maker.import(&target).expect_err("no topics").to_string();
    assert!(error.contains("nobody knows which topics there are"), "{error}");
    assert!(!target.exists());
    maker.finish();
    let options =
        Options { source: root, commit_logs: Vec::new(), target: target.clone(), logs: 1, segment_bytes: Some(1000) };
    let error = run(&options, &mut |_| ()).expect_err("no size of segments").to_string();
    assert!(error.contains("--segment-bytes says 1000 bytes"), "{error}");
    assert!(!target.exists());
}
