//! Plans: phases under a name, from a TOML file, from a workload of the OpenMessaging Benchmark, or out of the binary.

pub(crate) mod key;
mod settings;
pub(crate) mod source;
mod workload;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::BenchError;
use crate::phase::{Phase, usage};
use crate::target::TopicForm;
use key::{Key, Raw, Scalar};
use settings::{Setting, Settings, means_something};
use source::{PlanError, Source, nearest};

/// Rounds of one run; more were asked for by mistake.
const ROUNDS_MAX: i64 = 1000;

/// Plans that come with the program.
const SCENARIOS: [(&str, &str); 16] = [
    ("quick", include_str!("../scenarios/quick.toml")),
    ("turns", include_str!("../scenarios/turns.toml")),
    ("saturation", include_str!("../scenarios/saturation.toml")),
    ("latency-ladder", include_str!("../scenarios/latency-ladder.toml")),
    ("sync-vs-async", include_str!("../scenarios/sync-vs-async.toml")),
    ("tail-read", include_str!("../scenarios/tail-read.toml")),
    ("catch-up", include_str!("../scenarios/catch-up.toml")),
    ("cold-readers", include_str!("../scenarios/cold-readers.toml")),
    ("many-queues", include_str!("../scenarios/many-queues.toml")),
    ("many-connections", include_str!("../scenarios/many-connections.toml")),
    ("batch", include_str!("../scenarios/batch.toml")),
    ("failover", include_str!("../scenarios/failover.toml")),
    ("soak", include_str!("../scenarios/soak.toml")),
    ("message-kinds", include_str!("../scenarios/message-kinds.toml")),
    ("peer-async", include_str!("../scenarios/peer-async.toml")),
    ("peer-sync", include_str!("../scenarios/peer-sync.toml")),
];

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) rounds: u32,
    pub(crate) phases: Vec<Phase>,
    text: String,
}

/// Tables of phases before they are swept.
struct Tables {
    name: String,
    about: String,
    rounds: u32,
    phases: Vec<(String, Settings)>,
}

impl Plan {
    /// A plan by the name of a scenario or by its file. `overrides` are `key=value` of the command line.
    ///
    /// # Errors
    /// When there is none, or what is wrong with it and where.
    pub(crate) fn load(wanted: &str, overrides: &[String]) -> Result<Plan, BenchError> {
        let scenario = SCENARIOS.iter().find(|(name, _)| *name == wanted);
        let (source, base) = match scenario {
            Some((name, text)) => (Source { name: format!("{name}.toml"), text: (*text).to_owned() }, PathBuf::new()),
            None => {
                let path = Path::new(wanted);
                let text = std::fs::read_to_string(path).map_err(|error| no_plan(wanted, &error))?;
                let base = path.parent().unwrap_or(Path::new("")).to_path_buf();
                (Source { name: wanted.to_owned(), text }, base)
            }
        };
        Plan::read(&source, &base, overrides)
    }

    fn read(source: &Source, base: &Path, overrides: &[String]) -> Result<Plan, BenchError> {
        let is_workload = source.name.ends_with(".yaml") || source.name.ends_with(".yml");
        let tables = if is_workload { workload_tables(source)? } else { Tables::read(source)? };
        let overrides = settings_of("--set ", overrides)?;
        let mut phases = Vec::new();
        for (name, settings) in &tables.phases {
            let settings = overrides.fitting(&settings.kinds()).with_defaults(settings);
            let made = settings.phases(name, base, &TopicForm::own());
            phases.extend(made.map_err(|error| wrong_phase(source, name, error))?);
        }
        let Tables { name, about, rounds, .. } = tables;
        Ok(Plan { name, about, rounds, phases, text: source.text.clone() })
    }

    /// As `run.json` tells it.
    pub(crate) fn record(&self) -> Value {
        let hash = format!("{:016x}", base::stable_hash(&self.text));
        json!({"name": self.name, "about": self.about, "hash": hash, "text": self.text})
    }

    /// Scenarios and keys, for people.
    pub(crate) fn list() -> String {
        let mut text = String::from("Scenarios, each runnable by its name:\n");
        for (name, source) in SCENARIOS {
            let source = Source { name: name.to_owned(), text: source.to_owned() };
            let about = Tables::read(&source).map(|tables| tables.about).unwrap_or_default();
            text.push_str(&format!("  {name:<18}{about}\n"));
        }
        text.push_str("\nKeys of a phase; a list of values sweeps a key:\n");
        for key in &key::KEYS {
            text.push_str(&format!("  {:<22}{}\n", key.name, key.about));
        }
        text
    }
}

