//! `ringmq dev`: a nameserver and a broker in one process, ready to be tried out.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use clap::Args;
use namesrv::Config;
use runtime::process::StopSignal;

use crate::broker::{ConfigSources, load, serve as serve_broker};
use crate::failure::{Exit, Failure};
use crate::namesrv::{print_ready, serve};
use crate::start::{stop_signal, system_failure};

#[derive(Debug, Args)]
pub(crate) struct DevArguments {
    /// Folder for all data [default: ringmq-dev in the current folder]
    #[arg(long, value_name = "DIR", default_value = "ringmq-dev", hide_default_value = true)]
    dir: PathBuf,
    /// Where the nameserver listens
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9876")]
    namesrv_listen: SocketAddr,
    /// Where the broker listens
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:10911")]
    broker_listen: SocketAddr,
    /// Cores of the broker [default: all]
    #[arg(long, value_name = "N")]
    cores: Option<u16>,
    /// Logs of a new store [default: one a core]
    #[arg(long, value_name = "N")]
    logs: Option<u16>,
    /// Settings of the broker
    #[arg(value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

pub(crate) fn run(arguments: &DevArguments, began: Instant) -> Result<(), Failure> {
    let stop = stop_signal()?;
    std::fs::create_dir_all(&arguments.dir).map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot make the folder {}: {error}", arguments.dir.display()))
            .with_fix("name one that this user may write to with --dir")
    })?;
    // A bell wakes one core, so the nameserver has one of its own and stops when the broker has.
    let nameserver_stop = StopSignal::new();
    let (told, ready) = channel();
    let (config, address) = (Config::in_folder(&arguments.dir), arguments.namesrv_listen);
    let serving = {
        let stop = nameserver_stop.clone();
        // The receiver waits for this word and nothing else, so it is there.
        let ready = move |at| {
            print_ready(at);
            told.send(at).expect("the main thread waits");
        };
        let work = move || runtime::run_here(serve(config, address, stop, ready));
        runtime::core::thread("namesrv", work).map_err(system_failure("start a thread"))?
    };
    // The sender is gone without a word when the nameserver did not start; its own end says why.
    let ended = match ready.recv() {
        Ok(nameserver) => run_broker(arguments, nameserver, stop, began),
        Err(_) => Ok(()),
    };
    nameserver_stop.ask();
    let served = serving.join().expect("a panic would have ended the process");
    ended.and(served.map_err(system_failure("start an executor"))?)
}

fn run_broker(
    arguments: &DevArguments,
    nameserver: SocketAddr,
    stop: Arc<StopSignal>,
    began: Instant,
) -> Result<(), Failure> {
    let sources = ConfigSources { config_file: None, settings: arguments.settings.clone() };
    let loaded = load(&sources, flags_of(arguments, nameserver))?;
    let admin = |command: &str| format!("ringmq admin {command} -n {nameserver} -t Hello");
    let next_steps = vec![
        format!("send:     {} -p world", admin("sendMessage")),
        format!("consume:  {}", admin("consumeMessage")),
        format!("look:     {}", admin("topicStatus")),
    ];
    serve_broker(loaded, None, stop, began, next_steps)
}

/// The keys of the broker that the flags stand for.
fn flags_of(arguments: &DevArguments, nameserver: SocketAddr) -> Vec<(&'static str, String)> {
    let store = arguments.dir.join("store");
    let mut flags = vec![
        ("storePathRootDir", store.to_string_lossy().into_owned()),
        ("bindAddress", arguments.broker_listen.ip().to_string()),
        ("listenPort", arguments.broker_listen.port().to_string()),
        ("namesrvAddr", nameserver.to_string()),
    ];
    flags.extend(arguments.cores.map(|cores| ("cores", cores.to_string())));
    flags.extend(arguments.logs.map(|logs| ("logs", logs.to_string())));
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_keys() {
        let arguments = DevArguments {
            dir: PathBuf::from("d"),
            namesrv_listen: "127.0.0.1:0".parse().expect("an address"),
            broker_listen: "127.0.0.1:10911".parse().expect("an address"),
            cores: Some(2),
            logs: None,
            settings: Vec::new(),
        };
        let flags = flags_of(&arguments, "127.0.0.1:5".parse().expect("an address"));
        let text: Vec<String> = flags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            text.join(" "),
            "storePathRootDir=d/store bindAddress=127.0.0.1 listenPort=10911 namesrvAddr=127.0.0.1:5 cores=2"
        );
    }
}
