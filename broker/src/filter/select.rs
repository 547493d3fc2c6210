//! Reading what a filter wants of a queue: piece by piece, each looked at record by record where it lies in memory. What
//! lies in files is read first.

use std::io;
use std::ops::Range;

use base::QueueOffset;
use bytes::Bytes;
use remoting::code::ResponseCode;
use remoting::record::{FIXED_BYTES, QUEUE_OFFSET_AT, RecordView, TOTAL_BYTES_AT};
use runtime::file::FileRange;
use runtime::net::Part;
use storage::{Found, Log, QueueRead, QueueRef, ReadLimits};

use super::Filter;
use crate::call::Refusal;

/// Bytes of the log looked at in one go; a larger record is looked at alone. Between pieces others of the core have their
/// turn.
const PIECE_BYTES_MAX: u64 = 256 << 10;
/// Bytes of the log looked at for one pull; beyond it the pull ends with what was found up to there.
const LOOKED_BYTES_MAX: u64 = 4 << 20;

/// Reads messages of a queue that the filter wants, as `Log::pull` reads those whose tag fits. The ranges of what was
/// found are left out: its bytes are the parts.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn read_matching(
    log: &Log,
    queue: &QueueRef,
    from: QueueOffset,
    limits: ReadLimits,
    filter: &Filter,
) -> Result<(QueueRead, Vec<Part>), Refusal> {
    let mut selection = Selection::new(limits, from);
    let (mut scanned, mut looked_bytes) = (0, 0);
    // Most filters want either nearly all or next to nothing: so begin with as many as are wanted, and go on with more.
    let mut piece_messages = limits.messages_max;
    while !selection.is_full && scanned < limits.scan_max && looked_bytes < LOOKED_BYTES_MAX {
        let left = limits.scan_max - scanned;
        let scan_max = piece_messages.min(left);
        let piece = ReadLimits { messages_max: scan_max, bytes_max: PIECE_BYTES_MAX, scan_max };
        piece_messages = piece_messages.saturating_mul(2);
        let at = selection.next;
        let (read, parts) = log.pull(queue, at, piece, |_| true).await.map_err(|error| unreadable(&error))?;
        let next = match read {
            QueueRead::Found(found) => {
                looked_bytes += found.bytes;
                selection.look_through(&in_memory(parts).await?, filter);
                found.next
            }
            QueueRead::NoMatch { next } => next,
            nothing_here if at == from => return Ok((nothing_here, Vec::new())),
            // The queue ended or lost its front meanwhile: the next pull will see.
            _ => break,
        };
        assert!(next > at, "a read from {at} of queue {}-{} ended at {next}", queue.topic(), queue.id());
        if selection.is_full {
            break;
        }
        selection.next = next;
        scanned = scanned.saturating_add(u32::try_from(next.0 - at.0).unwrap_or(u32::MAX));
        if next == queue.max() {
            break;
        }
        runtime::yield_now().await;
    }
    Ok(selection.finish())
}

/// The bytes of all parts, one behind the other.
pub(crate) async fn copy(parts: Vec<Part>, bytes: u64) -> Result<Bytes, Refusal> {
    let mut copied = Vec::with_capacity(bytes as usize);
    for part in in_memory(parts).await? {
        copied.extend_from_slice(memory(&part));
    }
    Ok(copied.into())
}

/// The same parts, those in files read into memory: all by one call of a helper.
async fn in_memory(parts: Vec<Part>) -> Result<Vec<Part>, Refusal> {
    let files = |part: &Part| if let Part::File(range) = part { Some(range.clone()) } else { None };
    let ranges: Vec<FileRange> = parts.iter().filter_map(files).collect();
    if ranges.is_empty() {
        return Ok(parts);
    }
    let read = runtime::blocking(move || ranges.iter().map(read_range).collect::<io::Result<Vec<_>>>());
    let mut read = read.await.map_err(|error| unreadable(&error))?.into_iter();
    let loaded = |part| match part {
        Part::File(_) => Part::Bytes(read.next().expect("each range was read").into()),
        in_memory => in_memory,
    };
    Ok(parts.into_iter().map(loaded).collect())
}

fn read_range(range: &FileRange) -> io::Result<Vec<u8>> {
    let mut content = vec![0; (range.limit - range.start) as usize];
    range.file.read_exact_at(&mut content, range.start)?;
    Ok(content)
}

fn memory(part: &Part) -> &[u8] {
    part.memory().expect("what lies in files was read")
}

fn unreadable(error: &dyn std::error::Error) -> Refusal {
    Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string())
}

/// What was found so far.
struct Selection {
    limits: ReadLimits,
    parts: Vec<Part>,
    messages: u32,
    bytes: u64,
    /// Where to read on: behind the last message that was decided.
    next: QueueOffset,
    /// No more may be taken.
    is_full: bool,
}

