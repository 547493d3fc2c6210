//! `ringmq store dump`: a store as it lies on the disk, read by hand.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use base::{LogId, LogOffset, PhysicalOffset, QueueId};
use broker::takeover;
use clap::Args;
use import::{CommitLog, Found};
use remoting::properties;
use remoting::record::{RecordView, verify};
use serde_json::{Map, Value, json};
use storage::{LogView, Seen, StorageError, StoreView};

use crate::failure::{Exit, Failure};
use crate::output::{Output, one_line};
use crate::time;

/// What a line for people begins with.
const FIRST: [&str; 7] = ["root", "log", "offset", "start", "limit", "topic", "queue"];

#[derive(Clone, Debug, Args)]
pub(crate) struct Dump {
    /// The folder of a store (storePathRootDir); that of an Apache RocketMQ broker as well
    dir: PathBuf,
    /// Where the segments lie, if elsewhere (storePathCommitLog); several with commas
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    commit_log: Vec<PathBuf>,
    /// Only this log
    #[arg(long, value_name = "N")]
    log: Option<u16>,
    /// Records from this offset of the log on; it need not be the beginning of one
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    from: u64,
    /// Only records of this queue, and what the queue's entries say
    #[arg(long, value_name = "TOPIC:ID", value_parser = queue)]
    queue: Option<(String, u32)>,
    /// Only records with this key or unique key; with --queue also what the indexes say of it
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// At most so many records of each log, and so many entries of the queue; 0 for none
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// A JSON object a line
    #[arg(long)]
    json: bool,
}

fn queue(text: &str) -> Result<(String, u32), String> {
    let parsed = text.rsplit_once(':').and_then(|(topic, id)| Some((topic.to_owned(), id.parse().ok()?)));
    parsed.filter(|(topic, _)| !topic.is_empty()).ok_or_else(|| format!("\"{text}\" is not TOPIC:ID"))
}

pub(crate) fn run(dump: &Dump) -> Result<(), Failure> {
    let mut printer = Printer {
        dump,
        out: Output::new(dump.json),
        records: 0,
        has_queue: false,
        limits: Vec::new(),
        flaws: 0,
        is_in_use: false,
    };
    if !dump.dir.join("store.json").exists() && dump.dir.join("commitlog").exists() {
        printer.foreign()?;
    } else {
        let store = StoreView::open(&dump.dir, &dump.commit_log)?;
        check_log(dump, store.logs())?;
        check_owner(dump, store.logs())?;
        printer.store(&store)?;
        for log in (0..store.logs()).map(LogId) {
            if wants_log(dump, &store, log) {
                printer.log(&store.log(log)?, log)?;
            }
        }
    }
    printer.out.flush()?;
    printer.check_found()?;
    printer.check_whole()
}

/// Refuses a log that the store has not.
fn check_log(dump: &Dump, logs: u16) -> Result<(), Failure> {
    let Some(log) = dump.log else { return Ok(()) };
    if log >= logs {
        let cause = format!("there is no log {log}: {} has {logs}, from 0 to {}", dump.dir.display(), logs - 1);
        return Err(Failure::new(Exit::Failure, cause));
    }
    Ok(())
}

/// Refuses a log that has not the queue that is asked for.
fn check_owner(dump: &Dump, logs: u16) -> Result<(), Failure> {
    let (Some(log), Some((topic, id))) = (dump.log, &dump.queue) else { return Ok(()) };
    let owner = takeover::log_of(logs, topic, QueueId(*id));
    if owner.0 != log {
        let cause = format!("queue {topic}:{id} lies in log {owner}, not in log {log}: leave --log out");
        return Err(Failure::new(Exit::Failure, cause));
    }
    Ok(())
}

fn wants_log(dump: &Dump, store: &StoreView, log: LogId) -> bool {
    let of_queue = dump.queue.as_ref().map(|(topic, id)| takeover::log_of(store.logs(), topic, QueueId(*id)));
    dump.log.is_none_or(|wanted| wanted == log.0) && of_queue.is_none_or(|owner| owner == log)
}

struct Printer<'a> {
    dump: &'a Dump,
    out: Output,
    /// Shown of this log.
    records: u64,
    /// A record or an entry of the queue that is asked for was met.
    has_queue: bool,
    /// Where the logs that were looked at end, each behind the last byte of its files.
    limits: Vec<u64>,
    /// Places and files that are not whole.
    flaws: u64,
    is_in_use: bool,
}

