//! `timers [--due N] [--within SECONDS] [--far N] [--far-within SECONDS] [--restart]`: how late timed messages are, and what
//! memory the broker takes for those that wait.
//!
//! Far messages are sent first and stay; then the due ones, spread evenly over the span that is measured. `--restart` kills
//! the broker in between. Prints the lateness by the broker's own store times, and its resident memory at each step; the exit
//! code is 0 only if every due message came once, none early.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::process::Dev;
use harness::request::{MAX_OFFSET, Pulled, Queue, create_topic, offset_of, pull, send};
use harness::{now_ms, unique_name};

const QUEUES: u32 = 8;
const CONNECTIONS: u32 = 4;
const IN_FLIGHT: usize = 256;
const BODY_BYTES: usize = 128;
/// Between the end of the sends and the first due message.
const LEAD_MS: u64 = 3_000;
/// What a run may send a second, for the guess of how long the sends take.
const SENDS_A_SECOND: u64 = 1_500;

struct Settings {
    due: u64,
    within_ms: u64,
    far: u64,
    far_within_ms: u64,
    restart: bool,
}

/// Messages of a run: the first is due at `start_ms`, the last `span_ms` later.
#[derive(Clone, Copy)]
struct Batch {
    count: u64,
    start_ms: u64,
    span_ms: u64,
}

fn main() -> ExitCode {
    match parse() {
        Ok(settings) => measure(&settings),
        Err(text) => {
            eprintln!(
                "timers: {text}\nusage: timers [--due N] [--within SECONDS] [--far N] [--far-within SECONDS] [--restart]"
            );
            ExitCode::from(2)
        }
    }
}

fn parse() -> Result<Settings, String> {
    let mut settings =
        Settings { due: 100_000, within_ms: 60_000, far: 0, far_within_ms: 71 * 3_600_000, restart: false };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        if argument == "--restart" {
            settings.restart = true;
            continue;
        }
        let value = rest.next().ok_or(format!("{argument} needs a value"))?;
        let number: u64 = value.parse().map_err(|_| format!("{argument} takes a number, not {value}"))?;
        match argument.as_str() {
            "--due" => settings.due = number,
            "--within" => settings.within_ms = number * 1_000,
            "--far" => settings.far = number,
            "--far-within" => settings.far_within_ms = number * 1_000,
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(settings)
}

fn measure(settings: &Settings) -> ExitCode {
    let dev = Dev::new("timers").property("mapedFileSizeCommitLog=67108864").property("flushDiskType=ASYNC_FLUSH");
    let (near, far) = (unique_name("timers"), unique_name("timers-far"));
    let mut process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("the broker listens");
    for topic in [&near, &far] {
        connection.call_ok(&create_topic(topic, QUEUES)).expect("a topic is made");
    }
    println!("started: {} MiB resident", process.memory_mib("VmRSS"));
    // Far ones are due behind everything that is measured.
    let start_ms = now_ms() + 1_800_000 + settings.within_ms;
    let span_ms = settings.far_within_ms.saturating_sub(1_800_000 + settings.within_ms).max(1);
    let took = send_all(&dev.broker, &far, Batch { count: settings.far, start_ms, span_ms });
    println!(
        "{} far ones sent in {:.1} s: {} MiB resident",
        settings.far,
        took.as_secs_f64(),
        process.memory_mib("VmRSS")
    );
    if settings.restart {
        process.kill();
        process = dev.start();
        println!("killed and started again: {} MiB resident", process.memory_mib("VmRSS"));
    }
    let start_ms = now_ms() + LEAD_MS + settings.due * 1_000 / SENDS_A_SECOND;
    let batch = Batch { count: settings.due, start_ms, span_ms: settings.within_ms };
    let took = send_all(&dev.broker, &near, batch);
    println!(
        "{} due ones sent in {:.1} s: {} MiB resident",
        settings.due,
        took.as_secs_f64(),
        process.memory_mib("VmRSS")
    );
    if now_ms() > start_ms {
        println!("FAIL the first were due before the last were sent: this machine needs a smaller --due");
        return ExitCode::FAILURE;
    }
    let until = Duration::from_millis(start_ms + settings.within_ms + 2_000 - now_ms());
    thread::sleep(until);
    println!("all due: {} MiB resident", process.memory_mib("VmRSS"));
    let mut connection = Connection::open(&dev.broker).expect("the broker listens");
    report(&mut connection, &near, settings.due)
}

/// Sends a batch over several connections, many requests in flight on each.
fn send_all(broker: &str, topic: &str, batch: Batch) -> Duration {
    let started = Instant::now();
    thread::scope(|scope| {
        for number in 0..CONNECTIONS {
            scope.spawn(move || send_part(broker, topic, batch, number));
        }
    });
    started.elapsed()
}

fn send_part(broker: &str, topic: &str, batch: Batch, part: u32) {
    let mut connection = Connection::open(broker).expect("the broker listens");
    let body = vec![b'x'; BODY_BYTES];
    let mut in_flight = VecDeque::with_capacity(IN_FLIGHT);
    let receive = |connection: &mut Connection, in_flight: &mut VecDeque<i32>| {
        let answer = connection.receive().expect("an answer comes");
        assert_eq!(answer.code, 0, "{}", answer.remark);
        in_flight.pop_front();
    };
    for number in (u64::from(part)..batch.count).step_by(CONNECTIONS as usize) {
        let due_ms = batch.start_ms + batch.span_ms * number / batch.count;
        let queue = Queue::new(topic, (number % u64::from(QUEUES)) as u32);
        let request = send(&queue, body.as_slice(), &format!("TIMER_DELIVER_MS\u{1}{due_ms}\u{2}"));
        in_flight.push_back(connection.send(&request).expect("sent"));
        if in_flight.len() == IN_FLIGHT {
            receive(&mut connection, &mut in_flight);
        }
    }
    while !in_flight.is_empty() {
        receive(&mut connection, &mut in_flight);
    }
}

/// Prints how late the messages of a topic were.
fn report(connection: &mut Connection, topic: &str, count: u64) -> ExitCode {
    let (mut late_ms, mut early) = (Vec::new(), 0);
    for id in 0..QUEUES {
        let queue = Queue::new(topic, id);
        let (mut next, max) = (0, offset_of(connection, MAX_OFFSET, &queue).expect("its end is known"));
        while next < max {
            let answer = connection.call(&pull("harness-reader", &queue, next, 32)).expect("a pull is answered");
            let pulled = Pulled::of(&answer).expect("a pull");
            next = pulled.next_offset;
            for record in &pulled.records {
                let due_ms: u64 = record.property("TIMER_DELIVER_MS").expect("its time").parse().expect("a number");
                early += u64::from(record.store_ms < due_ms);
                late_ms.push(record.store_ms.saturating_sub(due_ms));
            }
        }
    }
    late_ms.sort_unstable();
    let at = |share: f64| late_ms.get(((late_ms.len() as f64 * share) as usize).min(late_ms.len().max(1) - 1));
    let figure = |share| at(share).map_or("-".to_owned(), u64::to_string);
    println!(
        "{} of {count} delivered, {early} early; late by p50 {} ms, p99 {} ms, p99.9 {} ms, at most {} ms",
        late_ms.len(),
        figure(0.5),
        figure(0.99),
        figure(0.999),
        figure(1.0)
    );
    if late_ms.len() as u64 == count && early == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
