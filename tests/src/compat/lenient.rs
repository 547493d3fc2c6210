//! JSON as Java's brokers write it: keys of objects may be numbers, or objects themselves.

use std::collections::BTreeMap;

/// The leaves of a text by their paths, such as `.table.a` and `.list[0]`; a key that is an object stands in its path as
/// it is written. Empty lists and objects are leaves. `None` for what is no such text.
pub(super) fn leaves(text: &str) -> Option<BTreeMap<String, String>> {
    let mut reader = Reader { text, at: 0, leaves: BTreeMap::new() };
    reader.value(&mut String::new())?;
    reader.blanks();
    (reader.at == text.len()).then_some(reader.leaves)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    leaves: BTreeMap<String, String>,
}

impl<'a> Reader<'a> {
    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, letter: u8) -> bool {
        let there = self.peek() == Some(letter);
        self.at += usize::from(there);
        there
    }

    fn value(&mut self, path: &mut String) -> Option<()> {
        let depth = path.len();
        match self.peek()? {
            b'{' => {
                self.at += 1;
                if self.take(b'}') {
                    self.leaves.insert(path.clone(), "{}".to_owned());
                    return Some(());
                }
                loop {
                    let key = self.key()?;
                    self.take(b':').then_some(())?;
                    path.push('.');
                    path.push_str(&key);
                    self.value(path)?;
                    path.truncate(depth);
                    if self.take(b'}') {
                        return Some(());
                    }
                    self.take(b',').then_some(())?;
                }
            }
            b'[' => {
                self.at += 1;
                if self.take(b']') {
                    self.leaves.insert(path.clone(), "[]".to_owned());
                    return Some(());
                }
                for index in 0.. {
                    path.push_str(&format!("[{index}]"));
                    self.value(path)?;
                    path.truncate(depth);
                    if self.take(b']') {
                        return Some(());
                    }
                    self.take(b',').then_some(())?;
                }
                None
            }
            _ => {
                let leaf = self.scalar()?;
                self.leaves.insert(path.clone(), leaf);
                Some(())
            }
        }
    }

    /// A key: a text without its quotes, a number, or an object with its members in order.
    fn key(&mut self) -> Option<String> {
        if self.peek()? != b'{' {
            return self.scalar();
        }
        let start = self.at;
        let mut inner = Reader { text: self.text, at: self.at, leaves: BTreeMap::new() };
        inner.value(&mut String::new())?;
        self.at = inner.at;
        debug_assert!(self.at > start, "an object has letters");
        let members: Vec<String> = inner.leaves.iter().map(|(path, leaf)| format!("{}={leaf}", &path[1..])).collect();
        Some(format!("{{{}}}", members.join(",")))
    }

    fn scalar(&mut self) -> Option<String> {
        let quoted = self.peek()? == b'"';
        let rest: &'a str = &self.text[self.at..];
        let length = if quoted {
            let mut escaped = false;
            let end = rest[1..].find(|letter| {
                let is_end = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                is_end
            });
            end? + 2
        } else {
            rest.find([',', ':', '}', ']']).unwrap_or(rest.len())
        };
        self.at += length;
        let word = rest[..length].trim_end();
        match quoted {
            true => serde_json::from_str(word).ok(),
            false if word.is_empty() => None,
            false => Some(word.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_may_be_numbers_and_objects() {
        let text = r#"{"a":{0:"x:1",1:null}, "b":{{"topic":"T","queueId":2}:{"n":-1.5}},"c":[{},[],["\"q"]],"d":true}"#;
        let wanted = [
            (".a.0", "x:1"),
            (".a.1", "null"),
            (".b.{queueId=2,topic=T}.n", "-1.5"),
            (".c[0]", "{}"),
            (".c[1]", "[]"),
            (".c[2][0]", "\"q"),
            (".d", "true"),
        ];
        let found = leaves(text).expect("a text");
        assert_eq!(found.iter().map(|(path, leaf)| (&**path, &**leaf)).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn other_texts_are_told_apart() {
        for text in ["", "{", "{\"a\":1", "{\"a\"}", "{} x", "[1,]", "\"open"] {
            assert_eq!(leaves(text), None, "{text}");
        }
    }
}
