//! A phase: what is asked of one load on one topic. How it is carried out is in [`course`].

mod backlog;
mod caught_up;
pub(crate) mod course;
pub(crate) mod watch;

use std::path::PathBuf;
use std::time::Duration;

use base::Random;
use serde_json::{Map, Value, json};

use crate::clock::nanoseconds;
use crate::error::BenchError;
use crate::load::Drive;
use crate::open_loop::REQUESTS_MAX;
use crate::pace::Arrivals;
use crate::payload::{self, BODY_BYTES_MIN, Blank};
use crate::read::{POP_MESSAGES_MAX, POP_TOPICS_MAX, Way};
use crate::target::TopicForm;
use crate::template::Extras;

/// The largest body: that of a broker without configuration.
const BODY_BYTES_MAX: usize = 4 << 20;
/// Sizes that stand for a range of sizes.
const SIZES_OF_RANGE: usize = 64;
/// Payloads taken of those that are given; the others are left out.
const PAYLOADS_MAX: usize = 4096;
/// A file that ends so has a payload in each line.
const LINES_EXTENSION: &str = "jsonl";
/// Queues of all topics of a phase: each has a frame of its own, and a pull of each group.
const LANES_MAX: u32 = 1 << 17;
/// A message can be with a consumer for so long.
const INVISIBLE_MIN: Duration = Duration::from_secs(1);
const INVISIBLE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Requests whose due times can be drawn: 256 MiB of them.
const DRAWN_MAX: f64 = (1 << 25) as f64;

/// One load on one topic.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) topic: TopicForm,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    pub(crate) sends: Option<Sends>,
    pub(crate) reads: Option<Reads>,
    pub(crate) backlog: Option<Backlog>,
    /// As official clients do: heartbeats, and commits of offsets.
    pub(crate) has_duties: bool,
}

/// Messages that lie in the topic before a phase begins.
#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    pub(crate) messages: u64,
    /// What they are; how they are sent is not asked here.
    pub(crate) sends: Sends,
}

#[derive(Clone, Debug)]
pub(crate) struct Sends {
    pub(crate) connections: u16,
    pub(crate) pacing: Pacing,
    pub(crate) body: BodyForm,
    /// Messages of a request.
    pub(crate) batch: u16,
    pub(crate) extras: Extras,
}

