//! The settings of all groups, and what may read what: pure changes and the text of `subscriptionGroup.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::Millis;
use remoting::body::group::{SubscriptionGroupConfig, SubscriptionGroupTable};
use remoting::body::topic::DataVersion;
use remoting::json::{self, JsonError};
use remoting::name;
use remoting::text::Text;
use serde::{Deserialize, Serialize};

/// The bit of a group's entry for a topic that forbids to read it: bit 2.
pub(crate) const READ_FORBIDDEN: i32 = 1 << 2;

/// Bits of forbidden topics by topic.
pub(crate) type Forbidden = BTreeMap<Text, i32>;

/// A change of the table.
#[derive(Clone, Debug)]
pub(crate) enum ConfigChange {
    /// Makes or replaces a group.
    Put(SubscriptionGroupConfig),
    /// Makes a group with the usual settings unless it is there.
    Ensure(Text),
    Remove(Text),
    SetReadable {
        group: Text,
        topic: Text,
        readable: bool,
    },
}

impl ConfigChange {
    fn group(&self) -> &Text {
        match self {
            ConfigChange::Put(config) => &config.group_name,
            ConfigChange::Ensure(group) | ConfigChange::Remove(group) | ConfigChange::SetReadable { group, .. } => {
                group
            }
        }
    }
}

/// What every core must know of a change. Values are as they are now; `None` and empty: no more.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Publication {
    Config(Text, Option<Arc<SubscriptionGroupConfig>>),
    Forbidden(Text, Arc<Forbidden>),
}

/// A change in the table's file. A group that may read everything again has an empty entry.
#[derive(Serialize, Deserialize)]
struct FileChange {
    table: SubscriptionGroupTable,
    removed: BTreeSet<Text>,
}

/// The text of what is published, as a change in the table's file.
pub(crate) fn change_text(publications: &[Publication], version: DataVersion) -> String {
    let mut change = FileChange {
        table: SubscriptionGroupTable { data_version: version, ..SubscriptionGroupTable::default() },
        removed: BTreeSet::new(),
    };
    let configs = &mut change.table.subscription_group_table;
    for publication in publications {
        match publication {
            Publication::Config(group, Some(config)) => {
                change.removed.remove(group);
                configs.insert(group.clone(), (**config).clone());
            }
            Publication::Config(group, None) => {
                configs.remove(group);
                change.removed.insert(group.clone());
            }
            Publication::Forbidden(group, bits) => {
                change.table.forbidden_table.insert(group.clone(), (**bits).clone());
            }
        }
    }
    json::encode_text(&change)
}

/// All groups, or those of them that some changes are about.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigTable {
    version: DataVersion,
    configs: BTreeMap<Text, Arc<SubscriptionGroupConfig>>,
    forbidden: BTreeMap<Text, Arc<Forbidden>>,
}

impl ConfigTable {
    /// Reads a text and the changes behind it.
    ///
    /// # Errors
    /// When one of them is no such text.
    pub(crate) fn parse(text: &str, changes: &[String]) -> Result<ConfigTable, JsonError> {
        let mut body: SubscriptionGroupTable = json::decode(text.as_bytes())?;
        for change in changes {
            let FileChange { table, removed } = json::decode(change.as_bytes())?;
            body.data_version = table.data_version;
            body.subscription_group_table.extend(table.subscription_group_table);
            for group in &removed {
                body.subscription_group_table.remove(group);
            }
            for (group, topics) in table.forbidden_table {
                if topics.is_empty() {
                    body.forbidden_table.remove(&group);
                } else {
                    body.forbidden_table.insert(group, topics);
                }
            }
        }
        let named = |(group, config): (Text, SubscriptionGroupConfig)| {
            (group.clone(), Arc::new(SubscriptionGroupConfig { group_name: group, ..config }))
        };
        Ok(ConfigTable {
            version: body.data_version,
            configs: body.subscription_group_table.into_iter().map(named).collect(),
            forbidden: body.forbidden_table.into_iter().map(|(group, bits)| (group, Arc::new(bits))).collect(),
        })
    }

    pub(crate) fn to_text(&self) -> String {
        json::encode_text(&self.to_body())
    }

    pub(crate) fn version(&self) -> DataVersion {
        self.version
    }

    /// What such changes are about, to try them on: it costs as much as there is in them, however many groups there are.
    pub(crate) fn part(&self, changes: &[ConfigChange]) -> ConfigTable {
        let mut part = ConfigTable { version: self.version, ..ConfigTable::default() };
        for group in changes.iter().map(ConfigChange::group) {
            part.configs.extend(self.configs.get(group).map(|config| (group.clone(), config.clone())));
            part.forbidden.extend(self.forbidden.get(group).map(|bits| (group.clone(), bits.clone())));
        }
        part
    }

