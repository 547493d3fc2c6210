//! A row of the key table, and how one is found.

use std::cmp::Ordering;

use super::kind::Kind;
use super::settings::Settings;
use super::{keys_acting, keys_engine, keys_later, keys_other};

/// A known key.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    /// Older spellings of the same key.
    pub aliases: &'static [&'static str],
    pub kind: Kind,
    pub default: DefaultText,
    /// One line without a full stop. Empty for settings of RocketMQ's insides.
    pub meaning: &'static str,
    pub effect: Effect,
    pub change: Change,
    /// Whether the short list (`-m`) shows it.
    pub important: bool,
}

/// The text that holds while nobody gives one.
#[derive(Debug)]
pub enum DefaultText {
    Fixed(&'static str),
    /// Follows from the machine or from other keys; `says` describes it.
    Derived {
        says: &'static str,
        text: fn(&Settings) -> String,
    },
}

/// What a value does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Acts,
    /// Accepted and listed once.
    NoEffect {
        reason: &'static str,
    },
    /// Belongs to a feature that this version does not have. `in_force` is the value that holds meanwhile whatever is
    /// given, for keys that turn the feature on.
    Later {
        feature: &'static str,
        in_force: Option<&'static str>,
    },
}

/// What a change while the broker runs does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Acts at once.
    Live,
    /// Is kept, and acts from the next start on.
    Restart,
    /// Is refused: the key names a path, an address, a class or a command.
    Refused,
}

impl Key {
    pub(super) const fn acting(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        change: Change,
        meaning: &'static str,
    ) -> Key {
        Key {
            name,
            aliases: &[],
            kind,
            default: DefaultText::Fixed(default),
            meaning,
            effect: Effect::Acts,
            change,
            important: false,
        }
    }

    pub(super) const fn idle(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        reason: &'static str,
        meaning: &'static str,
    ) -> Key {
        let mut key = Key::acting(name, kind, default, Change::Restart, meaning);
        key.effect = Effect::NoEffect { reason };
        key
    }

    /// A setting of a feature that comes later, which does not turn it on.
    pub(super) const fn later(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        feature: &'static str,
        meaning: &'static str,
    ) -> Key {
        let mut key = Key::acting(name, kind, default, Change::Restart, meaning);
        key.effect = Effect::Later { feature, in_force: None };
        key
    }

    /// A setting that turns on a feature that comes later. `in_force` is how it stands here.
    pub(super) const fn later_switch(
        name: &'static str,
        kind: Kind,
        in_force: &'static str,
        feature: &'static str,
        meaning: &'static str,
    ) -> Key {
        let mut key = Key::acting(name, kind, in_force, Change::Restart, meaning);
        key.effect = Effect::Later { feature, in_force: Some(in_force) };
        key
    }

    pub(super) const fn also(mut self, aliases: &'static [&'static str]) -> Key {
        self.aliases = aliases;
        self
    }

    pub(super) const fn important(mut self) -> Key {
        self.important = true;
        self
    }

    pub(super) const fn refused(mut self) -> Key {
        self.change = Change::Refused;
        self
    }

    pub(super) const fn derived(mut self, says: &'static str, text: fn(&Settings) -> String) -> Key {
        self.default = DefaultText::Derived { says, text };
        self
    }

    /// Whether the key is called so, by its name or an older spelling of it.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// Every known key, in the order of the tables.
pub fn all_keys() -> impl Iterator<Item = &'static Key> {
    [keys_acting::KEYS, keys_engine::KEYS, keys_later::KEYS, keys_other::KEYS].into_iter().flatten()
}

/// The key of that name or older spelling; capitals count.
pub fn find_key(name: &str) -> Option<&'static Key> {
    all_keys().find(|key| key.is_called(name))
}

/// The key of that name whatever its capitals, since environment variables are written in capitals.
pub(super) fn find_key_in_any_case(name: &str) -> Option<&'static Key> {
    all_keys().find(|key| {
        key.name.eq_ignore_ascii_case(name) || key.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    })
}

/// The order in which keys are shown: by letters, whatever their capitals.
pub(super) fn shown_order(a: &&'static Key, b: &&'static Key) -> Ordering {
    let lower = |key: &Key| key.name.to_ascii_lowercase();
    lower(a).cmp(&lower(b))
}
