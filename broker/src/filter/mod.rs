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
use remoting::subscription::EXPRESSION_SQL92;
use thiserror::Error;

use crate::call::Refusal;
use crate::core::Core;

pub(crate) use cache::Filters;
pub(crate) use select::{copy, read_matching};

use expression::Expression;
use value::Value;

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
pub(crate) struct FilterError {
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

/// A compiled expression.
#[derive(Debug, PartialEq)]
pub(crate) struct Filter {
    condition: Expression,
}

impl Filter {
    /// Compiles an expression.
    ///
    /// # Errors
    /// When it is none, too long or too deep.
    pub(crate) fn compile(expression: &str) -> Result<Filter, FilterError> {
        if expression.len() > EXPRESSION_BYTES_MAX {
            let what = format!("{} bytes are too long: at most {EXPRESSION_BYTES_MAX} are read", expression.len());
            return Err(FilterError { position: 1, what });
        }
        parser::parse(expression).map(|condition| Filter { condition })
    }

    /// Whether a message with these properties is wanted. One whose values cannot be compared is not.
    pub(crate) fn matches(&self, properties: &str) -> bool {
        evaluate::evaluate(&self.condition, properties) == Ok(Value::Boolean(true))
    }
}
