//! A folder for one test, removed with the value. `RINGMQ_TEST_KEEP=1` leaves it for a look.

use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn new(stem: &str) -> Folder {
        Folder::under(&std::env::temp_dir(), stem)
    }

    pub fn under(parent: &Path, stem: &str) -> Folder {
        let path = parent.join(crate::unique_name(&format!("ringmq-{stem}")));
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
        Folder { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::write(&path, content).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::env::var_os("RINGMQ_TEST_KEEP").is_some() {
            eprintln!("kept {}", self.path.display());
        } else if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Every path below `folder`, relative to it, sorted. A folder that does not exist has none.
pub fn listing(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        let Ok(entries) = fs::read_dir(&current) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = path.strip_prefix(folder).expect("the walk stays below its start");
            names.push(name.to_string_lossy().into_owned());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
        }
    }
    names.sort();
    names
}
