//! What is measured: one broker address, a topic of the phase's own, perhaps a process.

use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;

use client::{ClientError, TopicSettings};
use remoting::body::group::SubscriptionGroupConfig;
use remoting::body::route::permission;
use remoting::code::RequestCode;
use remoting::command::{Command, HeaderEncoding};
use remoting::header::consumer_offset::{QueryConsumerOffset, UpdateConsumerOffset};
use remoting::header::queue_offset::{GetMaxOffset, OffsetResponse, QueueRequest};
use remoting::name;
use remoting::text::Text;

use crate::arguments::{TargetArgs, Wire};
use crate::clock::nanoseconds;
use crate::error::BenchError;
use crate::identity::{Identity, client};
use crate::machine;
use crate::payload::Blank;
use crate::phase::course::PRODUCER_GROUP;
use crate::read::{ReadForm, Way};
use crate::template::{Extras, SendForm};

/// The topics of a phase.
#[derive(Clone, Debug)]
pub(crate) struct TopicForm {
    /// None: a new one of the phase's own.
    pub(crate) name: Option<String>,
    /// Beyond the first they are called after it, with a number.
    pub(crate) topics: u16,
    /// Of each topic.
    pub(crate) queues: u16,
    pub(crate) wire: Wire,
    /// It is not there yet.
    pub(crate) create: bool,
    /// Nobody else sends to it, so the offsets of its messages can be checked.
    pub(crate) check_offsets: bool,
}

impl TopicForm {
    /// A topic that a phase makes for itself.
    pub(crate) fn own() -> TopicForm {
        TopicForm { name: None, topics: 1, queues: 8, wire: Wire::Json, create: true, check_offsets: true }
    }

    /// Nobody else knows of them.
    pub(crate) fn is_own(&self) -> bool {
        self.name.is_none() && self.create
    }
}

/// All queues of all topics of a phase, in a row: those of the first topic, then those of the second.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    pub(crate) topics: Vec<Text>,
    /// Of each topic.
    pub(crate) queues: u16,
}

impl Lanes {
    pub(crate) fn count(&self) -> usize {
        self.topics.len() * usize::from(self.queues)
    }

    pub(crate) fn topic(&self, lane: usize) -> &Text {
        &self.topics[lane / usize::from(self.queues)]
    }

    pub(crate) fn queue_id(&self, lane: usize) -> i32 {
        (lane % usize::from(self.queues)) as i32
    }

    /// The lane of a queue in the topic of another lane; `None` when that topic has no such queue.
    pub(crate) fn beside(&self, lane: usize, queue_id: i64) -> Option<usize> {
        let queues = usize::from(self.queues);
        let queue_id = usize::try_from(queue_id).ok().filter(|queue_id| *queue_id < queues)?;
        Some(lane / queues * queues + queue_id)
    }
}

#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) broker: SocketAddr,
    pub(crate) lanes: Lanes,
    pub(crate) server_pid: Option<u32>,
    /// Sends that take longer are told one by one. 0: none are.
    pub(crate) slower_than_ns: u64,
    pub(crate) encoding: HeaderEncoding,
    /// The offset that the next message of each lane will have; empty when offsets shall not be checked.
    pub(crate) starts: Vec<i64>,
    /// Tells this run from others.
    pub(crate) run: u64,
}

impl Target {
    /// What will be measured. Nobody is asked yet.
    pub(crate) fn new(args: &TargetArgs, form: &TopicForm) -> Target {
        let run = runtime::clock::now_ms().0 << 20 | u64::from(std::process::id() & 0xf_ffff);
        let first = form.name.clone().unwrap_or_else(|| format!("bench_{run:x}"));
        let others = (1..form.topics).map(|index| Text::from(format!("{first}_{index}")));
        let topics = std::iter::once(Text::from(first.clone())).chain(others).collect();
        Target {
            broker: args.broker,
            lanes: Lanes { topics, queues: form.queues },
            server_pid: args.server_pid,
            slower_than_ns: args.trace_slower_than.map_or(0, nanoseconds),
            encoding: match form.wire {
                Wire::Json => HeaderEncoding::Json,
                Wire::Compact => HeaderEncoding::Compact,
            },
            starts: Vec::new(),
            run,
        }
    }

