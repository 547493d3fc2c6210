//! What a tail file kept of its log over the end of the process, and whether it is all that was acknowledged.

use std::path::Path;

use base::{LogId, LogOffset, PhysicalOffset};
use remoting::record::{self, BLANK_BYTES};
use runtime::file::read_whole;

use crate::checkpoint::Checkpoint;
use crate::error::{IoContext, StorageError};
use crate::log::tail_file;
use crate::scan::RECORD_BYTES_MAX;

/// What the log lacks and the tail file has.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Records, one behind the other, and the fillers between them: a run for each segment.
    pub(crate) runs: Vec<KeptRun>,
    /// Why there may have been more. Only after a new start of the machine, or when the file was taken away.
    pub(crate) lost: Option<String>,
}

#[derive(Debug)]
pub(crate) struct KeptRun {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Kept {
    /// Reads what lies behind `end`, where the log ends.
    ///
    /// # Errors
    /// When the file is there and is not whole, although the machine runs since it was made. It may have records that
    /// nothing else has, so nobody but the operator may give it up, by taking it away.
    pub(crate) fn read(
        path: &Path,
        log: LogId,
        checkpoint: Option<&Checkpoint>,
        end: u64,
        segment_bytes: u64,
    ) -> Result<Kept, StorageError> {
        let (generation, must_be_whole) =
            checkpoint.map_or((0, false), |checkpoint| (checkpoint.tail, checkpoint.boot.is_this()));
        let Some(content) = read_whole(path).context("read", path)? else {
            let lost = (generation > 0).then(|| format!("{} is missing", path.display()));
            return Ok(Kept { lost, ..Kept::default() });
        };
        let (runs, flaw) = match tail_file::decode(&content) {
            None => (Vec::new(), Some("it is no whole tail file".to_owned())),
            Some((head, _, _)) if head.log != log => (Vec::new(), Some(format!("it belongs to log {}", head.log))),
            Some((head, _, _)) if head.generation < generation => {
                (Vec::new(), Some("an older file was put in its place".to_owned()))
            }
            Some((_, kept_end, ring)) => {
                let runs = Ring(ring).runs_from(log, end, segment_bytes);
                let reached = runs.last().map_or(end, |run| run.start + run.bytes.len() as u64);
                let flaw = (reached < kept_end)
                    .then(|| format!("it should have records to {kept_end} and has none behind {reached}"));
                (runs, flaw)
            }
        };
        match flaw {
            Some(flaw) if must_be_whole => {
                let what = format!("{flaw}: put the file back, or remove it and lose the messages that only it has");
                Err(StorageError::Damaged { file: path.to_owned(), offset: None, what })
            }
            flaw => Ok(Kept { runs, lost: flaw.map(|flaw| format!("{}: {flaw}", path.display())) }),
        }
    }
}

struct Ring<'a>(&'a [u8]);

impl Ring<'_> {
    fn runs_from(&self, log: LogId, end: u64, segment_bytes: u64) -> Vec<KeptRun> {
        let mut runs: Vec<KeptRun> = Vec::new();
        let mut at = end;
        loop {
            let segment_limit = (at / segment_bytes + 1) * segment_bytes;
            let (next, bytes) = if let Some(record) = self.record_at(log, at, segment_limit) {
                (at + record.len() as u64, record)
            } else if self.is_filler_at(at, segment_limit) {
                (segment_limit, self.copy(at, BLANK_BYTES))
            } else {
                return runs;
            };
            match runs.last_mut() {
                Some(run) if run.start + run.bytes.len() as u64 == at => run.bytes.extend_from_slice(&bytes),
                _ => runs.push(KeptRun { start: at, bytes }),
            }
            at = next;
        }
    }

    fn record_at(&self, log: LogId, at: u64, segment_limit: u64) -> Option<Vec<u8>> {
        let total = u64::from(u32::from_be_bytes(*self.copy(at, 4).first_chunk()?));
        if total > RECORD_BYTES_MAX.min(segment_limit - at).min(self.0.len() as u64) {
            return None;
        }
        let bytes = self.copy(at, total as usize);
        let is_whole = record::verify(&bytes, PhysicalOffset::new(log, LogOffset(at))).is_ok();
        is_whole.then_some(bytes)
    }

    /// A filler does not tell its offset; one of an earlier round of the ring only leaves a segment before it is full.
    fn is_filler_at(&self, at: u64, segment_limit: u64) -> bool {
        let room = segment_limit - at;
        room >= BLANK_BYTES as u64 && record::blank_bytes(&self.copy(at, BLANK_BYTES)).map(u64::from) == Some(room)
    }

    fn copy(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let at = (offset % self.0.len() as u64) as usize;
        let front = &self.0[at..self.0.len().min(at + bytes)];
        let mut copied = front.to_vec();
        copied.extend_from_slice(&self.0[..bytes - front.len()]);
        copied
    }
}
