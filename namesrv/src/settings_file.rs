//! The file that settings changed at run time are written to, so that the next start has them.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::config::{Property, Syntax, edited};
use crate::turn::Turn;

/// Changes on their way to the file. Without a file they last as long as the process.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    path: Option<PathBuf>,
    /// Not written yet, in the order they were made.
    changes: RefCell<Vec<Property>>,
    added: Cell<u64>,
    saved: Cell<u64>,
    turn: Turn,
}

impl SettingsFile {
    pub(crate) fn new(path: Option<PathBuf>) -> SettingsFile {
        let (changes, added, saved, turn) = Default::default();
        SettingsFile { path, changes, added, saved, turn }
    }

    pub(crate) fn add(&self, changes: Vec<Property>) {
        if self.path.is_some() {
            self.changes.borrow_mut().extend(changes);
            self.added.set(self.added.get() + 1);
        }
    }

    /// Waits until all that was added before this call is on disk. One write serves all who wait.
    pub(crate) async fn saved(&self) -> io::Result<()> {
        let wanted = self.added.get();
        let _turn = self.turn.take().await;
        let Some(path) = self.path.clone().filter(|_| self.saved.get() < wanted) else { return Ok(()) };
        let writing = self.added.get();
        let changes = self.changes.borrow().clone();
        let count = changes.len();
        runtime::blocking(move || write(&path, &changes)).await?;
        self.changes.borrow_mut().drain(..count);
        self.saved.set(writing);
        Ok(())
    }
}

/// Replaces the file by one with the changes. The one before it stays beside it as `.bak`.
fn write(path: &Path, changes: &[Property]) -> io::Result<()> {
    let before = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        before => Some(before?),
    };
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    let syntax = if is_toml { Syntax::Toml } else { Syntax::Properties };
    let text = edited(before.as_deref().unwrap_or_default(), changes, syntax);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    if let Some(before) = before {
        std::fs::write(beside(path, ".bak"), before)?;
    }
    let fresh = beside(path, ".new");
    let mut file = std::fs::File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    runtime::file::sync_folder(folder)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use runtime::file::TempFolder;

    use super::*;

    fn change(key: &str, value: &str) -> Vec<Property> {
        vec![Property { key: key.to_owned(), value: value.to_owned() }]
    }

    #[test]
    fn changes_reach_the_file_once() {
        let folder = TempFolder::new("settings");
        let path = folder.path().join("namesrv.conf");
        std::fs::write(&path, "# mine\nlistenPort=1\nclusterTest=false\n").unwrap();
        runtime::run_here(async move {
            let file = SettingsFile::new(Some(path.clone()));
            file.saved().await.unwrap();
            assert!(!beside(&path, ".bak").exists(), "nothing to write, nothing written");
            file.add(change("clusterTest", "true"));
            file.saved().await.unwrap();
            file.add(change("orderMessageEnable", "true"));
            let (one, two) = futures_lite::future::zip(file.saved(), file.saved()).await;
            one.unwrap();
            two.unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text, "# mine\nlistenPort=1\nclusterTest=true\norderMessageEnable=true\n");
            let before = std::fs::read_to_string(beside(&path, ".bak")).unwrap();
            assert_eq!(before, "# mine\nlistenPort=1\nclusterTest=true\n");
            let nowhere = SettingsFile::new(None);
            nowhere.add(change("clusterTest", "true"));
            nowhere.saved().await.unwrap();
            std::fs::remove_file(&path).unwrap();
            std::fs::create_dir(&path).unwrap();
            file.add(change("clusterTest", "false"));
            assert!(file.saved().await.is_err());
        })
        .unwrap();
    }
}
