//! Opening a log after whatever happened to it.
//!
//! The segments are the only evidence. What derived extents cover is taken from them; the rest is read again, record
//! by record, from the end of the last whole extent on. A bad record below the durable mark is damage: it is reported
//! and passed over. Above the mark it is the torn tail: the log ends there, and everything behind is overwritten with
//! zeros before a record is appended, so that no torn record can come back to life.
//!
//! Blocks; runs on a helper thread.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::{LogId, LogOffset, PhysicalOffset};
use remoting::record;
use runtime::ballast::{self, Lent};
use runtime::buffer::BLOCK_BYTES;
use runtime::file::sync_folder;

use crate::boot::Boot;
use crate::checkpoint::Checkpoint;
use crate::disk;
use crate::error::{IoContext, StorageError};
use crate::kept::Kept;
use crate::log::segment::Segment;
use crate::options::{LogFolders, LogOptions, Progress};
use crate::queue::extent_file::{self, ExtentContent, ExtentFile, StoredRun};
use crate::queue::table::{DeletedTopics, Floor, QueueFloors, settle_table, write_table};
use crate::queue::{IndexBuilder, Span};
use crate::resized::{self, Resized};
use crate::scan::{ScanRange, ScanSegment, Seen, scan};

const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Bytes compared at once when looking for remains behind the end of the log.
const ZERO_PIECE_BYTES: usize = 1 << 20;

/// A stretch of a log that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub start: LogOffset,
    pub limit: LogOffset,
    /// The file it lies in, or the file behind the gap.
    pub file: PathBuf,
    /// No file holds it any more.
    pub missing: bool,
}

impl Damage {
    pub(crate) fn bad(start: u64, limit: u64, file: &Path) -> Damage {
        Damage { start: LogOffset(start), limit: LogOffset(limit), file: file.to_owned(), missing: false }
    }

    pub(crate) fn missing(start: u64, limit: u64, file: &Path) -> Damage {
        Damage { start: LogOffset(start), limit: LogOffset(limit), file: file.to_owned(), missing: true }
    }
}

/// What opening a log has found and done.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    pub log: LogId,
    /// The log was stopped in order, nothing had to be scanned.
    pub was_clean: bool,
    pub min: LogOffset,
    pub end: LogOffset,
    pub bytes_scanned: u64,
    pub records_scanned: u64,
    pub extents_loaded: usize,
    pub extents_rebuilt: usize,
    /// Bytes of a torn tail behind the end that were overwritten with zeros.
    pub cut_bytes: u64,
    pub damages: Vec<Damage>,
    /// Why acknowledged messages of the last moments may be missing.
    pub tail_lost: Option<String>,
    /// Segments whose files were shorter or longer than they were made.
    pub resized: Vec<Resized>,
    /// Tables that were damaged, what is said of each.
    pub restored: Vec<String>,
    /// Where the files of queues end, when the log was stopped in order and goes on behind it. What follows was read again.
    pub derived_end: Option<LogOffset>,
    pub elapsed_ms: u64,
}

/// An extent that is whole.
pub(crate) struct LoadedExtent {
    pub(crate) path: PathBuf,
    pub(crate) file: ExtentFile,
    pub(crate) runs: Vec<StoredRun>,
}

/// All that a core needs to go on with a log.
pub(crate) struct Recovered {
    pub(crate) segments: Vec<Segment>,
    pub(crate) end: u64,
    /// The bytes in front of the end that share its block.
    pub(crate) head: Vec<u8>,
    pub(crate) extents: Vec<LoadedExtent>,
    pub(crate) active: ExtentContent,
    pub(crate) span: Span,
    pub(crate) deleted: (DeletedTopics, u64),
    pub(crate) floors: (QueueFloors, u64),
    pub(crate) store_ms_last: u64,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) report: RecoveryReport,
}

