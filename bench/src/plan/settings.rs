//! Settings of a phase: values of keys, some of them swept, and the phases that they make.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::key::{Key, Scalar};
use crate::arguments::Wire;
use crate::error::BenchError;
use crate::phase::{Backlog, BodyForm, Pacing, Phase, Reads, Sends, Shape, seconds, usage};
use crate::read::Way;
use crate::target::TopicForm;
use crate::template::Extras;

/// Phases that one table of a plan may make: more were asked for by mistake.
const PHASES_MAX: usize = 1000;

/// What official clients ask for, in seconds.
const INVISIBLE_S: f64 = 60.0;

/// Values of a key, in the order in which they are swept.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    pub(crate) values: Vec<Scalar>,
}

/// In the order in which they were written; a later one of the same key replaces the earlier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    settings: Vec<Setting>,
}

impl Settings {
    pub(crate) fn set(&mut self, setting: Setting) {
        self.settings.retain(|other| other.key.name != setting.key.name);
        self.settings.push(setting);
    }

    /// These, and those of `others` whose keys are not among these.
    pub(crate) fn with_defaults(&self, others: &Settings) -> Settings {
        let mut all = others.clone();
        self.settings.iter().for_each(|setting| all.set(setting.clone()));
        all
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.settings.iter().map(|setting| setting.key)
    }

    /// One phase for each combination of values, the last key fastest. `base` is where relative paths begin, `topic` what
    /// holds of topics where no key says otherwise.
    ///
    /// # Errors
    /// When values do not go together.
    pub(crate) fn phases(&self, name: &str, base: &Path, topic: &TopicForm) -> Result<Vec<Phase>, BenchError> {
        let count = self.settings.iter().map(|setting| setting.values.len()).product::<usize>();
        if count > PHASES_MAX {
            return Err(usage(&format!("{count} combinations of values; {PHASES_MAX} are possible")));
        }
        let mut phases = Vec::new();
        for index in 0..count {
            let mut rest = index;
            let mut chosen = Vec::new();
            let mut name = name.to_owned();
            for setting in self.settings.iter().rev() {
                let values = &setting.values;
                chosen.push((setting.key.name, &values[rest % values.len()]));
                rest /= values.len();
            }
            chosen.reverse();
            for (setting, (key, value)) in self.settings.iter().zip(&chosen) {
                if setting.values.len() > 1 {
                    name.push_str(&format!(" {key}={}", shown(value)));
                }
            }
            phases.push(Chosen { values: chosen }.phase(name, base, topic)?);
        }
        Ok(phases)
    }

    /// The kinds of phases that these can make.
    pub(crate) fn kinds(&self) -> Vec<&str> {
        let kind = self.settings.iter().find(|setting| setting.key.name == "kind");
        let values = kind.map_or(&[][..], |setting| &setting.values);
        values
            .iter()
            .filter_map(|value| if let Scalar::Text(kind) = value { Some(kind.as_str()) } else { None })
            .collect()
    }

    /// Without what means nothing in phases of these kinds.
    pub(crate) fn fitting(&self, kinds: &[&str]) -> Settings {
        let fits = |setting: &&Setting| kinds.iter().any(|kind| means_something(setting.key, kind));
        Settings { settings: self.settings.iter().filter(fits).cloned().collect() }
    }
}

/// Whether a key changes anything in a phase of that kind.
pub(crate) fn means_something(key: &Key, kind: &str) -> bool {
    match kind {
        "send" => key.sends,
        // What is sent before is sent as well.
        "consume" => key.reads || ["size", "size_max", "random_share", "batch"].contains(&key.name),
        _ => true,
    }
}

fn shown(value: &Scalar) -> String {
    match value {
        Scalar::Count(count) => count.to_string(),
        Scalar::Seconds(seconds) if *seconds > 0.0 && *seconds < 1.0 => format!("{}ms", seconds * 1e3),
        Scalar::Seconds(seconds) => format!("{seconds}s"),
        Scalar::Share(share) => share.to_string(),
        Scalar::Switch(on) => on.to_string(),
        Scalar::Text(text) => text.clone(),
    }
}

/// One value for each key that is set.
struct Chosen<'a> {
    values: Vec<(&'static str, &'a Scalar)>,
}

