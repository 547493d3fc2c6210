//! Logs over several files, with damage and cuts at every place.

use base::{Millis, QueueId, QueueOffset};
use remoting::record::{Placement, RecordDraft, blank, encode, record_bytes};
use runtime::file::TempFolder;

use super::*;

const FILE_BYTES: usize = 4096;
/// Of each record, the tail that ours have included.
const PROPERTIES_BYTES: usize = 4 + 8;

fn record(at: usize, body: &[u8]) -> Vec<u8> {
    record_stored(at, body, 1)
}

fn record_stored(at: usize, body: &[u8], stored_ms: i64) -> Vec<u8> {
    let draft = RecordDraft {
        store_host: "[::1]:2".parse().expect("an address"),
        properties: "a\u{1}b\u{2}",
        ..RecordDraft::own("T", QueueId(0), body, "127.0.0.1:1".parse().expect("an address"), Millis(1))
    };
    let mut bytes = vec![0; record_bytes(&draft)];
    let physical_offset = PhysicalOffset(at as u64);
    encode(
        &draft,
        Placement { queue_offset: QueueOffset(0), physical_offset, store_timestamp_ms: stored_ms },
        &mut bytes,
    );
    bytes
}

/// Files from `start` on with records of some bodies, each in the file it fits into.
fn log(folder: &Path, start: usize, bodies: &[&[u8]]) -> Vec<usize> {
    let (mut files, mut at, mut places) = (vec![vec![0; FILE_BYTES]], start, Vec::new());
    for body in bodies {
        let room = FILE_BYTES - at % FILE_BYTES;
        if record(at, body).len() + BLANK_BYTES > room {
            let file = files.last_mut().expect("a file");
            file[at % FILE_BYTES..at % FILE_BYTES + 8].copy_from_slice(&blank(room as u32));
            at += room;
            files.push(vec![0; FILE_BYTES]);
        }
        let bytes = record(at, body);
        files.last_mut().expect("a file")[at % FILE_BYTES..at % FILE_BYTES + bytes.len()].copy_from_slice(&bytes);
        places.push(at);
        at += bytes.len();
    }
    for (number, file) in files.iter().enumerate() {
        fs::write(folder.join(format!("{:020}", start + number * FILE_BYTES)), file).expect("written");
    }
    places
}

/// What a scan finds: bodies, and damages as their limits.
fn scanned(folder: &Path, known: u64) -> (Vec<String>, u64) {
    let log = CommitLog::open(&[folder.to_owned()]).expect("a log");
    let mut scanner = log.scan(0);
    let mut found = Vec::new();
    while let Some(next) = scanner.next(known).expect("readable") {
        found.push(match next {
            Found::Record { view, .. } => String::from_utf8_lossy(&view.body()[..1]).into_owned(),
            Found::Damage { start, limit, .. } => format!("{start}-{limit}"),
        });
    }
    (found, scanner.end())
}

fn flip(folder: &Path, at: usize) {
    let path = folder.join(format!("{:020}", at / FILE_BYTES * FILE_BYTES));
    let mut bytes = fs::read(&path).expect("read");
    bytes[at % FILE_BYTES] ^= 0x20;
    fs::write(&path, bytes).expect("written");
}

#[test]
fn records_are_read_over_the_ends_of_files() {
    let folder = TempFolder::new("commit-log");
    let bodies: [&[u8]; 5] = [&[b'a'; 1500], &[b'b'; 1500], &[b'c'; 1500], &[b'd'; 3000], b"e"];
    let places = log(folder.path(), 2 * FILE_BYTES, &bodies);
    let (found, end) = scanned(folder.path(), 0);
    assert_eq!(
        (found, end),
        (["a", "b", "c", "d", "e"].map(String::from).to_vec(), places[4] as u64 + record(0, b"e").len() as u64)
    );
    let log = CommitLog::open(&[folder.path().to_owned()]).expect("a log");
    let mut scanner = log.scan(0);
    for (place, body) in places.iter().zip(bodies) {
        assert_eq!(
            scanner.record_at(*place as u64).expect("readable").map(|view| view.body().to_vec()),
            Some(body.to_vec())
        );
        assert!(scanner.record_at(*place as u64 + 1).expect("readable").is_none());
    }
    assert!(
        scanner.record_at(0).expect("readable").is_none() && scanner.record_at(1 << 40).expect("readable").is_none()
    );
}

