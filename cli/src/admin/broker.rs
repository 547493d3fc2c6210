//! Configurations of brokers and nameservers, and brokers' states.

use clap::Args;

use super::targets::Targets;
use super::{Session, Tally};
use crate::failure::Failure;
use crate::output::{PairForm, config_pairs};

#[derive(Debug, Args)]
pub(super) struct GetBrokerConfig {
    #[command(flatten)]
    targets: Targets,
}

impl GetBrokerConfig {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let mut tally = Tally::default();
        for address in self.targets.addresses(&session.client).await? {
            if let Some(config) = tally.wait(session.client.broker_config(&address)).await {
                session.output.pairs(&address, &config_pairs(&config), PairForm::Config)?;
            }
        }
        tally.end()
    }
}

#[derive(Debug, Args)]
pub(super) struct UpdateBrokerConfig {
    #[command(flatten)]
    targets: Targets,
    #[arg(short = 'k', long = "key")]
    key: String,
    #[arg(short = 'v', long = "value", allow_hyphen_values = true)]
    value: String,
}

impl UpdateBrokerConfig {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let mut tally = Tally::default();
        for address in self.targets.addresses(&session.client).await? {
            let updated = session.client.update_broker_config(&address, &self.key, &self.value);
            if tally.wait(updated).await.is_some() {
                session.output.line(&format!("update broker config success, {address}"))?;
            }
        }
        tally.end()
    }
}

#[derive(Debug, Args)]
pub(super) struct BrokerStatus {
    #[command(flatten)]
    targets: Targets,
}

impl BrokerStatus {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let mut tally = Tally::default();
        for address in self.targets.addresses(&session.client).await? {
            if let Some(status) = tally.wait(session.client.broker_status(&address)).await {
                let pairs: Vec<(String, String)> = status
                    .table
                    .iter()
                    .map(|(name, value)| (name.as_str().to_owned(), value.as_str().to_owned()))
                    .collect();
                session.output.pairs(&address, &pairs, PairForm::Status)?;
            }
        }
        tally.end()
    }
}

pub(super) async fn nameserver_config(session: &mut Session) -> Result<(), Failure> {
    let mut tally = Tally::default();
    for address in session.client.nameservers().to_vec() {
        if let Some(config) = tally.wait(session.client.nameserver_config(&address)).await {
            session.output.pairs(&address, &config_pairs(&config), PairForm::Config)?;
        }
    }
    tally.end()
}
