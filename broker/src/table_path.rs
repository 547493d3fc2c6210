//! Where the tables of topics and groups lie, who writes one, and what is said when one cannot be read.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use remoting::code::ResponseCode;
use runtime::table_file::{self, Stored, Writer};

use crate::call::Refusal;
use crate::config::Config;
use crate::log::Repeated;

/// Below the root of the store.
const FOLDER: &str = "config";

/// A table's file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableFile {
    pub(crate) name: &'static str,
    /// What it holds, for messages.
    pub(crate) content: &'static str,
}

impl TableFile {
    pub(crate) const TOPICS: TableFile = TableFile { name: "topics.json", content: "topics" };
    pub(crate) const GROUPS: TableFile = TableFile { name: "subscriptionGroup.json", content: "consumer groups" };
    pub(crate) const OFFSETS: TableFile = TableFile { name: "consumerOffset.json", content: "committed offsets" };
    pub(crate) const REQUEST_MODES: TableFile =
        TableFile { name: "messageRequestMode.json", content: "message request modes" };

    /// What every store has from its first start on.
    const ALL: [TableFile; 4] = [Self::TOPICS, Self::GROUPS, Self::OFFSETS, Self::REQUEST_MODES];

    pub(crate) fn path(self, config: &Config) -> PathBuf {
        config.store.root.join(FOLDER).join(self.name)
    }
}

/// A table without anything in it.
const NOTHING: &str = "{}";

/// Makes the tables that are not there, so that a later start sees when one is lost; and tells of those that are, by the
/// messages that the store has without them.
///
/// # Errors
/// When one cannot be written.
pub(crate) async fn make_missing(config: &Config, has_messages: bool) -> Result<(), TableError> {
    for table in TableFile::ALL {
        let path = table.path(config);
        let to = path.clone();
        let made = runtime::blocking(move || match table_file::is_there(&to) {
            true => Ok(false),
            false => table_file::write(&to, 1, NOTHING).map(|()| true),
        });
        let made = made.await.map_err(|source| TableError::Write { path: path.clone(), source })?;
        if made && has_messages {
            crate::log::warn(format_args!(
                "{} and its .bak are not there, though the store has messages: the broker begins without {}; if they were \
                 lost, stop it, restore one from a backup, and start it again",
                path.display(),
                table.content
            ));
        }
    }
    Ok(())
}

/// The one who writes a table, without a core waiting for the disk.
pub(crate) struct TableWriter {
    path: PathBuf,
    content: &'static str,
    /// `None` while it is at work.
    idle: RefCell<Option<Writer>>,
    storing: Repeated,
    shortening: Repeated,
}

impl TableWriter {
    /// As [`Writer::new`].
    pub(crate) fn new(file: TableFile, path: PathBuf, generation: u64) -> TableWriter {
        let idle = RefCell::new(Some(Writer::new(path.clone(), generation)));
        TableWriter { path, content: file.content, idle, storing: Repeated::default(), shortening: Repeated::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// As [`Writer::can_add`].
    pub(crate) fn can_add(&self) -> bool {
        self.idle.borrow().as_ref().is_some_and(Writer::can_add)
    }

    /// As [`Writer::is_full`].
    pub(crate) fn is_full(&self) -> bool {
        self.idle.borrow().as_ref().is_some_and(Writer::is_full)
    }

    /// Writes what somebody asked for, and tells the log when that goes wrong.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) async fn store(
        &self,
        write: impl FnOnce(&mut Writer) -> io::Result<()> + Send + 'static,
    ) -> Result<(), Refusal> {
        if let Err(error) = self.write(write).await {
            let told = format!("{} cannot be stored in {}: {error}", self.content, self.path.display());
            self.storing.warn(format_args!("{told}"));
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, format!("{told}; nothing was changed")));
        }
        self.storing.over(format_args!("changes of {} are stored again", self.content));
        Ok(())
    }

    /// Writes a full file anew. When that goes wrong the log is told; nothing is lost by it, and the next change tries it again.
    pub(crate) async fn shorten(&self, write: impl FnOnce(&mut Writer) -> io::Result<()> + Send + 'static) {
        let path = self.path.display();
        match self.write(write).await {
            Ok(()) => self.shortening.over(format_args!("{path} is made shorter again")),
            Err(error) => self.shortening.warn(format_args!("{path} cannot be made shorter: {error}")),
        }
    }

    /// Writes, one at a time.
    pub(crate) async fn write<T: Send + 'static>(&self, write: impl FnOnce(&mut Writer) -> T + Send + 'static) -> T {
        let mut writer = self.idle.take().expect("one writes at a time");
        let (writer, outcome) = runtime::blocking(move || {
            let outcome = write(&mut writer);
            (writer, outcome)
        })
        .await;
        self.idle.replace(Some(writer));
        outcome
    }
}

/// What is wrong with a table's file. The process must not go on without the table.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableError {
    /// Neither it nor its .bak, if there is one, is whole.
    #[error("{}: {source}; restore it from a backup, or move {} away to begin without {content}", path.display(), those_there(path))]
    Read { path: PathBuf, source: io::Error, content: &'static str },
    /// It is whole, but makes no sense. The one before it may.
    #[error("{}: {what}; restore it from {}, or move {} away to begin without {content}", path.display(), copies(path), those_there(path))]
    Content { path: PathBuf, what: String, content: &'static str },
    #[error("{} cannot be written: {source}; look at the folder's permissions and space", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl TableError {
    pub(crate) fn of_content(path: &Path, file: TableFile, what: &impl ToString) -> TableError {
        TableError::Content { path: path.to_owned(), what: what.to_string(), content: file.content }
    }
}

fn copies(path: &Path) -> &'static str {
    if table_file::backup_path(path).exists() { "its .bak or a backup" } else { "a backup" }
}

/// Those of a table's two files that must go for an empty table.
fn those_there(path: &Path) -> &'static str {
    match (path.exists(), table_file::backup_path(path).exists()) {
        (true, true) => "both",
        (false, true) => "its .bak",
        _ => "it",
    }
}

/// Reads a table's text; `None` when it was never written. What stands in for a damaged one is told, and written anew.
///
/// # Errors
/// When a file is there but neither it nor the one before it is whole.
pub(crate) async fn read_table(path: &Path, file: TableFile) -> Result<Option<Stored>, TableError> {
    let from = path.to_owned();
    let stored = runtime::blocking(move || table_file::read(&from)).await.map_err(|source| TableError::Read {
        path: path.to_owned(),
        source,
        content: file.content,
    })?;
    let mut stored = match stored {
        Some(stored) if stored.fell_back => stored,
        whole => return Ok(whole),
    };
    let to = path.to_owned();
    let restored = runtime::blocking(move || table_file::restore(&to, &mut stored).map(|kept| (stored, kept)));
    let (stored, kept) = restored.await.map_err(|source| TableError::Write { path: path.to_owned(), source })?;
    crate::log::warn(format_args!("{}", table_file::told_of_restored(path, kept.as_deref(), file.content)));
    Ok(Some(stored))
}
