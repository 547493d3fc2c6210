//! A file system of a test's own, in an image that is mounted by a loop device. It takes the right to mount.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The kinds of file systems that are tested with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ext4,
    Xfs,
    Btrfs,
}

/// A mounted file system; it is unmounted with the value.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
}

impl Mounted {
    /// Makes an ext4 of so many bytes, and mounts it.
    ///
    /// # Errors
    /// What is missing to mount one.
    pub fn new(image: &Path, at: &Path, bytes: u64) -> Result<Mounted, String> {
        Mounted::make(Kind::Ext4, image, at, bytes)
    }

    /// Makes a file system of so many bytes, and mounts it.
    ///
    /// # Errors
    /// What is missing to make or mount one.
    pub fn make(kind: Kind, image: &Path, at: &Path, bytes: u64) -> Result<Mounted, String> {
        File::create(image).and_then(|file| file.set_len(bytes)).map_err(|error| error.to_string())?;
        let (program, arguments): (_, &[&str]) = match kind {
            Kind::Ext4 => ("mkfs.ext4", &["-q", "-F", "-m", "0"]),
            Kind::Xfs => ("mkfs.xfs", &["-q", "-f"]),
            Kind::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
        };
        run(Command::new(program).args(arguments).arg(image))?;
        Mounted::of(image, at)
    }

    /// Mounts an image that has a file system.
    ///
    /// # Errors
    /// What is missing to mount it.
    pub fn of(image: &Path, at: &Path) -> Result<Mounted, String> {
        fs::create_dir_all(at).map_err(|error| error.to_string())?;
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(at))?;
        Ok(Mounted { at: at.to_owned() })
    }

    pub fn at(&self) -> &Path {
        &self.at
    }

    /// From now on whoever writes waits, until the value is dropped.
    ///
    /// # Errors
    /// What is missing to freeze it.
    pub fn freeze(&self) -> Result<Frozen<'_>, String> {
        run(Command::new("fsfreeze").arg("-f").arg(&self.at))?;
        Ok(Frozen { mounted: self })
    }

    /// How full it is, as `df` says.
    ///
    /// # Panics
    /// When `df` does not run.
    pub fn used_percent(&self) -> u32 {
        used_percent(&self.at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A process that was just killed lets go of its files a moment later.
        for _ in 0..50 {
            if run(Command::new("umount").arg(&self.at)).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        eprintln!("{} stays mounted", self.at.display());
    }
}

/// A file system that takes no writes.
#[derive(Debug)]
pub struct Frozen<'a> {
    mounted: &'a Mounted,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("fsfreeze").arg("-u").arg(&self.mounted.at)) {
            eprintln!("{} stays frozen: {error}", self.mounted.at.display());
        }
    }
}

/// How full the disk of a folder is, as `df` says.
///
/// # Panics
/// When `df` does not run.
pub fn used_percent(folder: &Path) -> u32 {
    let output = Command::new("df").arg("--output=pcent").arg(folder).output().expect("df runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().nth(1).and_then(|line| line.trim().trim_end_matches('%').parse().ok()).unwrap_or(0)
}

/// Writes a file of as many bytes as there is space for, but for so many that are left.
///
/// # Panics
/// When the file system takes none.
pub fn take_all_but(left_bytes: u64, path: &Path) {
    let spare = path.with_extension("spare");
    if left_bytes > 0 {
        run(Command::new("fallocate").args(["-l", &left_bytes.to_string()]).arg(&spare)).expect("space is reserved");
    }
    let mut file = File::create(path).expect("a file can be made");
    for piece_bytes in [1 << 20, 4096, 1] {
        let piece = vec![7; piece_bytes];
        while file.write_all(&piece).is_ok() {}
    }
    let _ = file.sync_all();
    if left_bytes > 0 {
        fs::remove_file(spare).expect("given back");
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
