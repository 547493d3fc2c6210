//! One request on its way: what came, who waits for the answer, and what the answer is.

use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use remoting::code::ResponseCode;
use remoting::command::Command;
use remoting::fields::{FieldError, Fields};
use remoting::text::Text;
use runtime::net::Part;
use transport::{ConnectionId, Outgoing, Trip};

use crate::core::Core;
use crate::parcel::{Parcel, Reply};

/// A request as it arrived, with where it came from. May cross to another core once.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) connection: ConnectionId,
    pub(crate) peer: SocketAddr,
}

/// A request together with the duty to answer it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) request: Request,
    pub(crate) responder: Responder,
}

/// What a processor gives back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: ResponseCode,
    pub(crate) remark: Option<Text>,
    pub(crate) fields: Fields,
    pub(crate) body: Bytes,
    pub(crate) parts: Vec<Part>,
}

impl Answer {
    pub(crate) fn success() -> Answer {
        Answer::of(ResponseCode::SUCCESS)
    }

    pub(crate) fn of(code: ResponseCode) -> Answer {
        Answer { code, remark: None, fields: Fields::new(), body: Bytes::new(), parts: Vec::new() }
    }

    pub(crate) fn with_fields(self, fields: Fields) -> Answer {
        Answer { fields, ..self }
    }

    pub(crate) fn with_body(self, body: impl Into<Bytes>) -> Answer {
        Answer { body: body.into(), ..self }
    }

    pub(crate) fn with_remark(self, remark: impl Into<Text>) -> Answer {
        Answer { remark: Some(remark.into()), ..self }
    }
}

/// Why a request is not done: the client's fault or our state, never our fault. The remark says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: ResponseCode,
    pub(crate) remark: Text,
    pub(crate) fields: Fields,
}

impl Refusal {
    pub(crate) fn new(code: ResponseCode, remark: impl Into<Text>) -> Refusal {
        Refusal { code, remark: remark.into(), fields: Fields::new() }
    }

    pub(crate) fn with_fields(self, fields: Fields) -> Refusal {
        Refusal { fields, ..self }
    }
}

impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Refusal {
        Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string())
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        Answer::of(refusal.code).with_remark(refusal.remark).with_fields(refusal.fields)
    }
}

/// The outcome of a processor.
pub(crate) type Outcome = Result<Answer, Refusal>;

/// The duty to answer one request, exactly once. Dropping it unanswered is a fault of ours and ends the process.
#[derive(Debug)]
pub(crate) struct Responder {
    connection: ConnectionId,
    opaque: i32,
    oneway: bool,
    /// Bytes of the connection's budget that the request holds.
    bytes: usize,
    answered: bool,
    /// Of a request whose stages are measured.
    trip: Option<Trip>,
}

impl Responder {
    pub(crate) fn new(connection: ConnectionId, command: &Command, bytes: usize, trip: Option<Trip>) -> Responder {
        Responder { connection, opaque: command.opaque, oneway: command.is_oneway(), bytes, answered: false, trip }
    }

    /// The times of the request, if its stages are measured.
    pub(crate) fn trip(&mut self) -> &mut Option<Trip> {
        &mut self.trip
    }

    /// Sends the answer to whoever asked, wherever the connection lives. A one-way request gets none.
    pub(crate) fn answer(mut self, core: &Rc<Core>, outcome: Outcome) {
        self.answered = true;
        let outgoing = (!self.oneway).then(|| {
            let answer = outcome.unwrap_or_else(Answer::from);
            let mut command = Command::reply(self.opaque, answer.code);
            command.remark = answer.remark;
            command.fields = answer.fields;
            command.body = answer.body;
            Outgoing::new(&command, answer.parts)
        });
        self.deliver(core, outgoing);
    }

    /// As [`Responder::answer`] with a reply that was written for this request.
    pub(crate) fn answer_frame(mut self, core: &Rc<Core>, frame: Vec<u8>) {
        self.answered = true;
        let outgoing = (!self.oneway).then(|| Outgoing::frame(frame));
        self.deliver(core, outgoing);
    }

    fn deliver(&self, core: &Rc<Core>, outgoing: Option<Outgoing>) {
        if let Some(trip) = &self.trip {
            core.stages.processed(trip);
        }
        let reply = Reply { connection: self.connection, bytes: self.bytes, outgoing, trip: self.trip };
        if self.connection.core == core.id {
            core.deliver(reply);
        } else {
            core.mesh.send(self.connection.core, Parcel::Reply(reply));
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        assert!(
            self.answered || crate::core::is_stopping(),
            "request {} of connection {} was dropped without an answer",
            self.opaque,
            self.connection
        );
    }
}
