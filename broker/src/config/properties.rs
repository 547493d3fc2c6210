//! Texts in the format of Java properties.
//!
//! `key=value`, `key:value` or `key value`, comments with `#` or `!`, a line that ends with `\` goes on in the next one,
//! `\uXXXX` for any letter. A file may be in ISO-8859-1, as Java has it, or in UTF-8.

use std::ops::Range;

/// One key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: String,
    /// Where it begins, from 1.
    pub(super) line: usize,
    /// The bytes of the text that spell the value, continuations included, the line's end not.
    pub(super) spelled: Range<usize>,
}

/// A text that is no properties text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PropertiesError {
    pub(super) line: usize,
    pub(super) what: String,
}

/// The letters of a file: UTF-8 if it is that, else ISO-8859-1, in which every file is something.
pub(super) fn decode(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text).to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// All entries in order. A key may occur several times; the last one counts.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>, PropertiesError> {
    let mut entries = Vec::new();
    let mut at = 0;
    let mut line = 1;
    while at < text.len() {
        let logical = logical_line(text, at);
        let body = &text[logical.clone()];
        let start = logical.start + (body.len() - body.trim_start_matches(is_blank).len());
        let body = &text[start..logical.end];
        if !body.is_empty() && !body.starts_with(['#', '!']) {
            entries.push(entry(text, start..logical.end, line)?);
        }
        let end = after_line_end(text, logical.end);
        line += line_ends(&text[at..end]);
        at = end;
    }
    Ok(entries)
}

/// The value as it is written into a file: pure ASCII, so that it reads the same in both encodings.
pub(super) fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for letter in value.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(letter),
            _ => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\u{c}')
}

/// From `at` to the end of the line and of the lines it goes on in. A comment does not go on.
fn logical_line(text: &str, at: usize) -> Range<usize> {
    let comment = text[at..].trim_start_matches(is_blank).starts_with(['#', '!']);
    let mut end = natural_line_end(text, at);
    while !comment && end < text.len() && ends_with_odd_backslashes(&text[at..end]) {
        end = natural_line_end(text, after_line_end(text, end));
    }
    at..end
}

fn natural_line_end(text: &str, at: usize) -> usize {
    text[at..].find(['\n', '\r']).map_or(text.len(), |length| at + length)
}

fn after_line_end(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    at + if rest.starts_with("\r\n") { 2 } else { usize::from(!rest.is_empty()) }
}

fn line_ends(text: &str) -> usize {
    text.matches('\n').count() + text.matches('\r').count() - text.matches("\r\n").count()
}

fn ends_with_odd_backslashes(text: &str) -> bool {
    (text.len() - text.trim_end_matches('\\').len()) % 2 == 1
}

/// Splits a logical line that begins with its key.
fn entry(text: &str, range: Range<usize>, line: usize) -> Result<Entry, PropertiesError> {
    let body = &text[range.clone()];
    let key_bytes = key_length(body);
    let mut value = body[key_bytes..].trim_start_matches(is_blank);
    if let Some(rest) = value.strip_prefix(['=', ':']) {
        value = rest.trim_start_matches(is_blank);
    }
    let value_start = range.end - value.len();
    let wrong = |what| PropertiesError { line, what };
    Ok(Entry {
        key: unescaped(&body[..key_bytes]).map_err(wrong)?,
        value: unescaped(value).map_err(wrong)?.trim().to_owned(),
        line,
        spelled: value_start..range.end,
    })
}

fn key_length(body: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in body.char_indices() {
        if !escaped && (is_blank(letter) || letter == '=' || letter == ':') {
            return at;
        }
        escaped = letter == '\\' && !escaped;
    }
    body.len()
}