pub(crate) fn recover(folders: &LogFolders, log: LogId, options: &LogOptions) -> Result<Recovered, StorageError> {
    let mut first: Option<RecoveryReport> = None;
    loop {
        match (recover_once(folders, log, options)?, first) {
            (Pass::Done(mut recovered), first) => {
                // It has mended what it found, so only it knows.
                let RecoveryReport { resized, restored, .. } = first.unwrap_or_default();
                recovered.report.resized.splice(0..0, resized);
                recovered.report.restored.splice(0..0, restored);
                return Ok(*recovered);
            }
            (Pass::PutBack(report), Some(first)) if first.end == report.end => {
                let what = "records of the tail file were put back and are not found".to_owned();
                return Err(StorageError::Damaged {
                    file: folders.commit_log.clone(),
                    offset: Some(report.end.0),
                    what,
                });
            }
            (Pass::PutBack(report), None) => first = Some(report),
            (Pass::PutBack(report), Some(before)) => first = Some(RecoveryReport { end: report.end, ..before }),
        }
    }
}

enum Pass {
    Done(Box<Recovered>),
    /// Records of the tail file were put back where the log ended; it is to be recovered with them.
    PutBack(RecoveryReport),
}

fn recover_once(folders: &LogFolders, log: LogId, options: &LogOptions) -> Result<Pass, StorageError> {
    let begun = runtime::clock::instant();
    for folder in [&folders.log, &folders.commit_log, &folders.queues()] {
        disk::make_folder(folder)?;
    }
    let checkpoint = Checkpoint::read(&folders.checkpoint(), log)?;
    let mark = checkpoint.map_or(0, |checkpoint| checkpoint.durable);
    let mut report = RecoveryReport { log, ..RecoveryReport::default() };
    let mut segments = open_segments(folders, options, checkpoint.as_ref(), &mut report)?;
    let min = segments.first().map_or(mark.next_multiple_of(options.segment_bytes), |segment| segment.start);
    let mut deleted: (DeletedTopics, u64) =
        settle_table(&folders.deleted_topics(), "deleted topics", &mut report.restored)?;
    let mut floors: (QueueFloors, u64) =
        settle_table(&folders.queue_floors(), "the ends of queues", &mut report.restored)?;
    if floors.1 == 0 {
        floors.0 = QueueFloors::of_whole_log();
    }
    if let (Some(begin), Some(first)) = (floors.0.log_min, segments.first())
        && first.start > begin
    {
        report.damages.push(Damage::missing(begin, first.start, &first.path));
    }
    report.min = LogOffset(min);
    let scan_segments = segments.iter().map(ScanSegment::from).collect();
    let mut rebuild = Rebuild::new(folders, log, options, scan_segments, mark, &deleted.0, report, begun);
    let (whole, orphans) = rebuild.find_extents(min)?;
    give_up(folders, &orphans, &deleted.0, &mut floors)?;
    rebuild.load_extents(whole, min)?;
    let clean = checkpoint.is_some_and(|checkpoint| checkpoint.clean);
    let growing = rebuild.growing(min)?;
    let is_derived = checkpoint.is_some_and(|checkpoint| checkpoint.durable == rebuild.position);
    if clean && !is_derived {
        rebuild.report.derived_end = Some(LogOffset(rebuild.position));
    }
    let clean = clean && is_derived;
    let active = if clean { growing } else { rebuild.scan_to(growing, u64::MAX)? };
    let end = rebuild.position;
    if !clean {
        let kept = Kept::read(&folders.tail_file(), log, checkpoint.as_ref(), end, options.segment_bytes)?;
        if !kept.runs.is_empty() {
            put_back(folders, log, options, checkpoint, &kept)?;
            return Ok(Pass::PutBack(RecoveryReport { end: LogOffset(end), ..rebuild.report }));
        }
        rebuild.report.tail_lost = kept.lost;
    }
    let (span, active) = (active.span, active.finish(end));
    let (extents, mut report) = (rebuild.extents, rebuild.report);

    // A deletion noted behind the end of the log must not hide records that come to lie there.
    if deleted.0.topics.values().any(|noted| *noted > end) {
        deleted.0.topics.values_mut().for_each(|noted| *noted = end.min(*noted));
        deleted.1 += 1;
        write_table(&folders.deleted_topics(), deleted.1, &deleted.0)?;
    }
    let written_limit = checkpoint.map_or(u64::MAX, |checkpoint| checkpoint.written_limit);
    if !clean {
        report.cut_bytes = erase_behind(&mut segments, folders, end, written_limit)?;
    }
    let written_limit = match checkpoint {
        Some(checkpoint) => checkpoint.written_limit.max(end),
        None => segments.last().map_or(end, |segment| segment.limit).max(end),
    };
    let generation = checkpoint.map_or(1, |checkpoint| checkpoint.generation + 1);
    // From now on the log is not known to end here, so this must be durable before the first record is.
    let segment_bytes = options.segment_bytes;
    let (tail, boot) = checkpoint.map_or((0, Boot::this()), |checkpoint| (checkpoint.tail, checkpoint.boot));
    let checkpoint = Checkpoint { generation, durable: end, written_limit, segment_bytes, tail, boot, clean: false };
    checkpoint.write(&folders.checkpoint(), log)?;

    let stored_last = extents.last().map_or(0, |extent| extent.file.store_ms_last);
    let scanned_last = active.runs.iter().flat_map(|run| run.entries.last()).map(|entry| entry.store_timestamp_ms);
    let store_ms_last = scanned_last.fold(stored_last, u64::max);
    report.was_clean = clean;
    report.end = LogOffset(end);
    report.elapsed_ms = begun.elapsed().as_millis() as u64;
    let head = read_head(&segments, end)?;
    let recovered =
        Recovered { segments, end, head, extents, active, span, deleted, floors, store_ms_last, checkpoint, report };
    Ok(Pass::Done(Box::new(recovered)))
}

