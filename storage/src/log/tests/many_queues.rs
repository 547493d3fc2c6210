//! Very many queues, each with little in it.

use super::*;
use crate::log::Mark;

const TOPICS: u32 = 10_000;
const QUEUES: u32 = 8;
/// Memory that a queue with a message may take. Measured: 0.7 KiB.
const BYTES_A_QUEUE_MAX: u64 = 1536;

/// Resident memory of this process.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells it");
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

fn file_bytes(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("listed");
    entries.map(|entry| entry.and_then(|entry| entry.metadata()).expect("readable").len()).sum()
}

#[test]
fn eighty_thousand_queues_take_little_memory_and_one_file() {
    let folder = TempFolder::new("many");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = LogOptions {
            segment_bytes: 32 << 20,
            tail_cache_bytes: 0,
            flush: FlushPolicy::Async,
            ..LogOptions::default()
        };
        let (log, _) = open(&folders, &options).await;
        let before = resident_bytes();
        let mut last = None;
        for topic in 0..TOPICS {
            let topic = format!("topic-{topic}");
            for queue in 0..QUEUES {
                last = Some(append(&log, &topic, queue, b"x").await);
            }
        }
        last.expect("some").reached(Mark::Durable).await.expect("durable");
        let queues = u64::from(TOPICS * QUEUES);
        let bytes = resident_bytes().saturating_sub(before);
        eprintln!("{queues} queues: {} bytes of memory each, with slabs and keys", bytes / queues);
        // Slabs of the tail cache and pages of the tail file are there whatever the number of queues.
        let others = 64 << 20;
        assert!(bytes < queues * BYTES_A_QUEUE_MAX + others, "{bytes} bytes for {queues} queues");
        log.stop().await.expect("stopped");
        assert_eq!(derived_files(&folders).len(), 1);
        let derived = file_bytes(&folders.queues());
        assert!(derived < queues * 128, "{derived} bytes of files for {queues} queues");
        let (log, report) = open(&folders, &options).await;
        assert!(report.was_clean && log.queues().len() as u64 == queues);
        for (topic, queue) in [(0, 0), (5_000, 3), (TOPICS - 1, QUEUES - 1)] {
            assert_eq!(bodies(&log, &format!("topic-{topic}"), queue).await, [(0, "x".to_owned())]);
        }
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}
