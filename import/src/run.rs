//! The import as a whole: what is looked at first, the pass over the log, and what is written at the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use remoting::body::consume::ConsumerOffsetTable;
use remoting::body::group::SubscriptionGroupTable;
use remoting::body::pop::MessageRequestModes;
use remoting::body::topic::TopicConfigTable;
use remoting::name::{self, AUTO_CREATE_TOPIC};
use runtime::clock;
use storage::{LogOptions, SEGMENT_BYTES_MIN};

use crate::commit_log::{CommitLog, Found, Scanner};
use crate::delays::Delays;
use crate::error::{ImportError, IoContext};
use crate::halves::Halves;
use crate::popped::Popped;
use crate::report::{Lost, Report};
use crate::source::Source;
use crate::tables;
use crate::target::{self, Target};
use crate::timers::Timers;
use crate::transfer::{Transfer, is_own};

/// The segments of a store whose source has none.
const SEGMENT_BYTES_USUAL: u64 = 1 << 30;
/// Bytes read at once when looking for remains behind the end.
const REMAINS_BYTES: usize = 1 << 20;

#[derive(Clone, Debug)]
pub struct Options {
    pub source: PathBuf,
    /// Where the log of the source lies, if not in `commitlog/`.
    pub commit_logs: Vec<PathBuf>,
    pub target: PathBuf,
    pub logs: u16,
    /// `None`: as the files of the source's log.
    pub segment_bytes: Option<u64>,
}

/// How far the pass over the source's log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub bytes: u64,
    pub bytes_total: u64,
}

/// Makes a store of RingMQ out of one of Apache RocketMQ. The source is never changed. Nothing is at the target until all
/// of it is.
///
/// # Errors
/// When the source cannot be taken over, or the target not be made.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report, ImportError> {
    let mut source = Source::open(&options.source, &options.commit_logs)?;
    let mut restored = Vec::new();
    let Tables { mut topics, offsets, groups, modes } = Tables::read(&source, &mut restored)?;
    let segment_bytes = segment_bytes(options, &source)?;
    refuse_within(&options.target, &options.source, &options.commit_logs)?;
    // Each log has a segment at least.
    let bytes = (source.log.limit() - source.log.min()).max(u64::from(options.logs) * segment_bytes);
    let target = Target::create(&options.target, options.logs, bytes)?;
    let mut report = Report { logs: options.logs, segment_bytes, restored, ..Report::default() };
    report.notes.extend(notes(&source));
    let (delays, timers) = (Delays::open(&mut source)?, Timers::open(&source)?);
    let mut transfer = Transfer {
        logs: target.logs(segment_bytes)?,
        delays,
        timers,
        halves: Halves::new(&offsets),
        popped: Popped::new(&offsets),
        report,
        now: clock::now_ms(),
        own_records: 0,
        without_queue: BTreeMap::new(),
        topics: &mut topics.topic_config_table,
        source: &mut source,
    };
    let log: Rc<CommitLog> = transfer.source.log.clone();
    let mut scanner = log.scan(log.min());
    pass(&mut transfer, &mut scanner, progress)?;
    let end = scanner.end();
    transfer.report.source_bytes = end - log.min();
    transfer.report.cut_bytes = remains_behind(&log, &mut scanner)?;
    for (start, limit, file) in log.cut_off() {
        let reason = format!("{} ends there: it was cut", file.display());
        transfer.report.damages.push(Lost { start, limit, reason });
    }
    transfer.take_what_waits(&mut log.lookup())?;
    transfer.settle_queues(end)?;
    transfer.report.without_queue = std::mem::take(&mut transfer.without_queue);
    let Transfer { logs, mut report, .. } = transfer;
    for log in logs {
        log.finish()?;
    }
    report.topics = topics.topic_config_table.len() as u64;
    report.groups = groups.subscription_group_table.len() as u64;
    let offsets = kept_offsets(offsets, &topics);
    report.offsets = offsets.offset_table.values().map(|queues| queues.len() as u64).sum();
    target.write_table("topics.json", &topics)?;
    target.write_table("subscriptionGroup.json", &groups)?;
    target.write_table("consumerOffset.json", &offsets)?;
    target.write_table("messageRequestMode.json", &modes)?;
    target.finish()?;
    Ok(report)
}

fn segment_bytes(options: &Options, source: &Source) -> Result<u64, ImportError> {
    let log_file_bytes = Some(source.log.file_bytes()).filter(|bytes| *bytes > 0);
    let bytes = options.segment_bytes.or(log_file_bytes).unwrap_or(SEGMENT_BYTES_USUAL);
    if LogOptions::is_segment_size(bytes) {
        return Ok(bytes);
    }
    let whose = match options.segment_bytes {
        Some(_) => "--segment-bytes says",
        None => "the files of the other broker's log have",
    };
    Err(ImportError::Target(format!(
        "{whose} {bytes} bytes, and segments have a multiple of 4096 bytes, at least {SEGMENT_BYTES_MIN}: name such a size \
         with --segment-bytes"
    )))
}

