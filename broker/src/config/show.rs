//! Shows a configuration: to admin tools, to a person who asks, and in the banner of a start.

use std::fmt::Write;

use super::error::Origin;
use super::key::{Change, DefaultText, Effect, Key, all_keys, find_key, shown_order};
use super::load::hint_text;
use super::settings::Settings;

/// Lines of the list of keys without effect; beyond it the last line counts the rest.
const IDLE_LINES_MAX: usize = 12;
/// Names in one of those lines; beyond it they are counted.
const IDLE_NAMES_MAX: usize = 6;

impl Settings {
    /// Every key with the value that holds after the next start, a `key=value` line each: what GET_BROKER_CONFIG answers.
    /// Keys of features that this version lacks show that the feature is off.
    pub fn text_all(&self) -> String {
        self.after_restart().print_all()
    }

    /// Every key with the value in force, a `key=value` line each, sorted: what the flag `-p` prints.
    pub fn print_all(&self) -> String {
        self.lines(|_| true, |key| format!("{}={}", key.name, self.text_of(key)))
    }

    /// The lines of the keys that most people set, as the flag `-m` prints them.
    pub fn print_important(&self) -> String {
        self.lines(|key| key.important, |key| format!("{}={}", key.name, self.text_of(key)))
    }

    /// The lines of all keys, or of those that someone gave, with their origins.
    pub fn print_origins(&self, given_only: bool) -> String {
        self.lines(
            |key| !given_only || self.origin(key.name) != Origin::Default,
            |key| format!("{}={}  ({})", key.name, self.text_of(key), self.origin(key.name)),
        )
    }

    fn lines(&self, shown: impl Fn(&'static Key) -> bool, line: impl Fn(&'static Key) -> String) -> String {
        let mut keys: Vec<&'static Key> = all_keys().filter(|key| shown(key)).collect();
        keys.sort_by(shown_order);
        keys.into_iter().map(|key| line(key) + "\n").collect()
    }

    /// Everything about one key.
    ///
    /// # Errors
    /// A sentence, with the nearest name, when there is no such key.
    pub fn explain(&self, name: &str) -> Result<String, String> {
        let key = find_key(name).ok_or_else(|| format!("there is no key {name}{}", hint_text(name)))?;
        let mut out = format!("{} = {}  ({})\n", key.name, self.text_of(key), self.origin(key.name));
        let mut line = |text: &str| writeln!(out, "  {text}").expect("a String takes everything");
        if !key.meaning.is_empty() {
            line(key.meaning);
        }
        line(&format!("allowed: {}", key.kind.allowed()));
        match key.default {
            DefaultText::Fixed("") => line("default: empty"),
            DefaultText::Fixed(text) => line(&format!("default: {text}")),
            DefaultText::Derived { says, .. } => line(&format!("default: {says} (here {})", self.default_text(key))),
        }
        match key.effect {
            Effect::Acts => {}
            Effect::NoEffect { reason } => line(&format!("no effect: {reason}")),
            Effect::Later { feature, .. } => line(&format!("no effect yet: later version ({feature})")),
        }
        match (key.effect, key.change) {
            (Effect::Acts, Change::Live) => line("while running: a change acts at once"),
            (Effect::Acts, Change::Restart) => line("while running: a change is kept for the next start"),
            (_, Change::Refused) => line("while running: a change is refused; set it in the file"),
            _ => {}
        }
        if !key.aliases.is_empty() {
            line(&format!("also spelled {}", key.aliases.join(", ")));
        }
        Ok(out)
    }

    /// The given keys that are accepted and do nothing, a line for each reason. Empty when there are none.
    pub fn without_effect(&self) -> Vec<String> {
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for (key, given) in self.given() {
            let reason = match key.effect {
                Effect::NoEffect { reason } => format!("accepted, no effect: {reason}"),
                // A value that differs from what is in force has a warning of its own.
                Effect::Later { in_force: Some(in_force), .. } if in_force != given.text => continue,
                Effect::Later { feature, .. } => format!("accepted, no effect yet: later version ({feature})"),
                Effect::Acts => continue,
            };
            match groups.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, names)) => names.push(&given.spelled),
                None => groups.push((reason, vec![&given.spelled])),
            }
        }
        let mut lines: Vec<String> =
            groups.iter().map(|(reason, names)| format!("{}: {reason}", listed(names))).collect();
        if lines.len() > IDLE_LINES_MAX {
            let rest: usize = groups[IDLE_LINES_MAX - 1..].iter().map(|(_, names)| names.len()).sum();
            lines.truncate(IDLE_LINES_MAX - 1);
            lines.push(format!("{rest} more keys: accepted, no effect; `config explain KEY` tells why"));
        }
        lines
    }
}

fn listed(names: &[&str]) -> String {
    let shown = names.len().min(IDLE_NAMES_MAX);
    let mut text = names[..shown].join(", ");
    if names.len() > shown {
        write!(text, " and {} more", names.len() - shown).expect("a String takes everything");
    }
    text
}
