//! Rules of the sources that neither the compiler nor clippy checks.

mod manifest;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use crate::steps::Findings;

/// The crates, in the order of their dependencies.
pub(crate) const CRATES: [&str; 11] =
    ["base", "runtime", "remoting", "transport", "storage", "namesrv", "client", "broker", "cli", "tests", "xtask"];

/// Checks all manifests and all sources.
pub(crate) fn check(root: &Path) -> Result<Findings, String> {
    let mut findings = Findings::default();
    for name in CRATES {
        let path = root.join(name).join("Cargo.toml");
        manifest::check(name, &read(&path)?, &mut findings)?;
        for path in rust_files(&root.join(name))? {
            let shown =
                path.strip_prefix(root).expect("the walk stays in the workspace").to_string_lossy().into_owned();
            source::check(&shown, &read(&path)?, &mut findings);
        }
    }
    manifest::check_members(&read(&root.join("Cargo.toml"))?, &mut findings)?;
    Ok(findings)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("tidy: {}: {error}", path.display()))
}

/// All Rust files of a crate, sorted; build folders are passed over.
fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        let entries = fs::read_dir(&current).map_err(|error| format!("tidy: {}: {error}", current.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("tidy: {}: {error}", current.display()))?.path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
