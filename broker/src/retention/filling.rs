//! How full the disks of the store are, as last seen, and what sends are told of it. On each core its own copy.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::LogId;
use remoting::code::ResponseCode;
use runtime::file::{self, Space};

use super::policy;
use crate::call::Refusal;
use crate::config::{Config, Retention};
use crate::core::Core;

/// One look at the disks that a log needs: that of its messages, and that of everything else.
#[derive(Clone, Debug)]
pub(super) struct Filling {
    /// Of the fuller one.
    pub(super) used_percent: u8,
    folder: PathBuf,
    space: Space,
}

impl Filling {
    /// Blocks. `None` when the file system cannot be asked.
    fn look(folder: &Path) -> Option<Filling> {
        let space = file::space(folder).ok()?;
        Some(Filling { used_percent: policy::used_percent(space), folder: folder.to_owned(), space })
    }

    /// Looks at the disks of a core's logs, off the core. A log whose disks cannot be asked is left out.
    pub(super) async fn of_logs(core: &Rc<Core>) -> BTreeMap<LogId, Filling> {
        let root = core.config().store.root.clone();
        let logs: Vec<(LogId, PathBuf)> = core.own_logs().map(|log| (log.id(), log.folder().to_owned())).collect();
        runtime::blocking(move || {
            let root = Filling::look(&root);
            let of_log = |(id, folder): (LogId, PathBuf)| {
                let fuller = [Filling::look(&folder), root.clone()].into_iter().flatten();
                Some((id, fuller.max_by_key(|filling| filling.used_percent)?))
            };
            logs.into_iter().filter_map(of_log).collect()
        })
        .await
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

/// The folders whose disks hold the messages, by the names that the configuration gives them.
pub(crate) fn messages_folders(config: &Config) -> Vec<PathBuf> {
    config.store.commit_logs.clone()
}

/// Which logs take no sends, and the sentence for each.
#[derive(Default)]
pub(super) struct Refusing {
    says: RefCell<BTreeMap<LogId, Rc<str>>>,
}

impl Refusing {
    pub(super) fn is_on(&self) -> bool {
        !self.says.borrow().is_empty()
    }

    pub(super) fn check(&self, log: LogId) -> Result<(), Refusal> {
        match self.says.borrow().get(&log) {
            None => Ok(()),
            Some(says) => Err(Refusal::new(ResponseCode::SERVICE_NOT_AVAILABLE, says.to_string())),
        }
    }

    /// Takes a new look at a log's disks into account. True when its sends were taken and are refused now, or the other
    /// way round. `held_back` as for [`Filling::says`].
    pub(super) fn update(&self, retention: &Retention, log: LogId, filling: &Filling, held_back: &str) -> bool {
        let mut says = self.says.borrow_mut();
        let before = says.contains_key(&log);
        let refuses = policy::refuses(retention, filling.used_percent, before);
        if refuses {
            says.insert(log, filling.says(retention.used_percent_refusing, held_back).into());
        } else {
            says.remove(&log);
        }
        refuses != before
    }
}
