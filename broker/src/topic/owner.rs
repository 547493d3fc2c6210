//! The owner of the table of topics, on the tables' core: one writer does all changes, in batches.
//!
//! A batch is tried on the part of the table that it is about, stored, published to every core, and only then becomes part
//! of the table; whoever asked is answered after that. A batch that cannot be stored changes nothing. Deleting goes the
//! other way round: the topic vanishes from every core, then its data, then from the stored table, so that a topic made
//! anew begins empty whenever the process ends.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use remoting::body::topic::{DataVersion, TopicConfigTable};
use remoting::code::ResponseCode;
use remoting::name;
use remoting::text::Text;
use runtime::clock;
use runtime::sync::{Notify, OnceSender, once};
use runtime::table_file::Stored;

use super::change::{Change, Rules};
use super::table::{Applied, BootFacts, TopicTable, change_text, file_text, read_texts};
use super::{TOPIC_QUEUES_MAX, Topic};
use crate::call::Refusal;
use crate::config::Config;
use crate::core::Core;
use crate::registration::Ticket;
use crate::table_path::{TableError, TableFile, TableWriter, read_table};

const FILE: TableFile = TableFile::TOPICS;
/// How long a change waits for the nameservers to know of it. Beyond it the change is answered all the same: it is
/// done here, and the registration goes on.
const REGISTRATION_WAIT_MAX: Duration = Duration::from_secs(1);
/// Changes that wait for the writer. Beyond it a new one is refused as busy.
const ASKED_MAX: usize = 10_000;

struct Asked {
    change: Change,
    answer: OnceSender<Result<Done, Refusal>>,
}

/// A change that is in force on every core.
struct Done {
    topics: Vec<Arc<Topic>>,
    /// Set when there is something that the nameservers should know.
    ticket: Option<Ticket>,
}

/// The table of topics and its writer.
pub(crate) struct TopicOwner {
    file: TableWriter,
    table: RefCell<TopicTable>,
    asked: RefCell<Vec<Asked>>,
    wake: Notify,
}

impl TopicOwner {
    /// Reads the stored topics and adds those that must exist.
    pub(crate) async fn load(config: &Config, logs: u16) -> Result<Rc<TopicOwner>, TableError> {
        let path = FILE.path(config);
        let (generation, table) = match read_table(&path, FILE).await? {
            Some(stored) => (stored.generation, parse(&path, &stored)?),
            None => (0, TopicConfigTable::default()),
        };
        Ok(Rc::new(TopicOwner {
            file: TableWriter::new(FILE, path, generation),
            table: RefCell::new(TopicTable::at_boot(table, &boot_facts(config, logs), clock::now_ms())),
            asked: RefCell::default(),
            wake: Notify::new(),
        }))
    }

    /// Stores and publishes the topics that there are, and starts the writer. The tables of `core` are set before.
    pub(crate) async fn start(self: &Rc<Self>, core: &Rc<Core>) -> Result<(), TableError> {
        let all = self.table.borrow().all().cloned().collect();
        let table = self.table.borrow().clone();
        let stored = self.file.write(move |file| file.replace(&file_text(&table))).await;
        stored.map_err(|source| TableError::Write { path: self.file.path().to_owned(), source })?;
        publish(core, all).await;
        let (owner, core) = (self.clone(), core.clone());
        runtime::spawn_background(async move { owner.write(&core).await });
        Ok(())
    }

    /// Asks for a change and waits until it is stored and in force on every core, and for a while until the
    /// nameservers know of it. Gives the topics that the change is about, as they are then.
    pub(crate) async fn change(&self, core: &Rc<Core>, change: Change) -> Result<Vec<Arc<Topic>>, Refusal> {
        if self.asked.borrow().len() >= ASKED_MAX {
            let remark = format!("{ASKED_MAX} changes of topics wait to be stored already; try again later");
            return Err(Refusal::new(ResponseCode::SYSTEM_BUSY, remark));
        }
        let (answer, receiver) = once();
        self.asked.borrow_mut().push(Asked { change, answer });
        self.wake.notify();
        let done = receiver.receive().await.expect("the writer answers every change or the process ends")?;
        if let Some(ticket) = done.ticket {
            let registration = core.tables().registration.clone();
            // Late is no failure: the change is in force here.
            let _ = clock::within(REGISTRATION_WAIT_MAX, registration.reached(ticket)).await;
        }
        Ok(done.topics)
    }

