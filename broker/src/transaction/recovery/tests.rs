//! Ledgers of real logs, closed and opened again.

use std::rc::Rc;

use base::LogId;
use remoting::name::HALF_TOPIC;
use remoting::record::RecordDraft;
use runtime::file::TempFolder;
use runtime::ring::WriteRing;
use storage::{AppendError, FlushPolicy, Log, LogFolders, LogOptions, QueueRead, ReadLimits};

use super::super::samples::draft;
use super::*;
use crate::placement::Placement;

const LOG: LogId = LogId(1);
const PLACEMENT: Placement = Placement { logs: 3, cores: 2 };
const IMMUNE_MS: u64 = 6_000;

async fn open(folder: &TempFolder) -> Rc<Ledger> {
    let log = folder.path().join("log-01");
    let folders = LogFolders { commit_log: log.join("commitlog"), log };
    let options = LogOptions { segment_bytes: 1 << 20, flush: FlushPolicy::Async, ..LogOptions::default() };
    let ring = WriteRing::start().expect("a ring");
    let (log, _) = Log::open(folders, LOG, options, ring).await.expect("the log opens");
    let host = "127.0.0.1:10911".parse().expect("an address");
    let ledger = Rc::new(Ledger::new(log, PLACEMENT, host));
    recover(&ledger, IMMUNE_MS).await.expect("recovered");
    complete(&ledger, &Delays::default(), |_| None).await.expect("completed");
    ledger
}

async fn reopen(folder: &TempFolder, ledger: Rc<Ledger>) -> Rc<Ledger> {
    ledger.log.stop().await.expect("stopped");
    open(folder).await
}

async fn with_room<T>(ledger: &Ledger, append: impl Fn() -> Result<T, AppendError>) -> T {
    loop {
        match append() {
            Ok(appended) => return appended,
            Err(AppendError::Busy { .. }) => ledger.log.room().await,
            Err(error) => panic!("not appended: {error}"),
        }
    }
}

async fn append_half(ledger: &Ledger, body: &str) -> (QueueOffset, base::PhysicalOffset) {
    let queue_id = ledger.own_queue(HALF_TOPIC);
    let draft = RecordDraft { queue_id, ..draft(body, "REAL_TOPIC\u{1}T\u{2}REAL_QID\u{1}2\u{2}") };
    let ticket = with_room(ledger, || ledger.append_half(&draft, IMMUNE_MS)).await;
    ticket.reached(ledger.log.visible_mark()).await.expect("stored");
    (ticket.queue_offset, ticket.physical_offset)
}

async fn end(ledger: &Rc<Ledger>, half: (QueueOffset, base::PhysicalOffset), end: End) {
    let taken = ledger.take(half.0, half.1).expect("it is pending");
    let bytes = ledger.record(&taken.half).await.expect("read").expect("it is there");
    let record = RecordView::decode(&bytes).expect("a record");
    let ticket = with_room(ledger, || ledger.settle(&taken, Some(&record), end, Way::ToQueue(None)))
        .await
        .expect("nothing is held");
    ticket.reached(ledger.log.visible_mark()).await.expect("stored");
}

fn pending(ledger: &Ledger) -> Vec<(u64, u32)> {
    ledger.pending.borrow().iter().map(|(at, half)| (at.0, half.checks)).collect()
}

async fn messages(ledger: &Ledger, topic: &str, queue: base::QueueId) -> u32 {
    let Some(queue) = ledger.log.find_queue(topic, queue) else { return 0 };
    let limits = ReadLimits { messages_max: 100, bytes_max: 1 << 20, scan_max: 100 };
    match ledger.log.pull(&queue, QueueOffset(0), limits, |_| true).await.expect("readable").0 {
        QueueRead::Found(found) => found.messages,
        _ => 0,
    }
}

#[test]
fn what_is_pending_is_found_again() {
    let folder = TempFolder::new("ledger");
    runtime::run_here(async move {
        let mut ledger = open(&folder).await;
        let mut halves = Vec::new();
        for number in 0..6 {
            halves.push(append_half(&ledger, &number.to_string()).await);
        }
        end(&ledger, halves[1], End::Commit).await;
        end(&ledger, halves[2], End::Rollback).await;
        ledger.note_checked(vec![halves[3].0, halves[5].0]).expect("noted");
        ledger.note_checked(vec![halves[3].0]).expect("noted");
        end(&ledger, halves[5], End::GiveUp).await;
        for _ in 0..2 {
            ledger = reopen(&folder, ledger).await;
            assert_eq!(pending(&ledger), [(0, 0), (3, 2), (4, 0)]);
            assert_eq!(messages(&ledger, "T", base::QueueId(2)).await, 1, "the committed one, once");
            let kept = "TRANS_CHECK_MAX_TIME_TOPIC";
            assert_eq!(messages(&ledger, kept, ledger.own_queue(kept)).await, 1);
        }
        assert!(ledger.take(halves[1].0, halves[1].1).is_err(), "the first end wins across restarts");
        end(&ledger, halves[0], End::Commit).await;
        ledger = reopen(&folder, ledger).await;
        assert_eq!((pending(&ledger).len(), messages(&ledger, "T", base::QueueId(2)).await), (2, 2));
        ledger.log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn an_end_whose_message_a_crash_took_is_completed_once() {
    let folder = TempFolder::new("ledger");
    runtime::run_here(async move {
        let mut ledger = open(&folder).await;
        for (number, (end, topic)) in
            [(End::Commit, "T"), (End::GiveUp, "TRANS_CHECK_MAX_TIME_TOPIC"), (End::Rollback, "T")]
                .into_iter()
                .enumerate()
        {
            let half = append_half(&ledger, "body").await;
            // The log as a crash leaves it that takes the message and keeps the journal's record.
            ledger.journal.append(&Note::Ended { half: half.0, end }, &[]).expect("appended");
            for _ in 0..3 {
                ledger = reopen(&folder, ledger).await;
                let queue = if topic == "T" { base::QueueId(2) } else { ledger.own_queue(topic) };
                assert_eq!((pending(&ledger).len(), messages(&ledger, topic, queue).await), (0, 1), "{number}");
            }
        }
        ledger.log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn a_snapshot_shortens_what_is_read() {
    const ENDS: u64 = 5_000;
    let folder = TempFolder::new("ledger");
    runtime::run_here(async move {
        let mut ledger = open(&folder).await;
        let first = append_half(&ledger, "stays").await;
        ledger.note_checked(vec![first.0]).expect("noted");
        let mut last = first;
        for number in 0..ENDS {
            let half = append_half(&ledger, "x").await;
            if number == ENDS - 1 {
                last = half;
                continue;
            }
            let taken = ledger.take(half.0, half.1).expect("it is pending");
            with_room(&ledger, || ledger.settle(&taken, None, End::Rollback, Way::ToQueue(None))).await;
        }
        let before = ledger.journal.place();
        assert!(before.snapshot_at.is_some() && before.since < ENDS, "{before:?}");
        ledger = reopen(&folder, ledger).await;
        assert_eq!((ledger.journal.place(), pending(&ledger)), (before, vec![(0, 1), (last.0.0, 0)]));
        assert!(ledger.take(first.0, first.1).is_ok());
        ledger.log.stop().await.expect("stopped");
    })
    .expect("an executor");
}
