//! Damage: derived files come back equal, and a bad record costs itself only.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::*;
use crate::log::Mark;
use crate::recovery::Damage;
use crate::scan::{ScanRange, scan};

/// Something done to a file.
type Harm = Box<dyn Fn(&std::path::Path)>;

async fn fill(folders: &LogFolders, options: &LogOptions, count: u64) -> Vec<Ticket> {
    let (log, _) = open(folders, options).await;
    let mut tickets = Vec::new();
    for number in 0..count {
        tickets.push(append(&log, "T", 0, format!("body {number}").as_bytes()).await);
        append(&log, "U", number as u32 % 5, &[number as u8; 900]).await;
    }
    tickets.last().expect("some").reached(Mark::Durable).await.expect("durable");
    log.stop().await.expect("stopped");
    tickets
}

#[test]
fn derived_files_are_rebuilt_equal() {
    let folder = TempFolder::new("damage");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = small(FlushPolicy::Sync);
        fill(&folders, &options, 1500).await;
        let files = derived_files(&folders);
        assert!(files.len() >= 2, "{files:?}");
        let harms: [(&str, Harm); 5] = [
            ("removed", Box::new(|path| std::fs::remove_file(path).expect("removed"))),
            ("emptied", Box::new(|path| std::fs::write(path, b"").expect("emptied"))),
            (
                "cut",
                Box::new(|path| {
                    let bytes = std::fs::read(path).expect("read");
                    std::fs::write(path, &bytes[..bytes.len() - 7]).expect("cut");
                }),
            ),
            (
                "zeroed",
                Box::new(|path| {
                    let bytes = std::fs::read(path).expect("read").len();
                    std::fs::write(path, vec![0; bytes]).expect("zeroed");
                }),
            ),
            (
                "flipped",
                Box::new(|path| {
                    let mut bytes = std::fs::read(path).expect("read");
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 1;
                    std::fs::write(path, &bytes).expect("flipped");
                }),
            ),
        ];
        for which in ["first", "middle", "last", "all"] {
            for (name, harm) in &harms {
                let files = derived_files(&folders);
                match which {
                    "first" => harm(&files[0]),
                    "middle" => harm(&files[files.len() / 2]),
                    "last" => harm(&files[files.len() - 1]),
                    _ => {
                        files.iter().for_each(|path| harm(path));
                        harm(&folders.checkpoint());
                    }
                }
                let (log, report) = open(&folders, &options).await;
                assert!(report.damages.is_empty(), "{which} {name}: {report:?}");
                assert!(bodies(&log, "T", 0).await == numbered(0..1500), "{which} {name}");
                for queue in 0..5 {
                    assert_eq!(bodies(&log, "U", queue).await.len(), 300, "{which} {name}");
                }
                assert_eq!(log.queue("T", QueueId(0)).next().0, 1500);
                log.stop().await.expect("stopped");
            }
        }
    })
    .expect("an executor");
}

/// However a log came to be, with stops and kills between: what is derived from it is the same, byte for byte.
#[test]
fn derived_files_are_a_function_of_the_log() {
    // With few queues an extent is one stretch of the log, with many it goes on over several.
    for (flush, queues, files) in [
        (FlushPolicy::Sync, 3, 10..=20),
        (FlushPolicy::Async, 3, 10..=20),
        (FlushPolicy::Sync, 200, 3..=5),
        (FlushPolicy::Async, 200, 3..=5),
    ] {
        let folder = TempFolder::new("damage");
        let folders = folders(&folder);
        runtime::run_here(async move {
            let options = LogOptions { extent_bytes: 300_000, ..small(flush) };
            for life in 0..6_u64 {
                let (log, _) = open(&folders, &options).await;
                let mut last = None;
                for number in 0..life * 200 {
                    let topic = if number % 7 == 0 { "A" } else { "B" };
                    let body = vec![7; (number * 31 % 2000) as usize];
                    last = Some(append(&log, topic, (number % queues) as u32, &body).await);
                }
                if let Some(last) = last {
                    last.reached(Mark::Durable).await.expect("durable");
                }
                if life % 2 == 0 {
                    crash(log).await;
                } else {
                    log.stop().await.expect("stopped");
                }
            }
            let contents = || {
                let content = |path| std::fs::read(&path).map(|content| (path, content)).expect("read");
                derived_files(&folders).into_iter().map(content).collect::<Vec<_>>()
            };
            let before = contents();
            assert!(files.contains(&before.len()), "{} files", before.len());
            before.iter().for_each(|(path, _)| std::fs::remove_file(path).expect("removed"));
            let (log, report) = open(&folders, &options).await;
            assert_eq!((report.extents_rebuilt, report.extents_loaded), (before.len() - 1, 0));
            log.stop().await.expect("stopped");
            let after = contents();
            let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
            assert_eq!(names(&after), names(&before));
            assert!(after == before, "a file differs");
        })
        .expect("an executor");
    }
}

