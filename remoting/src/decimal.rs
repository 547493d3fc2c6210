//! Decimal numbers written without the formatting machinery, which costs several times as much on short replies.

/// The longest text of an `i64`: a sign and 19 digits.
const DIGITS_MAX: usize = 20;

/// Text of a number, held in place.
pub(crate) struct Decimal {
    digits: [u8; DIGITS_MAX],
    start: usize,
}

impl Decimal {
    pub(crate) fn new(number: i64) -> Decimal {
        let mut decimal = Decimal { digits: [0; DIGITS_MAX], start: DIGITS_MAX };
        let mut rest = number.unsigned_abs();
        loop {
            decimal.start -= 1;
            decimal.digits[decimal.start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            decimal.start -= 1;
            decimal.digits[decimal.start] = b'-';
        }
        decimal
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("only digits and a sign were written")
    }
}

/// Reads a number: an optional sign and digits, nothing else. `None` when it is none or exceeds 64 bits.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    // Counted downwards, because the negative numbers reach one further.
    let mut number: i64 = 0;
    for digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_sub(i64::from(value))?;
    }
    if negative { Some(number) } else { number.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_formatters() {
        for number in [0, 1, -1, 9, 10, 99, 100, -2_147_483_648, 1_700_000_000_000, i64::MAX, i64::MIN] {
            assert_eq!(Decimal::new(number).as_str(), number.to_string());
            assert_eq!(parse(number.to_string().as_bytes()), Some(number));
        }
    }

    #[test]
    fn other_texts_are_no_numbers() {
        for text in ["", "-", "+", " 1", "1 ", "1.0", "0x1", "9223372036854775808", "-9223372036854775809", "1e3", "٣"]
        {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!((parse(b"+7"), parse(b"007"), parse(b"-0")), (Some(7), Some(7), Some(0)));
    }
}
