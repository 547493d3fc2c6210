//! Changes of single settings in the text of a configuration file: all else stays as it was written.

use super::Property;
use super::properties::{ends_in_continuation, key_end};

/// How a file writes a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Properties,
    Toml,
}

/// The text with the changes made: a line of a changed key is replaced, one that is missing is added at the end.
pub(crate) fn edited(text: &str, changes: &[Property], syntax: Syntax) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut is_written = vec![false; changes.len()];
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let key = key_of(line, syntax);
        let Some(change) = changes.iter().rposition(|change| change.key == key) else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let mut last = line;
        while syntax == Syntax::Properties && ends_in_continuation(last) {
            let Some(next) = lines.next() else { break };
            last = next;
        }
        // A key that came twice keeps one line.
        if !std::mem::replace(&mut is_written[change], true) {
            out.push_str(&line_of(&changes[change], syntax));
        }
    }
    for (index, change) in changes.iter().enumerate() {
        let is_overruled = changes[index + 1..].iter().any(|later| later.key == change.key);
        if !is_written[index] && !is_overruled {
            out.push_str(&line_of(change, syntax));
        }
    }
    out
}

fn key_of(line: &str, syntax: Syntax) -> &str {
    let line = line.trim_start();
    match syntax {
        Syntax::Properties => &line[..key_end(line)],
        Syntax::Toml => line.split('=').next().unwrap_or_default().trim().trim_matches(['"', '\'']),
    }
}

fn line_of(change: &Property, syntax: Syntax) -> String {
    let Property { key, value } = change;
    match syntax {
        Syntax::Properties => format!("{key}={}\n", value.replace('\\', "\\\\")),
        Syntax::Toml if value == "true" || value == "false" || value.parse::<u32>().is_ok() => {
            format!("{key} = {value}\n")
        }
        Syntax::Toml => format!("{key} = {}\n", toml::Value::String(value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, value: &str) -> Property {
        Property { key: key.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn only_the_changed_keys_change() {
        let text = "# mine\nlistenPort=1\n a = x\\\n  y\n\n#a=2\nb:3\na=4";
        let changes = [change("a", "5"), change("c", "lost"), change("c", "6\\")];
        let expected = "# mine\nlistenPort=1\na=5\n\n#a=2\nb:3\nc=6\\\\\n";
        assert_eq!(edited(text, &changes, Syntax::Properties), expected);
        assert_eq!(edited("", &[], Syntax::Properties), "");
    }

    #[test]
    fn toml_stays_toml() {
        let text = "# mine\nlistenPort = 1\n\"clusterTest\" = true\n";
        let changes = [change("clusterTest", "false"), change("productEnvName", "a \"b\"")];
        let out = edited(text, &changes, Syntax::Toml);
        let table: toml::Table = out.parse().unwrap();
        assert_eq!(table["productEnvName"].as_str(), Some("a \"b\""));
        assert_eq!(table["clusterTest"].as_bool(), Some(false));
        assert!(out.starts_with("# mine\nlistenPort = 1\nclusterTest = false\n"), "{out}");
    }
}
