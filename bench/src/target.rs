//! What is measured: one broker address, a topic of the phase's own, perhaps a process.

use std::future::Future;
use std::net::SocketAddr;

use client::{Client, ClientError, TopicSettings};
use remoting::body::route::permission;
use remoting::code::RequestCode;
use remoting::command::{Command, HeaderEncoding};
use remoting::header::queue_offset::{GetMaxOffset, OffsetResponse, QueueRequest};
use remoting::text::Text;

use crate::arguments::{TargetArgs, Wire};
use crate::clock::nanoseconds;
use crate::error::BenchError;
use crate::machine;
use crate::payload::Blank;
use crate::phase::course::PRODUCER_GROUP;
use crate::template::{Extras, SendForm};

/// The topic of a phase.
#[derive(Clone, Debug)]
pub(crate) struct TopicForm {
    /// None: a new one of the phase's own.
    pub(crate) name: Option<String>,
    pub(crate) queues: u16,
    pub(crate) wire: Wire,
    /// It is not there yet.
    pub(crate) create: bool,
    /// Nobody else sends to it, so the offsets of its messages can be checked.
    pub(crate) check_offsets: bool,
}

/// What a broker says it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) version: Option<String>,
    /// Its configuration as it tells it, a `key=value` line each.
    pub(crate) configuration: Option<String>,
}

impl Identity {
    /// Of a broker that may refuse to tell.
    pub(crate) fn of(broker: SocketAddr) -> Identity {
        let address = broker.to_string();
        let asked = runtime::run_here(async move {
            let client = client(&address);
            let status = client.broker_status(&address).await.ok();
            let version =
                status.and_then(|status| status.table.get("brokerVersionDesc").map(|text| text.as_str().to_owned()));
            Identity { version, configuration: client.broker_config(&address).await.ok() }
        });
        asked.unwrap_or_default()
    }

    /// The value of a key of its configuration.
    pub(crate) fn setting(&self, key: &str) -> Option<&str> {
        let lines = self.configuration.as_deref()?.lines();
        lines.filter_map(|line| line.split_once('=')).find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Equal for equal configurations, in whatever order their lines come.
    pub(crate) fn configuration_hash(&self) -> Option<String> {
        let mut lines: Vec<&str> = self.configuration.as_deref()?.lines().collect();
        lines.sort_unstable();
        Some(format!("{:016x}", base::stable_hash(&lines.join("\n"))))
    }
}

#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) broker: SocketAddr,
    pub(crate) topic: Text,
    pub(crate) queues: u16,
    pub(crate) server_pid: Option<u32>,
    /// Sends that take longer are told one by one. 0: none are.
    pub(crate) slower_than_ns: u64,
    pub(crate) encoding: HeaderEncoding,
    /// The offset that the next message of each queue will have; empty when offsets shall not be checked.
    pub(crate) starts: Vec<i64>,
    /// Tells this run from others.
    pub(crate) run: u64,
}

impl Target {
    /// Makes the topic and asks where its queues end.
    pub(crate) fn prepare(args: &TargetArgs, form: &TopicForm) -> Result<Target, BenchError> {
        if let Some(pid) = args.server_pid {
            machine::cpu_us(&pid.to_string()).map_err(|source| BenchError::Server { pid, source })?;
        }
        let run = runtime::clock::now_ms().0 << 20 | u64::from(std::process::id() & 0xf_ffff);
        let topic = form.name.clone().unwrap_or_else(|| format!("bench_{run:x}"));
        let mut target = Target {
            broker: args.broker,
            topic: Text::from(topic),
            queues: form.queues,
            server_pid: args.server_pid,
            slower_than_ns: args.trace_slower_than.map_or(0, nanoseconds),
            encoding: match form.wire {
                Wire::Json => HeaderEncoding::Json,
                Wire::Compact => HeaderEncoding::Compact,
            },
            starts: Vec::new(),
            run,
        };
        if form.create {
            target.make_topic()?;
        }
        if form.check_offsets {
            target.starts = target.ends()?;
        }
        Ok(target)
    }

    /// Messages of the topic with these bodies and nothing special.
    pub(crate) fn send_form(&self, bodies: Vec<Blank>) -> SendForm {
        SendForm {
            encoding: self.encoding,
            group: Text::from_static(PRODUCER_GROUP),
            topic: self.topic.clone(),
            queues: self.queues,
            run: self.run,
            bodies,
            batch: 1,
            extras: Extras::default(),
        }
    }

    fn make_topic(&self) -> Result<(), BenchError> {
        let settings = TopicSettings {
            topic: self.topic.clone(),
            read_queue_nums: self.queues.into(),
            write_queue_nums: self.queues.into(),
            perm: permission::READ_WRITE,
            order: false,
            topic_sys_flag: 0,
            attributes: Text::default(),
        };
        let address = self.broker.to_string();
        self.call(async move { client(&address).update_topic(&address, &settings).await })
    }

    /// The first offset of each queue.
    pub(crate) fn begins(&self) -> Result<Vec<i64>, BenchError> {
        self.offsets(|topic, queue_id| {
            Command::request(RequestCode::GET_MIN_OFFSET, QueueRequest { topic, queue_id }.to_fields())
        })
    }

    /// One behind the last offset of each queue.
    pub(crate) fn ends(&self) -> Result<Vec<i64>, BenchError> {
        self.offsets(|topic, queue_id| {
            let header = GetMaxOffset { topic, queue_id, committed: true };
            Command::request(RequestCode::GET_MAX_OFFSET, header.to_fields())
        })
    }

    fn offsets(&self, request: impl Fn(Text, i32) -> Command) -> Result<Vec<i64>, BenchError> {
        let address = self.broker.to_string();
        let requests: Vec<Command> =
            (0..self.queues).map(|queue_id| request(self.topic.clone(), queue_id.into())).collect();
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
        let failed = |source| BenchError::Topic { topic: self.topic.as_str().to_owned(), source };
        runtime::run_here(calls).map_err(BenchError::Executor)?.map_err(failed)
    }
}

/// A client of one broker. It asks for no route, so what stands here as nameserver is never called.
pub(crate) fn client(broker: &str) -> Client {
    Client::new(vec![broker.to_owned()])
}
