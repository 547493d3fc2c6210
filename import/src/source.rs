//! The folder of the other broker's store: what is in it, and whether it can be taken over at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use runtime::clock;
use runtime::file::{ReadFile, is_locked_by_java};

use crate::commit_log::CommitLog;
use crate::consume_queue::ConsumeQueues;
use crate::error::{ImportError, IoContext};

const COMMIT_LOG: &str = "commitlog";
/// What a store has whose consume queues are in RocksDB, and whose tables are.
const ROCKS_QUEUES: &str = "consumequeue/CURRENT";
const ROCKS_TABLES: [&str; 2] = ["config/metadata/CURRENT", "config/topics/CURRENT"];
/// Records are looked for behind this much less than the times of the checkpoint.
const CHECKPOINT_SLACK_MS: u64 = 3000;

/// A store that is only read.
pub(crate) struct Source {
    pub(crate) root: PathBuf,
    pub(crate) log: Rc<CommitLog>,
    pub(crate) queues: ConsumeQueues,
    /// Behind the last record that a consume queue knows.
    pub(crate) known: u64,
    /// The broker was not stopped in order. Consume queues may lack records that were stored from this time on.
    pub(crate) uncertain_from_ms: Option<u64>,
}

impl Source {
    /// Opens a store. Its log may lie elsewhere, in one folder or several.
    ///
    /// # Errors
    /// When it is none, a broker runs on it, or it is of a kind that cannot be taken over.
    pub(crate) fn open(root: &Path, commit_logs: &[PathBuf]) -> Result<Source, ImportError> {
        let shown = root.display();
        if !root.is_dir() {
            return Err(ImportError::Source(format!("{shown} is no folder: name the one of storePathRootDir")));
        }
        if root.join("store.json").exists() {
            return Err(ImportError::Source(format!(
                "{shown} is a store of RingMQ already: start a broker with storePathRootDir={shown}"
            )));
        }
        let default = [root.join(COMMIT_LOG)];
        let commit_logs = if commit_logs.is_empty() { &default } else { commit_logs };
        refuse_other_kinds(root)?;
        if let Some(missing) = commit_logs.iter().find(|folder| !folder.is_dir()) {
            return Err(ImportError::Source(format!(
                "{} is not there, so {shown} is no store of Apache RocketMQ, or its log lies elsewhere: name the folder of \
                 storePathRootDir, and those of storePathCommitLog with --commit-log",
                missing.display()
            )));
        }
        refuse_if_used(root)?;
        let log = Rc::new(CommitLog::open(commit_logs)?);
        let mut queues = ConsumeQueues::open(&root.join("consumequeue"))?;
        let known = queues.known()?;
        let uncertain_from_ms =
            if root.join("abort").exists() { Some(checkpoint_ms(&root.join("checkpoint"))?) } else { None };
        Ok(Source { root: root.to_owned(), log, queues, known, uncertain_from_ms })
    }

    pub(crate) fn config(&self, name: &str) -> PathBuf {
        self.root.join("config").join(name)
    }
}

fn refuse_other_kinds(root: &Path) -> Result<(), ImportError> {
    let shown = root.display();
    if root.join(ROCKS_QUEUES).exists() {
        return Err(ImportError::Source(format!(
            "the consume queues of {shown} are in RocksDB, which is not read here: start its broker once more with \
             storeType=default, so that it makes them as files, stop it, and import then"
        )));
    }
    let has_tables = ["topics.json", "topics.json.bak"].iter().any(|name| root.join("config").join(name).exists());
    if !has_tables && ROCKS_TABLES.iter().any(|name| root.join(name).exists()) {
        return Err(ImportError::Source(format!(
            "the topics and groups of {shown} are in RocksDB, which is not read here: write them as files first, with \
             `mqadmin rocksDBConfigToJson`, and import then"
        )));
    }
    let entries = fs::read_dir(root).context("list", root)?.filter_map(Result::ok);
    let is_dledger = entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("dledger-"));
    if is_dledger {
        return Err(ImportError::Source(format!(
            "the log of {shown} is one of DLedger, whose records differ: copy the messages through clients instead"
        )));
    }
    Ok(())
}

fn refuse_if_used(root: &Path) -> Result<(), ImportError> {
    let lock = root.join("lock");
    if lock.exists() && is_locked_by_java(&lock).context("look at the lock", &lock)? {
        return Err(ImportError::Source(format!(
            "a broker runs on {}, it holds {}: stop it first",
            root.display(),
            lock.display()
        )));
    }
    Ok(())
}

/// The time up to which log and consume queues were surely on the disk.
fn checkpoint_ms(path: &Path) -> Result<u64, ImportError> {
    if !path.exists() {
        return Ok(0);
    }
    let mut times = [0; 16];
    let file = ReadFile::open(path).context("open", path)?;
    // One that was cut, or tells of times to come, tells nothing.
    if file.bytes().context("look at", path)? < times.len() as u64 {
        return Ok(0);
    }
    file.read_exact_at(&mut times, 0).context("read", path)?;
    let (log, queues) = (u64_at(&times, 0), u64_at(&times, 8));
    let known = log.min(queues);
    Ok(if known > clock::now_ms().0 { 0 } else { known.saturating_sub(CHECKPOINT_SLACK_MS) })
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::file::TempFolder;

    fn refusal(make: impl Fn(&Path)) -> String {
        let folder = TempFolder::new("source");
        let root = folder.path().join("store");
        make(&root);
        Source::open(&root, &[]).err().map(|error| error.to_string()).unwrap_or_default()
    }

    fn put(root: &Path, name: &str, content: &[u8]) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, content).expect("written");
    }

    #[test]
    fn what_cannot_be_taken_over_is_refused_with_the_cure() {
        type Make = fn(&Path);
        let cases: [(Make, &str); 8] = [
            (|_| (), "is no folder: name the one of storePathRootDir"),
            (|root| put(root, "store.json", b""), "is a store of RingMQ already"),
            (|root| put(root, "config/topics.json", b"{}"), "no store of Apache RocketMQ, or its log lies elsewhere"),
            (|root| put(root, "consumequeue/CURRENT", b""), "start its broker once more with storeType=default"),
            (|root| put(root, "config/topics/CURRENT", b""), "mqadmin rocksDBConfigToJson"),
            (|root| put(root, "dledger-n0/data/00000000000000000000", b""), "is one of DLedger"),
            (
                |root| {
                    put(root, "commitlog/00000000000000000000", &[0; 4096]);
                    put(root, "commitlog/00000000000000008192", &[0; 4096]);
                },
                "the file 00000000000000004096 in front of",
            ),
            (|root| put(root, "commitlog/00000000000000000007", &[0; 4096]), "its name is no multiple of that"),
        ];
        for (make, expected) in cases {
            let refusal = refusal(make);
            assert!(refusal.contains(expected), "{refusal:?} instead of {expected:?}");
        }
        assert_eq!(refusal(|root| put(root, "commitlog/00000000000000000000", b"")), "", "an empty last file is fine");
    }
}
