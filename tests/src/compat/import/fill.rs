//! Fills a broker with every kind of message.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::connection::Connection;
use crate::frame::Frame;
use crate::now_ms;
use crate::pop::{Popped, pop};
use crate::request::{
    MAX_OFFSET, MIN_OFFSET, Queue, UPDATE_GROUP, about_queue, await_count, commit_offset, create_topic, heartbeat,
    heartbeat_of, offset_of, read_queue, recall, send, send_back,
};
use crate::transaction::{COMMIT, Half, ROLLBACK, half};

const SEND_BATCH: i32 = 320;
const DELETE_TOPIC: i32 = 215;
const FORBID: i32 = 353;
const CONFIG: i32 = 25;
const DELETE_EXPIRED: i32 = 329;

/// Queues of each of the wide topics.
const WIDE_QUEUES: u32 = 1000;
const WIDE: [&str; 2] = ["Import-wide-1", "Import-wide-2"];
/// The level and the time after which what waits comes. Longer than the import and all around it.
const LEVEL_LATER: u32 = 3;
const LATER_MS: u64 = 240_000;
const LEVEL_NOW: u32 = 1;
const EXPIRED_WITHIN: Duration = Duration::from_secs(150);
const OFFSETS_SAVED_EVERY: Duration = Duration::from_secs(6);

/// A topic whose batches are stored as one record each; not compared, as Apache gives them out so too.
pub const INNER: &str = "Inner-batches";
pub const GROUP: &str = "Import-group";
pub const POP_GROUP: &str = "Import-poppers";

/// What is to come, or not to come, once the store has been imported.
#[derive(Debug, Default)]
pub struct Filled {
    /// Queue, body, and when it is due.
    pub waiting: Vec<(Queue, String, u64)>,
    pub half_topic: String,
    pub pop_topic: String,
    /// Bodies of the messages that were popped and not acknowledged.
    pub unacknowledged: Vec<String>,
}

/// # Errors
/// When the broker refuses something.
pub fn fill(broker: &str) -> Result<Filled, String> {
    let mut connection = super::open(broker)?;
    let mut filler = Filler { connection: &mut connection, filled: Filled::default() };
    filler.fill(broker).map_err(|error| format!("filling: {error}"))?;
    Ok(filler.filled)
}

struct Filler<'a> {
    connection: &'a mut Connection,
    filled: Filled,
}

