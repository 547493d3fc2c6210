//! What an expression says of one message. Three values: true, false and unknown; only true matches.

use remoting::properties;

use super::expression::{Expression, Relation, Search};
use super::value::{Incomparable, Value};

/// The value of an expression for a message with these properties.
///
/// # Errors
/// When two values that meet cannot be compared, unless the result was certain before.
pub(super) fn evaluate<'a>(expression: &'a Expression, text: &'a str) -> Result<Value<'a>, Incomparable> {
    Ok(match expression {
        Expression::Literal(literal) => literal.value(),
        Expression::Property(name) => Value::of_property(properties::get(text, name)),
        Expression::Negated(of) => evaluate(of, text)?.negated(),
        condition => Value::of_truth(truth(condition, text)?),
    })
}

/// The truth of a condition; `None` is unknown.
fn truth(condition: &Expression, text: &str) -> Result<Option<bool>, Incomparable> {
    match condition {
        Expression::Literal(_) | Expression::Property(_) | Expression::Negated(_) => {
            Ok(evaluate(condition, text)?.truth())
        }
        Expression::Condition(name) => Ok(properties::get(text, name).map(|_| false)),
        Expression::Not(of) => Ok(truth(of, text)?.map(|truth| !truth)),
        Expression::All(parts) => until(parts, text, false),
        Expression::Any(parts) => until(parts, text, true),
        Expression::Equal { left, right } => {
            let left = evaluate(left, text)?;
            left.equals(evaluate(right, text)?)
        }
        Expression::Related { relation, left, right } => related(*relation, evaluate(left, text)?, right, text),
        Expression::Between { negated, value, low, high } => {
            let value = evaluate(value, text)?;
            let (below, above, decided_by) = match negated {
                false => (Relation::GreaterOrEqual, Relation::LessOrEqual, false),
                true => (Relation::Less, Relation::Greater, true),
            };
            let first = related(below, value, low, text)?;
            if first == Some(decided_by) {
                return Ok(first);
            }
            let second = related(above, value, high, text)?;
            Ok(if second == Some(decided_by) || first.is_some() { second } else { None })
        }
        Expression::In { negated, property, texts } => {
            Ok(properties::get(text, property).map(|value| texts.iter().any(|text| **text == *value) != *negated))
        }
        Expression::Found { negated, search, within, text: wanted } => {
            if wanted.is_empty() {
                return Ok(Some(false));
            }
            let Value::Text(within) = evaluate(within, text)? else { return Ok(Some(false)) };
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
fn until(parts: &[Expression], text: &str, decisive: bool) -> Result<Option<bool>, Incomparable> {
    let mut unknown = false;
    for part in parts {
        match truth(part, text)? {
            Some(truth) if truth == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok((!unknown).then_some(!decisive))
}

/// The right side of an unknown left one is not looked at.
fn related(relation: Relation, left: Value<'_>, right: &Expression, text: &str) -> Result<Option<bool>, Incomparable> {
    if left == Value::Unknown {
        return Ok(None);
    }
    let right = evaluate(right, text)?;
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
