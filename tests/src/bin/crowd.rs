//! `crowd [--groups N --topics N] [--rounds N]`: consumers of many groups, each subscribed to many topics, come and go
//! in waves, while a producer sends at a steady rate.
//!
//! A round has three spans of equal length, in each of which the same producer sends to the same broker. **Calm**: there
//! is nobody else. **Control**: the crowd is at another broker of the same machine, which so does all that a crowd takes,
//! for its driver, the kernel and a broker, but nothing of it on the threads of the producer's broker. **Crowded**: the
//! crowd is at the producer's broker. What the crowd costs because it is at the same broker is the crowded p99 beside
//! the larger of the two others; where the driver has machines of its own the control is as the calm span, and that is
//! the p99 beside the calm one. Both are printed. Judged is the median of the rounds' ratios of the first kind, and it
//! must not be above [`RATIO_MAX`].
//!
//! Where this process may give real-time priority (`chrt`, as root), the producer goes before its broker, and that before
//! all others: neither the crowd nor the other broker, which would be elsewhere, then takes CPU that those want, and the
//! broker none that the producer wants, which would be elsewhere too.
//!
//! A wave begins each [`WAVE_EVERY`], or when the one before it has settled: when every member that stays knows of it
//! and was told who is there, which must not take longer than [`SETTLED_WITHIN`] at the producer's broker. Each span with
//! a crowd begins with groups that the broker has never seen. Memory is told of the broker that no producer fills with
//! messages.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::frame::Frame;
use harness::limits::{raise_open_files, resident_bytes};
use harness::process::{Dev, Running};
use harness::request::{CONSUMER_LIST, HEARTBEAT, MEMBERS_CHANGED, create_topic, heartbeat_of};
use serde_json::Value;

const GROUPS: u32 = 1000;
const TOPICS: u32 = 100;
const ROUNDS: u32 = 3;
const MEMBERS: u32 = 2;
/// Threads that act for the consumers, each for an equal share of the groups.
const THREADS: u32 = 64;
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
const WAVE_EVERY: Duration = Duration::from_secs(2);
/// The producer's rate, and how long it is measured in each span, after a second of warming up.
const RATE: &str = "5000";
const SPAN: Duration = Duration::from_secs(25);
const WARMUP: Duration = Duration::from_secs(1);
/// How much larger the producer's p99 may be beside a crowd.
const RATIO_MAX: f64 = 2.0;
/// Stand for the names in the heartbeat that all members send.
const ANY_CLIENT: &str = "any-client";
const ANY_GROUP: &str = "any-group";

struct Wish {
    groups: u32,
    topics: u32,
    rounds: u32,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(wish) = wish(&arguments) else {
        eprintln!("usage: crowd [--groups N] [--topics N] [--rounds N]");
        return ExitCode::from(2);
    };
    match run(&wish) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            println!("FAIL {reason}");
            ExitCode::FAILURE
        }
    }
}

fn wish(arguments: &[String]) -> Option<Wish> {
    let mut wish = Wish { groups: GROUPS, topics: TOPICS, rounds: ROUNDS };
    for pair in arguments.chunks(2) {
        let [name, number] = pair else { return None };
        let field = match name.as_str() {
            "--groups" => &mut wish.groups,
            "--topics" => &mut wish.topics,
            "--rounds" => &mut wish.rounds,
            _ => return None,
        };
        *field = number.parse().ok().filter(|number| *number > 0)?;
    }
    Some(wish)
}

fn run(wish: &Wish) -> Result<bool, String> {
    raise_open_files(u64::from(wish.groups * MEMBERS) + 500)?;
    let topics: Vec<String> = (0..wish.topics).map(|topic| format!("crowd-{topic}")).collect();
    let first = First::allowed();
    println!("producer and its broker go first on their CPUs: {}", if first.broker.is_empty() { "no" } else { "yes" });
    let measured = Place::start("crowd", &topics, first)?;
    let other = Place::start("crowd-other", &topics, First::NOBODY)?;
    let crowd = Crowd { groups: wish.groups, heartbeat: heartbeat(&topics) };
    tell_memory(&other, "before a crowd");
    let (mut ratios, mut slowest) = (Vec::new(), Duration::ZERO);
    for round in 0..wish.rounds {
        let calm = measured.produce()?.figures()?;
        println!("round {round}: calm     {calm}");
        let producer = measured.produce()?;
        crowd.come_and_go(&other, &format!("control-{round}"))?;
        let control = producer.figures()?;
        println!("round {round}: control  {control}");
        let producer = measured.produce()?;
        slowest = slowest.max(crowd.come_and_go(&measured, &format!("crowded-{round}"))?);
        let crowded = producer.figures()?;
        println!("round {round}: crowded  {crowded}");
        let ratio = crowded.p99 / calm.p99.max(control.p99);
        println!("round {round}: p99 {ratio:.2} x, {:.2} x the calm one", crowded.p99 / calm.p99);
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!(
        "waves beside the producer settled within {:.2} s; p99 {median:.2} x, median of the rounds",
        slowest.as_secs_f64()
    );
    Ok(median <= RATIO_MAX && slowest <= SETTLED_WITHIN)
}

/// What the commands of the producer and of its broker begin with.
#[derive(Clone, Copy)]
struct First {
    producer: &'static [&'static str],
    broker: &'static [&'static str],
}

