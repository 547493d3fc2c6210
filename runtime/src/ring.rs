//! The ring that writes logs: vectored direct writes out of shared memory, followed by a flush in one submission.
//!
//! It is beside the reactor's own rings because those neither write out of memory that others read, nor link a flush
//! to a write. One per core; its completions ring an eventfd which the reactor watches.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use io_uring::{IoUring, opcode, squeue, types};
use nix::sys::eventfd::{EfdFlags, EventFd};
use slab::Slab;

use crate::buffer::{BLOCK_BYTES, SlabSlice, SlabWriter};
use crate::file::DirectFile;
use crate::wake::{eventfd_file, read_eventfd};

/// Entries of the ring: a write and its flush for each log of the core, and flushes by timer. More than this at once
/// is a fault of ours.
const RING_ENTRIES: u32 = 256;
/// A blank block holds the last, partly filled block of a write. So many are kept for the next writes.
const BLOCKS_KEPT: usize = 16;

/// What a write is followed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// The write is done when the device has taken it.
    None,
    /// The write is done when `fdatasync` has made it durable.
    Data,
}

/// Counters of a ring since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingCounts {
    pub writes: u64,
    pub flushes: u64,
    /// Bytes given to the device, padding included.
    pub bytes_written: u64,
    /// Of these: zeros behind the last record, up to the end of its block.
    pub bytes_padding: u64,
}

/// A chain of operations in the kernel's hands. All memory that it refers to stays here until its last completion.
struct Operation {
    /// Completions still to come.
    pending: u32,
    result: io::Result<()>,
    /// Bytes that the write must report.
    bytes: usize,
    waker: Option<Waker>,
    _parts: Vec<SlabSlice>,
    _iovecs: Box<[libc::iovec]>,
    tail: Option<SlabWriter>,
    _file: Arc<DirectFile>,
}

/// The ring of one core.
pub struct WriteRing {
    ring: RefCell<IoUring>,
    operations: RefCell<Slab<Operation>>,
    blocks: RefCell<Vec<SlabWriter>>,
    counts: Cell<RingCounts>,
    event: EventFd,
}

const FLUSH_BIT: u64 = 1 << 63;

impl WriteRing {
    /// Makes the ring of this core and starts the task that takes its completions.
    pub fn start() -> io::Result<Rc<WriteRing>> {
        let ring = IoUring::builder().setup_coop_taskrun().build(RING_ENTRIES)?;
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        let watch = eventfd_file(event.as_raw_fd())?;
        let ring = Rc::new(WriteRing {
            ring: RefCell::new(ring),
            operations: RefCell::new(Slab::new()),
            blocks: RefCell::new(Vec::new()),
            counts: Cell::new(RingCounts::default()),
            event,
        });
        let completed = Rc::downgrade(&ring);
        crate::spawn(async move {
            loop {
                read_eventfd(&watch).await;
                let Some(ring) = completed.upgrade() else { return };
                ring.complete();
            }
        });
        Ok(ring)
    }

    pub fn counts(&self) -> RingCounts {
        self.counts.get()
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
    ) -> io::Result<()> {
        let key = self.submit_write(file, offset, parts, flush)?;
        self.finished(key).await
    }

    /// Makes all earlier completed writes of the file durable.
    pub async fn flush(&self, file: &Arc<DirectFile>) -> io::Result<()> {
        let key = self.insert(Operation {
            pending: 1,
            result: Ok(()),
            bytes: 0,
            waker: None,
            _parts: Vec::new(),
            _iovecs: Box::new([]),
            tail: None,
            _file: file.clone(),
        });
        self.push(&[fdatasync(file, key)])?;
        let mut counts = self.counts.get();
        counts.flushes += 1;
        self.counts.set(counts);
        self.finished(key).await
    }

    fn submit_write(
        &self,
        file: &Arc<DirectFile>,
        offset: u64,
        parts: Vec<SlabSlice>,
        flush: Flush,
    ) -> io::Result<usize> {
        assert!(offset.is_multiple_of(BLOCK_BYTES as u64), "a write at {offset} is not at the beginning of a block");
        let (iovecs, tail, bytes) = self.iovecs(&parts)?;
        let iovecs = iovecs.into_boxed_slice();
        let mut write = opcode::Writev::new(types::Fd(file.as_raw_fd()), iovecs.as_ptr(), iovecs.len() as u32)
            .offset(offset)
            .build();
        let padding = bytes - parts.iter().map(|part| part.len()).sum::<usize>();
        let key = self.insert(Operation {
            pending: if flush == Flush::Data { 2 } else { 1 },
            result: Ok(()),
            bytes,
            waker: None,
            _parts: parts,
            _iovecs: iovecs,
            tail,
            _file: file.clone(),
        });
        let mut counts = self.counts.get();
        counts.writes += 1;
        counts.bytes_written += bytes as u64;
        counts.bytes_padding += padding as u64;
        write = write.user_data(key as u64);
        match flush {
            Flush::None => self.push(&[write])?,
            Flush::Data => {
                counts.flushes += 1;
                self.push(&[write.flags(squeue::Flags::IO_LINK), fdatasync(file, key)])?;
            }
        }
        self.counts.set(counts);
        Ok(key)
    }

