//! A log against a plain model of it, from seeds: sizes, queues, batches, restarts and crashes at random.

use std::collections::BTreeMap;

use base::Random;

use super::*;

type Model = BTreeMap<(String, u32), Vec<(u64, Vec<u8>)>>;

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
        if messages.is_empty() {
            assert!(handle.is_none_or(|queue| queue.is_empty()), "{what}: {topic} {queue}");
            continue;
        }
        let handle = handle.unwrap_or_else(|| panic!("{what}: no queue {topic} {queue}"));
        assert_eq!((handle.min().0, handle.max().0), (0, messages.len() as u64), "{what}: {topic} {queue}");
        assert!(read_all(log, &handle).await == *messages, "{what}: {topic} {queue}");
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
            let drafts: Vec<_> = bodies.iter().map(|body| draft(&topic, queue, body, "")).collect();
            let handle = log.queue(&topic, QueueId(queue));
            let Ok(tickets) = log.append_batch(&handle, &drafts, Millis(step)) else {
                // Bodies of more than a segment in all, or too much unwritten: nothing was appended.
                log.room().await;
                continue;
            };
            let messages = model.entry((topic, queue)).or_default();
            for (ticket, body) in tickets.into_iter().zip(bodies) {
                assert_eq!(queue_offset(&ticket), messages.len() as u64, "{what}");
                messages.push((queue_offset(&ticket), body));
                last = Some(ticket);
            }
        }
        if let Some(ticket) = last {
            ticket.reached(log.visible_mark()).await.expect("stored");
        }
        match random.below(6) {
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