impl First {
    const NOBODY: First = First { producer: &[], broker: &[] };

    /// Real-time priorities, where they are allowed.
    fn allowed() -> First {
        const WANTED: First = First { producer: &["chrt", "--rr", "2"], broker: &["chrt", "--rr", "1"] };
        let tried = command(WANTED.producer).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if tried.is_ok_and(|status| status.success()) { WANTED } else { First::NOBODY }
    }
}

/// The program, behind other words.
fn command(before: &[&str]) -> Command {
    let program = harness::program::path();
    match before {
        [] => Command::new(program),
        [name, more @ ..] => {
            let mut command = Command::new(name);
            command.args(more).arg(program);
            command
        }
    }
}

/// A broker.
struct Place {
    dev: Dev,
    running: Running,
    first: First,
}

impl Place {
    fn start(stem: &str, topics: &[String], first: First) -> Result<Place, String> {
        let dev = Dev::new(stem).property("flushDiskType=ASYNC_FLUSH").property("mapedFileSizeCommitLog=67108864");
        let mut broker = command(first.broker);
        broker.args(dev.arguments());
        let running = Running::start_command(broker);
        running.await_ready()?;
        let mut connection = Connection::open(&dev.broker).map_err(|error| format!("connect: {error}"))?;
        for topic in topics {
            connection.call_ok(&create_topic(topic, 8)).map_err(|error| format!("{topic}: {error}"))?;
        }
        Ok(Place { dev, running, first })
    }

    fn produce(&self) -> Result<Producer, String> {
        let (warmup, span) = (WARMUP.as_secs().to_string(), SPAN.as_secs().to_string());
        let child = command(self.first.producer)
            .args(["bench", "send", "--broker", &self.dev.broker, "--rate", RATE])
            .args(["--warmup", &warmup, "--duration", &span])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("the producer cannot be started: {error}"))?;
        Ok(Producer { child })
    }
}

/// An open-loop producer, which is a process of its own.
struct Producer {
    child: Child,
}

/// In milliseconds.
struct Figures {
    p50: f64,
    p99: f64,
    p999: f64,
}

impl Producer {
    fn figures(self) -> Result<Figures, String> {
        let output = self.child.wait_with_output().map_err(|error| format!("the producer: {error}"))?;
        let run: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| format!("the producer's run: {error}"))?;
        let figure = |name: &str| {
            let micros = run["figures"]["latency_us"][name].as_f64();
            micros.map(|micros| micros / 1000.0).ok_or_else(|| format!("the producer's run has no {name}: {run}"))
        };
        Ok(Figures { p50: figure("p50")?, p99: figure("p99")?, p999: figure("p99_9")? })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms", self.p50, self.p99, self.p999)
    }
}

fn tell_memory(place: &Place, when: &str) -> u64 {
    let bytes = resident_bytes(place.running.pid()).unwrap_or(0);
    println!("memory of the broker without a producer {when}: {} MiB", bytes >> 20);
    bytes
}

/// What all members of a crowd send, with [`ANY_CLIENT`] and [`ANY_GROUP`] in it: made once, so that the driver takes
/// as little of the machine as it can.
fn heartbeat(topics: &[String]) -> String {
    let subscriptions: Vec<(&str, &str, u64)> = topics.iter().map(|topic| (&**topic, "*", 1)).collect();
    let frame = heartbeat_of(ANY_CLIENT, ANY_GROUP, "CLUSTERING", &subscriptions);
    String::from_utf8(frame.body).expect("a heartbeat is JSON")
}

