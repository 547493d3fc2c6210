//! Files and folders: direct files for logs, readable files for sockets and scans, and the calls around them.
//!
//! Everything here blocks except where it says otherwise: on a core call it through [`crate::blocking`], or at start.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nix::fcntl::{Flock, FlockArg, PosixFadviseAdvice, posix_fadvise};

use crate::buffer::{BLOCK_BYTES, SlabSlice, SlabWriter};

/// Bytes written or read by one call where a whole range is worked through. Larger direct reads than a device's limit
/// have been seen to hang.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// What [`DirectFile::zero`] writes: the most of one call. A page of this size is one piece for the device: a call costs the
/// same whether it writes 256 KiB or this, 36 us.
const ZERO_BYTES: usize = 2 << 20;

fn zeros() -> io::Result<&'static [u8]> {
    static ZEROS: OnceLock<SlabSlice> = OnceLock::new();
    if let Some(zeros) = ZEROS.get() {
        return Ok(zeros);
    }
    let mut writer = SlabWriter::allocate_ready(ZERO_BYTES)?;
    // New memory is zero.
    writer.write(ZERO_BYTES, |_| ());
    Ok(ZEROS.get_or_init(|| writer.finish()))
}

/// What matters more while blocks are written with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// What others write meanwhile: they wait for small pieces only.
    Gentle,
    /// To be done soon.
    Quick,
}

impl Pace {
    fn piece_bytes(self) -> usize {
        match self {
            Pace::Gentle => PIECE_BYTES,
            Pace::Quick => ZERO_BYTES,
        }
    }
}

/// A preallocated file that is written past the page cache.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    /// False where the file system refuses direct I/O (tmpfs, some overlays) and the page cache is used after all.
    direct: bool,
}

impl DirectFile {
    /// Makes a new file of `bytes` bytes whose space is reserved. It must not exist yet.
    pub fn create(path: &Path, bytes: u64) -> io::Result<DirectFile> {
        let file = DirectFile::open_with(path, OpenOptions::new().read(true).write(true).create_new(true))?;
        keep_in_place(&file.file);
        match reserve(&file.file, 0, bytes) {
            Ok(()) => Ok(file),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL)) => {
                file.file.set_len(bytes).map(|()| file)
            }
            Err(error) => {
                let _ = fs::remove_file(path);
                Err(error)
            }
        }
    }

    pub fn open(path: &Path) -> io::Result<DirectFile> {
        DirectFile::open_with(path, OpenOptions::new().read(true).write(true))
    }

    #[cfg(test)]
    pub(crate) fn open_read_only_for_test(path: &Path) -> io::Result<DirectFile> {
        DirectFile::open_with(path, OpenOptions::new().read(true))
    }

    fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<DirectFile> {
        match options.custom_flags(libc::O_DIRECT).open(path) {
            Ok(file) => Ok(DirectFile { file, direct: true }),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                // Where direct I/O is refused, some file systems have made the file already.
                let file = options.custom_flags(0).create_new(false).create(true).truncate(false).open(path)?;
                Ok(DirectFile { file, direct: false })
            }
            Err(error) => Err(error),
        }
    }

    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Writes zeros over a range of whole blocks, so that its blocks count as written. Makes nothing durable.
    pub fn zero(&self, start: u64, limit: u64, pace: Pace) -> io::Result<()> {
        let zeros = zeros()?;
        let mut at = start;
        while at < limit {
            let bytes = pace.piece_bytes().min((limit - at) as usize);
            self.file.write_all_at(&zeros[..bytes], at)?;
            at += bytes as u64;
        }
        Ok(())
    }

    /// Makes content durable, and what is needed to find it.
    pub(crate) fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Makes content and length durable.
    pub fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// Overwrites a block of a file that is there, past the page cache. Makes nothing durable.
pub fn overwrite_block(path: &Path, start: u64, content: &[u8; BLOCK_BYTES]) -> io::Result<()> {
    let mut block = SlabWriter::allocate_small(BLOCK_BYTES)?;
    block.write(BLOCK_BYTES, |target| target.copy_from_slice(content));
    DirectFile::open(path)?.file.write_all_at(&block.finish(), start)
}

impl AsRawFd for DirectFile {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// A file that is only read, through the page cache: what `sendfile` and scans need.
#[derive(Debug)]
pub struct ReadFile {
    file: File,
}

/// Opens a file for reading; whoever opens a pipe waits for its other end.
fn open_regular(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe or a device, and no file: move it away"));
    }
    File::open(path)
}

/// All that a file holds; `None` when it is not there.
pub fn read_whole(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    Ok(Some(content))
}

impl ReadFile {
    pub fn open(path: &Path) -> io::Result<ReadFile> {
        let file = open_regular(path)?;
        // Reading ahead is done on purpose or not at all: the kernel must not touch blocks that are being written.
        let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM);
        Ok(ReadFile { file })
    }

    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub fn read_exact_at(&self, target: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(target, offset)
    }

    /// Whether all of a range is in the page cache. Does not block.
    pub fn is_resident(&self, start: u64, limit: u64) -> bool {
        match cached_pages(self.as_raw_fd(), start, limit) {
            Some(pages) => pages >= limit.div_ceil(BLOCK_BYTES as u64) - start / BLOCK_BYTES as u64,
            None => false,
        }
    }
}

