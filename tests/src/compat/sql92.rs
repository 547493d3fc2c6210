//! Expressions of SQL92 filters, drawn by a seed, with properties to ask them about; and what Apache's filter says.
//!
//! A case is a line: `expression TAB properties`, a verdict behind another TAB once the oracle (`tests/compat/Sql92.java`)
//! has spoken. Control letters are escaped as that program reads them. Most cases are expressions by the grammar over
//! values that are hard to compare; a share of them is then damaged, so that what is no expression is tried as well.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use base::Random;

/// Conditions within conditions; deeper ones are tried by cases of their own.
const DEPTH_MAX: u32 = 4;
/// Names in expressions, as all lists here between bars. No message has the last.
const NAMES: &str = "a|b|c|num|text|$x_1|TAGS|KEYS|Color|none";
const VALUES: &str = "5|-3|0|1|+5|-0|05|5.0|5.5|-2.5|.5|5.|1e3|1E-2| 5|5 | 5.5 |5L|5d|5f|0x10|1_000|NaN|Infinity|-Infinity|\
    2147483647|2147483648|-2147483648|-2147483649|9223372036854775807|9223372036854775808|\
    -9223372036854775808|1e400|abc|ab|ABC|b|true|TRUE|false|null|it's|消息|5消|a b|%a_|\\";
const NUMBERS: &str = "5|-3|0|1|+5|-0|5.0|5.5|-2.5|.5|5.|1e3|1E-2|5L|-5l|0L|00|05|0x10|017|2147483647|2147483648|-2147483648|\
    -2147483649|9223372036854775807|9223372036854775808|-9223372036854775808|9223372036854775807L|1e400|\
    1e-400|1.7976931348623157e308|4.9e-324|- 5|--5|5.5e";
const TEXTS: &str = "'abc'|'ab'|'b'|'ABC'|''|'5'|'5.0'|'-3'|' 5'|'true'|'TRUE'|'it''s'|''''|'消息'|'消'|'a b'|'%a_'|'\\'|'a\tb'|\
    'a\nb'|\"abc\"";
const STRAYS: &str = "(|)|,|=|<>|<|>|<=|>=|==|!=|<=>|+|-|*|/|%|!|;|AND|OR|NOT|IS|NULL|IN|BETWEEN|LIKE|ESCAPE|CONTAINS|\
    STARTSWITH|ENDSWITH|TRUE|FALSE|XOR|a.b|消|'|/*|-- x\n|#";
/// Cases that no drawing would make.
const FIXED: [(&str, &str); 14] = [
    ("", ""),
    (" ", ""),
    ("/* only a comment */", ""),
    ("a = 1 -- the end", "a\u{1}1\u{2}"),
    ("a = 1 // the end", "a\u{1}1\u{2}"),
    ("convert_string_expressions:a = 1", "a\u{1}1\u{2}"),
    ("hyphenated_props:a-b = 1", "a-b\u{1}1\u{2}"),
    ("a = 1", "a\u{1}2\u{2}a\u{1}1\u{2}"),
    ("a = 2", "a\u{1}2\u{2}a\u{1}1\u{2}"),
    ("a IS NULL", "a\u{1}\u{2}"),
    ("a = 1", "a\u{1}1"),
    ("a = 'x\u{1}y'", "a\u{1}x\u{1}y\u{2}"),
    ("a IS NULL", "a\u{1}x\u{1}y\u{2}"),
    ("a IS NULL", "\u{2}\u{2}a\u{1}1\u{2}"),
];

/// An expression and the properties of a message, as the wire carries them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub expression: String,
    pub properties: String,
}

impl Case {
    fn line(&self) -> String {
        format!("{}\t{}", escape(&self.expression), escape(&self.properties))
    }
}

/// The fixed cases and `count` drawn ones.
pub fn draw(seed: u64, count: usize) -> Vec<Case> {
    let fixed = FIXED.iter().map(|(expression, properties)| (*expression, *properties));
    let mut cases: Vec<Case> = fixed
        .map(|(expression, properties)| Case { expression: expression.into(), properties: properties.into() })
        .collect();
    let mut draw = Draw { random: Random::new(seed) };
    cases.extend((0..count).map(|_| draw.case()));
    cases
}

/// The cases as lines with the oracle's verdicts.
///
/// # Errors
/// When Java cannot be started, or the oracle does not answer each case.
pub fn judge(cases: &[Case], jars: &Path) -> Result<String, String> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("compat/Sql92.java");
    let mut child = Command::new("java")
        .args(["-cp", &format!("{}/*", jars.display())])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("java cannot be started: {error}"))?;
    let lines: Vec<String> = cases.iter().map(Case::line).collect();
    let input: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    let mut pipe = child.stdin.take().expect("stdin is a pipe");
    let writer = thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(|error| format!("the oracle: {error}"))?;
    writer.join().expect("the writer does not panic").map_err(|error| format!("the oracle reads no more: {error}"))?;
    let text = String::from_utf8(output.stdout).map_err(|error| format!("the oracle's answer: {error}"))?;
    let verdicts: Vec<&str> = text.lines().collect();
    if !output.status.success() || verdicts.len() != lines.len() {
        return Err(format!(
            "the oracle gave {} verdicts on {} cases ({})",
            verdicts.len(),
            lines.len(),
            output.status
        ));
    }
    let mut judged = String::new();
    for (line, verdict) in lines.iter().zip(verdicts) {
        writeln!(judged, "{line}\t{verdict}").expect("a string takes all");
    }
    Ok(judged)
}

