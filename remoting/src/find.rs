//! Finding bytes in short texts, eight at a step. Texts of a header or of properties have a dozen bytes: a search made for
//! long ones spends more time on its beginning.

pub(crate) const EIGHT_ONES: u64 = 0x0101_0101_0101_0101;
pub(crate) const EIGHT_TOPS: u64 = 0x8080_8080_8080_8080;

/// Where the first of these bytes is.
#[inline]
pub(crate) fn position_of<const COUNT: usize>(text: &[u8], wanted: [u8; COUNT]) -> Option<usize> {
    let (chunks, tail) = text.as_chunks::<8>();
    let mut at = 0;
    for chunk in chunks {
        let word = u64::from_le_bytes(*chunk);
        let found = wanted.iter().fold(0, |found, byte| found | zero_bytes(word ^ (EIGHT_ONES * u64::from(*byte))));
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    tail.iter().position(|byte| wanted.contains(byte)).map(|position| at + position)
}

/// The top bit of each byte of `word` that is zero; bytes above the lowest such one may be marked wrongly.
#[inline]
pub(crate) fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(EIGHT_ONES) & !word & EIGHT_TOPS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_found_wherever_it_is() {
        for length in 0..40 {
            for at in 0..=length {
                let mut text: Vec<u8> = (0..length).map(|number| b'A' + number as u8 % 64).collect();
                text.retain(|byte| *byte != b'"' && *byte != b'\\');
                let at = at.min(text.len());
                text.insert(at, b'"');
                text.push(b'\\');
                text.push(b'"');
                assert_eq!(position_of(&text, [b'"']), Some(at));
                assert_eq!(position_of(&text, [b'\\', b'"']), Some(at));
                assert_eq!(position_of(&text, [b'\\']), Some(text.len() - 2));
                assert_eq!(position_of(&text, [1]), None);
            }
        }
        assert_eq!(position_of(&[0x80, 0xff, 0x22, 0x23, 0x21, 0, 0, 1], [0x22]), Some(2));
    }
}