    /// All topics, or those of the names that there are, with the data version that they have together.
    pub(crate) fn snapshot(&self, names: Option<&BTreeSet<Text>>) -> (Vec<Arc<Topic>>, DataVersion) {
        let table = self.table.borrow();
        let topics = match names {
            None => table.all().cloned().collect(),
            Some(names) => names.iter().filter_map(|topic| table.get(topic).cloned()).collect(),
        };
        (topics, table.version())
    }

    pub(crate) fn version(&self) -> DataVersion {
        self.table.borrow().version()
    }

    pub(crate) fn system_topics(&self) -> BTreeSet<Text> {
        self.table.borrow().system_topics()
    }

    /// Makes all that is registered count as new, as after a change of the broker's own permission.
    pub(crate) fn renew_version(&self) {
        self.table.borrow_mut().next_version(clock::now_ms());
    }

    async fn write(&self, core: &Rc<Core>) {
        loop {
            while self.asked.borrow().is_empty() {
                self.wake.notified().await;
            }
            let asked = self.asked.take();
            let mut changes = Vec::with_capacity(asked.len());
            for one in asked {
                if let Change::Delete(topic) = &one.change {
                    self.write_changes(core, std::mem::take(&mut changes)).await;
                    let deleted = self.delete(core, topic).await;
                    one.answer.send(deleted);
                } else {
                    changes.push(one);
                }
            }
            self.write_changes(core, changes).await;
            if self.file.is_full() {
                let table = self.table.borrow().clone();
                self.file.shorten(move |file| file.replace(&file_text(&table))).await;
            }
        }
    }

    /// Does changes that delete nothing.
    async fn write_changes(&self, core: &Rc<Core>, asked: Vec<Asked>) {
        if asked.is_empty() {
            return;
        }
        let rules = rules(&core.config());
        let mut part = self.table.borrow().part(asked.iter().map(|one| &one.change));
        let outcomes: Vec<_> = asked.into_iter().map(|one| (one.answer, part.apply(&one.change, rules))).collect();
        let changed: Vec<Arc<Topic>> = outcomes
            .iter()
            .filter_map(|(_, outcome)| outcome.as_ref().ok())
            .flat_map(|done| done.changed.clone())
            .collect();
        let mut ticket = None;
        if !changed.is_empty() {
            part.next_version(clock::now_ms());
            if let Err(refusal) = self.store(&part, changed.clone(), None).await {
                for (answer, outcome) in outcomes {
                    answer.send(unless_changed(outcome, &refusal));
                }
                return;
            }
            let names = changed.iter().map(|topic| topic.name().clone()).collect();
            publish(core, changed).await;
            self.table.borrow_mut().take(part, None, clock::now_ms());
            ticket = Some(core.tables().registration.topics_changed(&names));
        }
        for (answer, outcome) in outcomes {
            answer.send(outcome.map(|done| Done { topics: done.topics, ticket }));
        }
    }

    async fn delete(&self, core: &Rc<Core>, topic: &Text) -> Result<Done, Refusal> {
        let change = Change::Delete(topic.clone());
        let mut part = self.table.borrow().part([&change].into_iter());
        let Some(deleted) = part.apply(&change, rules(&core.config()))?.deleted else {
            return Ok(Done { topics: Vec::new(), ticket: None });
        };
        part.next_version(clock::now_ms());
        withdraw(core, deleted.clone()).await;
        let gone = match delete_data(core, topic.detached()).await {
            Ok(()) => self.store(&part, Vec::new(), Some(topic)).await,
            Err(refusal) => {
                crate::log::warn(format_args!("{}", refusal.remark));
                Err(refusal)
            }
        };
        if let Err(refusal) = gone {
            publish(core, vec![deleted]).await;
            return Err(refusal);
        }
        self.table.borrow_mut().take(part, Some(topic), clock::now_ms());
        // Whoever deletes it at the nameserver next must not be overtaken by a registration that still has it.
        let ticket = core.tables().registration.everything_changed();
        Ok(Done { topics: Vec::new(), ticket: Some(ticket) })
    }

