//! Rules of the sources that neither the compiler nor clippy checks.

mod manifest;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use crate::steps::Findings;

/// The crates that have a rule of what they may use, in the order of their dependencies.
pub(crate) const CRATES: [&str; 13] = [
    "base",
    "runtime",
    "remoting",
    "transport",
    "storage",
    "namesrv",
    "client",
    "broker",
    "import",
    "bench",
    "cli",
    "tests",
    "xtask",
];

/// Kinds of files, beside Rust's, that may not name a developer's machine.
const TEXT_KINDS: [&str; 8] = ["go", "java", "md", "sh", "toml", "txt", "xml", "yml"];

/// Checks all manifests and all sources.
pub(crate) fn check(root: &Path) -> Result<Findings, String> {
    let mut findings = Findings::default();
    for name in manifest::members(&read(&root.join("Cargo.toml"))?, &mut findings)? {
        let path = root.join(&name).join("Cargo.toml");
        manifest::check(&name, &read(&path)?, &mut findings)?;
        for path in files(&root.join(&name), &["rs"])? {
            let shown =
                path.strip_prefix(root).expect("the walk stays in the workspace").to_string_lossy().into_owned();
            source::check(&shown, &read(&path)?, &mut findings);
        }
    }
    for path in files(root, &TEXT_KINDS)? {
        let shown = path.strip_prefix(root).expect("the walk stays in the workspace").to_string_lossy().into_owned();
        source::check_paths(&shown, &read(&path)?, &mut findings);
    }
    Ok(findings)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("tidy: {}: {error}", path.display()))
}

/// All files of these kinds, sorted; hidden folders and build folders are passed over.
fn files(folder: &Path, kinds: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        let entries = fs::read_dir(&current).map_err(|error| format!("tidy: {}: {error}", current.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("tidy: {}: {error}", current.display()))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| kinds.iter().any(|kind| extension == *kind)) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