impl Chosen<'_> {
    fn get(&self, name: &str) -> Option<&Scalar> {
        self.values.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn count(&self, name: &str, default: u64) -> u64 {
        if let Some(Scalar::Count(count)) = self.get(name) { *count } else { default }
    }

    /// A count whose key allows no more than fits.
    fn small(&self, name: &str, default: u16) -> u16 {
        u16::try_from(self.count(name, default.into())).expect("its key allows no more")
    }

    fn word(&self, name: &str, default: u32) -> u32 {
        u32::try_from(self.count(name, default.into())).expect("its key allows no more")
    }

    fn text(&self, name: &str) -> Option<&str> {
        if let Some(Scalar::Text(text)) = self.get(name) { Some(text) } else { None }
    }

    fn span(&self, name: &str, default_s: f64) -> Result<Duration, BenchError> {
        let value = if let Some(Scalar::Seconds(seconds)) = self.get(name) { *seconds } else { default_s };
        seconds(name, value)
    }

    fn share(&self, name: &str) -> Option<f64> {
        if let Some(Scalar::Share(share)) = self.get(name) { Some(*share) } else { None }
    }

    fn is_on(&self, name: &str, default: bool) -> bool {
        if let Some(Scalar::Switch(on)) = self.get(name) { *on } else { default }
    }

    fn phase(&self, name: String, base: &Path, topic: &TopicForm) -> Result<Phase, BenchError> {
        let kind = self.text("kind").unwrap_or("send");
        let invisible = self.span("invisible", INVISIBLE_S)?;
        let reads = (kind != "send").then(|| Reads {
            way: match self.text("consumers") {
                Some("pop") => Way::Pop,
                _ => Way::Pull,
            },
            connections: self.small("consumer_connections", 1),
            pull_messages: self.small("pull_messages", 32),
            groups: self.small("groups", 1),
            cold_groups: self.small("cold_groups", 0),
            retry_share: self.share("retry_share").filter(|share| *share > 0.0),
            invisible,
        });
        let backlog = self.count("backlog", 0);
        if reads.is_some_and(|reads| reads.cold_groups > 0) && (backlog == 0 || kind == "consume") {
            return Err(usage("cold_groups read a backlog beside a load: kind = \"tail\" and a backlog are missing"));
        }
        let sends = self.sends(base)?;
        let topic = TopicForm {
            topics: self.small("topics", topic.topics),
            queues: self.small("queues", topic.queues),
            wire: match self.text("wire") {
                Some("compact") => Wire::Compact,
                Some(_) => Wire::Json,
                None => topic.wire,
            },
            ..topic.clone()
        };
        // Nobody may send a message back who is not known to the broker.
        let has_duties = self.is_on("client_duties", reads.is_some_and(|reads| reads.retry_share.is_some()));
        let phase = Phase {
            name,
            topic,
            warmup: if kind == "consume" { Duration::ZERO } else { self.span("warmup", 3.0)? },
            duration: self.span("duration", if kind == "consume" { 120.0 } else { 10.0 })?,
            sends: (kind != "consume").then(|| sends.clone()),
            reads,
            backlog: (backlog > 0).then_some(Backlog { messages: backlog, sends }),
            has_duties,
        };
        phase.check()?;
        Ok(phase)
    }

    fn sends(&self, base: &Path) -> Result<Sends, BenchError> {
        let min = self.word("size", 1024);
        let random_share = self.share("random_share").unwrap_or(1.0);
        let body = match self.text("payloads") {
            Some(path) => BodyForm::Payloads(base.join(PathBuf::from(path))),
            None => BodyForm::Sizes { min, max: self.word("size_max", min), random_share },
        };
        let list = |name: &str| self.text(name).into_iter().flat_map(|text| text.split(','));
        let mut properties = Vec::new();
        for property in list("properties") {
            let (name, value) = property
                .split_once('=')
                .ok_or_else(|| usage(&format!("the property {property:?} is not of the form name=value")))?;
            properties.push((name.to_owned(), value.to_owned()));
        }
        let delay = self.get("delay").map(|_| self.span("delay", 0.0)).transpose()?;
        let extras = Extras {
            keys: self.is_on("keys", false),
            tags: list("tags").map(str::to_owned).collect(),
            properties,
            delay_ms: delay.map(|delay| delay.as_millis() as u64).filter(|delay| *delay > 0),
            unflushed: !self.is_on("flushed", true),
            zlib: self.text("compression") == Some("zlib"),
            ordered_keys: self.get("ordered_keys").map(|_| self.count("ordered_keys", 1)),
            commit_share: self.commit_share()?,
        };
        let pacing = self.pacing()?;
        Ok(Sends { connections: self.small("connections", 8), pacing, body, batch: self.small("batch", 1), extras })
    }

    fn commit_share(&self) -> Result<Option<f64>, BenchError> {
        match (self.is_on("transactions", false), self.share("commit_share")) {
            (true, share) => Ok(Some(share.unwrap_or(1.0))),
            (false, Some(_)) => Err(usage("commit_share is of transactions: transactions = true is missing")),
            (false, None) => Ok(None),
        }
    }

    fn pacing(&self) -> Result<Pacing, BenchError> {
        let Some(Scalar::Count(_)) = self.get("rate") else {
            for name in ["arrivals", "rate_end", "burst", "cycle", "tick"] {
                if self.get(name).is_some() {
                    return Err(usage(&format!("{name} needs a rate: without one answers decide what is sent")));
                }
            }
            let messages_max = self.get("messages").map(|_| self.count("messages", 0));
            return Ok(Pacing::Window { requests: self.small("window", 64), messages_max });
        };
        for name in ["window", "messages"] {
            if self.get(name).is_some() {
                return Err(usage(&format!("{name} and rate do not go together: with a rate, time decides")));
            }
        }
        let rate = self.word("rate", 1);
        let shape = match self.text("arrivals").unwrap_or("even") {
            "poisson" => Shape::Poisson,
            "ramp" => Shape::Ramp { to: self.word("rate_end", rate) },
            "bursts" => Shape::Bursts { on: self.span("burst", 0.1)?, cycle: self.span("cycle", 1.0)? },
            _ => Shape::Even,
        };
        let tick_us = u32::try_from(self.span("tick", 200e-6)?.as_micros()).unwrap_or(u32::MAX);
        Ok(Pacing::Rate { rate, shape, tick_us })
    }
}