/// The phase of a single command, or phases where something is swept. `options` are `key=value` as well.
///
/// # Errors
/// What is wrong with which of them.
pub(crate) fn single(
    kind: &'static str,
    options: &[String],
    overrides: &[String],
    topic: &TopicForm,
) -> Result<Vec<Phase>, BenchError> {
    let asked = settings_of("--set ", overrides)?;
    if let Some(key) = asked.keys().find(|key| key.name == "kind" || !means_something(key, kind)) {
        return Err(usage(&format!("--set {}: that means nothing to `bench {kind}`", key.name)));
    }
    let kind_is = settings_of("", &[format!("kind={kind}")])?;
    let settings = asked.with_defaults(&settings_of("--", options)?).with_defaults(&kind_is);
    settings.phases(kind, Path::new(""), topic)
}

fn no_plan(wanted: &str, error: &std::io::Error) -> BenchError {
    let names = || SCENARIOS.iter().map(|(name, _)| *name);
    let hint = match nearest(wanted, names()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("a plan is a file, or one of {}", names().collect::<Vec<_>>().join(", ")),
    };
    BenchError::Plan(PlanError::of(wanted, format!("this plan cannot be read: {error}"), hint))
}

fn wrong_phase(source: &Source, name: &str, error: BenchError) -> BenchError {
    match error {
        BenchError::Usage { what } => {
            BenchError::Plan(PlanError::of(&source.name, format!("phase {name:?}: {what}"), String::new()))
        }
        other => other,
    }
}

fn workload_tables(source: &Source) -> Result<Tables, BenchError> {
    let workload = workload::read(source).map_err(BenchError::Plan)?;
    let about = "a workload of the OpenMessaging Benchmark".to_owned();
    let name = workload.name;
    Ok(Tables { name: name.clone(), about, rounds: 1, phases: vec![(name, workload.settings)] })
}

/// Of `key=value` each. What is wrong is told of it with `prefix` before it.
fn settings_of(prefix: &str, texts: &[String]) -> Result<Settings, BenchError> {
    let mut settings = Settings::default();
    for text in texts {
        let wrong = |(what, hint)| BenchError::Plan(PlanError::of(&format!("{prefix}{text}"), what, hint));
        let (name, values) = text.split_once('=').ok_or_else(|| {
            wrong(("this is no setting".to_owned(), "--set KEY=VALUE, or KEY=VALUE,VALUE,…".to_owned()))
        })?;
        let key = key::find(name).map_err(wrong)?;
        let values: Result<Vec<Scalar>, _> = match key.takes {
            key::Takes::Text => vec![key.value(&Raw::Text(values.to_owned()))].into_iter().collect(),
            _ => values.split(',').map(|value| key.value(&Raw::read(value))).collect(),
        };
        settings.set(Setting { key, values: values.map_err(wrong)? });
    }
    Ok(settings)
}

impl Tables {
    fn read(source: &Source) -> Result<Tables, BenchError> {
        Reader { source }.tables().map_err(BenchError::Plan)
    }
}

/// Reads a TOML plan and knows where everything stands.
struct Reader<'a> {
    source: &'a Source,
}

/// A key and its value, where they stand.
struct Entry<'t, 's> {
    name: &'t Spanned<std::borrow::Cow<'s, str>>,
    value: &'t Spanned<DeValue<'s>>,
}

/// In the order in which they were written.
fn entries<'t, 's>(table: &'t DeTable<'s>) -> Vec<Entry<'t, 's>> {
    let mut entries: Vec<_> = table.iter().map(|(name, value)| Entry { name, value }).collect();
    entries.sort_by_key(|entry| entry.name.span().start);
    entries
}

