//! `tails [--rounds N] [--only NAME] [KEY=VALUE …]`: whether a disturbance is felt in the p99.9 of a steady producer.
//!
//! A round has spans of equal length with the same open loop of [`RATE`] messages a second. **Steady**: nothing else
//! happens. **Disturbed**: one thing does, and what it really did is printed. **Control**: the same disturbance, while the
//! producer is at a target of canned answers (`ringmq bench canned`): what the disturbance takes from anybody on this machine,
//! through its CPUs and the loopback; nothing of it is the broker's. Judged is the median over the rounds of the disturbed
//! p99.9 beside the larger of the steady and the control one; it must not be above [`RATIO_MAX`]. The ratio to the steady
//! one alone is printed as well, with the spread of both.
//!
//! Where this process may give real-time priority, the producer goes before its target, and that before the disturbance.
//! Readers come next, see [`First::follow`].
//!
//! | name | disturbance |
//! | --- | --- |
//! | `rolls` | segments of 64 MiB, which 8 KiB messages fill; steady is a broker with segments of 1 GiB |
//! | `deletion` | 2 GB of old segments are deleted |
//! | `readers` | two readers of old messages, as fast as they are served |
//! | `writer` | another process's writing of up to 10 GB through the page cache of the same disk |

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::frame::Frame;
use harness::process::{Dev, Running};
use harness::producer::{Figures, First, Load, command};
use harness::program;
use harness::request::{MAX_OFFSET, Queue, offset_of, pull, runtime_number};

const RATE: u32 = 5000;
const SPAN: Duration = Duration::from_secs(12);
const WARMUP: Duration = Duration::from_secs(1);
const ROUNDS: u32 = 5;
/// How much larger the p99.9 may be beside a disturbance.
const RATIO_MAX: f64 = 2.0;
const BODY_BYTES: usize = 1024;
/// Fills 20 MB/s of each of two logs: a segment each three seconds.
const ROLLS_BODY_BYTES: usize = 8192;
const SEGMENT_BYTES: u64 = 64 << 20;
const LONG_SEGMENT_BYTES: u64 = 1 << 30;
/// So much is deleted, and so much is there for the readers.
const OLD_BYTES: u64 = 2_000_000_000;
const OLD_BODY_BYTES: u64 = 1024;
const OLD_QUEUES: u32 = 8;
const READERS: u32 = 2;
const WRITER_BYTES_MAX: u64 = 10_000_000_000;
const WRITE_BYTES: usize = 1 << 20;
const DELETE_EXPIRED: i32 = 329;
/// A broker that nobody sends to has settled when it writes less than this in a second.
const SETTLED_BYTES: u64 = 32 << 20;
const SETTLED_SPAN: Duration = Duration::from_secs(1);
const SETTLED_WITHIN: Duration = Duration::from_secs(120);
/// Between two spans, for what the first has left to the disk.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a disturbance looks whether the span is over.
const LOOK: Duration = Duration::from_millis(20);

type Run = fn(&Wish, &Ground) -> Result<bool, String>;

const DISTURBANCES: [(&str, Run); 4] =
    [("rolls", rolls), ("deletion", deletion), ("readers", readers), ("writer", writer)];

struct Wish {
    rounds: u32,
    only: Option<String>,
    properties: Vec<String>,
}

fn main() -> ExitCode {
    let Some(wish) = wish(std::env::args().skip(1)) else {
        let names = DISTURBANCES.map(|(name, _)| name).join("|");
        eprintln!("usage: tails [--rounds N] [--only {names}] [KEY=VALUE …]");
        return ExitCode::from(2);
    };
    program::exit_code(run(&wish))
}

fn wish(mut arguments: impl Iterator<Item = String>) -> Option<Wish> {
    let mut wish = Wish { rounds: ROUNDS, only: None, properties: Vec::new() };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => wish.rounds = arguments.next()?.parse().ok().filter(|rounds| *rounds > 0)?,
            "--only" => {
                let name = arguments.next()?;
                wish.only = DISTURBANCES.iter().any(|(known, _)| *known == name).then_some(name);
                wish.only.as_ref()?;
            }
            property if property.contains('=') => wish.properties.push(argument),
            _ => return None,
        }
    }
    Some(wish)
}

