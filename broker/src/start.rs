//! The life of a broker: start, serve, stop.
//!
//! The calling thread takes the store's folder and starts the cores. Each core opens its logs; core 0 then loads the
//! tables, registers, listens, says that it is ready, and serves until it is told to stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use base::{CoreId, LogId};
use runtime::mesh::{self, MeshEnd};
use runtime::net::{self, Accepted, Listener};
use runtime::process::StopSignal;
use runtime::ring::WriteRing;
use runtime::{Cores, clock};
use storage::{
    AppendError, Damage, FlushChoice, FlushPolicy, Log, LogOptions, Progress, RecoveryReport, Resized, StorageError,
    Store, StoreOptions,
};
use transport::{Limits, Server};

use crate::config::{Config, FileFormat, FlushDiskType, Settings};
use crate::core::{Core, Tables, set_stopping};
use crate::dispatch::{self, Dispatcher};
use crate::group::GroupConfigOwner;
use crate::live_config::{ConfigFile, ConfigOwner};
use crate::parcel::Parcel;
use crate::placement::{Placement, TABLES_CORE};
use crate::registration::{Facts, Registration};
use crate::table_path::TableError;
use crate::topic::{self, TopicOwner};
use crate::{banner, delay, group, pop, retention, stats, table_path, transaction};

/// Clients of old look for a second port, so far below the first.
const FAST_PORT_BELOW: u16 = 2;
/// How long requests in flight may take to end when the broker stops.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(30);
const DRAIN_LOOK_EVERY: Duration = Duration::from_millis(10);
/// Share of the machine's memory that the tail caches may take together, unless the configuration says otherwise. Memory
/// that is used again is warm; pages touched for the first time cost a tenth of the CPU of a 1 KB send.
const TAIL_CACHE_MEMORY_PART: u64 = 64;

/// How much of a log may wait for its write however small the tail cache is.
const UNWRITTEN_BYTES_MIN: u64 = 16 << 20;

/// What a broker is started with.
pub struct Launch {
    pub config: Config,
    /// The same as texts, as admin tools show and change them.
    pub settings: Settings,
    /// Where changes of the configuration are written back to.
    pub config_file: Option<PathBuf>,
    pub stop: Arc<StopSignal>,
    /// When the process began, for the time that the start took.
    pub began: Instant,
    /// Printed under the banner: what a person may do next.
    pub next_steps: Vec<String>,
}

/// Why a broker did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("cannot listen on {address}: {source}{}", cure_of_listen(source))]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("{reason}")]
    Table { reason: String },
    #[error("{what}: {source}")]
    System { what: &'static str, source: std::io::Error },
    #[error("log {log} takes no record at the start: {source}")]
    FirstRecord { log: LogId, source: AppendError },
    #[error("log {log} failed and nothing more is acknowledged: {source}")]
    LogFailed { log: LogId, source: StorageError },
}

fn cure_of_listen(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => " (another process listens there: stop it, or set another listenPort)",
        std::io::ErrorKind::AddrNotAvailable => " (no interface of this host has it: set another bindAddress)",
        std::io::ErrorKind::PermissionDenied => " (ports below 1024 need a privilege: set another listenPort)",
        _ => "",
    }
}

/// What all cores are given.
pub(crate) struct Boot {
    pub(crate) config: Arc<Config>,
    settings: Settings,
    config_file: Option<PathBuf>,
    pub(crate) placement: Placement,
    pub(crate) listen: SocketAddr,
    pub(crate) advertised: SocketAddr,
    pub(crate) store: Arc<Store>,
    stop: Arc<StopSignal>,
    pub(crate) began: Instant,
    pub(crate) next_steps: Vec<String>,
    ended: Sender<Result<(), BrokerError>>,
}