    /// The memory of the parts, with a copy of the last block if it is only partly filled.
    fn iovecs(&self, parts: &[SlabSlice]) -> io::Result<(Vec<libc::iovec>, Option<SlabWriter>, usize)> {
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
                let block = self.tail_block(&part[whole..])?;
                let slice = block.slice(0..BLOCK_BYTES);
                iovecs.push(libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: BLOCK_BYTES });
                tail = Some(block);
                bytes += BLOCK_BYTES;
            }
        }
        assert!(bytes > 0, "an empty write");
        Ok((iovecs, tail, bytes))
    }

    fn tail_block(&self, content: &[u8]) -> io::Result<SlabWriter> {
        let kept = self.blocks.borrow_mut().pop();
        let mut block = match kept.and_then(|block| SlabWriter::reuse(block.finish())) {
            Some(block) => block,
            None => SlabWriter::allocate(BLOCK_BYTES)?,
        };
        block.write(BLOCK_BYTES, |target| {
            target[..content.len()].copy_from_slice(content);
            target[content.len()..].fill(0);
        });
        Ok(block)
    }

    fn insert(&self, operation: Operation) -> usize {
        let mut operations = self.operations.borrow_mut();
        assert!(operations.len() * 2 < RING_ENTRIES as usize, "{} writes at once", operations.len());
        operations.insert(operation)
    }

    fn push(&self, entries: &[squeue::Entry]) -> io::Result<()> {
        let mut ring = self.ring.borrow_mut();
        {
            let mut queue = ring.submission();
            // SAFETY: all that the entries refer to is held by their operation until its completions came.
            unsafe { queue.push_multiple(entries) }.expect("the ring has room: operations are bounded");
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
        for entry in ring.completion() {
            let key = (entry.user_data() & !FLUSH_BIT) as usize;
            let is_flush = entry.user_data() & FLUSH_BIT != 0;
            let operation = &mut operations[key];
            operation.pending -= 1;
            let outcome = outcome(entry.result(), is_flush, operation.bytes);
            // A flush that was cancelled because its write failed must not hide why the write failed.
            if operation.result.is_ok() {
                operation.result = outcome;
            }
            if operation.pending == 0
                && let Some(waker) = operation.waker.take()
            {
                waker.wake();
            }
        }
    }

    async fn finished(&self, key: usize) -> io::Result<()> {
        poll_fn(|context| {
            let mut operations = self.operations.borrow_mut();
            if operations[key].pending > 0 {
                operations[key].waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            let operation = operations.remove(key);
            if let Some(block) = operation.tail {
                let mut blocks = self.blocks.borrow_mut();
                if blocks.len() < BLOCKS_KEPT {
                    blocks.push(block);
                }
            }
            Poll::Ready(operation.result)
        })
        .await
    }
}

impl Drop for WriteRing {
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

fn fdatasync(file: &DirectFile, key: usize) -> squeue::Entry {
    opcode::Fsync::new(types::Fd(file.as_raw_fd()))
        .flags(types::FsyncFlags::DATASYNC)
        .build()
        .user_data(key as u64 | FLUSH_BIT)
}

fn outcome(result: i32, is_flush: bool, bytes: usize) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    if !is_flush && result as usize != bytes {
        return Err(io::Error::new(io::ErrorKind::WriteZero, format!("{result} of {bytes} bytes were written")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{DirectFile, TempFolder};

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
            for flush in [Flush::None, Flush::Data] {
                let parts = vec![first.slice(0..2 * BLOCK_BYTES), second.slice(0..BLOCK_BYTES + 5)];
                ring.write(&file, BLOCK_BYTES as u64, parts, flush).await.expect("written");
            }
            ring.flush(&file).await.expect("flushed");
            let bytes = std::fs::read(&path).expect("read back");
            assert!(bytes[..BLOCK_BYTES].iter().all(|byte| *byte == 0));
            assert!(bytes[BLOCK_BYTES..3 * BLOCK_BYTES].iter().all(|byte| *byte == 1));
            assert!(bytes[3 * BLOCK_BYTES..4 * BLOCK_BYTES + 5].iter().all(|byte| *byte == 2));
            assert!(bytes[4 * BLOCK_BYTES + 5..].iter().all(|byte| *byte == 0));
            assert_eq!((ring.counts().writes, ring.counts().flushes), (2, 2));
            assert_eq!(ring.counts().bytes_padding, 2 * (BLOCK_BYTES as u64 - 5));
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
            let error = ring.write(&file, 0, vec![part.slice(0..1)], Flush::Data).await.expect_err("not writable");
            assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        })
        .expect("an executor");
    }
}
