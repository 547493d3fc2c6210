//! The table of topics as a value: changes in, the table after them out. No I/O, so a change can be tried on a part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::Millis;
use remoting::body::route::permission;
use remoting::body::topic::{DataVersion, TopicConfig, TopicConfigTable};
use remoting::json::{self, JsonError};
use remoting::name;
use remoting::text::Text;
use serde::{Deserialize, Serialize};

use super::Topic;
use super::change::{Change, FixedTopic, Rules, auto_created, check_named, fixed, updated};
use crate::call::Refusal;

const BENCHMARK_QUEUES: i32 = 1024;
const CLUSTER_QUEUES: i32 = 16;
const SCHEDULE_QUEUES: i32 = 18;
const REVIVE_QUEUES: i32 = 8;

/// What the topics that exist from the start follow from.
#[derive(Clone, Debug)]
pub(crate) struct BootFacts {
    pub(crate) logs: u16,
    pub(crate) cluster: Text,
    pub(crate) broker: Text,
    pub(crate) auto_create: bool,
    pub(crate) template_queues: i32,
    pub(crate) cluster_topic: bool,
    pub(crate) broker_topic: bool,
    pub(crate) trace_topic: Option<Text>,
}

/// All topics with their data version, or those of them that some changes look at.
#[derive(Clone, Debug)]
pub(crate) struct TopicTable {
    topics: BTreeMap<Text, Arc<Topic>>,
    version: DataVersion,
    /// Names of topics that belong to the system here, beside those whose name tells it.
    system: Arc<BTreeSet<Text>>,
    numbers_free: Vec<u32>,
    numbers_used: u32,
}

/// What a change did.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// The topics that the change is about, as they are after it; none for a deletion.
    pub(crate) topics: Vec<Arc<Topic>>,
    /// Those among them that are not what they were.
    pub(crate) changed: Vec<Arc<Topic>>,
    pub(crate) deleted: Option<Arc<Topic>>,
}

impl TopicTable {
    /// The table at start: what was stored, and the topics that must exist.
    pub(crate) fn at_boot(stored: TopicConfigTable, facts: &BootFacts, now: Millis) -> TopicTable {
        let boot = boot_topics(facts);
        let mut table = TopicTable {
            topics: BTreeMap::new(),
            version: stored.data_version,
            system: Arc::new(boot.iter().map(|config| config.topic_name.clone()).collect()),
            numbers_free: Vec::new(),
            numbers_used: 0,
        };
        let mut configs = stored.topic_config_table;
        // The template follows the configuration, also when that changed since.
        configs.remove(name::AUTO_CREATE_TOPIC);
        // Each log has a queue of its own in these.
        for topic in [name::HALF_TOPIC, name::OP_HALF_TOPIC] {
            if let Some(config) = configs.get_mut(topic) {
                (config.read_queue_nums, config.write_queue_nums) = (i32::from(facts.logs), i32::from(facts.logs));
            }
        }
        for (topic, config) in configs {
            table.put(TopicConfig { topic_name: topic, ..config });
        }
        let before = table.topics.len();
        for config in boot {
            if !table.topics.contains_key(&config.topic_name) {
                table.put(config);
            }
        }
        if table.topics.len() > before {
            table.next_version(now);
        }
        table
    }

    pub(crate) fn version(&self) -> DataVersion {
        self.version
    }

