//! Why a call came to nothing.

use std::fmt;
use std::time::Duration;

use remoting::FieldError;
use remoting::code::{RequestCode, ResponseCode};
use remoting::json::JsonError;
use thiserror::Error;

/// One address that was tried, and what went wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub address: String,
    pub error: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.address, self.error)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// None of the addresses could be connected to.
    #[error("cannot reach {what}; tried {}", joined(.attempts))]
    Unreachable { what: &'static str, attempts: Vec<Attempt> },
    /// Connected, but the answer did not come in time.
    #[error("{address} did not answer {request} within {} ms", .time_max.as_millis())]
    TimedOut { address: String, request: RequestCode, time_max: Duration },
    /// The connection ended before the answer came.
    #[error("the connection to {address} was closed before {request} was answered")]
    Closed { address: String, request: RequestCode },
    /// The other side answered that it will not.
    #[error("{address} refused {request}: {code}{}", remark_of(.remark))]
    Refused { address: String, request: RequestCode, code: ResponseCode, remark: String },
    /// The answer is not what the protocol says.
    #[error("{address} answered {request} with something unreadable: {what}")]
    Unreadable { address: String, request: RequestCode, what: String },
    /// The nameserver knows no broker that has the topic.
    #[error("no broker has the topic {topic}")]
    NoRoute { topic: String },
    /// The topic is there, but no queue of it can be used so.
    #[error("the topic {topic} has no queue to {purpose}{}", broker_of(.broker))]
    NoQueue { topic: String, purpose: &'static str, broker: Option<String> },
    #[error("the nameserver knows no broker named {broker}")]
    NoBroker { broker: String },
    /// The caller's message cannot be sent as it is.
    #[error("the message cannot be sent: {what}")]
    BadMessage { what: String },
}

impl ClientError {
    /// The code of a refusal.
    pub fn refusal(&self) -> Option<ResponseCode> {
        match self {
            ClientError::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether nobody answered: no connection, or no answer over it.
    pub fn is_silence(&self) -> bool {
        matches!(self, ClientError::Unreachable { .. } | ClientError::TimedOut { .. } | ClientError::Closed { .. })
    }

    pub(crate) fn unreadable_fields(address: &str, request: RequestCode, error: &FieldError) -> ClientError {
        ClientError::Unreadable { address: address.to_owned(), request, what: error.to_string() }
    }

    pub(crate) fn unreadable_body(address: &str, request: RequestCode, error: &JsonError) -> ClientError {
        ClientError::Unreadable { address: address.to_owned(), request, what: error.to_string() }
    }
}

fn joined(attempts: &[Attempt]) -> String {
    attempts.iter().map(Attempt::to_string).collect::<Vec<_>>().join("; ")
}

fn remark_of(remark: &str) -> String {
    if remark.is_empty() { String::new() } else { format!(": {remark}") }
}

fn broker_of(broker: &Option<String>) -> String {
    broker.as_ref().map(|broker| format!(" on {broker}")).unwrap_or_default()
}
