//! What is asked for on the command line.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use crate::plan::key::span;

/// Measures a broker: throughput and latency of sends, of catching up, and from end to end.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    pub mode: Mode,
}

#[derive(Debug, Subcommand)]
pub enum Mode {
    /// Carry out a plan, and leave its results in a folder.
    Run(RunArgs),
    /// List the plans that come with this program, and the keys of plans.
    Plans,
    /// Make a page of pictures of one run folder, or of several laid over each other.
    Report(ReportArgs),
    /// Compare two runs: what differs more than chance and noise explain. Exit code 5: something is worse.
    Compare(CompareArgs),
    /// Send messages: as many as the window allows, or at a rate.
    Send(SendArgs),
    /// Read a topic from its first message to the end it has now.
    Consume(ConsumeArgs),
    /// Send at a rate and consume at the tail: the time from when a message was due to its arrival.
    Tail(TailArgs),
    /// Start Apache RocketMQ and RingMQ here, measure them in turn, and print the table that is published.
    Peer(PeerArgs),
    /// Wait until a starting broker stores a message.
    Ready(ReadyArgs),
    /// Be a target that answers every send at once and stores nothing: shows what the generator itself can do.
    Canned(CannedArgs),
    /// Print medians, spread and ratios of the results of many runs.
    Summary(SummaryArgs),
}

/// The first address behind `host:port`, of IPv4 if it has one.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| format!("{error}; write host:port, such as 127.0.0.1:10911"))?;
    let mut found: Vec<SocketAddr> = found.collect();
    found.sort_by_key(|address| !address.is_ipv4());
    found.first().copied().ok_or_else(|| format!("{text} has no address"))
}

/// Encoding of request headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wire {
    Json,
    /// The peer calls it ROCKETMQ.
    Compact,
}

/// What is measured.
#[derive(Clone, Debug, ClapArgs)]
pub struct TargetArgs {
    /// Address of the broker, host:port.
    #[arg(long, default_value = "127.0.0.1:10911", value_parser = address)]
    pub broker: SocketAddr,
    /// Process of the broker on this machine, for its CPU time and memory.
    #[arg(long)]
    pub server_pid: Option<u32>,
    /// Name of the run in the result.
    #[arg(long, default_value = "")]
    pub label: String,
    /// Name of the target in the result; its address by default.
    #[arg(long)]
    pub target: Option<String>,
    /// Tell sends one by one that take longer, each with its stages at the target: 5ms, 800us.
    #[arg(long, value_name = "TIME", value_parser = time_with_unit)]
    pub trace_slower_than: Option<Duration>,
    /// Leave clients of an open loop at the priority of everything else; where permitted they have real-time priority, as if they
    /// had a machine of their own.
    #[arg(long)]
    pub no_real_time: bool,
    /// Leave the topics and groups that each phase makes for itself; otherwise it deletes them in its end.
    #[arg(long)]
    pub keep_topics: bool,
}

impl TargetArgs {
    /// Without anything that is not needed.
    pub(crate) fn of(broker: SocketAddr) -> TargetArgs {
        TargetArgs {
            broker,
            server_pid: None,
            label: String::new(),
            target: None,
            trace_slower_than: None,
            no_real_time: false,
            keep_topics: false,
        }
    }
}

fn time_with_unit(text: &str) -> Result<Duration, String> {
    let seconds = span(text).ok_or("a time has a unit: us, ms or s")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// The topic of a single phase.
#[derive(Clone, Debug, ClapArgs)]
pub struct TopicArgs {
    /// Topic; by default a new one of its own for each run. Nobody else may send to it meanwhile.
    #[arg(long)]
    pub topic: Option<String>,
    /// Queues of the topic.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub queues: u16,
    /// Do not make the topic: it is there, with that many queues.
    #[arg(long)]
    pub no_create: bool,
    /// Do not check the offsets of acknowledged messages: others send to the topic too.
    #[arg(long)]
    pub no_offset_check: bool,
    /// Encoding of request headers.
    #[arg(long, value_enum, default_value_t = Wire::Json)]
    pub wire: Wire,
    /// Set any key that a phase of a plan has (`ringmq bench plans` lists them); values with commas sweep it.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
}

/// How a run is shown and what is left of it.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct DeskArgs {
    /// Folder for the results; it must not exist.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Show each second as it passes.
    #[arg(long)]
    pub live: bool,
    /// Seed of all that is drawn: bodies, arrivals.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    /// A scenario's name, a TOML plan, or a workload (YAML) of the OpenMessaging Benchmark.
    pub plan: String,
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub desk: DeskArgs,
    /// Set a key in all phases that have a use for it; values with commas sweep it.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// Carry all phases out so often, one after the other and then again; by default as the plan says.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// A command for the shell, started after a third of each phase, that takes the broker away and brings it back.
    #[arg(long, value_name = "COMMAND")]
    pub outage_command: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct ReportArgs {
    /// Run folders.
    #[arg(required = true)]
    pub folders: Vec<PathBuf>,
    /// File for the page; by default report.html in the first folder.
    #[arg(long, short)]
    pub output: Option<PathBuf>,
    /// Folder for the page's pictures, an SVG file each.
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Folder for the page's pictures, a PNG file each (of a program that was built with `--features png`).
    #[arg(long, value_name = "DIR")]
    pub png: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub struct CompareArgs {
    /// A run folder, or the address of a broker.
    pub first: String,
    /// Another one of the same kind; it is the one that is judged.
    pub second: String,
    /// Of brokers: the plan that both are measured by.
    #[arg(long, default_value = "turns")]
    pub plan: String,
    /// Of brokers: rounds of each, in turn.
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=31))]
    pub rounds: u32,
    /// Of brokers: set a key in all phases that have a use for it.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    #[command(flatten)]
    pub desk: DeskArgs,
}