/// What decides when a request is sent.
#[derive(Clone, Debug)]
pub(crate) enum Pacing {
    /// Answers: closed loop.
    Window { requests: u16, messages_max: Option<u64> },
    /// The time: open loop. Messages a second.
    Rate { rate: u32, shape: Shape, tick_us: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    Even,
    Poisson,
    /// To this rate at the end of the phase.
    Ramp {
        to: u32,
    },
    /// All in the first part of each cycle.
    Bursts {
        on: Duration,
        cycle: Duration,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum BodyForm {
    /// Bytes, from the one to the other.
    Sizes { min: u32, max: u32, random_share: f64 },
    /// A file, or a folder of files, each a payload, or one in each line.
    Payloads(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reads {
    /// Of those that read the backlog again and again it is always by pulls.
    pub(crate) way: Way,
    pub(crate) connections: u16,
    pub(crate) pull_messages: u16,
    /// Groups that each get everything.
    pub(crate) groups: u16,
    /// Groups that read the backlog again and again.
    pub(crate) cold_groups: u16,
    /// Of the messages those that a group sends back once.
    pub(crate) retry_share: Option<f64>,
    /// Of pops: what is not acknowledged comes again after it.
    pub(crate) invisible: Duration,
}

impl Phase {
    /// Its mode in results.
    pub(crate) fn mode(&self) -> &'static str {
        match (&self.sends, &self.reads) {
            (Some(_), Some(_)) => "tail",
            (None, _) => "consume",
            (Some(Sends { pacing: Pacing::Rate { .. }, .. }), None) => "send-open",
            (Some(_), None) => "send-closed",
        }
    }

    /// What was asked for, for people and for comparisons.
    pub(crate) fn config(&self) -> Map<String, Value> {
        let mut config = Map::new();
        let mut set = |name: &str, value: Value| {
            config.insert(name.to_owned(), value);
        };
        if self.topic.topics > 1 {
            set("topics", json!(self.topic.topics));
        }
        set("queues", json!(self.topic.queues));
        if self.has_duties {
            set("client_duties", json!(true));
        }
        set("wire", json!(format!("{:?}", self.topic.wire).to_lowercase()));
        if let Some(backlog) = &self.backlog {
            set("backlog", json!(backlog.messages));
        }
        if let Some(sends) = &self.sends {
            set("connections", json!(sends.connections));
            match &sends.body {
                BodyForm::Sizes { min, max, .. } if min == max => set("body_bytes", json!(min)),
                BodyForm::Sizes { min, max, .. } => set("body_bytes", json!([min, max])),
                BodyForm::Payloads(path) => set("payloads", json!(path.display().to_string())),
            }
            if sends.batch > 1 {
                set("batch", json!(sends.batch));
            }
            match &sends.pacing {
                Pacing::Window { requests, .. } => set("window", json!(requests)),
                Pacing::Rate { rate, shape, .. } => {
                    set("rate", json!(rate));
                    if *shape != Shape::Even {
                        set("arrivals", json!(format!("{shape:?}")));
                    }
                }
            }
            sends.extras.config().into_iter().for_each(|(name, value)| set(name, value));
        }
        if let Some(reads) = self.reads {
            let name = if self.sends.is_some() { "consumer_connections" } else { "connections" };
            set(name, json!(reads.connections));
            if reads.way == Way::Pop {
                set("consumers", json!("pop"));
                set("invisible_s", json!(reads.invisible.as_secs_f64()));
            }
            set("pull_messages", json!(reads.pull_messages));
            if let Some(share) = reads.retry_share {
                set("retry_share", json!(share));
            }
            for (name, count) in [("groups", reads.groups), ("cold_groups", reads.cold_groups)] {
                if count != u16::from(name == "groups") {
                    set(name, json!(count));
                }
            }
        }
        config
    }

    /// Whether it can be carried out at all.
    ///
    /// # Errors
    /// When values do not go together, with what would.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        if self.duration.is_zero() {
            return Err(usage("duration must be more than nothing"));
        }
        if self.sends.is_none() && self.backlog.is_none() && self.topic.create {
            return Err(usage("a phase that only consumes needs a backlog"));
        }
        if self.reads.is_some_and(|reads| reads.way == Way::Pop) {
            self.check_pops()?;
        }
        let Some(sends) = &self.sends else { return Ok(()) };
        if let BodyForm::Sizes { min, max, random_share } = sends.body {
            let allowed = BODY_BYTES_MIN..=BODY_BYTES_MAX;
            for size in [min, max] {
                if !allowed.contains(&(size as usize)) {
                    let (least, most) = (allowed.start(), allowed.end());
                    return Err(usage(&format!("a size of {size} is not within {least} and {most} bytes")));
                }
            }
            if min > max {
                return Err(usage(&format!("sizes go from {min} to {max}: the second must be the larger")));
            }
            if !(0.0..=1.0).contains(&random_share) {
                return Err(usage(&format!("random_share is {random_share}, a share between 0 and 1")));
            }
        }
        self.check_kinds(sends)?;
        let Pacing::Rate { rate, shape, .. } = sends.pacing else { return Ok(()) };
        let rate_max = match shape {
            Shape::Ramp { to } => rate.max(to),
            _ => rate,
        };
        if rate_max == 0 {
            return Err(usage("a rate must be at least 1 message a second"));
        }
        let seconds = (self.warmup + self.duration).as_secs_f64();
        let requests = seconds * f64::from(rate_max) / f64::from(sends.batch);
        let possible = if shape == Shape::Poisson { DRAWN_MAX } else { REQUESTS_MAX as f64 };
        if requests >= possible {
            return Err(usage(&format!("{requests:.0} requests in one phase; {possible:.0} are possible")));
        }
        match shape {
            Shape::Bursts { on, cycle } if on.is_zero() || on > cycle => {
                Err(usage("a burst must be longer than nothing and not longer than its cycle"))
            }
            _ => Ok(()),
        }
    }

    fn check_pops(&self) -> Result<(), BenchError> {
        let Some(Reads { pull_messages: messages, invisible, .. }) = self.reads else { return Ok(()) };
        if !(INVISIBLE_MIN..=INVISIBLE_MAX).contains(&invisible) {
            let (least, most) = (INVISIBLE_MIN.as_secs(), INVISIBLE_MAX.as_secs());
            let asked = invisible.as_secs_f64();
            return Err(usage(&format!("invisible is {asked} s, not within {least} and {most} s")));
        }
        if messages > POP_MESSAGES_MAX {
            return Err(usage(&format!(
                "a pop brings {POP_MESSAGES_MAX} messages at most: pull_messages is {messages}"
            )));
        }
        if self.topic.topics > POP_TOPICS_MAX {
            let topics = self.topic.topics;
            return Err(usage(&format!("{topics} topics; consumers that pop have {POP_TOPICS_MAX} at most")));
        }
        Ok(())
    }

    /// Kinds of messages that no client or broker has together.
    fn check_kinds(&self, sends: &Sends) -> Result<(), BenchError> {
        let Extras { delay_ms, zlib, commit_share, ordered_keys, .. } = sends.extras;
        let lanes = u32::from(self.topic.topics) * u32::from(self.topic.queues);
        let (batch, delay, ordered) = (sends.batch > 1, delay_ms.is_some(), ordered_keys.is_some());
        let half = commit_share.is_some();
        let has_backlog = self.backlog.is_some();
        // The consumers of the load read the backlog first.
        let caught_up = has_backlog && self.reads.is_some_and(|reads| reads.cold_groups == 0);
        let pops = self.reads.is_some_and(|reads| reads.way == Way::Pop);
        let resends = self.reads.is_some_and(|reads| reads.retry_share.is_some());
        let wrong = [
            (batch && delay, "the messages of a batch cannot be delayed: leave out batch or delay"),
            (batch && zlib, "batches are not compressed by any client: leave out batch or compression"),
            (batch && half, "the messages of a batch cannot be half messages: leave out batch or transactions"),
            (delay && half, "half messages cannot be delayed: leave out delay or transactions"),
            (delay && ordered, "delayed messages have no order: leave out delay or ordered_keys"),
            (half && ordered, "transactions end in any order: leave out transactions or ordered_keys"),
            (ordered && has_backlog, "the order of a load is not that of a backlog: leave out backlog or ordered_keys"),
            (ordered && pops, "pops keep no order: leave out ordered_keys or consumers"),
            (
                resends && pops,
                "what is popped is not sent back, but comes again unless it is acknowledged: leave out retry_share or consumers",
            ),
            (
                caught_up && resends,
                "messages of a backlog have the numbers of the load: leave out backlog or retry_share",
            ),
            (
                caught_up && commit_share.is_some_and(|share| share < 1.0),
                "a backlog is not rolled back: leave out backlog or commit_share",
            ),
            (lanes > LANES_MAX, "topics times queues are more than the 131,072 that one phase can have"),
        ];
        wrong.into_iter().find(|(is_wrong, _)| *is_wrong).map_or(Ok(()), |(_, what)| Err(usage(what)))
    }
}

impl Sends {
    pub(crate) fn drive(&self, phase_span: Duration, random: &mut Random) -> Drive {
        match self.pacing {
            Pacing::Window { requests, messages_max } => {
                let requests_max = messages_max.map_or(u64::MAX, |count| count.div_ceil(self.batch.into()));
                Drive::Window { requests: requests.into(), requests_max }
            }
            Pacing::Rate { rate, shape, tick_us } => {
                let a_second = |messages: u32| f64::from(messages) / f64::from(self.batch);
                let (rate, span_ns) = (a_second(rate), nanoseconds(phase_span));
                let arrivals = match shape {
                    Shape::Even => Arrivals::Even { rate },
                    Shape::Poisson => Arrivals::poisson(rate, span_ns, random),
                    Shape::Ramp { to } => Arrivals::Ramp { from: rate, to: a_second(to), span_ns },
                    Shape::Bursts { on, cycle } => {
                        Arrivals::Bursts { rate, on_ns: nanoseconds(on), cycle_ns: nanoseconds(cycle) }
                    }
                };
                Drive::Rate { arrivals, tick_ns: u64::from(tick_us) * 1000 }
            }
        }
    }

    /// The bodies that messages take.
    ///
    /// # Errors
    /// When a payload cannot be read.
    pub(crate) fn bodies(&self, random: &mut Random) -> Result<Vec<Blank>, BenchError> {
        match &self.body {
            BodyForm::Sizes { min, max, random_share } => {
                let count = if min == max { 1 } else { SIZES_OF_RANGE.min((max - min + 1) as usize) };
                let size = |index: usize| *min as usize + (max - min) as usize * index / (count - 1).max(1);
                Ok((0..count).map(|index| payload::blank(size(index), *random_share, random)).collect())
            }
            BodyForm::Payloads(path) => payloads(path),
        }
    }
}

fn payloads(path: &PathBuf) -> Result<Vec<Blank>, BenchError> {
    let failed = |path: &PathBuf, source| BenchError::Payloads { path: path.display().to_string(), source };
    let mut files = if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|error| failed(path, error))?;
        entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(|path| path.is_file()).collect()
    } else {
        vec![path.clone()]
    };
    files.sort();
    files.truncate(PAYLOADS_MAX);
    let mut bodies = Vec::new();
    for file in files {
        let bytes = std::fs::read(&file).map_err(|error| failed(&file, error))?;
        let is_of_lines = file.extension().is_some_and(|extension| extension == LINES_EXTENSION);
        let parts: Vec<&[u8]> = match is_of_lines {
            true => bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect(),
            false => vec![&bytes],
        };
        for part in parts.into_iter().take(PAYLOADS_MAX - bodies.len()) {
            if part.len() > BODY_BYTES_MAX - BODY_BYTES_MIN {
                return Err(usage(&format!("{} has {} bytes, too many for a message", file.display(), part.len())));
            }
            bodies.push(Blank::around(part));
        }
    }
    if bodies.is_empty() {
        return Err(usage(&format!("{} has nothing to take as payloads", path.display())));
    }
    Ok(bodies)
}

pub(crate) fn usage(what: &str) -> BenchError {
    BenchError::Usage { what: what.to_owned() }
}

/// # Errors
/// When it is no span of time.
pub(crate) fn seconds(name: &str, seconds: f64) -> Result<Duration, BenchError> {
    Duration::try_from_secs_f64(seconds).map_err(|_| usage(&format!("{name} is {seconds}, not a number of seconds")))
}