#[test]
fn a_flipped_bit_costs_one_message() {
    for (name, at) in [("body", 90), ("length", 1), ("magic", 5), ("queue offset", 27), ("body length", 87)] {
        for scanned in [false, true] {
            let folder = TempFolder::new("damage");
            let folders = folders(&folder);
            runtime::run_here(async move {
                let options = small(FlushPolicy::Sync);
                let tickets = fill(&folders, &options, 1500).await;
                flip_bit(&folders, tickets[150].physical_offset.offset().0 + at);
                if scanned {
                    for path in derived_files(&folders) {
                        std::fs::remove_file(path).expect("removed");
                    }
                }
                let (tell, told) = std::sync::mpsc::channel();
                let damaged = Arc::new(move |_, damage: &Damage| tell.send(damage.clone()).expect("heard"));
                let (log, report) = open(&folders, &LogOptions { damaged: Some(damaged), ..options.clone() }).await;
                let expected: Vec<_> = numbered(0..1500).into_iter().filter(|(number, _)| *number != 150).collect();
                assert!(bodies(&log, "T", 0).await == expected, "{name} scanned {scanned}");
                let damages = if scanned { report.damages } else { log.stats().damages };
                let [damage] = &damages[..] else { panic!("{name} scanned {scanned}: {damages:?}") };
                assert!(scanned || told.try_iter().eq([damage.clone()]), "{name}: it is told when it is found");
                assert_eq!((damage.start, damage.limit), (tickets[150].physical_offset.offset(), tickets[150].end));
                assert_eq!(log.record_at(damage.start).await.expect("read"), None);
                assert_eq!(queue_offset(&append_durably(&log, "T", 0, b"body 1500").await), 1500);
                log.stop().await.expect("stopped");
                let (log, _) = open(&folders, &options).await;
                assert_eq!(bodies(&log, "T", 0).await.len(), 1500);
                log.stop().await.expect("stopped");
            })
            .expect("an executor");
        }
    }
}

/// Readers of many queues come to one hole from many sides: it costs the messages in it, and is told once.
#[test]
fn a_hole_is_one_for_the_readers_of_all_queues() {
    let folder = TempFolder::new("damage");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = small(FlushPolicy::Sync);
        let tickets = fill(&folders, &options, 1500).await;
        let [start, limit] = [200, 600].map(|number: usize| tickets[number].physical_offset.offset().0 + 50);
        overwrite(&folders, start, &vec![0; (limit - start) as usize]);
        let (log, _) = open(&folders, &options).await;
        for queue_id in [3, 0, 4, 1, 2] {
            let queue = log.queue("U", QueueId(queue_id));
            let messages = read_by(&log, &queue, ReadLimits { messages_max: 7, ..ALL }).await;
            let whole = |number: &u64| number % 5 == u64::from(queue_id) && !(200..600).contains(number);
            let expected: Vec<_> =
                (0..1500).filter(whole).map(|number| (number / 5, vec![number as u8; 900])).collect();
            assert!(messages == expected, "queue {queue_id}: {} for {}", messages.len(), expected.len());
        }
        let whole = numbered(0..1500).into_iter().filter(|(number, _)| !(200..=600).contains(number));
        assert!(bodies(&log, "T", 0).await == whole.collect::<Vec<_>>());
        let damages = log.stats().damages;
        let [damage] = &damages[..] else { panic!("{damages:?}") };
        assert!(damage.start.0 < start && limit < damage.limit.0, "{damage:?}");
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn a_missing_segment_costs_its_messages_only() {
    let folder = TempFolder::new("damage");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = small(FlushPolicy::Sync);
        let tickets = fill(&folders, &options, 6000).await;
        std::fs::remove_file(segment_path(&folders, 2 << 20)).expect("removed");
        for _ in 0..2 {
            let (log, report) = open(&folders, &options).await;
            let [damage] = &report.damages[..] else { panic!("{report:?}") };
            assert!(damage.missing && damage.start.0 == 2 << 20 && damage.limit.0 == 3 << 20, "{damage:?}");
            let lost = |ticket: &Ticket| (2 << 20..3 << 20).contains(&ticket.physical_offset.offset().0);
            let expected: Vec<_> =
                numbered(0..6000).into_iter().filter(|(at, _)| !lost(&tickets[*at as usize])).collect();
            assert!(expected.len() < 5500);
            assert!(bodies(&log, "T", 0).await == expected);
            assert_eq!(log.queue("T", QueueId(0)).max().0, 6000);
            log.stop().await.expect("stopped");
        }
    })
    .expect("an executor");
}

