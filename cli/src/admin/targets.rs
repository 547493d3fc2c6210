//! The brokers that a command is about: one address, or all masters of a cluster.

use clap::Args;
use client::Client;
use remoting::text::Text;

use crate::failure::{Exit, Failure};

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Targets {
    /// One broker, host:port
    #[arg(short = 'b', long = "brokerAddr", value_name = "ADDR")]
    broker_address: Option<String>,
    /// All masters of a cluster
    #[arg(short = 'c', long = "clusterName", value_name = "CLUSTER")]
    cluster: Option<String>,
}

impl Targets {
    pub(super) async fn addresses(&self, client: &Client) -> Result<Vec<Text>, Failure> {
        match (&self.broker_address, &self.cluster) {
            (Some(address), _) => Ok(vec![Text::from(address)]),
            (None, Some(cluster)) => masters_of(client, cluster).await,
            (None, None) => unreachable!("the group of arguments demands one of them"),
        }
    }
}

/// The addresses of a cluster's masters.
pub(super) async fn masters_of(client: &Client, cluster: &str) -> Result<Vec<Text>, Failure> {
    let masters = client.masters_of_cluster(cluster).await?;
    if masters.is_empty() {
        let cause = format!("the nameserver knows no master of a cluster named {cluster}");
        return Err(Failure::new(Exit::Failure, cause).with_fix("clusterList shows the clusters there are"));
    }
    Ok(masters.into_iter().map(|(_, address)| address).collect())
}
