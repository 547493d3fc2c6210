//! Puts a configuration together from its sources, and says everything that is wrong with them.

use super::error::{ConfigError, ConfigErrors, Fault, Origin, did_you_mean};
use super::hint::nearest;
use super::key::{Effect, Key, all_keys, find_key, find_key_in_any_case};
use super::keys_later::ROLE_FEATURE;
use super::settings::{Given, Settings, Surroundings};
use super::typed::Config;
use super::{properties, toml_text};

/// The variable that RocketMQ's own programs read.
const NAMESERVERS_VARIABLE: &str = "NAMESRV_ADDR";
const VARIABLE_PREFIX: &str = "RINGMQ_";

/// How a configuration file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    Properties,
    Toml,
}

impl FileFormat {
    /// By the file's name: `.toml` is TOML, everything else properties.
    pub fn of_path(path: &str) -> FileFormat {
        if path.to_ascii_lowercase().ends_with(".toml") { FileFormat::Toml } else { FileFormat::Properties }
    }
}

/// A configuration that can be started with.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    pub settings: Settings,
    /// Whole sentences for the person who starts the broker.
    pub warnings: Vec<String>,
}

/// What a name that is no key means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Error,
    Warning,
}

/// Takes the sources in any order; arguments win over the environment, that over the file, and that over the defaults.
pub struct Loader {
    surroundings: Surroundings,
    file: Vec<Source>,
    environment: Vec<Source>,
    arguments: Vec<Source>,
    errors: Vec<ConfigError>,
}

struct Source {
    key: String,
    value: String,
    origin: Origin,
    unknown: Unknown,
}

impl Loader {
    pub fn new(surroundings: Surroundings) -> Loader {
        Loader { surroundings, file: Vec::new(), environment: Vec::new(), arguments: Vec::new(), errors: Vec::new() }
    }

    /// Takes a file's bytes; `path` is for messages.
    pub fn file(&mut self, path: &str, bytes: &[u8], format: FileFormat) {
        let text = properties::decode(bytes);
        let read = match format {
            FileFormat::Properties => properties_sources(path, &text),
            FileFormat::Toml => toml_sources(path, &text),
        };
        match read {
            Ok(sources) => self.file.extend(sources),
            Err(error) => self.errors.push(error),
        }
    }

    /// Takes the environment: `NAMESRV_ADDR` and `RINGMQ_KEY`, capitals or not. Other variables, that of the reactor, and
    /// these with an empty value are left alone.
    pub fn environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        let mut variables: Vec<(String, String)> = variables.into_iter().collect();
        variables.sort();
        for (variable, value) in variables {
            if value.trim().is_empty() || variable == runtime::REACTOR_VARIABLE {
                continue;
            }
            // RINGMQ_NAMESRVADDR sorts behind NAMESRV_ADDR and so wins over it.
            let key = match variable.strip_prefix(VARIABLE_PREFIX) {
                Some(name) => find_key_in_any_case(name).map_or(name, |key| key.name).to_owned(),
                None if variable == NAMESERVERS_VARIABLE => "namesrvAddr".to_owned(),
                None => continue,
            };
            let origin = Origin::Environment { variable };
            self.environment.push(Source { key, value, origin, unknown: Unknown::Warning });
        }
    }

    /// Takes one `KEY=VALUE`.
    pub fn argument(&mut self, argument: &str) {
        match argument.split_once('=') {
            Some((key, value)) => self.setting(key.trim(), value),
            None => {
                let what = format!("{argument} is no KEY=VALUE");
                self.errors.push(ConfigError { origin: Origin::Argument, fault: Fault::Other { what } });
            }
        }
    }

    /// Takes a key and a value that a flag of the command line stands for.
    pub fn setting(&mut self, key: &str, value: &str) {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.arguments.push(Source { key, value, origin: Origin::Argument, unknown: Unknown::Error });
    }

    /// Checks everything.
    ///
    /// # Errors
    /// All faults that were found, at least one.
    pub fn finish(self) -> Result<Loaded, ConfigErrors> {
        let Loader { surroundings, file, environment, arguments, mut errors } = self;
        let mut settings = Settings::new(surroundings);
        let mut warnings = Vec::new();
        for source in [file, environment, arguments].into_iter().flatten() {
            let Some(key) = find_key(&source.key) else {
                let fault = unknown_key(&source.key);
                match source.unknown {
                    Unknown::Error => errors.push(ConfigError { origin: source.origin, fault }),
                    Unknown::Warning => warnings.push(format!("{}: ignored: {fault}", source.origin)),
                }
                continue;
            };
            match checked(key, &source.key, &source.value) {
                Ok(text) => settings.give(key, Given { text, origin: source.origin, spelled: source.key }),
                Err(fault) => errors.push(ConfigError { origin: source.origin, fault }),
            }
        }
        master_has_id_0(&mut settings, &mut warnings);
        warnings.extend(feature_warnings(&settings));
        match settings.config() {
            Ok(config) if errors.is_empty() => Ok(Loaded { config, settings, warnings }),
            Ok(_) => Err(ConfigErrors(errors)),
            Err(more) => {
                errors.extend(more.0);
                Err(ConfigErrors(errors))
            }
        }
    }
}

