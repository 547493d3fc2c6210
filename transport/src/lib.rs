//! Connections: frames of the wire protocol over sockets, for servers and for clients.
//!
//! A connection belongs to the core that accepted or opened it. It reads frames, hands requests to its [`Service`],
//! gives responses to whoever called, and sends what it is given in batches. It knows no request code.

mod connection;
mod limits;
mod outbox;
mod outgoing;
mod server;
mod trip;

pub use connection::{CallError, Connection, ConnectionId, Service, connect};
pub use limits::Limits;
pub use outgoing::Outgoing;
pub use server::Server;
pub use trip::{Stage, Trip, UNIT_NS};