/// A scan to the beginning of an extent looks for records no further, however far a hole reaches.
#[test]
fn a_hole_is_searched_no_further_than_the_scan_goes() {
    let folder = TempFolder::new("damage");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = small(FlushPolicy::Sync);
        let tickets = fill(&folders, &options, 500).await;
        let places = [100, 200, 300].map(|number: usize| tickets[number].physical_offset.offset().0);
        let [hole, limit, hole_limit] = places;
        overwrite(&folders, hole, &vec![0; (hole_limit - hole) as usize]);
        let (log, _) = open(&folders, &options).await;
        let segments = log.segments.borrow().overlapping(0, hole_limit);
        let scanned =
            scan(LOG, &segments, ScanRange { start: 0, limit, durable: hole_limit }, |_| Ok(ControlFlow::Continue(())));
        let scanned = scanned.expect("readable");
        let [damage] = &scanned.damages[..] else { panic!("{scanned:?}") };
        assert_eq!((damage.start.0, damage.limit.0, scanned.end), (hole, limit, limit));
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

/// What would make a log of records an empty one is refused, with the cure, and nothing is erased.
#[test]
fn a_log_without_its_records_is_refused() {
    let folder = TempFolder::new("damage");
    let (here, there) = (folders(&folder), folder.path().join("elsewhere"));
    runtime::run_here(async move {
        let options = small(FlushPolicy::Sync);
        fill(&here, &options, 3000).await;
        let refused = async |log| {
            let opened = Log::open(here.clone(), log, options.clone(), WriteRing::start().expect("a ring")).await;
            opened.err().expect("refused").to_string()
        };
        let told = refused(LogId(LOG.0 + 1)).await;
        assert!(told.contains("belongs to log") && told.contains("put the folders"), "{told}");
        std::fs::rename(&here.commit_log, &there).expect("the disk is not mounted");
        let told = refused(LOG).await;
        assert!(told.contains("no segment is there") && told.contains("is its disk mounted"), "{told}");
        std::fs::remove_dir(&here.commit_log).expect("nothing was made in it");
        std::fs::rename(&there, &here.commit_log).expect("mounted");
        let (log, report) = open(&here, &options).await;
        assert!(report.damages.is_empty(), "{report:?}");
        assert!(bodies(&log, "T", 0).await == numbered(0..3000));
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

/// The files with the newest records are gone: that is told, and no offset is given twice.
#[test]
fn a_missing_end_is_told_and_its_offsets_are_not_used_again() {
    for flush in [FlushPolicy::Sync, FlushPolicy::Async] {
        for (missing, is_stopped) in [(1, true), (2, true), (2, false)] {
            let folder = TempFolder::new("damage");
            let folders = folders(&folder);
            runtime::run_here(async move {
                let options = LogOptions { unwritten_bytes_max: 1 << 20, ..small(flush) };
                let tickets = fill(&folders, &options, 6000).await;
                if !is_stopped {
                    let (log, _) = open(&folders, &options).await;
                    append_durably(&log, "V", 0, b"body 0").await;
                    crash(log).await;
                }
                let end = tickets.last().expect("some").end.0;
                let lost_from = (end >> 20).saturating_sub(missing - 1) << 20;
                for (start, path) in crate::disk::offset_files(&folders.commit_log).expect("listed") {
                    if start >= lost_from {
                        std::fs::remove_file(path).expect("removed");
                    }
                }
                let (log, report) = open(&folders, &options).await;
                let told: u64 = report.damages.iter().map(|damage| damage.limit.0 - damage.start.0).sum();
                assert!(
                    told >= end - lost_from - (64 << 10),
                    "{missing} {is_stopped}: {lost_from} to {end}: {report:?}"
                );
                assert!(report.end.0 >= end, "{missing} {is_stopped}: {report:?}");
                let kept = tickets.iter().filter(|ticket| ticket.end.0 <= lost_from).count() as u64;
                let found = bodies(&log, "T", 0).await;
                assert!(found[..kept as usize] == numbered(0..kept), "{missing} {is_stopped}: {}", found.len());
                let ticket = append_durably(&log, "T", 0, b"body 6000").await;
                assert!(ticket.physical_offset.offset().0 >= end);
                assert_eq!(queue_offset(&ticket), 6000, "{missing} {is_stopped}");
                assert!(bodies(&log, "T", 0).await.ends_with(&numbered(6000..6001)));
                log.stop().await.expect("stopped");
                let (log, _) = open(&folders, &options).await;
                assert_eq!(queue_offset(&append_durably(&log, "T", 0, b"body 6001").await), 6001);
                log.stop().await.expect("stopped");
            })
            .expect("an executor");
        }
    }
}

#[test]
fn another_segment_size_is_refused_with_the_cure() {
    let folder = TempFolder::new("damage");
    let folders = folders(&folder);
    runtime::run_here(async move {
        fill(&folders, &small(FlushPolicy::Sync), 10).await;
        let options = LogOptions { segment_bytes: 2 << 20, ..small(FlushPolicy::Sync) };
        let ring = WriteRing::start().expect("a ring");
        let error = Log::open(folders.clone(), LOG, options, ring).await.err().expect("refused");
        assert!(error.to_string().contains("set mappedFileSizeCommitLog=1048576"), "{error}");
    })
    .expect("an executor");
}
