//! The settings of groups: the table and its file on the tables' core, and what each core knows of it.
//!
//! [`GroupConfigOwner`] does all changes in batches: each batch is tried on a draft, stored, and published to every
//! core; only then is it answered. A batch that cannot be stored changes nothing. [`GroupConfigs`] is a core's view,
//! changed by publications alone.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use remoting::body::group::{SubscriptionGroupConfig, SubscriptionGroupTable};
use remoting::code::ResponseCode;
use remoting::name;
use remoting::text::Text;
use runtime::{clock, table_file};

use super::batches::Batches;
use super::config_table::{ConfigChange, ConfigTable, Forbidden, Publication, READ_FORBIDDEN};
use super::table_path::{TableError, TableFile, read_table};
use crate::call::Refusal;
use crate::config::Config;
use crate::core::Core;
use crate::placement::TABLES_CORE;

const FILE: TableFile = TableFile::GROUPS;

/// The settings of all groups, as the tables' core published them to this one.
#[derive(Default)]
pub(crate) struct GroupConfigs {
    configs: RefCell<HashMap<Text, Arc<SubscriptionGroupConfig>>>,
    forbidden: RefCell<HashMap<Text, Arc<Forbidden>>>,
}

impl GroupConfigs {
    pub(crate) fn get(&self, group: &str) -> Option<Arc<SubscriptionGroupConfig>> {
        self.configs.borrow().get(group).cloned()
    }

    /// Whether the group may not read the topic, by an operator's order.
    pub(crate) fn is_read_forbidden(&self, group: &str, topic: &str) -> bool {
        let forbidden = self.forbidden.borrow();
        let bits = forbidden.get(group).and_then(|topics| topics.get(topic)).copied().unwrap_or(0);
        bits & READ_FORBIDDEN != 0
    }

    fn take(&self, publication: &Publication) {
        match publication {
            Publication::Config(group, Some(config)) => {
                self.configs.borrow_mut().insert(group.clone(), config.clone());
            }
            Publication::Config(group, None) => {
                self.configs.borrow_mut().remove(group);
            }
            Publication::Forbidden(group, topics) if topics.is_empty() => {
                self.forbidden.borrow_mut().remove(group);
            }
            Publication::Forbidden(group, topics) => {
                self.forbidden.borrow_mut().insert(group.clone(), topics.clone());
            }
        }
    }
}

/// The table of groups and its writer; on the tables' core only.
pub(crate) struct GroupConfigOwner {
    path: PathBuf,
    table: RefCell<ConfigTable>,
    /// Of the newest file.
    generation: Cell<u64>,
    changes: Batches<Vec<ConfigChange>>,
}

impl GroupConfigOwner {
    /// Reads the stored groups and adds those that must exist.
    ///
    /// # Errors
    /// When the file is there and cannot be used.
    pub(crate) async fn load(config: &Config) -> Result<Rc<GroupConfigOwner>, TableError> {
        let path = FILE.path(config);
        let stored = read_table(&path, FILE).await?;
        let (generation, mut table) = match stored {
            Some(stored) => {
                let table = ConfigTable::parse(&stored.text)
                    .map_err(|error| TableError::new(&path, FILE, error.to_string()))?;
                (stored.generation, table)
            }
            None => (0, ConfigTable::default()),
        };
        table.add_boot_groups();
        Ok(Rc::new(GroupConfigOwner {
            path,
            table: RefCell::new(table),
            generation: Cell::new(generation),
            changes: Batches::default(),
        }))
    }

    /// Publishes all groups to all cores; before the first request.
    pub(crate) async fn start(&self, core: &Rc<Core>) {
        let publications = self.table.borrow().publications();
        publish(core, publications).await;
    }