    /// Stores what was done to a part of the table.
    async fn store(&self, part: &TopicTable, changed: Vec<Arc<Topic>>, deleted: Option<&Text>) -> Result<(), Refusal> {
        if !self.file.can_add() {
            let mut table = self.table.borrow().clone();
            table.take(part.clone(), deleted, clock::now_ms());
            return self.file.store(move |file| file.replace(&file_text(&table))).await;
        }
        let (deleted, version) = (deleted.cloned(), part.version());
        self.file.store(move |file| file.add(&change_text(&changed, deleted.as_ref(), version))).await
    }
}

/// A change whose batch was not stored is refused, unless it was refused anyway or had nothing to store.
fn unless_changed(outcome: Result<Applied, Refusal>, refusal: &Refusal) -> Result<Done, Refusal> {
    let done = outcome?;
    if done.changed.is_empty() { Ok(Done { topics: done.topics, ticket: None }) } else { Err(refusal.clone()) }
}

fn parse(path: &Path, stored: &Stored) -> Result<TopicConfigTable, TableError> {
    let table =
        read_texts(&stored.text, &stored.changes).map_err(|error| TableError::of_content(path, FILE, &error))?;
    for topic in table.topic_config_table.keys() {
        name::check_topic(topic).map_err(|error| TableError::of_content(path, FILE, &error))?;
    }
    Ok(table)
}

/// Makes every core know these topics.
async fn publish(core: &Rc<Core>, topics: Vec<Arc<Topic>>) {
    let topics: Arc<[Arc<Topic>]> = topics.into();
    let known = topics.clone();
    core.on_each(move |core| {
        let topics = known.clone();
        async move {
            for topic in topics.iter() {
                core.topics.put(topic);
            }
        }
    })
    .await;
    wake_pops(core, topics).await;
}

/// Once every core knows: a pop looks where its connection is.
async fn wake_pops(core: &Rc<Core>, topics: Arc<[Arc<Topic>]>) {
    core.on_each(move |core| {
        let topics = topics.clone();
        async move { topics.iter().for_each(|topic| core.pops.waits.wake_topic(&core, topic.name())) }
    })
    .await;
}

/// Makes no core know the topic.
async fn withdraw(core: &Rc<Core>, topic: Arc<Topic>) {
    let known = topic.clone();
    core.on_each(move |core| {
        let topic = known.clone();
        async move {
            core.topics.remove(topic.name());
            core.stats.forget_topic(topic.number);
            // Those who wait for its messages are told that it is gone.
            core.waits.wake_topic(topic.name());
        }
    })
    .await;
    wake_pops(core, Arc::new([topic])).await;
}

/// Deletes a topic's queues in every log, and what groups have committed of it.
async fn delete_data(core: &Rc<Core>, topic: Text) -> Result<(), Refusal> {
    let name = topic.clone();
    let results = core
        .on_each(move |core| {
            let topic = topic.clone();
            async move {
                for log in core.own_logs() {
                    log.delete_topic(&topic).await.map_err(|error| error.to_string())?;
                }
                core.groups.delete_topic_offsets(&topic);
                core.pops.forget_topic(&topic);
                core.pulled.forget_topic(&topic);
                Ok::<(), String>(())
            }
        })
        .await;
    let failed: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let remark = format!("topic {name} cannot be deleted: {}; it stays, try again", failed.join("; "));
    Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark))
}

fn rules(config: &Config) -> Rules {
    Rules { auto_create: config.topics.auto_create, protect_system_topics: config.topics.protect_system_topics }
}

fn boot_facts(config: &Config, logs: u16) -> BootFacts {
    let topics = &config.topics;
    BootFacts {
        logs,
        cluster: Text::from(&config.identity.cluster),
        broker: Text::from(&config.identity.broker),
        auto_create: topics.auto_create,
        template_queues: i32::try_from(topics.default_queue_count).unwrap_or(TOPIC_QUEUES_MAX).min(TOPIC_QUEUES_MAX),
        cluster_topic: topics.cluster_topic,
        broker_topic: topics.broker_topic,
        trace_topic: topics.trace_topic.then(|| Text::from(&topics.trace_topic_name)),
    }
}
