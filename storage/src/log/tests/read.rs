//! Reading: what a read answers, from memory and from files, by place and by key.

use base::LogOffset;

use super::*;
use crate::log::{FreedSpace, Mark, TierSwitches};
use crate::queue::key_hash;

#[test]
fn each_offset_has_its_answer() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let (log, _) = open(&folders, &small(FlushPolicy::Async)).await;
        let queue = log.queue("T", QueueId(0));
        let read = async |from| queue.read(QueueOffset(from), ALL, |_| true).await.expect("read");
        assert_eq!(read(0).await, QueueRead::Empty);
        assert_eq!(read(7).await, QueueRead::Empty);
        let mut last = None;
        for (number, tag) in ["a", "b", "a", "c", "a"].into_iter().enumerate() {
            let properties = format!("TAGS\u{1}{tag}\u{2}");
            let body = vec![number as u8; 1000];
            last = Some(log.append(&queue, &draft("T", 0, &body, &properties), Millis(1)).expect("appended"));
        }
        last.expect("some").reached(Mark::Safe).await.expect("written");
        let max = QueueOffset(5);
        assert_eq!(read(5).await, QueueRead::AtEnd { max });
        assert_eq!(read(6).await, QueueRead::TooLarge { max });
        let QueueRead::Found(found) = read(1).await else { panic!("not found") };
        assert_eq!((found.messages, found.ranges.len(), found.next), (4, 1, max));

        let a = i64::from(base::java_string_hash("a"));
        let only_a = async |from, limits| queue.read(QueueOffset(from), limits, |code| code == a).await.expect("read");
        let QueueRead::Found(found) = only_a(0, ALL).await else { panic!("not found") };
        assert_eq!((found.messages, found.ranges.len(), found.next), (3, 3, max));
        let QueueRead::Found(found) = only_a(0, ReadLimits { messages_max: 1, ..ALL }).await else {
            panic!("not found")
        };
        assert_eq!((found.messages, found.next.0), (1, 2), "the message that does not match is passed over as well");
        let scan = ReadLimits { scan_max: 1, ..ALL };
        assert_eq!(only_a(1, scan).await, QueueRead::NoMatch { next: QueueOffset(2) });
        let QueueRead::Found(found) = only_a(2, ReadLimits { bytes_max: 10, ..ALL }).await else { panic!("not found") };
        assert_eq!(found.messages, 1, "one message at least");
        assert_eq!(only_a(3, ReadLimits { scan_max: 1, ..ALL }).await, QueueRead::NoMatch { next: QueueOffset(4) });
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn what_left_the_cache_is_the_same_from_the_file() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = LogOptions { tail_cache_bytes: 0, ..small(FlushPolicy::Sync) };
        let (log, _) = open(&folders, &options).await;
        let mut expected = Vec::new();
        let mut last = None;
        for number in 0..4000_u64 {
            let body = vec![number as u8; 300 + (number as usize * 37) % 3000];
            last = Some(append(&log, "T", 0, &body).await);
            expected.push((number, body));
        }
        last.expect("some").reached(Mark::Durable).await.expect("durable");
        let queue = log.queue("T", QueueId(0));
        assert!(read_all(&log, &queue).await == expected);
        let stats = log.stats();
        assert!(stats.read.cold.bytes > 0 && stats.read.tail_cache.bytes > 0, "{stats:?}");
        assert!(stats.tail_cache_bytes <= 8 << 20, "{} bytes cached", stats.tail_cache_bytes);
        assert!(read_all(&log, &queue).await == expected);
        assert!(log.stats().read.read_cache.bytes > 0);
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn each_tier_can_be_switched_off_and_counts_what_it_serves() {
    let all = LogOptions { page_cache: true, ..small(FlushPolicy::Sync) };
    let no_tail = LogOptions { tiers: TierSwitches { tail_cache: false, ..all.tiers }, ..all.clone() };
    let nothing_resident = TierSwitches { resident: false, ..no_tail.tiers };
    let nothing_loaded = TierSwitches { cold: false, ..no_tail.tiers };
    // Who serves a first and a second reading: tail cache, read cache, page cache, disk.
    for (name, options, expected) in [
        ("all", all, [true, false, false, false]),
        ("no tail cache", no_tail.clone(), [false, true, false, true]),
        ("nothing kept", LogOptions { read_cache_bytes: 0, ..no_tail.clone() }, [false, false, true, true]),
        (
            "nothing resident",
            LogOptions { read_cache_bytes: 0, tiers: nothing_resident, ..no_tail.clone() },
            [false, false, false, true],
        ),
        ("nothing loaded", LogOptions { tiers: nothing_loaded, ..no_tail }, [false, false, true, false]),
    ] {
        let folder = TempFolder::new("log");
        let folders = folders(&folder);
        runtime::run_here(async move {
            let (log, _) = open(&folders, &options).await;
            for number in 0..1000 {
                append(&log, "T", 0, format!("body {number}").as_bytes()).await;
            }
            append_durably(&log, "U", 0, b"the last block is read from memory").await;
            for _ in 0..2 {
                assert!(bodies(&log, "T", 0).await == numbered(0..1000), "{name}");
            }
            let read = log.stats().read;
            let served = [read.tail_cache, read.read_cache, read.resident, read.cold].map(|served| served.messages);
            assert_eq!(served.map(|messages| messages > 0), expected, "{name}: {read:?}");
            assert_eq!(served.iter().sum::<u64>(), 2000, "{name}: {read:?}");
            log.stop().await.expect("stopped");
        })
        .expect("an executor");
    }
}

