//! What crosses between cores.

use std::rc::Rc;

use runtime::buffer::prefetch;
use runtime::net::Accepted;
use transport::{ConnectionId, Outgoing, Trip};

use crate::call::Call;
use crate::core::Core;

/// A step of another core's work.
pub(crate) type Step = Box<dyn FnOnce(&Rc<Core>) + Send>;

/// The answer of a request that a connection of the receiving core asked.
pub(crate) struct Reply {
    pub(crate) connection: ConnectionId,
    /// Of the connection's budget, to be given back.
    pub(crate) bytes: usize,
    /// `None`: only the end of a one-way request.
    pub(crate) outgoing: Option<Outgoing>,
    /// Of a request whose stages are measured.
    pub(crate) trip: Option<Trip>,
}

impl Parcel {
    /// Has its memory brought over from the other core before it is read, all of it at once and not line by line.
    pub(crate) fn prefetch(&self) {
        match self {
            Parcel::Call(call) => {
                let fields = &call.request.command.fields;
                prefetch(fields.places());
                fields.bytes().into_iter().for_each(prefetch);
            }
            Parcel::Reply(Reply { outgoing: Some(outgoing), .. }) => prefetch(outgoing.head()),
            _ => {}
        }
    }
}

/// One thing sent from core to core.
pub(crate) enum Parcel {
    /// A connection that another core accepted.
    Connection(Accepted),
    /// A request for an owner on the receiving core; its answer comes back as `Reply`.
    Call(Call),
    Reply(Reply),
    /// A request of ours to a client of the receiving core, not to be answered.
    Send {
        connection: ConnectionId,
        outgoing: Outgoing,
    },
    /// A step to be done on the receiving core.
    Run(Step),
}