/// Removes extents whose records are gone. Their offsets were used, and consumers may have come as far: a queue does
/// not give them once more.
fn give_up(
    folders: &LogFolders,
    orphans: &[LoadedExtent],
    deleted: &DeletedTopics,
    (floors, generation): &mut (QueueFloors, u64),
) -> Result<(), StorageError> {
    let mut is_raised = false;
    for LoadedExtent { file, runs, .. } in orphans {
        for run in runs.iter().filter(|run| deleted.counts(&run.topic, run.log_offset_first)) {
            let floor = Floor { next: run.first + u64::from(run.count), log_end: file.limit };
            is_raised |= floors.raise(&run.topic, run.queue_id, floor);
        }
    }
    if is_raised {
        *generation += 1;
        write_table(&folders.queue_floors(), *generation, floors)?;
    }
    orphans.iter().try_for_each(|extent| disk::remove(&extent.path))
}

/// Writes what the tail file kept where the log ends, durably.
fn put_back(
    folders: &LogFolders,
    log: LogId,
    options: &LogOptions,
    checkpoint: Option<Checkpoint>,
    kept: &Kept,
) -> Result<(), StorageError> {
    if let Some(checkpoint) = checkpoint {
        let limit = kept.runs.last().map_or(0, |run| run.start + run.bytes.len() as u64);
        let written_limit = checkpoint.written_limit.max(limit);
        let generation = checkpoint.generation + 1;
        Checkpoint { generation, written_limit, ..checkpoint }.write(&folders.checkpoint(), log)?;
    }
    for run in &kept.runs {
        let start = run.start / options.segment_bytes * options.segment_bytes;
        let path = folders.commit_log.join(disk::offset_name(start));
        if !path.exists() {
            Segment::create(&folders.commit_log, start, options.segment_bytes)?;
        }
        disk::write_part(&path, run.start - start, &run.bytes).context("write", &path)?;
    }
    Ok(())
}

