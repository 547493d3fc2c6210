//! Immutable UTF-8 text that shares its bytes with the frame it came in.
//!
//! A clone costs a reference count. A text cut from a frame keeps the whole frame alive; what is kept for long
//! (a topic name in a table) is therefore stored as [`Text::detached`].

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::str::Utf8Error;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Text of any length, valid UTF-8 by construction.
#[derive(Clone, Default)]
pub struct Text {
    bytes: Bytes,
}

impl Text {
    pub const EMPTY: Text = Text { bytes: Bytes::new() };

    /// Text that lives as long as the program; neither this nor its clones allocate.
    pub const fn from_static(text: &'static str) -> Text {
        Text { bytes: Bytes::from_static(text.as_bytes()) }
    }

    /// Takes the bytes over without copying them.
    ///
    /// # Errors
    /// When they are not UTF-8.
    pub fn from_utf8(bytes: Bytes) -> Result<Text, Utf8Error> {
        std::str::from_utf8(&bytes)?;
        Ok(Text { bytes })
    }

    /// Takes over bytes that the caller has checked. Should they not be UTF-8, the first look at them as a text panics.
    #[inline]
    pub(crate) fn from_checked(bytes: Bytes) -> Text {
        Text { bytes }
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("every constructor has checked these bytes")
    }

    /// The same text as bytes, without looking at them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A copy that holds only its own bytes, so that it does not keep a frame alive.
    pub fn detached(&self) -> Text {
        Text { bytes: Bytes::copy_from_slice(&self.bytes) }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.bytes == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.bytes == other.as_bytes()
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        self.bytes == other.as_bytes()
    }
}

impl PartialEq<Text> for str {
    fn eq(&self, other: &Text) -> bool {
        other == self
    }
}

impl PartialEq<Text> for &str {
    fn eq(&self, other: &Text) -> bool {
        other == *self
    }
}

/// The order of UTF-8 bytes is the order of `str`.
impl Ord for Text {
    fn cmp(&self, other: &Text) -> Ordering {
        self.bytes.cmp(&other.bytes)
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Text) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Equal to the hash of `str`, as `Borrow<str>` demands.
impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text { bytes: Bytes::copy_from_slice(text.as_bytes()) }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text { bytes: Bytes::from(text) }
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Text {
        Text::from(text.as_str())
    }
}

impl From<Text> for String {
    fn from(text: Text) -> String {
        text.as_str().to_owned()
    }
}

impl From<&Text> for Text {
    fn from(text: &Text) -> Text {
        text.clone()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(out)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), out)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        String::deserialize(deserializer).map(Text::from)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    #[test]
    fn maps_find_a_text_by_str() {
        let hashed: HashMap<Text, i32> = [(Text::from("主题"), 1)].into();
        let ordered: BTreeMap<Text, i32> = [(Text::from_static("a"), 1), (Text::from_static("B"), 2)].into();
        assert_eq!(hashed.get("主题"), Some(&1));
        assert_eq!(ordered.get("B"), Some(&2));
        assert_eq!(ordered.keys().map(Text::as_str).collect::<Vec<_>>(), ["B", "a"]);
    }

    #[test]
    fn bytes_that_are_not_text_are_refused() {
        assert!(Text::from_utf8(Bytes::from_static(&[0xc3, 0x28])).is_err());
        let text = Text::from_utf8(Bytes::from_static("é".as_bytes())).unwrap();
        assert_eq!((text.as_str(), text.len(), text == "é"), ("é", 2, true));
    }

    #[test]
    fn json_is_a_string() {
        let text: Text = serde_json::from_str(r#""a\nb""#).unwrap();
        assert_eq!(text, "a\nb");
        assert_eq!(serde_json::to_string(&text).unwrap(), r#""a\nb""#);
    }
}
