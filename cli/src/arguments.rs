//! The command line: programs within the program, and the names that stand for one of them.

use std::ffi::OsString;
use std::path::Path;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use runtime::Reactor;

use crate::admin::AdminArguments;
use crate::broker::BrokerArguments;
use crate::config::ConfigCommand;
use crate::dev::DevArguments;
use crate::namesrv::NamesrvArguments;
use crate::store::StoreCommand;

/// The name of a link to this program, and the program within it that it stands for.
const LINKS: [(&str, &str); 3] = [("mqadmin", "admin"), ("mqbroker", "broker"), ("mqnamesrv", "namesrv")];

/// RingMQ speaks the protocol of Apache RocketMQ.
///
/// Exit codes: 0 done; 1 failed; 2 wrong usage; 3 configuration; 4 cannot reach, or no answer in time; 5 done in part;
/// 6 this host lacks something; 7 the store is in use or damaged.
#[derive(Debug, Parser)]
#[command(name = "ringmq", version, propagate_version = true)]
pub(crate) struct Arguments {
    /// What turns the cores
    #[arg(long, global = true, value_name = "NAME", env = runtime::REACTOR_VARIABLE, default_value = "ring", hide_env_values = true)]
    reactor: ReactorName,
    #[command(subcommand)]
    pub(crate) program: Program,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReactorName {
    /// Our own, one io_uring a core
    Ring,
    /// glommio's executor, for comparison
    Glommio,
}

impl Arguments {
    pub(crate) fn reactor(&self) -> Reactor {
        match self.reactor {
            ReactorName::Ring => Reactor::Ring,
            ReactorName::Glommio => Reactor::Glommio,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Program {
    /// Run a nameserver and a broker in one process, without any configuration.
    Dev(DevArguments),
    /// Run a broker; also called mqbroker.
    Broker(BrokerArguments),
    /// Run a nameserver; also called mqnamesrv.
    Namesrv(NamesrvArguments),
    /// Look at a broker's configuration without starting one.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Work on a store's folder while no broker runs on it.
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// Look at and change a running cluster; also called mqadmin.
    Admin(AdminArguments),
    /// Measure a broker, this one or another of the protocol.
    Bench(bench::Args),
    /// Print the version of this program and of the protocol.
    Version,
    /// Print a completion script for a shell.
    Completions { shell: Shell },
}

/// The arguments with the program's name put in where a link's name stands for it.
pub(crate) fn as_called(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let called = arguments.first().and_then(|first| Path::new(first).file_name()).map(|name| name.to_string_lossy());
    let program = called.and_then(|called| LINKS.iter().find(|(link, _)| *link == called).map(|(_, program)| program));
    if let Some(program) = program {
        arguments.insert(1, OsString::from(program));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(as_called(line.split(' ').map(OsString::from)))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn commands_are_read() {
        for line in [
            "ringmq version",
            "ringmq bench send --broker 127.0.0.1:10911",
            "ringmq bench run quick --broker 127.0.0.1:10911 --set rate=5,6 --set duration=2s --rounds 3 --out o --live",
            "ringmq bench report a b -o page.html",
            "ringmq bench compare 127.0.0.1:1 127.0.0.1:2 --plan quick --rounds 5",
            "ringmq dev",
            "ringmq dev --reactor glommio",
            "ringmq --reactor ring broker",
            "ringmq dev --dir d --namesrv-listen 127.0.0.1:1 --broker-listen 127.0.0.1:2 --cores 2 --logs 4 brokerName=b",
            "ringmq broker -c broker.conf -n 127.0.0.1:9876 listenPort=10911",
            "mqbroker -c broker.conf",
            "mqbroker -p",
            "mqbroker -m -n a:1;b:2",
            "ringmq namesrv --listen 0.0.0.0:9876",
            "mqnamesrv -c namesrv.conf -p",
            "ringmq completions bash",
            "ringmq config explain flushDiskType",
            "ringmq config check -c broker.conf",
            "ringmq config show --origin --given -c broker.conf listenPort=1",
            "ringmq store import old --to new",
            "ringmq store dump store",
            "ringmq store dump store --log 1 --from 4096 --queue T:0 --key k --limit 10 --json",
            "ringmq store import old --to new --commit-log a,b --logs 4 --segment-bytes 1073741824",
            "ringmq admin topicList",
            "/usr/bin/mqadmin topicList",
            "mqadmin topicList -c -n 127.0.0.1:9876",
            "mqadmin -n 127.0.0.1:9876 topicList --json",
            "mqadmin sendMessage -n a:1;b:2 -t T -p -body -k K -c Tag -b broker-a -i 3",
            "mqadmin consumeMessage -t T -g G -o 5 -i 0 -b broker-a -c 10",
            "mqadmin consumeMessage -t T -s 2026-01-01#00:00:00:000 -e 1796025468962",
            "mqadmin consumeMessage -t T -s 0 --follow",
            "mqadmin topicRoute -t T -l",
            "mqadmin topicStatus -t T",
            "mqadmin clusterList -m",
            "mqadmin updateTopic -c C -t T -r 4 -w 4 -p 6",
            "mqadmin updateTopic -b 127.0.0.1:10911 -t T -a +message.type=FIFO",
            "mqadmin deleteTopic -c C -t T",
            "mqadmin updateSubGroup -c C -g G -s true -d false -r 3 -q 1",
            "mqadmin consumerProgress",
            "mqadmin consumerProgress -g G -t T",
            "mqadmin consumerConnection -g G",
            "mqadmin queryMsgById -t T -i 7F00000100002A9F0000000000000000",
            "mqadmin queryMsgByKey -t T -k key -m 5",
            "mqadmin queryMsgByUniqueKey -t T -i 0102 -a",
            "mqadmin getBrokerConfig -b 127.0.0.1:10911",
            "mqadmin updateBrokerConfig -c C -k fileReservedTime -v 48",
            "mqadmin brokerStatus -c C",
            "mqadmin getNamesrvConfig",
        ] {
            assert!(parse(line).is_ok(), "{line}: {}", parse(line).expect_err("an error"));
        }
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for line in [
            "ringmq",
            "ringmq topicList",
            "ringmq store import old",
            "ringmq store dump store --queue T",
            "ringmq store import old --to new --logs 0",
            "mqadmin sendMessage -t T",
            "mqadmin sendMessage -t T -p body -i x",
            "mqadmin sendMessage -t T -p body -i 1",
            "mqadmin updateTopic -t T",
            "mqadmin updateTopic -t T -b h:1 -c C",
            "mqadmin updateTopic -t T -b h:1 -p 7",
            "mqadmin consumeMessage -t T -o 5",
            "mqadmin consumeMessage -t T -s yesterday",
            "mqadmin consumeMessage -t T -e 5 --follow",
            "mqadmin brokerStatus",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
