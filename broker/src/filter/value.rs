//! Values of an expression, and how two of them compare.
//!
//! Properties are texts. A text that meets a number is read as a number of that kind: a whole number in the range of
//! the other side, or a decimal. Where it can't be read so, the whole expression has no result for that message.

use std::cmp::Ordering;

/// A comparison without a result. It ends the evaluation: the message does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Incomparable;

/// What a part of an expression is for one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// Of a property that the message does not have, and of what depends on it.
    Unknown,
    Boolean(bool),
    /// A whole number of 32 bits; literals are of the smallest kind that holds them.
    Integer(i32),
    Long(i64),
    Double(f64),
    Text(&'a str),
}

impl<'a> Value<'a> {
    pub(super) fn of_property(value: Option<&'a str>) -> Value<'a> {
        value.map_or(Value::Unknown, Value::Text)
    }

    pub(super) fn of_truth(truth: Option<bool>) -> Value<'a> {
        truth.map_or(Value::Unknown, Value::Boolean)
    }

    /// As a condition; what is no boolean counts as unknown.
    pub(super) fn truth(self) -> Option<bool> {
        if let Value::Boolean(truth) = self { Some(truth) } else { None }
    }

    /// The number with its sign turned. Of a text, even one of digits, it is unknown.
    pub(super) fn negated(self) -> Value<'a> {
        match self {
            Value::Integer(number) => Value::Integer(number.wrapping_neg()),
            Value::Long(number) => Value::Long(number.wrapping_neg()),
            Value::Double(number) => Value::Double(-number),
            Value::Unknown | Value::Boolean(_) | Value::Text(_) => Value::Unknown,
        }
    }

    /// `=`: not quite symmetric. Nothing is known of an unknown left side; a known one differs from an unknown right.
    pub(super) fn equals(self, right: Value<'_>) -> Result<Option<bool>, Incomparable> {
        Ok(match (self, right) {
            (Value::Unknown, Value::Unknown) => Some(true),
            (Value::Unknown, _) => None,
            (_, Value::Unknown) => Some(false),
            (left, right) => Some(left.order(right)?.is_eq()),
        })
    }

    /// The order of two known values under `<`, `<=`, `>` and `>=`. Two texts compare as decimals.
    pub(super) fn order_as_numbers(self, right: Value<'_>) -> Result<Ordering, Incomparable> {
        if let (Value::Text(left), Value::Text(right)) = (self, right) {
            return Ok(double_order(read_double(left)?, read_double(right)?));
        }
        self.order(right)
    }

    /// Values that have nothing in common are not equal: the left one counts as less.
    fn order(self, right: Value<'_>) -> Result<Ordering, Incomparable> {
        use Value::{Boolean, Double, Integer, Long, Text};
        Ok(match (self, right) {
            (Boolean(left), Boolean(right)) => left.cmp(&right),
            (Text(left), Text(right)) => left.cmp(right),
            (Integer(left), Integer(right)) => left.cmp(&right),
            (Long(left), Long(right)) => left.cmp(&right),
            (Double(left), Double(right)) => double_order(left, right),

            (Integer(left), Long(right)) => i64::from(left).cmp(&right),
            (Long(left), Integer(right)) => left.cmp(&i64::from(right)),
            (Integer(left), Double(right)) => double_order(f64::from(left), right),
            (Double(left), Integer(right)) => double_order(left, f64::from(right)),
            (Long(left), Double(right)) => double_order(left as f64, right),
            (Double(left), Long(right)) => double_order(left, right as f64),

            (Text(left), Boolean(right)) => left.eq_ignore_ascii_case("true").cmp(&right),
            (Text(left), Integer(right)) => read_integer(left)?.cmp(&right),
            (Text(left), Long(right)) => read_long(left)?.cmp(&right),
            (Text(left), Double(right)) => double_order(read_double(left)?, right),
            (Integer(left), Text(right)) => left.cmp(&read_integer(right)?),
            (Long(left), Text(right)) => left.cmp(&read_long(right)?),
            (Double(left), Text(right)) => double_order(left, read_double(right)?),
            // Only the other way round is a text read as a truth.
            (Boolean(_), Text(_)) => return Err(Incomparable),

            (Boolean(_), _) | (_, Boolean(_)) => Ordering::Less,
            (Value::Unknown, _) | (_, Value::Unknown) => unreachable!("unknown values are not compared"),
        })
    }
}