fn run(wish: &Wish) -> Result<bool, String> {
    let ground = Ground { first: First::allowed(), canned: Canned::start()? };
    let go_first = if ground.first.is_anybody() { "yes" } else { "no" };
    println!("producer and its target go first on their CPUs: {go_first}");
    let mut are_flat = true;
    for (name, run) in DISTURBANCES {
        if wish.only.as_ref().is_none_or(|only| only == name) {
            are_flat &= run(wish, &ground)?;
        }
    }
    Ok(are_flat)
}

/// What all disturbances have in common.
struct Ground {
    first: First,
    canned: Canned,
}

/// A target that stores nothing.
struct Canned {
    child: Child,
    address: String,
}

impl Canned {
    fn start() -> Result<Canned, String> {
        let failed = |error| format!("the canned target: {error}");
        let mut command = command(First::allowed().broker);
        command.args(["bench", "canned", "--listen", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut address = String::new();
        let output = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(output).read_line(&mut address).map_err(failed)?;
        Ok(Canned { child, address: address.trim_end().to_owned() })
    }
}

impl Drop for Canned {
    fn drop(&mut self) {
        // It has ended already if this fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A broker.
struct Place {
    dev: Dev,
    running: Running,
}

impl Place {
    fn start(wish: &Wish, ground: &Ground, stem: &str, segment_bytes: u64) -> Result<Place, String> {
        let segments = format!("mapedFileSizeCommitLog={segment_bytes}");
        // What is two hours old has expired, and goes when it is asked for.
        let own = ["flushDiskType=ASYNC_FLUSH", &segments, "fileReservedTime=1", "cleanResourceInterval=1000"];
        let own = own.into_iter().chain(wish.properties.iter().map(String::as_str));
        let mut dev = own.fold(Dev::new(stem), Dev::property);
        dev.logs = 2;
        let mut broker = command(ground.first.broker);
        broker.args(dev.arguments());
        let running = Running::start_command(broker);
        running.await_ready()?;
        let place = Place { dev, running };
        place.settle()?;
        Ok(place)
    }

    fn connect(&self) -> Result<Connection, String> {
        Connection::open(&self.dev.broker).map_err(|error| format!("connect: {error}"))
    }

    fn figure(&self, name: &str) -> Result<u64, String> {
        Ok(runtime_number(&mut self.connect()?, name))
    }

    /// Bytes that it has read from the disk (`read_bytes`) or written to it (`write_bytes`).
    fn disk_bytes(&self, figure: &str) -> Result<u64, String> {
        let path = format!("/proc/{}/io", self.running.pid());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let number = text.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(": ")?.parse().ok());
        number.ok_or_else(|| format!("{path} has no {figure}"))
    }

    /// Waits until it has written the segments that it prepares, or the first spans would have that.
    fn settle(&self) -> Result<(), String> {
        let end = Instant::now() + SETTLED_WITHIN;
        loop {
            let before = self.disk_bytes("write_bytes")?;
            thread::sleep(SETTLED_SPAN);
            let written = self.disk_bytes("write_bytes")? - before;
            if written < SETTLED_BYTES {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("a broker that nobody sends to still writes {} MB a second", megabytes(written)));
            }
        }
    }

    /// Stores [`OLD_BYTES`].
    fn fill(&self, topic: &str) -> Result<(), String> {
        let count = (OLD_BYTES / OLD_BODY_BYTES).to_string();
        let [queues, body_bytes] = [u64::from(OLD_QUEUES), OLD_BODY_BYTES].map(|number| number.to_string());
        let status = command(&[])
            .args(["bench", "send", "--broker", &self.dev.broker, "--topic", topic, "--queues", &queues])
            .args(["--size", &body_bytes, "--warmup", "0", "--duration", "600", "--messages", &count])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| format!("old messages: {error}"))?;
        // A void run has stored them as well.
        if matches!(status.code(), Some(0 | 6)) { self.settle() } else { Err(format!("old messages: {status}")) }
    }
}

/// Something that disturbs until it is told to stop, and tells what it has done.
type Disturb<'a> = &'a (dyn Fn(&AtomicBool) -> Result<String, String> + Sync);

/// One span: a producer, and beside it perhaps a disturbance.
fn span(
    ground: &Ground,
    address: &str,
    body_bytes: usize,
    disturb: Option<Disturb>,
) -> Result<(Figures, String), String> {
    let load = Load { rate: RATE, span: SPAN, warmup: WARMUP, body_bytes };
    let more: &[&str] = if address == ground.canned.address { &["--no-create", "--no-offset-check"] } else { &[] };
    thread::sleep(PAUSE);
    let producer = load.start(ground.first, address, more)?;
    let Some(disturb) = disturb else { return Ok((producer.figures()?, String::new())) };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let disturbing = scope.spawn(|| {
            thread::sleep(WARMUP);
            disturb(&stop)
        });
        let figures = producer.figures();
        stop.store(true, Ordering::Relaxed);
        let did = disturbing.join().expect("a disturbance does not panic")?;
        Ok((figures?, did))
    })
}