impl AsRawFd for ReadFile {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// A range of a file, to be sent.
#[derive(Clone, Debug)]
pub struct FileRange {
    pub file: Arc<ReadFile>,
    pub start: u64,
    pub limit: u64,
}

#[repr(C)]
struct CachestatRange {
    start: u64,
    bytes: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of the range that are in the page cache; `None` where the kernel (before 6.5) cannot tell.
fn cached_pages(file: RawFd, start: u64, limit: u64) -> Option<u64> {
    const SYS_CACHESTAT: libc::c_long = 451;
    let aligned = start / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    let range = CachestatRange { start: aligned, bytes: limit - aligned };
    let mut stat = Cachestat::default();
    // SAFETY: both structures have the kernel's layout and outlive the call.
    let code = unsafe { libc::syscall(SYS_CACHESTAT, file, &raw const range, &raw mut stat, 0) };
    (code == 0).then_some(stat.cached)
}

/// Space of the file system that holds a path.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    pub bytes_total: u64,
    /// What nobody uses. Some of it may be kept for the superuser.
    pub bytes_free: u64,
    /// What this process may still use.
    pub bytes_available: u64,
}

/// Reserves the space of a new file, or takes none: the kernel takes what is left before it finds that it is not enough, and
/// whoever writes a small file just then finds the disk full.
pub(crate) fn reserve(file: &File, start: u64, bytes: u64) -> io::Result<()> {
    let stat = nix::sys::statvfs::fstatvfs(file)?;
    if stat.blocks_free() * stat.fragment_size() < bytes {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    // SAFETY: a plain call on a descriptor that is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), start as libc::off_t, bytes as libc::off_t) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

pub fn space(path: &Path) -> io::Result<Space> {
    let stat = nix::sys::statvfs::statvfs(path)?;
    Ok(Space {
        bytes_total: stat.blocks() * stat.fragment_size(),
        bytes_free: stat.blocks_free() * stat.fragment_size(),
        bytes_available: stat.blocks_available() * stat.fragment_size(),
    })
}

/// Whether a file system writes to new places what is overwritten, unless it is told otherwise: then space that is reserved
/// does not help who overwrites.
pub(crate) fn copies_on_write(path: &Path) -> bool {
    ["btrfs", "zfs", "bcachefs"].contains(&&*file_system_name(path))
}

/// Asks btrfs to overwrite a new file in its place: its reserved space stays its own, and direct I/O stays direct. Others
/// refuse, which harms nothing.
pub fn keep_in_place(file: &File) {
    const NO_COPY_ON_WRITE: libc::c_int = 0x0080_0000;
    let mut flags: libc::c_int = 0;
    // SAFETY: plain calls on a descriptor that is open, with a place for the flags that outlives them.
    unsafe {
        if libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) == 0 {
            flags |= NO_COPY_ON_WRITE;
            libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags);
        }
    }
}

/// The name of the file system that holds a path, as far as we know it: for the banner.
pub fn file_system_name(path: &Path) -> String {
    let Ok(stat) = nix::sys::statfs::statfs(path) else { return "unknown file system".to_owned() };
    match stat.filesystem_type().0 {
        0xef53 => "ext4".to_owned(),
        0x5846_5342 => "xfs".to_owned(),
        0x9123_683e => "btrfs".to_owned(),
        0x0102_1994 => "tmpfs".to_owned(),
        0x794c_7630 => "overlayfs".to_owned(),
        0x2fc1_2fc1 => "zfs".to_owned(),
        0xca45_1a4e => "bcachefs".to_owned(),
        other => format!("file system {other:#x}"),
    }
}

/// A lock on a path that the process holds until it ends or drops it.
#[derive(Debug)]
pub struct FileLock {
    _lock: Flock<File>,
}

impl FileLock {
    /// `None` when another process holds the lock.
    pub fn try_take(path: &Path) -> io::Result<Option<FileLock>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(FileLock { _lock: lock })),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(error.into()),
        }
    }
}

/// Whether another process holds the lock of a program in Java on a file, which is one on its first byte. Changes nothing.
pub fn is_locked_by_java(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 1,
        l_pid: 0,
    };
    nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_GETLK(&mut lock))?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Removes a file that may be there.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes names made, renamed or removed in a folder durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Brings to the disk all that anybody has written on the file system of a folder. Blocks, for as long as that takes.
pub fn sync_file_system(folder: &Path) -> io::Result<()> {
    Ok(nix::unistd::syncfs(File::open(folder)?)?)
}

/// A folder under the system's folder for temporary files, removed when dropped. For tests.
#[derive(Debug)]
pub struct TempFolder {
    path: PathBuf,
}

impl TempFolder {
    /// # Panics
    /// When the folder can't be made.
    pub fn new(name: &str) -> TempFolder {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ringmq-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder can be made");
        TempFolder { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residency_follows_reading_and_forgetting() {
        let folder = TempFolder::new("file");
        let path = folder.path().join("data");
        let direct = DirectFile::create(&path, 1 << 20).expect("created");
        direct.zero(0, 1 << 20, Pace::Gentle).expect("zeroed");
        direct.sync_all().expect("synced");
        let file = ReadFile::open(&path).expect("opened");
        let _ = posix_fadvise(&file.file, 0, 1 << 20, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        file.read_exact_at(&mut [0; 70_000 - 4096], 4096).expect("read");
        assert!(file.is_resident(5000, 69_000) || cached_pages(file.as_raw_fd(), 0, 1).is_none());
        assert_eq!(file.bytes().expect("a length"), 1 << 20);
        assert!(DirectFile::create(&path, 4096).is_err(), "an existing file is not overwritten");
    }

    #[test]
    fn a_lock_is_held_once() {
        let folder = TempFolder::new("lock");
        let path = folder.path().join("lock");
        let held = FileLock::try_take(&path).expect("no error").expect("free");
        assert!(FileLock::try_take(&path).expect("no error").is_none());
        drop(held);
        assert!(FileLock::try_take(&path).expect("no error").is_some());
    }
}