impl Filler<'_> {
    fn fill(&mut self, broker: &str) -> io::Result<()> {
        self.connection.call_ok(&heartbeat("import-client", GROUP))?;
        let step = |what: &'static str| move |error: io::Error| io::Error::other(format!("{what}: {error}"));
        self.begin_behind_zero().map_err(step("the oldest files"))?;
        self.many_queues().map_err(step("many queues"))?;
        self.plain_and_batches(broker).map_err(step("plain messages"))?;
        self.made_again().map_err(step("a topic made again"))?;
        self.settings().map_err(step("settings"))?;
        self.retries().map_err(step("retries"))?;
        self.transactions().map_err(step("transactions"))?;
        self.pops().map_err(step("pops"))?;
        self.later().map_err(step("later messages"))?;
        // Progress is saved from time to time only.
        thread::sleep(OFFSETS_SAVED_EVERY);
        Ok(())
    }

    fn topic(&mut self, topic: &str, queues: u32) -> io::Result<()> {
        self.connection.call_ok(&create_topic(topic, queues)).map(|_| ())
    }

    fn send(&mut self, queue: &Queue, body: impl Into<Vec<u8>>, properties: &str) -> io::Result<()> {
        self.connection.call_ok(&send(queue, body, properties)).map(|_| ())
    }

    /// Files of the log, and with them the first messages of some queues, or all of them.
    fn begin_behind_zero(&mut self) -> io::Result<()> {
        self.topic("Import-old", 4)?;
        self.topic("Import-gone", 2)?;
        for number in 0..2600_u32 {
            let body = format!("old {number} {}", "x".repeat(4000));
            self.send(&Queue::new("Import-old", number % 4), body, &format!("KEYS\u{1}old{number}\u{2}"))?;
            if number < 100 {
                self.send(&Queue::new("Import-gone", number % 2), format!("gone {number}"), "")?;
            }
        }
        let (config, keep) = (Frame::request(CONFIG).body("fileReservedTime=0"), "fileReservedTime=72");
        self.connection.call_ok(&config)?;
        self.connection.call_ok(&Frame::request(DELETE_EXPIRED))?;
        let deadline = Instant::now() + EXPIRED_WITHIN;
        let gone = Queue::new("Import-gone", 0);
        while offset_of(self.connection, MIN_OFFSET, &Queue::new("Import-old", 0))? == 0
            || offset_of(self.connection, MIN_OFFSET, &gone)? < offset_of(self.connection, MAX_OFFSET, &gone)?
        {
            if Instant::now() > deadline {
                return Err(io::Error::other("no file of the log was deleted"));
            }
            thread::sleep(Duration::from_millis(200));
        }
        self.connection.call_ok(&Frame::request(CONFIG).body(keep))?;
        Ok(())
    }

    fn many_queues(&mut self) -> io::Result<()> {
        for topic in WIDE {
            self.topic(topic, WIDE_QUEUES)?;
            for id in 0..WIDE_QUEUES {
                // Apache closes connections of whom it has not heard for two minutes.
                if id % 100 == 0 {
                    self.connection.call_ok(&heartbeat("import-client", GROUP))?;
                }
                for number in 0..1 + id % 3 {
                    self.send(&Queue::new(topic, id), format!("wide {id} {number}"), "TAGS\u{1}wide\u{2}")?;
                }
            }
        }
        Ok(())
    }

    fn plain_and_batches(&mut self, broker: &str) -> io::Result<()> {
        let topic = "Import-plain";
        self.topic(topic, 4)?;
        for number in 0..400_u32 {
            let properties = format!("TAGS\u{1}t{}\u{2}KEYS\u{1}k{number} all\u{2}own\u{1}ä{number}\u{2}", number % 3);
            let body = vec![b'a' + (number % 26) as u8; 1 + (number as usize * 37) % 9000];
            self.send(&Queue::new(topic, number % 4), body, &properties)?;
        }
        for id in 0..4 {
            self.connection.call_ok(&batch(&Queue::new(topic, id), 20))?;
        }
        // A producer with an address of the newer kind, if this machine has any.
        let port = broker.rsplit(':').next().unwrap_or_default();
        match Connection::open(&format!("[::1]:{port}")) {
            Ok(mut newer) => newer.call_ok(&send(&Queue::new(topic, 0), "from IPv6", "")).map(|_| ())?,
            Err(error) => eprintln!("LEFT OUT a producer with an IPv6 address: {error}"),
        }
        for id in 0..4 {
            self.connection.call_ok(&commit_offset(GROUP, &Queue::new(topic, id), u64::from(id) * 7))?;
        }
        let inner = create_topic(INNER, 2).field("attributes", "+queue.type=BatchCQ");
        self.connection.call_ok(&inner)?;
        for _ in 0..3 {
            let batch = batch(&Queue::new(INNER, 1), 5);
            self.connection.call_ok(&batch.field("i", format!("UNIQ_KEY\u{1}{:032X}\u{2}", now_ms())))?;
        }
        Ok(())
    }

    /// A topic that was deleted and made again: what it had before is in the log still.
    fn made_again(&mut self) -> io::Result<()> {
        for life in ["first", "second"] {
            self.topic("Import-again", 2)?;
            for number in 0..30 {
                self.send(&Queue::new("Import-again", number % 2), format!("{life} life {number}"), "")?;
            }
            await_count(self.connection, &Queue::new("Import-again", 1), 15);
            if life == "first" {
                self.connection.call_ok(&Frame::request(DELETE_TOPIC).field("topic", "Import-again"))?;
            }
        }
        self.topic("Import-deleted", 1)?;
        self.send(&Queue::new("Import-deleted", 0), "of a topic that is gone", "")?;
        self.connection.call_ok(&Frame::request(DELETE_TOPIC).field("topic", "Import-deleted"))?;
        Ok(())
    }

    fn settings(&mut self) -> io::Result<()> {
        let topic = create_topic("Import-readonly", 3).field("perm", 4).field("order", true).field("writeQueueNums", 2);
        self.connection.call_ok(&topic)?;
        let typed = create_topic("Import-fifo", 5).field("attributes", "+message.type=FIFO");
        self.connection.call_ok(&typed)?;
        let group = json!({
            "groupName": "Import-limited", "retryMaxTimes": 3, "retryQueueNums": 2, "consumeBroadcastEnable": false,
            "consumeMessageOrderly": true, "consumeTimeoutMinute": 7,
            "groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1000, "max": 60000, "multiplier": 2}},
        });
        self.connection.call_ok(&Frame::request(UPDATE_GROUP).body(group.to_string()))?;
        let forbid = Frame::request(FORBID).field("group", "Import-limited").field("topic", "Import-plain");
        self.connection.call_ok(&forbid.field("readable", false))?;
        Ok(())
    }

    /// Messages that come again at once, later, and never.
    fn retries(&mut self) -> io::Result<()> {
        let records = read_queue(self.connection, &Queue::new("Import-plain", 1), 0)?;
        let due = now_ms() + LATER_MS;
        for (record, level) in records.iter().zip([LEVEL_NOW as i32, LEVEL_LATER as i32, -1]) {
            self.connection.call_ok(&send_back(GROUP, record.physical_offset, level))?;
        }
        let retry = Queue::new(&format!("%RETRY%{GROUP}"), 0);
        await_count(self.connection, &retry, 1);
        let body = String::from_utf8_lossy(&records[1].body).into_owned();
        self.filled.waiting.push((retry, body, due));
        Ok(())
    }

    fn transactions(&mut self) -> io::Result<()> {
        let topic = "Import-halves";
        self.topic(topic, 4)?;
        let queue = Queue::new(topic, 2);
        for (body, end) in [("committed", Some(COMMIT)), ("rolled back", Some(ROLLBACK)), ("pending", None)] {
            let half = Half::of(&self.connection.call(&half(&queue, body, ""))?)?;
            if let Some(end) = end {
                self.connection.call_ok(&half.end(end))?;
            }
        }
        await_count(self.connection, &queue, 1);
        topic.clone_into(&mut self.filled.half_topic);
        Ok(())
    }

    fn pops(&mut self) -> io::Result<()> {
        let topic = "Import-popped";
        self.topic(topic, 2)?;
        let subscription = [(topic, "*", 1)];
        self.connection.call_ok(&heartbeat_of("import-popper", POP_GROUP, "CLUSTERING", &subscription))?;
        for number in 0..6 {
            self.send(&Queue::new(topic, number % 2), format!("popped {number}"), "")?;
        }
        await_count(self.connection, &Queue::new(topic, 1), 3);
        let mut popped = Vec::new();
        while popped.len() < 6 {
            popped.extend(Popped::all_of(&self.connection.call(&pop(POP_GROUP, topic, LATER_MS, 2000))?)?);
        }
        for message in &popped[..3] {
            self.connection.call_ok(&message.ack(POP_GROUP))?;
        }
        self.filled.unacknowledged = popped[3..].iter().map(Popped::body).collect();
        topic.clone_into(&mut self.filled.pop_topic);
        Ok(())
    }

    /// Messages that wait for longer than the import takes; one of them is taken back.
    fn later(&mut self) -> io::Result<()> {
        let topic = "Import-later";
        self.topic(topic, 4)?;
        for number in 0..40_u32 {
            let queue = Queue::new(topic, number % 4);
            let due = now_ms() + LATER_MS + u64::from(number) * 50;
            let (kind, properties) = match number % 4 {
                0 => ("level", format!("DELAY\u{1}{LEVEL_LATER}\u{2}")),
                1 => ("delay", format!("TIMER_DELAY_MS\u{1}{}\u{2}", due - now_ms())),
                2 => ("at", format!("TIMER_DELIVER_MS\u{1}{due}\u{2}")),
                _ => ("seconds", format!("TIMER_DELAY_SEC\u{1}{}\u{2}", LATER_MS / 1000)),
            };
            let body = format!("later {kind} {number}");
            // Others count from when the broker takes them.
            let due = if kind == "at" { due } else { now_ms() + LATER_MS };
            self.send(&queue, body.clone(), &properties)?;
            self.filled.waiting.push((queue, body, due));
        }
        let timed = send(&Queue::new(topic, 1), "taken back", &format!("TIMER_DELAY_MS\u{1}{LATER_MS}\u{2}"));
        let handle = self.connection.call_ok(&timed)?.text("recallHandle")?.to_owned();
        self.connection.call_ok(&recall(topic, &handle))?;
        Ok(())
    }
}

