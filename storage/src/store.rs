//! The folder of a store: who uses it, what it was made with, and whether it was left in order.
//!
//! ```text
//! ROOT/lock                  held by the process that uses the store
//! ROOT/store.json            format version and number of logs, fixed when the store is made; store.json.bak is its copy
//! ROOT/abort                 there while the store is in use: a stop in order removes it
//! ROOT/flush.json            what the probe of the disk measured when the store was made; without it, it is measured again
//! ROOT/ballast               space for starts, stops and cleaning on a full disk
//! ROOT/config/*.json         tables of whoever uses the store
//! ROOT/log-NN/               one log; its segments in commitlog/, or in the same folder under one of several others
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base::LogId;
use runtime::ballast::Ballast;
use runtime::file::{DirectFile, FileLock};
use runtime::flush::{FlushKind, FlushProbe};
use runtime::table_file::{self, Stored};
use serde::{Deserialize, Serialize};

use crate::disk;
use crate::error::{IoContext, StorageError};
use crate::identity;
use crate::options::LogFolders;

pub(crate) const FORMAT_VERSION: u32 = 1;
/// A log's number is part of a message's offset on the wire, where it must not become negative.
const LOGS_MAX: u16 = 1 << 15;

/// In front of a log's number, in the name of its folder.
const LOG_PREFIX: &str = "log-";

#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub root: PathBuf,
    /// Where the segments lie, at least one folder; each log stays in the one that it was made in. `ROOT/commitlog` means
    /// the log's own folder under the root.
    pub commit_log_roots: Vec<PathBuf>,
    /// How many logs are asked for. `None`: as many as the store has.
    pub logs: Option<u16>,
    /// How many logs a new store gets if none are asked for.
    pub logs_if_new: u16,
    /// How writes are made durable. `None`: the quicker way on this disk, as measured when the store was made.
    pub flush_kind: Option<FlushKind>,
}

/// How the writes of a store are made durable, and why so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushChoice {
    pub kind: FlushKind,
    /// `None` when it was asked for, or there was nothing to choose.
    pub measured: Option<FlushProbe>,
}

/// Something that works, but not as well as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreWarning {
    /// The file system refuses direct I/O: records go through the page cache.
    NoDirectIo { folder: PathBuf },
    /// The process before this one did not stop in order: logs are recovered.
    NotStopped,
    /// A file was damaged or missing, and its copy had the same.
    Restored { file: PathBuf },
    /// A folder for segments that no log was made in.
    NoLogIn { folder: PathBuf, logs: u16 },
}

impl std::fmt::Display for StoreWarning {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreWarning::NoDirectIo { folder } => write!(
                out,
                "{} lies on a file system without direct I/O: writes go through the page cache and take longer; \
                 use ext4 or XFS on a local disk",
                folder.display()
            ),
            StoreWarning::Restored { file } => {
                write!(out, "{} was damaged or missing: it was made anew from its copy", file.display())
            }
            StoreWarning::NoLogIn { folder, logs } => write!(
                out,
                "no log lies in {}: the store has {logs} logs, and each stays in the folder of storePathCommitLog that it \
                 was made in",
                folder.display()
            ),
            StoreWarning::NotStopped => write!(out, "the store was not stopped in order the last time: recovering"),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct StoreTable {
    pub(crate) format_version: u32,
    pub(crate) logs: u16,
    /// What the store is told apart by. Empty in stores of programs that gave them none.
    #[serde(default)]
    pub(crate) id: String,
}

/// A store in use by this process.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    /// Of each log, the folder of its segments.
    commit_logs: Vec<PathBuf>,
    flush: FlushChoice,
    warnings: Vec<StoreWarning>,
    ballast: Ballast,
    _lock: FileLock,
}

