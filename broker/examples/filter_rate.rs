//! Prints what a filter costs for each message that it looks at, beside what looking takes without one: records of 1 KiB
//! as a log holds them, one in ten of which is wanted. "By name" is how filters worked before: records were copied, and each
//! comparison walked through the properties. The only argument is the number of rounds. Run it in release.

use std::hint::black_box;

use base::{LogId, LogOffset, PhysicalOffset, QueueId, QueueOffset};
use broker::Filter;
use remoting::properties;
use remoting::record::{Placement, RecordDraft, RecordView, encode, record_bytes};

const MESSAGES: usize = 4_000;
const BODY_BYTES: usize = 1024;
const ROUNDS_DEFAULT: usize = 15;
/// The kernel counts a core's time by its ticks: a round takes many of them.
const PASSES: usize = 100;
/// As many bytes as were copied at once.
const PIECE_BYTES: usize = 256 << 10;

const SIMPLE: &str = "n = 3";
const FIVE: &str = "price > 10 AND price < 1000 AND (region = 'us' OR region = 'eu') AND n = 3";

fn main() {
    let rounds = std::env::args().nth(1).map_or(ROUNDS_DEFAULT, |rounds| rounds.parse().expect("a number of rounds"));
    let log = log();
    let (simple, five) = (compiled(SIMPLE), compiled(FIVE));
    println!("{MESSAGES} records of {} bytes", log.len() / MESSAGES);
    report(rounds, "look, no filter", || records(&log).count());
    report(rounds, "copy and look, no filter", || copied(&log, |_| true));
    report(rounds, "by name: n = 3", || copied(&log, simple_by_name));
    report(rounds, "in place: n = 3", || wanted(&log, |text| simple.matches(text)));
    report(rounds, "by name: five comparisons", || copied(&log, five_by_name));
    report(rounds, "in place: five comparisons", || wanted(&log, |text| five.matches(text)));
    let count = wanted(&log, |text| five.matches(text));
    assert!(count == MESSAGES / 10 && count == copied(&log, five_by_name), "{count} are wanted");
    assert_eq!(wanted(&log, |text| simple.matches(text)), count);
}

fn compiled(expression: &str) -> Filter {
    Filter::compile(expression).expect("an expression")
}

fn log() -> Vec<u8> {
    let mut log = Vec::new();
    for number in 0..MESSAGES {
        let text = format!(
            "KEYS\u{1}order-{number:07}\u{2}n\u{1}{}\u{2}price\u{1}{}\u{2}region\u{1}eu\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}\
             UNIQ_KEY\u{1}7F000001ABCD18B4AAC2{number:012}\u{2}MSG_REGION\u{1}DefaultRegion\u{2}TRACE_ON\u{1}true\u{2}\
             CLUSTER\u{1}DefaultCluster\u{2}",
            number % 10,
            111 + number % 100
        );
        let host = "127.0.0.1:10911".parse().expect("an address");
        let draft = RecordDraft {
            topic: "TopicTest",
            queue_id: QueueId(3),
            flag: 0,
            sys_flag: 0,
            born_timestamp_ms: 1_700_000_000_000,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: &[7; BODY_BYTES],
            properties: &text,
        };
        let start = log.len();
        let placement = Placement {
            queue_offset: QueueOffset(number as u64),
            physical_offset: PhysicalOffset::new(LogId(0), LogOffset(start as u64)),
            store_timestamp_ms: 1_700_000_000_001,
        };
        log.resize(start + record_bytes(&draft), 0);
        encode(&draft, placement, &mut log[start..]);
    }
    log
}

/// The properties of all records.
fn records(log: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = log;
    std::iter::from_fn(move || {
        let record = RecordView::decode(rest).ok()?;
        rest = &rest[record.total_bytes()..];
        Some(record.properties())
    })
}

fn wanted(log: &[u8], matches: impl Fn(&str) -> bool) -> usize {
    records(log).filter(|text| matches(text)).count()
}

fn copied(log: &[u8], matches: impl Fn(&str) -> bool) -> usize {
    let record_bytes = log.len() / MESSAGES;
    let pieces = log.chunks(PIECE_BYTES / record_bytes * record_bytes);
    pieces.map(|piece| wanted(&black_box(Vec::from(piece)), &matches)).sum()
}

fn number(text: &str, name: &str) -> Option<i32> {
    properties::get(text, name)?.parse().ok()
}

fn simple_by_name(text: &str) -> bool {
    number(text, "n") == Some(3)
}

fn five_by_name(text: &str) -> bool {
    number(text, "price").is_some_and(|price| price > 10)
        && number(text, "price").is_some_and(|price| price < 1000)
        && (properties::get(text, "region") == Some("us") || properties::get(text, "region") == Some("eu"))
        && number(text, "n") == Some(3)
}

fn report(rounds: usize, what: &str, mut call: impl FnMut() -> usize) {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start_ns = core_ns();
            for _ in 0..PASSES {
                black_box(call());
            }
            (core_ns() - start_ns) as f64 / (PASSES * MESSAGES) as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{what:<28} {:7.1} ns a message  (best {:.1})", times[rounds / 2], times[0]);
}

/// Nanoseconds that this thread has spent on a core, as the kernel counts them.
fn core_ns() -> u64 {
    let counters = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux kernel counts them");
    let spent = counters.split(' ').next().and_then(|spent| spent.parse().ok());
    spent.expect("the first counter is a number")
}