/// Resolves escapes and joins continued lines.
fn unescaped(text: &str) -> Result<String, String> {
    // Letters beyond 16 bits are escaped as two, so escapes are collected before they become letters.
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            push(&mut units, letter);
            continue;
        }
        match letters.next() {
            None => {}
            Some(end @ ('\n' | '\r')) => {
                if end == '\r' {
                    letters.next_if_eq(&'\n');
                }
                while letters.next_if(|letter| is_blank(*letter)).is_some() {}
            }
            Some('t') => push(&mut units, '\t'),
            Some('n') => push(&mut units, '\n'),
            Some('r') => push(&mut units, '\r'),
            Some('f') => push(&mut units, '\u{c}'),
            Some('u') => units.push(hex_unit(&mut letters)?),
            Some(other) => push(&mut units, other),
        }
    }
    Ok(String::from_utf16_lossy(&units))
}

fn push(units: &mut Vec<u16>, letter: char) {
    units.extend_from_slice(letter.encode_utf16(&mut [0; 2]));
}

/// The four hex digits after `\u`.
fn hex_unit(letters: &mut impl Iterator<Item = char>) -> Result<u16, String> {
    let digits: String = letters.take(4).collect();
    let good = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let unit = good.then(|| u16::from_str_radix(&digits, 16).ok()).flatten();
    unit.ok_or_else(|| {
        format!("\\u{digits} is not a letter; four hex digits must follow \\u, and \\\\ is one backslash")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String, usize)> {
        parse(text).expect("a good text").into_iter().map(|entry| (entry.key, entry.value, entry.line)).collect()
    }

    #[test]
    fn texts_are_read_as_java_reads_them() {
        type Case = (&'static str, &'static [(&'static str, &'static str, usize)]);
        let cases: &[Case] = &[
            ("", &[]),
            ("\n\r\n  \n", &[]),
            ("a=b", &[("a", "b", 1)]),
            ("a = b  \r\nc:d\re f", &[("a", "b", 1), ("c", "d", 2), ("e", "f", 3)]),
            ("# a=b\n  ! c=d\n e=f", &[("e", "f", 3)]),
            ("# goes not on \\\na=b", &[("a", "b", 2)]),
            ("a=b\\\n   c\\\r\n\td\ne=f", &[("a", "bcd", 1), ("e", "f", 4)]),
            ("a=b\\\\\nc=d", &[("a", "b\\", 1), ("c", "d", 2)]),
            ("a=b\\", &[("a", "b", 1)]),
            ("a\\=b=c\\:d", &[("a=b", "c:d", 1)]),
            ("a=\\u0041\\u00e9\\ud83d\\ude00\\t.", &[("a", "A\u{e9}\u{1f600}\t.", 1)]),
            ("a=b # c", &[("a", "b # c", 1)]),
            ("a", &[("a", "", 1)]),
            ("a=", &[("a", "", 1)]),
            ("a==b", &[("a", "=b", 1)]),
            ("a=1\na=2", &[("a", "1", 1), ("a", "2", 2)]),
            ("\u{e9}=\u{fc}", &[("\u{e9}", "\u{fc}", 1)]),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|(k, v, line)| (k.to_string(), v.to_string(), *line)).collect();
            assert_eq!(pairs(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_broken_escape_names_its_line() {
        for text in ["a=b\nc=\\u12", "a=b\nc=\\uzzzz", "a=b\nc=\\u+123"] {
            assert_eq!(parse(text).unwrap_err().line, 2, "{text:?}");
        }
    }

    #[test]
    fn the_spelled_range_is_the_value() {
        let text = "# c\na = b\\\n c  \r\nd=\ne";
        let spelled: Vec<_> = parse(text).expect("good").into_iter().map(|entry| &text[entry.spelled]).collect();
        assert_eq!(spelled, ["b\\\n c  ", "", ""]);
    }

    #[test]
    fn both_encodings_are_read() {
        assert_eq!(decode("a=\u{e9}".as_bytes()), "a=\u{e9}");
        assert_eq!(decode(b"a=\xe9"), "a=\u{e9}");
        assert_eq!(decode(b"\xef\xbb\xbfa=b"), "a=b");
    }

    #[test]
    fn what_is_escaped_reads_back() {
        for value in ["", "plain", "a\\b", "C:\\n", "\u{e9}\u{1f600}", "a = b", "tab\there"] {
            assert_eq!(pairs(&format!("k={}", escaped(value))), [("k".to_owned(), value.to_owned(), 1)]);
        }
    }
}
