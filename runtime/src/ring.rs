//! The ring that writes and reads logs past the page cache: vectored writes out of shared memory, followed by a flush in one
//! submission, and reads into slabs.
//!
//! On our own reactor this is the core's one ring. On glommio it is a second one, as glommio neither writes out of memory
//! that others read nor links a flush to a write; its completions ring an eventfd which the executor watches.
//!
//! A direct write of a ring is ended by a worker of the kernel that belongs to one CPU. Where others keep the CPUs busy some
//! kernels let it wait for hundreds of milliseconds while threads of the same program run. So after a late write others are
//! calls for a while, on our own reactor: those are ended by the thread that makes them.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use io_uring::{IoUring, opcode, squeue, types};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use slab::Slab;

use crate::buffer::{BLOCK_BYTES, SlabSlice, SlabWriter};
use crate::clock::Stamp;
use crate::file::{DirectFile, PIECE_BYTES};
use crate::flush::FlushKind;
use crate::reactor::glommio::EventWait;
use crate::reactor::{self, Outcome};
use crate::scheduling;

/// Entries of a ring beside glommio: a write and its flush for each log of the core, reads of its pieces, and flushes by
/// timer. Each chain is handed over as it is pushed; more chains at once than half of this are a fault of ours.
const RING_ENTRIES: u32 = 256;
/// What a write is followed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// The write is done when the device has taken it.
    None,
    /// The write is done when it is durable.
    Data(FlushKind),
}

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Zeros given to the device behind the last part, up to the end of its block.
    pub padding_bytes: u64,
    /// The kernel could not start it at once, so that one of its own threads had to do it: it went into blocks that were
    /// not ready, or the device's queue was full.
    pub fell_back: bool,
    /// A thread of ours wrote it, as an earlier write was late.
    pub is_call: bool,
    /// When the device had taken it and when it was durable, as far as these can be told apart.
    pub taken: Option<Stamp>,
    pub durable: Option<Stamp>,
}

impl Written {
    /// One operation that does both, [`FlushKind::Dsync`], does not tell when the device had taken it.
    fn ended(flush: Flush, outcomes: &[Outcome]) -> Written {
        let ended = outcomes.last().and_then(|outcome| outcome.at).unwrap_or_else(Stamp::now);
        let (taken, durable) = match flush {
            Flush::None => (Some(ended), None),
            Flush::Data(FlushKind::Fdatasync) => (outcomes[0].at, Some(ended)),
            Flush::Data(FlushKind::Dsync) => (None, Some(ended)),
        };
        Written { padding_bytes: 0, fell_back: false, is_call: false, taken, durable }
    }
}

/// What the kernel uses until a write has ended.
struct Kept {
    _parts: Vec<SlabSlice>,
    iovecs: Box<[libc::iovec]>,
    /// A copy of the last, partly filled block.
    _tail: Option<SlabWriter>,
    file: Arc<DirectFile>,
}

/// A chain of operations in the hands of a ring of our own beside glommio.
struct Operation {
    /// Completions still to come.
    pending: u32,
    outcomes: Vec<(bool, Outcome)>,
    waker: Option<Waker>,
    _kept: Box<dyn Any>,
}

struct OwnRing {
    ring: RefCell<IoUring>,
    operations: RefCell<Slab<Operation>>,
    event: EventFd,
}

/// The ring of one core.
pub struct WriteRing {
    /// On glommio only.
    own: Option<Rc<OwnRing>>,
    /// Whether the file system can be asked not to fall back.
    can_ask: Cell<bool>,
}

/// Marks the completions of all but the first entry of a chain.
const LATER_BIT: u64 = 1 << 63;

impl WriteRing {
    /// Makes the ring of this core.
    pub fn start() -> io::Result<Rc<WriteRing>> {
        let own = if reactor::is_ring() { None } else { Some(OwnRing::start()?) };
        Ok(Rc::new(WriteRing { own, can_ask: Cell::new(true) }))
    }

