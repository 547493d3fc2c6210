//! `ringmq config`: looking at a broker's configuration without starting one.

use clap::{Args, Subcommand};

use crate::broker::{ConfigSources, load};
use crate::failure::{Exit, Failure};
use crate::start::print_warnings;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Tell everything about one key
    Explain {
        key: String,
        #[command(flatten)]
        sources: ConfigSources,
    },
    /// Find what is wrong with a configuration
    Check(ConfigSources),
    /// Print the configuration that a broker would have
    Show(Show),
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Print where each value comes from
    #[arg(long)]
    origin: bool,
    /// Only keys that were given a value
    #[arg(long, requires = "origin")]
    given: bool,
    #[command(flatten)]
    sources: ConfigSources,
}

pub(crate) fn run(command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Explain { key, sources } => {
            let settings = load(sources, None)?.settings;
            let text = settings.explain(key).map_err(|cause| {
                Failure::new(Exit::Configuration, cause).with_fix("ringmq config show lists all keys")
            })?;
            crate::print(&text)
        }
        ConfigCommand::Check(sources) => {
            let loaded = load(sources, None)?;
            print_warnings(&loaded.warnings);
            print_warnings(loaded.settings.without_effect());
            crate::print("the configuration can be used\n")
        }
        ConfigCommand::Show(show) => {
            let settings = load(&show.sources, None)?.settings;
            crate::print(&if show.origin { settings.print_origins(show.given) } else { settings.print_all() })
        }
    }
}
