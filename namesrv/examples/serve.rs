//! Runs a nameserver: `serve IP:PORT FOLDER [KEY=VALUE …]`. Prints its address when it listens and ends on SIGTERM.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use namesrv::{Config, Nameserver};
use runtime::net::Listener;
use runtime::process::{StopSignal, stop_on_signals};

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("serve: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, folder, settings @ ..] = &arguments[..] else {
        return Err("usage: serve IP:PORT FOLDER [KEY=VALUE …]".into());
    };
    let mut config = Config::in_folder(Path::new(folder));
    config.config_store_path = Some(Path::new(folder).join("namesrv.conf"));
    for setting in settings {
        let (key, value) = setting.split_once('=').ok_or_else(|| format!("{setting} is not KEY=VALUE"))?;
        config.set(key, value)?;
    }
    let address = address.parse()?;
    let stop = StopSignal::new();
    stop_on_signals(stop.clone())?;
    let run = |stop: Arc<StopSignal>| async move {
        let nameserver = Nameserver::start(config, Listener::bind(address)?).await?;
        println!("{}", nameserver.local_address());
        stop.asked().await;
        nameserver.stop().await;
        Ok::<(), Failure>(())
    };
    runtime::run_here(run(stop))?
}