impl Selection {
    fn new(limits: ReadLimits, from: QueueOffset) -> Selection {
        Selection { limits, parts: Vec::new(), messages: 0, bytes: 0, next: from, is_full: false }
    }

    /// Takes what the filter wants of the records in some parts that lie behind each other, as far as there is room.
    fn look_through(&mut self, parts: &[Part], filter: &Filter) {
        // A record may lie across two parts: one in some thousands does, and is put together.
        let mut torn: Vec<u8> = Vec::new();
        for part in parts {
            let mut at = 0;
            while !torn.is_empty() && at < part.bytes() && missing_of(&torn) > 0 {
                let piece = missing_of(&torn).min(part.bytes() - at);
                torn.extend_from_slice(&memory(part)[at..at + piece]);
                at += piece;
            }
            if !torn.is_empty() && missing_of(&torn) == 0 {
                self.look_at(&Part::Bytes(std::mem::take(&mut torn).into()), 0, filter);
            }
            if self.is_full {
                return;
            }
            let end = self.look_at(part, at, filter);
            torn.extend_from_slice(&memory(part)[end..]);
        }
        assert!(torn.is_empty() || self.is_full, "{} bytes of a record were read, not all of it", torn.len());
    }

    /// Takes what the filter wants of the records in one part from a place on. Neighbours stay together. Gives where it
    /// ended: where nothing more may be taken, or where no whole record is left.
    fn look_at(&mut self, part: &Part, from: usize, filter: &Filter) -> usize {
        let records = memory(part);
        let (mut at, mut run_start) = (from, from);
        while !self.is_full && missing_of(&records[at..]) == 0 {
            let (record_bytes, queue_offset) = head(&records[at..]);
            // A record of somebody else whose properties are no text has none.
            let properties = RecordView::decode(&records[at..]).map_or("", |record| record.properties());
            if !filter.matches(properties) {
                self.take(part, run_start..at);
                run_start = at + record_bytes;
            } else if self.has_room(record_bytes as u64) {
                self.messages += 1;
                self.bytes += record_bytes as u64;
            } else {
                self.is_full = true;
                break;
            }
            at += record_bytes;
            self.next = QueueOffset(queue_offset.0 + 1);
            self.is_full = self.messages == self.limits.messages_max;
        }
        self.take(part, run_start..at);
        at
    }

    /// The first message is given even if it is larger.
    fn has_room(&self, record_bytes: u64) -> bool {
        self.messages == 0 || self.bytes + record_bytes <= self.limits.bytes_max
    }

    fn take(&mut self, part: &Part, run: Range<usize>) {
        if !run.is_empty() {
            self.parts.push(part.slice(run));
        }
    }

    fn finish(self) -> (QueueRead, Vec<Part>) {
        let Selection { parts, messages, bytes, next, .. } = self;
        let part_bytes: usize = parts.iter().map(Part::bytes).sum();
        assert!(part_bytes as u64 == bytes, "{messages} messages of {bytes} bytes lie in {part_bytes} bytes");
        match messages {
            0 => (QueueRead::NoMatch { next }, parts),
            _ => (QueueRead::Found(Found { messages, bytes, next, ..Found::default() }), parts),
        }
    }
}

/// How many bytes are missing behind some for a whole record; as many as tell its length, while that is not known.
fn missing_of(bytes: &[u8]) -> usize {
    match bytes[..].first_chunk::<{ TOTAL_BYTES_AT + 4 }>() {
        None => TOTAL_BYTES_AT + 4 - bytes.len(),
        Some(_) => head_bytes(bytes).saturating_sub(bytes.len()),
    }
}

/// The length of the record whose first bytes these are.
fn head_bytes(record: &[u8]) -> usize {
    let total = record[TOTAL_BYTES_AT..].first_chunk().map_or(0, |field| u32::from_be_bytes(*field)) as usize;
    assert!(total >= FIXED_BYTES, "a record of {total} bytes was read");
    total
}

/// The length of the whole record at the front, and its place in its queue.
fn head(records: &[u8]) -> (usize, QueueOffset) {
    let queue_offset = records[QUEUE_OFFSET_AT..].first_chunk().expect("the fixed part of a record is there");
    (head_bytes(records), QueueOffset(u64::from_be_bytes(*queue_offset)))
}

#[cfg(test)]
mod tests {
    use base::{LogId, LogOffset, Millis, PhysicalOffset, QueueId};
    use remoting::record::{Placement, RecordDraft, encode, record_bytes};

    use super::*;

    const BODY_BYTES: usize = 100;

