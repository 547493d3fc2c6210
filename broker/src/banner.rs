//! What a broker says of itself when it is up: at most a dozen lines on stderr, then one stable line on stdout.

use std::path::PathBuf;
use std::rc::Rc;

use runtime::console;
use runtime::flush::FlushProbe;
use storage::{CacheBytes, FlushChoice, RecoveryReport, StoreWarning};

use crate::config::{Config, FlushDiskType};
use crate::core::Core;
use crate::start::{Boot, log_options};

/// Prints the banner and the line that scripts wait for.
pub(crate) fn print(core: &Rc<Core>, boot: &Boot, reports: &[RecoveryReport]) {
    for line in lines(core, boot, reports) {
        console::tell(format_args!("{line}"));
    }
    let config = core.config();
    console::announce(format_args!(
        "The broker[{}, {}] boot success. serializeType=JSON and name server is {}",
        config.identity.broker,
        core.advertised(),
        name_servers(&config)
    ));
    let recovered = match recovered(reports).len() {
        0 => String::new(),
        logs => format!(", {logs} logs recovered"),
    };
    console::tell(format_args!("READY in {:.2}s{recovered}", boot.began.elapsed().as_secs_f64()));
    for line in &boot.next_steps {
        console::tell(format_args!("{line}"));
    }
}

fn lines(core: &Rc<Core>, boot: &Boot, reports: &[RecoveryReport]) -> Vec<String> {
    let config = core.config();
    let root = boot.store.root();
    let mut lines = vec![
        format!(
            "RingMQ {} broker {} of cluster {}",
            env!("CARGO_PKG_VERSION"),
            config.identity.broker,
            config.identity.cluster
        ),
        format!(
            "store      {} ({}, {})",
            root.display(),
            runtime::file::file_system_name(root),
            if is_direct(boot) { "direct I/O" } else { "no direct I/O: the page cache is used" }
        ),
        format!(
            "cores      {} running {} logs, segments of {} MiB",
            boot.placement.cores,
            boot.placement.logs,
            config.store.segment_bytes >> 20
        ),
        memory(&config, boot),
        format!("durability {}", durability(&config, boot.store.flush())),
        format!("listening  {}, advertised as {} ({})", boot.listen, core.advertised(), "brokerIP1"),
    ];
    if config.store.commit_logs != [root.join("commitlog")] {
        let folder = |folder: &PathBuf| format!("{} ({})", folder.display(), runtime::file::file_system_name(folder));
        let folders: Vec<String> = config.store.commit_logs.iter().map(folder).collect();
        lines.insert(2, format!("messages   {}", folders.join(", ")));
    }
    let recovered = recovered(reports);
    if !recovered.is_empty() {
        let bytes: u64 = recovered.iter().map(|report| report.bytes_scanned).sum();
        let cut: u64 = recovered.iter().map(|report| report.cut_bytes).sum();
        let rebuilt: usize = recovered.iter().map(|report| report.extents_rebuilt).sum();
        let slowest = recovered.iter().map(|report| report.elapsed_ms).max().unwrap_or(0);
        lines.push(format!(
            "recovery   {} logs read again: {bytes} bytes scanned, {cut} bytes of torn tails cut, {rebuilt} files of queues \
             made anew, {slowest} ms",
            recovered.len()
        ));
    }
    lines
}

/// What the caches hold at most. Indexes, connections and what is being answered come to it.
fn memory(config: &Config, boot: &Boot) -> String {
    let logs = boot.placement.logs;
    let CacheBytes { tail, tail_file, read, entries } = log_options(config, logs, boot.store.flush()).cache_bytes();
    let all = u64::from(logs) * (tail + tail_file + read + entries);
    let mapped = if tail_file > 0 { format!(", tail file {}", tail_file >> 20) } else { String::new() };
    format!(
        "memory     {} MiB for caches: {logs} logs x (tail cache {}{mapped}, read cache {}, queue entries {}) MiB",
        all >> 20,
        tail >> 20,
        read >> 20,
        entries >> 20
    )
}

/// The logs that were not stopped in order, or had lost files that are derived from them.
fn recovered(reports: &[RecoveryReport]) -> Vec<&RecoveryReport> {
    reports.iter().filter(|report| !report.was_clean && report.end.0 > 0).collect()
}

fn is_direct(boot: &Boot) -> bool {
    !boot.store.warnings().iter().any(|warning| matches!(warning, StoreWarning::NoDirectIo { .. }))
}

fn durability(config: &Config, flush: FlushChoice) -> String {
    match config.store.flush {
        FlushDiskType::Sync => {
            format!("SYNC_FLUSH by {}: an acknowledged message survives a loss of power", flush_text(flush))
        }
        FlushDiskType::Async => format!(
            "ASYNC_FLUSH: an acknowledged message survives kill -9; a loss of power may take the last {} ms",
            config.store.flush_interval
        ),
    }
}

fn flush_text(flush: FlushChoice) -> String {
    let kind = flush.kind.name();
    match flush.measured {
        None => kind.to_owned(),
        Some(FlushProbe { fdatasync_us, dsync_us }) => {
            format!("{kind} (measured: fdatasync {fdatasync_us} µs, dsync {dsync_us} µs)")
        }
    }
}

pub(crate) fn name_servers(config: &Config) -> String {
    let names: Vec<String> = config.registration.nameservers.iter().map(ToString::to_string).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(";") }
}
