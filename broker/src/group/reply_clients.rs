//! Where clients wait for replies to their requests: client ids and their connections. Pure.
//!
//! A client id has an owner, the core of its hash, so that a reply finds its client with one question.

use std::cell::RefCell;
use std::collections::HashMap;

use remoting::text::Text;
use transport::ConnectionId;

#[derive(Default)]
pub(crate) struct ReplyClients {
    /// Of one id there are several while a client connects anew, and where ids are not unique. The newest is last.
    connections: RefCell<HashMap<Text, Vec<ConnectionId>>>,
}

impl ReplyClients {
    pub(super) fn register(&self, client_id: Text, connection: ConnectionId) {
        let mut clients = self.connections.borrow_mut();
        let connections = clients.entry(client_id).or_default();
        connections.retain(|known| *known != connection);
        connections.push(connection);
    }

    /// The client does not wait on this connection any more.
    pub(super) fn unregister(&self, client_id: &str, connection: ConnectionId) {
        let mut clients = self.connections.borrow_mut();
        let Some(connections) = clients.get_mut(client_id) else { return };
        connections.retain(|known| *known != connection);
        if connections.is_empty() {
            clients.remove(client_id);
        }
    }

    /// The newest first.
    pub(crate) fn connections_of(&self, client_id: &str) -> Vec<ConnectionId> {
        let clients = self.connections.borrow();
        clients.get(client_id).into_iter().flatten().rev().copied().collect()
    }
}
