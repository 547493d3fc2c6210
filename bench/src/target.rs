//! What is measured: one broker address, a topic of the run's own, perhaps a process.

use std::net::SocketAddr;

use client::{Client, ClientError, TopicSettings};
use remoting::body::route::permission;
use remoting::code::RequestCode;
use remoting::command::{Command, HeaderEncoding};
use remoting::header::queue_offset::{GetMaxOffset, OffsetResponse, QueueRequest};
use remoting::text::Text;

use crate::arguments::{TargetArgs, Wire};
use crate::error::BenchError;
use crate::machine;

pub(crate) struct Target {
    pub(crate) broker: SocketAddr,
    pub(crate) topic: Text,
    pub(crate) queues: u16,
    pub(crate) server_pid: Option<u32>,
    pub(crate) encoding: HeaderEncoding,
    /// The offset that the next message of each queue will have; empty when offsets shall not be checked.
    pub(crate) starts: Vec<i64>,
    /// Tells this run from others.
    pub(crate) run: u64,
    client: Client,
}

impl Target {
    /// Makes the topic and asks where its queues end.
    pub(crate) async fn prepare(args: &TargetArgs) -> Result<Target, BenchError> {
        if let Some(pid) = args.server_pid {
            machine::cpu_us(&pid.to_string()).map_err(|source| BenchError::Server { pid, source })?;
        }
        let run = runtime::clock::now_ms().0 << 20 | u64::from(std::process::id() & 0xf_ffff);
        let topic = args.topic.clone().unwrap_or_else(|| format!("bench_{run:x}"));
        let mut target = Target {
            broker: args.broker,
            topic: Text::from(topic.clone()),
            queues: args.queues,
            server_pid: args.server_pid,
            encoding: match args.wire {
                Wire::Json => HeaderEncoding::Json,
                Wire::Compact => HeaderEncoding::Compact,
            },
            starts: Vec::new(),
            run,
            // No route is asked for, so what stands here as nameserver is never called.
            client: Client::new(vec![args.broker.to_string()]),
        };
        if !args.no_create {
            target.make_topic().await.map_err(|source| BenchError::Topic { topic: topic.clone(), source })?;
        }
        if !args.no_offset_check {
            target.starts = target.ends().await?;
        }
        Ok(target)
    }

    pub(crate) async fn make_topic(&self) -> Result<(), ClientError> {
        let settings = TopicSettings {
            topic: self.topic.clone(),
            read_queue_nums: self.queues.into(),
            write_queue_nums: self.queues.into(),
            perm: permission::READ_WRITE,
            order: false,
            topic_sys_flag: 0,
            attributes: Text::default(),
        };
        self.client.update_topic(&self.broker.to_string(), &settings).await
    }

    /// The first offset of each queue.
    pub(crate) async fn begins(&self) -> Result<Vec<i64>, BenchError> {
        let request = |queue_id| {
            let header = QueueRequest { topic: self.topic.clone(), queue_id };
            Command::request(RequestCode::GET_MIN_OFFSET, header.to_fields())
        };
        self.offsets(request).await
    }

    /// One behind the last offset of each queue.
    pub(crate) async fn ends(&self) -> Result<Vec<i64>, BenchError> {
        let request = |queue_id| {
            let header = GetMaxOffset { topic: self.topic.clone(), queue_id, committed: true };
            Command::request(RequestCode::GET_MAX_OFFSET, header.to_fields())
        };
        self.offsets(request).await
    }

    async fn offsets(&self, request: impl Fn(i32) -> Command) -> Result<Vec<i64>, BenchError> {
        let address = self.broker.to_string();
        let failed = |source| BenchError::Topic { topic: self.topic.as_str().to_owned(), source };
        let mut offsets = Vec::new();
        for queue_id in 0..self.queues {
            let command = request(queue_id.into());
            let code = RequestCode(command.code);
            let answer = self.client.call_broker(&address, command).await.map_err(failed)?;
            let header = OffsetResponse::decode(&answer.fields).map_err(|error| {
                failed(ClientError::Unreadable { address: address.clone(), request: code, what: error.to_string() })
            })?;
            offsets.push(header.offset);
        }
        Ok(offsets)
    }
}
