//! How a write is made durable, and a probe of which way is quicker on a disk.
//!
//! `fdatasync` writes, then lets the device empty its cache. A write with `O_DSYNC` is durable when it ends: where the
//! device can write past its cache, one command does both; where it can't, the kernel does the same as `fdatasync`, and
//! some devices take longer. And a ring hands `fdatasync` to a thread of the kernel, which costs wakes that a call does not
//! have. Only a measurement of a ring can tell.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};

use crate::buffer::{BLOCK_BYTES, SlabSlice, SlabWriter};
use crate::file::{DirectFile, Pace, remove_if_there};
use crate::reactor::Outcome;
use crate::ring::{check, fdatasync};

/// A way of making a write durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushKind {
    Fdatasync,
    /// As a file opened with `O_DSYNC` does, by a flag of each write.
    Dsync,
}

/// What was measured on a disk: a block's write until it is durable, the shortest of all rounds. Whatever else goes on
/// there only makes them longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushProbe {
    pub fdatasync_us: u64,
    pub dsync_us: u64,
}

/// Rounds at most, and so many at least on a slow disk.
const ROUNDS_MAX: usize = 64;
const ROUNDS_MIN: usize = 5;
/// The probe ends after this time: a start should be quick.
const TIME_MAX: Duration = Duration::from_millis(150);
const FILE_BYTES: u64 = 1 << 20;
/// `fdatasync` must be this much quicker to be taken, in percent.
const CLEARLY_PERCENT: u64 = 15;

impl FlushKind {
    pub fn name(self) -> &'static str {
        match self {
            FlushKind::Fdatasync => "fdatasync",
            FlushKind::Dsync => "dsync",
        }
    }

    pub fn of_name(name: &str) -> Option<FlushKind> {
        [FlushKind::Fdatasync, FlushKind::Dsync].into_iter().find(|kind| kind.name() == name)
    }
}

impl FlushProbe {
    /// Measures on the disk of a folder, in a file of its own, with both ways in turn. Blocks. `None` where there is no
    /// direct I/O, and so nothing to choose.
    pub fn run(folder: &Path) -> io::Result<Option<FlushProbe>> {
        let path = folder.join("flush-probe");
        remove_if_there(&path)?;
        let file = DirectFile::create(&path, FILE_BYTES)?;
        let probe = if file.is_direct() { measure(&file).map(Some) } else { Ok(None) };
        std::fs::remove_file(&path)?;
        probe
    }

    /// The quicker way. `O_DSYNC` if there is little between them: it has fewer wakes, which cost most when all sleeps between
    /// two writes, and half of the processor time.
    pub fn choice(&self) -> FlushKind {
        let is_clear = self.fdatasync_us * 100 < self.dsync_us * (100 - CLEARLY_PERCENT);
        if is_clear { FlushKind::Fdatasync } else { FlushKind::Dsync }
    }
}

fn measure(file: &DirectFile) -> io::Result<FlushProbe> {
    // As the log's: blocks that were written before.
    file.zero(0, FILE_BYTES, Pace::Quick)?;
    file.sync_all()?;
    let mut block = SlabWriter::allocate_small(BLOCK_BYTES)?;
    block.write(BLOCK_BYTES, |target| target.fill(7));
    let block = block.finish();
    let mut ring = IoUring::new(2)?;
    let (mut fdatasync, mut dsync) = (Duration::MAX, Duration::MAX);
    let begun = Instant::now();
    for round in 0..ROUNDS_MAX {
        let at = (2 * round * BLOCK_BYTES) as u64 % FILE_BYTES;
        fdatasync = fdatasync.min(time(&mut ring, FlushKind::Fdatasync, file, &block, at)?);
        dsync = dsync.min(time(&mut ring, FlushKind::Dsync, file, &block, at + BLOCK_BYTES as u64)?);
        if round + 1 >= ROUNDS_MIN && begun.elapsed() > TIME_MAX {
            break;
        }
    }
    Ok(FlushProbe { fdatasync_us: fdatasync.as_micros() as u64, dsync_us: dsync.as_micros() as u64 })
}

/// How long a block's write takes until it is durable, done as the log does it.
fn time(ring: &mut IoUring, kind: FlushKind, file: &DirectFile, block: &SlabSlice, at: u64) -> io::Result<Duration> {
    let started = Instant::now();
    let write = opcode::Write::new(types::Fd(file.as_raw_fd()), block.as_ptr(), block.len() as u32).offset(at);
    let entries = match kind {
        FlushKind::Fdatasync => vec![write.build().flags(squeue::Flags::IO_LINK), fdatasync(file)],
        FlushKind::Dsync => vec![write.rw_flags(libc::RWF_DSYNC).build()],
    };
    // SAFETY: the block and the file outlive the operations, which have ended when this returns.
    unsafe { ring.submission().push_multiple(&entries) }.expect("the ring has room for two entries");
    while ring.completion().len() < entries.len() {
        match ring.submit_and_wait(entries.len()) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    let elapsed = started.elapsed();
    let outcomes: Vec<Outcome> = ring.completion().map(|ended| Outcome { result: ended.result(), at: None }).collect();
    check(&outcomes, Some(block.len()))?;
    Ok(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::TempFolder;

    #[test]
    fn a_probe_measures_both_ways_and_leaves_nothing() {
        let folder = TempFolder::new("flush");
        if let Some(probe) = FlushProbe::run(folder.path()).expect("measured") {
            assert!(probe.fdatasync_us > 0 && probe.dsync_us > 0, "{probe:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
    }

    #[test]
    fn only_what_is_clearly_quicker_is_chosen() {
        for (fdatasync_us, dsync_us, choice) in [
            (1000, 1000, FlushKind::Dsync),
            (1000, 20, FlushKind::Dsync),
            (850, 1000, FlushKind::Dsync),
            (849, 1000, FlushKind::Fdatasync),
            (1000, 2400, FlushKind::Fdatasync),
        ] {
            assert_eq!(FlushProbe { fdatasync_us, dsync_us }.choice(), choice, "{fdatasync_us} {dsync_us}");
        }
        for kind in [FlushKind::Fdatasync, FlushKind::Dsync] {
            assert_eq!(FlushKind::of_name(kind.name()), Some(kind));
        }
    }
}
