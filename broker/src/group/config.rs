//! The settings of groups: the table and its file on the tables' core, and what each core knows of it.
//!
//! [`GroupConfigOwner`] does all changes in batches: each batch is tried on what it is about, stored, and published to every
//! core; only then is it answered. A batch that cannot be stored changes nothing. [`GroupConfigs`] is a core's view,
//! changed by publications alone.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use remoting::body::group::{SubscriptionGroupConfig, SubscriptionGroupTable};
use remoting::body::topic::DataVersion;
use remoting::code::ResponseCode;
use remoting::name;
use remoting::text::Text;
use runtime::clock;

use super::batches::Batches;
use super::config_table::{ConfigChange, ConfigTable, Forbidden, Publication, READ_FORBIDDEN, change_text};
use crate::call::Refusal;
use crate::config::Config;
use crate::core::Core;
use crate::placement::TABLES_CORE;
use crate::table_path::{TableError, TableFile, TableWriter, read_table};

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
    file: TableWriter,
    table: RefCell<ConfigTable>,
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
                let table = ConfigTable::parse(&stored.text, &stored.changes)
                    .map_err(|error| TableError::of_content(&path, FILE, &error))?;
                (stored.generation, table)
            }
            None => (0, ConfigTable::default()),
        };
        table.add_boot_groups();
        Ok(Rc::new(GroupConfigOwner {
            file: TableWriter::new(FILE, path, generation),
            table: RefCell::new(table),
            changes: Batches::default(),
        }))
    }

    /// Publishes all groups to all cores; before the first request.
    pub(crate) async fn start(&self, core: &Rc<Core>) {
        let publications = self.table.borrow().publications();
        publish(core, publications.into()).await;
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
            let mut part = self.table.borrow().part(&changes);
            let done = Done { publications: part.apply(changes, clock::now_ms()).into(), version: part.version() };
            if done.publications.is_empty() {
                batch.finish(&Ok(()));
            } else if make_themselves {
                self.put_in_force(&core, &done).await;
                batch.finish(&Ok(()));
                // What was not stored now is stored with the next change.
                let _ = self.store(&done).await;
            } else {
                let outcome = self.store(&done).await;
                if outcome.is_ok() {
                    self.put_in_force(&core, &done).await;
                }
                batch.finish(&outcome);
            }
            if self.file.is_full() {
                let table = self.table.borrow().clone();
                self.file.shorten(move |file| file.replace(&table.to_text())).await;
            }
        }
    }

    async fn store(&self, done: &Done) -> Result<(), Refusal> {
        if !self.file.can_add() {
            let mut table = self.table.borrow().clone();
            table.take(&done.publications, done.version);
            return self.file.store(move |file| file.replace(&table.to_text())).await;
        }
        let (publications, version) = (done.publications.clone(), done.version);
        self.file.store(move |file| file.add(&change_text(&publications, version))).await
    }

    async fn put_in_force(&self, core: &Rc<Core>, done: &Done) {
        publish(core, done.publications.clone()).await;
        self.table.borrow_mut().take(&done.publications, done.version);
    }
}

/// What a batch has done.
struct Done {
    publications: Arc<[Publication]>,
    version: DataVersion,
}

async fn publish(core: &Rc<Core>, publications: Arc<[Publication]>) {
    core.on_each(move |core| {
        let publications = publications.clone();
        async move { publications.iter().for_each(|publication| core.group_configs.take(publication)) }
    })
    .await;
}