impl Store {
    /// Takes a store, or makes a new one. Blocks.
    ///
    /// # Errors
    /// When another process uses it, it has another number of logs or a newer format, or the folder cannot be used.
    pub fn open(options: StoreOptions) -> Result<Store, StorageError> {
        let StoreOptions { root, commit_log_roots: roots, logs, logs_if_new, flush_kind } = options;
        disk::make_folder(&root)?;
        let lock_path = root.join("lock");
        let lock = FileLock::try_take(&lock_path).context("lock", &lock_path)?;
        let Some(lock) = lock else { return Err(StorageError::Locked { root, file: lock_path }) };
        let ballast = Ballast::of(&root);
        let loan = ballast.lend_if_full().context("look for space in", &root)?;
        let mut warnings = Vec::new();
        let places = Places::new(&root, &roots)?;
        let StoreTable { logs, id, .. } = settle_table(places, logs, logs_if_new, &mut warnings)?;
        let commit_logs = (0..logs).map(|log| places.find(LogId(log))).collect::<Result<Vec<_>, _>>()?;
        for (log, commit_log) in (0..logs).map(LogId).zip(&commit_logs) {
            // A folder that is missing may lie on a disk that is not mounted.
            for folder in [&log_folder(&root, log), commit_log].into_iter().filter(|folder| folder.is_dir()) {
                identity::settle(folder, &id)?;
            }
        }
        for folder in &roots {
            if !(0..logs).map(LogId).zip(&commit_logs).any(|(log, place)| places.place(folder, log) == *place) {
                warnings.push(StoreWarning::NoLogIn { folder: folder.clone(), logs });
            }
            let folder = places.probed(folder);
            disk::make_folder(folder)?;
            if !takes_direct_io(folder)? {
                warnings.push(StoreWarning::NoDirectIo { folder: folder.to_owned() });
            }
        }
        let flush = match flush_kind {
            Some(kind) => FlushChoice { kind, measured: None },
            None => choose_flush(&root, places.probed(&roots[0]))?,
        };
        let abort = root.join("abort");
        if abort.exists() {
            warnings.push(StoreWarning::NotStopped);
        } else {
            disk::write_whole(&abort, std::process::id().to_string().as_bytes()).context("make", &abort)?;
        }
        disk::make_folder(&root.join("config"))?;
        drop(loan);
        ballast.keep_if_room().context("reserve space in", &root)?;
        Ok(Store { root, commit_logs, flush, warnings, ballast, _lock: lock })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn logs(&self) -> u16 {
        self.commit_logs.len() as u16
    }

    pub fn flush(&self) -> FlushChoice {
        self.flush
    }

    pub fn warnings(&self) -> &[StoreWarning] {
        &self.warnings
    }

    pub fn ballast(&self) -> &Ballast {
        &self.ballast
    }

    /// Where a table of the store's user lies: `ROOT/config/NAME`.
    pub fn config_file(&self, name: &str) -> PathBuf {
        self.root.join("config").join(name)
    }

    pub fn log_folders(&self, log: LogId) -> LogFolders {
        assert!(log.0 < self.logs(), "log {log} of {}", self.logs());
        LogFolders { log: log_folder(&self.root, log), commit_log: self.commit_logs[usize::from(log.0)].clone() }
    }

    /// Notes that all logs were stopped in order. The lock is held until the store is dropped. Blocks.
    pub fn close(&self) -> Result<(), StorageError> {
        disk::remove(&self.root.join("abort"))
    }
}

pub(crate) fn log_folder(root: &Path, log: LogId) -> PathBuf {
    root.join(format!("{LOG_PREFIX}{:02}", log.0))
}

/// The folders that may hold segments.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    root: &'a Path,
    roots: &'a [PathBuf],
}

