//! Bodies in the peer's dialect of JSON.
//!
//! Reading accepts what its library writes besides JSON: keys that are bare numbers or words, keys that are objects
//! (they become their own compact text), texts in single quotes, missing values. Writing emits no blanks, keys in
//! alphabetical order because the structs are declared so, numbers as keys in quotes, and [`MessageQueue`] keys as
//! objects.
//!
//! [`MessageQueue`]: crate::body::MessageQueue

mod parse;
mod write;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

pub use parse::parse;
pub(crate) use write::RAW_KEY_MARK;

/// Nesting of a body. The deepest real one has 6 levels.
pub const DEPTH_MAX: usize = 64;

/// A body that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JsonError {
    #[error("the JSON body is wrong at byte {at}: {what}")]
    Syntax { at: usize, what: &'static str },
    #[error("the JSON body has not the expected shape: {what}")]
    Shape { what: String },
}

/// Reads a body as a `T`. Members whose value is `null` are as good as missing.
///
/// # Errors
/// When the text is no JSON, or not that of a `T`.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, JsonError> {
    let mut value = parse(body)?;
    drop_nulls(&mut value);
    serde_json::from_value(value).map_err(|error| JsonError::Shape { what: error.to_string() })
}

/// Writes a body.
///
/// # Panics
/// When `value` cannot be JSON, which no body of this crate is able to be.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Bytes {
    let mut out = Vec::with_capacity(256);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, write::Compact::default());
    value.serialize(&mut serializer).expect("bodies have only texts and numbers as keys");
    Bytes::from(out)
}

/// As [`encode`], for files.
///
/// # Panics
/// As [`encode`].
pub fn encode_text<T: Serialize + ?Sized>(value: &T) -> String {
    String::from_utf8(encode(value).into()).expect("JSON is UTF-8")
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn nulls_are_as_good_as_missing() {
        let map: BTreeMap<String, Vec<Option<i32>>> = decode(br#"{"a":null,"b":[1,null]}"#).unwrap();
        assert_eq!(map, [("b".to_owned(), vec![Some(1), None])].into());
    }

    #[test]
    fn errors_say_where_or_what() {
        let syntax = decode::<Value>(b"{\"a\":}").unwrap_err();
        assert_eq!(syntax.to_string(), "the JSON body is wrong at byte 5: a value is missing");
        let shape = decode::<BTreeMap<String, i32>>(br#"{"a":"x"}"#).unwrap_err();
        assert!(shape.to_string().starts_with("the JSON body has not the expected shape: "), "{shape}");
    }
}
