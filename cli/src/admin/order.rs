//! The order configuration of a topic: its queues by broker, which nameservers tell producers of ordered messages.

use std::collections::BTreeMap;

use client::Client;

use super::Tally;
use crate::failure::Failure;

/// Where nameservers keep it.
const NAMESPACE: &str = "ORDER_TOPIC_CONFIG";

/// Tells every nameserver how many queues brokers have of a topic. What is known of other brokers stays.
pub(super) async fn put(client: &Client, topic: &str, queues: &BTreeMap<String, i32>) -> Result<(), Failure> {
    let mut tally = Tally::default();
    for nameserver in client.nameservers().to_vec() {
        let Some(known) = tally.wait(client.kv_value(&nameserver, NAMESPACE, topic)).await else { continue };
        let value = merged(known.as_deref().unwrap_or_default(), queues);
        tally.wait(client.put_kv_value(&nameserver, NAMESPACE, topic, &value)).await;
    }
    tally.end()
}

/// `broker:queues` joined by semicolons, as clients read it.
fn merged(known: &str, queues: &BTreeMap<String, i32>) -> String {
    let entries = known.split(';').filter_map(|entry| entry.split_once(':'));
    let mut all: BTreeMap<String, String> = entries.map(|(name, count)| (name.to_owned(), count.to_owned())).collect();
    all.extend(queues.iter().map(|(name, count)| (name.clone(), count.to_string())));
    all.iter().map(|(name, count)| format!("{name}:{count}")).collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_other_brokers_stays() {
        let queues = BTreeMap::from([("b".to_owned(), 8)]);
        for (known, value) in [("", "b:8"), ("b:4", "b:8"), ("a:2;b:4;c:1", "a:2;b:8;c:1"), ("odd", "b:8")] {
            assert_eq!(merged(known, &queues), value, "{known}");
        }
    }
}
