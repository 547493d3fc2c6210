//! What an expression says of one message. Three values: true, false and unknown; only true matches.

use super::expression::{Expression, Relation, Search};
use super::value::{Incomparable, Value};

/// What a message has of the properties that an expression names, by their places.
type Values<'v, 'a> = &'v [Option<&'a str>];

/// The value of an expression for a message with these values.
///
/// # Errors
/// When two values that meet cannot be compared, unless the result was certain before.
pub(super) fn evaluate<'a>(expression: &'a Expression, values: Values<'_, 'a>) -> Result<Value<'a>, Incomparable> {
    Ok(match expression {
        Expression::Literal(literal) => literal.value(),
        Expression::Property(name) => Value::of_property(values[*name]),
        Expression::Negated(of) => evaluate(of, values)?.negated(),
        condition => Value::of_truth(truth(condition, values)?),
    })
}

/// The truth of a condition; `None` is unknown.
fn truth(condition: &Expression, values: Values<'_, '_>) -> Result<Option<bool>, Incomparable> {
    match condition {
        Expression::Literal(_) | Expression::Property(_) | Expression::Negated(_) => {
            Ok(evaluate(condition, values)?.truth())
        }
        Expression::Condition(name) => Ok(values[*name].map(|_| false)),
        Expression::Not(of) => Ok(truth(of, values)?.map(|truth| !truth)),
        Expression::All(parts) => until(parts, values, false),
        Expression::Any(parts) => until(parts, values, true),
        Expression::Equal { left, right } => {
            let left = evaluate(left, values)?;
            left.equals(evaluate(right, values)?)
        }
        Expression::Related { relation, left, right } => related(*relation, evaluate(left, values)?, right, values),
        Expression::Between { negated, value, low, high } => {
            let value = evaluate(value, values)?;
            let (below, above, decided_by) = match negated {
                false => (Relation::GreaterOrEqual, Relation::LessOrEqual, false),
                true => (Relation::Less, Relation::Greater, true),
            };
            let first = related(below, value, low, values)?;
            if first == Some(decided_by) {
                return Ok(first);
            }
            let second = related(above, value, high, values)?;
            Ok(if second == Some(decided_by) || first.is_some() { second } else { None })
        }
        Expression::In { negated, property, texts } => {
            Ok(values[*property].map(|value| texts.iter().any(|text| **text == *value) != *negated))
        }
        Expression::Found { negated, search, within, text: wanted } => {
            if wanted.is_empty() {
                return Ok(Some(false));
            }
            let Value::Text(within) = evaluate(within, values)? else { return Ok(Some(false)) };
            let found = match search {
                Search::Contains => within.contains(&**wanted),
                Search::StartsWith => within.starts_with(&**wanted),
                Search::EndsWith => within.ends_with(&**wanted),
            };
            Ok(Some(found != *negated))
        }
    }
}

/// The truth that all parts share, or `decisive` when one of them is it. Nothing behind that one is looked at.
fn until(parts: &[Expression], values: Values<'_, '_>, decisive: bool) -> Result<Option<bool>, Incomparable> {
    let mut unknown = false;
    for part in parts {
        match truth(part, values)? {
            Some(truth) if truth == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok((!unknown).then_some(!decisive))
}

/// The right side of an unknown left one is not looked at.
fn related(
    relation: Relation,
    left: Value<'_>,
    right: &Expression,
    values: Values<'_, '_>,
) -> Result<Option<bool>, Incomparable> {
    if left == Value::Unknown {
        return Ok(None);
    }
    let right = evaluate(right, values)?;
    if right == Value::Unknown {
        return Ok(None);
    }
    let order = left.order_as_numbers(right)?;
    Ok(Some(match relation {
        Relation::Less => order.is_lt(),
        Relation::LessOrEqual => order.is_le(),
        Relation::Greater => order.is_gt(),
        Relation::GreaterOrEqual => order.is_ge(),
    }))
}
