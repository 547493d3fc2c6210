//! Attributes of topics and groups: which there are, and how a modification changes them. Pure.
//!
//! A modification is a map whose keys carry a sign: `+name` adds or alters, `-name` deletes. Stored keys carry none.

use std::collections::{BTreeMap, BTreeSet};

use remoting::text::Text;
use thiserror::Error;

pub(crate) const QUEUE_TYPE: &str = "queue.type";
pub(crate) const CLEANUP_POLICY: &str = "cleanup.policy";
pub(crate) const MESSAGE_TYPE: &str = "message.type";
pub(crate) const RESERVE_TIME: &str = "reserve.time";
/// Of a hundred pops of a group, so many take what has the highest priority first.
pub(crate) const PRIORITY_FACTOR: &str = "priority.factor";

/// The message type that a broker accepts only when it is configured to.
pub(crate) const MESSAGE_TYPE_MIXED: &str = "MIXED";
/// The message type of a topic whose queues are priorities.
pub(crate) const MESSAGE_TYPE_PRIORITY: &str = "PRIORITY";

/// Attributes by name, without signs.
pub(crate) type Attributes = BTreeMap<Text, Text>;

/// What an attribute may be set to.
enum Values {
    OneOf(&'static [&'static str]),
    /// Whole numbers between two.
    Within(i64, i64),
}

pub(crate) struct Attribute {
    name: &'static str,
    values: Values,
    /// Whether what exists may change it.
    changeable: bool,
}

/// Those of topics.
pub(crate) const OF_TOPICS: &[Attribute] = &[
    Attribute { name: QUEUE_TYPE, values: Values::OneOf(&["BatchCQ", "SimpleCQ"]), changeable: false },
    Attribute { name: CLEANUP_POLICY, values: Values::OneOf(&["DELETE", "COMPACTION"]), changeable: false },
    Attribute {
        name: MESSAGE_TYPE,
        values: Values::OneOf(&[
            "UNSPECIFIED",
            "NORMAL",
            "FIFO",
            "DELAY",
            "TRANSACTION",
            MESSAGE_TYPE_PRIORITY,
            MESSAGE_TYPE_MIXED,
        ]),
        changeable: true,
    },
    Attribute { name: RESERVE_TIME, values: Values::Within(-1, i64::MAX), changeable: true },
];

/// Those of groups.
pub(crate) const OF_GROUPS: &[Attribute] =
    &[Attribute { name: PRIORITY_FACTOR, values: Values::Within(0, 100), changeable: true }];

/// A modification that cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum AttributeError {
    #[error("\"{text}\" is no attribute modification; write +name=value or -name, joined by commas")]
    Form { text: String },
    #[error("attribute {name} is not known; known are {known}")]
    Unknown { name: String, known: String },
    #[error("attribute {name} is named twice")]
    Duplicate { name: String },
    #[error("attribute {name} cannot be deleted of what is being made")]
    DeleteOnCreate { name: String },
    #[error("attribute {name} cannot be deleted, it is not there")]
    DeleteMissing { name: String },
    #[error("attribute {name} of a topic cannot be changed once it exists")]
    Unchangeable { name: String },
    #[error("attribute {name} cannot be \"{value}\"")]
    Value { name: String, value: String },
}

/// Reads `+name=value,-name` as a modification. An empty text changes nothing.
pub(crate) fn parse(text: &str) -> Result<Attributes, AttributeError> {
    let mut modification = Attributes::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let (key, value) = (key.trim(), value.trim());
        let has_form = if key.starts_with('+') { !value.is_empty() } else { key.starts_with('-') && part == key };
        if !has_form {
            return Err(AttributeError::Form { text: part.to_owned() });
        }
        if modification.insert(Text::from(key), Text::from(value)).is_some() {
            return Err(AttributeError::Duplicate { name: key[1..].to_owned() });
        }
    }
    Ok(modification)
}

