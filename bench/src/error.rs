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
    #[error("{address} is a nameserver; messages are measured at a broker: {hint}")]
    Nameserver { address: String, hint: String },
    #[error(
        "who listens at {address} does not answer as a broker does: {source}; give a broker's own address and port"
    )]
    NoBroker { address: String, source: ClientError },
    /// Asked by a person, before anything was measured of the phase.
    #[error("stopped")]
    Stopped,
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
    #[error("no PNG can be made: {what}")]
    Picture { what: String },
    #[error("{what}")]
    Peer { what: String },
    #[error("no executor: {0}")]
    Executor(io::Error),
    #[error("the result cannot be printed: {0}")]
    Output(io::Error),
}

impl BenchError {
    /// 2: wrong usage; 3: a plan that is none; 4: no connection or no answer; 5: stopped; 1: anything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            BenchError::Usage { .. } | BenchError::Nameserver { .. } => 2,
            BenchError::Plan(_) => 3,
            error if error.is_silence() => 4,
            BenchError::Stopped => 5,
            _ => 1,
        }
    }

    /// Whether nobody answered: no connection, or no answer over it.
    pub(crate) fn is_silence(&self) -> bool {
        match self {
            BenchError::Unreachable { .. }
            | BenchError::NoBroker { .. }
            | BenchError::ConnectionsLost { .. }
            | BenchError::NotReady { .. } => true,
            BenchError::Topic { source, .. } => source.is_silence(),
            _ => false,
        }
    }
}