struct Crowd {
    groups: u32,
    heartbeat: String,
}

type Act = fn(&mut Group, &str, &str) -> io::Result<()>;

const WAVES: [(&str, Act); 5] = [
    ("the first members come", Group::first_comes),
    ("the second members come", Group::second_comes),
    ("the first members leave", Group::first_leaves),
    ("new members come", Group::second_comes),
    ("all leave", Group::all_leave),
];

impl Crowd {
    /// Waves at a broker for as long as a producer is measured. What the slowest has taken.
    fn come_and_go(&self, place: &Place, name: &str) -> Result<Duration, String> {
        let end = Instant::now() + WARMUP + SPAN;
        let before = resident_bytes(place.running.pid()).unwrap_or(0);
        let mut groups: Vec<Group> = (0..self.groups).map(|number| Group::new(name, number)).collect();
        let mut most = Duration::ZERO;
        for (number, (wave, act)) in WAVES.iter().cycle().enumerate() {
            let begun = Instant::now();
            if begun + WAVE_EVERY > end {
                break;
            }
            on_threads(&mut groups, &|group| act(group, &place.dev.broker, &self.heartbeat))
                .map_err(|error| format!("{wave}: {error}"))?;
            let took = begun.elapsed();
            most = most.max(took);
            if number < WAVES.len() {
                println!("{name}: {wave}: settled in {:.2} s", took.as_secs_f64());
            }
            if number + 2 == WAVES.len() && name == "control-0" {
                let more = tell_memory(place, "with a crowd").saturating_sub(before);
                println!("that is {} KiB a connection", (more >> 10) / u64::from(self.groups * MEMBERS));
            }
            thread::sleep((begun + WAVE_EVERY).min(end).saturating_duration_since(Instant::now()));
        }
        println!("{name}: the slowest wave settled in {:.2} s", most.as_secs_f64());
        Ok(most)
    }
}

/// The members of one group that are there.
struct Group {
    name: String,
    members: Vec<(String, Connection)>,
    came: u32,
}

impl Group {
    fn new(crowd: &str, number: u32) -> Group {
        Group { name: format!("{crowd}-{number}"), members: Vec::new(), came: 0 }
    }

    fn first_comes(&mut self, broker: &str, heartbeat: &str) -> io::Result<()> {
        let client = format!("{}@{}", self.name, self.came);
        self.came += 1;
        let mut connection = Connection::open(broker)?;
        let body = heartbeat.replacen(ANY_CLIENT, &client, 1).replacen(ANY_GROUP, &self.name, 1);
        connection.call_ok(&Frame::request(HEARTBEAT).body(body))?;
        self.members.push((client, connection));
        Ok(())
    }

    fn second_comes(&mut self, broker: &str, heartbeat: &str) -> io::Result<()> {
        self.first_comes(broker, heartbeat)?;
        self.settle()
    }

    fn first_leaves(&mut self, _broker: &str, _heartbeat: &str) -> io::Result<()> {
        drop(self.members.remove(0));
        self.settle()
    }

    fn all_leave(&mut self, _broker: &str, _heartbeat: &str) -> io::Result<()> {
        self.members.clear();
        Ok(())
    }

    /// The member that was there before hears that its group has changed, and then finds out who is there. It may have
    /// heard of an older change first.
    fn settle(&mut self) -> io::Result<()> {
        let expected: BTreeSet<String> = self.members.iter().map(|(client, _)| client.clone()).collect();
        let (_, connection) = &mut self.members[0];
        loop {
            while connection.receive()?.code != MEMBERS_CHANGED {}
            let answer = connection.call_ok(&Frame::request(CONSUMER_LIST).field("consumerGroup", &self.name))?;
            let body: Value = serde_json::from_slice(&answer.body).map_err(io::Error::other)?;
            let ids = body["consumerIdList"].as_array().cloned().unwrap_or_default();
            let found: BTreeSet<String> = ids.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            if found == expected {
                return Ok(());
            }
        }
    }
}

fn on_threads(crowd: &mut [Group], act: &(impl Fn(&mut Group) -> io::Result<()> + Sync)) -> io::Result<()> {
    let share = crowd.len().div_ceil(THREADS as usize).max(1);
    thread::scope(|scope| {
        let threads: Vec<_> =
            crowd.chunks_mut(share).map(|groups| scope.spawn(move || groups.iter_mut().try_for_each(act))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread of the crowd does not panic"))
    })
}
