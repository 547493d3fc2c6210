//! The few blocking calls on ordinary small files: whole, durable replacement, and listing by number.
//!
//! Called at open, or through `runtime::blocking`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::Millis;
use runtime::file::{keep_in_place, sync_folder};

use crate::error::{IoContext, StorageError};

/// Digits of a file's name that is a start offset.
const NAME_DIGITS: usize = 20;

/// The name of a file that starts at this offset.
pub(crate) fn offset_name(start: u64) -> String {
    format!("{start:0NAME_DIGITS$}")
}

/// The files of a folder whose names are offsets, in order. Files half made by a crash are removed.
pub(crate) fn offset_files(folder: &Path) -> Result<Vec<(u64, PathBuf)>, StorageError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).context("list", folder)? {
        let path = entry.context("list", folder)?.path();
        if path.extension().is_some_and(|extension| extension == "new") {
            fs::remove_file(&path).context("remove", &path)?;
        } else if let Some(start) = offset_of_name(&path) {
            files.push((start, path));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The offset that a file is named by.
pub(crate) fn offset_of_name(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    if name.len() == NAME_DIGITS { name.parse().ok() } else { None }
}

/// Makes a folder and all above it, durably.
pub(crate) fn make_folder(folder: &Path) -> Result<(), StorageError> {
    fs::create_dir_all(folder).context("make the folder", folder)?;
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        sync_folder(parent).context("sync the folder", parent)?;
    }
    Ok(())
}

/// The name under which a file is made before it gets its own.
pub(crate) fn fresh_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

/// Writes a whole file that survives a crash at any instant: either the old content is there or the new.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    replace(path, |file| {
        file.write_all(content)?;
        file.sync_all()
    })?;
    sync_folder(path.parent().expect("a file lies in a folder"))
}

/// Writes a whole file that is there after a kill of the process, and after a loss of power only when the system has
/// written it by then: for what carries checksums and can be made anew. Flushes stop the device, so none is wasted.
pub(crate) fn write_derived(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    replace(path, write)
}

fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let fresh = fresh_path(path);
    let written = File::create(&fresh).and_then(|mut file| write(&mut file));
    if let Err(error) = written {
        let _ = fs::remove_file(&fresh);
        return Err(error);
    }
    fs::rename(&fresh, path)
}

/// Overwrites a part of a file in place, durably. The file is made if it is not there.
pub(crate) fn write_part(path: &Path, offset: u64, content: &[u8]) -> io::Result<()> {
    let made = !path.exists();
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    if made {
        keep_in_place(&file);
    }
    file.write_all_at(content, offset)?;
    file.sync_data()?;
    if made { sync_folder(path.parent().expect("a file lies in a folder")) } else { Ok(()) }
}

/// Gives a file this length, durably. What is added is zeros.
pub(crate) fn resize(path: &Path, bytes: u64) -> Result<(), StorageError> {
    let file = OpenOptions::new().write(true).open(path).context("open for writing", path)?;
    file.set_len(bytes).and_then(|()| file.sync_all()).context("set the length of", path)
}

/// Takes so many bytes from the end of a file and returns how many are left; none of a file that is not there.
pub(crate) fn shorten(path: &Path, by: u64) -> Result<u64, StorageError> {
    let file = match OpenOptions::new().write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(StorageError::io("open for writing", path, error)),
    };
    let left = file.metadata().context("look at", path)?.len().saturating_sub(by);
    file.set_len(left).context("set the length of", path)?;
    Ok(left)
}

/// Gives a file, durably, a name that is removed by the next start: it is not to be found half gone. Returns that name;
/// `None` if the file is not there.
pub(crate) fn set_aside(path: &Path) -> Result<Option<PathBuf>, StorageError> {
    let aside = fresh_path(path);
    match fs::rename(path, &aside) {
        Ok(()) => {
            let folder = path.parent().expect("a file lies in a folder");
            sync_folder(folder).context("sync the folder", folder).map(|()| Some(aside))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StorageError::io("rename", path, error)),
    }
}

/// When a file was written to for the last time.
pub(crate) fn modified(path: &Path) -> Result<Millis, StorageError> {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).context("look at", path)?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(Millis(since.as_millis() as u64))
}

/// Removes a file durably; one that is not there is fine.
pub(crate) fn remove(path: &Path) -> Result<(), StorageError> {
    match fs::remove_file(path) {
        Ok(()) => {
            let folder = path.parent().expect("a file lies in a folder");
            sync_folder(folder).context("sync the folder", folder)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StorageError::io("remove", path, error)),
    }
}