fn properties_sources(path: &str, text: &str) -> Result<Vec<Source>, ConfigError> {
    let origin = |line| Origin::File { path: path.to_owned(), line };
    let entries = properties::parse(text)
        .map_err(|error| ConfigError { origin: origin(error.line), fault: Fault::Other { what: error.what } })?;
    let source = |entry: properties::Entry| {
        let origin = origin(entry.line);
        Source { key: entry.key, value: entry.value, origin, unknown: Unknown::Warning }
    };
    Ok(entries.into_iter().map(source).collect())
}

fn toml_sources(path: &str, text: &str) -> Result<Vec<Source>, ConfigError> {
    let origin = |line| Origin::File { path: path.to_owned(), line };
    let entries = toml_text::parse(text)
        .map_err(|error| ConfigError { origin: origin(error.line), fault: Fault::Other { what: error.what } })?;
    let source = |entry: toml_text::TomlEntry| {
        let origin = origin(entry.line);
        Source { key: entry.key, value: entry.value, origin, unknown: Unknown::Error }
    };
    Ok(entries.into_iter().map(source).collect())
}

fn unknown_key(name: &str) -> Fault {
    Fault::UnknownKey { key: name.to_owned(), hint: hint_for(name) }
}

/// The known key that someone who wrote `name` meant.
pub(super) fn hint_for(name: &str) -> Option<String> {
    let names = all_keys().flat_map(|key| std::iter::once(key.name).chain(key.aliases.iter().copied()));
    nearest(name, names).map(str::to_owned)
}

/// The value in its usual form, or what is wrong with it. `spelled` is the key's name as it was given.
pub(super) fn checked(key: &Key, spelled: &str, value: &str) -> Result<String, Fault> {
    key.kind.normal(value).map_err(|allowed| Fault::BadValue {
        key: spelled.to_owned(),
        value: value.trim().to_owned(),
        allowed,
    })
}

/// A master is number 0 whatever is given, as clients look for it there.
fn master_has_id_0(settings: &mut Settings, warnings: &mut Vec<String>) {
    let id = settings.text("brokerId");
    if id != "0" && settings.text("brokerRole") != "SLAVE" {
        let key = find_key("brokerId").expect("brokerId is a row of the table");
        let origin = settings.origin("brokerId");
        warnings.push(format!("{origin}: brokerId={id} means nothing for a master; it is 0."));
        settings.give(key, Given { text: "0".to_owned(), origin, spelled: "brokerId".to_owned() });
    }
}

/// A sentence for each value that would turn on what this version does not have.
pub(super) fn feature_warnings(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, given) in settings.given() {
        if let Effect::Later { feature, in_force: Some(in_force) } = key.effect
            && given.text != in_force
        {
            let (spelled, text, origin) = (&given.spelled, &given.text, &given.origin);
            let meanwhile = if in_force.is_empty() { "empty" } else { in_force };
            warnings.push(format!(
                "{origin}: {spelled}={text} has no effect: it is of a later version ({feature}). It stays {meanwhile}."
            ));
        }
    }
    if settings.text("brokerRole") == "SYNC_MASTER" {
        let origin = settings.origin("brokerRole");
        warnings.push(format!(
            "{origin}: brokerRole=SYNC_MASTER acts like ASYNC_MASTER: {ROLE_FEATURE} comes in a later version, \
             so no send waits for a slave."
        ));
    }
    warnings
}

/// What a message about an unknown key ends with.
pub(super) fn hint_text(name: &str) -> String {
    did_you_mean(hint_for(name).as_deref())
}