/// The attributes after a modification of `current`, of those that are `known`; `None` stands for what is being made.
pub(crate) fn modify(
    known: &[Attribute],
    current: Option<&Attributes>,
    modification: &Attributes,
) -> Result<Attributes, AttributeError> {
    let mut attributes = current.cloned().unwrap_or_default();
    let mut named = BTreeSet::new();
    for (key, value) in modification {
        let (adds, name) = match (key.strip_prefix('+'), key.strip_prefix('-')) {
            (Some(name), _) => (true, name),
            (_, Some(name)) => (false, name),
            _ => return Err(AttributeError::Form { text: key.to_string() }),
        };
        let attribute = known.iter().find(|attribute| attribute.name == name).ok_or_else(|| unknown(known, name))?;
        if !named.insert(attribute.name) {
            return Err(AttributeError::Duplicate { name: name.to_owned() });
        }
        if adds {
            check_value(attribute, value)?;
        } else if current.is_none() {
            return Err(AttributeError::DeleteOnCreate { name: name.to_owned() });
        } else if !attributes.contains_key(name) {
            return Err(AttributeError::DeleteMissing { name: name.to_owned() });
        }
        let same = adds && attributes.get(name) == Some(value);
        if current.is_some() && !attribute.changeable && !same {
            return Err(AttributeError::Unchangeable { name: name.to_owned() });
        }
        if adds {
            attributes.insert(Text::from_static(attribute.name), value.detached());
        } else {
            attributes.remove(name);
        }
    }
    Ok(attributes)
}

fn unknown(known: &[Attribute], name: &str) -> AttributeError {
    let known: Vec<&str> = known.iter().map(|attribute| attribute.name).collect();
    AttributeError::Unknown { name: name.to_owned(), known: known.join(", ") }
}

fn check_value(attribute: &Attribute, value: &str) -> Result<(), AttributeError> {
    let legal = match attribute.values {
        Values::OneOf(values) => values.contains(&value),
        Values::Within(least, most) => value.parse().is_ok_and(|number| (least..=most).contains(&number)),
    };
    if legal { Ok(()) } else { Err(AttributeError::Value { name: attribute.name.to_owned(), value: value.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(pairs: &[(&str, &str)]) -> Attributes {
        pairs.iter().map(|(name, value)| (Text::from(*name), Text::from(*value))).collect()
    }

    #[test]
    fn texts_are_read() {
        assert_eq!(parse(""), Ok(Attributes::new()));
        assert_eq!(
            parse("+message.type=FIFO, -reserve.time"),
            Ok(attributes(&[("+message.type", "FIFO"), ("-reserve.time", "")]))
        );
        for text in ["message.type", "+message.type", "message.type=FIFO", "-a=b"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("+a=1,+a=2"), Err(AttributeError::Duplicate { name: "a".to_owned() }));
    }

    #[test]
    fn a_topic_is_made_with_attributes() {
        let made = modify(OF_TOPICS, None, &attributes(&[("+queue.type", "BatchCQ"), ("+message.type", "FIFO")]));
        assert_eq!(made, Ok(attributes(&[("queue.type", "BatchCQ"), ("message.type", "FIFO")])));
        for (key, value) in [
            ("+no.such.attribute", "x"),
            ("message.type", "FIFO"),
            ("-message.type", ""),
            ("+message.type", "fifo"),
            ("+reserve.time", "-2"),
            ("+reserve.time", "soon"),
            ("+", "x"),
            ("", ""),
        ] {
            assert!(modify(OF_TOPICS, None, &attributes(&[(key, value)])).is_err(), "{key}={value}");
        }
    }

    #[test]
    fn a_topic_that_exists_changes_only_what_may_change() {
        let current = attributes(&[("queue.type", "SimpleCQ"), ("message.type", "FIFO")]);
        let change = |pairs: &[(&str, &str)]| modify(OF_TOPICS, Some(&current), &attributes(pairs));
        assert_eq!(change(&[]), Ok(current.clone()));
        assert_eq!(change(&[("-message.type", "")]), Ok(attributes(&[("queue.type", "SimpleCQ")])));
        assert_eq!(change(&[("+queue.type", "SimpleCQ")]), Ok(current.clone()), "an equal value is no change");
        assert!(matches!(change(&[("+queue.type", "BatchCQ")]), Err(AttributeError::Unchangeable { .. })));
        assert!(matches!(change(&[("-queue.type", "")]), Err(AttributeError::Unchangeable { .. })));
        assert!(matches!(change(&[("-reserve.time", "")]), Err(AttributeError::DeleteMissing { .. })));
        assert!(matches!(
            change(&[("+message.type", "DELAY"), ("-message.type", "")]),
            Err(AttributeError::Duplicate { .. })
        ));
    }
}
