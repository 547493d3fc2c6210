//! What was popped of a real log, closed and opened again.

use base::{LogId, QueueId};
use runtime::file::TempFolder;
use runtime::ring::WriteRing;
use storage::{FlushPolicy, LogFolders, LogOptions};

use super::*;

async fn open(folder: &TempFolder) -> Rc<Ledger> {
    let log = folder.path().join("log-00");
    let folders = LogFolders { commit_log: log.join("commitlog"), log };
    let options = LogOptions { segment_bytes: 1 << 20, flush: FlushPolicy::Async, ..LogOptions::default() };
    let ring = WriteRing::start().expect("a ring");
    let (log, _) = Log::open(folders, LogId(0), options, ring).await.expect("the log opens");
    let host = "127.0.0.1:10911".parse().expect("an address");
    let journal = Journal::new(log.clone(), Text::from("J"), QueueId(0), host);
    let ledger = Rc::new(Ledger::new(log, journal, Rc::new(Notify::new())));
    ledger.recover(0).await.expect("recovered");
    ledger
}

async fn reopen(folder: &TempFolder, ledger: Rc<Ledger>) -> Rc<Ledger> {
    ledger.log.stop().await.expect("stopped");
    open(folder).await
}

fn queue(group: &str) -> PopQueue {
    PopQueue { group: Text::from(group), topic: Text::from("T"), queue: QueueId(0) }
}

fn offsets(range: std::ops::Range<u64>) -> Vec<QueueOffset> {
    range.map(QueueOffset).collect()
}

fn pop(ledger: &Rc<Ledger>, of: &PopQueue, count: u64, pop_ms: u64) -> u64 {
    let reading = ledger.open(of, None, pop_ms).expect("it is open");
    let start = reading.from.0;
    let times = Times { pop_ms, invisible_ms: 100 };
    ledger.popped(&reading, &offsets(start..start + count), QueueOffset(start + count), times).expect("noted");
    start
}

fn receipt(start: u64, pop_time_ms: u64, offset: u64) -> Receipt {
    let (start, offset) = (QueueOffset(start), QueueOffset(offset));
    Receipt { start, pop_time_ms, invisible_ms: 100, revive_queue: REVIVE_QUEUE, offset }
}

fn acknowledge(ledger: &Ledger, of: &PopQueue, receipt: &Receipt) -> bool {
    !matches!(ledger.acknowledge(of, receipt).expect("noted"), Acknowledged::Void)
}

