//! The limit of open files, which a test with thousands of connections needs raised.

use std::fs;
use std::process::Command;

/// Raises this process's limit of open files to at least `wanted`; processes that it starts afterwards inherit it.
///
/// # Errors
/// What the machine allows and how to raise it.
pub fn raise_open_files(wanted: u64) -> Result<(), String> {
    let (soft, hard) = open_files()?;
    if soft >= wanted {
        return Ok(());
    }
    if hard < wanted {
        return Err(format!(
            "{wanted} open files are needed and the hard limit is {hard}: `ulimit -Hn {wanted}` as root"
        ));
    }
    let status = Command::new("prlimit")
        .arg(format!("--pid={}", std::process::id()))
        .arg(format!("--nofile={hard}:{hard}"))
        .status()
        .map_err(|error| format!("prlimit (package util-linux) cannot be run: {error}; or use `ulimit -n {wanted}`"))?;
    match open_files()? {
        (soft, _) if soft >= wanted => Ok(()),
        (soft, _) => Err(format!("prlimit ended with {status} and the limit is still {soft}")),
    }
}

/// The soft and the hard limit.
fn open_files() -> Result<(u64, u64), String> {
    let text = fs::read_to_string("/proc/self/limits").map_err(|error| format!("/proc/self/limits: {error}"))?;
    let line = text.lines().find(|line| line.starts_with("Max open files")).ok_or("no line `Max open files`")?;
    let mut numbers = line.split_whitespace().skip(3).map(|word| word.parse().unwrap_or(u64::MAX));
    match (numbers.next(), numbers.next()) {
        (Some(soft), Some(hard)) => Ok((soft, hard)),
        _ => Err(format!("cannot read {line:?}")),
    }
}

/// Resident memory of a process in bytes.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
