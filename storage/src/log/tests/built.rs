//! Logs that were made of records with offsets of their own.

use base::LogOffset;
use runtime::table_file;

use super::*;
use crate::build::LogBuilder;

fn build(folders: &LogFolders) -> u64 {
    let mut builder = LogBuilder::create(folders.clone(), LOG, 1 << 20).expect("a log");
    builder.options = small(FlushPolicy::Sync);
    for number in 0..2000 {
        let body = format!("body {number}");
        let padding = format!("KEYS\u{1}key{number}\u{2}p\u{1}{}\u{2}", "x".repeat(1500));
        // Queue 0 begins at 40 and lacks what lies between 1039 and 1100.
        let offset = QueueOffset(40 + number + if number >= 1000 { 60 } else { 0 });
        builder.append(&draft("T", 0, body.as_bytes(), &padding), offset, 5000 + number).expect("appended");
        builder.append(&draft("T", 1, body.as_bytes(), ""), QueueOffset(number), 1).expect("appended");
    }
    builder.raise_next("T", QueueId(1), QueueOffset(7));
    builder.raise_next("Gone", QueueId(3), QueueOffset(77));
    assert_eq!(builder.next("T", QueueId(0)), Some(QueueOffset(2100)));
    builder.finish().expect("finished").0
}

#[test]
fn a_built_log_opens_as_one_that_was_stopped() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    let end = build(&folders);
    let derived: Vec<_> = derived_files(&folders).iter().map(|path| std::fs::read(path).expect("read")).collect();
    assert!(derived.len() > 3 && end > 3 << 20, "{} extents, {end} bytes", derived.len());
    runtime::run_here(async move {
        let (log, report) = open(&folders, &small(FlushPolicy::Sync)).await;
        assert_eq!((report.was_clean, report.records_scanned, report.end.0), (true, 0, end));
        let first = log.queue("T", QueueId(0));
        assert_eq!((first.min(), first.max()), (QueueOffset(40), QueueOffset(2100)));
        let expected = numbered(0..2000);
        let shifted = |number: u64| 40 + number + if number >= 1000 { 60 } else { 0 };
        let of_first: Vec<_> = expected.iter().map(|(number, body)| (shifted(*number), body.clone())).collect();
        assert_eq!(bodies(&log, "T", 0).await, of_first);
        assert_eq!(bodies(&log, "T", 1).await, expected);
        let gone = log.queue("Gone", QueueId(3));
        assert_eq!((gone.min(), gone.next()), (QueueOffset(77), QueueOffset(77)));
        let found = log
            .find_keys(crate::key_hash("T", "key1234"), (0, u64::MAX), LogOffset(u64::MAX), 9)
            .await
            .expect("searched");
        assert_eq!(found.len(), 1);
        let ticket = append(&log, "T", 0, b"next").await;
        assert_eq!(queue_offset(&ticket), 2100);
        log.stop().await.expect("stopped");

        // What is derived of it by a scan is the same. A table that is damaged is told as well.
        std::fs::remove_dir_all(folders.queues()).expect("removed");
        let floors = folders.queue_floors();
        std::fs::copy(&floors, table_file::backup_path(&floors)).expect("a generation before");
        std::fs::write(&floors, "nonsense").expect("damaged");
        let (log, report) = open(&folders, &small(FlushPolicy::Sync)).await;
        assert_eq!((report.was_clean, report.derived_end), (false, Some(LogOffset(0))), "{report:?}");
        assert!(report.restored[0].contains("floors.json was damaged"), "{report:?}");
        assert!(report.records_scanned > 4000 && report.damages.is_empty(), "{report:?}");
        assert_eq!(bodies(&log, "T", 1).await, expected);
        let again: Vec<_> = derived_files(&folders).iter().map(|path| std::fs::read(path).expect("read")).collect();
        assert_eq!(again[..derived.len() - 1], derived[..derived.len() - 1]);
        log.stop().await.expect("stopped");
    })
    .expect("run");
}

#[test]
#[should_panic(expected = "offset 3 after 5 were given")]
fn no_offset_is_given_twice() {
    let folder = TempFolder::new("log");
    let mut builder = LogBuilder::create(folders(&folder), LOG, 1 << 20).expect("a log");
    builder.append(&draft("T", 0, b"a", ""), QueueOffset(4), 1).expect("appended");
    let _ = builder.append(&draft("T", 0, b"b", ""), QueueOffset(3), 1);
}
