//! A frame taken apart: each thing that it says by a name, so that two can be compared.

use std::collections::BTreeMap;

use crate::frame::Frame;
use crate::record::decode_all;

use super::lenient;

/// Name and value of all that a frame says: `code`, `remark`, `field.NAME`, and `body…` by its kind.
pub type Facts = BTreeMap<String, String>;

pub fn of(frame: &Frame) -> Facts {
    let mut facts = Facts::from([("code".to_owned(), frame.code.to_string())]);
    if !frame.remark.is_empty() {
        facts.insert("remark".to_owned(), frame.remark.clone());
    }
    for (name, value) in &frame.fields {
        match name.as_str() {
            "properties" => properties(&format!("field.{name}"), value, &mut facts),
            _ => {
                facts.insert(format!("field.{name}"), value.clone());
            }
        }
    }
    body(&frame.body, &mut facts);
    facts
}

/// The properties of a message one by one.
fn properties(prefix: &str, text: &str, facts: &mut Facts) {
    let entries = text.split('\u{2}').filter_map(|entry| entry.split_once('\u{1}'));
    facts.extend(entries.map(|(name, value)| (format!("{prefix}.{name}"), value.to_owned())));
}

/// Records one by one, JSON by its leaves, properties by their keys, anything else as it is.
fn body(bytes: &[u8], facts: &mut Facts) {
    if bytes.is_empty() {
        return;
    }
    if let Ok(records) = decode_all(bytes) {
        facts.insert("body.records".to_owned(), records.len().to_string());
        for (index, record) in records.iter().enumerate() {
            let mut fact = |name: &str, value: String| {
                facts.insert(format!("body[{index}].{name}"), value);
            };
            fact("topic", record.topic.clone());
            fact("queueId", record.queue_id.to_string());
            fact("queueOffset", record.queue_offset.to_string());
            fact("physicalOffset", record.physical_offset.to_string());
            fact("storeTime", record.store_ms.to_string());
            fact("reconsumeTimes", record.reconsume_times.to_string());
            fact("body", String::from_utf8_lossy(&record.body).into_owned());
            properties(&format!("body[{index}].property"), &record.properties, facts);
        }
        return;
    }
    let text = String::from_utf8_lossy(bytes);
    if let Some(leaves) = text.starts_with(['{', '[']).then(|| lenient::leaves(&text)).flatten() {
        facts.extend(leaves.into_iter().map(|(path, leaf)| (format!("body{path}"), leaf)));
        return;
    }
    let lines: Option<Vec<(&str, &str)>> = text.lines().map(|line| line.split_once('=')).collect();
    match lines {
        Some(lines) => facts.extend(lines.iter().map(|(key, value)| (format!("body.{key}"), (*value).to_owned()))),
        None => {
            facts.insert("body".to_owned(), text.into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_taken_apart_by_their_kind() {
        for (body, wanted) in [
            ("", vec![]),
            ("{\"a\":[1]}", vec![("body.a[0]", "1")]),
            ("a=1\nb=\nc=x=y\n", vec![("body.a", "1"), ("body.b", ""), ("body.c", "x=y")]),
            ("words", vec![("body", "words")]),
        ] {
            let facts = of(&Frame::request(0).body(body));
            let found: Vec<(&str, &str)> = facts.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(found[..found.len() - 1], wanted, "{body}");
        }
    }
}