/// Runs a broker until it is told to stop.
///
/// # Errors
/// When it cannot start, or a log failed. Cores may still run then: the caller ends the process.
pub fn run(launch: Launch) -> Result<(), BrokerError> {
    let Launch { config, settings, config_file, stop, began, next_steps } = launch;
    let asked = SocketAddr::new(config.network.bind_address, config.network.listen_port);
    let listen = net::probe(asked).map_err(|source| BrokerError::Listen { address: asked, source })?;
    let cores = config.machine.cores.unwrap_or_else(runtime::process::cpu_count);
    let store = Store::open(StoreOptions {
        root: config.store.root.clone(),
        commit_log_roots: config.store.commit_logs.clone(),
        logs: config.machine.logs,
        // Each disk is to be used.
        logs_if_new: cores.max(config.store.commit_logs.len() as u16),
        flush_kind: config.store.flush_kind,
    })?;
    for warning in store.warnings() {
        crate::log::warn(format_args!("{warning}"));
    }
    if config.store.read_cache_bytes > 0 && log_options(&config, store.logs(), store.flush()).cache_bytes().read == 0 {
        crate::log::warn(format_args!(
            "readCacheBytes={} is less than 1 MiB for each of {} logs: nothing that is read from the disk is kept for the \
             next reader",
            config.store.read_cache_bytes,
            store.logs()
        ));
    }
    let (ended, end) = channel();
    let advertised = SocketAddr::new(config.network.advertised_address, listen.port());
    let placement = Placement { logs: store.logs(), cores };
    let config = Arc::new(config);
    let boot = Boot {
        config,
        settings,
        config_file,
        placement,
        listen,
        advertised,
        store: Arc::new(store),
        stop,
        began,
        next_steps,
        ended,
    };
    let boot = Arc::new(boot);
    let ends = mesh::ends::<Parcel>(cores);
    let seeds = ends.into_iter().map(|end| (end, boot.clone())).collect();
    let running = Cores::start(seeds, "broker", |_, (end, boot)| run_core(end, boot))
        .map_err(|source| BrokerError::System { what: "the cores do not start", source })?;
    drop(boot);
    // The first word of any core decides. After a failure the other cores are not waited for.
    end.recv().expect("a core says how it ended before it goes")?;
    running.join();
    Ok(())
}

async fn run_core(end: MeshEnd<Parcel>, boot: Arc<Boot>) {
    let core = Core::new(end.join(), boot.placement, &boot.config, boot.advertised);
    let service = Rc::new(Dispatcher { core: core.clone() });
    let limits =
        Limits { idle_time_max: Duration::from_millis(boot.config.network.idle_ms_max.0), ..Limits::default() };
    assert!(core.server.set(Server::new(core.id, service, limits)).is_ok(), "a core has one server");
    start_inbox(&core);
    let opened = open_logs(&core, &boot).await;
    core.opened(opened);
    if core.id == TABLES_CORE {
        let outcome = lead(&core, &boot).await;
        // The receiver is gone when another core failed first; the process is ending then.
        let _ = boot.ended.send(outcome);
    } else {
        core.until_ended().await;
    }
}

fn start_inbox(core: &Rc<Core>) {
    let handling = core.clone();
    runtime::spawn(
        core.mesh.clone().run(Parcel::prefetch, move |from, parcel| dispatch::parcel(&handling, from, parcel)),
    );
}

async fn open_logs(core: &Rc<Core>, boot: &Arc<Boot>) -> Result<Vec<RecoveryReport>, StorageError> {
    let ring = WriteRing::start().map_err(|error| StorageError::Options {
        what: format!("no io_uring for writing ({error}): allow it (sysctl kernel.io_uring_disabled=0, seccomp)"),
    })?;
    let mut logs: Vec<Option<Rc<Log>>> = vec![None; usize::from(boot.placement.logs)];
    let mut reports = Vec::new();
    for id in boot.placement.logs_of(core.id) {
        let options = log_options(&boot.config, boot.placement.logs, boot.store.flush());
        let (log, report) = Log::open(boot.store.log_folders(id), id, options, ring.clone()).await?;
        transaction::open(core, &log).await?;
        pop::open(core, &log).await?;
        watch_visible(core, &log);
        watch_failure(&log, boot);
        logs[usize::from(id.0)] = Some(log);
        reports.push(report);
    }
    core.set_logs(logs);
    Ok(reports)
}

pub(crate) fn log_options(config: &Config, logs: u16, flush: FlushChoice) -> LogOptions {
    LogOptions {
        segment_bytes: config.store.segment_bytes,
        flush: match config.store.flush {
            FlushDiskType::Sync => FlushPolicy::Sync,
            FlushDiskType::Async => FlushPolicy::Async,
        },
        flush_kind: flush.kind,
        flush_interval_ms: config.store.flush_interval.0,
        tail_cache_bytes: tail_cache_bytes(config, logs),
        unwritten_bytes_max: unwritten_bytes_max(config, tail_cache_bytes(config, logs)),
        prepare_ahead_bytes: config.machine.prepare_ahead_bytes,
        read_cache_bytes: config.store.read_cache_bytes / u64::from(logs),
        page_cache: config.store.page_cache,
        cold_bytes_per_second: config.store.cold_bytes_per_second.map(|bytes| (bytes / u64::from(logs)).max(1)),
        tiers: config.store.tiers,
        progress: Some(Arc::new(|progress: Progress| {
            crate::log::note(format_args!(
                "recovering log {}: {} of {} MiB",
                progress.log,
                progress.bytes_scanned >> 20,
                progress.bytes_total >> 20
            ));
        })),
        damaged: Some(Arc::new(tell_damage)),
        ..LogOptions::default()
    }
}

