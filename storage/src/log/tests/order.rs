//! Appending, waiting and seeing.

use std::cell::RefCell;

use super::*;
use crate::error::{AppendError, BusyCause};
use crate::log::Mark;

#[test]
fn what_is_appended_is_read_before_and_after_a_restart() {
    for flush in [FlushPolicy::Sync, FlushPolicy::Async] {
        let folder = TempFolder::new("log");
        let folders = folders(&folder);
        runtime::run_here(async move {
            let (log, report) = open(&folders, &small(flush)).await;
            assert_eq!((report.records_scanned, report.damages.len()), (0, 0));
            for number in 0..100_u64 {
                let ticket = append_durably(&log, "T", 0, format!("body {number}").as_bytes()).await;
                assert_eq!((queue_offset(&ticket), ticket.physical_offset.log()), (number, LOG));
            }
            assert_eq!(bodies(&log, "T", 0).await, numbered(0..100));
            log.stop().await.expect("stopped");
            let refused = log.append(&log.queue("T", QueueId(0)), &draft("T", 0, b"x", ""), Millis(1));
            assert!(matches!(refused, Err(AppendError::Stopped)));
            let (log, report) = open(&folders, &small(flush)).await;
            assert!(report.was_clean && report.records_scanned == 0, "{report:?}");
            assert_eq!(bodies(&log, "T", 0).await, numbered(0..100));
            let ticket = append_durably(&log, "T", 0, b"body 100").await;
            assert_eq!(queue_offset(&ticket), 100);
            assert_eq!(bodies(&log, "T", 0).await, numbered(0..101));
            log.stop().await.expect("stopped");
        })
        .expect("an executor");
    }
}

#[test]
fn a_message_is_found_as_soon_as_its_ticket_is_reached() {
    for flush in [FlushPolicy::Sync, FlushPolicy::Async] {
        let folder = TempFolder::new("log");
        let folders = folders(&folder);
        runtime::run_here(async move {
            let (log, _) = open(&folders, &small(flush)).await;
            let seen = Rc::new(RefCell::new(Vec::new()));
            let told = seen.clone();
            log.on_visible(Box::new(move |record| {
                told.borrow_mut().push((record.queue.id().0, record.queue_offset.0));
            }));
            let done = Rc::new(std::cell::Cell::new(0));
            for producer in 0..16_u32 {
                let (log, done) = (log.clone(), done.clone());
                runtime::spawn(async move {
                    for _ in 0..100 {
                        let ticket = append(&log, "T", producer % 4, &[producer as u8; 700]).await;
                        let queue = log.queue("T", QueueId(producer % 4));
                        ticket.reached(log.visible_mark()).await.expect("stored");
                        assert!(queue.max() > ticket.queue_offset);
                        let limits = ReadLimits { messages_max: 1, ..ALL };
                        let (read, parts) =
                            log.pull(&queue, ticket.queue_offset, limits, |_| true).await.expect("read");
                        assert!(matches!(read, QueueRead::Found(_)), "{read:?}");
                        let bytes = bytes_of(&parts);
                        assert_eq!(RecordView::decode(&bytes).expect("a record").body(), [producer as u8; 700]);
                    }
                    done.set(done.get() + 1);
                });
            }
            while done.get() < 16 {
                runtime::clock::sleep(std::time::Duration::from_millis(1)).await;
            }
            let stats = log.stats();
            assert!(stats.writes < 1600, "{} writes for 1600 records: they did not gather", stats.writes);
            assert_eq!(seen.borrow().len(), 1600);
            for queue in 0..4 {
                let of_queue =
                    seen.borrow().iter().filter(|(id, _)| *id == queue).map(|(_, at)| *at).collect::<Vec<_>>();
                assert_eq!(of_queue, (0..400).collect::<Vec<_>>());
            }
            log.stop().await.expect("stopped");
        })
        .expect("an executor");
    }
}