/// The source is not changed, so nothing is made in it.
fn refuse_within(target: &Path, source: &Path, commit_logs: &[PathBuf]) -> Result<(), ImportError> {
    let above = target::existing_above(target);
    let above = above.canonicalize().context("look at", above)?;
    for folder in std::iter::once(source).chain(commit_logs.iter().map(PathBuf::as_path)) {
        if above.starts_with(folder.canonicalize().context("look at", folder)?) {
            return Err(ImportError::Target(format!(
                "{} lies in {}, which is only read: name a folder elsewhere",
                target.display(),
                folder.display()
            )));
        }
    }
    Ok(())
}

/// Reads the source's log from its first record to its end.
fn pass(
    transfer: &mut Transfer<'_>,
    scanner: &mut Scanner<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), ImportError> {
    let (min, known) = (transfer.source.log.min(), transfer.source.known);
    let bytes_total = transfer.source.log.limit() - min;
    while let Some(found) = scanner.next(known)? {
        match found {
            Found::Record { at, view } => {
                transfer.take(&view, at)?;
                progress(Progress { bytes: at - min, bytes_total });
            }
            Found::Damage { start, limit, reason } => transfer.report.damages.push(Lost { start, limit, reason }),
        }
    }
    progress(Progress { bytes: bytes_total, bytes_total });
    Ok(())
}

/// How many bytes there are behind the end of the log, up to the last that is not zero.
fn remains_behind(log: &CommitLog, scanner: &mut Scanner<'_>) -> Result<u64, ImportError> {
    let start = scanner.position();
    if start >= log.limit() {
        return Ok(0);
    }
    let (mut at, mut remains) = (start, 0);
    while at < log.limit() {
        let in_file = log.file_bytes() - at % log.file_bytes();
        let bytes = scanner.raw(at, REMAINS_BYTES.min(in_file as usize))?;
        if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
            remains = at + last as u64 + 1 - start;
        }
        at += bytes.len() as u64;
    }
    Ok(remains)
}

struct Tables {
    topics: TopicConfigTable,
    offsets: ConsumerOffsetTable,
    groups: SubscriptionGroupTable,
    modes: MessageRequestModes,
}

impl Tables {
    fn read(source: &Source, restored: &mut Vec<String>) -> Result<Tables, ImportError> {
        let path = source.config("topics.json");
        let topics: Option<TopicConfigTable> = tables::read_telling(&path, restored)?;
        let Some(mut topics) = topics else {
            return Err(ImportError::Source(format!(
                "{} and its .bak are missing: without them nobody knows which topics there are; restore one from a backup",
                path.display()
            )));
        };
        // These follow the configuration of the broker.
        topics.topic_config_table.retain(|topic, _| !is_own(topic) && *topic != AUTO_CREATE_TOPIC);
        topics.topic_queue_mapping_detail_map.clear();
        Ok(Tables {
            topics,
            offsets: tables::read_telling(&source.config("consumerOffset.json"), restored)?.unwrap_or_default(),
            groups: tables::read_telling(&source.config("subscriptionGroup.json"), restored)?.unwrap_or_default(),
            modes: tables::read_telling(&source.config("messageRequestMode.json"), restored)?.unwrap_or_default(),
        })
    }
}

/// The offsets in queues of topics that there are.
fn kept_offsets(mut offsets: ConsumerOffsetTable, topics: &TopicConfigTable) -> ConsumerOffsetTable {
    offsets.offset_table.retain(|key, _| {
        key.split_once('@').is_some_and(|(topic, _)| topics.topic_config_table.contains_key(topic) && !is_own(topic))
    });
    offsets
}

/// What the source has that is not served here.
fn notes(source: &Source) -> Vec<String> {
    let mut notes = Vec::new();
    let light = source.queues.topics.keys().filter(|topic| name::is_light_topic(topic)).count();
    if light > 0 {
        notes.push(format!(
            "{light} light queues (%LMQ%…) are not taken over; their messages stay in the topics that they were sent to"
        ));
    }
    if has_entries(&source.root.join("batchconsumequeue")) {
        notes
            .push("topics with queue.type=BatchCQ: their batches are stored message by message, uncompared".to_owned());
    }
    if has_entries(&source.root.join("compaction").join("compactionLog")) {
        notes.push(
            "topics with cleanup.policy=COMPACTION have what the commit log still has, not what was compacted".into(),
        );
    }
    let mapped: Result<Option<TopicConfigTable>, _> = tables::read(&source.config("topicQueueMapping.json"));
    if matches!(mapped, Ok(Some(table)) if !table.topic_queue_mapping_detail_map.is_empty()) {
        notes.push("static topics are ordinary ones here: their queues keep the numbers of this broker".to_owned());
    }
    notes
}

fn has_entries(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}