pub(crate) fn tail_cache_bytes(config: &Config, logs: u16) -> u64 {
    let share = runtime::process::memory_bytes_total() / TAIL_CACHE_MEMORY_PART / u64::from(logs);
    config.machine.tail_cache_bytes.unwrap_or(share)
}

/// What waits for its write lies in the tail cache, and half of it is for what is read.
fn unwritten_bytes_max(config: &Config, tail_cache_bytes: u64) -> u64 {
    config.machine.unwritten_bytes_max.min((tail_cache_bytes / 2).max(UNWRITTEN_BYTES_MIN))
}

/// What becomes visible wakes the pulls that wait for it.
fn watch_visible(core: &Rc<Core>, log: &Rc<Log>) {
    let core = core.clone();
    log.on_visible(Box::new(move |record| {
        let (topic, queue, tags_code) = (record.queue.topic(), record.queue.id(), record.entry.tags_code);
        core.waits.arrived(topic, queue, tags_code);
        core.pops.waits.arrived(&core, topic, queue, tags_code);
    }));
}

/// A log that failed ends the process: what it would acknowledge could be lost.
fn watch_failure(log: &Rc<Log>, boot: &Arc<Boot>) {
    let (log, boot) = (log.clone(), boot.clone());
    runtime::spawn(async move {
        let source = log.failed().await;
        let _ = boot.ended.send(Err(BrokerError::LogFailed { log: log.id(), source }));
    });
}

/// What core 0 does: it brings the broker up, and down again.
async fn lead(core: &Rc<Core>, boot: &Arc<Boot>) -> Result<(), BrokerError> {
    let mut reports = Vec::new();
    for opened in core.on_each(|core| async move { core.until_opened().await }).await {
        reports.extend(opened?);
    }
    report_damage(&reports);
    load_tables(core, boot, reports.iter().any(|report| report.end.0 > 0)).await?;
    let listener =
        Listener::bind(boot.listen).map_err(|source| BrokerError::Listen { address: boot.listen, source })?;
    accept(core, listener);
    serve_fast_port(core, boot.listen);
    let registration = core.tables().registration.clone();
    registration.start(core).await;
    banner::print(core, boot, &reports);
    boot.stop.asked().await;
    shut_down(core, boot).await
}

fn report_damage(reports: &[RecoveryReport]) {
    for report in reports {
        for Resized { file, bytes_found, bytes_given, .. } in &report.resized {
            crate::log::warn(format_args!(
                "{file} had {bytes_found} bytes and was given the {bytes_given} of a segment; what was cut off is lost \
                 (`ringmq store dump` goes on telling)"
            ));
        }
        report.restored.iter().for_each(|told| crate::log::warn(format_args!("{told}")));
        report.damages.iter().for_each(|damage| tell_damage(report.log, damage));
        if let Some(end) = report.derived_end {
            crate::log::warn(format_args!(
                "log {}: it was stopped in order, but its files of queues end at offset {end}, for lack of space at the stop \
                 or since some were removed: {} MiB of messages were read again",
                report.log,
                report.bytes_scanned >> 20
            ));
        }
        if let Some(lost) = &report.tail_lost {
            crate::log::warn(format_args!(
                "log {}: acknowledged messages behind offset {} may be lost: {lost}",
                report.log, report.end
            ));
        }
    }
}

fn tell_damage(log: LogId, damage: &Damage) {
    let what = if damage.missing { "no file holds" } else { "records can't be read in" };
    crate::log::warn(format_args!(
        "log {log}: {what} offsets {} to {} ({}); messages there are lost, all others are served",
        damage.start,
        damage.limit,
        damage.file.display()
    ));
}

/// Serves the second port too, as soon as it is free. Few clients use it, so nobody waits for it.
fn serve_fast_port(core: &Rc<Core>, listen: SocketAddr) {
    let Some(port) = fast_port(listen.port()) else { return };
    let address = SocketAddr::new(listen.ip(), port);
    let core = core.clone();
    runtime::spawn_background(async move {
        let free = runtime::blocking(move || net::probe(address)).await;
        match free.and_then(Listener::bind) {
            Ok(listener) => accept(&core, listener),
            Err(error) => crate::log::warn(format_args!(
                "the second port {port}, which only clients of old use, is not served: {error}"
            )),
        }
    });
}

fn fast_port(port: u16) -> Option<u16> {
    port.checked_sub(FAST_PORT_BELOW).filter(|port| *port > 0)
}