    /// Writes the parts, one behind the other, from `offset` on. The last block is filled up with zeros. `offset` and
    /// the start of each part are at the beginning of a block, and all parts but the last are whole blocks.
    ///
    /// Dropping the future does not stop the write.
    pub async fn write(
        &self,
        file: &Arc<DirectFile>,
        offset: u64,
        parts: Vec<SlabSlice>,
        flush: Flush,
    ) -> io::Result<Written> {
        assert!(offset.is_multiple_of(BLOCK_BYTES as u64), "a write at {offset} is not at the beginning of a block");
        if self.own.is_none() && scheduling::was_late() {
            let file = file.clone();
            return reactor::blocking_write(move || call(&file, offset, &parts, flush)).await;
        }
        let began = Instant::now();
        let written = self.ask(file, offset, parts, flush).await?;
        if began.elapsed() > scheduling::LATE {
            scheduling::note_late();
        }
        Ok(written)
    }

    async fn ask(
        &self,
        file: &Arc<DirectFile>,
        offset: u64,
        parts: Vec<SlabSlice>,
        flush: Flush,
    ) -> io::Result<Written> {
        let (iovecs, tail, bytes) = iovecs(&parts)?;
        let padding_bytes = padding_bytes(&parts, bytes);
        let kept = Rc::new(Kept { _parts: parts, iovecs, _tail: tail, file: file.clone() });
        let mut fell_back = false;
        if file.is_direct() && self.can_ask.get() {
            let outcomes = self.attempt(&kept, offset, flush, libc::RWF_NOWAIT).await?;
            match outcomes[0].result {
                refused if refused == -libc::EAGAIN => fell_back = true,
                refused if refused == -libc::EOPNOTSUPP => self.can_ask.set(false),
                // The device's queue was full for a part of it: all of it is written again.
                short if short >= 0 && (short as usize) < bytes => fell_back = true,
                _ => {
                    check(&outcomes, Some(bytes))?;
                    return Ok(Written { padding_bytes, fell_back, ..Written::ended(flush, &outcomes) });
                }
            }
        }
        let outcomes = self.attempt(&kept, offset, flush, 0).await?;
        check(&outcomes, Some(bytes))?;
        Ok(Written { padding_bytes, fell_back, ..Written::ended(flush, &outcomes) })
    }

    async fn attempt(
        &self,
        kept: &Rc<Kept>,
        offset: u64,
        flush: Flush,
        flags: libc::c_int,
    ) -> io::Result<Vec<Outcome>> {
        let flags = if flush == Flush::Data(FlushKind::Dsync) { flags | libc::RWF_DSYNC } else { flags };
        let write =
            opcode::Writev::new(types::Fd(kept.file.as_raw_fd()), kept.iovecs.as_ptr(), kept.iovecs.len() as u32)
                .offset(offset)
                .rw_flags(flags)
                .build();
        let keep = Box::new(kept.clone());
        if flush == Flush::Data(FlushKind::Fdatasync) {
            let linked = write.flags(squeue::Flags::IO_LINK);
            self.submit(&[linked, fdatasync(&kept.file)], keep).await
        } else {
            self.submit(&[write], keep).await
        }
    }

    /// Reads whole blocks from `start` on behind what the slab has.
    ///
    /// Dropping the future does not stop the read.
    pub async fn read(
        &self,
        file: &Arc<DirectFile>,
        start: u64,
        mut slab: SlabWriter,
        bytes: usize,
    ) -> io::Result<SlabWriter> {
        assert!(
            start.is_multiple_of(BLOCK_BYTES as u64) && bytes.is_multiple_of(BLOCK_BYTES),
            "{start}, {bytes} bytes"
        );
        let target = slab.next_bytes(bytes);
        let entries: Vec<squeue::Entry> = (0..bytes)
            .step_by(PIECE_BYTES)
            .map(|at| {
                let piece_bytes = PIECE_BYTES.min(bytes - at) as u32;
                opcode::Read::new(types::Fd(file.as_raw_fd()), target.wrapping_add(at), piece_bytes)
                    .offset(start + at as u64)
                    .build()
            })
            .collect();
        // The kernel writes into the slab until all has ended, whether anybody waits for it or not.
        let kept = Rc::new((Cell::new(Some(slab)), file.clone()));
        let outcomes = self.submit(&entries, Box::new(kept.clone())).await?;
        check(&outcomes, None)?;
        let read = outcomes.iter().map(|outcome| outcome.result as usize).sum::<usize>();
        if read != bytes {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{read} of {bytes} bytes were read")));
        }
        let mut slab = kept.0.take().expect("it was kept for this");
        slab.advance(bytes);
        Ok(slab)
    }

