//! The text of a plan, and what is wrong at a place in it.

use std::fmt;
use std::ops::Range;

/// A text with the name it is called by.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// What is wrong with a plan, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// File, line and column; line and column count from 1.
    place: String,
    /// The line as it is, with a mark under what is meant.
    excerpt: String,
    what: String,
    hint: String,
}

impl PlanError {
    pub(crate) fn new(source: &Source, span: &Range<usize>, what: String, hint: String) -> PlanError {
        let start = span.start.min(source.text.len());
        let before = &source.text.as_bytes()[..start];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let line_at = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let text = source.text[line_at..].lines().next().unwrap_or_default();
        let column = source.text.get(line_at..start).map_or(1, |text| text.chars().count() + 1);
        let marks = span.end.min(line_at + text.len()).saturating_sub(start).max(1);
        let number = line.to_string();
        let gap = " ".repeat(number.len());
        let excerpt = format!("{number} | {text}\n{gap} | {}{}", " ".repeat(column - 1), "^".repeat(marks));
        PlanError { place: format!("{}:{line}:{column}", source.name), excerpt, what, hint }
    }

    /// One that comes from outside of the text.
    pub(crate) fn of(name: &str, what: String, hint: String) -> PlanError {
        PlanError { place: name.to_owned(), excerpt: String::new(), what, hint }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.what)?;
        if !self.excerpt.is_empty() {
            write!(out, "\n{}", self.excerpt)?;
        }
        if !self.hint.is_empty() {
            write!(out, "\nhint: {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanError {}

/// The word that is nearest to what was written, if any is near.
pub(crate) fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = (written.len() / 3).max(1);
    let distances = known.map(|word| (distance(written, word), word));
    distances.filter(|(distance, _)| *distance <= near).min().map(|(_, word)| word)
}

/// How many letters must be changed, added or left out to make one of the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().enumerate() {
        let mut corner = row[0];
        row[0] = index + 1;
        for column in 0..right.len() {
            let change = corner + usize::from(letter != right[column]);
            corner = row[column + 1];
            row[column + 1] = change.min(corner + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_its_place() {
        let source = Source { name: "a.toml".to_owned(), text: "x = 1\nrat = 5\n".to_owned() };
        let error = PlanError::new(&source, &(6..9), "no key rat".to_owned(), "did you mean rate?".to_owned());
        let expected = "a.toml:2:1: no key rat\n2 | rat = 5\n  | ^^^\nhint: did you mean rate?";
        assert_eq!(error.to_string(), expected);
        let past = PlanError::new(&source, &(14..14), "it ends".to_owned(), String::new());
        assert_eq!(past.to_string(), "a.toml:3:1: it ends\n3 | \n  | ^");
    }

    #[test]
    fn near_words_are_found_and_far_ones_not() {
        let known = ["rate", "rate_end", "queues", "size"];
        for (written, expected) in
            [("rat", Some("rate")), ("ratee", Some("rate")), ("queue", Some("queues")), ("colour", None), ("", None)]
        {
            assert_eq!(nearest(written, known.into_iter()), expected, "{written}");
        }
    }
}