async fn load_tables(core: &Rc<Core>, boot: &Arc<Boot>, has_messages: bool) -> Result<(), BrokerError> {
    let table = |error: TableError| BrokerError::Table { reason: error.to_string() };
    table_path::make_missing(&boot.config, has_messages).await.map_err(table)?;
    let facts = Facts::new(&boot.config, boot.advertised.port());
    let tables = Tables {
        topics: TopicOwner::load(&boot.config, boot.placement.logs).await.map_err(table)?,
        group_configs: GroupConfigOwner::load(&boot.config).await.map_err(table)?,
        config: ConfigOwner::new(boot.settings.clone(), config_file(boot)),
        registration: Registration::new(&boot.config, facts),
    };
    let (topics, group_configs) = (tables.topics.clone(), tables.group_configs.clone());
    assert!(core.tables.set(tables).is_ok(), "the tables are loaded once");
    topics.start(core).await.map_err(table)?;
    topic::tell_unknown(core).await;
    group_configs.start(core).await;
    group::load_offsets(core).await.map_err(table)?;
    pop::request_modes::load(core).await.map_err(table)?;
    // What they find at the ends of the logs tells what a crash has cut off, so nobody may have appended anything yet.
    let started = core.on_each(|core| async move {
        delay::start(&core).await?;
        transaction::complete(&core).await.map_err(BrokerError::Storage)
    });
    for outcome in started.await {
        outcome?;
    }
    let ballast = boot.store.ballast().clone();
    core.on_each(move |core| {
        let ballast = ballast.clone();
        async move {
            stats::start(&core);
            group::start_background(&core);
            transaction::start_background(&core);
            pop::commit_recovered(&core).await;
            pop::start_background(&core);
            delay::start_background(&core);
            retention::start_background(&core, ballast);
        }
    })
    .await;
    Ok(())
}

fn config_file(boot: &Boot) -> Option<ConfigFile> {
    let path = boot.config_file.clone()?;
    let format = FileFormat::of_path(&path.to_string_lossy());
    Some(ConfigFile { path, format })
}

/// Accepts on core 0 and hands connections out in turn, so that few connections are spread evenly too.
fn accept(core: &Rc<Core>, listener: Listener) {
    let core = core.clone();
    runtime::spawn_background(async move {
        let mut next = 0;
        let taking = core.clone();
        let take = move |accepted: Accepted| {
            let to = CoreId(next);
            next = (next + 1) % taking.placement.cores;
            if taking.draining.get() {
                drop(accepted);
            } else if to == taking.id {
                dispatch::parcel(&taking, to, Parcel::Connection(accepted));
            } else {
                taking.mesh.send(to, Parcel::Connection(accepted));
            }
        };
        Server::accept(listener, take).await;
    });
}

/// Leaves the nameservers, answers what waits, lets requests end, and brings everything to the disk.
async fn shut_down(core: &Rc<Core>, boot: &Arc<Boot>) -> Result<(), BrokerError> {
    crate::log::note(format_args!("stopping: no new requests are taken"));
    core.tables().registration.stop().await;
    core.on_each(|core| async move {
        core.draining.set(true);
        core.waits.wake_all();
        core.pops.waits.wake_all();
    })
    .await;
    let all_ended = core.on_each(|core| async move { drain(&core).await }).await;
    if all_ended.contains(&false) {
        let seconds = DRAIN_TIME_MAX.as_secs();
        crate::log::warn(format_args!("some requests did not end within {seconds} s: their clients get no answer"));
    }
    // Groups that made themselves are used before they are stored; what changes nothing waits for them.
    let _ = GroupConfigOwner::change(core, Vec::new()).await;
    // A failure is told where it happens; the stop goes on.
    let _ = group::persist_now(core).await;
    set_stopping();
    for stopped in core.on_each(|core| async move { stop_logs(&core).await }).await {
        stopped?;
    }
    boot.store.close()?;
    core.on_each(|core| async move { core.end() }).await;
    crate::log::note(format_args!("stopped: everything acknowledged is durable"));
    Ok(())
}

/// Waits until no request of this core's connections is in flight, then closes them.
async fn drain(core: &Rc<Core>) -> bool {
    let until = clock::instant() + DRAIN_TIME_MAX;
    while core.server().in_flight_bytes() > 0 && clock::instant() < until {
        clock::sleep(DRAIN_LOOK_EVERY).await;
    }
    let ended = core.server().in_flight_bytes() == 0;
    for connection in core.server().all() {
        connection.close();
    }
    ended
}

async fn stop_logs(core: &Rc<Core>) -> Result<(), StorageError> {
    for log in core.own_logs() {
        log.stop().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_port_lies_two_below() {
        assert_eq!([fast_port(10911), fast_port(2), fast_port(1)], [Some(10909), None, None]);
    }
}
