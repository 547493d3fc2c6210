//! `crowd [--groups N] [--topics N]`: consumers of many groups, each subscribed to many topics, come and go in waves,
//! while a producer sends at a steady rate.
//!
//! Each wave tells how long it took until every member that stays knew of it and was told who is there, which must not
//! be longer than [`SETTLED_WITHIN`]. The figures of the producer and the broker's memory are printed, not judged.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::frame::Frame;
use harness::limits::{raise_open_files, resident_bytes};
use harness::process::{Dev, Running};
use harness::request::{CONSUMER_LIST, MEMBERS_CHANGED, create_topic, heartbeat_of};
use serde_json::Value;

const GROUPS: u32 = 1000;
const TOPICS: u32 = 100;
const MEMBERS: u32 = 2;
/// Threads that act for the consumers, each for an equal share of the groups.
const THREADS: u32 = 64;
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
/// The producer's rate and how long it sends in calm and beside the waves.
const RATE: &str = "5000";
const CALM_SECONDS: &str = "10";
const CROWDED_SECONDS: &str = "25";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().ok();
    let (groups, topics) = match words.as_slice() {
        [] => (Some(GROUPS), Some(TOPICS)),
        ["--groups", groups, "--topics", topics] => (number(groups), number(topics)),
        _ => (None, None),
    };
    let (Some(groups), Some(topics)) = (groups, topics) else {
        eprintln!("usage: crowd [--groups N --topics N]");
        return ExitCode::from(2);
    };
    match run(groups, topics) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            println!("FAIL {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(groups: u32, topics: u32) -> Result<bool, String> {
    raise_open_files(u64::from(groups * MEMBERS) + 500)?;
    let dev = Dev::new("crowd").property("flushDiskType=ASYNC_FLUSH").property("mapedFileSizeCommitLog=67108864");
    let broker = dev.try_start()?;
    let mut connection = Connection::open(&dev.broker).map_err(|error| format!("connect: {error}"))?;
    let topics: Vec<String> = (0..topics).map(|topic| format!("crowd-{topic}")).collect();
    for topic in &topics {
        connection.call_ok(&create_topic(topic, 8)).map_err(|error| format!("{topic}: {error}"))?;
    }
    let calm = figures(producer(&dev, CALM_SECONDS)?)?;
    tell_memory(&broker, "before the crowd");
    let load = producer(&dev, CROWDED_SECONDS)?;
    let subscriptions: Vec<Subscription<'_>> = topics.iter().map(|topic| (&**topic, "*", 1)).collect();
    let mut is_settled = true;
    let mut crowd: Vec<Group> = (0..groups).map(Group::new).collect();
    for (wave, act) in [
        ("the first members come", Group::first_comes as Act),
        ("the second members come", Group::second_comes),
        ("the first members leave", Group::first_leaves),
        ("new members come", Group::second_comes),
    ] {
        let begun = Instant::now();
        let outcome = on_threads(&mut crowd, &|group| act(group, &dev.broker, &subscriptions));
        let took = begun.elapsed();
        outcome.map_err(|error| format!("{wave}: {error}"))?;
        println!("{wave}: settled in {:.2} s", took.as_secs_f64());
        is_settled &= took <= SETTLED_WITHIN;
    }
    tell_memory(&broker, "with the crowd");
    let crowded = figures(load)?;
    println!("producer, calm:          {calm}");
    println!("producer, beside crowds: {crowded}");
    drop(crowd);
    Ok(is_settled)
}

/// Topic, tags and version.
type Subscription<'a> = (&'a str, &'a str, u64);
type Act = fn(&mut Group, &str, &[Subscription<'_>]) -> io::Result<()>;

/// The members of one group that are there.
struct Group {
    name: String,
    members: Vec<(String, Connection)>,
    came: u32,
}

impl Group {
    fn new(number: u32) -> Group {
        Group { name: format!("crowd-group-{number}"), members: Vec::new(), came: 0 }
    }

    fn first_comes(&mut self, broker: &str, subscriptions: &[Subscription<'_>]) -> io::Result<()> {
        self.join(broker, subscriptions)
    }

    fn second_comes(&mut self, broker: &str, subscriptions: &[Subscription<'_>]) -> io::Result<()> {
        self.join(broker, subscriptions)?;
        self.settle()
    }

    fn first_leaves(&mut self, _broker: &str, _subscriptions: &[Subscription<'_>]) -> io::Result<()> {
        drop(self.members.remove(0));
        self.settle()
    }

    fn join(&mut self, broker: &str, subscriptions: &[Subscription<'_>]) -> io::Result<()> {
        let client = format!("{}@{}", self.name, self.came);
        self.came += 1;
        let mut connection = Connection::open(broker)?;
        connection.call_ok(&heartbeat_of(&client, &self.name, "CLUSTERING", subscriptions))?;
        self.members.push((client, connection));
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

/// An open-loop producer, which is a process of its own.
fn producer(dev: &Dev, seconds: &str) -> Result<Child, String> {
    Command::new(harness::program::path())
        .args(["bench", "send", "--broker", &dev.broker, "--rate", RATE, "--warmup", "1", "--duration", seconds])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("the producer cannot be started: {error}"))
}

fn figures(producer: Child) -> Result<String, String> {
    let output = producer.wait_with_output().map_err(|error| format!("the producer: {error}"))?;
    let run: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("the producer's run: {error}"))?;
    let figure = |name: &str| run["figures"]["latency_us"][name].as_f64().unwrap_or(f64::NAN) / 1000.0;
    Ok(format!("p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms", figure("p50"), figure("p99"), figure("p99_9")))
}

fn tell_memory(broker: &Running, when: &str) {
    if let Some(bytes) = resident_bytes(broker.pid()) {
        println!("the broker's memory {when}: {} MiB", bytes >> 20);
    }
}
