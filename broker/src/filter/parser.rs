//! From words to a tree, by binding powers: OR binds least, then AND, then `=` `<>` and IS, then the comparisons with
//! BETWEEN, IN and the searches, and signs and NOT bind most. So `NOT a = 1` is `(NOT a) = 1`, as clients know it.

use super::FilterError;
use super::expression::{Expression, Literal, Name, Relation};
use super::lexer::{Keyword, Lexer, Token, Word};

/// Parts within parts. A deeper expression is refused: evaluating it needs stack.
const DEPTH_MAX: u32 = 64;

/// Binding powers. An operand takes in operators that bind more than its own.
mod power {
    pub(super) const ANY: u8 = 0;
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const EQUALITY: u8 = 3;
    pub(super) const COMPARISON: u8 = 4;
    pub(super) const SIGN: u8 = 5;
}

/// A part with the number of parts within each other that it is made of, and where it begins.
struct Part {
    expression: Expression,
    depth: u32,
    start: usize,
}

/// Reads an expression that must be a condition. Gives the names of its properties too.
pub(super) fn parse(text: &str) -> Result<(Expression, Vec<Box<str>>), FilterError> {
    let mut lexer = Lexer::new(text);
    let next = lexer.next()?;
    let mut parser = Parser { text, lexer, next, depth: 0, names: Vec::new() };
    let whole = parser.part(power::ANY)?;
    // Behind the whole, two minus signs begin a comment on a last line without an end.
    let is_comment = text[parser.next.start..].starts_with("--");
    if parser.next.word != Word::End && !is_comment {
        return Err(parser.unexpected("the end or an operator"));
    }
    let whole = parser.condition(whole)?.expression;
    Ok((whole, parser.names))
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    next: Token,
    /// Operands that are being read within each other.
    depth: u32,
    names: Vec<Box<str>>,
}

