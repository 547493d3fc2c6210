//! `ringmq namesrv`: a nameserver in the foreground, also called mqnamesrv.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use namesrv::{Config, Nameserver};
use runtime::console;
use runtime::net::Listener;
use runtime::process::StopSignal;

use crate::failure::{Exit, Failure};
use crate::start::{listen_failure, print_warnings, read_file, stop_signal, system_failure};

#[derive(Debug, Args)]
pub(crate) struct NamesrvArguments {
    /// Configuration: TOML when its name ends in .toml, else RocketMQ's properties
    #[arg(short = 'c', long = "configFile", value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Address to listen on [default: 0.0.0.0:9876]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Accepted as the official script does; a nameserver needs to know no other
    #[arg(short = 'n', long = "namesrvAddr", value_name = "ADDR", hide = true)]
    _nameservers: Option<String>,
    /// Print all settings and exit
    #[arg(short = 'p', long = "printConfigItem")]
    print: bool,
    /// Settings that win over the file
    #[arg(value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

pub(crate) fn run(arguments: &NamesrvArguments) -> Result<(), Failure> {
    let config = load(arguments)?;
    if arguments.print {
        return crate::print(&config.to_properties());
    }
    let address = address_of(&config)?;
    let stop = stop_signal()?;
    runtime::run_here(serve(config, address, stop, print_ready)).map_err(system_failure("start an executor"))?
}

/// The line that scripts of Apache's nameserver wait for.
pub(crate) fn print_ready(address: SocketAddr) {
    console::announce(format_args!("The Name Server boot success. serializeType=JSON, address {address}"));
}

/// Serves until `stop` is asked; `ready` is told where.
pub(crate) async fn serve(
    config: Config,
    address: SocketAddr,
    stop: Arc<StopSignal>,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Failure> {
    let cannot_listen = |error: std::io::Error| listen_failure(address, "--listen or listenPort", &error);
    let address = runtime::blocking(move || runtime::net::probe(address)).await.map_err(cannot_listen)?;
    let listener = Listener::bind(address).map_err(cannot_listen)?;
    let nameserver =
        Nameserver::start(config, listener).await.map_err(|error| Failure::new(Exit::Store, error.to_string()))?;
    ready(nameserver.local_address());
    stop.asked().await;
    nameserver.stop().await;
    Ok(())
}

fn load(arguments: &NamesrvArguments) -> Result<Config, Failure> {
    let mut config = match &arguments.config_file {
        Some(path) => load_file(path)?,
        None => Config::default(),
    };
    for setting in &arguments.settings {
        let (key, value) =
            setting.split_once('=').ok_or_else(|| Failure::new(Exit::Usage, format!("{setting} is no KEY=VALUE")))?;
        config.set(key.trim(), value).map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?;
    }
    if let Some(listen) = arguments.listen {
        config.bind_address = listen.ip().to_string();
        config.listen_port = listen.port();
    }
    Ok(config)
}

fn load_file(path: &Path) -> Result<Config, Failure> {
    let bytes = read_file(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let read = if is_toml { Config::from_toml(&text) } else { Config::from_properties(&text) };
    let (mut config, warnings) =
        read.map_err(|error| Failure::new(Exit::Configuration, format!("{}: {error}", path.display())))?;
    print_warnings(warnings);
    // Changes made while it runs go back to where the settings came from.
    config.config_store_path.get_or_insert_with(|| path.to_owned());
    Ok(config)
}

fn address_of(config: &Config) -> Result<SocketAddr, Failure> {
    let ip: IpAddr = config.bind_address.parse().map_err(|_| {
        let cause = format!("the setting bindAddress must be an IP address, but is \"{}\"", config.bind_address);
        Failure::new(Exit::Configuration, cause)
    })?;
    Ok(SocketAddr::new(ip, config.listen_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(listen: Option<&str>, settings: &[&str]) -> NamesrvArguments {
        NamesrvArguments {
            config_file: None,
            listen: listen.map(|address| address.parse().expect("an address")),
            _nameservers: None,
            print: false,
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
        }
    }

    #[test]
    fn flags_win_over_settings_and_settings_over_defaults() {
        let address = |arguments: &NamesrvArguments| address_of(&load(arguments)?);
        let text = |arguments| address(&arguments).expect("an address").to_string();
        assert_eq!(text(arguments(None, &[])), "0.0.0.0:9876");
        assert_eq!(text(arguments(None, &["listenPort=5", "bindAddress=127.0.0.1"])), "127.0.0.1:5");
        assert_eq!(text(arguments(Some("[::1]:0"), &["listenPort=5"])), "[::1]:0");
    }

    #[test]
    fn wrong_settings_are_configuration_errors() {
        for (setting, exit) in [
            ("listenPort", Exit::Usage),
            ("listenPort=x", Exit::Configuration),
            ("lisenPort=1", Exit::Configuration),
            ("bindAddress=nowhere", Exit::Configuration),
        ] {
            let failure = load(&arguments(None, &[setting])).and_then(|config| address_of(&config));
            assert_eq!(failure.expect_err(setting).exit, exit, "{setting}");
        }
    }
}
