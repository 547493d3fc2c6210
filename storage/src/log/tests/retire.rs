//! Old segments, and what becomes of their files.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use base::LogOffset;

use super::*;
use crate::log::segment::spare_path;
use crate::log::{FreedSpace, Mark};

/// Bytes of a body of which a hundred fill a segment.
const BODY_BYTES: usize = 10_000;

async fn fill(log: &Rc<Log>, numbers: std::ops::Range<u64>) {
    let mut last = None;
    for number in numbers {
        last = Some(append(log, "T", 0, &vec![number as u8; BODY_BYTES]).await);
    }
    last.expect("some").reached(Mark::Durable).await.expect("durable");
}

fn inode(path: &std::path::Path) -> u64 {
    std::fs::metadata(path).expect("there").ino()
}

#[test]
fn the_age_of_the_oldest_segment_is_that_of_its_file() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let (log, _) = open(&folders, &small(FlushPolicy::Sync)).await;
        fill(&log, 0..50).await;
        assert_eq!(log.oldest_segment().await.expect("read"), None, "it is written to");
        fill(&log, 50..150).await;
        let written = SystemTime::now() - Duration::from_secs(7200);
        std::fs::File::open(segment_path(&folders, 0)).and_then(|file| file.set_modified(written)).expect("set");
        let oldest = log.oldest_segment().await.expect("read").expect("a full one");
        assert_eq!((oldest.limit.0, oldest.bytes), (1 << 20, 1 << 20));
        let since = written.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        assert_eq!(oldest.written.0, since.as_millis() as u64);
        let dropped = log.drop_segments_before(oldest.limit, FreedSpace::GivenBack).await.expect("dropped");
        assert_eq!((dropped.segments, dropped.min.0, log.stats().dropped_segments), (1, 1 << 20, 1));
        assert!(!segment_path(&folders, 0).exists() && !spare_path(&folders.commit_log).exists());
        assert_eq!(log.oldest_segment().await.expect("read"), None, "the next one is written to");
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn a_segment_that_goes_is_the_next_one_and_nothing_of_it_comes_back() {
    for flush in [FlushPolicy::Sync, FlushPolicy::Async] {
        let folder = TempFolder::new("log");
        let folders = folders(&folder);
        runtime::run_here(async move {
            let (mut log, _) = open(&folders, &small(flush)).await;
            let spare = spare_path(&folders.commit_log);
            fill(&log, 0..250).await;
            // The first to go is the spare until it is a segment again, so its number is nobody else's.
            let (first_gone, mut used_again) = (inode(&segment_path(&folders, 0)), false);
            for round in 0..6_u64 {
                let first = log.min_offset();
                let dropped = log.drop_segments_before(first.plus(1 << 20), FreedSpace::Kept).await.expect("dropped");
                assert_eq!(dropped.segments, 1, "round {round}");
                fill(&log, 250 + round * 100..350 + round * 100).await;
                // What is prepared is a segment ahead of what is appended; the crash comes at any moment of it.
                if round % 2 == 1 {
                    crash(log).await;
                    log = open(&folders, &small(flush)).await.0;
                }
                let end = log.stats().prepared.max(log.min_offset().0 + 1);
                let live = (log.min_offset().0..end).step_by(1 << 20).map(|start| segment_path(&folders, start));
                used_again |= live.filter(|path| path.exists()).any(|path| inode(&path) == first_gone);
                let queue = log.find_queue("T", QueueId(0)).expect("there");
                let expected = queue.min().0..350 + round * 100;
                let bodies = read_all(&log, &queue).await;
                assert_eq!(bodies.iter().map(|(at, _)| *at).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                assert!(bodies.iter().all(|(at, body)| *body == vec![*at as u8; BODY_BYTES]), "round {round}");
            }
            assert!(used_again, "no segment was made of the one that went");
            let files = std::fs::read_dir(&folders.commit_log).expect("listed").count() as u64;
            let live = log.stats().segments as u64;
            assert!(files <= live + 1, "{files} files for {live} segments: more than one spare is kept");
            log.give_spare_back().await.expect("given");
            assert!(!spare.exists());
            log.stop().await.expect("stopped");
        })
        .expect("an executor");
    }
}

/// The process ends while a segment is being cut shorter: the next start knows nothing of it.
#[test]
fn a_segment_that_is_half_gone_is_gone() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let (log, _) = open(&folders, &small(FlushPolicy::Sync)).await;
        fill(&log, 0..250).await;
        let (first, kept) = (segment_path(&folders, 0), folder.path().join("kept"));
        std::fs::copy(&first, &kept).expect("copied");
        log.cut().await.expect("cut");
        log.drop_segments_before(LogOffset(1 << 20), FreedSpace::GivenBack).await.expect("dropped");
        crash(log).await;
        std::fs::rename(kept, &first).expect("there again");
        let aside = crate::disk::set_aside(&first).expect("renamed").expect("there");
        crate::disk::shorten(&aside, 64 << 10).expect("shortened");
        let (log, report) = open(&folders, &small(FlushPolicy::Sync)).await;
        assert!(report.damages.is_empty() && report.resized.is_empty(), "{report:?}");
        assert_eq!(log.min_offset().0, 1 << 20);
        assert!(!aside.exists());
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn who_reads_a_segment_that_goes_reads_on() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options =
            LogOptions { tail_cache_bytes: 0, read_cache_bytes: 0, page_cache: true, ..small(FlushPolicy::Sync) };
        let (log, _) = open(&folders, &options).await;
        fill(&log, 0..250).await;
        let queue = log.find_queue("T", QueueId(0)).expect("there");
        let pull = async || log.pull(&queue, QueueOffset(0), ALL, |_| true).await.expect("read").1;
        // Once in memory, the page cache has it.
        let (in_memory, in_files) = (pull().await, pull().await);
        let is_file = |part: &Part| matches!(part, Part::File(_));
        assert!(!in_memory.iter().any(is_file) && in_files.iter().any(is_file), "{in_files:?}");
        let before = bytes_of(&in_memory);
        log.drop_segments_before(LogOffset(2 << 20), FreedSpace::Kept).await.expect("dropped");
        fill(&log, 250..600).await;
        assert!(bytes_of(&in_memory) == before && bytes_of(&in_files) == before);
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}