#[derive(Debug, ClapArgs)]
pub struct SendArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub topic: TopicArgs,
    #[command(flatten)]
    pub desk: DeskArgs,
    /// Connections.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub connections: u16,
    /// Messages in flight on each connection, without --rate; 64 by default.
    #[arg(long)]
    pub window: Option<u16>,
    /// Messages a second, at even distances whatever the answers do.
    #[arg(long)]
    pub rate: Option<u32>,
    /// With --rate: what is due within so many microseconds is due, and sent, together at its end; 200 by default. 0: each by
    /// itself.
    #[arg(long)]
    pub tick_us: Option<u32>,
    /// Bytes of a body.
    #[arg(long, default_value_t = 1024)]
    pub size: u32,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10.0)]
    pub duration: f64,
    /// Seconds before them that are not.
    #[arg(long, default_value_t = 3.0)]
    pub warmup: f64,
    /// Stop after so many messages, without --rate.
    #[arg(long)]
    pub messages: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub struct ConsumeArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub topic: TopicArgs,
    #[command(flatten)]
    pub desk: DeskArgs,
    /// Connections; each takes its share of the queues and has one pull in flight for each.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub connections: u16,
    /// Messages a pull may bring.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub pull_messages: u16,
    /// Seconds after which a run that is not through ends.
    #[arg(long, default_value_t = 120.0)]
    pub duration: f64,
}

#[derive(Debug, ClapArgs)]
pub struct TailArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub topic: TopicArgs,
    #[command(flatten)]
    pub desk: DeskArgs,
    /// Connections that send.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub connections: u16,
    /// Connections that pull.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub consumer_connections: u16,
    /// Messages a pull may bring.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub pull_messages: u16,
    /// Messages a second, at even distances whatever the answers do.
    #[arg(long, default_value_t = 5000)]
    pub rate: u32,
    /// What is due within so many microseconds is due, and sent, together at its end; 200 by default. 0: each by itself.
    #[arg(long)]
    pub tick_us: Option<u32>,
    /// Bytes of a body.
    #[arg(long, default_value_t = 1024)]
    pub size: u32,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10.0)]
    pub duration: f64,
    /// Seconds before them that are not.
    #[arg(long, default_value_t = 3.0)]
    pub warmup: f64,
}

#[derive(Debug, ClapArgs)]
pub struct PeerArgs {
    /// An unpacked distribution of Apache RocketMQ; by default that of ROCKETMQ_HOME, else what Maven fetches.
    #[arg(long, value_name = "DIR")]
    pub apache: Option<PathBuf>,
    /// Fetch Apache RocketMQ if it is not there, print the folder of its jars, and measure nothing.
    #[arg(long)]
    pub fetch: bool,
    /// Folder for tables, run folders and logs; it must not exist. By default bench-results/peer-TIME.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Rounds of each phase, alternating between the two.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=31))]
    pub rounds: u32,
    /// Only phases whose name begins so; `start` is the start of both. May be given several times.
    #[arg(long)]
    pub only: Vec<String>,
    /// Set a key in all phases that have a use for it.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// Heap of Apache's broker, and as much direct memory.
    #[arg(long, default_value = "2g")]
    pub heap: String,
    /// Seconds for which Apache's broker is warmed up before it is measured, since a JVM compiles while it runs; RingMQ too.
    #[arg(long, default_value_t = 25)]
    pub warm_up: u32,
    /// Ports of 127.0.0.1 that the servers may take.
    #[arg(long, value_name = "FIRST-LAST", default_value = "20000-31999", value_parser = port_range)]
    pub ports: RangeInclusive<u16>,
    /// Keep the stores.
    #[arg(long)]
    pub keep_stores: bool,
    /// Seed of all that is drawn.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Settings of RingMQ's broker beyond its defaults, KEY=VALUE.
    pub settings: Vec<String>,
}

fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let ends = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    ends.filter(|(first, last)| first < last && *first > 0)
        .map(|(first, last)| first..=last)
        .ok_or_else(|| "write two ports, such as 20000-20100".to_owned())
}

#[derive(Debug, ClapArgs)]
pub struct CannedArgs {
    /// Address to listen on, host:port; port 0 takes a free one. The address is printed. To be measured with `send
    /// --no-create --no-offset-check`.
    #[arg(long, default_value = "127.0.0.1:0", value_parser = address)]
    pub listen: SocketAddr,
    /// Answer so long after a request was read: 1ms, 500us. What is told of such a target shows whether the generator tells the
    /// truth.
    #[arg(long, value_name = "TIME", value_parser = time_with_unit)]
    pub delay: Option<Duration>,
}

#[derive(Debug, ClapArgs)]
pub struct ReadyArgs {
    /// Address of the broker, host:port.
    #[arg(long, default_value = "127.0.0.1:10911", value_parser = address)]
    pub broker: SocketAddr,
    /// Seconds after which it is given up.
    #[arg(long, default_value_t = 60)]
    pub time_max: u64,
    /// Milliseconds since 1970 at which the broker was started: the time until it is ready counts from there.
    #[arg(long)]
    pub since_ms: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub struct SummaryArgs {
    /// Results, a line of JSON each. Void runs are left out and counted.
    pub file: PathBuf,
}