    /// What such changes look at, to try them on: it costs as much as there is in them, however many topics there are.
    pub(crate) fn part<'a>(&self, changes: impl Iterator<Item = &'a Change>) -> TopicTable {
        let known = |name: &Text| self.topics.get(name).map(|topic| (topic.name().clone(), topic.clone()));
        TopicTable {
            topics: changes.flat_map(Change::names).filter_map(known).collect(),
            version: self.version,
            system: self.system.clone(),
            numbers_free: self.numbers_free.clone(),
            numbers_used: self.numbers_used,
        }
    }

    /// Takes over what was done to a part, unless the table was changed since. A version that was renewed meanwhile stays
    /// the newer one.
    pub(crate) fn take(&mut self, part: TopicTable, deleted: Option<&Text>, now: Millis) {
        let is_renewed = self.version.counter >= part.version.counter;
        let version = if is_renewed { self.version } else { part.version };
        self.topics.extend(part.topics);
        if let Some(deleted) = deleted {
            self.topics.remove(deleted);
        }
        (self.version, self.numbers_free, self.numbers_used) = (version, part.numbers_free, part.numbers_used);
        if is_renewed {
            self.next_version(now);
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.values()
    }

    pub(crate) fn get(&self, topic: &str) -> Option<&Arc<Topic>> {
        self.topics.get(topic)
    }

    pub(crate) fn is_system(&self, topic: &str) -> bool {
        name::is_system_topic(topic) || self.system.contains(topic)
    }

    /// The topics of the system: the fixed names and those that exist from the start.
    pub(crate) fn system_topics(&self) -> BTreeSet<Text> {
        let fixed = name::SYSTEM_TOPICS.into_iter().map(Text::from_static);
        self.system.iter().cloned().chain(fixed).collect()
    }

    pub(crate) fn next_version(&mut self, now: Millis) {
        self.version.counter += 1;
        self.version.timestamp = i64::try_from(now.0).unwrap_or(i64::MAX);
    }

    /// Does one change, or refuses it and leaves the table as it is.
    pub(crate) fn apply(&mut self, change: &Change, rules: Rules) -> Result<Applied, Refusal> {
        match change {
            Change::Update(wish) => {
                let config = self.wished(wish, rules)?;
                Ok(self.put_all([config]))
            }
            Change::UpdateList(wishes) => {
                let configs: Result<Vec<_>, _> = wishes.iter().map(|wish| self.wished(wish, rules)).collect();
                Ok(self.put_all(configs?))
            }
            Change::AutoCreate { topic, template, queues, unit } => {
                if let Some(topic) = self.get(topic) {
                    return Ok(Applied { topics: vec![topic.clone()], ..Applied::default() });
                }
                let template = self.get(template).map(Arc::as_ref);
                let config = auto_created(topic, template, *queues, *unit, rules)?;
                Ok(self.put_all([config]))
            }
            Change::Fixed(wanted) => Ok(match self.get(&wanted.topic) {
                Some(topic) => Applied { topics: vec![topic.clone()], ..Applied::default() },
                None => self.put_all([fixed(wanted)]),
            }),
            Change::MarkOrdered(topics) => {
                let known = topics.iter().filter_map(|topic| self.get(topic));
                let configs: Vec<_> = known.map(|topic| TopicConfig { order: true, ..topic.config.clone() }).collect();
                Ok(self.put_all(configs))
            }
            Change::Delete(topic) => {
                check_named(topic, self.is_system(topic), rules)?;
                let deleted = self.topics.remove(topic);
                self.numbers_free.extend(deleted.iter().map(|topic| topic.number));
                Ok(Applied { deleted, ..Applied::default() })
            }
        }
    }

    fn wished(&self, wish: &TopicConfig, rules: Rules) -> Result<TopicConfig, Refusal> {
        check_named(&wish.topic_name, self.is_system(&wish.topic_name), rules)?;
        updated(self.get(&wish.topic_name).map(|topic| &topic.config), wish)
    }

    fn put_all(&mut self, configs: impl IntoIterator<Item = TopicConfig>) -> Applied {
        let mut applied = Applied::default();
        for config in configs {
            let before = self.get(&config.topic_name).cloned();
            match before.filter(|topic| topic.config == config) {
                Some(topic) => applied.topics.push(topic),
                None => {
                    let topic = self.put(config);
                    applied.topics.push(topic.clone());
                    applied.changed.push(topic);
                }
            }
        }
        applied
    }

    fn put(&mut self, config: TopicConfig) -> Arc<Topic> {
        let number = match self.topics.get(&config.topic_name) {
            Some(topic) => topic.number,
            None => self.numbers_free.pop().unwrap_or_else(|| {
                self.numbers_used += 1;
                self.numbers_used - 1
            }),
        };
        let is_system = self.is_system(&config.topic_name);
        let topic = Arc::new(Topic::new(number, config, is_system));
        self.topics.insert(topic.name().clone(), topic.clone());
        topic
    }
}

