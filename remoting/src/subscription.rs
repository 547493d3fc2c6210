//! What a group wants of a topic, and whether a message is it as far as a queue entry can tell.
//!
//! A queue entry holds the hash of the message's tag only, so a match may be false; the consumer looks again. It must
//! never be missed, so the hashes are computed here from the tags: some clients hash other bytes than Java does.

use std::collections::BTreeSet;

use base::java_string_hash;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use crate::text::Text;

/// The expression that wants everything.
pub const ALL: &str = "*";
/// Between the tags of an expression.
pub const TAG_SEPARATOR: &str = "||";
pub const EXPRESSION_TAG: &str = "TAG";
pub const EXPRESSION_SQL92: &str = "SQL92";

/// An expression that is none, answered with SUBSCRIPTION_PARSE_FAILED.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the expression \"{expression}\" names no tag; write * for all, or tags joined by ||")]
pub struct SubscriptionError {
    expression: String,
}

/// A subscription as heartbeats carry it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    pub class_filter_mode: bool,
    /// The hashes of the tags; after [`SubscriptionData::with_codes`] they are ours.
    #[serde(deserialize_with = "codes")]
    pub code_set: BTreeSet<i32>,
    /// Empty means [`EXPRESSION_TAG`].
    pub expression_type: Text,
    /// The expression as the client wrote it.
    pub sub_string: Text,
    /// Grows when the client changes its mind: milliseconds or nanoseconds, by client.
    pub sub_version: i64,
    pub tags_set: BTreeSet<Text>,
    pub topic: Text,
}

impl SubscriptionData {
    /// Reads a tag expression: `a || b`, or `*`, empty or nothing for all.
    ///
    /// # Errors
    /// When it names no tag.
    pub fn parse(topic: Text, expression: Option<&str>) -> Result<SubscriptionData, SubscriptionError> {
        let expression = expression.unwrap_or(ALL).trim();
        let mut data = SubscriptionData {
            topic,
            expression_type: Text::from_static(EXPRESSION_TAG),
            sub_string: Text::from(if expression.is_empty() { ALL } else { expression }),
            ..SubscriptionData::default()
        };
        if !data.is_all() {
            data.tags_set = tags_of(expression);
            if data.tags_set.is_empty() {
                return Err(SubscriptionError { expression: expression.chars().take(128).collect() });
            }
        }
        Ok(data.with_codes())
    }

    /// The same without memory of its own for what most subscriptions say.
    pub fn with_usual_words(mut self) -> SubscriptionData {
        for (word, usual) in [(&mut self.sub_string, ALL), (&mut self.expression_type, EXPRESSION_TAG)] {
            if *word == usual {
                *word = Text::from_static(usual);
            }
        }
        self
    }

    /// The same with hashes made of its tags, or of its expression when it names none.
    pub fn with_codes(mut self) -> SubscriptionData {
        if self.is_tag_type() {
            if self.tags_set.is_empty() && !self.is_all() {
                self.tags_set = tags_of(&self.sub_string);
            }
            self.code_set = self.tags_set.iter().map(|tag| java_string_hash(tag)).collect();
        }
        self
    }

    /// Whether the expression is a list of tags. Java clients of old leave the type out, Go sends it empty.
    pub fn is_tag_type(&self) -> bool {
        self.expression_type.is_empty() || self.expression_type == EXPRESSION_TAG
    }

    /// Whether every message is wanted.
    pub fn is_all(&self) -> bool {
        self.is_tag_type() && (self.sub_string.is_empty() || self.sub_string == ALL)
    }

    /// Whether a message with that tag hash may be wanted. Of an expression in SQL the hash tells nothing: yes.
    pub fn matches(&self, tags_code: i64) -> bool {
        self.class_filter_mode
            || !self.is_tag_type()
            || self.is_all()
            || i32::try_from(tags_code).is_ok_and(|code| self.code_set.contains(&code))
    }
}

/// The tag hash of a queue entry: Java's, extended with its sign; 0 for none.
pub fn tags_code(tag: Option<&str>) -> i64 {
    tag.map_or(0, |tag| i64::from(java_string_hash(tag)))
}

fn tags_of(expression: &str) -> BTreeSet<Text> {
    expression.split(TAG_SEPARATOR).map(str::trim).filter(|tag| !tag.is_empty()).map(Text::from).collect()
}

/// Java writes hashes as numbers, Go as texts. Whatever is neither is left out, since all are computed again.
fn codes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<i32>, D::Error> {
    let values = Vec::<serde_json::Value>::deserialize(deserializer)?;
    let code = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.parse().ok(),
        value => value.as_i64().and_then(|code| i32::try_from(code).ok()),
    };
    Ok(values.iter().filter_map(code).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(expression: Option<&str>) -> SubscriptionData {
        SubscriptionData::parse(Text::from("T"), expression).unwrap()
    }

    #[test]
    fn expressions_become_tags() {
        for expression in [None, Some(""), Some("*"), Some(" * ")] {
            let all = parsed(expression);
            assert!(all.is_all() && all.matches(0) && all.matches(7) && all.tags_set.is_empty(), "{expression:?}");
            assert_eq!(all.sub_string, "*");
        }
        let two = parsed(Some(" a || b||"));
        assert_eq!((two.code_set.clone(), two.tags_set.len()), ([97, 98].into(), 2));
        assert!(two.matches(97) && !two.matches(99) && !two.matches(0) && !two.matches(97 + (1 << 32)));
        for expression in ["||", " || ", "||||"] {
            assert!(SubscriptionData::parse(Text::from("T"), Some(expression)).is_err(), "{expression}");
        }
    }

    #[test]
    fn hashes_are_javas_whatever_the_client_sends() {
        let json = r#"{"topic":"T","subString":"标签","tagsSet":["标签"],"codeSet":["-123","x"],"subVersion":5,"expressionType":""}"#;
        let data: SubscriptionData = serde_json::from_str(json).unwrap();
        let data = data.with_codes();
        assert!(data.matches(tags_code(Some("标签"))) && !data.matches(-123));
        let bare = SubscriptionData { sub_string: Text::from("a||b"), ..SubscriptionData::default() }.with_codes();
        assert!(bare.matches(97) && !bare.is_all());
    }

    #[test]
    fn hashes_keep_their_sign() {
        assert_eq!(tags_code(None), 0);
        assert_eq!(tags_code(Some("TagA")), 2_598_919);
        let negative = tags_code(Some("polygenelubricants"));
        assert_eq!(negative, i64::from(i32::MIN));
        assert!(parsed(Some("polygenelubricants")).matches(negative));
    }

    #[test]
    fn sql_cannot_be_decided_by_tags() {
        let sql = SubscriptionData {
            expression_type: Text::from(EXPRESSION_SQL92),
            sub_string: Text::from("a > 5"),
            ..SubscriptionData::default()
        };
        assert!(sql.matches(1) && !sql.is_all() && !sql.is_tag_type());
    }
}