    /// Makes all earlier completed writes of the file durable.
    pub async fn flush(&self, file: &Arc<DirectFile>) -> io::Result<()> {
        let outcomes = self.submit(&[fdatasync(file)], Box::new(file.clone())).await?;
        check(&outcomes, None)
    }

    /// Results of a chain, in the order of its entries: a failed one cancels those behind it.
    async fn submit(&self, entries: &[squeue::Entry], keep: Box<dyn Any>) -> io::Result<Vec<Outcome>> {
        let Some(own) = &self.own else {
            return Ok(reactor::submit(entries, keep).expect("on our own reactor").await);
        };
        own.submit(entries, keep).await
    }
}

/// Writes the parts as a ring does, from this thread. Blocks.
fn call(file: &DirectFile, offset: u64, parts: &[SlabSlice], flush: Flush) -> io::Result<Written> {
    let (iovecs, _tail, bytes) = iovecs(parts)?;
    let flags = if flush == Flush::Data(FlushKind::Dsync) { libc::RWF_DSYNC } else { 0 };
    let result = loop {
        let (descriptor, count) = (file.as_raw_fd(), iovecs.len() as libc::c_int);
        // SAFETY: the memory that the parts and the copy of the last block hold outlives the call.
        let result = unsafe { libc::pwritev2(descriptor, iovecs.as_ptr(), count, offset as libc::off_t, flags) };
        match Errno::result(result) {
            Err(Errno::EINTR) => {}
            outcome => break outcome? as i32,
        }
    };
    let mut outcomes = vec![Outcome { result, at: Some(Stamp::now()) }];
    check(&outcomes, Some(bytes))?;
    if flush == Flush::Data(FlushKind::Fdatasync) {
        file.sync_data()?;
        outcomes.push(Outcome { result: 0, at: Some(Stamp::now()) });
    }
    Ok(Written { padding_bytes: padding_bytes(parts, bytes), is_call: true, ..Written::ended(flush, &outcomes) })
}

/// Zeros behind the parts, of which `bytes` are written in whole blocks.
fn padding_bytes(parts: &[SlabSlice], bytes: usize) -> u64 {
    (bytes - parts.iter().map(|part| part.len()).sum::<usize>()) as u64
}

/// The memory of the parts, with a copy of the last block if it is only partly filled.
fn iovecs(parts: &[SlabSlice]) -> io::Result<(Box<[libc::iovec]>, Option<SlabWriter>, usize)> {
    let mut iovecs = Vec::with_capacity(parts.len() + 1);
    let mut tail = None;
    let mut bytes = 0;
    for (at, part) in parts.iter().enumerate() {
        let whole = part.len() / BLOCK_BYTES * BLOCK_BYTES;
        let aligned = (part.as_ptr() as usize).is_multiple_of(BLOCK_BYTES);
        assert!(aligned, "part {at} of a write does not start at a block");
        if whole > 0 {
            iovecs.push(libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: whole });
        }
        bytes += whole;
        if whole < part.len() {
            assert!(at + 1 == parts.len(), "only the last part of a write may end within a block");
            let block = tail_block(&part[whole..])?;
            let slice = block.slice(0..BLOCK_BYTES);
            iovecs.push(libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: BLOCK_BYTES });
            tail = Some(block);
            bytes += BLOCK_BYTES;
        }
    }
    assert!(bytes > 0, "an empty write");
    Ok((iovecs.into_boxed_slice(), tail, bytes))
}

fn tail_block(content: &[u8]) -> io::Result<SlabWriter> {
    let mut block = SlabWriter::allocate_small(BLOCK_BYTES)?;
    block.write(BLOCK_BYTES, |target| {
        target[..content.len()].copy_from_slice(content);
        target[content.len()..].fill(0);
    });
    Ok(block)
}

