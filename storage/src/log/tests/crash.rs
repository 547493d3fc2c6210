//! Crashes: what was acknowledged is there, what was not does not come back to life.

use base::Random;

use super::*;
use crate::boot::Boot;
use crate::checkpoint::Checkpoint;
use crate::log::Mark;
use crate::log::tail_file::Head;

/// Bytes behind the end of the log that a torn write may have left.
#[derive(Clone, Copy, Debug)]
enum Remains {
    Nothing,
    Zeros,
    Noise,
    /// The front of a whole record.
    TornRecord,
    GrownFile,
    CutFile,
}

fn leave(folders: &LogFolders, end: u64, remains: Remains, random: &mut Random) {
    let last = segment_path(folders, end);
    if !last.exists() {
        return;
    }
    match remains {
        Remains::Nothing => {}
        Remains::Zeros => overwrite(folders, end, &[0; 8192]),
        Remains::Noise => {
            let noise: Vec<u8> = (0..8192).map(|_| random.next_u64() as u8).collect();
            overwrite(folders, end, &noise);
        }
        Remains::TornRecord => {
            let mut record = vec![0; remoting::record::record_bytes(&draft("T", 0, &[9; 5000], ""))];
            let placement = remoting::record::Placement {
                queue_offset: QueueOffset(77),
                physical_offset: base::PhysicalOffset::new(LOG, base::LogOffset(end)),
                store_timestamp_ms: 5,
            };
            remoting::record::encode(&draft("T", 0, &[9; 5000], ""), placement, &mut record);
            overwrite(folders, end, &record[..4000]);
        }
        Remains::GrownFile => {
            let file = std::fs::OpenOptions::new().append(true).open(last);
            file.and_then(|mut file| std::io::Write::write_all(&mut file, &[7; 8192])).expect("grown");
        }
        Remains::CutFile => {
            let file = std::fs::OpenOptions::new().write(true).open(last).expect("the segment");
            let bytes = file.metadata().expect("its length").len();
            // Only unused space is cut: what was durable is not lost by a crash.
            file.set_len(bytes - 100.min(bytes - end % (1 << 20))).expect("cut");
        }
    }
}

#[test]
fn acknowledged_messages_survive_and_offsets_stay_dense() {
    let all =
        [Remains::Nothing, Remains::Zeros, Remains::Noise, Remains::TornRecord, Remains::GrownFile, Remains::CutFile];
    for (seed, flush) in [(1, FlushPolicy::Sync), (2, FlushPolicy::Async)] {
        let folder = TempFolder::new("crash");
        let folders = folders(&folder);
        runtime::run_here(async move {
            let mut random = Random::new(seed);
            let mut expected: Vec<Vec<(u64, Vec<u8>)>> = vec![Vec::new(); 3];
            for round in 0..24 {
                let remains = all[round % all.len()];
                let (log, report) = open(&folders, &small(flush)).await;
                assert!(report.damages.is_empty(), "seed {seed} round {round} {remains:?}: {report:?}");
                for (queue, messages) in expected.iter().enumerate() {
                    let queue = log.queue("T", QueueId(queue as u32));
                    assert_eq!(queue.next().0, messages.len() as u64, "seed {seed} round {round} {remains:?}");
                    assert!(read_all(&log, &queue).await == *messages, "seed {seed} round {round} {remains:?}");
                }
                let mut unacknowledged = Vec::new();
                for _ in 0..random.below(200) {
                    let queue = random.below(3) as usize;
                    let body = vec![random.next_u64() as u8; random.below(20_000) as usize];
                    let ticket = append(&log, "T", queue as u32, &body).await;
                    unacknowledged.push((queue, ticket, body));
                    if random.below(10) == 0 {
                        unacknowledged.last().expect("one").1.reached(log.visible_mark()).await.expect("stored");
                    }
                }
                let crashed = log.clone();
                let end = crash(log).await;
                for (queue, ticket, body) in unacknowledged {
                    if ticket.end.0 <= end {
                        assert_eq!(queue_offset(&ticket), expected[queue].len() as u64);
                        expected[queue].push((queue_offset(&ticket), body));
                    }
                }
                // A write ends within a record only where it was cut by its size: that record is torn anyway.
                leave(&folders, crashed.marks.written(), all[(round + 1) % all.len()], &mut random);
            }
        })
        .expect("an executor");
    }
}

