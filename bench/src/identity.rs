//! Who listens at the address of the target: a broker, with its version and configuration, or something else that is told
//! apart before anything is measured or written.

use std::net::SocketAddr;

use client::{Client, ClientError};
use remoting::body::cluster::MASTER_ID;
use remoting::code::ResponseCode;

use crate::error::BenchError;
use crate::wire::Link;

/// What a broker says it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) version: Option<String>,
    /// Its configuration as it tells it, a `key=value` line each.
    pub(crate) configuration: Option<String>,
}

/// What was found at an address that is connected to.
enum Found {
    Broker(Identity),
    /// With the addresses of the brokers that it knows, each with its name.
    Nameserver(Vec<(String, String)>),
    Silence(ClientError),
}

impl Identity {
    /// Asks a broker, which may refuse to tell.
    ///
    /// # Errors
    /// When nobody listens there, or somebody who is no broker.
    pub(crate) fn of(broker: SocketAddr) -> Result<Identity, BenchError> {
        Link::open(broker)?.close();
        let address = broker.to_string();
        let asked = address.clone();
        match runtime::run_here(async move { ask(&asked).await }).map_err(BenchError::Executor)? {
            Found::Broker(identity) => Ok(identity),
            Found::Nameserver(brokers) => Err(BenchError::Nameserver { address, hint: hint(&brokers) }),
            Found::Silence(source) => Err(BenchError::NoBroker { address, source }),
        }
    }

    /// The value of a key of its configuration.
    pub(crate) fn setting(&self, key: &str) -> Option<&str> {
        let lines = self.configuration.as_deref()?.lines();
        lines.filter_map(|line| line.split_once('=')).find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Equal for equal configurations, in whatever order their lines come.
    pub(crate) fn configuration_hash(&self) -> Option<String> {
        let mut lines: Vec<&str> = self.configuration.as_deref()?.lines().collect();
        lines.sort_unstable();
        Some(format!("{:016x}", base::stable_hash(&lines.join("\n"))))
    }
}

async fn ask(address: &str) -> Found {
    let client = client(address);
    let status = match client.broker_status(address).await {
        Ok(status) => Some(status),
        Err(error) if error.is_silence() => return Found::Silence(error),
        Err(error) if error.refusal() == Some(ResponseCode::REQUEST_CODE_NOT_SUPPORTED) => {
            // A nameserver knows no such request, and knows its brokers.
            match client.cluster_info().await {
                Ok(info) => {
                    let masters = info.broker_addr_table.values().filter_map(|broker| {
                        let address = broker.broker_addrs.get(&MASTER_ID)?;
                        Some((address.as_str().to_owned(), broker.broker_name.as_str().to_owned()))
                    });
                    return Found::Nameserver(masters.collect());
                }
                Err(_) => None,
            }
        }
        Err(_) => None,
    };
    let version = status.and_then(|status| status.table.get("brokerVersionDesc").map(|text| text.as_str().to_owned()));
    Found::Broker(Identity { version, configuration: client.broker_config(address).await.ok() })
}

fn hint(brokers: &[(String, String)]) -> String {
    match brokers {
        [] => "it knows no broker yet; start one, then give its address".to_owned(),
        brokers => {
            let told: Vec<String> =
                brokers.iter().map(|(address, name)| format!("--broker {address} for {name}")).collect();
            told.join(", ")
        }
    }
}

/// A client of one broker. It asks for no route, so what stands here as nameserver is asked only when it may be one.
pub(crate) fn client(broker: &str) -> Client {
    Client::new(vec![broker.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nameserver_names_its_brokers() {
        assert!(hint(&[]).contains("start one"));
        let brokers = [("h:1", "a"), ("h:2", "b")].map(|(address, name)| (address.to_owned(), name.to_owned()));
        assert_eq!(hint(&brokers), "--broker h:1 for a, --broker h:2 for b");
    }

    #[test]
    fn configurations_are_equal_in_any_order() {
        let of = |text: &str| Identity { version: None, configuration: Some(text.to_owned()) };
        assert_eq!(of("a=1\nb=2").configuration_hash(), of("b=2\na=1").configuration_hash());
        assert_eq!(of("a=1\nb=x=y").setting("b"), Some("x=y"));
    }
}