fn open_segments(
    folders: &LogFolders,
    options: &LogOptions,
    checkpoint: Option<&Checkpoint>,
    report: &mut RecoveryReport,
) -> Result<Vec<Segment>, StorageError> {
    let mut files = disk::offset_files(&folders.commit_log)?;
    // What was in the page cache of a dead machine's kernel is not what will be read after the next loss of power.
    sync_folder(&folders.commit_log).context("sync the folder", &folders.commit_log)?;
    if let Some((_, path)) = files.last()
        && file_bytes(path)? == 0
    {
        disk::remove(path)?;
        files.pop();
    }
    let mut segments = Vec::with_capacity(files.len());
    for (start, path) in files {
        let (found, wanted) = (file_bytes(&path)?, options.segment_bytes);
        // A file that was cut or has grown is repaired, but only if segments are known to have had the wanted size.
        let known = checkpoint.map_or(!found.is_multiple_of(BLOCK_BYTES as u64), |known| known.segment_bytes == wanted);
        if found != wanted && known {
            let seen_ms = runtime::clock::now_ms().0;
            let file = path.display().to_string();
            report.resized.push(Resized { file, bytes_found: found, bytes_given: wanted, seen_ms });
            // In front of what wipes the trace out.
            resized::note(&folders.resized(), &report.resized[report.resized.len() - 1..])?;
            disk::resize(&path, wanted)?;
        }
        let segment = Segment::open(&path, start, wanted)?;
        if segment.limit > checkpoint.map_or(0, |known| known.durable) {
            // A killed process leaves its writes in the kernel's hands. Setting the length waits for those past the
            // page cache, and what is durable then is what the scan finds.
            disk::resize(&path, wanted)?;
        }
        segments.push(segment);
    }
    let mark = checkpoint.map_or(0, |known| known.durable);
    if segments.is_empty() && mark > 0 {
        let what = format!(
            "no segment is there, though the log had records to {mark}: is its disk mounted? Put the files back, or \
             remove {} and lose the messages",
            folders.checkpoint().display()
        );
        return Err(StorageError::Damaged { file: folders.commit_log.clone(), offset: None, what });
    }
    // Where the log is known to have ended there is a segment, so what is gone in front of it is damage as any other
    // and no offset is given twice.
    if segments.last().is_some_and(|last| last.limit < mark) {
        let mark_start = mark / options.segment_bytes * options.segment_bytes;
        segments.push(Segment::create(&folders.commit_log, mark_start, options.segment_bytes)?);
    }
    Ok(segments)
}

fn file_bytes(path: &Path) -> Result<u64, StorageError> {
    Ok(std::fs::metadata(path).context("look at", path)?.len())
}

/// The state of deriving everything from the log that no whole extent holds.
struct Rebuild<'a> {
    folders: &'a LogFolders,
    log: LogId,
    options: &'a LogOptions,
    segments: Vec<ScanSegment>,
    mark: u64,
    deleted: &'a DeletedTopics,
    extents: Vec<LoadedExtent>,
    /// Everything in front of it is in an extent or in the builder.
    position: u64,
    report: RecoveryReport,
    told: Instant,
}