/// A change in the table's file: topics that are new or changed, and those that were deleted.
#[derive(Serialize, Deserialize)]
struct FileChange {
    table: TopicConfigTable,
    deleted: BTreeSet<Text>,
}

/// The text of a table's file.
pub(crate) fn file_text(table: &TopicTable) -> String {
    let topics: Vec<Arc<Topic>> = table.all().cloned().collect();
    json::encode_text(&config_table(&topics, table.version()))
}

/// The text of a change in it.
pub(crate) fn change_text(changed: &[Arc<Topic>], deleted: Option<&Text>, version: DataVersion) -> String {
    json::encode_text(&FileChange {
        table: config_table(changed, version),
        deleted: deleted.into_iter().cloned().collect(),
    })
}

/// Reads a file's text and the changes behind it.
///
/// # Errors
/// When one of them is no such text.
pub(crate) fn read_texts(text: &str, changes: &[String]) -> Result<TopicConfigTable, JsonError> {
    let mut table: TopicConfigTable = json::decode(text.as_bytes())?;
    for change in changes {
        let change: FileChange = json::decode(change.as_bytes())?;
        table.data_version = change.table.data_version;
        table.topic_config_table.extend(change.table.topic_config_table);
        for topic in &change.deleted {
            table.topic_config_table.remove(topic);
        }
    }
    Ok(table)
}

/// The shape that files and answers have.
pub(crate) fn config_table(topics: &[Arc<Topic>], version: DataVersion) -> TopicConfigTable {
    TopicConfigTable {
        data_version: version,
        topic_config_table: topics.iter().map(|topic| (topic.name().clone(), topic.config.clone())).collect(),
        ..TopicConfigTable::default()
    }
}

fn boot_topics(facts: &BootFacts) -> Vec<TopicConfig> {
    let named = |topic: Text, queues: i32, perm: i32| TopicConfig {
        topic_name: topic,
        read_queue_nums: queues,
        write_queue_nums: queues,
        perm,
        ..TopicConfig::default()
    };
    let plain = |topic: &str, queues| named(Text::from(topic), queues, permission::READ_WRITE);
    let inherited = permission::READ_WRITE | permission::INHERIT;
    let mut topics = vec![
        plain(name::SELF_TEST_TOPIC, 1),
        plain(name::BENCHMARK_TOPIC, BENCHMARK_QUEUES),
        plain(name::OFFSET_MOVED_TOPIC, 1),
        plain(name::SCHEDULE_TOPIC, SCHEDULE_QUEUES),
        plain(name::HALF_TOPIC, i32::from(facts.logs)),
        plain(name::OP_HALF_TOPIC, i32::from(facts.logs)),
        plain(name::TIMER_TOPIC, 1),
        plain(&name::reply_topic(&facts.cluster), 1),
        plain(&name::revive_topic(&facts.cluster), REVIVE_QUEUES.max(i32::from(facts.logs))),
        named(Text::from(format!("rmq_sys_SYNC_BROKER_MEMBER_{}", facts.broker)), 1, permission::INHERIT),
    ];
    if facts.auto_create {
        topics.push(named(Text::from_static(name::AUTO_CREATE_TOPIC), facts.template_queues, inherited));
    }
    if facts.cluster_topic {
        topics.push(named(facts.cluster.clone(), CLUSTER_QUEUES, inherited));
    }
    if facts.broker_topic {
        topics.push(named(facts.broker.clone(), 1, inherited));
    }
    if let Some(topic) = &facts.trace_topic {
        topics.push(named(topic.clone(), 1, permission::READ_WRITE));
    }
    topics
}