    /// The settings of a group, made with the usual ones where that is allowed. Any core may ask.
    ///
    /// # Errors
    /// SUBSCRIPTION_GROUP_NOT_EXIST when there is no such group and none may be made; others when it cannot be stored.
    pub(crate) async fn ensure(core: &Rc<Core>, group: &str) -> Result<Arc<SubscriptionGroupConfig>, Refusal> {
        if let Some(config) = core.group_configs.get(group) {
            return Ok(config);
        }
        let missing = |why: String| {
            let remark = format!("group {group} does not exist on this broker, and {why}");
            Refusal::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        };
        if let Err(error) = name::check_group(group) {
            return Err(missing(error.to_string()));
        }
        if !core.config().consumers.auto_create_group && !name::is_system_group(group) {
            return Err(missing("autoCreateSubscriptionGroup is false: create it first".to_owned()));
        }
        GroupConfigOwner::change(core, vec![ConfigChange::Ensure(Text::from(group))]).await?;
        core.group_configs.get(group).ok_or_else(|| missing("it was deleted just now".to_owned()))
    }

    /// Does changes and waits until they are in force on every core, and stored too unless they only make groups that
    /// make themselves. Any core may ask.
    ///
    /// # Errors
    /// When they cannot be stored; nothing is changed then.
    pub(crate) async fn change(core: &Rc<Core>, changes: Vec<ConfigChange>) -> Result<(), Refusal> {
        core.on(TABLES_CORE, move |core| async move {
            let owner = core.tables().group_configs.clone();
            let start = || runtime::spawn_background(owner.clone().work(core.clone()));
            owner.changes.submit(changes, start).await
        })
        .await
    }

    /// Everything, as answers have it.
    pub(crate) fn to_body(&self) -> SubscriptionGroupTable {
        self.table.borrow().to_body()
    }

    /// The names of all groups, sorted.
    pub(crate) fn names(&self) -> Vec<Text> {
        self.table.borrow().names().cloned().collect()
    }

    async fn work(self: Rc<Self>, core: Rc<Core>) {
        while let Some((changes, batch)) = self.changes.take() {
            let changes: Vec<ConfigChange> = changes.into_iter().flatten().collect();
            // A group that makes itself is used before it is stored: it would make itself again, and a client that has
            // just come waits for no disk.
            let make_themselves = changes.iter().all(|change| matches!(change, ConfigChange::Ensure(_)));
            let mut draft = self.table.borrow().clone();
            // Each pass over all groups is a turn of its own: messages go in between.
            runtime::yield_now().await;
            let publications = draft.apply(changes, clock::now_ms());
            if publications.is_empty() {
                batch.finish(&Ok(()));
            } else if make_themselves {
                self.put_in_force(&core, draft, publications).await;
                batch.finish(&Ok(()));
                runtime::yield_now().await;
                let table = self.table.borrow().clone();
                // What was not stored now is stored with the next change.
                let _ = self.store(table).await;
            } else {
                let outcome = self.store(draft.clone()).await;
                if outcome.is_ok() {
                    self.put_in_force(&core, draft, publications).await;
                }
                batch.finish(&outcome);
            }
        }
    }

    /// # Errors
    /// When it cannot be written, which is told to the log as well.
    async fn store(&self, table: ConfigTable) -> Result<(), Refusal> {
        let (path, generation) = (self.path.clone(), self.generation.get() + 1);
        let written = runtime::blocking(move || {
            let text = table.to_text();
            table_file::write(&path, generation, std::str::from_utf8(&text).expect("JSON is UTF-8"))
        });
        if let Err(error) = written.await {
            let remark = format!("groups cannot be stored in {}: {error}", self.path.display());
            crate::log::warn(format_args!("{remark}"));
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        }
        self.generation.set(generation);
        Ok(())
    }

    async fn put_in_force(&self, core: &Rc<Core>, table: ConfigTable, publications: Vec<Publication>) {
        publish(core, publications).await;
        self.table.replace(table);
    }
}

async fn publish(core: &Rc<Core>, publications: Vec<Publication>) {
    let publications: Arc<[Publication]> = publications.into();
    core.on_each(move |core| {
        let publications = publications.clone();
        async move { publications.iter().for_each(|publication| core.group_configs.take(publication)) }
    })
    .await;
}