/// Messages of many queues lie among each other: who reads one queue after a restart reads the log in pieces, not
/// message by message, and a bad message of another queue among them is no matter to him.
#[test]
fn cold_queues_are_read_in_pieces() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let (log, _) = open(&folders, &small(FlushPolicy::Sync)).await;
        let mut tickets = Vec::new();
        for number in 0..2000_u32 {
            tickets.push(append(&log, "T", number % 16, format!("{number:03000}").as_bytes()).await);
        }
        tickets[1999].reached(Mark::Durable).await.expect("durable");
        log.stop().await.expect("stopped");
        flip_bit(&folders, tickets[1].physical_offset.offset().0 + 200);
        let (log, _) = open(&folders, &small(FlushPolicy::Sync)).await;
        for queue_id in 0..16 {
            let queue = log.queue("T", QueueId(queue_id));
            let mut at = QueueOffset(0);
            let mut seen = 0;
            let limits = ReadLimits { messages_max: 32, ..ALL };
            while let (QueueRead::Found(found), _) = log.pull(&queue, at, limits, |_| true).await.expect("readable") {
                (at, seen) = (found.next, seen + found.messages);
            }
            assert_eq!(seen, if queue_id == 1 { 124 } else { 125 }, "queue {queue_id}");
        }
        let stats = log.stats();
        assert_eq!(stats.damages.len(), 1, "{stats:?}");
        assert!(stats.cold_loads <= 3 * stats.segments as u64, "{stats:?}");
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn bodies_of_four_mebibytes_pass() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = LogOptions { segment_bytes: 16 << 20, tail_cache_bytes: 8 << 20, ..small(FlushPolicy::Sync) };
        let (log, _) = open(&folders, &options).await;
        let mut expected = Vec::new();
        for number in 0..10_u64 {
            let body = vec![number as u8 + 1; 4 << 20];
            append_durably(&log, "T", 0, &body).await;
            expected.push((number, body));
        }
        assert!(read_all(&log, &log.queue("T", QueueId(0))).await == expected);
        crash(log).await;
        let (log, report) = open(&folders, &options).await;
        assert!(report.damages.is_empty(), "{report:?}");
        assert!(read_all(&log, &log.queue("T", QueueId(0))).await == expected);
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

/// Places of records with a key, at any time.
async fn find_keys(log: &Log, key: &str, before: LogOffset, count_max: usize) -> Vec<LogOffset> {
    log.find_keys(key_hash("T", key), (0, u64::MAX), before, count_max).await.expect("found")
}

#[test]
fn records_are_found_by_place_and_by_key() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = LogOptions { tail_cache_bytes: 0, ..small(FlushPolicy::Sync) };
        let (log, _) = open(&folders, &options).await;
        let queue = log.queue("T", QueueId(0));
        let mut tickets = Vec::new();
        for number in 0..2000_u64 {
            let properties = format!("UNIQ_KEY\u{1}u{number}\u{2}KEYS\u{1}k{} all\u{2}", number % 100);
            let draft = draft("T", 0, &[3; 1000], &properties);
            tickets.push(log.append(&queue, &draft, Millis(number * 1000)).expect("appended"));
            if number % 100 == 99 {
                tickets[number as usize].reached(Mark::Durable).await.expect("durable");
            }
        }
        for restart in [false, true] {
            let log = if restart {
                log.stop().await.expect("stopped");
                open(&folders, &options).await.0
            } else {
                log.clone()
            };
            for number in [0, 1, 700, 1998, 1999] {
                let offset = tickets[number].physical_offset.offset();
                let record = log.record_at(offset).await.expect("read").expect("there");
                assert_eq!(RecordView::decode(&record).expect("a record").queue_offset().0, number as u64);
                for wrong in [offset.0 + 1, offset.0 + 8, offset.0 + 1115, log.visible_end().0, 1 << 40] {
                    assert_eq!(log.record_at(LogOffset(wrong)).await.expect("read"), None, "{wrong}");
                }
                let unique = find_keys(&log, &format!("u{number}"), LogOffset(u64::MAX), 10).await;
                assert_eq!(unique, [offset]);
            }
            let seventh = find_keys(&log, "k7", LogOffset(u64::MAX), 64).await;
            let expected: Vec<_> =
                (0..20).rev().map(|round| tickets[round * 100 + 7].physical_offset.offset()).collect();
            assert_eq!(seventh, expected, "newest first");
            assert_eq!(find_keys(&log, "k7", expected[4], 2).await, expected[5..7], "in front of a place");
            for (range, count) in [((500_000, 502_000), 3), ((500_001, 502_000), 2), ((500_000, 501_999), 2)] {
                let some = log.find_keys(key_hash("T", "all"), range, LogOffset(u64::MAX), 64).await.expect("found");
                assert_eq!(some.len(), count, "{range:?}");
            }
            assert_eq!(find_keys(&log, "all", LogOffset(u64::MAX), 5).await.len(), 5);
            assert!(find_keys(&log, "none", LogOffset(u64::MAX), 5).await.is_empty());
            if restart {
                log.stop().await.expect("stopped");
            }
        }
    })
    .expect("an executor");
}