/// The first failure of a chain; a write must have written `bytes`.
pub(crate) fn check(outcomes: &[Outcome], bytes: Option<usize>) -> io::Result<()> {
    let mut results = outcomes.iter().map(|outcome| outcome.result);
    // A flush that was cancelled because its write failed must not hide why the write failed.
    if let Some(error) = results.clone().find(|result| *result < 0 && *result != -libc::ECANCELED) {
        return Err(io::Error::from_raw_os_error(-error));
    }
    if let Some(bytes) = bytes
        && outcomes[0].result as usize != bytes
    {
        let text = format!("{} of {bytes} bytes were written", outcomes[0].result);
        return Err(io::Error::new(io::ErrorKind::WriteZero, text));
    }
    match results.find(|result| *result < 0) {
        Some(error) => Err(io::Error::from_raw_os_error(-error)),
        None => Ok(()),
    }
}

pub(crate) fn fdatasync(file: &DirectFile) -> squeue::Entry {
    opcode::Fsync::new(types::Fd(file.as_raw_fd())).flags(types::FsyncFlags::DATASYNC).build()
}

impl OwnRing {
    fn start() -> io::Result<Rc<OwnRing>> {
        let ring = IoUring::builder().setup_coop_taskrun().build(RING_ENTRIES)?;
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        let watch = EventWait::new(&event)?;
        let own = Rc::new(OwnRing { ring: RefCell::new(ring), operations: RefCell::default(), event });
        let completed = Rc::downgrade(&own);
        crate::spawn(async move {
            while watch.rung().await.is_ok() {
                let Some(own) = completed.upgrade() else { return };
                own.complete();
            }
        });
        Ok(own)
    }

    async fn submit(&self, entries: &[squeue::Entry], keep: Box<dyn Any>) -> io::Result<Vec<Outcome>> {
        let operation = Operation { pending: entries.len() as u32, outcomes: Vec::new(), waker: None, _kept: keep };
        let key = {
            let mut operations = self.operations.borrow_mut();
            assert!(operations.len() * 2 < RING_ENTRIES as usize, "{} writes at once", operations.len());
            operations.insert(operation)
        };
        self.push(entries, key)?;
        poll_fn(|context| {
            let mut operations = self.operations.borrow_mut();
            if operations[key].pending > 0 {
                operations[key].waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            let mut outcomes = operations.remove(key).outcomes;
            outcomes.sort_by_key(|(is_flush, _)| *is_flush);
            Poll::Ready(Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect()))
        })
        .await
    }

