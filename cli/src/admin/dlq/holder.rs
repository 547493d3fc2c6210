//! The right to send a group's dead letters once more, which one command has at a time: locks of their queues.

use std::time::{Duration, Instant};

use client::Client;
use remoting::body::heartbeat::LockBatch;
use remoting::text::Text;
use runtime::clock;

use super::super::consume;
use crate::failure::{Exit, Failure};

/// Brokers keep a lock for a minute.
const RENEW_AFTER: Duration = Duration::from_secs(15);

/// Locks on every broker that has dead letters of the group.
pub(super) struct Holder {
    client: Client,
    /// By the brokers' addresses.
    locks: Vec<(Text, LockBatch)>,
    renewed: Instant,
}

impl Holder {
    pub(super) async fn take(client: &Client, topic: &str) -> Result<Holder, Failure> {
        let route = client.route(topic).await?;
        let id = format!("{}@{}", runtime::process::host_name(), std::process::id());
        let lock = |broker: &Text, address: &Text| {
            let queues = route.queues_to_read(topic).into_iter().filter(|queue| queue.broker_name == *broker);
            let batch = LockBatch {
                client_id: Text::from(&id),
                consumer_group: Text::from_static(consume::GROUP_DEFAULT),
                mq_set: queues.collect(),
                only_this_broker: true,
            };
            (address.clone(), batch)
        };
        let locks = route.brokers().map(|(broker, address)| lock(broker, address)).collect();
        let mut holder = Holder { client: client.clone(), locks, renewed: clock::instant() };
        let taken = holder.lock().await;
        if taken.is_err() {
            holder.give_back().await;
        }
        taken.map(|()| holder)
    }

    /// Makes sure that the locks hold while the next letter is sent.
    pub(super) async fn renew(&mut self) -> Result<(), Failure> {
        if clock::instant().saturating_duration_since(self.renewed) < RENEW_AFTER {
            return Ok(());
        }
        self.lock().await
    }

    async fn lock(&mut self) -> Result<(), Failure> {
        let asked = clock::instant();
        for (address, batch) in &self.locks {
            if self.client.lock_queues(address, batch).await? != batch.mq_set {
                return Err(Failure::new(Exit::Failure, "these dead letters are being sent by another command")
                    .with_fix("wait for its end; if it was killed, its lock ends within a minute"));
            }
        }
        self.renewed = asked;
        Ok(())
    }

    /// A lock that cannot be given back ends by itself.
    pub(super) async fn give_back(&self) {
        for (address, batch) in &self.locks {
            if let Err(error) = self.client.unlock_queues(address, batch).await {
                Failure::from(error).with_fix("the lock of these dead letters ends within a minute").print();
            }
        }
    }
}