impl<'a> Places<'a> {
    /// # Errors
    /// When the folders cannot be those of one store.
    pub(crate) fn new(root: &'a Path, roots: &'a [PathBuf]) -> Result<Places<'a>, StorageError> {
        if roots.len() > 1 && roots.iter().any(|folder| folder == root) {
            let what = format!(
                "of several folders of storePathCommitLog none may be storePathRootDir: write {} instead",
                root.join("commitlog").display()
            );
            return Err(StorageError::Options { what });
        }
        Ok(Places { root, roots })
    }

    fn place(&self, folder: &Path, log: LogId) -> PathBuf {
        if folder == self.root.join("commitlog") {
            log_folder(self.root, log).join("commitlog")
        } else {
            log_folder(folder, log)
        }
    }

    /// A folder that lies on the same disk as the segments, and above them.
    fn probed(&self, folder: &'a Path) -> &'a Path {
        if folder == self.root.join("commitlog") { self.root } else { folder }
    }

    /// Where a log's segments are, or would be if there is one folder only.
    ///
    /// # Errors
    /// When none of several folders has the log, or two have it.
    pub(crate) fn find(&self, log: LogId) -> Result<PathBuf, StorageError> {
        let [first, others @ ..] = self.roots else { panic!("a store has a folder for its segments") };
        if others.is_empty() {
            return Ok(self.place(first, log));
        }
        let mut found = self.roots.iter().map(|folder| self.place(folder, log)).filter(|place| place.exists());
        let Some(place) = found.next() else {
            let what = "no folder of storePathCommitLog has this log: is its disk mounted? Put it back; an empty folder in \
                        its place is an empty log";
            let file = self.new_place(log);
            return Err(StorageError::Damaged { file, offset: None, what: what.to_owned() });
        };
        match found.next() {
            None => Ok(place),
            Some(file) => {
                let what = format!("{} is there as well: move the one away that is another store's", place.display());
                Err(StorageError::Damaged { file, offset: None, what })
            }
        }
    }

    /// A log's folder that is not empty: the logs of a store that is being made are, until all of them are there.
    fn log_there(&self) -> Result<Option<PathBuf>, StorageError> {
        for folder in std::iter::once(self.root).chain(self.roots.iter().map(PathBuf::as_path)) {
            if !folder.is_dir() {
                continue;
            }
            for entry in fs::read_dir(folder).context("list", folder)? {
                let path = entry.context("list", folder)?.path();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let is_log = name.strip_prefix(LOG_PREFIX).is_some_and(|number| number.parse::<u16>().is_ok());
                if is_log && path.is_dir() && fs::read_dir(&path).context("list", &path)?.next().is_some() {
                    return Ok(Some(path));
                }
            }
        }
        Ok(None)
    }

    /// The folders take the logs in turn.
    fn new_place(&self, log: LogId) -> PathBuf {
        self.place(&self.roots[usize::from(log.0) % self.roots.len()], log)
    }
}

fn settle_table(
    places: Places<'_>,
    wanted: Option<u16>,
    if_new: u16,
    warnings: &mut Vec<StoreWarning>,
) -> Result<StoreTable, StorageError> {
    let root = places.root;
    let path = root.join("store.json");
    if let Some(stored) = read_twice_written(&path)? {
        if stored.fell_back {
            warnings.push(StoreWarning::Restored { file: path.clone() });
        }
        let mut table: StoreTable = serde_json::from_str(&stored.text).map_err(|error| StorageError::Damaged {
            file: path.clone(),
            offset: None,
            what: error.to_string(),
        })?;
        if table.format_version > FORMAT_VERSION {
            let found = table.format_version;
            return Err(StorageError::FormatVersion { file: path, found, known: FORMAT_VERSION });
        }
        if let Some(wanted) = wanted
            && wanted != table.logs
        {
            return Err(StorageError::LogCount { root: root.to_owned(), found: table.logs, wanted });
        }
        let missing = (0..table.logs).map(|log| log_folder(root, LogId(log))).find(|folder| !folder.exists());
        return match missing {
            Some(file) => {
                let what =
                    "it is missing: is its disk mounted? Put it back; an empty folder in its place is an empty log";
                Err(StorageError::Damaged { file, offset: None, what: what.to_owned() })
            }
            None => {
                if table.id.is_empty() {
                    table.id = identity::draw()?;
                    write_twice(&path, stored.generation, &table)?;
                }
                Ok(table)
            }
        };
    }
    if let Some(folder) = places.log_there()? {
        let what = format!(
            "it and its copy are missing, but a log of a store is there ({}): restore one, or use other folders for a new \
             store (storePathRootDir, storePathCommitLog)",
            folder.display()
        );
        return Err(StorageError::Damaged { file: path, offset: None, what });
    }
    let logs = wanted.unwrap_or(if_new);
    if logs == 0 || logs > LOGS_MAX {
        return Err(StorageError::Options { what: format!("a store has 1 to {LOGS_MAX} logs, not {logs}") });
    }
    let table = StoreTable { format_version: FORMAT_VERSION, logs, id: identity::draw()? };
    // In front of the table, so that a folder which is missing later was taken away.
    for log in (0..logs).map(LogId) {
        disk::make_folder(&log_folder(root, log))?;
        if places.roots.len() > 1 && places.find(log).is_err() {
            disk::make_folder(&places.new_place(log))?;
        }
    }
    write_twice(&path, 0, &table)?;
    for log in (0..logs).map(LogId) {
        disk::make_folder(&places.find(log)?)?;
    }
    Ok(table)
}

