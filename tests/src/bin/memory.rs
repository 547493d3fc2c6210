//! `memory [--gib N] [--body BYTES] [KEY=VALUE …]`: what memory the broker takes while so much is sent and consumed.
//!
//! Prints its resident memory at each step, and its peak beside what its banner says for caches. The exit code is 0 only if
//! the peak is at most 100 MiB above.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::process::{Dev, Running};
use harness::request::{MAX_OFFSET, Pulled, Queue, create_topic, offset_of, pull, send};
use harness::{patterned_body, unique_name};

const QUEUES: u32 = 8;
const CONNECTIONS: u32 = 4;
const IN_FLIGHT: usize = 64;
/// What is no cache may take so much: the program, indexes of the newest messages, connections, the allocator's rest.
const BESIDE_CACHES_MIB: u64 = 100;
const BANNER_WITHIN: Duration = Duration::from_secs(10);

struct Settings {
    bytes: u64,
    body_bytes: usize,
    properties: Vec<String>,
}

fn main() -> ExitCode {
    match parse() {
        Ok(settings) => measure(&settings),
        Err(text) => {
            eprintln!("memory: {text}\nusage: memory [--gib N] [--body BYTES] [KEY=VALUE …]");
            ExitCode::from(2)
        }
    }
}

fn parse() -> Result<Settings, String> {
    let properties = ["mapedFileSizeCommitLog=1073741824", "tailCacheBytes=33554432", "readCacheBytes=33554432"];
    let mut settings = Settings { bytes: 4 << 30, body_bytes: 1024, properties: properties.map(String::from).to_vec() };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        if argument.contains('=') {
            settings.properties.push(argument);
            continue;
        }
        let value = rest.next().ok_or(format!("{argument} needs a value"))?;
        let number: u64 = value.parse().map_err(|_| format!("{argument} takes a number, not {value}"))?;
        match argument.as_str() {
            "--gib" => settings.bytes = number << 30,
            "--body" => settings.body_bytes = number as usize,
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(settings)
}

fn measure(settings: &Settings) -> ExitCode {
    let dev = settings.properties.iter().fold(Dev::new("memory"), |dev, property| dev.property(property));
    let topic = unique_name("memory");
    let process = dev.start();
    let banner = process.await_line("MiB for caches", BANNER_WITHIN).expect("the banner tells");
    let caches_mib: u64 = banner
        .split_whitespace()
        .find_map(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("{banner:?} has no number"));
    println!("{banner}");
    println!("started: {}", memory(&process));
    Connection::open(&dev.broker).expect("it listens").call_ok(&create_topic(&topic, QUEUES)).expect("a topic is made");
    let count = settings.bytes / settings.body_bytes as u64;
    let took = each_connection(|part| send_part(&dev.broker, &topic, settings.body_bytes, count, part));
    println!("{count} messages sent in {:.1} s: {}", took.as_secs_f64(), memory(&process));
    let took = each_connection(|part| consume_part(&dev.broker, &topic, part));
    println!("consumed in {:.1} s: {}", took.as_secs_f64(), memory(&process));
    let peak_mib = process.memory_mib("VmHWM");
    let limit_mib = caches_mib + BESIDE_CACHES_MIB;
    println!("peak {peak_mib} MiB, {caches_mib} MiB of which are for caches; at most {limit_mib} MiB are expected");
    if peak_mib <= limit_mib { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn memory(process: &Running) -> String {
    let [resident, own, files, peak] =
        ["VmRSS", "RssAnon", "RssFile", "VmHWM"].map(|figure| process.memory_mib(figure));
    format!("{resident} MiB resident, {own} of it anonymous and {files} of files; {peak} at most")
}

fn each_connection(run: impl Fn(u32) + Sync) -> Duration {
    let started = Instant::now();
    thread::scope(|scope| {
        for part in 0..CONNECTIONS {
            let run = &run;
            scope.spawn(move || run(part));
        }
    });
    started.elapsed()
}

fn send_part(broker: &str, topic: &str, body_bytes: usize, count: u64, part: u32) {
    let mut connection = Connection::open(broker).expect("the broker listens");
    let body = patterned_body(body_bytes);
    let mut in_flight = VecDeque::with_capacity(IN_FLIGHT);
    let receive = |connection: &mut Connection, in_flight: &mut VecDeque<i32>| {
        let answer = connection.receive().expect("an answer comes");
        assert_eq!(answer.code, 0, "{}", answer.remark);
        in_flight.pop_front();
    };
    for number in (u64::from(part)..count).step_by(CONNECTIONS as usize) {
        let queue = Queue::new(topic, (number % u64::from(QUEUES)) as u32);
        let properties = format!("UNIQ_KEY\u{1}{number:032X}\u{2}TAGS\u{1}tag\u{2}");
        in_flight.push_back(connection.send(&send(&queue, body.as_slice(), &properties)).expect("sent"));
        if in_flight.len() == IN_FLIGHT {
            receive(&mut connection, &mut in_flight);
        }
    }
    while !in_flight.is_empty() {
        receive(&mut connection, &mut in_flight);
    }
}

/// Reads the queues of one connection, all of them by turns.
fn consume_part(broker: &str, topic: &str, part: u32) {
    let mut connection = Connection::open(broker).expect("the broker listens");
    let mut open: Vec<(Queue, i64, i64)> = (part..QUEUES)
        .step_by(CONNECTIONS as usize)
        .map(|id| {
            let queue = Queue::new(topic, id);
            let max = offset_of(&mut connection, MAX_OFFSET, &queue).expect("its end is known");
            (queue, 0, max)
        })
        .collect();
    while !open.is_empty() {
        for (queue, next, _) in &mut open {
            let answer = connection.call(&pull("harness-reader", queue, *next, 32)).expect("a pull is answered");
            *next = Pulled::of(&answer).expect("a pull").next_offset;
        }
        open.retain(|(_, next, max)| next < max);
    }
}