/// The process ends before its first write: the records are in the tail file alone, whose end they pass, as that of their
/// segment.
#[test]
fn what_only_the_tail_file_has_comes_back() {
    let folder = TempFolder::new("crash");
    let folders = folders(&folder);
    runtime::run_here(async move {
        const FIRST_BYTES: usize = 1_400_000;
        let segment_bytes = 2 << 20;
        let options = LogOptions { segment_bytes, unwritten_bytes_max: 2 << 20, ..small(FlushPolicy::Async) };
        let (log, _) = open(&folders, &options).await;
        let first = append(&log, "T", 0, &[0; FIRST_BYTES]).await;
        first.reached(Mark::Durable).await.expect("durable");
        log.room().await;
        for number in 1..6 {
            let ticket = append(&log, "T", 0, &vec![number; 300_000]).await;
            ticket.reached(Mark::Safe).await.expect("safe at once");
            let found = log.record_at(ticket.physical_offset.offset()).await.expect("readable");
            assert!(found.is_some(), "message {number} is found where it is said to lie");
        }
        let crashed = log.clone();
        let end = crash(log).await;
        assert!(
            end > 2 << 20 && crashed.marks.written() == first.end.0,
            "safe {end}, written {}",
            crashed.marks.written()
        );
        drop(crashed);
        let whole = std::fs::read(folders.tail_file()).expect("the tail file");
        let mut random = Random::new(3);
        let noise: Vec<u8> = (4096..whole.len()).map(|_| random.next_u64() as u8).collect();
        let changed = |at: usize, bytes: &[u8]| [&whole[..at], bytes, &whole[at + bytes.len()..]].concat();
        let another = Head::new(LogId(LOG.0 + 1), 100, options.unwritten_bytes_max).encode();
        let older = Head::new(LOG, 0, options.unwritten_bytes_max).encode();
        let flaws = [
            ("it is no whole tail file", Vec::new()),
            ("it is no whole tail file", whole[..4096].to_vec()),
            ("it is no whole tail file", whole[..whole.len() - 4096].to_vec()),
            ("it is no whole tail file", [&whole[..], &[0; 4096]].concat()),
            ("it is no whole tail file", changed(3, &[1])),
            ("it belongs to log", changed(0, &another)),
            ("an older file was put in its place", changed(0, &older)),
            ("has none behind", changed(4096, &noise)),
            ("has none behind", changed(whole.len() - 4096 * 60, &[0; 4096])),
        ];
        let reopened = async || {
            let opened = Log::open(folders.clone(), LOG, options.clone(), WriteRing::start().expect("a ring")).await;
            opened.map(|(_, report)| report).map_err(|error| error.to_string())
        };
        for (flaw, content) in &flaws {
            std::fs::write(folders.tail_file(), content).expect("changed");
            let refused = reopened().await.expect_err(flaw);
            assert!(refused.contains(flaw) && refused.contains("or remove it"), "{flaw}: {refused}");
        }
        std::fs::write(folders.tail_file(), &whole).expect("put back");
        // Under the other policy as well.
        let (log, report) = open(&folders, &LogOptions { segment_bytes, ..small(FlushPolicy::Sync) }).await;
        assert_eq!((report.end.0, report.cut_bytes), (end, 0));
        let all = read_all(&log, &log.queue("T", QueueId(0))).await;
        let sent = |number: u8| (u64::from(number), vec![number; if number == 0 { FIRST_BYTES } else { 300_000 }]);
        assert!(all == (0..6).map(sent).collect::<Vec<_>>());
        assert!(!folders.tail_file().exists());
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

/// Nobody is kept from starting after a loss of power, or by a file that he took away himself, but it is told.
#[test]
fn a_lost_tail_file_is_told() {
    for is_power_lost in [false, true] {
        let folder = TempFolder::new("crash");
        let folders = folders(&folder);
        runtime::run_here(async move {
            let (log, _) = open(&folders, &small(FlushPolicy::Async)).await;
            append_durably(&log, "T", 0, b"body 0").await;
            crash(log).await;
            if is_power_lost {
                let checkpoint = Checkpoint::read(&folders.checkpoint(), LOG).expect("read").expect("one");
                let (generation, boot) = (checkpoint.generation + 1, Boot(7));
                Checkpoint { generation, boot, ..checkpoint }.write(&folders.checkpoint(), LOG).expect("written");
                std::fs::write(folders.tail_file(), [0; 8192]).expect("zeros");
            } else {
                std::fs::remove_file(folders.tail_file()).expect("removed");
            }
            let (log, report) = open(&folders, &small(FlushPolicy::Async)).await;
            let flaw = if is_power_lost { "no whole tail file" } else { "is missing" };
            assert!(report.tail_lost.as_ref().is_some_and(|lost| lost.contains(flaw)), "{report:?}");
            append_durably(&log, "T", 0, b"body 1").await;
            crash(log).await;
            let (log, report) = open(&folders, &small(FlushPolicy::Async)).await;
            assert_eq!(report.tail_lost, None);
            log.stop().await.expect("stopped");
        })
        .expect("an executor");
    }
}

/// A record was torn, the one behind it was not: neither may be there, not even after another record of the torn
/// one's size has filled the hole.
#[test]
fn a_record_behind_the_torn_tail_stays_dead() {
    let folder = TempFolder::new("crash");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let (log, _) = open(&folders, &small(FlushPolicy::Sync)).await;
        append_durably(&log, "T", 0, b"body 0").await;
        let torn = append_durably(&log, "T", 0, b"body 1").await;
        for number in 2..2000 {
            let ticket = append(&log, "T", 0, format!("body {number}").as_bytes()).await;
            if number % 100 == 0 {
                ticket.reached(Mark::Durable).await.expect("durable");
            }
        }
        crash(log).await;
        // The mark on disk is where the log was opened, and no extent is there.
        for path in derived_files(&folders) {
            std::fs::remove_file(path).expect("removed");
        }
        std::fs::remove_file(folders.checkpoint()).expect("removed");
        flip_bit(&folders, torn.physical_offset.offset().0 + 90);
        let (log, report) = open(&folders, &small(FlushPolicy::Sync)).await;
        assert!(report.cut_bytes > 100_000, "{report:?}");
        assert_eq!(bodies(&log, "T", 0).await, numbered(0..1));
        let again = append_durably(&log, "T", 0, b"body 1").await;
        assert_eq!(again.physical_offset, torn.physical_offset);
        crash(log).await;
        let (log, report) = open(&folders, &small(FlushPolicy::Sync)).await;
        assert_eq!((report.cut_bytes, report.damages.len()), (0, 0));
        assert_eq!(bodies(&log, "T", 0).await, numbered(0..2));
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn a_failed_write_ends_the_log() {
    let folder = TempFolder::new("crash");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let (log, _) = open(&folders, &small(FlushPolicy::Sync)).await;
        append_durably(&log, "T", 0, b"body 0").await;
        let waiting = append(&log, "T", 0, b"body 1").await;
        log.fail(crate::StorageError::Stopped { log: LOG.0 });
        assert!(waiting.reached(Mark::Durable).await.is_err());
        let refused = log.append(&log.queue("T", QueueId(0)), &draft("T", 0, b"x", ""), Millis(1));
        assert!(matches!(refused, Err(crate::AppendError::Failed(_))));
        log.failed().await;
        assert!(log.stop().await.is_err());
    })
    .expect("an executor");
}
