//! What the clients of this core's connections registered as, so that the groups' owners hear of a broken connection.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use remoting::text::Text;
use transport::ConnectionId;

/// Groups that a connection registered for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) consumer_groups: BTreeSet<Text>,
    pub(crate) producer_groups: BTreeSet<Text>,
    /// The ids under which it waits for replies; one, unless it speaks for several clients.
    pub(crate) reply_clients: BTreeSet<Text>,
}

#[derive(Default)]
pub(crate) struct Sessions {
    sessions: RefCell<HashMap<ConnectionId, Session>>,
}

impl Sessions {
    /// A connection sends heartbeats for these groups.
    pub(crate) fn note<'a>(
        &self,
        connection: ConnectionId,
        consumer_groups: impl Iterator<Item = &'a Text>,
        producer_groups: impl Iterator<Item = &'a Text>,
    ) {
        let mut sessions = self.sessions.borrow_mut();
        let session = sessions.entry(connection).or_default();
        session.consumer_groups.extend(consumer_groups.cloned());
        session.producer_groups.extend(producer_groups.cloned());
    }

    /// A connection's client may wait for replies; false when that was noted before.
    pub(super) fn note_reply_client(&self, connection: ConnectionId, client_id: &Text) -> bool {
        let mut sessions = self.sessions.borrow_mut();
        let Some(session) = sessions.get_mut(&connection) else { return false };
        !session.reply_clients.contains(client_id) && session.reply_clients.insert(client_id.detached())
    }

    /// A producer group of a connection is gone. Returns the ids that wait for replies no more: all, with the last group.
    pub(super) fn forget_producer(&self, connection: ConnectionId, group: &Text) -> BTreeSet<Text> {
        let mut sessions = self.sessions.borrow_mut();
        let Some(session) = sessions.get_mut(&connection) else { return BTreeSet::new() };
        session.producer_groups.remove(group);
        if session.producer_groups.is_empty() { std::mem::take(&mut session.reply_clients) } else { BTreeSet::new() }
    }

    /// Whether the connection is known and was not closed since.
    pub(super) fn is_open(&self, connection: ConnectionId) -> bool {
        self.sessions.borrow().contains_key(&connection)
    }

    pub(super) fn close(&self, connection: ConnectionId) -> Option<Session> {
        self.sessions.borrow_mut().remove(&connection)
    }

    /// Connections with a session, in their order.
    pub(super) fn connections(&self) -> Vec<ConnectionId> {
        let mut connections: Vec<ConnectionId> = self.sessions.borrow().keys().copied().collect();
        connections.sort_unstable();
        connections
    }
}
