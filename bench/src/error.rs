//! Why a run did not come about. What goes wrong within a run is part of its figures instead.

use std::io;

use client::ClientError;
use remoting::frame::FrameError;
use thiserror::Error;

use crate::plan::source::PlanError;

#[derive(Debug, Error)]
pub enum BenchError {
    /// Values that do not go together.
    #[error("{what}")]
    Usage { what: String },
    #[error("cannot reach the broker {broker}: {source}")]
    Unreachable { broker: String, source: io::Error },
    #[error("the topic {topic} could not be prepared: {source}")]
    Topic { topic: String, source: ClientError },
    #[error("process {pid}, which shall be the server, cannot be measured: {source}")]
    Server { pid: u32, source: io::Error },
    #[error("all connections to {broker} were lost during the run")]
    ConnectionsLost { broker: String },
    #[error("{broker} does not speak the protocol: {source}")]
    Frame { broker: String, source: FrameError },
    #[error("{broker} did not store a message within {seconds} s; last: {last}")]
    NotReady { broker: String, seconds: u64, last: String },
    #[error("the results in {file} cannot be read: {what}")]
    Results { file: String, what: String },
    #[error("{0}")]
    Plan(PlanError),
    #[error("the payload {path} cannot be read: {source}")]
    Payloads { path: String, source: io::Error },
    #[error("{stored} of {wanted} messages of the backlog were stored{first}")]
    Backlog { stored: u64, wanted: u64, first: String },
    #[error("the folder {path} for the results cannot be made: {source}; name another one with --out")]
    Folder { path: String, source: io::Error },
    #[error("the page {path} cannot be written: {source}")]
    Page { path: String, source: io::Error },
    #[error("no executor: {0}")]
    Executor(io::Error),
    #[error("the result cannot be printed: {0}")]
    Output(io::Error),
}

impl BenchError {
    /// 2: wrong usage; 3: a plan that is none; 4: no connection or no answer; 1: anything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            BenchError::Usage { .. } => 2,
            BenchError::Plan(_) => 3,
            BenchError::Unreachable { .. } | BenchError::ConnectionsLost { .. } | BenchError::NotReady { .. } => 4,
            BenchError::Topic { source, .. } if source.is_silence() => 4,
            _ => 1,
        }
    }
}
