//! Reads records out of segment files one behind the other: for recovery and for the rebuilding of derived extents.
//!
//! Blocks; runs on a helper thread.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use base::{LogId, LogOffset, PhysicalOffset};
use remoting::record::{
    self, BLANK_BYTES, FIXED_BYTES, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PHYSICAL_OFFSET_AT, RecordView,
};
use runtime::file::ReadFile;

use crate::error::StorageError;
use crate::log::segment::Segment;
use crate::recovery::Damage;

/// Bytes read at once; more when a record is longer.
const WINDOW_BYTES: usize = 4 << 20;
/// The longest record a log accepts: a damaged length is not followed further than this.
pub(crate) const RECORD_BYTES_MAX: u64 = 128 << 20;

/// What a scan needs of a segment.
#[derive(Clone, Debug)]
pub(crate) struct ScanSegment {
    pub(crate) start: u64,
    pub(crate) limit: u64,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<ReadFile>,
}

impl From<&Segment> for ScanSegment {
    fn from(segment: &Segment) -> ScanSegment {
        ScanSegment {
            start: segment.start,
            limit: segment.limit,
            path: segment.path.clone(),
            file: segment.read.clone(),
        }
    }
}

/// A stretch of the log, from the start of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanRange {
    pub(crate) start: u64,
    /// Records that start from here on are left alone.
    pub(crate) limit: u64,
    /// Below it everything was durable once, so what does not verify there is damage.
    pub(crate) durable: u64,
}

/// What a scan meets, in the order of the log.
#[derive(Debug)]
pub enum Seen<'a> {
    Record(&'a RecordView<'a>, LogOffset),
    /// A stretch that is passed over.
    Damage(&'a Damage),
}

/// How a scan ended.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// Behind the last record, or the range's limit.
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pub(crate) damages: Vec<Damage>,
}

impl Scanned {
    fn damaged(
        &mut self,
        damage: Damage,
        each: &mut impl FnMut(Seen<'_>) -> Result<ControlFlow<()>, StorageError>,
    ) -> Result<ControlFlow<()>, StorageError> {
        let shown = each(Seen::Damage(&damage));
        self.damages.push(damage);
        shown
    }
}

struct Window<'a> {
    segment: &'a ScanSegment,
    /// Nothing behind it is read without need: it may be being written.
    limit: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// The bytes from `offset` on: at least so many, or all up to the end of the segment.
    fn at(&mut self, offset: u64, bytes: usize) -> Result<&[u8], StorageError> {
        let limit = self.segment.limit.min(offset + bytes as u64);
        let have = self.start + self.bytes.len() as u64;
        if offset < self.start || limit > have {
            let wanted = WINDOW_BYTES.min(self.limit.saturating_sub(offset) as usize).max((limit - offset) as usize);
            self.bytes.resize(wanted, 0);
            self.start = offset;
            let in_file = offset - self.segment.start;
            let read = self.segment.file.read_exact_at(&mut self.bytes, in_file);
            read.map_err(|error| StorageError::io_at("read", &self.segment.path, in_file, error))?;
        }
        Ok(&self.bytes[(offset - self.start) as usize..])
    }
}

enum Step {
    Record(usize),
    Blank,
    Wrong,
}

