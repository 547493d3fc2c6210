//! Which brokers are alive: each shows itself by registrations and heartbeats, over one connection.
//!
//! A broker is gone when its connection ends or when it was silent for too long. A registration on a new connection
//! replaces the old one, whose end then means nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::BrokerAddress;

/// A broker that names no time of its own may be silent for so long.
pub(crate) const SILENT_TIME_MAX: Duration = Duration::from_secs(120);

struct Entry<C> {
    seen: Instant,
    silent_time_max: Duration,
    connection: C,
}

/// Brokers by address. `C` names a connection.
pub(crate) struct Liveness<C> {
    entries: BTreeMap<BrokerAddress, Entry<C>>,
}

impl<C: Copy + Eq> Liveness<C> {
    pub(crate) fn new() -> Liveness<C> {
        Liveness { entries: BTreeMap::new() }
    }

    /// A broker registered on `connection`. `silent_ms_max` is what it asks for; no or a senseless number means
    /// [`SILENT_TIME_MAX`].
    pub(crate) fn registered(
        &mut self,
        broker: BrokerAddress,
        connection: C,
        silent_ms_max: Option<i64>,
        now: Instant,
    ) {
        let asked = silent_ms_max.and_then(|span| u64::try_from(span).ok()).filter(|span| *span > 0);
        let silent_time_max = asked.map_or(SILENT_TIME_MAX, Duration::from_millis);
        self.entries.insert(broker, Entry { seen: now, silent_time_max, connection });
    }

    /// A known broker showed itself.
    pub(crate) fn seen(&mut self, broker: &BrokerAddress, now: Instant) {
        if let Some(entry) = self.entries.get_mut(broker) {
            entry.seen = now;
        }
    }

    pub(crate) fn forget(&mut self, broker: &BrokerAddress) {
        self.entries.remove(broker);
    }

    /// Takes out the brokers whose latest registration came over `connection`.
    pub(crate) fn closed(&mut self, connection: C) -> Vec<BrokerAddress> {
        self.entries.extract_if(.., |_, entry| entry.connection == connection).map(|(broker, _)| broker).collect()
    }

    /// Takes out the brokers that were silent for too long, each with its connection.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<(BrokerAddress, C)> {
        let is_late = |entry: &Entry<C>| now.saturating_duration_since(entry.seen) > entry.silent_time_max;
        let late = self.entries.extract_if(.., |_, entry| is_late(entry));
        late.map(|(broker, entry)| (broker, entry.connection)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(address: &'static str) -> BrokerAddress {
        BrokerAddress { cluster: "c".into(), address: address.into() }
    }

    #[test]
    fn silence_ends_a_broker_after_its_own_time() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut liveness = Liveness::new();
        liveness.registered(broker("a:1"), 1, None, start);
        liveness.registered(broker("b:1"), 2, Some(3000), start);
        liveness.registered(broker("c:1"), 3, Some(-1), start);
        assert_eq!(liveness.expired(at(3000)), []);
        assert_eq!(liveness.expired(at(3001)), [(broker("b:1"), 2)]);
        liveness.seen(&broker("a:1"), at(100_000));
        liveness.seen(&broker("b:1"), at(100_000));
        assert_eq!(liveness.expired(at(120_001)), [(broker("c:1"), 3)], "a silent one that was forgotten stays so");
        assert_eq!(liveness.expired(at(220_001)), [(broker("a:1"), 1)]);
    }

    #[test]
    fn only_the_latest_connection_counts() {
        let now = Instant::now();
        let mut liveness = Liveness::new();
        liveness.registered(broker("a:1"), 1, None, now);
        liveness.registered(broker("b:1"), 1, None, now);
        liveness.registered(broker("c:1"), 1, None, now);
        liveness.registered(broker("a:1"), 2, None, now);
        liveness.forget(&broker("c:1"));
        assert_eq!(liveness.closed(1), [broker("b:1")]);
        assert_eq!(liveness.closed(1), []);
        assert_eq!(liveness.closed(2), [broker("a:1")]);
    }
}