struct Draw {
    random: Random,
}

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.random.below(limit as u64)).expect("below a usize")
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of(&mut self, choices: &'static str) -> &'static str {
        let count = choices.split('|').count();
        choices.split('|').nth(self.below(count)).expect("below the count")
    }

    fn case(&mut self) -> Case {
        let mut expression = self.condition(0);
        if self.one_in(8) {
            expression = self.damaged(&expression);
        }
        Case { expression, properties: self.properties() }
    }

    fn properties(&mut self) -> String {
        let mut text = String::new();
        for name in NAMES.split('|').filter(|name| *name != "none") {
            if !self.one_in(6) {
                // Half of the values are plain, so that many comparisons have a result.
                let value = if self.one_in(2) { self.of("5|-3|abc|5.5|true") } else { self.of(VALUES) };
                write!(text, "{name}\u{1}{value}\u{2}").expect("a string takes all");
            }
        }
        text
    }

    fn condition(&mut self, depth: u32) -> String {
        let deeper = depth + 1;
        match self.below(if depth < DEPTH_MAX { 22 } else { 12 }) {
            0..=3 => format!("{} {} {}", self.operand(), self.of("<|<=|>|>="), self.operand()),
            4..=6 => format!("{} {} {}", self.operand(), self.of("=|<>|="), self.operand()),
            7 => format!("{} {} {}", self.name(), self.word("IS"), self.of("NULL|NOT NULL|not null")),
            8 => {
                let (value, low, high) = (self.operand(), self.operand(), self.operand());
                format!("{value} {}{} {low} {} {high}", self.not(), self.word("BETWEEN"), self.word("AND"))
            }
            9 => self.list(),
            10 => {
                let search = self.of("CONTAINS|STARTSWITH|ENDSWITH");
                format!("{} {}{} {}", self.operand(), self.not(), self.word(search), self.text())
            }
            11 => self.of("TRUE|FALSE|NULL|a|none|text|true").to_owned(),
            12..=15 => format!("{} {} {}", self.condition(deeper), self.word("AND"), self.condition(deeper)),
            16..=18 => format!("{} {} {}", self.condition(deeper), self.word("OR"), self.condition(deeper)),
            19 => format!("{} {}", self.word("NOT"), self.condition(deeper)),
            20 => format!("{}({})", self.not(), self.condition(deeper)),
            _ => format!("({}){}({})", self.condition(deeper), self.of("=|<>| AND |or"), self.condition(deeper)),
        }
    }

    fn list(&mut self) -> String {
        let texts: Vec<String> = (0..=self.below(3)).map(|_| self.text()).collect();
        format!("{} {}{} ({})", self.name(), self.not(), self.word("IN"), texts.join(","))
    }

    fn operand(&mut self) -> String {
        match self.below(10) {
            0..=4 => self.name(),
            5..=7 => self.of("5|-3|5.5").to_owned(),
            8 => self.text(),
            _ => match self.below(8) {
                0 => self.of("TRUE|FALSE|NULL").to_owned(),
                1 => format!("-{}", self.name()),
                2 => format!("({})", self.name()),
                3 => format!("({})", self.condition(DEPTH_MAX)),
                _ => self.of(NUMBERS).to_owned(),
            },
        }
    }

    fn name(&mut self) -> String {
        self.of(NAMES).to_owned()
    }

    fn text(&mut self) -> String {
        if self.one_in(2) { self.of("'abc'|'5'|'b'") } else { self.of(TEXTS) }.to_owned()
    }

    fn not(&mut self) -> String {
        if self.one_in(3) { self.word("NOT") + " " } else { String::new() }
    }

    /// A keyword, in capitals or not, once in a while with a comment or a line's end beside it.
    fn word(&mut self, keyword: &str) -> String {
        let spelled: String = match self.below(4) {
            0 => keyword.to_lowercase(),
            1 => keyword
                .chars()
                .map(|letter| if self.one_in(2) { letter.to_ascii_lowercase() } else { letter })
                .collect(),
            _ => keyword.to_owned(),
        };
        match self.below(24) {
            0 => format!("{spelled}/* {keyword} */"),
            1 => format!("{spelled} -- {keyword}\n"),
            2 => format!("\n\t{spelled}\r"),
            _ => spelled,
        }
    }

    /// With a word too much, a word replaced, or a letter left out.
    fn damaged(&mut self, expression: &str) -> String {
        let letters: Vec<char> = expression.chars().collect();
        let at = self.below(letters.len() + 1);
        let (front, back): (String, String) = (letters[..at].iter().collect(), letters[at..].iter().collect());
        match self.below(4) {
            0 => format!("{front}{}", back.chars().skip(1).collect::<String>()),
            1 => front,
            _ => {
                let mut words: Vec<&str> = expression.split(' ').collect();
                let at = self.below(words.len());
                let stray = self.of(STRAYS);
                if self.one_in(2) {
                    words[at] = stray;
                } else {
                    words.insert(at, stray);
                }
                words.join(" ")
            }
        }
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\\' => escaped.push_str("\\\\"),
            control if control < ' ' => write!(escaped, "\\x{:02x}", u32::from(control)).expect("a string takes all"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_cases_again() {
        assert_eq!(draw(7, 100), draw(7, 100));
        assert_ne!(draw(7, 100), draw(8, 100));
        assert!(
            draw(7, 100)
                .iter()
                .all(|case| !case.line().contains(['\n', '\u{1}']) && case.line().matches('\t').count() == 1)
        );
    }
}