impl<'a> Rebuild<'a> {
    #[expect(clippy::too_many_arguments, reason = "a struct of the same fields would be made only for this call")]
    fn new(
        folders: &'a LogFolders,
        log: LogId,
        options: &'a LogOptions,
        segments: Vec<ScanSegment>,
        mark: u64,
        deleted: &'a DeletedTopics,
        report: RecoveryReport,
        told: Instant,
    ) -> Rebuild<'a> {
        Rebuild { folders, log, options, segments, mark, deleted, extents: Vec::new(), position: 0, report, told }
    }

    /// The extents whose records the log still has, and those whose records it does not.
    fn find_extents(&self, min: u64) -> Result<(Vec<LoadedExtent>, Vec<LoadedExtent>), StorageError> {
        let (mut whole, mut orphans) = (Vec::new(), Vec::new());
        for (start, path) in disk::offset_files(&self.folders.queues())? {
            match ExtentFile::open(&path, self.log) {
                Ok((file, runs)) if file.start == start => {
                    let found = if self.covers(&file, min) { &mut whole } else { &mut orphans };
                    found.push(LoadedExtent { path, file, runs });
                }
                Ok(_) => disk::remove(&path)?,
                Err(error) if is_damage(&error) => disk::remove(&path)?,
                Err(error) => return Err(StorageError::io("read", &path, error)),
            }
        }
        while let Some(last) = whole.pop() {
            if self.holds_record(last.file.last_record, last.file.limit)? {
                whole.push(last);
                break;
            }
            orphans.push(last);
        }
        Ok((whole, orphans))
    }

    /// Takes all whole extents, and makes those anew that are missing between them.
    fn load_extents(&mut self, whole: Vec<LoadedExtent>, min: u64) -> Result<(), StorageError> {
        self.position = min;
        for mut extent in whole {
            if extent.file.start < self.position && self.position > min {
                disk::remove(&extent.path)?;
                continue;
            }
            if extent.file.start > self.position {
                let builder = self.scan_to(self.builder_at(self.position), extent.file.start)?;
                self.store(builder, extent.file.start)?;
            }
            extent.runs.retain(|run| self.deleted.counts(&run.topic, run.log_offset_first));
            self.position = extent.file.limit;
            self.report.extents_loaded += 1;
            self.extents.push(extent);
        }
        Ok(())
    }

    /// Takes the last extent back into memory: it may get more records.
    fn growing(&mut self, min: u64) -> Result<IndexBuilder, StorageError> {
        let Some(last) = self.extents.pop() else { return Ok(self.builder_at(self.position)) };
        match IndexBuilder::of_extent(self.log, &last.file, &last.runs) {
            Ok(builder) => Ok(builder),
            Err(error) if is_damage(&error) => {
                disk::remove(&last.path)?;
                self.position = last.file.start.max(min);
                Ok(self.builder_at(self.position))
            }
            Err(error) => Err(StorageError::io("read", &last.path, error)),
        }
    }

    /// Whether the log still has all bytes that an extent was derived from, or at least those behind its beginning.
    fn covers(&self, extent: &ExtentFile, min: u64) -> bool {
        let mut at = extent.start.max(min);
        for segment in &self.segments {
            if segment.start <= at && at < segment.limit {
                at = segment.limit;
            }
        }
        extent.limit > min && extent.limit <= at
    }

    fn holds_record(&self, at: u64, limit: u64) -> Result<bool, StorageError> {
        let Some(segment) = self.segments.iter().find(|segment| segment.start <= at && at < segment.limit) else {
            return Ok(at >= limit);
        };
        if at >= limit {
            return Ok(true);
        }
        let mut bytes = vec![0; (limit.min(segment.limit) - at) as usize];
        segment.file.read_exact_at(&mut bytes, at - segment.start).context("read", &segment.path)?;
        Ok(record::verify(&bytes, PhysicalOffset::new(self.log, LogOffset(at))).is_ok())
    }

    fn builder_at(&self, start: u64) -> IndexBuilder {
        IndexBuilder::new(self.log, start)
    }

    /// Reads from the position on into a builder, storing extents that have all their records. Returns what is left over.
    fn scan_to(&mut self, builder: IndexBuilder, limit: u64) -> Result<IndexBuilder, StorageError> {
        let segments = std::mem::take(&mut self.segments);
        let mut builder = builder;
        let range = ScanRange {
            start: self.position,
            limit,
            durable: self.mark.max(if limit == u64::MAX { 0 } else { limit }),
        };
        let last_limit = segments.last().map_or(self.position, |segment| segment.limit);
        let from = self.position;
        let scanned = scan(self.log, &segments, range, |seen| {
            let Seen::Record(view, offset) = seen else { return Ok(ControlFlow::Continue(())) };
            if builder.ends_before(offset, self.options.extent_bytes) {
                let next = self.builder_at(offset.0);
                self.store(std::mem::replace(&mut builder, next), offset.0)?;
            }
            if self.deleted.counts(view.topic(), offset.0) {
                builder.push(view, offset);
            } else {
                builder.pass(offset);
            }
            self.tell(offset.0 - from, last_limit - from);
            Ok(ControlFlow::Continue(()))
        })?;
        self.segments = segments;
        self.position = scanned.end.min(limit);
        self.report.bytes_scanned += scanned.bytes;
        self.report.records_scanned += scanned.records;
        self.report.damages.extend(scanned.damages);
        Ok(builder)
    }

    fn store(&mut self, builder: IndexBuilder, limit: u64) -> Result<(), StorageError> {
        let extent = store_extent(&self.folders.queues(), self.log, &builder.finish(limit))?;
        self.extents.push(extent);
        self.report.extents_rebuilt += 1;
        Ok(())
    }

    fn tell(&mut self, bytes_scanned: u64, bytes_total: u64) {
        if let Some(progress) = &self.options.progress
            && self.told.elapsed() >= PROGRESS_EVERY
        {
            self.told = runtime::clock::instant();
            progress(Progress { log: self.log, bytes_scanned, bytes_total });
        }
    }
}