    /// Makes the topics, and tells where their queues end: nowhere, when that is not to be known.
    pub(crate) fn prepare(&self, form: &TopicForm) -> Result<Vec<i64>, BenchError> {
        if let Some(pid) = self.server_pid {
            machine::cpu_us(&pid.to_string()).map_err(|source| BenchError::Server { pid, source })?;
        }
        if form.create {
            self.make_topics()?;
        }
        if form.check_offsets { self.ends() } else { Ok(Vec::new()) }
    }

    /// Messages of the topics with these bodies and nothing special.
    pub(crate) fn send_form(&self, bodies: Vec<Blank>) -> SendForm {
        SendForm {
            encoding: self.encoding,
            group: Text::from_static(PRODUCER_GROUP),
            lanes: self.lanes.clone(),
            run: self.run,
            bodies,
            batch: 1,
            extras: Extras::default(),
        }
    }

    fn make_topics(&self) -> Result<(), BenchError> {
        let (address, lanes) = (self.broker.to_string(), self.lanes.clone());
        self.call(async move {
            let client = client(&address);
            for topic in &lanes.topics {
                let settings = TopicSettings {
                    topic: topic.clone(),
                    read_queue_nums: lanes.queues.into(),
                    write_queue_nums: lanes.queues.into(),
                    perm: permission::READ_WRITE,
                    order: false,
                    topic_sys_flag: 0,
                    attributes: Text::default(),
                };
                client.update_topic(&address, &settings).await?;
            }
            Ok(())
        })
    }

    /// Makes a consumer group with what a group has by default. Where it does as official clients do, it tells of its first
    /// member, so that its retry topic is there before anybody pulls of it. One that pops begins where it has committed.
    pub(crate) fn announce(&self, form: &ReadForm, starts: &[i64]) -> Result<(), BenchError> {
        let (address, group_name) = (self.broker.to_string(), form.group.clone());
        let config = SubscriptionGroupConfig { group_name, ..SubscriptionGroupConfig::default() };
        let mut requests = Vec::new();
        if form.has_duties {
            requests.push(form.heartbeat(0));
        }
        if form.way == Way::Pop {
            requests.extend(starts.iter().enumerate().map(|(lane, start)| self.commit(&form.group, lane, *start)));
        }
        self.call(async move {
            let client = client(&address);
            client.update_group(&address, &config).await?;
            for request in requests {
                client.call_broker(&address, request).await?;
            }
            Ok(())
        })
    }

    /// Deletes the topics, and groups with their offsets and retry topics: at the broker, then at the nameservers that it knows.
    ///
    /// # Errors
    /// The first of all; what could be deleted is, all the same.
    pub(crate) fn clear(&self, groups: &[String]) -> Result<(), BenchError> {
        let (address, groups) = (self.broker.to_string(), groups.to_vec());
        let topics = self.lanes.topics.iter().cloned();
        let topics: Vec<Text> = topics.chain(groups.iter().map(|group| name::retry_topic(group).into())).collect();
        self.call(async move {
            let client = client(&address);
            let mut cleared = delete_each(&groups, |group| client.delete_group(&address, group, true)).await;
            cleared = cleared.and(delete_each(&topics, |topic| client.delete_topic_in_broker(&address, topic)).await);
            let configuration = client.broker_config(&address).await.ok();
            let identity = Identity { configuration, ..Identity::default() };
            let nameservers = identity.setting("namesrvAddr").into_iter().flat_map(|list| list.split(';'));
            for nameserver in nameservers.filter(|nameserver| !nameserver.is_empty()) {
                let delete = |topic| client.delete_topic_in_nameserver(nameserver, topic, None);
                cleared = cleared.and(delete_each(&topics, delete).await);
            }
            cleared
        })
    }