/// What is compared.
struct Case<'a> {
    name: &'a str,
    /// Where the producer is while nothing happens, and while it does.
    steady: &'a str,
    disturbed: &'a str,
    body_bytes: usize,
    /// Before a steady and a disturbed span, and before a control span.
    prepare: &'a dyn Fn() -> Result<(), String>,
    disturb: Disturb<'a>,
    /// Whether the disturbance comes from outside of the broker, so that others can feel it.
    has_control: bool,
}

impl<'a> Case<'a> {
    /// The usual one: a disturbance from outside of one broker, which needs no preparation.
    fn within(name: &'a str, place: &'a Place, disturb: Disturb<'a>) -> Case<'a> {
        let broker = &place.dev.broker;
        Case {
            name,
            steady: broker,
            disturbed: broker,
            body_bytes: BODY_BYTES,
            prepare: &nothing_to_prepare,
            disturb,
            has_control: true,
        }
    }

    /// All rounds. Whether the tail stays flat.
    fn run(&self, rounds: u32, ground: &Ground) -> Result<bool, String> {
        let (mut judged, mut plain) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let tell = |kind: &str, figures: &Figures, did: &str| {
                println!("{} {round}: {kind:9} {figures}{}{did}", self.name, if did.is_empty() { "" } else { "; " });
            };
            (self.prepare)()?;
            let (steady, _) = span(ground, self.steady, self.body_bytes, None)?;
            tell("steady", &steady, "");
            let (disturbed, did) = span(ground, self.disturbed, self.body_bytes, Some(self.disturb))?;
            tell("disturbed", &disturbed, &did);
            let mut least = steady.p999;
            if self.has_control {
                (self.prepare)()?;
                let (control, did) = span(ground, &ground.canned.address, self.body_bytes, Some(self.disturb))?;
                tell("control", &control, &did);
                least = least.max(control.p999);
            }
            judged.push(disturbed.p999 / least);
            plain.push(disturbed.p999 / steady.p999);
        }
        let (median, text) = with_spread(&mut judged);
        println!("{}: p99.9 {text} beside steady and control, {} beside steady", self.name, with_spread(&mut plain).1);
        Ok(median <= RATIO_MAX)
    }
}

/// The median, and a text of it with the spread.
fn with_spread(ratios: &mut [f64]) -> (f64, String) {
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    (median, format!("{median:.2} x ({:.2} to {:.2})", ratios[0], ratios[ratios.len() - 1]))
}

fn wait_for(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
    }
}

fn nothing_to_prepare() -> Result<(), String> {
    Ok(())
}

fn megabytes(bytes: u64) -> u64 {
    bytes / 1_000_000
}

fn rolls(wish: &Wish, ground: &Ground) -> Result<bool, String> {
    let long = Place::start(wish, ground, "tails-long", LONG_SEGMENT_BYTES)?;
    let short = Place::start(wish, ground, "tails-short", SEGMENT_BYTES)?;
    let disturb = |stop: &AtomicBool| {
        let figures = || -> Result<[u64; 2], String> {
            Ok([short.figure("commitLogMaxOffset")?, short.figure("logRollWaitsTotal")?])
        };
        let before = figures()?;
        wait_for(stop);
        let after = figures()?;
        let rolled = (after[0] - before[0]) as f64 / SEGMENT_BYTES as f64;
        Ok(format!("{rolled:.1} segments filled, {} waits for the next one", after[1] - before[1]))
    };
    // It comes from within: others cannot feel it.
    let case = Case {
        steady: &long.dev.broker,
        body_bytes: ROLLS_BODY_BYTES,
        has_control: false,
        ..Case::within("rolls", &short, &disturb)
    };
    case.run(wish.rounds, ground)
}

