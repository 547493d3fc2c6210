//! How fast one log takes records of 1 KB, and what a record costs.
//!
//! `cargo run --release -p ringmq-storage --example append_rate [FOLDER] [SECONDS]`. Producers append in groups, as
//! requests of one read of a socket would, and wait until their group is stored. Appending alone (encode, place, note
//! the keys) is measured apart, inside the loop, on the monotonic clock; the CPU time of the process covers writing,
//! dispatch, flushes and preparation as well.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use base::{LogId, Millis, QueueId};
use remoting::record::RecordDraft;
use runtime::file::TempFolder;
use runtime::ring::WriteRing;
use storage::{AppendError, FlushPolicy, Log, LogFolders, LogOptions};

const BODY_BYTES: usize = 1024;
const CACHE_BYTES: u64 = 64 << 20;
const PRODUCERS: u32 = 8;
const GROUP: u32 = 64;
/// The kernel counts the CPU time of a process in hundredths of a second.
const TICKS_A_SECOND: f64 = 100.0;

#[derive(Default)]
struct Sums {
    records: Cell<u64>,
    append_ns: Cell<u64>,
    running: Cell<u32>,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let temporary = TempFolder::new("append-rate");
    let folder = arguments.next().map_or(temporary.path().to_owned(), PathBuf::from);
    let seconds: u64 = arguments.next().map_or(5, |text| text.parse().expect("a number of seconds"));
    for flush in [FlushPolicy::Sync, FlushPolicy::Async] {
        let folder = folder.join(format!("{flush:?}"));
        runtime::run_here(async move { measure(&folder, flush, Duration::from_secs(seconds)).await })
            .expect("an executor");
    }
}

async fn measure(folder: &Path, flush: FlushPolicy, span: Duration) {
    let folders = LogFolders { log: folder.to_owned(), commit_log: folder.join("commitlog") };
    let ring = WriteRing::start().expect("a ring");
    let options = LogOptions { flush, tail_cache_bytes: CACHE_BYTES, ..LogOptions::default() };
    let (log, _) = Log::open(folders, LogId(0), options, ring).await.expect("opened");
    // From here on slabs are filled again; before, their memory is faulted in.
    while log.stats().appended < 2 * CACHE_BYTES {
        produce(&log, 0, &Sums::default()).await;
    }
    let before = log.stats();
    let sums = Rc::new(Sums::default());
    let (begun, cpu) = (runtime::clock::instant(), cpu_seconds());
    for producer in 0..PRODUCERS {
        sums.running.set(sums.running.get() + 1);
        let (log, sums) = (log.clone(), sums.clone());
        runtime::spawn(async move {
            while begun.elapsed() < span {
                produce(&log, producer, &sums).await;
            }
            sums.running.set(sums.running.get() - 1);
        });
    }
    while sums.running.get() > 0 {
        runtime::clock::sleep(Duration::from_millis(20)).await;
    }
    let (elapsed, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let stats = log.stats();
    let records = sums.records.get() as f64;
    println!(
        "{flush:?}: {:.0} records/s, append {:.2} us, CPU {:.2} us a record; {:.0} records a write, {} writes, {} flushes, \
         {} waits for preparation, {} extents",
        records / elapsed,
        sums.append_ns.get() as f64 / 1000.0 / records,
        cpu * 1e6 / records,
        records / (stats.writes - before.writes) as f64,
        stats.writes - before.writes,
        stats.flushes - before.flushes,
        stats.roll_waits - before.roll_waits,
        stats.extents - before.extents,
    );
    log.stop().await.expect("stopped");
}

async fn produce(log: &Rc<Log>, producer: u32, sums: &Sums) {
    let body = [b'x'; BODY_BYTES];
    let queue = log.queue("benchmark", QueueId(producer % 4));
    let host = "127.0.0.1:10911".parse().expect("an address");
    let draft = RecordDraft {
        topic: queue.topic(),
        queue_id: queue.id(),
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 0,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: &body,
        properties: "UNIQ_KEY\u{1}7F000001000018B4AAC2123456780000\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}",
    };
    let begun = runtime::clock::instant();
    let now = Millis(runtime::clock::now_ms().0);
    let mut last = None;
    for _ in 0..GROUP {
        match log.append(&queue, &draft, now) {
            Ok(ticket) => last = Some(ticket),
            Err(AppendError::Busy { .. }) => break,
            Err(error) => panic!("not appended: {error}"),
        }
        sums.records.set(sums.records.get() + 1);
    }
    sums.append_ns.set(sums.append_ns.get() + begun.elapsed().as_nanos() as u64);
    match last {
        Some(ticket) => ticket.reached(log.visible_mark()).await.expect("stored"),
        None => log.room().await,
    }
}

/// User and system time of this process so far.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("the process has a state");
    let behind_name = text.rsplit(')').next().expect("a name in brackets");
    let fields: Vec<&str> = behind_name.split_ascii_whitespace().collect();
    // Behind the name: state is field 0, utime 11, stime 12.
    let ticks: f64 = fields[11..13].iter().map(|field| field.parse::<f64>().expect("a number")).sum();
    ticks / TICKS_A_SECOND
}
