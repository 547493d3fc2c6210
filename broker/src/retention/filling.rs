//! How full the disks of the store are, as last seen, and what sends are told of it. On each core its own copy.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use remoting::code::ResponseCode;
use runtime::file::{self, Space};

use super::policy;
use crate::call::Refusal;
use crate::config::{Config, Retention};

/// One look at the disks.
#[derive(Clone, Debug)]
pub(super) struct Filling {
    /// Of the fuller one.
    pub(super) used_percent: u8,
    folder: PathBuf,
    space: Space,
}

impl Filling {
    /// Looks at the file systems of the messages and of everything else. Blocks. `None` when none of them can be asked.
    fn look(folders: &[PathBuf]) -> Option<Filling> {
        let look = |folder: &PathBuf| {
            let space = file::space(folder).ok()?;
            Some(Filling { used_percent: policy::used_percent(space), folder: folder.clone(), space })
        };
        folders.iter().filter_map(look).max_by_key(|filling| filling.used_percent)
    }

    /// As [`Filling::look`], off the core.
    pub(super) async fn now(config: &Config) -> Option<Filling> {
        let folders = folders(config);
        runtime::blocking(move || Filling::look(&folders)).await
    }

    /// Why sends are refused. `held_back` tells what keeps old segments from making room, if anything does.
    pub(super) fn says(&self, limit_percent: u8, held_back: &str) -> String {
        let held_back =
            if held_back.is_empty() { String::new() } else { format!(". No room is made by now: {held_back}") };
        format!(
            "the disk of {} is {}% full ({} of {} MiB can still be used), and above {limit_percent}% \
             (diskSpaceWarningLevelRatio) sends are refused: free space there, or lower fileReservedTime; they resume by \
             themselves{held_back}",
            self.folder.display(),
            self.used_percent,
            self.space.bytes_available >> 20,
            self.space.bytes_total >> 20
        )
    }
}

fn folders(config: &Config) -> Vec<PathBuf> {
    let commit_log = config.store.commit_log.clone();
    commit_log.into_iter().chain([config.store.root.clone()]).collect()
}

/// The folder whose disk holds the messages.
pub(crate) fn messages_folder(config: &Config) -> &Path {
    config.store.commit_log.as_deref().unwrap_or(&config.store.root)
}

/// Whether sends are refused, and the sentence for it.
#[derive(Default)]
pub(super) struct Refusing {
    says: RefCell<Option<Rc<str>>>,
}

impl Refusing {
    pub(super) fn is_on(&self) -> bool {
        self.says.borrow().is_some()
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        match &*self.says.borrow() {
            None => Ok(()),
            Some(says) => Err(Refusal::new(ResponseCode::SERVICE_NOT_AVAILABLE, says.to_string())),
        }
    }

    /// Whether sends are to be refused after a new look.
    pub(super) fn refuses(&self, retention: &Retention, filling: &Filling) -> bool {
        policy::refuses(retention, filling.used_percent, self.is_on())
    }

    /// Refuses sends with a sentence, or takes them. True when that was the other way round before.
    pub(super) fn set(&self, says: Option<String>) -> bool {
        let is_on = says.is_some();
        self.says.replace(says.map(Rc::from)).is_some() != is_on
    }
}
