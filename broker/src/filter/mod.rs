//! Filters by properties: expressions in the SQL92 subset that RocketMQ's clients know.
//!
//! A [`Filter`] is compiled once and asked about each message; it is pure and belongs to whoever holds it. Each core
//! keeps those in use ([`Filters`]).
//!
//! An expression knows `AND`, `OR`, `NOT`, `=`, `<>`, `<`, `<=`, `>`, `>=`, `[NOT] BETWEEN`, `[NOT] IN` over texts,
//! `IS [NOT] NULL`, `[NOT] CONTAINS`, `STARTSWITH` and `ENDSWITH`, texts in single quotes, whole numbers of 64 bits,
//! decimals, `TRUE`, `FALSE`, parentheses, and properties by their names, `TAGS` and `KEYS` among them.

mod cache;
#[cfg(test)]
mod corpus_tests;
mod evaluate;
mod expression;
mod lexer;
mod parser;
mod select;
#[cfg(test)]
mod tests;
mod value;

use remoting::code::ResponseCode;
use remoting::properties;
use remoting::subscription::EXPRESSION_SQL92;
use thiserror::Error;

use crate::call::Refusal;
use crate::core::Core;

pub(crate) use cache::Filters;
pub(crate) use select::{copy, read_matching};

use expression::Expression;
use value::{Incomparable, Value};

/// A longer expression is refused. Lists of thousands of texts fit.
const EXPRESSION_BYTES_MAX: usize = 64 << 10;
/// Letters of the expression that an error repeats.
const QUOTED_LETTERS_MAX: usize = 40;

/// Whether an expression type asks for such a filter.
pub(crate) fn is_sql(expression_type: &str) -> bool {
    expression_type.eq_ignore_ascii_case(EXPRESSION_SQL92)
}

/// Refuses filters where the configuration does not allow them.
///
/// # Errors
/// SYSTEM_ERROR, with the text that clients of RocketMQ look for.
pub(crate) fn check_enabled(core: &Core) -> Result<(), Refusal> {
    let config = core.config();
    if config.consumers.property_filter {
        return Ok(());
    }
    let remark = format!(
        "The broker does not support consumer to filter message by {EXPRESSION_SQL92}: broker {} has \
         enablePropertyFilter=false; set it to true, or use tags",
        config.identity.broker
    );
    Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark))
}

/// An expression that is none: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the SQL92 expression is wrong at letter {position}: {what}")]
pub struct FilterError {
    /// Letters from the front, from 1 on.
    position: usize,
    what: String,
}

impl FilterError {
    /// `at` is in bytes.
    fn at(expression: &str, at: usize, what: impl Into<String>) -> FilterError {
        FilterError { position: expression[..at].chars().count() + 1, what: what.into() }
    }

    /// A piece of the expression, cut where it is long.
    fn quote(piece: &str) -> String {
        match piece.char_indices().nth(QUOTED_LETTERS_MAX) {
            Some((end, _)) => format!("{:?}…", &piece[..end]),
            None => format!("{piece:?}"),
        }
    }
}

/// Names whose values are looked for without getting memory for them. An expression with more of them gets it for each
/// message.
const NAMES_FEW: usize = 16;

/// A compiled expression.
#[derive(Debug, PartialEq)]
pub struct Filter {
    condition: Expression,
    /// The properties that it names, each once. In the condition they stand by their places here.
    names: Vec<Box<str>>,
}

impl Filter {
    /// Compiles an expression.
    ///
    /// # Errors
    /// When it is none, too long or too deep.
    pub fn compile(expression: &str) -> Result<Filter, FilterError> {
        if expression.len() > EXPRESSION_BYTES_MAX {
            let what = format!("{} bytes are too long: at most {EXPRESSION_BYTES_MAX} are read", expression.len());
            return Err(FilterError { position: 1, what });
        }
        parser::parse(expression).map(|(condition, names)| Filter { condition, names })
    }

    /// Whether a message with these properties is wanted. One whose values cannot be compared is not.
    pub fn matches(&self, properties: &str) -> bool {
        self.value(properties, |value| value == Ok(Value::Boolean(true)))
    }

    /// Shows what the expression is for a message with these properties.
    fn value<T>(&self, text: &str, show: impl FnOnce(Result<Value<'_>, Incomparable>) -> T) -> T {
        let (mut few, mut many) = ([None; NAMES_FEW], Vec::new());
        let values = match few.get_mut(..self.names.len()) {
            Some(values) => values,
            None => {
                many.resize(self.names.len(), None);
                &mut many
            }
        };
        properties::get_all(text, &self.names, values);
        show(evaluate::evaluate(&self.condition, values))
    }
}
