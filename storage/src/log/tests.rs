//! Tests of a whole log on real files, and what they share.

mod built;
mod crash;
mod damage;
mod many_queues;
mod model;
mod order;
mod read;
mod retire;

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;

use base::{LogId, Millis, QueueId, QueueOffset};
use remoting::record::{RecordDraft, RecordView, Records};
use runtime::file::TempFolder;
use runtime::net::Part;
use runtime::ring::WriteRing;

use super::{Log, Ticket};
use crate::options::{FlushPolicy, LogFolders, LogOptions};
use crate::queue::{Indexed, QueueRead, QueueRef, ReadLimits};
use crate::recovery::RecoveryReport;

const LOG: LogId = LogId(2);
const HOST: &str = "127.0.0.1:10911";
const ALL: ReadLimits = ReadLimits { messages_max: 1000, bytes_max: 64 << 20, scan_max: 10_000 };

fn folders(folder: &TempFolder) -> LogFolders {
    let log = folder.path().join("log-02");
    LogFolders { commit_log: log.join("commitlog"), log }
}

/// Small segments and extents, so that each test crosses many.
fn small(flush: FlushPolicy) -> LogOptions {
    LogOptions {
        segment_bytes: 1 << 20,
        flush,
        tail_cache_bytes: 4 << 20,
        extent_bytes: 700 << 10,
        ..LogOptions::default()
    }
}

async fn open(folders: &LogFolders, options: &LogOptions) -> (Rc<Log>, RecoveryReport) {
    let ring = WriteRing::start().expect("a ring");
    Log::open(folders.clone(), LOG, options.clone(), ring).await.expect("the log opens")
}

/// A crash: the process is gone, what was not safe is lost.
async fn crash(log: Rc<Log>) -> u64 {
    log.end_tasks().await;
    log.marks.safe()
}

fn draft<'a>(topic: &'a str, queue: u32, body: &'a [u8], properties: &'a str) -> RecordDraft<'a> {
    RecordDraft {
        flag: 7,
        properties,
        ..RecordDraft::own(topic, QueueId(queue), body, HOST.parse().expect("an address"), Millis(1))
    }
}

async fn append(log: &Rc<Log>, topic: &str, queue: u32, body: &[u8]) -> Ticket {
    append_at(log, topic, queue, body, 1_000).await
}

async fn append_at(log: &Rc<Log>, topic: &str, queue: u32, body: &[u8], now: u64) -> Ticket {
    let handle = log.queue(topic, QueueId(queue));
    loop {
        match log.append(&handle, &draft(topic, queue, body, ""), Millis(now)) {
            Ok(ticket) => return ticket,
            Err(crate::AppendError::Busy { .. }) => log.room().await,
            Err(error) => panic!("not appended: {error}"),
        }
    }
}

async fn append_durably(log: &Rc<Log>, topic: &str, queue: u32, body: &[u8]) -> Ticket {
    let ticket = append(log, topic, queue, body).await;
    ticket.reached(log.visible_mark()).await.expect("stored");
    ticket
}

fn bytes_of(parts: &[Part]) -> Vec<u8> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            Part::Bytes(bytes) => all.extend_from_slice(bytes),
            Part::Slab(slice) => all.extend_from_slice(slice),
            Part::File(range) => {
                let mut bytes = vec![0; (range.limit - range.start) as usize];
                range.file.read_exact_at(&mut bytes, range.start).expect("a file part is readable");
                all.extend_from_slice(&bytes);
            }
        }
    }
    all
}

/// All messages of a queue as queue offset and body, read from its min to its max.
async fn read_all(log: &Log, queue: &QueueRef) -> Vec<(u64, Vec<u8>)> {
    read_by(log, queue, ALL).await
}

/// All messages of a queue, by reads of so much.
async fn read_by(log: &Log, queue: &QueueRef, limits: ReadLimits) -> Vec<(u64, Vec<u8>)> {
    let mut messages = Vec::new();
    let mut at = queue.min();
    loop {
        let (read, parts) = log.pull(queue, at, limits, |_| true).await.expect("readable");
        match read {
            QueueRead::Found(found) => {
                let bytes = bytes_of(&parts);
                for view in Records::new(&bytes) {
                    let view: RecordView<'_> = view.expect("a whole record");
                    assert_eq!(view.topic(), queue.topic());
                    messages.push((view.queue_offset().0, view.body().to_vec()));
                }
                at = found.next;
            }
            QueueRead::NoMatch { next } => at = next,
            QueueRead::AtEnd { .. } | QueueRead::Empty => return messages,
            other => panic!("{other:?} at {at}"),
        }
    }
}

async fn bodies(log: &Log, topic: &str, queue: u32) -> Vec<(u64, String)> {
    let Some(queue) = log.find_queue(topic, QueueId(queue)) else { return Vec::new() };
    let messages = read_all(log, &queue).await;
    messages.into_iter().map(|(at, body)| (at, String::from_utf8_lossy(&body).into_owned())).collect()
}

fn segment_path(folders: &LogFolders, offset: u64) -> PathBuf {
    folders.commit_log.join(crate::disk::offset_name(offset / (1 << 20) * (1 << 20)))
}

/// Changes bytes of the log in its file, behind everybody's back. Segments have 1 MiB.
fn overwrite(folders: &LogFolders, offset: u64, bytes: &[u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let path = segment_path(folders, offset + at as u64);
        let in_file = (offset + at as u64) % (1 << 20);
        let count = (bytes.len() - at).min((1 << 20) - in_file as usize);
        let Ok(file) = std::fs::OpenOptions::new().write(true).open(&path) else { return };
        file.write_all_at(&bytes[at..at + count], in_file).expect("overwritten");
        file.sync_all().expect("synced");
        at += count;
    }
}

fn flip_bit(folders: &LogFolders, offset: u64) {
    let file = std::fs::File::open(segment_path(folders, offset)).expect("a segment");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset % (1 << 20)).expect("read");
    overwrite(folders, offset, &[byte[0] ^ 0x10]);
}

fn derived_files(folders: &LogFolders) -> Vec<PathBuf> {
    crate::disk::offset_files(&folders.queues()).expect("listed").into_iter().map(|(_, path)| path).collect()
}

fn numbered(range: std::ops::Range<u64>) -> Vec<(u64, String)> {
    range.map(|number| (number, format!("body {number}"))).collect()
}

fn queue_offset(ticket: &Ticket) -> u64 {
    let QueueOffset(offset) = ticket.queue_offset;
    offset
}
