//! The script of a comparison: which requests are sent, in which order, over which connection.
//!
//! A line is a step, `#` begins a comment:
//!
//! | line | meaning |
//! | --- | --- |
//! | `name LINK CODE key=value … :: body` | a request, answered before the next step |
//! | `post name LINK CODE …` | a request whose answer is taken later |
//! | `collect name LINK` | the answer to what was posted last on that link |
//! | `await name LINK CODE :: body` | a request of the server; it is answered with 0 and that body unless it is one-way |
//! | `until key=value LINK CODE …` | a request, repeated until its answer has that field; not compared |
//! | `wait MS` | a pause, for what shows itself in no answer |
//! | `form NAME CODE key=value …` | a name for a code with fields, usable instead of a code |
//!
//! A link is a connection, opened when it is first named: those that begin with `ns` lead to the nameserver, the others
//! to the broker. Values with blanks stand in double quotes. `\xHH`, `\n`, `\t`, `\\` and `\"` are escapes; `$(now)` is the
//! time in milliseconds, `$(now+N)` later, `$(broker)` and `$(namesrv)` the addresses, `$(step.fact)` what an earlier
//! answer said.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub link: String,
    pub code: i32,
    /// Values as they are written, with their variables.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Call { name: String, request: Request },
    Post { name: String, request: Request },
    Collect { name: String, link: String },
    Await { name: String, request: Request },
    Until { field: String, value: String, request: Request },
    Wait { ms: u64 },
}

/// Reads a script.
///
/// # Errors
/// The first line that is no step.
pub fn parse(text: &str) -> Result<Vec<Step>, String> {
    let mut forms = BTreeMap::new();
    let mut steps = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let step = step(line, &mut forms).map_err(|reason| format!("line {number}: {reason}: {line}"))?;
        steps.extend(step);
    }
    Ok(steps)
}

type Forms = BTreeMap<String, (i32, Vec<(String, String)>)>;

fn step(line: &str, forms: &mut Forms) -> Result<Option<Step>, String> {
    let (head, body) = match line.split_once(" ::") {
        Some((head, body)) => (head, bytes(body.strip_prefix(' ').unwrap_or(body))?),
        None => (line, Vec::new()),
    };
    let words = words(head)?;
    let word = |index: usize| words.get(index).map(String::as_str).ok_or("a word is missing");
    let request = |forms: &Forms, at: usize| {
        let (code, mut fields) = match forms.get(word(at + 1)?) {
            Some((code, fields)) => (*code, fields.clone()),
            None => (word(at + 1)?.parse().map_err(|_| "neither a code nor a form")?, Vec::new()),
        };
        for field in &words[at + 2..] {
            let (key, value) = field.split_once('=').ok_or("a field is key=value")?;
            fields.retain(|(known, _)| known != key);
            // `key=-` leaves a field of a form out.
            if value != "-" {
                fields.push((key.to_owned(), value.to_owned()));
            }
        }
        Ok::<_, String>(Request { link: word(at)?.to_owned(), code, fields, body: body.clone() })
    };
    Ok(Some(match word(0)? {
        "form" => {
            let Request { link, code, fields, .. } = request(forms, 1)?;
            forms.insert(link, (code, fields));
            return Ok(None);
        }
        "wait" => Step::Wait { ms: word(1)?.parse().map_err(|_| "no number")? },
        "post" => Step::Post { name: word(1)?.to_owned(), request: request(forms, 2)? },
        "collect" => Step::Collect { name: word(1)?.to_owned(), link: word(2)?.to_owned() },
        "await" => Step::Await { name: word(1)?.to_owned(), request: request(forms, 2)? },
        "until" => {
            let (field, value) = word(1)?.split_once('=').ok_or("until needs key=value")?;
            Step::Until { field: field.to_owned(), value: value.to_owned(), request: request(forms, 2)? }
        }
        name => Step::Call { name: name.to_owned(), request: request(forms, 1)? },
    }))
}

/// The words of a line, split at blanks outside of double quotes, which are taken off.
fn words(head: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let (mut word, mut quoted, mut begun) = (String::new(), false, false);
    let mut letters = head.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => (quoted, begun) = (!quoted, true),
            '\\' => {
                word.push('\\');
                word.extend(letters.next());
                begun = true;
            }
            ' ' if !quoted => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            other => {
                word.push(other);
                begun = true;
            }
        }
    }
    if quoted {
        return Err("a quote does not end".to_owned());
    }
    if begun {
        words.push(word);
    }
    words.into_iter().map(|word| String::from_utf8(bytes(&word)?).map_err(|error| error.to_string())).collect()
}

/// A text with its escapes resolved.
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = rest[at + 1..].chars().next().ok_or("an escape has a letter")?;
        rest = &rest[at + 1 + escape.len_utf8()..];
        match escape {
            'n' => plain.push(b'\n'),
            't' => plain.push(b'\t'),
            'x' => {
                let digits = rest.get(..2).ok_or("two hexadecimal digits follow \\x")?;
                plain.push(u8::from_str_radix(digits, 16).map_err(|_| "two hexadecimal digits follow \\x")?);
                rest = &rest[2..];
            }
            other => plain.extend_from_slice(other.to_string().as_bytes()),
        }
    }
    plain.extend_from_slice(rest.as_bytes());
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(link: &str, code: i32, fields: &[(&str, &str)], body: &[u8]) -> Request {
        let fields = fields.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Request { link: link.to_owned(), code, fields, body: body.to_vec() }
    }

    #[test]
    fn lines_become_steps() {
        let text = r#"
# a comment
form send 310 a=pg e=0
one br send e=1 i="TAGS\x01A B" :: \x00 {"a":1}
until offset=3 br 30 a="" b=$(one.field.x)
collect two br
wait 5
"#;
        let wanted = vec![
            Step::Call {
                name: "one".to_owned(),
                request: request("br", 310, &[("a", "pg"), ("e", "1"), ("i", "TAGS\u{1}A B")], b"\0 {\"a\":1}"),
            },
            Step::Until {
                field: "offset".to_owned(),
                value: "3".to_owned(),
                request: request("br", 30, &[("a", ""), ("b", "$(one.field.x)")], b""),
            },
            Step::Collect { name: "two".to_owned(), link: "br".to_owned() },
            Step::Wait { ms: 5 },
        ];
        assert_eq!(parse(text), Ok(wanted));
    }

    #[test]
    fn other_lines_are_named() {
        for line in ["one br", "one br x", "one br 1 a", "wait x", "one br 1 a=\"b", "until x br 1", "one br 1 :: \\x0"]
        {
            let error = parse(line).expect_err(line);
            assert!(error.starts_with("line 1: ") && error.ends_with(line), "{error}");
        }
    }
}