    fn push(&self, entries: &[squeue::Entry], key: usize) -> io::Result<()> {
        let mut ring = self.ring.borrow_mut();
        for (at, entry) in entries.iter().enumerate() {
            let later = if at > 0 { LATER_BIT } else { 0 };
            let entry = entry.clone().user_data(key as u64 | later);
            // SAFETY: all that the entries refer to is held by their operation until its completions came.
            unsafe { ring.submission().push(&entry) }.expect("the ring has room: operations are bounded");
        }
        loop {
            match ring.submit() {
                Ok(_) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn complete(&self) {
        let mut ring = self.ring.borrow_mut();
        let mut operations = self.operations.borrow_mut();
        let now = Stamp::now();
        for entry in ring.completion() {
            let operation = &mut operations[(entry.user_data() & !LATER_BIT) as usize];
            operation.pending -= 1;
            let outcome = Outcome { result: entry.result(), at: Some(now) };
            operation.outcomes.push((entry.user_data() & LATER_BIT != 0, outcome));
            if operation.pending == 0
                && let Some(waker) = operation.waker.take()
            {
                waker.wake();
            }
        }
    }
}

impl Drop for OwnRing {
    fn drop(&mut self) {
        // Ends the completion task, which holds no strong reference. The kernel may still write out of the memory of
        // pending operations: leak it then, the process is about to end.
        let _ = self.event.write(1);
        let operations = self.operations.take();
        if operations.iter().any(|(_, operation)| operation.pending > 0) {
            std::mem::forget(operations);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{DirectFile, Pace, TempFolder};

    #[test]
    fn parts_are_written_behind_each_other_with_a_padded_end() {
        let folder = TempFolder::new("ring");
        let path = folder.path().join("data");
        crate::run_here(async move {
            let file = Arc::new(DirectFile::create(&path, 1 << 20).expect("a file"));
            let ring = WriteRing::start().expect("a ring");
            let mut first = SlabWriter::allocate(2 * BLOCK_BYTES).expect("memory");
            first.write(2 * BLOCK_BYTES, |target| target.fill(1));
            let mut second = SlabWriter::allocate(2 * BLOCK_BYTES).expect("memory");
            second.write(BLOCK_BYTES + 5, |target| target.fill(2));
            let parts = || vec![first.slice(0..2 * BLOCK_BYTES), second.slice(0..BLOCK_BYTES + 5)];
            let at = BLOCK_BYTES as u64;
            for flush in [Flush::None, Flush::Data(FlushKind::Fdatasync), Flush::Data(FlushKind::Dsync)] {
                for is_call in [false, true] {
                    file.zero(0, 1 << 20, Pace::Quick).expect("zeroed");
                    let written = match is_call {
                        false => ring.ask(&file, at, parts(), flush).await,
                        true => call(&file, at, &parts(), flush),
                    };
                    let written = written.expect("written");
                    assert_eq!((written.padding_bytes, written.is_call), (at - 5, is_call));
                    assert_eq!(written.durable.is_some(), flush != Flush::None, "{written:?}");
                    let bytes = std::fs::read(&path).expect("read back");
                    assert!(bytes[..BLOCK_BYTES].iter().all(|byte| *byte == 0));
                    assert!(bytes[BLOCK_BYTES..3 * BLOCK_BYTES].iter().all(|byte| *byte == 1));
                    assert!(bytes[3 * BLOCK_BYTES..4 * BLOCK_BYTES + 5].iter().all(|byte| *byte == 2));
                    assert!(bytes[4 * BLOCK_BYTES + 5..].iter().all(|byte| *byte == 0));
                }
            }
            ring.flush(&file).await.expect("flushed");
            scheduling::note_late();
            let written = ring.write(&file, at, parts(), Flush::Data(FlushKind::Dsync)).await.expect("written");
            assert_eq!(written.is_call, reactor::is_ring(), "a write after a late one: {written:?}");
        })
        .expect("an executor");
    }

    #[test]
    fn whole_blocks_are_read_in_pieces_and_a_short_file_is_told() {
        let folder = TempFolder::new("ring");
        let path = folder.path().join("data");
        crate::run_here(async move {
            let content: Vec<u8> = (0..2 * PIECE_BYTES + BLOCK_BYTES).map(|at| (at / 1000) as u8).collect();
            std::fs::write(&path, &content).expect("a file");
            let file = Arc::new(DirectFile::open(&path).expect("opened"));
            let ring = WriteRing::start().expect("a ring");
            let (from, bytes) = (BLOCK_BYTES, 2 * PIECE_BYTES);
            let slab = || SlabWriter::allocate(bytes + BLOCK_BYTES).expect("memory");
            let read = ring.read(&file, from as u64, slab(), bytes).await.expect("read").finish();
            assert!(read[..] == content[from..]);
            let error =
                ring.read(&file, from as u64, slab(), bytes + BLOCK_BYTES).await.expect_err("a block is missing");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
        })
        .expect("an executor");
    }

    #[test]
    fn a_write_that_fails_says_why() {
        let folder = TempFolder::new("ring");
        let path = folder.path().join("data");
        crate::run_here(async move {
            std::fs::write(&path, [0; BLOCK_BYTES]).expect("a file");
            let file = Arc::new(DirectFile::open_read_only_for_test(&path).expect("opened"));
            let ring = WriteRing::start().expect("a ring");
            let mut part = SlabWriter::allocate(BLOCK_BYTES).expect("memory");
            part.write(1, |target| target.fill(1));
            let (parts, flush) = (|| vec![part.slice(0..1)], Flush::Data(FlushKind::Fdatasync));
            for outcome in [ring.ask(&file, 0, parts(), flush).await, call(&file, 0, &parts(), flush)] {
                assert_eq!(outcome.expect_err("not writable").raw_os_error(), Some(libc::EBADF));
            }
        })
        .expect("an executor");
    }
}