/// Writes a table that hardly ever changes, and its copy.
fn write_twice(path: &Path, generation: u64, table: &StoreTable) -> Result<(), StorageError> {
    let text = serde_json::to_string(table).expect("numbers and a text can be written");
    for generation in [generation + 1, generation + 2] {
        table_file::write(path, generation, &text).context("write", path)?;
    }
    Ok(())
}

/// Reads a table that never changes. Written twice it has a copy, since without it nothing of the store can be read.
fn read_twice_written(path: &Path) -> Result<Option<Stored>, StorageError> {
    let stored = match table_file::read(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let what =
                "its checksum does not fit, and it has no whole copy: restore one, or use a new store".to_owned();
            return Err(StorageError::Damaged { file: path.to_owned(), offset: None, what });
        }
        read => read.context("read", path)?,
    };
    if let Some(stored) = &stored
        && (stored.fell_back || !path.with_extension("json.bak").exists())
    {
        table_file::write(path, stored.generation + 1, &stored.text).context("write", path)?;
    }
    Ok(stored)
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull
}

/// By a ring; what a store of before measured by calls has other names and is measured again.
#[derive(Serialize, Deserialize)]
struct FlushTable {
    ring_fdatasync_us: u64,
    ring_dsync_us: u64,
}

/// By what was measured when the store was made, or now.
fn choose_flush(root: &Path, folder: &Path) -> Result<FlushChoice, StorageError> {
    let path = root.join("flush.json");
    // What cannot be read is measured again: nothing but speed hangs on it.
    let stored = table_file::read(&path).ok().flatten();
    let known = stored.and_then(|stored| serde_json::from_str::<FlushTable>(&stored.text).ok());
    let measured = match known {
        Some(FlushTable { ring_fdatasync_us: fdatasync_us, ring_dsync_us: dsync_us }) => {
            Some(FlushProbe { fdatasync_us, dsync_us })
        }
        None => match FlushProbe::run(folder) {
            Ok(Some(probe)) => {
                let table = FlushTable { ring_fdatasync_us: probe.fdatasync_us, ring_dsync_us: probe.dsync_us };
                let text = serde_json::to_string(&table).expect("two numbers can be written");
                match table_file::write(&path, 1, &text) {
                    Err(error) if !is_full(&error) => return Err(StorageError::io("write", &path, error)),
                    _ => Some(probe),
                }
            }
            Ok(None) => None,
            // Without room it is measured by a later start.
            Err(error) if is_full(&error) => None,
            Err(error) => return Err(StorageError::io("measure flushes in", folder, error)),
        },
    };
    let kind = measured.map_or(FlushKind::Fdatasync, |probe| probe.choice());
    Ok(FlushChoice { kind, measured })
}

