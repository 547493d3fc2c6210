//! Damage: derived files come back equal, and a bad record costs itself only.

use super::*;
use crate::log::Mark;

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
                let (log, report) = open(&folders, &options).await;
                let expected: Vec<_> = numbered(0..1500).into_iter().filter(|(number, _)| *number != 150).collect();
                assert!(bodies(&log, "T", 0).await == expected, "{name} scanned {scanned}");
                let damages = if scanned { report.damages } else { log.stats().damages };
                let [damage] = &damages[..] else { panic!("{name} scanned {scanned}: {damages:?}") };
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