    /// Takes over what was done to a part.
    pub(crate) fn take(&mut self, publications: &[Publication], version: DataVersion) {
        self.version = version;
        for publication in publications {
            match publication.clone() {
                Publication::Config(group, Some(config)) => drop(self.configs.insert(group, config)),
                Publication::Config(group, None) => drop(self.configs.remove(&group)),
                Publication::Forbidden(group, bits) if bits.is_empty() => drop(self.forbidden.remove(&group)),
                Publication::Forbidden(group, bits) => drop(self.forbidden.insert(group, bits)),
            }
        }
    }

    pub(crate) fn to_body(&self) -> SubscriptionGroupTable {
        SubscriptionGroupTable {
            data_version: self.version,
            forbidden_table: self.forbidden.iter().map(|(group, bits)| (group.clone(), (**bits).clone())).collect(),
            subscription_group_table: self
                .configs
                .iter()
                .map(|(group, config)| (group.clone(), (**config).clone()))
                .collect(),
        }
    }

    /// Adds the groups that every broker has.
    pub(crate) fn add_boot_groups(&mut self) {
        for group in name::BOOT_GROUPS {
            self.configs.entry(Text::from_static(group)).or_insert_with(|| usual(Text::from_static(group)));
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Text> {
        self.configs.keys()
    }

    /// Everything, for a core that knows nothing yet.
    pub(crate) fn publications(&self) -> Vec<Publication> {
        let configs =
            self.configs.iter().map(|(group, config)| Publication::Config(group.clone(), Some(config.clone())));
        let forbidden = self.forbidden.iter().map(|(group, bits)| Publication::Forbidden(group.clone(), bits.clone()));
        configs.chain(forbidden).collect()
    }

    /// Does changes one after the other. Nothing to publish means that nothing changed.
    pub(crate) fn apply(&mut self, changes: Vec<ConfigChange>, now: Millis) -> Vec<Publication> {
        let publications: Vec<Publication> = changes.into_iter().flat_map(|change| self.apply_one(change)).collect();
        if !publications.is_empty() {
            self.version.counter += 1;
            self.version.timestamp = now.0 as i64;
        }
        publications
    }

    fn apply_one(&mut self, change: ConfigChange) -> Vec<Publication> {
        match change {
            ConfigChange::Put(config) => {
                let group = config.group_name.clone();
                if self.configs.get(&group).is_some_and(|known| **known == config) {
                    return Vec::new();
                }
                let config = Arc::new(config);
                self.configs.insert(group.clone(), config.clone());
                vec![Publication::Config(group, Some(config))]
            }
            ConfigChange::Ensure(group) => {
                if self.configs.contains_key(&group) {
                    return Vec::new();
                }
                let config = usual(group.clone());
                self.configs.insert(group.clone(), config.clone());
                vec![Publication::Config(group, Some(config))]
            }
            ConfigChange::Remove(group) => {
                let mut publications = Vec::new();
                if self.configs.remove(&group).is_some() {
                    publications.push(Publication::Config(group.clone(), None));
                }
                if self.forbidden.remove(&group).is_some() {
                    publications.push(Publication::Forbidden(group, Arc::default()));
                }
                publications
            }
            ConfigChange::SetReadable { group, topic, readable } => self.set_readable(group, topic, readable),
        }
    }

    fn set_readable(&mut self, group: Text, topic: Text, readable: bool) -> Vec<Publication> {
        let mut forbidden = self.forbidden.get(&group).map(|bits| (**bits).clone()).unwrap_or_default();
        let before = forbidden.get(&topic).copied().unwrap_or(0);
        let after = if readable { before & !READ_FORBIDDEN } else { before | READ_FORBIDDEN };
        if before == after {
            return Vec::new();
        }
        if after == 0 {
            forbidden.remove(&topic);
        } else {
            forbidden.insert(topic, after);
        }
        let forbidden = Arc::new(forbidden);
        if forbidden.is_empty() {
            self.forbidden.remove(&group);
        } else {
            self.forbidden.insert(group.clone(), forbidden.clone());
        }
        vec![Publication::Forbidden(group, forbidden)]
    }
}

/// A group with the usual settings.
fn usual(group: Text) -> Arc<SubscriptionGroupConfig> {
    Arc::new(SubscriptionGroupConfig { group_name: group, ..SubscriptionGroupConfig::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(group: &str, retry_max_times: i32) -> SubscriptionGroupConfig {
        SubscriptionGroupConfig { group_name: Text::from(group), retry_max_times, ..SubscriptionGroupConfig::default() }
    }

    #[test]
    fn a_group_is_made_once_and_changed_as_asked() {
        let mut table = ConfigTable::default();
        let made =
            table.apply(vec![ConfigChange::Ensure(Text::from("g")), ConfigChange::Ensure(Text::from("g"))], Millis(1));
        assert_eq!(made.len(), 1, "two who ask at once make one");
        assert_eq!(table.apply(vec![ConfigChange::Put(config("g", 16))], Millis(2)), [], "equal: no change");
        assert_eq!(table.version, DataVersion { counter: 1, state_version: 0, timestamp: 1 });
        let put = table.apply(vec![ConfigChange::Put(config("g", 3))], Millis(3));
        assert_eq!(put, [Publication::Config(Text::from("g"), Some(Arc::new(config("g", 3))))]);
        table.apply(vec![ConfigChange::Ensure(Text::from("g"))], Millis(4));
        assert_eq!(table.configs.get("g").map(|config| config.retry_max_times), Some(3));
        assert_eq!(table.apply(vec![ConfigChange::Remove(Text::from("g"))], Millis(5)).len(), 1);
        assert_eq!(table.apply(vec![ConfigChange::Remove(Text::from("g"))], Millis(6)), []);
    }

    #[test]
    fn reading_is_forbidden_and_allowed_again() {
        let mut table = ConfigTable::default();
        let set = |readable| ConfigChange::SetReadable { group: Text::from("g"), topic: Text::from("T"), readable };
        assert_eq!(table.apply(vec![set(true)], Millis(1)), [], "it is so already");
        let forbidden = table.apply(vec![set(false)], Millis(1));
        assert_eq!(forbidden, [Publication::Forbidden(Text::from("g"), Arc::new([(Text::from("T"), 4)].into()))]);
        let text = table.to_text();
        let again = ConfigTable::parse(&text, &[]).expect("a table");
        assert_eq!(again.publications(), forbidden);
        assert_eq!(table.apply(vec![set(true)], Millis(2)), [Publication::Forbidden(Text::from("g"), Arc::default())]);
        assert!(table.forbidden.is_empty());
    }

    #[test]
    fn the_text_of_the_peer_is_read() {
        let text = r#"{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":5},"forbiddenTable":{},
            "subscriptionGroupTable":{"g":{"groupName":"g","retryMaxTimes":7,"groupRetryPolicy":{"type":"CUSTOMIZED"}}}}"#;
        let mut table = ConfigTable::parse(text, &[]).expect("a table");
        assert_eq!(
            table.configs.get("g").map(|config| (config.retry_max_times, config.retry_queue_nums)),
            Some((7, 1))
        );
        table.add_boot_groups();
        assert_eq!(table.names().count(), 1 + name::BOOT_GROUPS.len());
        assert!(ConfigTable::parse("{", &[]).is_err());
    }

    #[test]
    fn what_was_done_to_a_part_is_the_same_in_the_table_and_in_its_file() {
        let name = |text: &str| Text::from(text);
        let set = |group: &str, readable| ConfigChange::SetReadable { group: name(group), topic: name("T"), readable };
        let mut whole = ConfigTable::default();
        whole.add_boot_groups();
        let (mut table, text) = (whole.clone(), whole.to_text());
        let mut texts = Vec::new();
        let batches = [
            vec![ConfigChange::Ensure(name("a")), ConfigChange::Put(config("b", 3)), ConfigChange::Put(config("a", 4))],
            vec![set("b", false), set("c", false), ConfigChange::Remove(name("a"))],
            vec![set("b", true), ConfigChange::Ensure(name("a")), ConfigChange::Remove(name("b"))],
            vec![ConfigChange::Remove(name("a")), ConfigChange::Put(config("a", 5))],
        ];
        for (number, batch) in batches.into_iter().enumerate() {
            let mut part = table.part(&batch);
            let publications = part.apply(batch.clone(), Millis(number as u64));
            assert_eq!(publications, whole.apply(batch, Millis(number as u64)));
            texts.push(change_text(&publications, part.version()));
            table.take(&publications, part.version());
            assert_eq!(table.to_body(), whole.to_body());
        }
        assert_eq!(ConfigTable::parse(&text, &texts).expect("a table").to_body(), whole.to_body());
    }
}
