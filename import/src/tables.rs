//! The tables of the other broker: texts in `config/`, each with the one before it as `.bak`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use remoting::json;
use serde::de::DeserializeOwned;

use crate::error::{ImportError, IoContext};

/// Reads a table; `None` when neither it nor its copy is there.
///
/// # Errors
/// When one of them is there and none can be used.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ImportError> {
    read_telling(path, &mut Vec::new())
}

/// As [`read`]; that it was damaged and its copy stands in is told.
///
/// # Errors
/// As those of [`read`].
pub(crate) fn read_telling<T: DeserializeOwned>(
    path: &Path,
    restored: &mut Vec<String>,
) -> Result<Option<T>, ImportError> {
    let mut backup = path.as_os_str().to_owned();
    backup.push(".bak");
    let mut wrong: Option<(PathBuf, json::JsonError)> = None;
    for path in [path.to_owned(), PathBuf::from(backup)] {
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).context("read", &path),
        };
        // The broker that makes a file anew leaves it empty for a moment.
        if text.is_empty() {
            continue;
        }
        match json::decode(&text) {
            Ok(table) => {
                restored.extend(wrong.map(|(path, error)| {
                    format!("{} cannot be read: {error}; its copy was taken, which may be older", path.display())
                }));
                return Ok(Some(table));
            }
            Err(error) => wrong = wrong.or(Some((path, error))),
        }
    }
    match wrong {
        None => Ok(None),
        Some((path, error)) => Err(ImportError::Source(format!(
            "{} cannot be read: {error}; restore it from a backup, or move it and its .bak away to go on without it",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remoting::body::consume::DelayOffsetTable;
    use runtime::file::TempFolder;

    #[test]
    fn the_copy_stands_in() {
        let folder = TempFolder::new("tables");
        let (path, backup) = (folder.path().join("t.json"), folder.path().join("t.json.bak"));
        let read = || read::<DelayOffsetTable>(&path).map(|table| table.map(|table| table.offset_table));
        assert!(matches!(read(), Ok(None)));
        fs::write(&backup, "{\"offsetTable\":{1:10}}").expect("written");
        for newest in ["", "{\"offsetTable\":{1:", "{\"offsetTable\":[]}"] {
            fs::write(&path, newest).expect("written");
            assert_eq!(read().expect("the copy").expect("a table"), [(1, 10)].into(), "{newest}");
        }
        fs::write(&path, "{\"offsetTable\":{2:7,3:1}}").expect("written");
        assert_eq!(read().expect("read").expect("a table"), [(2, 7), (3, 1)].into());
        for path in [&path, &backup] {
            fs::write(path, "x").expect("written");
        }
        let error = read().expect_err("none is whole").to_string();
        assert!(error.contains("t.json cannot be read") && error.contains("restore it"), "{error}");
    }
}
