//! What a command prints: text for people, JSON for programs.

use std::io::{self, BufWriter, Write};

use serde_json::{Map, Value};

use crate::table::Table;

/// Standard output, buffered until [`Output::flush`].
pub(crate) struct Output {
    out: BufWriter<io::Stdout>,
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        Output { out: BufWriter::new(io::stdout()), json }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// A line that only people need.
    pub(crate) fn note(&mut self, line: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { self.line(line) }
    }

    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        let text = if self.json { table.json_lines() } else { table.text() };
        self.out.write_all(text.as_bytes())
    }

    /// The last line of a list that leaves out some of what was asked for, or may do so: how many it has, and how to get
    /// the others.
    pub(crate) fn cut(&mut self, shown: u64, more: More, fix: &str) -> io::Result<()> {
        let (text, value) = match more {
            More::Certain => ("there are more", Value::from(true)),
            More::Possible => ("there may be more", Value::from("perhaps")),
        };
        let line = if self.json {
            serde_json::json!({"shown": shown, "more": value, "fix": fix}).to_string()
        } else {
            format!("# {shown} shown, {text}: {fix}")
        };
        self.line(&line)
    }

    /// Names and values: a heading and a line each, or one object.
    pub(crate) fn pairs(&mut self, heading: &str, pairs: &[(String, String)], form: PairForm) -> io::Result<()> {
        if self.json {
            let values = pairs.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
            let object = serde_json::json!({"of": heading, "values": values.collect::<Map<String, Value>>()});
            return self.line(&object.to_string());
        }
        if form == PairForm::Config {
            self.line(&format!("============{heading}============"))?;
        }
        for (name, value) in pairs {
            self.line(&form.text(name, value))?;
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whether a list leaves something out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    Certain,
    /// Who was asked gave as many as it gives at once.
    Possible,
}

/// How names and values are lined up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairForm {
    /// A configuration, under the address it is of.
    Config,
    /// A broker's state.
    Status,
}

impl PairForm {
    fn text(self, name: &str, value: &str) -> String {
        match self {
            PairForm::Config => format!("{name:<50}=  {value}"),
            PairForm::Status => format!("{name:<32}: {value}"),
        }
    }
}

/// The entries of a text of `key=value` lines, in order of their keys.
pub(crate) fn config_pairs(text: &str) -> Vec<(String, String)> {
    let entries = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut pairs: Vec<(String, String)> = entries
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    pairs.sort();
    pairs
}

/// A text on one line: control characters, line ends among them, as escapes.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() { line.extend(character.escape_default()) } else { line.push(character) }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_lined_up_as_the_official_tools_do() {
        assert_eq!(PairForm::Status.text("a", "b"), format!("a{}: b", " ".repeat(31)));
        assert_eq!(PairForm::Config.text("a", "b"), format!("a{}=  b", " ".repeat(49)));
    }

    #[test]
    fn configurations_are_read_line_by_line() {
        let pairs = config_pairs("# comment\nb = 2\n\na=1=x\r\nnothing\n");
        let expected = [("a", "1=x"), ("b", "2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(pairs, expected);
    }

    #[test]
    fn bodies_stay_on_one_line() {
        assert_eq!(one_line("a\n\tb\u{0}\u{1b}[31mä"), "a\\n\\tb\\u{0}\\u{1b}[31mä");
    }
}
