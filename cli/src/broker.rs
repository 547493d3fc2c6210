//! `ringmq broker`: a broker in the foreground, also called mqbroker.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use broker::config::{FileFormat, Loaded, Loader, Surroundings};
use broker::{BrokerError, Launch};
use clap::Args;
use runtime::process::StopSignal;
use storage::StorageError;

use crate::failure::{Exit, Failure};
use crate::start::{print_warnings, read_file, stop_signal};

/// Where a configuration comes from, as several commands take it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigSources {
    /// Configuration: TOML when its name ends in .toml, else RocketMQ's properties
    #[arg(short = 'c', long = "configFile", value_name = "FILE")]
    pub(crate) config_file: Option<PathBuf>,
    /// Settings that win over the file
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BrokerArguments {
    #[command(flatten)]
    sources: ConfigSources,
    /// Nameservers, host:port joined by ";"
    #[arg(short = 'n', long = "namesrvAddr", value_name = "ADDR")]
    nameservers: Option<String>,
    /// Print all settings and exit
    #[arg(short = 'p', long = "printConfigItem")]
    print: bool,
    /// Print the settings that most people change and exit
    #[arg(short = 'm', long = "printImportantConfig")]
    print_important: bool,
}

pub(crate) fn run(arguments: BrokerArguments, began: Instant) -> Result<(), Failure> {
    let flags = arguments.nameservers.map(|list| ("namesrvAddr", list));
    let loaded = load(&arguments.sources, flags)?;
    if arguments.print {
        return crate::print(&loaded.settings.print_all());
    }
    if arguments.print_important {
        return crate::print(&loaded.settings.print_important());
    }
    let stop = stop_signal()?;
    serve(loaded, arguments.sources.config_file, stop, began, Vec::new())
}

/// Puts the configuration together; `flags` are keys that flags of the command line stand for, and win.
pub(crate) fn load(
    sources: &ConfigSources,
    flags: impl IntoIterator<Item = (&'static str, String)>,
) -> Result<Loaded, Failure> {
    let mut loader = Loader::new(Surroundings {
        host_name: runtime::process::host_name(),
        local_address: runtime::net::local_address(),
        home: std::env::var("HOME").unwrap_or_else(|_| ".".to_owned()),
        processors: u32::from(runtime::process::cpu_count()),
    });
    if let Some(path) = &sources.config_file {
        let name = path.to_string_lossy();
        loader.file(&name, &read_file(path)?, FileFormat::of_path(&name));
    }
    loader.environment(
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
    );
    for setting in &sources.settings {
        loader.argument(setting);
    }
    for (key, value) in flags {
        loader.setting(key, &value);
    }
    loader.finish().map_err(|errors| {
        Failure::new(Exit::Configuration, errors.to_string())
            .with_fix("ringmq config explain KEY tells what a key takes")
    })
}

/// Says what is odd about the configuration and runs a broker with it until `stop` is asked. `next_steps` are printed
/// when it is ready.
pub(crate) fn serve(
    loaded: Loaded,
    config_file: Option<PathBuf>,
    stop: Arc<StopSignal>,
    began: Instant,
    next_steps: Vec<String>,
) -> Result<(), Failure> {
    let Loaded { config, settings, warnings } = loaded;
    print_warnings(&warnings);
    print_warnings(settings.without_effect());
    broker::run(Launch { config, settings, config_file, stop, began, next_steps }).map_err(|error| failure_of(&error))
}

fn failure_of(error: &BrokerError) -> Failure {
    let exit = match error {
        BrokerError::Storage(StorageError::Options { .. } | StorageError::SegmentBytes { .. }) => Exit::Configuration,
        BrokerError::Storage(_)
        | BrokerError::Table { .. }
        | BrokerError::FirstRecord { .. }
        | BrokerError::LogFailed { .. } => Exit::Store,
        BrokerError::System { .. } => Exit::HostUnfit,
        BrokerError::Listen { .. } => Exit::Failure,
    };
    Failure::new(exit, error.to_string())
}