/// Writes an extent and opens it. Blocks.
pub(crate) fn store_extent(folder: &Path, log: LogId, content: &ExtentContent) -> Result<LoadedExtent, StorageError> {
    let path = folder.join(disk::offset_name(content.start));
    ballast::lend(&path, Lent::ButForTables, || extent_file::write(&path, content)).context("write", &path)?;
    let (file, runs) = ExtentFile::open(&path, log).context("read back", &path)?;
    Ok(LoadedExtent { path, file, runs })
}

/// Derives one extent from the log once more. Blocks.
pub(crate) fn rebuild_extent(
    folder: &Path,
    log: LogId,
    segments: &[ScanSegment],
    (start, limit): (u64, u64),
    deleted: &DeletedTopics,
) -> Result<LoadedExtent, StorageError> {
    let mut builder = IndexBuilder::new(log, start);
    scan(log, segments, ScanRange { start, limit, durable: limit }, |seen| {
        if let Seen::Record(view, offset) = seen
            && deleted.counts(view.topic(), offset.0)
        {
            builder.push(view, offset);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    store_extent(folder, log, &builder.finish(limit))
}

fn is_damage(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof)
}

/// Removes the segments behind the end of the log and overwrites what is left behind it in its own. Returns how many
/// bytes behind the end held anything.
fn erase_behind(
    segments: &mut Vec<Segment>,
    folders: &LogFolders,
    end: u64,
    written_limit: u64,
) -> Result<u64, StorageError> {
    let kept = segments.iter().take_while(|segment| segment.start <= end).count();
    for segment in segments.drain(kept..) {
        disk::remove(&segment.path)?;
    }
    sync_folder(&folders.commit_log).context("sync the folder", &folders.commit_log)?;
    let Some(segment) = segments.last().filter(|segment| end < segment.limit) else { return Ok(0) };
    let limit = written_limit.clamp(end, segment.limit);
    let mut cut_bytes = 0;
    let mut piece = vec![0; ZERO_PIECE_BYTES];
    let mut at = end;
    while at < limit {
        let bytes = ZERO_PIECE_BYTES.min((limit - at) as usize);
        let in_file = at - segment.start;
        segment.read.read_exact_at(&mut piece[..bytes], in_file).context("read", &segment.path)?;
        if let Some(last) = piece[..bytes].iter().rposition(|byte| *byte != 0) {
            cut_bytes = at + last as u64 + 1 - end;
            piece[..bytes].fill(0);
            disk::write_part(&segment.path, in_file, &piece[..bytes]).context("erase", &segment.path)?;
        }
        at += bytes as u64;
    }
    Ok(cut_bytes)
}

fn read_head(segments: &[Segment], end: u64) -> Result<Vec<u8>, StorageError> {
    let start = end / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    let mut head = vec![0; (end - start) as usize];
    if let Some(segment) = segments.iter().find(|segment| segment.start <= start && start < segment.limit) {
        segment.read.read_exact_at(&mut head, start - segment.start).context("read", &segment.path)?;
    } else {
        assert!(head.is_empty(), "the log ends at {end}, where no segment is");
    }
    Ok(head)
}
