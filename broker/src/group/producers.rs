//! The producers of one group: clients on connections, kept by their heartbeats. Pure.

use std::collections::BTreeMap;

use base::Millis;
use remoting::text::Text;

use super::members::Client;

#[derive(Clone, Debug)]
pub(crate) struct Producer {
    pub(crate) client: Client,
    pub(crate) heartbeat_at: Millis,
}

/// The producers of a group. `C` names a connection.
#[derive(Debug)]
pub(crate) struct Producers<C> {
    producers: BTreeMap<(Text, C), Producer>,
}

impl<C> Default for Producers<C> {
    fn default() -> Producers<C> {
        Producers { producers: BTreeMap::new() }
    }
}

impl<C: Copy + Ord> Producers<C> {
    pub(crate) fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// Producers in the order of their client ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Producer> {
        self.producers.values()
    }

    /// The connection of one of them; another one each turn.
    pub(crate) fn connection_in_turn(&self, turn: usize) -> Option<C> {
        let index = turn.checked_rem(self.producers.len())?;
        self.producers.keys().nth(index).map(|(_, connection)| *connection)
    }

    pub(crate) fn register(&mut self, connection: C, client: Client, now: Millis) {
        self.producers.insert((client.id.clone(), connection), Producer { client, heartbeat_at: now });
    }

    pub(crate) fn unregister(&mut self, client_id: &Text, connection: C) {
        self.producers.remove(&(client_id.clone(), connection));
    }

    pub(crate) fn connection_closed(&mut self, connection: C) {
        self.producers.retain(|(_, at), _| *at != connection);
    }

    /// Removes producers whose last heartbeat is older than `span_ms`.
    pub(crate) fn expire(&mut self, now: Millis, span_ms: u64) {
        self.producers.retain(|_, producer| now.0.saturating_sub(producer.heartbeat_at.0) <= span_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remoting::command::Language;

    fn client(id: &str) -> Client {
        let address = "127.0.0.1:1".parse().expect("an address");
        Client { id: Text::from(id), address, language: Language::Go, version: 1 }
    }

    #[test]
    fn producers_come_and_go() {
        let mut producers = Producers::default();
        producers.register(1, client("a"), Millis(0));
        producers.register(2, client("a"), Millis(5));
        producers.register(3, client("b"), Millis(9));
        producers.register(1, client("a"), Millis(9));
        assert_eq!(producers.iter().count(), 3);
        assert_eq!((2..6).map(|turn| producers.connection_in_turn(turn)).collect::<Vec<_>>(), [3, 1, 2, 3].map(Some));
        producers.expire(Millis(16), 10);
        assert_eq!(producers.iter().map(|producer| producer.heartbeat_at.0).collect::<Vec<_>>(), [9, 9]);
        producers.connection_closed(3);
        producers.unregister(&Text::from("a"), 2);
        assert!(!producers.is_empty(), "another connection of the client is none of its business");
        producers.unregister(&Text::from("a"), 1);
        assert!(producers.is_empty() && producers.connection_in_turn(7).is_none());
    }
}