#[test]
fn a_deleted_topic_stays_gone_and_begins_anew() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = small(FlushPolicy::Sync);
        let (log, _) = open(&folders, &options).await;
        let old = log.queue("T", QueueId(0));
        for number in 0..10 {
            append_durably(&log, "T", 0, format!("old {number}").as_bytes()).await;
            append_durably(&log, "Kept", 0, format!("body {number}").as_bytes()).await;
        }
        log.delete_topic("T").await.expect("deleted");
        assert!(log.find_queue("T", QueueId(0)).is_none());
        let ticket =
            log.append(&old, &draft("T", 0, b"body 0", ""), Millis(1)).expect("a handle of before still works");
        assert_eq!(queue_offset(&ticket), 0);
        ticket.reached(Mark::Durable).await.expect("durable");
        assert_eq!(bodies(&log, "T", 0).await, numbered(0..1));
        crash(log).await;
        for _ in 0..2 {
            let (log, _) = open(&folders, &options).await;
            assert_eq!(bodies(&log, "T", 0).await, numbered(0..1));
            assert_eq!(bodies(&log, "Kept", 0).await, numbered(0..10));
            log.stop().await.expect("stopped");
            for path in derived_files(&folders) {
                std::fs::remove_file(path).expect("removed");
            }
        }
    })
    .expect("an executor");
}

#[test]
fn dropped_segments_move_the_minimum_and_offsets_go_on() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = small(FlushPolicy::Sync);
        let (log, _) = open(&folders, &options).await;
        append_durably(&log, "Rare", 3, b"only one").await;
        let mut offsets = Vec::new();
        for number in 0..600_u64 {
            let ticket = append(&log, "T", 0, &vec![number as u8; 10_000]).await;
            offsets.push(ticket.physical_offset.offset().0);
            if number % 20 == 19 {
                ticket.reached(Mark::Durable).await.expect("durable");
            }
        }
        log.cut().await.expect("cut");
        let dropped =
            log.drop_segments_before(LogOffset((3 << 20) + 77), FreedSpace::GivenBack).await.expect("dropped");
        assert_eq!((dropped.segments, dropped.min.0), (3, 3 << 20));
        for restart in 0..3 {
            let log = if restart == 0 { log.clone() } else { open(&folders, &options).await.0 };
            let queue = log.find_queue("T", QueueId(0)).expect("there");
            let min = offsets.iter().position(|offset| *offset >= 3 << 20).expect("later segments") as u64;
            assert_eq!((log.min_offset().0, queue.min().0, queue.max().0), (3 << 20, min, 600), "restart {restart}");
            let read = queue.read(QueueOffset(min - 1), ALL, |_| true).await.expect("read");
            assert_eq!(read, QueueRead::TooSmall { min: QueueOffset(min) });
            assert_eq!(read_all(&log, &queue).await.len() as u64, 600 - min);
            let rare = log.find_queue("Rare", QueueId(3)).expect("its offsets are remembered");
            assert_eq!((rare.min().0, rare.max().0, rare.next().0), (1, 1, 1));
            log.stop().await.expect("stopped");
            if restart == 1 {
                for path in derived_files(&folders) {
                    std::fs::remove_file(path).expect("removed");
                }
            }
        }
        let (log, _) = open(&folders, &options).await;
        assert_eq!(queue_offset(&append_durably(&log, "Rare", 3, b"another").await), 1);
        assert_eq!(bodies(&log, "Rare", 3).await, [(1, "another".to_owned())]);
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}
