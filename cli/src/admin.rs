//! `ringmq admin`: the commands of mqadmin, with its flags and its columns.

mod broker;
mod cluster;
mod consume;
mod dead_letters;
mod dlq;
mod group;
mod message;
mod order;
mod query;
mod stages;
mod targets;
mod topic;

use std::future::Future;

use clap::{Args, Subcommand};
use client::Client;

use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::start::system_failure;

/// Nameservers when neither the flag nor the environment names any.
const NAMESERVERS_DEFAULT: &str = "127.0.0.1:9876";
const NAMESERVERS_VARIABLE: &str = "NAMESRV_ADDR";

/// Look at and change a running cluster.
#[derive(Debug, Args)]
pub(crate) struct AdminArguments {
    /// Nameservers, host:port joined by ";" [default: NAMESRV_ADDR, else 127.0.0.1:9876]
    #[arg(short = 'n', long = "namesrvAddr", global = true, value_name = "ADDR")]
    nameservers: Option<String>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Debug, Subcommand)]
#[command(rename_all = "camelCase")]
enum AdminCommand {
    /// Send one message
    SendMessage(message::SendMessage),
    /// Print messages of a topic, one a line; offsets of groups stay as they are
    ConsumeMessage(consume::ConsumeMessage),
    /// List the topics
    TopicList(topic::TopicList),
    /// Print where a topic's queues are
    TopicRoute(topic::TopicRoute),
    /// Print the offsets of a topic's queues
    TopicStatus(topic::TopicStatus),
    /// Make a topic, or change all settings of one
    UpdateTopic(topic::UpdateTopic),
    /// Delete a topic and its messages
    DeleteTopic(topic::DeleteTopic),
    /// List clusters, brokers and how they do
    ClusterList(cluster::ClusterList),
    /// Make a consumer group, or change all settings of one
    UpdateSubGroup(group::UpdateSubGroup),
    /// Print how far consumer groups have come
    ConsumerProgress(group::ConsumerProgress),
    /// Print the members of a consumer group
    ConsumerConnection(group::ConsumerConnection),
    /// Print the message with an id, made by the broker or by the sender
    QueryMsgById(query::QueryById),
    /// List the messages with a key
    QueryMsgByKey(query::QueryByKey),
    /// Print the message with an id that its sender made
    QueryMsgByUniqueKey(query::QueryByUniqueKey),
    /// Look at dead letters, send them once more, export them
    Dlq(dlq::Dlq),
    /// Print a broker's configuration
    GetBrokerConfig(broker::GetBrokerConfig),
    /// Change one key of a broker's configuration
    UpdateBrokerConfig(broker::UpdateBrokerConfig),
    /// Print a broker's state
    BrokerStatus(broker::BrokerStatus),
    /// Print where a broker's time goes: how long sends and pulls take in each stage
    Stages(stages::Stages),
    /// Print the nameservers' configuration
    GetNamesrvConfig,
}

/// What a command works with.
struct Session {
    client: Client,
    output: Output,
}

/// Runs a command on this thread.
pub(crate) fn run(arguments: AdminArguments) -> Result<(), Failure> {
    let list =
        arguments.nameservers.or_else(|| std::env::var(NAMESERVERS_VARIABLE).ok().filter(|list| !list.is_empty()));
    let list = list.unwrap_or_else(|| NAMESERVERS_DEFAULT.to_owned());
    let nameservers = client::parse_list(&list).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let work = async move {
        let mut session = Session { client: Client::new(nameservers), output: Output::new(arguments.json) };
        let ended = session.run(arguments.command).await;
        let flushed = session.output.flush();
        session.client.close();
        ended.and(flushed.map_err(Failure::from))
    };
    runtime::run_here(work).map_err(system_failure("start an executor"))?
}

impl Session {
    async fn run(&mut self, command: AdminCommand) -> Result<(), Failure> {
        match command {
            AdminCommand::SendMessage(command) => command.run(self).await,
            AdminCommand::ConsumeMessage(command) => command.run(self).await,
            AdminCommand::TopicList(command) => command.run(self).await,
            AdminCommand::TopicRoute(command) => command.run(self).await,
            AdminCommand::TopicStatus(command) => command.run(self).await,
            AdminCommand::UpdateTopic(command) => command.run(self).await,
            AdminCommand::DeleteTopic(command) => command.run(self).await,
            AdminCommand::ClusterList(command) => command.run(self).await,
            AdminCommand::UpdateSubGroup(command) => command.run(self).await,
            AdminCommand::ConsumerProgress(command) => command.run(self).await,
            AdminCommand::ConsumerConnection(command) => command.run(self).await,
            AdminCommand::QueryMsgById(command) => command.run(self).await,
            AdminCommand::QueryMsgByKey(command) => command.run(self).await,
            AdminCommand::QueryMsgByUniqueKey(command) => command.run(self).await,
            AdminCommand::Dlq(command) => command.run(self).await,
            AdminCommand::GetBrokerConfig(command) => command.run(self).await,
            AdminCommand::UpdateBrokerConfig(command) => command.run(self).await,
            AdminCommand::BrokerStatus(command) => command.run(self).await,
            AdminCommand::Stages(command) => command.run(self).await,
            AdminCommand::GetNamesrvConfig => broker::nameserver_config(self).await,
        }
    }
}

/// What many targets answered. A command goes on when one fails, says so at once, and ends as partly done.
#[derive(Default)]
struct Tally {
    done: usize,
    failed: usize,
    first: Option<Failure>,
}

impl Tally {
    /// The value, unless it is a failure: the first is kept for the end, the others are printed.
    fn take<T>(&mut self, result: Result<T, impl Into<Failure>>) -> Option<T> {
        match result {
            Ok(value) => {
                self.done += 1;
                Some(value)
            }
            Err(failure) => {
                self.failed += 1;
                let failure = failure.into();
                match self.first {
                    None => self.first = Some(failure),
                    Some(_) => failure.print(),
                }
                None
            }
        }
    }

    async fn wait<T>(&mut self, result: impl Future<Output = Result<T, client::ClientError>>) -> Option<T> {
        self.take(result.await)
    }

    fn end(self) -> Result<(), Failure> {
        match self.first {
            None => Ok(()),
            Some(failure) if self.done == 0 => Err(failure),
            Some(failure) => {
                let cause = format!("{} of {} failed: {}", self.failed, self.done + self.failed, failure.cause);
                Err(Failure { exit: Exit::Partial, cause, fix: failure.fix })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_failures_are_partial_and_only_failures_are_their_own() {
        let failure = || Failure::new(Exit::Unreachable, "gone").with_fix("come back");
        let mut none = Tally::default();
        assert_eq!(none.take(Ok::<_, Failure>(7)), Some(7));
        assert_eq!(none.end(), Ok(()));
        let mut all = Tally::default();
        assert_eq!(all.take(Err::<u32, _>(failure())), None);
        assert_eq!(all.end(), Err(failure()));
        let mut some = Tally::default();
        some.take(Err::<u32, _>(failure()));
        some.take(Ok::<_, Failure>(7));
        let ended = some.end().expect_err("partly done");
        assert_eq!((ended.exit, ended.cause.as_str()), (Exit::Partial, "1 of 2 failed: gone"));
    }
}
