//! The new store: made under another name, and renamed when it is whole.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base::LogId;
use remoting::json;
use runtime::file::{space, sync_folder};
use runtime::table_file;
use serde::Serialize;
use storage::{LogBuilder, Store, StoreOptions};

use crate::error::{ImportError, IoContext};

/// What is added to the name of a store that is being made.
const UNFINISHED: &str = ".importing";

pub(crate) struct Target {
    store: Store,
    building: PathBuf,
    root: PathBuf,
    is_finished: bool,
}

impl Target {
    /// Begins a store for so many bytes. What an earlier import left unfinished goes.
    ///
    /// # Errors
    /// When something is there already, there is no room, or the folder cannot be made.
    pub(crate) fn create(root: &Path, logs: u16, bytes: u64) -> Result<Target, ImportError> {
        refuse_what_is_there(root)?;
        let mut building = root.as_os_str().to_owned();
        building.push(UNFINISHED);
        let building = PathBuf::from(building);
        let options = StoreOptions {
            root: building.clone(),
            commit_log_roots: vec![building.join("commitlog")],
            logs: Some(logs),
            logs_if_new: logs,
            flush_kind: None,
        };
        if building.exists() {
            // It takes the lock, so that an import that still runs is not disturbed.
            match Store::open(options.clone()) {
                Err(error @ storage::StorageError::Locked { .. }) => return Err(error.into()),
                _ => fs::remove_dir_all(&building).context("remove", &building)?,
            }
        }
        refuse_without_room(root, bytes)?;
        let store = Store::open(options)?;
        Ok(Target { store, building, root: root.to_owned(), is_finished: false })
    }

    /// Its logs, empty.
    pub(crate) fn logs(&self, segment_bytes: u64) -> Result<Vec<LogBuilder>, ImportError> {
        let build = |log| LogBuilder::create(self.store.log_folders(log), log, segment_bytes);
        Ok((0..self.store.logs()).map(LogId).map(build).collect::<Result<_, _>>()?)
    }

    /// Writes a table of the broker.
    pub(crate) fn write_table(&self, name: &str, table: &impl Serialize) -> Result<(), ImportError> {
        let path = self.store.config_file(name);
        let text = json::encode(table);
        table_file::write(&path, 1, std::str::from_utf8(&text).expect("JSON is UTF-8")).context("write", &path)
    }

    /// Gives the store its name, durably.
    pub(crate) fn finish(mut self) -> Result<(), ImportError> {
        self.store.close()?;
        fs::rename(&self.building, &self.root).context("rename to", &self.root)?;
        self.is_finished = true;
        let parent = parent_of(&self.root);
        sync_folder(parent).context("sync the folder", parent)
    }
}

impl Drop for Target {
    /// An import that failed gives its space back. What cannot be removed is removed by the next.
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_dir_all(&self.building);
        }
    }
}

fn refuse_without_room(root: &Path, bytes: u64) -> Result<(), ImportError> {
    let parent = existing_above(root);
    let available = space(parent).context("look for space in", parent)?.bytes_available;
    if available < bytes {
        return Err(ImportError::Target(format!(
            "the new store needs {bytes} bytes at least, and {available} are available in {}: free space there, or name a \
             folder on another disk; it takes as much as the old one, and each of its logs a segment",
            parent.display()
        )));
    }
    Ok(())
}

/// The nearest folder above a path that is there.
pub(crate) fn existing_above(path: &Path) -> &Path {
    let mut parent = parent_of(path);
    while !parent.exists() {
        parent = parent_of(parent);
    }
    parent
}

fn refuse_what_is_there(root: &Path) -> Result<(), ImportError> {
    let shown = root.display();
    if !root.exists() {
        return Ok(());
    }
    let is_empty = root.is_dir() && fs::read_dir(root).context("list", root)?.next().is_none();
    if !is_empty {
        return Err(ImportError::Target(format!(
            "{shown} is there and not empty: name a folder that is new; an import adds to no store"
        )));
    }
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).context("look at", path);
    if device(root)? != device(parent_of(root))? {
        return Err(ImportError::Target(format!(
            "{shown} is where a file system is mounted, and a store gets its name when it is whole: name a folder in it, \
             as {shown}/store"
        )));
    }
    Ok(())
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::file::TempFolder;

    #[test]
    fn a_store_appears_when_it_is_whole() {
        let folder = TempFolder::new("target");
        let root = folder.path().join("store");
        let unfinished = folder.path().join("store.importing");
        let target = Target::create(&root, 3, 0).expect("begun");
        assert!(!root.exists() && unfinished.exists());
        let error = Target::create(&root, 3, 0).err().expect("two at once").to_string();
        assert!(error.contains("is in use by another process"), "{error}");
        drop(target);
        assert!(!unfinished.exists(), "one that fails leaves nothing");
        let error = Target::create(&root, 3, u64::MAX).err().expect("no room").to_string();
        assert!(error.contains("are available in") && !unfinished.exists(), "{error}");
        fs::create_dir_all(unfinished.join("config")).expect("a folder of one that was killed");
        fs::write(unfinished.join("config/remains"), "x").expect("written");
        fs::create_dir(&root).expect("an empty folder");
        let target = Target::create(&root, 3, 0).expect("begun anew");
        target.finish().expect("finished");
        assert!(root.join("store.json").exists() && !root.join("config/remains").exists() && !unfinished.exists());
        let error = Target::create(&root, 3, 0).err().expect("not empty").to_string();
        assert!(error.contains("not empty: name a folder that is new"), "{error}");
    }
}