/// An order of all decimals: NaN is equal to itself and above all, 0.0 is above -0.0.
fn double_order(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (false, false) => left.total_cmp(&right),
        (left, right) => left.cmp(&right),
    }
}

fn read_integer(text: &str) -> Result<i32, Incomparable> {
    text.parse().map_err(|_| Incomparable)
}

fn read_long(text: &str) -> Result<i64, Incomparable> {
    text.parse().map_err(|_| Incomparable)
}

/// A decimal as Java writes and reads them: spaces around it, a sign, an exponent and a closing `f` or `d` may be there.
fn read_double(text: &str) -> Result<f64, Incomparable> {
    let text = text.trim_matches(|letter: char| letter <= ' ');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    match unsigned {
        "NaN" => return Ok(f64::NAN),
        "Infinity" => return Ok(sign * f64::INFINITY),
        _ => {}
    }
    let digits = unsigned.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(unsigned);
    // The names that Rust has for what is no number are none in Java.
    let is_number = digits.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.');
    let number: f64 = if is_number { digits.parse().map_err(|_| Incomparable)? } else { return Err(Incomparable) };
    Ok(sign * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_as_java_reads_them() {
        let cases = [
            ("5", Ok(5.0)),
            (" 5.5\t", Ok(5.5)),
            ("-.5", Ok(-0.5)),
            ("+5.", Ok(5.0)),
            ("5e3", Ok(5000.0)),
            ("5E-1d", Ok(0.5)),
            ("7F", Ok(7.0)),
            ("-Infinity", Ok(f64::NEG_INFINITY)),
            ("1e999", Ok(f64::INFINITY)),
            ("inf", Err(Incomparable)),
            ("nan", Err(Incomparable)),
            ("infinity", Err(Incomparable)),
            ("", Err(Incomparable)),
            (".", Err(Incomparable)),
            ("--5", Err(Incomparable)),
            ("- 5", Err(Incomparable)),
            ("5ff", Err(Incomparable)),
            ("e5", Err(Incomparable)),
            ("1_000", Err(Incomparable)),
        ];
        for (text, wanted) in cases {
            assert_eq!(read_double(text), wanted, "{text:?}");
        }
        assert!(read_double("-NaN").is_ok_and(f64::is_nan));
        assert!(read_double("-0").is_ok_and(|zero| zero.is_sign_negative()));
    }

    #[test]
    fn whole_numbers_stay_within_their_kind() {
        let text = Value::Text;
        let cases = [
            (text("5"), Value::Integer(5), Ok(Ordering::Equal)),
            (text("+5"), Value::Integer(5), Ok(Ordering::Equal)),
            (text("5.0"), Value::Integer(5), Err(Incomparable)),
            (text(" 5"), Value::Integer(5), Err(Incomparable)),
            (text("2147483648"), Value::Integer(5), Err(Incomparable)),
            (text("2147483648"), Value::Long(5), Ok(Ordering::Greater)),
            (text("9223372036854775808"), Value::Long(5), Err(Incomparable)),
            (text("9223372036854775808"), Value::Double(5.0), Ok(Ordering::Greater)),
            (Value::Integer(5), Value::Long(5), Ok(Ordering::Equal)),
            (Value::Long(5), Value::Double(5.5), Ok(Ordering::Less)),
            (Value::Boolean(true), Value::Integer(1), Ok(Ordering::Less)),
            (Value::Integer(1), Value::Boolean(true), Ok(Ordering::Less)),
            (Value::Boolean(true), text("true"), Err(Incomparable)),
            (text("TRUE"), Value::Boolean(true), Ok(Ordering::Equal)),
        ];
        for (left, right, wanted) in cases {
            assert_eq!(left.order(right), wanted, "{left:?} and {right:?}");
        }
        assert_eq!(double_order(f64::NAN, f64::INFINITY), Ordering::Greater);
        assert_eq!(double_order(f64::NAN, f64::NAN), Ordering::Equal);
        assert_eq!(double_order(-0.0, 0.0), Ordering::Less);
    }

    #[test]
    fn only_numbers_have_a_sign() {
        assert_eq!(Value::Integer(3).negated(), Value::Integer(-3));
        assert_eq!(Value::Double(0.5).negated(), Value::Double(-0.5));
        assert_eq!(Value::Text("3").negated(), Value::Unknown);
        assert_eq!(Value::Boolean(true).negated(), Value::Unknown);
    }
}
