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
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::frame::Frame;
use harness::limits::{raise_open_files, resident_bytes};
use harness::process::{Dev, Running};
use harness::producer::{First, Load, Producer, command};
use harness::program;
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
/// What the producer does in each span.
const LOAD: Load = Load { rate: 5000, span: Duration::from_secs(25), warmup: Duration::from_secs(1), body_bytes: 1024 };
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
    program::exit_code(run(&wish))
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
    println!("producer and its broker go first on their CPUs: {}", if first.is_anybody() { "yes" } else { "no" });
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
        LOAD.start(self.first, &self.dev.broker, &[])
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
        let end = Instant::now() + LOAD.warmup + LOAD.span;
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