fn deletion(wish: &Wish, ground: &Ground) -> Result<bool, String> {
    let place = Place::start(wish, ground, "tails-deletion", SEGMENT_BYTES)?;
    let prepare = || {
        place.fill(&harness::unique_name("old"))?;
        place.dev.age_segments();
        Ok(())
    };
    let disturb = |stop: &AtomicBool| {
        let before = place.figure("droppedSegmentsTotal")?;
        let asked = place.connect()?.call_ok(&Frame::request(DELETE_EXPIRED));
        asked.map_err(|error| format!("deletion: {error}"))?;
        wait_for(stop);
        let dropped = place.figure("droppedSegmentsTotal")? - before;
        Ok(format!("{dropped} segments or {} MB deleted", megabytes(dropped * SEGMENT_BYTES)))
    };
    Case { prepare: &prepare, ..Case::within("deletion", &place, &disturb) }.run(wish.rounds, ground)
}

fn readers(wish: &Wish, ground: &Ground) -> Result<bool, String> {
    let place = Place::start(wish, ground, "tails-readers", LONG_SEGMENT_BYTES)?;
    let topic = harness::unique_name("old");
    place.fill(&topic)?;
    let disturb = |stop: &AtomicBool| {
        let before = place.disk_bytes("read_bytes")?;
        let pulled = thread::scope(|scope| {
            let read = || {
                ground.first.follow()?;
                read_again_and_again(&place, &topic, stop)
            };
            let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
            readers
                .into_iter()
                .map(|reader| reader.join().expect("a reader does not panic"))
                .sum::<Result<u64, String>>()
        })?;
        let read = place.disk_bytes("read_bytes")? - before;
        Ok(format!("{} MB read from the disk, {} MB pulled", megabytes(read), megabytes(pulled)))
    };
    Case::within("readers", &place, &disturb).run(wish.rounds, ground)
}

/// Reads a topic from its first message to its last, queue by queue in turn, and again. Bytes that came.
fn read_again_and_again(place: &Place, topic: &str, stop: &AtomicBool) -> Result<u64, String> {
    let failed = |error| format!("a reader: {error}");
    let mut connection = place.connect()?;
    let mut queues = Vec::new();
    for id in 0..OLD_QUEUES {
        let queue = Queue::new(topic, id);
        let max = offset_of(&mut connection, MAX_OFFSET, &queue).map_err(failed)?;
        queues.push((queue, max, 0));
    }
    let mut pulled = 0;
    while !stop.load(Ordering::Relaxed) {
        for (queue, max, next) in &mut queues {
            let answer = connection.call(&pull("tails-reader", queue, *next, 32)).map_err(failed)?;
            pulled += answer.body.len() as u64;
            *next = answer.number("nextBeginOffset").map_err(failed)?;
            if *next >= *max {
                *next = 0;
            }
        }
    }
    Ok(pulled)
}

fn writer(wish: &Wish, ground: &Ground) -> Result<bool, String> {
    let place = Place::start(wish, ground, "tails-writer", LONG_SEGMENT_BYTES)?;
    let path = place.dev.store().join("foreign");
    let disturb = |stop: &AtomicBool| {
        let started = Instant::now();
        let written = write_until(&path, stop).map_err(|error| format!("{}: {error}", path.display()))?;
        let took = started.elapsed().as_secs_f64();
        wait_for(stop);
        // What is still to be written of it is forgotten with it.
        fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(format!("{} MB written through the page cache in {took:.1} s", megabytes(written)))
    };
    Case::within("writer", &place, &disturb).run(wish.rounds, ground)
}

fn write_until(path: &std::path::Path, stop: &AtomicBool) -> std::io::Result<u64> {
    let mut file = File::create(path)?;
    let block = harness::patterned_body(WRITE_BYTES);
    let mut written = 0;
    while written < WRITER_BYTES_MAX && !stop.load(Ordering::Relaxed) {
        file.write_all(&block)?;
        written += block.len() as u64;
    }
    Ok(written)
}
