//! What crosses between cores.

use std::rc::Rc;

use runtime::net::Accepted;
use transport::{ConnectionId, Outgoing};

use crate::call::Call;
use crate::core::Core;

/// A step of another core's work.
pub(crate) type Step = Box<dyn FnOnce(&Rc<Core>) + Send>;

/// One thing sent from core to core.
pub(crate) enum Parcel {
    /// A connection that another core accepted.
    Connection(Accepted),
    /// A request for an owner on the receiving core; its answer comes back as `Reply`.
    Call(Call),
    /// The answer of a request that this core's connection asked, or only the end of a one-way request.
    Reply { connection: ConnectionId, bytes: usize, outgoing: Option<Outgoing> },
    /// A request of ours to a client of the receiving core, not to be answered.
    Send { connection: ConnectionId, outgoing: Outgoing },
    /// A step to be done on the receiving core.
    Run(Step),
}
