//! Writes changed values into the text of a configuration file, which keeps its comments, its order and its spelling.

use std::ops::Range;

use super::error::{ConfigError, ConfigErrors, Fault, Origin};
use super::key::find_key;
use super::load::FileFormat;
use super::{properties, toml_text};

/// The text with each of `changed` (names and texts, as [`Update::changed`](super::Update::changed) has them) in its
/// place, or at the end if the key is not in it. Everything else stays as it was.
///
/// # Errors
/// When the old text cannot be read: it was changed by hand since the start, and stays as it is.
pub fn rewrite_file(old: &str, format: FileFormat, changed: &[(String, String)]) -> Result<String, ConfigErrors> {
    let places = places(old, format)?;
    let mut replaced: Vec<(Range<usize>, String)> = Vec::new();
    let mut added = String::new();
    let line_end = if old.contains("\r\n") { "\r\n" } else { "\n" };
    for (name, value) in changed {
        let key = find_key(name);
        let is_it = |spelled: &str| spelled == name || key.is_some_and(|key| key.is_called(spelled));
        let spelled = match format {
            FileFormat::Properties => properties::escaped(value),
            FileFormat::Toml => toml_text::spelled(value, key.is_some_and(|key| key.kind.is_bare_in_toml())),
        };
        // The last one counts where a key occurs twice.
        match places.iter().rev().find(|place| is_it(&place.key)) {
            Some(place) => {
                let separator = if place.needs_separator { "=" } else { "" };
                replaced.push((place.value.clone(), format!("{separator}{spelled}")));
            }
            None => {
                let equals = if format == FileFormat::Toml { " = " } else { "=" };
                added.push_str(&format!("{name}{equals}{spelled}{line_end}"));
            }
        }
    }
    replaced.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut text = old.to_owned();
    for (range, spelled) in replaced {
        text.replace_range(range, &spelled);
    }
    if !added.is_empty() {
        if !text.is_empty() && !text.ends_with(['\n', '\r']) {
            text.push_str(line_end);
        }
        text.push_str(&added);
    }
    Ok(text)
}

/// Where a value stands.
struct Place {
    key: String,
    value: Range<usize>,
    /// The line is a key alone, so that a value needs a `=` before it.
    needs_separator: bool,
}

fn places(old: &str, format: FileFormat) -> Result<Vec<Place>, ConfigErrors> {
    let fault = |line: usize, what: String| {
        let origin = Origin::File { path: "configuration file".to_owned(), line };
        ConfigErrors(vec![ConfigError { origin, fault: Fault::Other { what } }])
    };
    match format {
        FileFormat::Properties => {
            let entries = properties::parse(old).map_err(|error| fault(error.line, error.what))?;
            let place = |entry: properties::Entry| {
                let before = old[..entry.spelled.start].chars().next_back();
                let separated = before.is_some_and(|letter| "=: \t\u{c}".contains(letter));
                Place { key: entry.key, value: entry.spelled, needs_separator: !separated }
            };
            Ok(entries.into_iter().map(place).collect())
        }
        FileFormat::Toml => {
            let entries = toml_text::parse(old).map_err(|error| fault(error.line, error.what))?;
            let place =
                |entry: toml_text::TomlEntry| Place { key: entry.key, value: entry.spelled, needs_separator: false };
            Ok(entries.into_iter().map(place).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn only_the_changed_values_change() {
        type Case = (FileFormat, &'static str, &'static [(&'static str, &'static str)], &'static str);
        let cases: &[Case] = &[
            (FileFormat::Properties, "", &[("fileReservedTime", "48")], "fileReservedTime=48\n"),
            (
                FileFormat::Properties,
                "# top\n\nfileReservedTime = 72\n  ! c\nmaxMessageSize:65536\nbrokerName=a",
                &[("maxMessageSize", "70000"), ("fileReservedTime", "1"), ("deleteWhen", "04;16")],
                "# top\n\nfileReservedTime = 1\n  ! c\nmaxMessageSize:70000\nbrokerName=a\ndeleteWhen=04;16\n",
            ),
            // An older spelling is kept, a continued line becomes one, of two the last one is changed.
            (
                FileFormat::Properties,
                "mapedFileSizeCommitLog=1\\\n 0\r\ndeleteWhen=01\r\ndeleteWhen=02\r\n",
                &[("mappedFileSizeCommitLog", "2097152"), ("deleteWhen", "03"), ("regionId", "r\u{e9}")],
                "mapedFileSizeCommitLog=2097152\r\ndeleteWhen=01\r\ndeleteWhen=03\r\nregionId=r\\u00e9\r\n",
            ),
            (FileFormat::Properties, "deleteWhen\nx=y", &[("deleteWhen", "03")], "deleteWhen=03\nx=y"),
            (
                FileFormat::Toml,
                "# top\nfileReservedTime = 72 # hours\ndeleteWhen = '04'\n",
                &[("fileReservedTime", "48"), ("deleteWhen", "05"), ("traceOn", "false"), ("regionId", "r")],
                "# top\nfileReservedTime = 48 # hours\ndeleteWhen = \"05\"\ntraceOn = false\nregionId = \"r\"\n",
            ),
        ];
        for (format, old, pairs, new) in cases {
            assert_eq!(rewrite_file(old, *format, &changed(pairs)).as_deref(), Ok(*new), "{old:?}");
        }
    }

    #[test]
    fn an_unreadable_text_is_left_alone() {
        assert!(rewrite_file("a = ", FileFormat::Toml, &changed(&[("deleteWhen", "05")])).is_err());
        assert!(rewrite_file("a=\\u1", FileFormat::Properties, &changed(&[("deleteWhen", "05")])).is_err());
    }
}
