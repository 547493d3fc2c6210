//! Where clients wait for replies to their requests: client ids and their connections. Pure.
//!
//! A client id has an owner, the core of its hash, so that a reply finds its client with one question.

use std::cell::RefCell;
use std::collections::HashMap;

use remoting::text::Text;
use transport::ConnectionId;

#[derive(Default)]
pub(crate) struct ReplyClients {
    connections: RefCell<HashMap<Text, ConnectionId>>,
}

impl ReplyClients {
    /// A client is on this connection; one of the same id on another is not found any more.
    pub(super) fn register(&self, client_id: Text, connection: ConnectionId) {
        self.connections.borrow_mut().insert(client_id, connection);
    }

    pub(super) fn connection_closed(&self, client_id: &str, connection: ConnectionId) {
        let mut connections = self.connections.borrow_mut();
        if connections.get(client_id) == Some(&connection) {
            connections.remove(client_id);
        }
    }

    pub(crate) fn connection_of(&self, client_id: &str) -> Option<ConnectionId> {
        self.connections.borrow().get(client_id).copied()
    }
}
