//! The lenient reader.

use serde_json::{Map, Number, Value};

use super::{DEPTH_MAX, JsonError};

/// Reads one value, which must fill the body but for blanks.
///
/// # Errors
/// Telling the byte and what is wrong there.
pub fn parse(body: &[u8]) -> Result<Value, JsonError> {
    let text = std::str::from_utf8(body)
        .map_err(|error| JsonError::Syntax { at: error.valid_up_to(), what: "the body is no UTF-8" })?;
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.blanks();
    if parser.at < text.len() {
        return Err(parser.wrong("something follows the value"));
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn wrong(&self, what: &'static str) -> JsonError {
        JsonError::Syntax { at: self.at, what }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.blanks();
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn value(&mut self, depth: usize) -> Result<Value, JsonError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("values are nested too deeply"));
        }
        self.blanks();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(quote @ (b'"' | b'\'')) => self.string(quote).map(Value::String),
            _ => self.bare_value(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.at += 1;
        let mut members = Map::new();
        while !self.take(b'}') {
            if !members.is_empty() && !self.take(b',') {
                return Err(self.wrong("a comma or the end of the object is missing"));
            }
            if self.take(b'}') {
                break;
            }
            let key = self.key(depth)?;
            if !self.take(b':') {
                return Err(self.wrong("a key without a colon"));
            }
            let value = self.value(depth + 1)?;
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }

    /// A key as a text: what is no text in the body becomes its own compact form.
    fn key(&mut self, depth: usize) -> Result<String, JsonError> {
        self.blanks();
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.string(quote),
            Some(b'{' | b'[') => self.value(depth + 1).map(|key| key.to_string()),
            _ => self.word("a key is missing").map(str::to_owned),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        while !self.take(b']') {
            if !items.is_empty() && !self.take(b',') {
                return Err(self.wrong("a comma or the end of the array is missing"));
            }
            if self.take(b']') {
                break;
            }
            items.push(self.value(depth + 1)?);
        }
        Ok(Value::Array(items))
    }

    fn word(&mut self, missing: &'static str) -> Result<&'a str, JsonError> {
        let start = self.at;
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_' | b'$');
        while self.peek().is_some_and(is_word) {
            self.at += 1;
        }
        if start == self.at {
            return Err(self.wrong(missing));
        }
        Ok(&self.text[start..self.at])
    }

    fn bare_value(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        let word = self.word("a value is missing")?;
        let value = match word {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            "null" | "NaN" => Some(Value::Null),
            _ => number(word),
        };
        value.ok_or(JsonError::Syntax { at: start, what: "neither a number nor a known word" })
    }

    fn string(&mut self, quote: u8) -> Result<String, JsonError> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let end = rest.bytes().position(|byte| byte == quote || byte == b'\\');
            let end = end.ok_or_else(|| self.wrong("a string does not end"))?;
            string.push_str(&rest[..end]);
            self.at += end + 1;
            if rest.as_bytes()[end] == quote {
                return Ok(string);
            }
            self.escape(&mut string)?;
        }
    }

    fn escape(&mut self, string: &mut String) -> Result<(), JsonError> {
        let escape = self.peek().ok_or_else(|| self.wrong("a string ends within an escape"))?;
        let character = match escape {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'v' => '\u{b}',
            b'"' | b'\'' | b'\\' | b'/' => char::from(escape),
            b'u' => {
                self.at += 1;
                string.push(self.unicode()?);
                return Ok(());
            }
            _ => return Err(self.wrong("an unknown escape")),
        };
        self.at += 1;
        string.push(character);
        Ok(())
    }

    /// The character behind `\u`. Half of a surrogate pair alone becomes the replacement character.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let unit = self.hex4()?;
        if !(0xd800..0xdc00).contains(&unit) || !self.text[self.at..].starts_with("\\u") {
            return Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let back = self.at;
        self.at += 2;
        let low = self.hex4()?;
        if !(0xdc00..0xe000).contains(&low) {
            self.at = back;
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let joined = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let digits =
            self.text.get(self.at..self.at + 4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.wrong("an escape without four hex digits"))?;
        self.at += 4;
        Ok(unit)
    }
}

fn number(word: &str) -> Option<Value> {
    if let Ok(number) = word.parse::<i64>() {
        return Some(Value::from(number));
    }
    if let Ok(number) = word.parse::<u64>() {
        return Some(Value::from(number));
    }
    // Only digits, signs, points and exponents: Rust's own reader also knows words such as "inf".
    if word.bytes().any(|byte| byte.is_ascii_alphabetic() && !matches!(byte, b'e' | b'E')) {
        return None;
    }
    word.parse().ok().and_then(Number::from_f64).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_json_is_read() {
        let text = r#" {"a" : [1, -2, 3.5, 1e3, true, false, null, "x\né\ud83d\ude00"], "b":{}, "c":[] , "d":18446744073709551615} "#;
        assert_eq!(
            parse(text.as_bytes()),
            Ok(json!({"a": [1, -2, 3.5, 1000.0, true, false, null, "x\né😀"], "b": {}, "c": [], "d": u64::MAX}))
        );
    }

    #[test]
    fn the_dialect_is_read() {
        let cases = [
            ("{0:\"a\",-1:\"b\",x_1:2,'q':'it\\'s'}", json!({"0": "a", "-1": "b", "x_1": 2, "q": "it's"})),
            ("{\"a\":1,}", json!({"a": 1})),
            ("[1,]", json!([1])),
            (
                r#"{"offsetTable":{{"topic":"T", "brokerName":"b","queueId":3}:5}}"#,
                json!({"offsetTable": {r#"{"brokerName":"b","queueId":3,"topic":"T"}"#: 5}}),
            ),
            (r#"{[1,2]:3}"#, json!({"[1,2]": 3})),
            ("\"\\ud83dx\"", json!("\u{fffd}x")),
        ];
        for (text, value) in cases {
            assert_eq!(parse(text.as_bytes()), Ok(value), "{text}");
        }
    }

    #[test]
    fn broken_bodies_are_refused() {
        let deep = "[".repeat(100_000);
        let deep_keys = "{".repeat(100_000);
        for text in [
            "",
            " ",
            "{",
            "[",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\" 1}",
            "{\"a\":1 \"b\":2}",
            "[1 2]",
            "\"a",
            "'a\"",
            "\"\\",
            "\"\\u12",
            "\"\\u12é4\"",
            "\"\\q\"",
            "inf",
            "1x",
            "--1",
            "{,}",
            "[,]",
            "1 2",
            &deep,
            &deep_keys,
            "{:1}",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{}", &text[..text.len().min(20)]);
        }
        assert_eq!(parse(&[b'"', 0xff, b'"']), Err(JsonError::Syntax { at: 1, what: "the body is no UTF-8" }));
    }
}