#[test]
fn asynchronous_flushes_follow_and_can_be_asked_for() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = LogOptions { flush_interval_ms: 60_000, ..small(FlushPolicy::Async) };
        let (log, _) = open(&folders, &options).await;
        for number in 0..2000_u32 {
            let ticket = append(&log, "T", 0, &[number as u8; 1500]).await;
            ticket.reached(Mark::Safe).await.expect("written");
            if number % 500 == 499 {
                ticket.reached(Mark::Durable).await.expect("durable");
                assert!(log.stats().durable >= ticket.end.0);
            }
        }
        assert!(log.stats().segments >= 3);
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn a_batch_is_whole_or_refused() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let (log, _) = open(&folders, &small(FlushPolicy::Async)).await;
        let queue = log.queue("T", QueueId(1));
        let body = vec![1; 300_000];
        append(&log, "T", 1, &body).await;
        append(&log, "T", 1, &body).await;
        let records = vec![(draft("T", 1, &body, ""), Indexed::default()); 4];
        log.room().await;
        let tickets = log.append_batch(&queue, &records[..2], Millis(5)).expect("it goes to the next segment");
        assert_eq!(tickets.iter().map(queue_offset).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(tickets[0].physical_offset.offset().0, 1 << 20, "both are in the next segment");
        let error = log.append_batch(&queue, &records, Millis(5)).err().expect("too large");
        assert!(matches!(error, AppendError::TooLarge { .. }), "{error}");
        tickets[1].reached(Mark::Safe).await.expect("written");
        assert_eq!(queue.next().0, 4);
        assert_eq!(read_all(&log, &queue).await.len(), 4);
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn too_much_unwritten_is_busy_and_passes() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = LogOptions { unwritten_bytes_max: 100_000, ..small(FlushPolicy::Sync) };
        let (log, _) = open(&folders, &options).await;
        let queue = log.queue("T", QueueId(0));
        let body = vec![0; 40_000];
        let mut accepted = 0;
        let error = loop {
            match log.append(&queue, &draft("T", 0, &body, ""), Millis(1)) {
                Ok(_) => accepted += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(accepted, 2);
        assert!(error.to_string().contains("no more than 100000 may"), "{error}");
        log.room().await;
        log.append(&queue, &draft("T", 0, &body, ""), Millis(1)).expect("there is room again");
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

/// Each waits for room as often as it is refused. Whoever is refused while the log has room by half must not try again
/// for ever, on the core that has to write.
#[test]
fn a_record_of_more_than_half_the_limit_waits_for_writes() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = LogOptions { unwritten_bytes_max: 100_000, ..small(FlushPolicy::Sync) };
        let (log, _) = open(&folders, &options).await;
        for round in 0..8 {
            append(&log, "T", 0, &vec![0; 30_000]).await;
            append(&log, "T", 0, &vec![0; 90_000]).await;
            assert_eq!(log.queue("T", QueueId(0)).next().0, 2 * (round + 1));
        }
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

/// Whatever becomes of the disk afterwards: what was accepted has its place.
#[test]
fn a_record_is_accepted_only_where_a_segment_has_its_place() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let (log, _) = open(&folders, &small(FlushPolicy::Sync)).await;
        let queue = log.queue("T", QueueId(0));
        let body = vec![0; 40_000];
        for _ in 0..3 {
            // Nothing else runs between these appends, so no segment is made.
            let error = loop {
                if let Err(error) = log.append(&queue, &draft("T", 0, &body, ""), Millis(1)) {
                    break error;
                }
            };
            let cause = BusyCause::NextSegment { segment_bytes: 1 << 20 };
            assert!(matches!(error, AppendError::Busy(found) if found == cause), "{error}");
            let stats = log.stats();
            assert!(stats.appended <= stats.min + ((stats.segments as u64) << 20), "{stats:?}");
            log.room().await;
        }
        log.append(&queue, &draft("T", 0, &body, ""), Millis(1)).expect("there is room");
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

#[test]
fn store_times_never_go_back_and_are_searched_exactly() {
    use crate::queue::Bound::{Lower, Upper};
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let options = LogOptions { extent_bytes: 600, ..small(FlushPolicy::Async) };
        let (log, _) = open(&folders, &options).await;
        for number in 0..10 {
            append_at(&log, "T", 0, b"x", 10_000 + number * 1000).await;
        }
        let late = append_at(&log, "T", 1, b"x", 5).await;
        assert_eq!(late.store_timestamp_ms, 19_000, "the clock went back, the log did not");
        late.reached(Mark::Safe).await.expect("written");
        let cases = [
            (9_999, Lower, 0),
            (10_000, Lower, 0),
            (10_001, Lower, 1),
            (14_500, Lower, 5),
            (19_000, Lower, 9),
            (19_001, Lower, 10),
            (9_999, Upper, 0),
            (10_000, Upper, 0),
            (10_999, Upper, 0),
            (11_000, Upper, 1),
            (14_500, Upper, 4),
            (19_000, Upper, 9),
            (99_000, Upper, 9),
        ];
        for restart in [false, true] {
            let log = if restart {
                log.stop().await.expect("stopped");
                open(&folders, &options).await.0
            } else {
                log.clone()
            };
            let queue = log.queue("T", QueueId(0));
            for (time, bound, expected) in cases {
                let found = queue.offset_by_time(time, bound).await.expect("searched");
                assert_eq!(found.0, expected, "{time} {bound:?}");
            }
            assert_eq!(queue.store_timestamp_ms_first().await.expect("read"), Some(10_000));
            let empty = log.queue("Empty", QueueId(0));
            assert_eq!(empty.offset_by_time(1, Lower).await.expect("searched").0, 0);
            assert_eq!(empty.offset_by_time(1, Upper).await.expect("searched").0, 0);
            if restart {
                log.stop().await.expect("stopped");
            }
        }
    })
    .expect("an executor");
}

#[test]
fn a_group_lies_together_and_its_entries_are_found_in_every_place() {
    let folder = TempFolder::new("log");
    let folders = folders(&folder);
    runtime::run_here(async move {
        let (log, _) = open(&folders, &small(FlushPolicy::Sync)).await;
        let body = vec![7; 40 << 10];
        let mut offsets = Vec::new();
        // Far more than a segment, so that groups come to their ends.
        for _ in 0..60 {
            let group: Vec<_> = (0..3)
                .map(|queue| (log.queue("G", QueueId(queue)), draft("G", queue, &body, "TAGS\u{1}a\u{2}")))
                .collect();
            let records: Vec<_> = group.iter().map(|(queue, draft)| (queue, draft)).collect();
            let tickets = loop {
                match log.append_together(&records, Millis(1_000)) {
                    Ok(tickets) => break tickets,
                    Err(AppendError::Busy { .. }) => log.room().await,
                    Err(error) => panic!("not appended: {error}"),
                }
            };
            for pair in tickets.windows(2) {
                assert_eq!(pair[0].end, pair[1].physical_offset.offset(), "nothing lies between");
            }
            offsets.push(tickets[2].physical_offset.offset());
            tickets[2].reached(log.visible_mark()).await.expect("stored");
        }
        assert_eq!(entry_offsets(&log).await, offsets, "in memory");
        log.stop().await.expect("stopped");
        let (log, _) = open(&folders, &small(FlushPolicy::Sync)).await;
        assert_eq!(entry_offsets(&log).await, offsets, "in extents");
        log.stop().await.expect("stopped");
    })
    .expect("an executor");
}

async fn entry_offsets(log: &Log) -> Vec<base::LogOffset> {
    let queue = log.find_queue("G", QueueId(2)).expect("a queue");
    let (mut at, mut found) = (QueueOffset(0), Vec::new());
    loop {
        let entries = queue.entries(at).await.expect("readable");
        let Some((last, _)) = entries.last() else { return found };
        at = last.plus(1);
        found.extend(entries.iter().map(|(_, entry)| entry.offset));
    }
}
