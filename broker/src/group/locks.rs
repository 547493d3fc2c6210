//! Queue locks of one group: who may consume a queue in order. Pure.
//!
//! A lock has one holder, a client id, and is a lease: it ends a minute after its holder asked for it last. It outlives
//! its holder's connection, since a client that lost only its connection goes on consuming what it holds.

use std::collections::{BTreeMap, BTreeSet};

use base::Millis;
use remoting::body::MessageQueue;
use remoting::text::Text;

/// A lock that was not renewed for longer is free. Clients renew every 20 s and trust a lock for 30 s.
pub(crate) const LEASE_MS: u64 = 60_000;

#[derive(Clone, Debug)]
struct Lease {
    holder: Text,
    renewed_at: Millis,
}

impl Lease {
    fn is_over(&self, now: Millis) -> bool {
        now.0.saturating_sub(self.renewed_at.0) > LEASE_MS
    }
}

#[derive(Debug, Default)]
pub(crate) struct Locks {
    leases: BTreeMap<MessageQueue, Lease>,
}

impl Locks {
    pub(crate) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Whether any queue is locked now.
    pub(crate) fn has_lease(&self, now: Millis) -> bool {
        self.leases.values().any(|lease| !lease.is_over(now))
    }

    /// Locks for `client` what is free or its own already; returns exactly the queues that are its own now.
    pub(crate) fn lock(
        &mut self,
        client: &Text,
        queues: &BTreeSet<MessageQueue>,
        now: Millis,
    ) -> BTreeSet<MessageQueue> {
        let mut locked = BTreeSet::new();
        for queue in queues {
            let taken = self.leases.get(queue).is_some_and(|lease| lease.holder != *client && !lease.is_over(now));
            if !taken {
                self.leases.insert(queue.clone(), Lease { holder: client.clone(), renewed_at: now });
                locked.insert(queue.clone());
            }
        }
        locked
    }

    /// Frees what `client` holds; what others hold stays theirs.
    pub(crate) fn unlock(&mut self, client: &Text, queues: &BTreeSet<MessageQueue>) {
        self.leases.retain(|queue, lease| lease.holder != *client || !queues.contains(queue));
    }

    /// Forgets leases that are over.
    pub(crate) fn expire(&mut self, now: Millis) {
        self.leases.retain(|_, lease| !lease.is_over(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(ids: &[i32]) -> BTreeSet<MessageQueue> {
        let queue = |id: &i32| MessageQueue { broker_name: Text::from("b"), queue_id: *id, topic: Text::from("T") };
        ids.iter().map(queue).collect()
    }

    #[test]
    fn a_queue_has_one_holder_until_its_lease_ends() {
        let (a, b) = (Text::from("a"), Text::from("b"));
        let mut locks = Locks::default();
        assert_eq!(locks.lock(&a, &queues(&[0, 1]), Millis(0)), queues(&[0, 1]));
        assert_eq!(locks.lock(&b, &queues(&[1, 2]), Millis(1)), queues(&[2]), "only what is free");
        assert_eq!(locks.lock(&a, &queues(&[0]), Millis(50_000)), queues(&[0]), "renewed");
        assert_eq!(locks.lock(&b, &queues(&[0, 1]), Millis(60_000)), queues(&[]), "the lease ends after 60 s");
        assert_eq!(locks.lock(&b, &queues(&[0, 1]), Millis(60_001)), queues(&[1]), "not renewed: free");
        locks.unlock(&b, &queues(&[0]));
        assert_eq!(locks.lock(&b, &queues(&[0]), Millis(60_002)), queues(&[]), "nobody frees another's");
        locks.unlock(&a, &queues(&[0]));
        assert_eq!(locks.lock(&b, &queues(&[0]), Millis(60_003)), queues(&[0]));
        assert!(locks.has_lease(Millis(120_003)) && !locks.has_lease(Millis(120_004)));
        locks.expire(Millis(200_000));
        assert!(locks.is_empty());
    }
}