    fn commit(&self, group: &Text, lane: usize, offset: i64) -> Command {
        let header = UpdateConsumerOffset {
            consumer_group: group.clone(),
            topic: self.lanes.topic(lane).clone(),
            queue_id: self.lanes.queue_id(lane),
            commit_offset: offset,
        };
        Command::request(RequestCode::UPDATE_CONSUMER_OFFSET, header.to_fields())
    }

    /// The name that the broker has in a cluster. Where it does not tell, any will do: it is only part of receipts.
    pub(crate) fn broker_name(&self) -> Result<Text, BenchError> {
        let address = self.broker.to_string();
        let configuration = self.call(async move { Ok(client(&address).broker_config(&address).await.ok()) })?;
        let identity = Identity { configuration, ..Identity::default() };
        Ok(Text::from(identity.setting("brokerName").unwrap_or("broker")))
    }

    /// The first offset of each lane.
    pub(crate) fn begins(&self) -> Result<Vec<i64>, BenchError> {
        self.offsets(|topic, queue_id| {
            Command::request(RequestCode::GET_MIN_OFFSET, QueueRequest { topic, queue_id }.to_fields())
        })
    }

    /// One behind the last offset of each lane.
    pub(crate) fn ends(&self) -> Result<Vec<i64>, BenchError> {
        self.offsets(|topic, queue_id| {
            let header = GetMaxOffset { topic, queue_id, committed: true };
            Command::request(RequestCode::GET_MAX_OFFSET, header.to_fields())
        })
    }

    /// How far a group has committed in each lane.
    pub(crate) fn committed(&self, group: &Text) -> Result<Vec<i64>, BenchError> {
        self.offsets(|topic, queue_id| {
            let consumer_group = group.clone();
            let header = QueryConsumerOffset { consumer_group, topic, queue_id, set_zero_if_not_found: Some(true) };
            Command::request(RequestCode::QUERY_CONSUMER_OFFSET, header.to_fields())
        })
    }

    fn offsets(&self, request: impl Fn(Text, i32) -> Command) -> Result<Vec<i64>, BenchError> {
        let address = self.broker.to_string();
        let requests: Vec<Command> = (0..self.lanes.count())
            .map(|lane| request(self.lanes.topic(lane).clone(), self.lanes.queue_id(lane)))
            .collect();
        self.call(async move {
            let client = client(&address);
            let mut offsets = Vec::new();
            for command in requests {
                let request = RequestCode(command.code);
                let answer = client.call_broker(&address, command).await?;
                let header = OffsetResponse::decode(&answer.fields).map_err(|error| {
                    let what = error.to_string();
                    ClientError::Unreadable { address: address.clone(), request, what }
                })?;
                offsets.push(header.offset);
            }
            Ok(offsets)
        })
    }

    /// Runs calls to the broker on an executor that lasts as long as they do.
    fn call<T: 'static>(&self, calls: impl Future<Output = Result<T, ClientError>> + 'static) -> Result<T, BenchError> {
        let failed = |source| BenchError::Topic { topic: self.lanes.topics[0].as_str().to_owned(), source };
        runtime::run_here(calls).map_err(BenchError::Executor)?.map_err(failed)
    }
}

/// Deletes as many as can be. Whoever is silent once is not asked thousands of times.
///
/// # Errors
/// The first of all.
async fn delete_each<'a, T: Deref<Target = str>, Deleting: Future<Output = Result<(), ClientError>>>(
    names: &'a [T],
    delete: impl Fn(&'a str) -> Deleting,
) -> Result<(), ClientError> {
    let mut all = Ok(());
    for name in names {
        let deleted = delete(name).await;
        let is_away = deleted.as_ref().is_err_and(ClientError::is_silence);
        all = all.and(deleted);
        if is_away {
            break;
        }
    }
    all
}
