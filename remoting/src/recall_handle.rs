//! The handle by which a producer takes a timed message back: base64 (the alphabet for URLs, padded) of
//! `v1 TOPIC BROKER TIME UNIQUE_KEY`, where TIME is one millisecond behind the time of delivery.

use base::Millis;
use thiserror::Error;

use crate::text::Text;

const VERSION: &str = "v1";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const PADDING: char = '=';

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallHandle {
    pub topic: Text,
    pub broker: Text,
    /// The time of delivery.
    pub due: Millis,
    pub unique_key: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is no recall handle: use the one that the answer to the send told")]
pub struct RecallHandleError {
    text: String,
}

impl RecallHandle {
    pub fn encode(&self) -> String {
        let due = self.due.0 + 1;
        to_base64(format!("{VERSION} {} {} {due} {}", self.topic, self.broker, self.unique_key).as_bytes())
    }

    /// # Errors
    /// When the text is none.
    pub fn decode(text: &str) -> Result<RecallHandle, RecallHandleError> {
        RecallHandle::read(text).ok_or_else(|| RecallHandleError { text: text.to_owned() })
    }

    fn read(text: &str) -> Option<RecallHandle> {
        let plain = String::from_utf8(from_base64(text)?).ok()?;
        let mut words = plain.split(' ');
        let version = words.next()?;
        let handle = RecallHandle {
            topic: Text::from(words.next()?),
            broker: Text::from(words.next()?),
            due: Millis(words.next()?.parse::<u64>().ok()?.checked_sub(1)?),
            unique_key: Text::from(words.next()?),
        };
        (version == VERSION && words.next().is_none()).then_some(handle)
    }
}

fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) as usize % ALPHABET.len();
            text.push(if digit <= group.len() { char::from(ALPHABET[value]) } else { PADDING });
        }
    }
    text
}

/// With or without its padding.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches(PADDING).as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for digit in group {
            bits = bits << 6 | ALPHABET.iter().position(|letter| letter == digit)? as u32;
        }
        let count = group.len().checked_sub(1).filter(|count| *count > 0)?;
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..=count]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> RecallHandle {
        RecallHandle {
            topic: Text::from("T%x"),
            broker: Text::from("b"),
            due: Millis(1_700_000_000_000),
            unique_key: Text::from("7F0000010001"),
        }
    }

    #[test]
    fn a_handle_comes_back_as_the_peer_writes_it() {
        let text = handle().encode();
        assert_eq!(text, "djEgVCV4IGIgMTcwMDAwMDAwMDAwMSA3RjAwMDAwMTAwMDE=");
        assert_eq!(RecallHandle::decode(&text), Ok(handle()));
        assert_eq!(RecallHandle::decode(text.trim_end_matches('=')), Ok(handle()));
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        for (plain, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("?>~", "Pz5-"), ("\u{ff}", "w78=")]
        {
            assert_eq!(to_base64(plain.as_bytes()), text);
            assert_eq!(from_base64(text).as_deref(), Some(plain.as_bytes()));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let of = |plain: &str| to_base64(plain.as_bytes());
        for text in
            ["", "A", "!!!!", "Zm9v", &of("v2 T b 5 k"), &of("v1 T b 0 k"), &of("v1 T b x k"), &of("v1 T b 5 k z")]
        {
            assert!(RecallHandle::decode(text).is_err(), "{text:?}");
        }
    }
}