/// Tries direct I/O with an empty file: on a full disk there is no block for more.
fn takes_direct_io(folder: &Path) -> Result<bool, StorageError> {
    let path = folder.join("direct-io-probe");
    disk::remove(&path)?;
    let file = DirectFile::create(&path, 0).context("make", &path)?;
    let direct = file.is_direct();
    fs::remove_file(&path).context("remove", &path)?;
    Ok(direct)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::file::TempFolder;

    fn options(root: &Path, logs: Option<u16>) -> StoreOptions {
        StoreOptions {
            root: root.to_owned(),
            commit_log_roots: vec![root.join("commitlog")],
            logs,
            logs_if_new: 2,
            flush_kind: None,
        }
    }

    #[test]
    fn logs_are_spread_over_several_folders_and_found_in_any_order() {
        let folder = TempFolder::new("store");
        let root = folder.path().join("s");
        let [a, b, c] = ["a", "b", "c"].map(|name| folder.path().join(name));
        let open = |roots: &[&PathBuf]| {
            let commit_log_roots = roots.iter().map(|root| (*root).clone()).collect();
            Store::open(StoreOptions { commit_log_roots, ..options(&root, None) })
        };
        let below = root.join("commitlog");
        let store =
            Store::open(StoreOptions { commit_log_roots: vec![a.clone(), below.clone()], ..options(&root, Some(3)) })
                .expect("made");
        let expected = [a.join("log-00"), root.join("log-01/commitlog"), a.join("log-02")];
        let places = |store: &Store| [0, 1, 2].map(|log| store.log_folders(LogId(log)).commit_log);
        assert_eq!(places(&store), expected);
        drop(store);
        let store = open(&[&below, &c, &a]).expect("in another order, and with one more");
        assert_eq!(places(&store), expected);
        assert!(store.warnings().contains(&StoreWarning::NoLogIn { folder: c, logs: 3 }));
        drop(store);
        let error = open(&[&below, &b]).expect_err("a is left out").to_string();
        assert!(error.contains("log-00/commitlog is damaged: no folder of storePathCommitLog has this log"), "{error}");
        fs::create_dir_all(b.join("log-02")).expect("another store's");
        let error = open(&[&below, &b, &a]).expect_err("twice").to_string();
        assert!(error.contains("a/log-02 is damaged: ") && error.contains("b/log-02 is there as well"), "{error}");
        let error = open(&[&root, &a]).expect_err("the root").to_string();
        assert!(error.contains("none may be storePathRootDir: write"), "{error}");

        let (fresh, below) = (folder.path().join("fresh"), folder.path().join("fresh/commitlog"));
        let open = |roots: &[&PathBuf]| {
            let commit_log_roots = roots.iter().map(|root| (*root).clone()).collect();
            Store::open(StoreOptions { commit_log_roots, ..options(&fresh, None) })
        };
        open(&[&fresh, &a]).expect_err("the root");
        assert!(!fresh.join("store.json").exists(), "nothing was made of what was refused");
        let (inside, beside) = (fresh.join("disk2"), folder.path().join("beside"));
        let store = open(&[&inside, &beside]).expect("made");
        assert_eq!(store.warnings(), []);
        drop(store);
        let store = open(&[&inside, &below, &beside]).expect("with another folder, above one of them");
        assert!(store.warnings().contains(&StoreWarning::NoLogIn { folder: below, logs: 2 }));
    }

    #[test]
    fn the_folders_of_another_store_are_refused() {
        let folder = TempFolder::new("store");
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        let open = |root: &Path, place: &Path| {
            Store::open(StoreOptions { commit_log_roots: vec![place.to_owned()], ..options(root, None) })
        };
        drop(open(&one, &a).expect("made"));
        drop(open(&other, &b).expect("made"));
        let error = open(&other, &a).expect_err("the segments of the one").to_string();
        assert!(error.contains("a/log-00/store-id is damaged: the folder belongs to store"), "{error}");
        drop(open(&other, &b).expect("its own"));
        // A log's own folder was put in the place of another's.
        fs::remove_dir_all(other.join("log-01")).expect("removed");
        fs::rename(one.join("log-01"), other.join("log-01")).expect("moved");
        let error = open(&other, &b).expect_err("a log of the one").to_string();
        assert!(error.contains("other/log-01/store-id is damaged"), "{error}");

        // A store of a program that gave them no identity gets one.
        let old = folder.path().join("old");
        drop(Store::open(options(&old, Some(1))).expect("made"));
        table_file::write(&old.join("store.json"), 9, r#"{"format_version":1,"logs":1}"#).expect("written");
        fs::remove_file(old.join("log-00/store-id")).expect("removed");
        fs::remove_file(old.join("log-00/commitlog/store-id")).expect("removed");
        for _ in 0..2 {
            drop(Store::open(options(&old, None)).expect("opened"));
            let text = table_file::read(&old.join("store.json")).expect("read").expect("there").text;
            let id = fs::read_to_string(old.join("log-00/store-id")).expect("it is marked");
            assert!(id.len() > 30 && text.contains(&id), "{text}");
        }
    }

    #[test]
    fn a_store_keeps_its_number_of_logs_and_one_user() {
        let folder = TempFolder::new("store");
        let root = folder.path().join("deep/store");
        let store = Store::open(options(&root, Some(4))).expect("made");
        assert_eq!((store.logs(), store.warnings().contains(&StoreWarning::NotStopped)), (4, false));
        assert!(matches!(Store::open(options(&root, None)), Err(StorageError::Locked { .. })));
        drop(store);
        let store = Store::open(options(&root, None)).expect("opened");
        assert_eq!((store.logs(), store.warnings().contains(&StoreWarning::NotStopped)), (4, true));
        store.close().expect("closed");
        drop(store);
        let error = Store::open(options(&root, Some(3))).expect_err("another number");
        assert!(error.to_string().contains("made with 4 logs and cannot be opened with 3"), "{error}");
        let store = Store::open(options(&root, Some(4))).expect("opened");
        assert!(!store.warnings().contains(&StoreWarning::NotStopped));
        assert!(store.log_folders(LogId(3)).commit_log.ends_with("log-03/commitlog"));
    }

    #[test]
    fn the_table_of_a_store_has_a_copy() {
        let folder = TempFolder::new("store");
        let (root, path) = (folder.path().join("s"), folder.path().join("s/store.json"));
        let copy = path.with_extension("json.bak");
        drop(Store::open(options(&root, Some(4))).expect("made"));
        let restored = StoreWarning::Restored { file: path.clone() };
        for damaged in [None, Some(""), Some("nonsense")] {
            match damaged {
                Some(text) => fs::write(&path, text).expect("damaged"),
                None => fs::remove_file(&path).expect("removed"),
            }
            let store = Store::open(options(&root, None)).expect("opened");
            assert_eq!((store.logs(), store.warnings().contains(&restored)), (4, true), "{damaged:?}");
            drop(store);
            fs::remove_file(&copy).expect("a copy");
            let store = Store::open(options(&root, None)).expect("opened");
            assert_eq!((store.logs(), store.warnings().contains(&restored)), (4, false), "{damaged:?}");
            assert!(copy.exists(), "a store that has no copy gets one");
        }
        fs::remove_dir_all(root.join("log-03")).expect("an empty log");
        let error = Store::open(options(&root, None)).expect_err("a log is missing").to_string();
        assert!(error.contains("log-03 is damaged: it is missing"), "{error}");
        fs::create_dir_all(root.join("log-00/commitlog")).expect("a log");
        for text in ["", "nonsense"] {
            fs::write(&path, text).expect("damaged");
            fs::write(&copy, text).expect("damaged");
            let error = Store::open(options(&root, None)).expect_err("no number of logs").to_string();
            assert!(error.contains("store.json is damaged: its checksum") && error.contains("restore one"), "{error}");
        }
        fs::remove_file(&path).and_then(|()| fs::remove_file(&copy)).expect("removed");
        let error = Store::open(options(&root, None)).expect_err("no number of logs").to_string();
        assert!(error.contains("a log of a store is there") && error.contains("restore one"), "{error}");
    }

    #[test]
    fn the_kind_of_flush_is_measured_once_unless_one_is_asked_for() {
        let folder = TempFolder::new("store");
        let root = folder.path().join("s");
        let first = Store::open(options(&root, None)).expect("made").flush();
        assert_eq!(first.kind, first.measured.map_or(FlushKind::Fdatasync, |probe| probe.choice()));
        assert_eq!(Store::open(options(&root, None)).expect("opened").flush(), first, "it is kept");
        for kind in [FlushKind::Fdatasync, FlushKind::Dsync] {
            let asked = StoreOptions { flush_kind: Some(kind), ..options(&root, None) };
            let flush = Store::open(asked).expect("opened").flush();
            assert_eq!(flush, FlushChoice { kind, measured: None });
        }
        if first.measured.is_some() {
            let quick = r#"{"ring_fdatasync_us":1000,"ring_dsync_us":10}"#;
            table_file::write(&root.join("flush.json"), 2, quick).expect("written");
            assert_eq!(Store::open(options(&root, None)).expect("opened").flush().kind, FlushKind::Dsync);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_told() {
        let folder = TempFolder::new("store");
        fs::write(folder.path().join("file"), "x").expect("a file");
        let error = Store::open(options(&folder.path().join("file/store"), None)).expect_err("not a folder");
        assert!(error.to_string().starts_with("cannot make the folder"), "{error}");
    }
}