    /// Records of a queue from offset 10 on, whose property `n` has these values.
    fn records(values: &[&str]) -> Bytes {
        let mut content = Vec::new();
        for (value, queue_offset) in values.iter().zip(10..) {
            let host = "127.0.0.1:1".parse().expect("an address");
            let properties = format!("n\u{1}{value}\u{2}");
            let draft = RecordDraft {
                properties: &properties,
                ..RecordDraft::own("T", QueueId(0), &[7; BODY_BYTES], host, Millis(0))
            };
            let physical_offset = PhysicalOffset::new(LogId(0), LogOffset(content.len() as u64));
            let placement =
                Placement { queue_offset: QueueOffset(queue_offset), physical_offset, store_timestamp_ms: 1 };
            let start = content.len();
            content.resize(start + record_bytes(&draft), 0);
            encode(&draft, placement, &mut content[start..]);
        }
        content.into()
    }

    fn select(limits: ReadLimits, values: &[&str]) -> (QueueRead, Vec<Vec<u64>>) {
        let filter = Filter::compile("n > 5").expect("an expression");
        let mut selection = Selection::new(limits, QueueOffset(10));
        selection.look_through(&[Part::Bytes(records(values))], &filter);
        let (read, parts) = selection.finish();
        let offsets = |part: Part| {
            let Part::Bytes(bytes) = part else { panic!("copies are bytes") };
            remoting::record::Records::new(&bytes).map(|record| record.expect("a record").queue_offset().0).collect()
        };
        (read, parts.into_iter().map(offsets).collect())
    }

    #[test]
    fn neighbours_that_match_go_out_together() {
        let limits = ReadLimits { messages_max: 32, bytes_max: 1 << 20, scan_max: 32 };
        let (read, parts) = select(limits, &["9", "1", "7", "8", "x", "6", "0"]);
        let QueueRead::Found(found) = read else { panic!("{read:?}") };
        assert_eq!((found.messages, found.next, parts), (4, QueueOffset(17), vec![vec![10], vec![12, 13], vec![15]]));
        let (read, parts) = select(limits, &["1", "2"]);
        assert_eq!((read, parts.len()), (QueueRead::NoMatch { next: QueueOffset(12) }, 0));
        let (read, _) = select(limits, &[]);
        assert_eq!(read, QueueRead::NoMatch { next: QueueOffset(10) });
    }

    #[test]
    fn records_across_parts_are_found_as_if_they_were_not() {
        let values = ["9", "1", "7", "8", "x", "6", "0"];
        let (all, filter) = (records(&values), Filter::compile("n > 5").expect("an expression"));
        let limits = ReadLimits { messages_max: 32, bytes_max: 1 << 20, scan_max: 32 };
        let selected = |parts: &[Part]| {
            let mut selection = Selection::new(limits, QueueOffset(10));
            selection.look_through(parts, &filter);
            let (read, parts) = selection.finish();
            (read, parts.iter().flat_map(|part| memory(part).to_vec()).collect::<Vec<u8>>())
        };
        let whole = Part::Bytes(all.clone());
        let wanted = selected(std::slice::from_ref(&whole));
        for cut in 0..=all.len() {
            assert_eq!(selected(&[whole.slice(0..cut), whole.slice(cut..all.len())]), wanted, "cut at {cut}");
        }
        let tiny: Vec<Part> = (0..all.len()).map(|at| whole.slice(at..at + 1)).collect();
        assert_eq!(selected(&tiny), wanted);
    }

    #[test]
    fn limits_end_a_selection_where_the_next_one_goes_on() {
        let limits = ReadLimits { messages_max: 2, bytes_max: 1 << 20, scan_max: 32 };
        let (read, parts) = select(limits, &["1", "6", "1", "7", "1", "8"]);
        let QueueRead::Found(found) = read else { panic!("{read:?}") };
        assert_eq!((found.next, parts), (QueueOffset(14), vec![vec![11], vec![13]]), "behind the second");

        let one = records(&["6"]).len() as u64;
        let limits = ReadLimits { messages_max: 32, bytes_max: 2 * one, scan_max: 32 };
        let (read, parts) = select(limits, &["6", "1", "7", "1", "8", "9"]);
        let QueueRead::Found(found) = read else { panic!("{read:?}") };
        assert_eq!((found.next, found.bytes), (QueueOffset(14), 2 * one), "in front of the third");
        assert_eq!(parts, [[10], [12]]);

        let limits = ReadLimits { messages_max: 32, bytes_max: 1, scan_max: 32 };
        let (read, parts) = select(limits, &["1", "6", "7"]);
        let QueueRead::Found(found) = read else { panic!("{read:?}") };
        assert_eq!((found.next, parts), (QueueOffset(12), vec![vec![11]]), "the first is given however large it is");
    }
}