#[test]
fn what_is_in_flight_is_found_again() {
    let folder = TempFolder::new("pops");
    runtime::run_here(async move {
        let mut ledger = open(&folder).await;
        let (g, h) = (queue("g"), queue("h"));
        ledger.begin(g.clone(), QueueOffset(10));
        ledger.begin(h.clone(), QueueOffset(0));
        assert_eq!((pop(&ledger, &g, 3, 1_000), pop(&ledger, &g, 2, 1_000), pop(&ledger, &h, 1, 1_000)), (10, 13, 0));
        assert!(acknowledge(&ledger, &g, &receipt(10, 1_000, 10)));
        assert!(!acknowledge(&ledger, &g, &receipt(10, 1_000, 10)), "once");
        let times = Times { pop_ms: 1_050, invisible_ms: 500 };
        let held = ledger.hold(&g, &receipt(10, 1_000, 12), times).expect("noted");
        let (fresh, _) = held.expect("the receipt holds");
        assert!(!acknowledge(&ledger, &g, &receipt(10, 1_000, 12)), "the old receipt is void");
        for _ in 0..2 {
            ledger = reopen(&folder, ledger).await;
            assert_eq!((ledger.next(&g), ledger.consumed(&g)), (Some(QueueOffset(15)), Some(QueueOffset(11))));
            assert_eq!((ledger.next(&h), ledger.consumed(&h)), (Some(QueueOffset(1)), Some(QueueOffset(0))));
        }
        assert!(acknowledge(&ledger, &g, &receipt(10, 1_000, 11)));
        assert_eq!(ledger.consumed(&g), Some(QueueOffset(12)), "it is still held");
        assert!(acknowledge(&ledger, &g, &fresh));
        let due = ledger.first_due(1_100).expect("the others are due");
        assert_eq!((due.offsets, due.pop_time_ms), (offsets(13..15), 1_000));
        ledger.note_done(vec![(due.id, QueueOffset(13)), (due.id, QueueOffset(14))]).expect("noted");
        ledger = reopen(&folder, ledger).await;
        assert_eq!(
            (ledger.consumed(&g), ledger.first_due(1_100).map(|due| due.of.group.clone())),
            (Some(QueueOffset(15)), Some(Text::from("h")),)
        );
        ledger.log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn what_is_forgotten_stays_forgotten() {
    let folder = TempFolder::new("pops");
    runtime::run_here(async move {
        let mut ledger = open(&folder).await;
        let (g, h, idle) = (queue("g"), queue("h"), queue("idle"));
        for of in [&g, &h, &idle] {
            ledger.begin(of.clone(), QueueOffset(0));
            pop(&ledger, of, 2, 1_000);
        }
        assert!(acknowledge(&ledger, &idle, &receipt(0, 1_000, 0)));
        assert!(acknowledge(&ledger, &idle, &receipt(0, 1_000, 1)));
        ledger.forget(|of| *of == g);
        ledger.tidy(1_000 + IDLE_MS_MAX + 1);
        for _ in 0..2 {
            assert_eq!((ledger.next(&g), ledger.next(&idle)), (None, None));
            assert_eq!((ledger.next(&h), ledger.consumed(&h)), (Some(QueueOffset(2)), Some(QueueOffset(0))));
            ledger = reopen(&folder, ledger).await;
        }
        ledger.log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn a_snapshot_says_all_that_holds() {
    let folder = TempFolder::new("pops");
    runtime::run_here(async move {
        let mut ledger = open(&folder).await;
        let of = queue("g");
        ledger.begin(of.clone(), QueueOffset(0));
        pop(&ledger, &of, 2, 500);
        assert!(acknowledge(&ledger, &of, &receipt(0, 500, 1)));
        for number in 0..2_500_u64 {
            ledger.log.room().await;
            let start = pop(&ledger, &of, 1, 1_000 + number);
            assert!(acknowledge(&ledger, &of, &receipt(start, 1_000 + number, start)));
        }
        let before = ledger.journal.place();
        assert!(before.snapshot_at.is_some(), "{before:?}");
        ledger = reopen(&folder, ledger).await;
        assert_eq!(ledger.journal.place(), before);
        assert_eq!((ledger.next(&of), ledger.consumed(&of)), (Some(QueueOffset(2_502)), Some(QueueOffset(0))));
        assert!(!acknowledge(&ledger, &of, &receipt(0, 500, 1)) && acknowledge(&ledger, &of, &receipt(0, 500, 0)));
        assert_eq!(ledger.consumed(&of), Some(QueueOffset(2_502)));
        ledger.log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn a_queue_is_read_by_one_and_in_order_by_nobody_while_it_is_held() {
    let folder = TempFolder::new("pops");
    runtime::run_here(async move {
        let ledger = open(&folder).await;
        let of = queue("g");
        ledger.begin(of.clone(), QueueOffset(0));
        let reading = ledger.open(&of, None, 0).expect("it is open");
        assert_eq!(ledger.open(&of, None, 0).err(), Some(Closed::Read));
        drop(reading);
        let times = Times { pop_ms: 10, invisible_ms: 100 };
        let reading = ledger.open(&of, Some(None), 10).expect("it is open");
        ledger.popped_in_order(&reading, &offsets(0..2), QueueOffset(2), times, None).expect("noted");
        drop(reading);
        assert_eq!(ledger.open(&of, Some(None), 109).err(), Some(Closed::Ordered { until_ms: 110 }));
        let ordered = |offset| Receipt { revive_queue: ORDERED_REVIVE_QUEUE, ..receipt(0, 10, offset) };
        assert!(acknowledge(&ledger, &of, &ordered(1)));
        assert_eq!(ledger.consumed(&of), Some(QueueOffset(0)), "no gaps");
        let again = ledger.open(&of, Some(None), 110).expect("its time is over");
        assert_eq!(again.from, QueueOffset(0));
        let counts = ledger.popped_in_order(&again, &offsets(0..2), QueueOffset(2), times, None).expect("noted");
        assert_eq!(counts, [(QueueOffset(0), 1)]);
        drop(again);
        assert!(acknowledge(&ledger, &of, &ordered(0)) && acknowledge(&ledger, &of, &ordered(1)));
        assert_eq!(ledger.open(&of, Some(None), 20).expect("all is acknowledged").from, QueueOffset(2));
        ledger.tidy(u64::MAX);
        assert!(ledger.is_idle());
        ledger.log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn what_an_old_segment_tells_is_told_anew() {
    let folder = TempFolder::new("pops");
    runtime::run_here(async move {
        let mut ledger = open(&folder).await;
        let g = queue("g");
        ledger.begin(g.clone(), QueueOffset(0));
        pop(&ledger, &g, 3, 1_000);
        assert!(acknowledge(&ledger, &g, &receipt(0, 1_000, 0)));
        ledger.log.make_durable().await.expect("durable");
        let limit = ledger.log.visible_end();
        assert!(!ledger.leave(limit, 10).await.expect("read"), "a snapshot of 10 bytes is too small");
        assert_eq!(ledger.journal.place().snapshot_at, None);
        assert!(ledger.leave(limit, 1 << 20).await.expect("stored"));
        let place = ledger.journal.place();
        assert_eq!((place.snapshot_at, place.since), (Some(QueueOffset(2)), 0));
        ledger.log.make_durable().await.expect("durable");
        assert!(ledger.leave(limit, 0).await.expect("read"), "nothing is needed there any more");
        assert_eq!(ledger.journal.place(), place);
        ledger = reopen(&folder, ledger).await;
        assert_eq!(ledger.next(&g), Some(QueueOffset(3)));
        assert!(!acknowledge(&ledger, &g, &receipt(0, 1_000, 0)), "it is done");
        assert!(acknowledge(&ledger, &g, &receipt(0, 1_000, 1)), "it is in flight");
    })
    .expect("an executor");
}

#[test]
fn order_is_known_again() {
    let folder = TempFolder::new("pops");
    runtime::run_here(async move {
        let mut ledger = open(&folder).await;
        let of = queue("g");
        ledger.begin(of.clone(), QueueOffset(0));
        let one = Text::from("one");
        let times = Times { pop_ms: 10, invisible_ms: 100 };
        let reading = ledger.open(&of, Some(Some(&one)), 10).expect("it is open");
        ledger.popped_in_order(&reading, &offsets(0..3), QueueOffset(3), times, Some(&one)).expect("noted");
        drop(reading);
        let ordered = |offset| Receipt { revive_queue: ORDERED_REVIVE_QUEUE, ..receipt(0, 10, offset) };
        assert!(acknowledge(&ledger, &of, &ordered(0)));
        let later = Times { pop_ms: 20, invisible_ms: 480 };
        ledger.hold(&of, &ordered(1), later).expect("noted").expect("it holds");
        for snapshot in [false, true] {
            ledger = reopen(&folder, ledger).await;
            assert_eq!((ledger.next(&of), ledger.consumed(&of)), (Some(QueueOffset(3)), Some(QueueOffset(1))));
            assert_eq!(ledger.open(&of, Some(None), 499).err(), Some(Closed::Ordered { until_ms: 500 }));
            assert!(!acknowledge(&ledger, &of, &ordered(0)), "it was acknowledged before");
            let same = ledger.open(&of, Some(Some(&one)), 499).expect("the attempt is known");
            assert_eq!(same.from, QueueOffset(1));
            drop(same);
            if snapshot {
                break;
            }
            let other = queue("other");
            ledger.begin(other.clone(), QueueOffset(0));
            while ledger.journal.place().snapshot_at.is_none() {
                ledger.log.room().await;
                pop(&ledger, &other, 1, 1_000);
                ledger.forget(|of| *of == other);
                ledger.begin(other.clone(), QueueOffset(0));
            }
        }
        assert!(acknowledge(&ledger, &of, &ordered(2)) && acknowledge(&ledger, &of, &ordered(1)));
        ledger = reopen(&folder, ledger).await;
        assert_eq!(ledger.open(&of, Some(None), 20).expect("all is acknowledged").from, QueueOffset(3));
        ledger.log.stop().await.expect("stopped");
    })
    .expect("an executor");
}
