//! A frame to be sent, encoded where it was made.

use remoting::command::Command;
use runtime::net::Part;

use crate::trip::Trip;

/// A body up to this size is copied behind its header: cheaper than a slice of its own in a vectored write.
pub(crate) const COPY_BYTES_MAX: usize = 2048;

/// What leads the frame in one piece, and the rest of its body where it lies. Encoding it here, and not on the core of
/// its connection, leaves that core nothing to do but gather bytes.
#[derive(Debug)]
pub struct Outgoing {
    pub(crate) head: Vec<u8>,
    pub(crate) parts: Vec<Part>,
    /// Of an answer whose way is measured.
    pub(crate) trip: Option<Trip>,
}

impl Outgoing {
    /// A frame whose body is the command's, followed by the parts.
    pub fn new(command: &Command, parts: Vec<Part>) -> Outgoing {
        let body_bytes = command.body.len() + parts.iter().map(Part::bytes).sum::<usize>();
        let mut head = Vec::with_capacity(command.header_bytes_estimate() + command.body.len().min(COPY_BYTES_MAX));
        command.encode_header(body_bytes, &mut head);
        if command.body.len() <= COPY_BYTES_MAX {
            head.extend_from_slice(&command.body);
            return Outgoing { head, parts, trip: None };
        }
        let mut all = Vec::with_capacity(1 + parts.len());
        all.push(Part::Bytes(command.body.clone()));
        all.extend(parts);
        Outgoing { head, parts: all, trip: None }
    }

    /// A whole frame that is there already.
    pub fn frame(head: Vec<u8>) -> Outgoing {
        Outgoing { head, parts: Vec::new(), trip: None }
    }

    /// The same, whose [`crate::Service`] is told when the socket has taken it.
    pub fn with_trip(self, trip: Option<Trip>) -> Outgoing {
        Outgoing { trip, ..self }
    }

    /// The piece that leads the frame.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    pub(crate) fn bytes(&self) -> usize {
        self.head.len() + self.parts.iter().map(Part::bytes).sum::<usize>()
    }
}

impl From<Command> for Outgoing {
    fn from(command: Command) -> Outgoing {
        Outgoing::new(&command, Vec::new())
    }
}