impl Parser<'_> {
    /// An operand with all operators behind it that bind more than `above`.
    fn part(&mut self, above: u8) -> Result<Part, FilterError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.too_deep(self.next.start));
        }
        let mut left = self.operand()?;
        while let Some(power) = self.next_power().filter(|power| *power > above) {
            left = match power {
                power::OR | power::AND => self.chain(left, power)?,
                power::EQUALITY => self.equality(left)?,
                _ => self.comparison(left)?,
            };
        }
        self.depth -= 1;
        Ok(left)
    }

    fn next_power(&self) -> Option<u8> {
        Some(match self.next.word {
            Word::Keyword(Keyword::Or) => power::OR,
            Word::Keyword(Keyword::And) => power::AND,
            Word::Equal | Word::NotEqual | Word::Keyword(Keyword::Is) => power::EQUALITY,
            Word::Relation(_) => power::COMPARISON,
            Word::Keyword(Keyword::Not | Keyword::Between | Keyword::In | Keyword::Search(_)) => power::COMPARISON,
            _ => return None,
        })
    }

    fn operand(&mut self) -> Result<Part, FilterError> {
        let token = self.take()?;
        let start = token.start;
        let leaf = |expression| Ok(Part { expression, depth: 1, start });
        let literal = |literal| leaf(Expression::Literal(literal));
        match token.word {
            Word::Text(text) => literal(Literal::Text(text)),
            Word::Whole(number) => literal(Literal::whole(number)),
            Word::Decimal(number) => literal(Literal::Double(number)),
            Word::Keyword(Keyword::True) => literal(Literal::Boolean(true)),
            Word::Keyword(Keyword::False) => literal(Literal::Boolean(false)),
            Word::Keyword(Keyword::Null) => literal(Literal::Null),
            Word::Name(name) => leaf(Expression::Property(self.place_of(name))),
            Word::Plus => self.part(power::SIGN),
            Word::Minus => {
                let of = self.part(power::SIGN)?;
                self.deeper(start, of.depth, Expression::Negated(Box::new(of.expression)))
            }
            Word::Keyword(Keyword::Not) => {
                let of = self.part(power::SIGN)?;
                let of = self.condition(of)?;
                self.deeper(start, of.depth, Expression::Not(Box::new(of.expression)))
            }
            Word::Open => {
                let inner = self.part(power::ANY)?;
                self.expect(&Word::Close, "\")\" or an operator")?;
                Ok(Part { start, ..inner })
            }
            _ => Err(self.unexpected_at(&token, "a property, a value or \"(\"")),
        }
    }

    /// Where a property's name stands among those of the expression.
    fn place_of(&mut self, name: Box<str>) -> Name {
        self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }

    /// `left AND … AND …`, or the same with OR.
    fn chain(&mut self, left: Part, power: u8) -> Result<Part, FilterError> {
        let start = left.start;
        let first = self.condition(left)?;
        let mut depth = first.depth;
        let mut parts = vec![first.expression];
        while self.next_power() == Some(power) {
            self.take()?;
            let part = self.part(power)?;
            let part = self.condition(part)?;
            depth = depth.max(part.depth);
            parts.push(part.expression);
        }
        let expression = if power == power::AND { Expression::All(parts) } else { Expression::Any(parts) };
        self.deeper(start, depth, expression)
    }

    fn equality(&mut self, left: Part) -> Result<Part, FilterError> {
        let start = left.start;
        let operator = self.take()?;
        if operator.word == Word::Keyword(Keyword::Is) {
            let negated = self.take_if(&Word::Keyword(Keyword::Not))?;
            self.expect(&Word::Keyword(Keyword::Null), if negated { "NULL" } else { "NULL or NOT NULL" })?;
            let null = Part { expression: Expression::Literal(Literal::Null), depth: 1, start };
            return self.equal(left, null, negated);
        }
        let right = self.part(power::EQUALITY)?;
        for side in [&left, &right] {
            if side.expression == Expression::Literal(Literal::Null) {
                return Err(self.error(side.start, "NULL is equal to nothing: write IS NULL or IS NOT NULL"));
            }
        }
        let truth_and_other = matches!(left.expression, Expression::Literal(Literal::Boolean(_)))
            && matches!(&right.expression, Expression::Literal(literal) if !matches!(literal, Literal::Boolean(_)));
        if truth_and_other {
            return Err(self.error(right.start, "TRUE and FALSE cannot be compared with a number or a text"));
        }
        self.equal(left, right, operator.word == Word::NotEqual)
    }

    fn equal(&mut self, left: Part, right: Part, negated: bool) -> Result<Part, FilterError> {
        let (start, depth) = (left.start, left.depth.max(right.depth));
        let equal = Expression::Equal { left: Box::new(left.expression), right: Box::new(right.expression) };
        let expression = if negated { Expression::Not(Box::new(equal)) } else { equal };
        self.deeper(start, depth + u32::from(negated), expression)
    }

    fn comparison(&mut self, left: Part) -> Result<Part, FilterError> {
        let token = self.take()?;
        if let Word::Relation(relation) = token.word {
            return self.relation(left, relation);
        }
        let negated = token.word == Word::Keyword(Keyword::Not);
        let token = if negated { self.take()? } else { token };
        match token.word {
            Word::Keyword(Keyword::Between) => self.between(left, negated),
            Word::Keyword(Keyword::In) => self.list(&left, negated),
            Word::Keyword(Keyword::Search(search)) => {
                let text = self.text_literal()?;
                let (start, depth) = (left.start, left.depth);
                let within = Box::new(left.expression);
                self.deeper(start, depth, Expression::Found { negated, search, within, text })
            }
            _ => Err(self.unexpected_at(&token, "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH behind NOT")),
        }
    }

    fn relation(&mut self, left: Part, relation: Relation) -> Result<Part, FilterError> {
        self.check_ordered(&left)?;
        let right = self.part(power::SIGN)?;
        self.check_ordered(&right)?;
        let (start, depth) = (left.start, left.depth.max(right.depth));
        let (left, right) = (Box::new(left.expression), Box::new(right.expression));
        self.deeper(start, depth, Expression::Related { relation, left, right })
    }

    fn between(&mut self, value: Part, negated: bool) -> Result<Part, FilterError> {
        self.check_ordered(&value)?;
        let low = self.part(power::SIGN)?;
        self.check_ordered(&low)?;
        self.expect(&Word::Keyword(Keyword::And), "AND and the upper end of BETWEEN")?;
        let high = self.part(power::SIGN)?;
        self.check_ordered(&high)?;
        if let (Expression::Literal(lowest), Expression::Literal(highest)) = (&low.expression, &high.expression)
            && !negated
            && lowest.value().order_as_numbers(highest.value()).is_ok_and(std::cmp::Ordering::is_gt)
        {
            return Err(self.error(low.start, "the lower end of BETWEEN is above its upper end"));
        }
        let (start, depth) = (value.start, value.depth.max(low.depth).max(high.depth));
        let [value, low, high] = [value, low, high].map(|part| Box::new(part.expression));
        self.deeper(start, depth, Expression::Between { negated, value, low, high })
    }

    fn list(&mut self, left: &Part, negated: bool) -> Result<Part, FilterError> {
        let Expression::Property(property) = &left.expression else {
            return Err(self.error(left.start, "only a property can be looked for with IN"));
        };
        self.expect(&Word::Open, "\"(\" and a list of texts")?;
        let mut texts = vec![self.text_literal()?];
        while self.take_if(&Word::Comma)? {
            texts.push(self.text_literal()?);
        }
        self.expect(&Word::Close, "\",\" or \")\"")?;
        self.deeper(left.start, 1, Expression::In { negated, property: *property, texts })
    }

    /// Refuses what has no order: texts, truths and conditions.
    fn check_ordered(&self, part: &Part) -> Result<(), FilterError> {
        let what = match &part.expression {
            Expression::Literal(literal) if literal.is_number() => return Ok(()),
            Expression::Property(_) | Expression::Negated(_) => return Ok(()),
            Expression::Literal(Literal::Text(_)) => "a text in quotes",
            Expression::Literal(_) => "TRUE, FALSE or NULL",
            _ => "a condition",
        };
        Err(self.error(part.start, format!("{what} is neither more nor less than anything; numbers are")))
    }

    /// The part as a condition.
    fn condition(&self, part: Part) -> Result<Part, FilterError> {
        match part.expression {
            Expression::Property(name) => Ok(Part { expression: Expression::Condition(name), ..part }),
            ref expression if expression.is_condition() => Ok(part),
            _ => Err(self.error(part.start, "this is a value, where a condition is needed")),
        }
    }

    fn text_literal(&mut self) -> Result<Box<str>, FilterError> {
        let token = self.take()?;
        match token.word {
            Word::Text(text) => Ok(text),
            _ => Err(self.unexpected_at(&token, "a text in single quotes")),
        }
    }

    /// A part made of others that are `depth` deep.
    fn deeper(&self, start: usize, depth: u32, expression: Expression) -> Result<Part, FilterError> {
        if depth >= DEPTH_MAX {
            return Err(self.too_deep(start));
        }
        Ok(Part { expression, depth: depth + 1, start })
    }

    fn take(&mut self) -> Result<Token, FilterError> {
        let following = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.next, following))
    }

    fn take_if(&mut self, word: &Word) -> Result<bool, FilterError> {
        let there = self.next.word == *word;
        if there {
            self.take()?;
        }
        Ok(there)
    }

    fn expect(&mut self, word: &Word, wanted: &str) -> Result<(), FilterError> {
        if self.take_if(word)? { Ok(()) } else { Err(self.unexpected(wanted)) }
    }

    fn unexpected(&self, wanted: &str) -> FilterError {
        self.unexpected_at(&self.next, wanted)
    }

    fn unexpected_at(&self, token: &Token, wanted: &str) -> FilterError {
        let found = match token.word {
            Word::End => "it ends".to_owned(),
            _ => format!("{} stands", FilterError::quote(&self.text[token.start..token.limit])),
        };
        self.error(token.start, format!("{found} where {wanted} is expected"))
    }

    fn too_deep(&self, at: usize) -> FilterError {
        self.error(at, format!("more than {DEPTH_MAX} parts within each other"))
    }

    fn error(&self, at: usize, what: impl Into<String>) -> FilterError {
        FilterError::at(self.text, at, what)
    }
}
