//! Configuration texts in TOML: flat keys with the names of the properties.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One key with its value as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TomlEntry {
    pub(super) key: String,
    pub(super) value: String,
    /// Where the key stands, from 1.
    pub(super) line: usize,
    /// The bytes of the text that spell the value, quotes included.
    pub(super) spelled: Range<usize>,
}

/// A text that is no TOML, or no flat one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TomlError {
    pub(super) line: usize,
    pub(super) what: String,
}

/// All entries in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<TomlEntry>, TomlError> {
    let table = DeTable::parse(text).map_err(|error| TomlError {
        line: line_of(text, error.span().map_or(0, |span| span.start)),
        what: error.message().to_owned(),
    })?;
    let mut entries = Vec::new();
    for (key, value) in table.get_ref() {
        entries.push(entry(text, key.get_ref(), key.span(), value)?);
    }
    entries.sort_by_key(|entry| entry.spelled.start);
    Ok(entries)
}

/// A value as TOML spells it. `bare` without quotes.
pub(super) fn spelled(value: &str, bare: bool) -> String {
    if bare { value.to_owned() } else { toml::Value::String(value.to_owned()).to_string() }
}

fn entry(text: &str, key: &str, key_span: Range<usize>, value: &Spanned<DeValue<'_>>) -> Result<TomlEntry, TomlError> {
    let line = line_of(text, key_span.start);
    let wrong = |what: String| TomlError { line, what };
    let value_text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_err(|_| wrong(format!("{key} has a number too large for 64 bits")))?
            .to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Array(_) | DeValue::Table(_) | DeValue::Datetime(_) => {
            let found = value.get_ref().type_str();
            let cure =
                "write key = value with a text in quotes, a number, true or false; a list is one text with ; in it";
            return Err(wrong(format!("{key} is a {found}; {cure}")));
        }
    };
    Ok(TomlEntry { key: key.to_owned(), value: value_text, line, spelled: value.span() })
}

/// The line of a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_values_become_texts_with_their_lines() {
        let text = "# c\na = \"x\"\nb = 1_000 # d\n\nc = true\nd = 0.8\n\"e\" = 'lit'\nf = 0x10\ng = -1\n";
        let found: Vec<_> =
            parse(text).expect("good").into_iter().map(|entry| (entry.key, entry.value, entry.line)).collect();
        let expected = [
            ("a", "x", 2),
            ("b", "1000", 3),
            ("c", "true", 5),
            ("d", "0.8", 6),
            ("e", "lit", 7),
            ("f", "16", 8),
            ("g", "-1", 9),
        ];
        assert_eq!(found, expected.map(|(key, value, line)| (key.to_owned(), value.to_owned(), line)));
    }

    #[test]
    fn what_is_not_flat_or_no_toml_names_its_line() {
        for (text, line) in [
            ("a = 1\nb = [1]", 2),
            ("a = 1\n\n[t]\nx = 1", 3),
            ("a = 1\nb.c = 1", 2),
            ("a = 1\nb =", 2),
            ("a = 1\na = 2", 2),
            ("a = x", 1),
            ("a = 99999999999999999999", 1),
        ] {
            assert_eq!(parse(text).expect_err(text).line, line, "{text:?}");
        }
    }

    #[test]
    fn what_is_spelled_reads_back() {
        for (value, bare) in [("", false), ("a\"b\\c\u{e9}", false), ("12", true), ("true", true)] {
            let entries = parse(&format!("k = {}", spelled(value, bare))).expect("good");
            assert_eq!(entries[0].value, value);
        }
    }
}
