//! The body of a batch send: small records without a place, one behind the other.
//!
//! ```text
//! i32 total bytes, i32 magic (ignored), i32 crc (ignored), i32 flag, i32 body bytes, body, i16 properties bytes,
//! properties
//! ```

use thiserror::Error;

/// Bytes of an item besides body and properties.
const ITEM_FIXED_BYTES: usize = 4 + 4 + 4 + 4 + 4 + 2;

/// One message of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchItem<'a> {
    pub flag: i32,
    pub body: &'a [u8],
    pub properties: &'a str,
}

/// A batch body that is none; the whole batch is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("message {number} of the batch, at byte {at} of its body, is malformed: {what}")]
pub struct BatchError {
    /// Counted from 0.
    pub number: usize,
    pub at: usize,
    pub what: &'static str,
}

/// The messages of a batch body. Ends behind the first that cannot be read.
#[derive(Clone, Debug)]
pub struct BatchItems<'a> {
    body: &'a [u8],
    at: usize,
    number: usize,
}

impl<'a> BatchItems<'a> {
    pub fn new(body: &'a [u8]) -> BatchItems<'a> {
        BatchItems { body, at: 0, number: 0 }
    }
}

impl<'a> Iterator for BatchItems<'a> {
    type Item = Result<BatchItem<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.body.len() {
            return None;
        }
        let (number, at) = (self.number, self.at);
        match item(&self.body[at..]) {
            Ok((item, total_bytes)) => {
                self.at += total_bytes;
                self.number += 1;
                Some(Ok(item))
            }
            Err(what) => {
                self.at = self.body.len();
                Some(Err(BatchError { number, at, what }))
            }
        }
    }
}

/// Appends one item, for those who send batches.
///
/// # Panics
/// When body or properties exceed what their lengths can tell.
pub fn encode_item(item: &BatchItem<'_>, out: &mut Vec<u8>) {
    let total_bytes = ITEM_FIXED_BYTES + item.body.len() + item.properties.len();
    let total_bytes = i32::try_from(total_bytes).expect("a batch item is below 2 GiB");
    let properties_bytes = i16::try_from(item.properties.len()).expect("properties are at most 32,767 bytes");
    out.extend_from_slice(&total_bytes.to_be_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&item.flag.to_be_bytes());
    out.extend_from_slice(&(item.body.len() as i32).to_be_bytes());
    out.extend_from_slice(item.body);
    out.extend_from_slice(&properties_bytes.to_be_bytes());
    out.extend_from_slice(item.properties.as_bytes());
}

fn item(bytes: &[u8]) -> Result<(BatchItem<'_>, usize), &'static str> {
    let (total, rest) = bytes.split_first_chunk::<4>().ok_or("its length is cut")?;
    let total_bytes = i32::from_be_bytes(*total);
    let total = usize::try_from(total_bytes).map_err(|_| "its length is negative")?;
    if total < ITEM_FIXED_BYTES || total > bytes.len() {
        return Err("its length is out of range");
    }
    let rest = &rest[8..total - 4];
    let (flag, rest) = rest.split_first_chunk::<4>().ok_or("its flag is cut")?;
    let (body_bytes, rest) = rest.split_first_chunk::<4>().ok_or("its body is cut")?;
    let body_bytes = usize::try_from(i32::from_be_bytes(*body_bytes)).map_err(|_| "its body length is negative")?;
    let (body, rest) = rest.split_at_checked(body_bytes).ok_or("its body is longer than it")?;
    let (properties_bytes, properties) = rest.split_first_chunk::<2>().ok_or("its properties are cut")?;
    let properties_bytes = i16::from_be_bytes(*properties_bytes);
    if usize::try_from(properties_bytes) != Ok(properties.len()) {
        return Err("its lengths do not add up");
    }
    let properties = std::str::from_utf8(properties).map_err(|_| "its properties are no UTF-8")?;
    Ok((BatchItem { flag: i32::from_be_bytes(*flag), body, properties }, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back() {
        let items = [
            BatchItem { flag: 0, body: b"one", properties: "TAGS\u{1}a\u{2}" },
            BatchItem { flag: -1, body: b"", properties: "" },
        ];
        let mut body = Vec::new();
        items.iter().for_each(|item| encode_item(item, &mut body));
        assert_eq!(BatchItems::new(&body).collect::<Result<Vec<_>, _>>(), Ok(items.to_vec()));
        for bytes in 1..body.len() {
            let read: Vec<_> = BatchItems::new(&body[..bytes]).collect();
            let whole = bytes == ITEM_FIXED_BYTES + 3 + 7;
            assert_eq!(read.last().is_some_and(Result::is_err), !whole, "cut at {bytes}: {read:?}");
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let mut good = Vec::new();
        encode_item(&BatchItem { flag: 0, body: b"body", properties: "a\u{1}b\u{2}" }, &mut good);
        let places = [(0, "length"), (16, "body length"), (24, "properties length")];
        for (at, what) in places {
            for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                let same = bad == good;
                assert_eq!(BatchItems::new(&bad).all(|item| item.is_ok()), same, "{what} {value}");
            }
        }
        let error = BatchItems::new(&[0; 30]).next().unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "message 0 of the batch, at byte 0 of its body, is malformed: its length is out of range"
        );
    }
}
