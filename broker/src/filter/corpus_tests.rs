//! Expressions with the verdicts of Apache RocketMQ 5.4.0 (`corpus.tsv`), or those
//! of the file that `RINGMQ_FILTER_CORPUS` names.

use std::path::PathBuf;

use super::Filter;
use super::value::Value;

/// Differences shown; the others are counted.
const SHOWN_MAX: usize = 100;

#[test]
fn verdicts_are_those_of_apache() {
    let own = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/filter/corpus.tsv"));
    let path = std::env::var_os("RINGMQ_FILTER_CORPUS").map_or_else(own, PathBuf::from);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut differences = Vec::new();
    let mut count = 0;
    for line in text.lines() {
        let [expression, properties, wanted] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{}: no case: {line}", path.display())
        };
        let expression_text = unescape(expression);
        let found = verdict(&expression_text, &unescape(properties));
        if !agree(found, wanted, &expression_text) {
            differences.push(format!("{found} where Apache has {wanted}: {expression}\t{properties}"));
        }
        count += 1;
    }
    assert!(count >= 300, "{}: only {count} cases", path.display());
    let shown = differences[..differences.len().min(SHOWN_MAX)].join("\n");
    assert!(differences.is_empty(), "{} differences in {count} cases:\n{shown}", differences.len());
}

/// REST: Apache ignores what stands behind an expression. It is refused here, unless it is a comment.
fn agree(found: &str, wanted: &str, expression: &str) -> bool {
    let ends_in_comment = expression.lines().last().is_some_and(|line| line.contains("--"));
    match wanted {
        "REST" => found == "REFUSED" || ends_in_comment,
        _ => found == wanted,
    }
}

fn verdict(expression: &str, properties: &str) -> &'static str {
    let Ok(filter) = Filter::compile(expression) else { return "REFUSED" };
    match filter.value(properties, |value| value.map(Value::truth)) {
        Ok(Some(true)) => "TRUE",
        Ok(Some(false)) => "FALSE",
        Ok(None) => "NULL",
        Err(_) => "ERROR",
    }
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        match letters.next().expect("an escape has a letter") {
            't' => plain.push('\t'),
            'n' => plain.push('\n'),
            'r' => plain.push('\r'),
            'x' => {
                let digits: String = letters.by_ref().take(2).collect();
                plain.push(char::from(u8::from_str_radix(&digits, 16).expect("two hexadecimal digits")));
            }
            other => plain.push(other),
        }
    }
    plain
}
