//! A log against a plain model of it, from seeds: sizes, queues, batches, dropped segments, restarts and crashes at random.

use std::collections::BTreeMap;

use base::{LogOffset, Random};

use super::*;
use crate::log::FreedSpace;

type Model = BTreeMap<(String, u32), Messages>;

#[derive(Default)]
struct Messages {
    /// The offset of the next one.
    next: u64,
    /// By queue offset, with the offset in the log.
    kept: Vec<(u64, u64, Vec<u8>)>,
}

fn random_body(random: &mut Random) -> Vec<u8> {
    let bytes = match random.below(20) {
        0 => random.below(400_000),
        1..=4 => random.below(20_000),
        5 => 0,
        _ => random.below(1500),
    };
    vec![random.next_u64() as u8; bytes as usize]
}

async fn check(log: &Rc<Log>, model: &Model, what: &str) {
    for ((topic, queue), messages) in model {
        let handle = log.find_queue(topic, QueueId(*queue));
        if messages.next == 0 {
            assert!(handle.is_none_or(|queue| queue.is_empty()), "{what}: {topic} {queue}");
            continue;
        }
        let handle = handle.unwrap_or_else(|| panic!("{what}: no queue {topic} {queue}"));
        let min = messages.kept.first().map_or(messages.next, |(at, _, _)| *at);
        assert_eq!((handle.min().0, handle.max().0), (min, messages.next), "{what}: {topic} {queue}");
        let kept: Vec<_> = messages.kept.iter().map(|(at, _, body)| (*at, body.clone())).collect();
        assert!(read_all(log, &handle).await == kept, "{what}: {topic} {queue}");
    }
}

/// Some of the oldest segments go, and what becomes of their space is drawn too.
async fn drop_some(log: &Rc<Log>, model: &mut Model, random: &mut Random) {
    let stats = log.stats();
    let offset = stats.min + random.below(stats.durable - stats.min + 1);
    let space = if random.below(2) == 0 { FreedSpace::Kept } else { FreedSpace::GivenBack };
    let dropped = log.drop_segments_before(LogOffset(offset), space).await.expect("dropped");
    assert!(dropped.min.0 <= offset.max(stats.min) && log.min_offset() == dropped.min);
    for messages in model.values_mut() {
        messages.kept.retain(|(_, offset, _)| *offset >= dropped.min.0);
    }
}

async fn run_seed(folders: &LogFolders, seed: u64) {
    let mut random = Random::new(seed);
    let flush = if seed.is_multiple_of(2) { FlushPolicy::Sync } else { FlushPolicy::Async };
    let options = LogOptions { tail_cache_bytes: random.below(3) << 20, ..small(flush) };
    let mut model = Model::new();
    let (mut log, _) = open(folders, &options).await;
    for step in 0..40 {
        let what = format!("seed {seed} step {step}");
        let mut last = None;
        for _ in 0..random.below(40) {
            let (topic, queue) = (format!("topic-{}", random.below(3)), random.below(4) as u32);
            let count = if random.below(5) == 0 { 1 + random.below(5) } else { 1 };
            let bodies: Vec<_> = (0..count).map(|_| random_body(&mut random)).collect();
            let drafts: Vec<_> =
                bodies.iter().map(|body| (draft(&topic, queue, body, ""), Indexed::default())).collect();
            let handle = log.queue(&topic, QueueId(queue));
            let Ok(tickets) = log.append_batch(&handle, &drafts, Millis(step)) else {
                // Bodies of more than a segment in all, or too much unwritten: nothing was appended.
                log.room().await;
                continue;
            };
            let messages = model.entry((topic, queue)).or_default();
            for (ticket, body) in tickets.into_iter().zip(bodies) {
                assert_eq!(queue_offset(&ticket), messages.next, "{what}");
                messages.next += 1;
                messages.kept.push((queue_offset(&ticket), ticket.physical_offset.offset().0, body));
                last = Some(ticket);
            }
        }
        if let Some(ticket) = last {
            ticket.reached(log.visible_mark()).await.expect("stored");
        }
        match random.below(8) {
            0 => {
                log.stop().await.expect("stopped");
                log = open(folders, &options).await.0;
                check(&log, &model, &what).await;
            }
            1 => {
                crash(log).await;
                log = open(folders, &options).await.0;
                check(&log, &model, &what).await;
            }
            2 => check(&log, &model, &what).await,
            3 => {
                drop_some(&log, &mut model, &mut random).await;
                check(&log, &model, &what).await;
            }
            _ => {}
        }
    }
    check(&log, &model, "the end").await;
    log.stop().await.expect("stopped");
}

#[test]
fn a_log_behaves_like_its_model() {
    for seed in 0..6 {
        let folder = TempFolder::new("model");
        let folders = folders(&folder);
        runtime::run_here(async move { run_seed(&folders, seed).await }).expect("an executor");
    }
}