impl Reader<'_> {
    fn wrong(&self, span: std::ops::Range<usize>, what: impl Into<String>, hint: impl Into<String>) -> PlanError {
        PlanError::new(self.source, &span, what.into(), hint.into())
    }

    fn tables(&self) -> Result<Tables, PlanError> {
        let document = DeTable::parse(&self.source.text).map_err(|error| {
            let hint = "a plan is TOML: `key = value`, texts in quotes, `[[phase]]` before each phase";
            self.wrong(error.span().unwrap_or(0..0), format!("this is no TOML: {}", error.message()), hint)
        })?;
        let stem = Path::new(&self.source.name).file_stem().unwrap_or_default().to_string_lossy();
        let mut tables = Tables { name: stem.into_owned(), about: String::new(), rounds: 1, phases: Vec::new() };
        let mut defaults = Settings::default();
        let top = document.get_ref();
        for Entry { name, value } in entries(top) {
            match name.get_ref().as_ref() {
                "name" => tables.name = self.text(value)?,
                "about" => tables.about = self.text(value)?,
                "rounds" => tables.rounds = self.rounds(value)?,
                "defaults" => defaults = self.settings(value, None)?,
                "phase" => {}
                other => {
                    let known = ["name", "about", "rounds", "defaults", "phase"];
                    let hint = match (nearest(other, known.into_iter()), key::find(other)) {
                        (Some(near), _) => format!("did you mean {near}?"),
                        (None, Ok(_)) => format!("{other} belongs into a [[phase]] or into [defaults]"),
                        (None, Err(_)) => format!("there are {}", known.join(", ")),
                    };
                    return Err(self.wrong(name.span(), format!("a plan has no key {other}"), hint));
                }
            }
        }
        let Some(phases) = top.get("phase") else {
            return Err(self.wrong(0..0, "this plan has no phase", "begin one with [[phase]] and a kind"));
        };
        let Some(array) = phases.get_ref().as_array() else {
            return Err(self.wrong(phases.span(), "phases are a list of tables", "write [[phase]], with two brackets"));
        };
        for phase in array.iter() {
            tables.phases.push(self.phase(phase, &defaults)?);
        }
        Ok(tables)
    }

    fn phase(&self, phase: &Spanned<DeValue<'_>>, defaults: &Settings) -> Result<(String, Settings), PlanError> {
        let Some(table) = phase.get_ref().as_table() else {
            return Err(self.wrong(phase.span(), "a phase is a table", "write [[phase]] and its keys below"));
        };
        let name = match table.get("name") {
            Some(name) => Some(self.text(name)?),
            None => None,
        };
        // The kind comes first: what the other keys mean depends on it.
        let mut kind = Settings::default();
        if let Some(value) = table.get("kind") {
            kind.set(self.setting("kind", &value.span(), value)?);
        }
        let kind = kind.with_defaults(defaults);
        let kinds = kind.kinds();
        if kinds.is_empty() {
            let hint = format!("kind = one of \"{}\"", key::KINDS.join("\", \""));
            return Err(self.wrong(phase.span(), "this phase has no kind", hint));
        }
        let own = self.settings(phase, Some(&kinds))?;
        Ok((name.unwrap_or_else(|| kinds[0].to_owned()), own.with_defaults(&defaults.fitting(&kinds))))
    }

    /// The settings of a table. With `kinds`, each must mean something in one of them.
    fn settings(&self, table: &Spanned<DeValue<'_>>, kinds: Option<&[&str]>) -> Result<Settings, PlanError> {
        let Some(entries_of) = table.get_ref().as_table() else {
            return Err(self.wrong(table.span(), "this is no table", "write [defaults] and keys below"));
        };
        let mut settings = Settings::default();
        for Entry { name, value } in entries(entries_of) {
            if name.get_ref() == "name" && kinds.is_some() {
                continue;
            }
            let setting = self.setting(name.get_ref(), &name.span(), value)?;
            if let Some(kinds) = kinds
                && !kinds.iter().any(|kind| means_something(setting.key, kind))
            {
                let what = format!("{} means nothing in a phase of kind {}", name.get_ref(), kinds.join(", "));
                return Err(self.wrong(name.span(), what, format!("{}: leave it out", setting.key.about)));
            }
            settings.set(setting);
        }
        Ok(settings)
    }

    fn setting(
        &self,
        name: &str,
        name_span: &std::ops::Range<usize>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Setting, PlanError> {
        let key = key::find(name).map_err(|(what, hint)| self.wrong(name_span.clone(), what, hint))?;
        let values = match value.get_ref().as_array() {
            Some(list) if list.is_empty() => {
                return Err(self.wrong(value.span(), "a sweep of nothing", "give a value, or a list of some"));
            }
            Some(list) => list.iter().map(|value| self.scalar(key, value)).collect::<Result<_, _>>()?,
            None => vec![self.scalar(key, value)?],
        };
        Ok(Setting { key, values })
    }

    fn scalar(&self, key: &Key, value: &Spanned<DeValue<'_>>) -> Result<Scalar, PlanError> {
        let raw = match value.get_ref() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(Raw::Integer),
            DeValue::Float(number) => number.as_str().parse().ok().map(Raw::Float),
            DeValue::Boolean(on) => Some(Raw::Switch(*on)),
            DeValue::String(text) => Some(Raw::Text(text.clone().into_owned())),
            _ => None,
        };
        let raw = raw.ok_or_else(|| {
            let what = format!("{} takes no {}", key.name, value.get_ref().type_str());
            self.wrong(value.span(), what, key.about)
        })?;
        key.value(&raw).map_err(|(what, hint)| self.wrong(value.span(), what, hint))
    }

    fn text(&self, value: &Spanned<DeValue<'_>>) -> Result<String, PlanError> {
        let text = value.get_ref().as_str().filter(|text| !text.trim().is_empty());
        text.map(str::to_owned).ok_or_else(|| self.wrong(value.span(), "this must be a text", "put it in quotes"))
    }

    fn rounds(&self, value: &Spanned<DeValue<'_>>) -> Result<u32, PlanError> {
        let number = value.get_ref().as_integer().and_then(|number| number.as_str().parse::<i64>().ok());
        let rounds = number.filter(|rounds| (1..=ROUNDS_MAX).contains(rounds));
        rounds.map(|rounds| rounds as u32).ok_or_else(|| {
            self.wrong(
                value.span(),
                "rounds must be a number of rounds",
                format!("a whole number from 1 to {ROUNDS_MAX}"),
            )
        })
    }
}

#[cfg(test)]
mod tests;