/// Shows all of the range to `each`, which may end the scan.
pub(crate) fn scan(
    log: LogId,
    segments: &[ScanSegment],
    range: ScanRange,
    mut each: impl FnMut(Seen<'_>) -> Result<ControlFlow<()>, StorageError>,
) -> Result<Scanned, StorageError> {
    let mut scanned = Scanned { end: range.start, bytes: 0, records: 0, damages: Vec::new() };
    for (number, segment) in segments.iter().enumerate().filter(|(_, segment)| segment.limit > range.start) {
        if scanned.end >= range.limit {
            break;
        }
        if segment.start > scanned.end {
            let limit = segment.start.min(range.limit);
            let shown = scanned.damaged(Damage::missing(scanned.end, limit, &segment.path), &mut each)?;
            scanned.end = limit;
            if limit == range.limit || shown.is_break() {
                break;
            }
        }
        let is_last = number + 1 == segments.len();
        if !scan_segment(log, segment, range, is_last, &mut scanned, &mut each)? {
            break;
        }
    }
    Ok(scanned)
}

/// True when the segment was read to its end and the scan is to go on.
fn scan_segment(
    log: LogId,
    segment: &ScanSegment,
    range: ScanRange,
    is_last: bool,
    scanned: &mut Scanned,
    each: &mut impl FnMut(Seen<'_>) -> Result<ControlFlow<()>, StorageError>,
) -> Result<bool, StorageError> {
    let mut window = Window { segment, limit: range.limit.min(segment.limit), start: 0, bytes: Vec::new() };
    while scanned.end < range.limit && scanned.end < segment.limit {
        let at = scanned.end;
        match step(log, &mut window, at)? {
            Step::Record(bytes) => {
                let record = window.at(at, bytes)?;
                let view = RecordView::decode(&record[..bytes]).expect("it was just verified");
                let shown = each(Seen::Record(&view, LogOffset(at)))?;
                scanned.records += 1;
                scanned.bytes += bytes as u64;
                scanned.end += bytes as u64;
                if shown.is_break() {
                    return Ok(false);
                }
            }
            Step::Blank => scanned.end = segment.limit,
            Step::Wrong if at >= range.durable => return Ok(false),
            Step::Wrong => {
                let end = segment.limit.min(range.limit);
                let limit = next_valid(log, &mut window, at + 1, end.min(range.durable))?;
                // Without a valid record up to the end of a segment that is followed by another, all of it is lost.
                let limit = limit.unwrap_or(if is_last { end.min(range.durable) } else { end });
                let shown = scanned.damaged(Damage::bad(at, limit, &segment.path), each)?;
                scanned.end = limit;
                if shown.is_break() {
                    return Ok(false);
                }
            }
        }
    }
    Ok(scanned.end >= segment.limit)
}

fn step(log: LogId, window: &mut Window<'_>, at: u64) -> Result<Step, StorageError> {
    let remaining = window.segment.limit - at;
    if remaining < BLANK_BYTES as u64 {
        return Ok(Step::Wrong);
    }
    let head = window.at(at, BLANK_BYTES)?;
    let (total, magic) = head_of(head);
    if magic == MAGIC_BLANK && u64::from(total) == remaining {
        return Ok(Step::Blank);
    }
    let total = u64::from(total);
    if (magic != MAGIC_V1 && magic != MAGIC_V2) || total < FIXED_BYTES as u64 || total > remaining.min(RECORD_BYTES_MAX)
    {
        return Ok(Step::Wrong);
    }
    let bytes = window.at(at, total as usize)?;
    let valid = record::verify(&bytes[..total as usize], PhysicalOffset::new(log, LogOffset(at))).is_ok();
    Ok(if valid { Step::Record(total as usize) } else { Step::Wrong })
}

fn head_of(bytes: &[u8]) -> (u32, u32) {
    let u32_at = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    (u32_at(record::TOTAL_BYTES_AT), u32_at(record::MAGIC_AT))
}

/// The next place from `from` on at which a record verifies, or a filler that reaches to the end of the segment lies.
fn next_valid(log: LogId, window: &mut Window<'_>, from: u64, limit: u64) -> Result<Option<u64>, StorageError> {
    let segment_limit = window.segment.limit;
    let mut at = from;
    while at + BLANK_BYTES as u64 <= limit {
        let bytes = window.at(at, FIXED_BYTES)?;
        let in_window = bytes.len().min((limit - at) as usize);
        let candidate = (0..in_window.saturating_sub(FIXED_BYTES - 1).max(1)).find(|&skip| {
            let place = at + skip as u64;
            may_start_here(&bytes[skip..], place, segment_limit, log)
        });
        match candidate {
            Some(skip) => {
                at += skip as u64;
                if !matches!(step(log, window, at)?, Step::Wrong) {
                    return Ok(Some(at));
                }
                at += 1;
            }
            None => at += in_window.saturating_sub(FIXED_BYTES - 1).max(1) as u64,
        }
    }
    Ok(None)
}

/// A cheap look before a checksum is computed.
fn may_start_here(bytes: &[u8], at: u64, segment_limit: u64, log: LogId) -> bool {
    if bytes.len() < BLANK_BYTES {
        return false;
    }
    let (total, magic) = head_of(bytes);
    if magic == MAGIC_BLANK {
        return u64::from(total) == segment_limit - at;
    }
    if magic != MAGIC_V1 && magic != MAGIC_V2 {
        return false;
    }
    let expected = PhysicalOffset::new(log, LogOffset(at)).0.to_be_bytes();
    bytes.get(PHYSICAL_OFFSET_AT..PHYSICAL_OFFSET_AT + 8).is_some_and(|found| found == expected)
}
