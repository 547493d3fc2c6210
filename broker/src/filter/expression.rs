//! What a compiled expression is made of.

use super::value::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How a text is looked for in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    Contains,
    StartsWith,
    EndsWith,
}

/// A value that stands in the expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Null,
    Boolean(bool),
    Integer(i32),
    Long(i64),
    Double(f64),
    Text(Box<str>),
}

impl Literal {
    /// The smallest kind that holds the number.
    pub(super) fn whole(number: i64) -> Literal {
        i32::try_from(number).map_or(Literal::Long(number), Literal::Integer)
    }

    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Literal::Null => Value::Unknown,
            Literal::Boolean(truth) => Value::Boolean(*truth),
            Literal::Integer(number) => Value::Integer(*number),
            Literal::Long(number) => Value::Long(*number),
            Literal::Double(number) => Value::Double(*number),
            Literal::Text(text) => Value::Text(text),
        }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Literal::Integer(_) | Literal::Long(_) | Literal::Double(_))
    }
}

/// The place of a property's name among those of the whole expression.
pub(super) type Name = usize;

/// A part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Literal(Literal),
    Property(Name),
    Negated(Box<Expression>),
    /// A property that stands alone as a condition. No text is a truth, so of one that is there it is false.
    Condition(Name),
    Not(Box<Expression>),
    /// Of two or more.
    All(Vec<Expression>),
    /// Of two or more.
    Any(Vec<Expression>),
    Equal {
        left: Box<Expression>,
        right: Box<Expression>,
    },
    Related {
        relation: Relation,
        left: Box<Expression>,
        right: Box<Expression>,
    },
    /// Both ends included.
    Between {
        negated: bool,
        value: Box<Expression>,
        low: Box<Expression>,
        high: Box<Expression>,
    },
    In {
        negated: bool,
        property: Name,
        texts: Vec<Box<str>>,
    },
    Found {
        negated: bool,
        search: Search,
        within: Box<Expression>,
        text: Box<str>,
    },
}

impl Expression {
    /// Whether it is a condition by itself: its value is a truth, or unknown.
    pub(super) fn is_condition(&self) -> bool {
        match self {
            Expression::Literal(literal) => matches!(literal, Literal::Null | Literal::Boolean(_)),
            Expression::Property(_) | Expression::Negated(_) => false,
            _ => true,
        }
    }
}