/// A topic of the broker's own, as a change.
pub(crate) fn fixed_change(topic: impl Into<Text>, queues: u32) -> Change {
    Change::Fixed(FixedTopic { topic: topic.into(), queues })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { auto_create: true, protect_system_topics: true };

    fn facts() -> BootFacts {
        BootFacts {
            logs: 3,
            cluster: Text::from("C"),
            broker: Text::from("b"),
            auto_create: true,
            template_queues: 8,
            cluster_topic: true,
            broker_topic: true,
            trace_topic: None,
        }
    }

    fn table() -> TopicTable {
        TopicTable::at_boot(TopicConfigTable::default(), &facts(), Millis(1000))
    }

    fn wish(topic: &str, queues: i32) -> TopicConfig {
        TopicConfig {
            topic_name: Text::from(topic),
            read_queue_nums: queues,
            write_queue_nums: queues,
            ..TopicConfig::default()
        }
    }

    #[test]
    fn the_systems_topics_exist_from_the_start() {
        let table = table();
        for (topic, queues, perm) in [
            ("TBW102", 8, 7),
            ("BenchmarkTest", 1024, 6),
            ("SCHEDULE_TOPIC_XXXX", 18, 6),
            ("RMQ_SYS_TRANS_HALF_TOPIC", 3, 6),
            ("C", 16, 7),
            ("b", 1, 7),
            ("C_REPLY_TOPIC", 1, 6),
            ("rmq_sys_SYNC_BROKER_MEMBER_b", 1, 1),
        ] {
            let found = table.get(topic).unwrap_or_else(|| panic!("{topic}"));
            assert_eq!(
                (found.config.write_queue_nums, found.config.perm, found.is_system),
                (queues, perm, true),
                "{topic}"
            );
        }
        assert!(table.system_topics().contains("CHECKPOINT_TOPIC"));
        let numbers: BTreeSet<u32> = table.all().map(|topic| topic.number).collect();
        assert_eq!(numbers.len(), table.all().count(), "no two topics have one number");
    }

    #[test]
    fn a_stored_table_comes_back_and_the_template_follows_the_configuration() {
        let mut table = table();
        table.apply(&Change::Update(wish("T", 3)), RULES).unwrap();
        table.next_version(Millis(2000));
        let stored = read_texts(&file_text(&table), &[]).unwrap();
        let same = TopicTable::at_boot(stored.clone(), &BootFacts { template_queues: 5, ..facts() }, Millis(3000));
        assert_eq!(same.get("T").unwrap().config, wish("T", 3));
        assert_eq!(same.get("TBW102").unwrap().config.read_queue_nums, 5);
        let more = TopicTable::at_boot(stored.clone(), &BootFacts { logs: 4, ..facts() }, Millis(3000));
        assert_eq!(more.get("RMQ_SYS_TRANS_HALF_TOPIC").unwrap().read_queues(), 4, "a queue for each log");
        let without = TopicTable::at_boot(stored, &BootFacts { auto_create: false, ..facts() }, Millis(3000));
        assert!(without.get("TBW102").is_none());
        assert_eq!(without.version(), table.version(), "nothing new, no new version");
    }

    #[test]
    fn what_was_done_to_a_part_is_the_same_in_the_table_and_in_its_file() {
        let mut table = table();
        let text = file_text(&table);
        let mut whole = table.clone();
        let mut texts = Vec::new();
        let auto =
            |topic: &str| Change::AutoCreate { topic: topic.into(), template: "TBW102".into(), queues: 4, unit: false };
        let batches = [
            vec![Change::Update(wish("A", 1)), auto("B"), Change::Update(wish("A", 2))],
            vec![Change::UpdateList(vec![wish("F", 1), wish("B", 9)]), fixed_change("D", 3)],
            vec![Change::Delete("A".into())],
            vec![Change::MarkOrdered(vec!["F".into(), "D".into()]), auto("F"), auto("A"), auto("E")],
        ];
        for (number, batch) in batches.iter().enumerate() {
            let mut part = table.part(batch.iter());
            let mut changed = Vec::new();
            let mut deleted = None;
            for change in batch {
                let [applied, in_whole] = [part.apply(change, RULES).unwrap(), whole.apply(change, RULES).unwrap()];
                assert_eq!(applied.topics, in_whole.topics, "{change:?}");
                changed.extend(applied.changed);
                deleted = applied.deleted.map(|topic| topic.name().clone());
            }
            part.next_version(Millis(number as u64));
            texts.push(change_text(&changed, deleted.as_ref(), part.version()));
            table.take(part, deleted.as_ref(), Millis(0));
        }
        assert_eq!(table.topics, whole.topics);
        let read = read_texts(&text, &texts).unwrap();
        assert_eq!(
            read.topic_config_table,
            config_table(&whole.all().cloned().collect::<Vec<_>>(), whole.version).topic_config_table
        );
        assert_eq!(read.data_version, table.version());
        let mut part = table.part([].iter());
        part.next_version(Millis(9));
        table.next_version(Millis(10));
        table.next_version(Millis(11));
        table.take(part, None, Millis(12));
        assert_eq!(table.version().timestamp, 12, "newer than what was published meanwhile");
    }

    #[test]
    fn equal_changes_change_nothing_and_numbers_are_used_again() {
        let mut table = table();
        let made = table.apply(&Change::Update(wish("T", 3)), RULES).unwrap();
        assert_eq!((made.topics.len(), made.changed.len()), (1, 1));
        let number = made.topics[0].number;
        let again = table.apply(&Change::Update(wish("T", 3)), RULES).unwrap();
        assert_eq!((again.topics[0].number, again.changed.len()), (number, 0));
        let grown = table.apply(&Change::Update(wish("T", 4)), RULES).unwrap();
        assert_eq!((grown.topics[0].number, grown.changed.len()), (number, 1));
        let auto = Change::AutoCreate { topic: "T".into(), template: "TBW102".into(), queues: 1, unit: false };
        assert_eq!(table.apply(&auto, RULES).unwrap().topics[0].write_queues(), 4, "one that exists stays");
        let deleted = table.apply(&Change::Delete("T".into()), RULES).unwrap();
        assert_eq!(deleted.deleted.map(|topic| topic.number), Some(number));
        assert!(table.apply(&Change::Delete("T".into()), RULES).unwrap().deleted.is_none());
        let other = table.apply(&Change::Update(wish("U", 1)), RULES).unwrap();
        assert_eq!(other.topics[0].number, number);
    }

    #[test]
    fn a_list_is_done_as_a_whole_or_not_at_all() {
        let mut table = table();
        let bad = Change::UpdateList(vec![wish("A", 1), wish("bad name", 1)]);
        assert!(table.apply(&bad, RULES).is_err());
        assert!(table.get("A").is_none());
        let good = table.apply(&Change::UpdateList(vec![wish("A", 1), wish("B", 2)]), RULES).unwrap();
        assert_eq!(good.changed.len(), 2);
        assert!(table.apply(&Change::Update(wish("C", 2)), RULES).is_err(), "the cluster's own topic");
        assert!(table.apply(&Change::Delete("TBW102".into()), RULES).is_err());
    }

    #[test]
    fn topics_with_an_order_configuration_are_marked_once() {
        let mut table = table();
        table.apply(&Change::Update(wish("A", 1)), RULES).unwrap();
        let mark = Change::MarkOrdered(vec!["A".into(), "none".into()]);
        assert_eq!(table.apply(&mark, RULES).unwrap().changed.len(), 1);
        assert!(table.get("A").unwrap().config.order);
        assert_eq!(table.apply(&mark, RULES).unwrap().changed.len(), 0);
    }
}