impl Printer<'_> {
    /// One thing: its kind and its members, as an object or as a line.
    fn put(&mut self, kind: &str, members: Value) -> io::Result<()> {
        let Value::Object(members) = members else { unreachable!("members are an object") };
        if self.out.is_json() {
            let mut object = Map::from_iter([("kind".to_owned(), Value::from(kind))]);
            object.extend(members);
            return self.out.line(&Value::Object(object).to_string());
        }
        let rank = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
        let mut shown: Vec<_> = members.iter().filter(|(_, value)| !value.is_null() && **value != "").collect();
        shown.sort_by_key(|(name, _)| rank(name));
        let text = shown.into_iter().map(|(name, value)| match value {
            Value::String(text) => format!("{name}={}", one_line(text)),
            other => format!("{name}={other}"),
        });
        let line = std::iter::once(format!("{kind:<10}")).chain(text).collect::<Vec<_>>().join(" ");
        self.out.line(&line)
    }

    fn store(&mut self, store: &StoreView) -> io::Result<()> {
        let state = match (store.is_in_use(), store.was_stopped()) {
            (true, _) => "in use: what is being written may look torn",
            (false, true) => "stopped in order",
            (false, false) => "not stopped in order",
        };
        self.is_in_use = store.is_in_use();
        let root = self.dump.dir.display().to_string();
        self.put("store", json!({"root": root, "logs": store.logs(), "state": state}))
    }

    fn log(&mut self, log: &LogView, id: LogId) -> Result<(), Failure> {
        self.records = 0;
        let (segments, start, limit) = log.segments();
        self.limits.push(limit.0);
        self.put("log", json!({"log": id.0, "segments": segments, "start": start.0, "limit": limit.0}))?;
        let put = match log.checkpoint() {
            None if segments == 0 => self.put("checkpoint", json!({"log": id.0, "state": "there is none yet"})),
            None => self.flaw("checkpoint", json!({"log": id.0, "state": "there is no valid one"})),
            Some(found) => self.put(
                "checkpoint",
                json!({
                    "log": id.0, "generation": found.generation, "durable": found.durable.0,
                    "zerosFrom": found.written_limit.0, "segmentBytes": found.segment_bytes, "tailFile": found.tail,
                    "state": if found.is_clean { "stopped in order" } else { "not stopped in order" },
                }),
            ),
        };
        put?;
        let put = match log.tail()? {
            None => Ok(()),
            Some(Err(flaw)) => self.flaw("tail", json!({"log": id.0, "state": flaw})),
            Some(Ok(tail)) => self.put(
                "tail",
                json!({"log": id.0, "generation": tail.generation, "ringBytes": tail.ring_bytes, "end": tail.end.0}),
            ),
        };
        put?;
        for found in log.resized()? {
            self.put(
                "resized",
                json!({
                    "log": id.0, "file": found.file, "bytesFound": found.bytes_found, "bytesGiven": found.bytes_given,
                    "seen": time::text(found.seen_ms as i64),
                }),
            )?;
        }
        self.derived(log, id)?;
        self.stored(log, id)
    }

    fn derived(&mut self, log: &LogView, id: LogId) -> Result<(), Failure> {
        for extent in log.extents()? {
            let file = extent.file.display().to_string();
            let put = match extent.content {
                Err(flaw) => {
                    let state = format!("not whole, and made anew by the broker: {flaw}");
                    self.flaw("extent", json!({"log": id.0, "file": file, "state": state}))
                }
                Ok(content) => self.put(
                    "extent",
                    json!({
                        "log": id.0, "start": content.start.0, "limit": content.limit.0, "entries": content.entries,
                        "runs": content.runs, "storedFirst": time::text_unless_zero(content.store_ms_first as i64),
                        "storedLast": time::text_unless_zero(content.store_ms_last as i64), "file": file,
                    }),
                ),
            };
            put?;
        }
        let Some((topic, queue)) = &self.dump.queue else { return Ok(()) };
        let mut left = self.dump.limit.unwrap_or(u64::MAX);
        for run in log.queue(topic, QueueId(*queue))? {
            self.has_queue = true;
            if left == 0 {
                break;
            }
            if run.entries.is_empty() {
                let state = "entries that are not whole: made anew when they are read";
                self.put("entry", json!({"log": id.0, "queueOffset": run.first.0, "state": state}))?;
            }
            for (number, entry) in run.entries.iter().enumerate().take(left.min(1 << 20) as usize) {
                left -= 1;
                self.put(
                    "entry",
                    json!({
                        "log": id.0, "topic": topic, "queue": queue, "queueOffset": run.first.0 + number as u64,
                        "offset": entry.offset.0, "bytes": entry.bytes, "tagsCode": entry.tags_code,
                        "stored": time::text(entry.store_timestamp_ms as i64),
                    }),
                )?;
            }
        }
        for found in self.dump.key.iter().map(|key| log.key(topic, key)).collect::<Result<Vec<_>, _>>()?.concat() {
            self.put(
                "key",
                json!({
                    "log": id.0, "offset": found.offset.0,
                    "stored": time::text(found.store_ms as i64), "file": found.file.display().to_string(),
                }),
            )?;
        }
        Ok(())
    }

    fn stored(&mut self, log: &LogView, id: LogId) -> Result<(), Failure> {
        if self.is_behind(log.segments().2.0) {
            return Ok(());
        }
        let mut failed = None;
        let end = log.read(LogOffset(self.dump.from), |seen| {
            if self.is_full() {
                return ControlFlow::Break(());
            }
            let put = match seen {
                Seen::Record(view, offset) => self.record(view, id, offset.0),
                Seen::Damage(damage) => self.damage(id, damage.start.0, damage.limit.0, &log.reason(damage)),
            };
            match put {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        if !self.is_full() {
            self.end(id, end.0)?;
            self.kept(log, id, end)?;
        }
        Ok(())
    }

    /// What only the tail file has, or should have. While records are added to it nobody can tell.
    fn kept(&mut self, log: &LogView, id: LogId, end: LogOffset) -> Result<(), Failure> {
        if self.is_in_use {
            return Ok(());
        }
        let kept = log.kept(end);
        let put = match kept {
            Ok((0, None)) => Ok(()),
            Ok((bytes, None)) => {
                let state = "records that a start writes behind the end of the log";
                self.put("kept", json!({"log": id.0, "offset": end.0, "bytes": bytes, "state": state}))
            }
            Ok((bytes, Some(flaw))) => {
                self.flaw("kept", json!({"log": id.0, "offset": end.0, "bytes": bytes, "state": flaw}))
            }
            Err(StorageError::Damaged { what, .. }) => {
                self.flaw("kept", json!({"log": id.0, "offset": end.0, "state": what}))
            }
            Err(error) => return Err(error.into()),
        };
        Ok(put?)
    }

    /// The log of another broker: it has the same records.
    fn foreign(&mut self) -> Result<(), Failure> {
        let own = [self.dump.dir.join("commitlog")];
        check_log(self.dump, 1)?;
        let log = CommitLog::open(if self.dump.commit_log.is_empty() { &own } else { &self.dump.commit_log })?;
        self.limits.push(log.limit());
        let root = self.dump.dir.display().to_string();
        self.put(
            "store",
            json!({"root": root, "state": "of Apache RocketMQ", "start": log.min(), "limit": log.limit()}),
        )?;
        let mut scanner = log.scan(self.dump.from);
        // Nothing but the end of the files is taken for the end: what follows damage is shown.
        while !self.is_full()
            && let Some(found) = scanner.next(u64::MAX)?
        {
            match found {
                Found::Record { at, view } => self.record(&view, LogId(0), at)?,
                Found::Damage { start, limit, .. } if limit == log.limit() => self.end(LogId(0), start)?,
                Found::Damage { start, limit, reason } => self.damage(LogId(0), start, limit, &reason)?,
            }
        }
        Ok(())
    }

    /// Whether nothing is asked for of a log that ends there.
    fn is_behind(&self, limit: u64) -> bool {
        self.dump.from > 0 && self.dump.from >= limit
    }

    /// Fails where nothing could be shown since what is asked for is not there.
    fn check_found(&self) -> Result<(), Failure> {
        let limit = self.limits.iter().max().copied().unwrap_or(0);
        if self.is_behind(limit) {
            let cause = format!("nothing lies at offset {} or behind it: the files end at {limit}", self.dump.from);
            return Err(Failure::new(Exit::Failure, cause));
        }
        match &self.dump.queue {
            Some((topic, id)) if !self.has_queue && self.dump.key.is_none() && self.dump.limit != Some(0) => {
                let cause = format!("no record and no entry of queue {topic}:{id} was found");
                Err(Failure::new(Exit::Failure, cause))
            }
            _ => Ok(()),
        }
    }

    /// Fails where something is not whole, so that who does not read on knows it.
    fn check_whole(&self) -> Result<(), Failure> {
        if self.flaws == 0 {
            return Ok(());
        }
        let cause = format!("{} parts of {} are not whole", self.flaws, self.dump.dir.display());
        let fix = match self.is_in_use {
            true => "a broker has the store, and what it is writing looks torn: look again when it is stopped",
            false => {
                "their lines say which; a start of the broker says what it passes over, and makes derived files anew"
            }
        };
        Err(Failure::new(Exit::Store, cause).with_fix(fix))
    }

    fn is_full(&self) -> bool {
        self.dump.limit.is_some_and(|limit| self.records >= limit)
    }

    fn end(&mut self, log: LogId, offset: u64) -> io::Result<()> {
        self.put("end", json!({"log": log.0, "offset": offset}))
    }

    fn flaw(&mut self, kind: &str, members: Value) -> io::Result<()> {
        self.flaws += 1;
        self.put(kind, members)
    }

    fn damage(&mut self, log: LogId, start: u64, limit: u64, reason: &str) -> io::Result<()> {
        self.flaw("damage", json!({"log": log.0, "offset": start, "limit": limit, "reason": reason}))
    }

    fn record(&mut self, view: &RecordView<'_>, log: LogId, offset: u64) -> io::Result<()> {
        if !self.wants(view) {
            return Ok(());
        }
        self.records += 1;
        self.has_queue = true;
        let text = view.properties();
        let named = |name| properties::get(text, name);
        let others: Map<String, Value> = properties::parse(text)
            .filter(|(name, _)| ![properties::KEYS, properties::TAGS, properties::UNIQUE_KEY].contains(name))
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect();
        let verdict = match verify(view.bytes(), PhysicalOffset::new(log, LogOffset(offset))) {
            Ok(_) => "whole".to_owned(),
            // Another broker's has the checksum of its body alone.
            Err(remoting::record::RecordError::ChecksumMissing) => "body whole".to_owned(),
            Err(error) => error.to_string(),
        };
        self.put(
            "record",
            json!({
                "log": log.0, "offset": offset, "bytes": view.total_bytes(), "topic": view.topic(),
                "queue": view.queue_id().0, "queueOffset": view.queue_offset().0,
                "stored": time::text(view.store_timestamp_ms()), "born": time::text(view.born_timestamp_ms()),
                "bornHost": view.born_host().to_string(), "storeHost": view.store_host().to_string(),
                "flag": view.flag(), "sysFlag": format!("{:#x}", view.sys_flag()),
                "reconsumeTimes": view.reconsume_times(), "preparedOffset": view.prepared_transaction_offset(),
                "bodyBytes": view.body().len(), "keys": named(properties::KEYS), "tags": named(properties::TAGS),
                "uniqueKey": named(properties::UNIQUE_KEY), "properties": others, "checksum": verdict,
            }),
        )
    }

    fn wants(&self, view: &RecordView<'_>) -> bool {
        let of_queue = |(topic, id): &(String, u32)| topic == view.topic() && *id == view.queue_id().0;
        let has_key = |key: &String| {
            view.property(properties::UNIQUE_KEY) == Some(key)
                || properties::keys(view.properties()).any(|own| own == key)
        };
        self.dump.queue.as_ref().is_none_or(of_queue) && self.dump.key.as_ref().is_none_or(has_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_named_by_topic_and_number() {
        assert_eq!(queue("T:3"), Ok(("T".to_owned(), 3)));
        assert_eq!(queue("%RETRY%g:0"), Ok(("%RETRY%g".to_owned(), 0)));
        for wrong in ["T", "T:", ":1", "T:x", "T:-1"] {
            assert!(queue(wrong).is_err(), "{wrong}");
        }
    }
}