/// Messages that were delivered in the last moments, which a kill may take from the broker's memory of them.
///
/// # Errors
/// When the broker refuses something, or does not deliver them.
pub fn just_before_the_end(broker: &str, _filled: &Filled) -> Result<Vec<(Queue, u64)>, String> {
    let run = || -> io::Result<Vec<(Queue, u64)>> {
        let mut connection = super::open(broker).map_err(io::Error::other)?;
        let mut expected = Vec::new();
        for (topic, properties) in [
            ("Import-just-level", format!("DELAY\u{1}{LEVEL_NOW}\u{2}")),
            ("Import-just-timed", "TIMER_DELAY_MS\u{1}3000\u{2}".to_owned()),
        ] {
            connection.call_ok(&create_topic(topic, 1))?;
            let queue = Queue::new(topic, 0);
            for number in 0..20 {
                connection.call_ok(&send(&queue, format!("just {number}"), &properties))?;
            }
            expected.push((queue, 20));
        }
        for (queue, count) in &expected {
            if !await_count(&mut connection, queue, *count as i64) {
                return Err(io::Error::other(format!("{queue:?} does not get its messages")));
            }
        }
        Ok(expected)
    };
    run().map_err(|error| error.to_string())
}

/// A batch of small messages, with keys.
fn batch(queue: &Queue, count: u32) -> Frame {
    let mut body = Vec::new();
    for number in 0..count {
        let (text, properties) = (format!("batched {number}"), format!("KEYS\u{1}b{number}\u{2}"));
        let total = 4 + 4 + 4 + 4 + 4 + text.len() + 2 + properties.len();
        for field in [total as u32, 0, 0, 0, text.len() as u32] {
            body.extend_from_slice(&field.to_be_bytes());
        }
        body.extend_from_slice(text.as_bytes());
        body.extend_from_slice(&(properties.len() as u16).to_be_bytes());
        body.extend_from_slice(properties.as_bytes());
    }
    Frame { code: SEND_BATCH, ..send(queue, body, "") }.field("m", true)
}

/// A queue's offset that a broker tells.
pub fn max_offset(connection: &mut Connection, queue: &Queue) -> io::Result<i64> {
    connection.call_ok(&about_queue(MAX_OFFSET, queue))?.number("offset")
}