#[test]
fn damage_is_passed_over_and_a_torn_tail_ends_the_log() {
    let folder = TempFolder::new("commit-log");
    let bodies: [&[u8]; 5] = [&[b'a'; 900], &[b'b'; 900], &[b'c'; 900], &[b'd'; 3000], b"e"];
    let places = log(folder.path(), 0, &bodies);
    let all = u64::MAX >> 1;
    // A body, a length, a magic, a place: each costs its record alone while the log is known to go on.
    for at in [100, 0, 5, 30] {
        let wrong = places[1] + at;
        flip(folder.path(), wrong);
        let damage = format!("{}-{}", places[1], places[2]);
        let (found, _) = scanned(folder.path(), places[4] as u64);
        assert_eq!(found, ["a", &damage, "c", "d", "e"], "{at}");
        let (found, _) = scanned(folder.path(), 0);
        assert_eq!(found, ["a", &damage, "c", "d", "e"], "{at}: records follow, though nothing is known of them");
        flip(folder.path(), wrong);
    }
    // A filler that is none any more costs the rest of its file.
    let filler = places[2] + record(0, &[b'c'; 900]).len();
    flip(folder.path(), filler + 5);
    let (found, _) = scanned(folder.path(), places[4] as u64);
    assert_eq!(found, ["a", "b", "c", &format!("{filler}-{FILE_BYTES}"), "d", "e"]);
    flip(folder.path(), filler + 5);
    // In other files records follow as well.
    for wrong in [places[1], places[2]] {
        flip(folder.path(), wrong + 100);
    }
    fs::write(folder.path().join(format!("{:020}", FILE_BYTES)), [0; FILE_BYTES]).expect("written");
    log(folder.path(), 2 * FILE_BYTES, &[b"f"]);
    let damage = format!("{}-{}", places[1], 2 * FILE_BYTES);
    assert_eq!(scanned(folder.path(), 0).0, ["a", &damage, "f"]);
    fs::remove_file(folder.path().join(format!("{:020}", 2 * FILE_BYTES))).expect("removed");
    log(folder.path(), 0, &bodies);
    // The last record, in part.
    flip(folder.path(), places[4] + 95);
    let (found, end) = scanned(folder.path(), places[4] as u64);
    assert_eq!((found.len(), end), (4, places[4] as u64));
    assert!(scanned(folder.path(), all).0.len() == 5, "a log that is known to go on has damage at its end");
}

/// A start after a crash cuts the other broker's log off, and what is stored then is written over what lay there.
#[test]
fn remains_behind_the_end_are_no_records() {
    let folder = TempFolder::new("commit-log");
    let mut file = vec![0; FILE_BYTES];
    for (at, body, stored_ms) in [(0, b"a", 10_000), (1000, b"x", 9_000), (2000, b"y", 6_999), (3000, b"z", 5_000)] {
        let bytes = record_stored(at, body, stored_ms);
        file[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    let end = record(0, b"a").len();
    file[end] = 1;
    fs::write(folder.path().join(format!("{:020}", 0)), &file).expect("written");
    let behind = 1000 + record(0, b"x").len() as u64;
    let expected = ["a".to_owned(), format!("{end}-1000"), "x".to_owned()].to_vec();
    assert_eq!(scanned(folder.path(), 0), (expected, behind), "a clock may go back a little, remains are older");
}

#[test]
fn every_cut_of_a_log_ends_it_at_a_record() {
    let folder = TempFolder::new("commit-log");
    let places = log(folder.path(), 0, &[&[b'a'; 50], &[b'b'; 50], &[b'c'; 50]]);
    let path = folder.path().join(format!("{:020}", 0));
    let whole = fs::read(&path).expect("read");
    let limit = places[2] + record(0, &[b'c'; 50]).len();
    for cut in 0..=limit {
        let mut torn = whole.clone();
        torn[cut..].fill(0);
        fs::write(&path, torn).expect("written");
        let (found, end) = scanned(folder.path(), 0);
        // The checksum of another broker's record covers its body alone, so zeros for properties are taken by it as well.
        let left = places.iter().skip(1).chain([&limit]).filter(|end| **end - PROPERTIES_BYTES <= cut).count();
        assert_eq!((found.len(), end), (left, [0, places[1], places[2], limit][left] as u64), "cut at {cut}");
    }
}
