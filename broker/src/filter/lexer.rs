//! The words of an expression.

use super::FilterError;
use super::expression::{Relation, Search};

/// Words that are no names, in capitals or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    And,
    Or,
    Not,
    Between,
    In,
    Is,
    Null,
    True,
    False,
    Search(Search),
}

const KEYWORDS: [(&str, Keyword); 12] = [
    ("AND", Keyword::And),
    ("OR", Keyword::Or),
    ("NOT", Keyword::Not),
    ("BETWEEN", Keyword::Between),
    ("IN", Keyword::In),
    ("IS", Keyword::Is),
    ("NULL", Keyword::Null),
    ("TRUE", Keyword::True),
    ("FALSE", Keyword::False),
    ("CONTAINS", Keyword::Search(Search::Contains)),
    ("STARTSWITH", Keyword::Search(Search::StartsWith)),
    ("ENDSWITH", Keyword::Search(Search::EndsWith)),
];

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    Keyword(Keyword),
    Name(Box<str>),
    /// Without its quotes.
    Text(Box<str>),
    /// Digits of a whole number that fits 64 bits.
    Whole(i64),
    Decimal(f64),
    Equal,
    NotEqual,
    Relation(Relation),
    Plus,
    Minus,
    Open,
    Close,
    Comma,
    /// Behind the last word.
    End,
}

/// A word and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) word: Word,
    /// In bytes.
    pub(super) start: usize,
    pub(super) limit: usize,
}

/// Takes words off the front of an expression.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    /// The next word; at the end, [`Word::End`] again and again.
    pub(super) fn next(&mut self) -> Result<Token, FilterError> {
        self.skip_blanks()?;
        let start = self.at;
        let word = match self.peek() {
            None => Word::End,
            Some(b'\'') => self.quoted()?,
            Some(b'0'..=b'9' | b'.') => self.number()?,
            Some(letter) if is_name_start(letter) => self.name(),
            Some(_) => self.sign()?,
        };
        Ok(Token { word, start, limit: self.at })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.rest().bytes().next()
    }

    /// Spaces, `/* … */`, and `-- …` up to the end of its line. On a last line without an end it is two minus signs.
    fn skip_blanks(&mut self) -> Result<(), FilterError> {
        loop {
            let rest = self.rest();
            let visible = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
            self.at += rest.len() - visible.len();
            if let Some(comment) = visible.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else {
                    return Err(FilterError::at(self.text, self.at, "the comment does not end: */ is missing"));
                };
                self.at += 2 + end + 2;
            } else if visible.starts_with("--")
                && let Some(end) = visible.find(['\n', '\r'])
            {
                self.at += end;
            } else {
                return Ok(());
            }
        }
    }

    /// A text in quotes; a doubled quote within it is one quote.
    fn quoted(&mut self) -> Result<Word, FilterError> {
        let start = self.at;
        let mut content = String::new();
        self.at += 1;
        loop {
            let rest = self.rest();
            let Some(quote) = rest.find('\'') else {
                return Err(FilterError::at(self.text, start, "the text does not end: ' is missing"));
            };
            content.push_str(&rest[..quote]);
            self.at += quote + 1;
            if self.peek() != Some(b'\'') {
                return Ok(Word::Text(content.into()));
            }
            content.push('\'');
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<Word, FilterError> {
        let start = self.at;
        let whole = self.digits();
        let point = self.peek() == Some(b'.');
        if point {
            self.at += 1;
            if self.digits() == 0 && whole == 0 {
                return Err(FilterError::at(self.text, start, "a number needs a digit beside its point"));
            }
        }
        if self.exponent() || point {
            return self.decimal(start);
        }
        let digits = &self.text[start..self.at];
        if digits.len() > 1 && digits.starts_with('0') {
            return Err(FilterError::at(self.text, start, "a whole number does not begin with 0"));
        }
        let number = digits.parse().map_err(|_| {
            let what = format!("{digits} is out of range: whole numbers go up to {}", i64::MAX);
            FilterError::at(self.text, start, what)
        })?;
        if digits != "0" && matches!(self.peek(), Some(b'l' | b'L')) {
            self.at += 1;
        }
        Ok(Word::Whole(number))
    }

    fn digits(&mut self) -> usize {
        let count = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.at += count;
        count
    }

    /// Takes an exponent, if one is there.
    fn exponent(&mut self) -> bool {
        let start = self.at;
        if !matches!(self.peek(), Some(b'e' | b'E')) {
            return false;
        }
        self.at += 1;
        if matches!(self.peek(), Some(b'+' | b'-')) {
            self.at += 1;
        }
        let there = self.digits() > 0;
        if !there {
            self.at = start;
        }
        there
    }

    fn decimal(&self, start: usize) -> Result<Word, FilterError> {
        let digits = &self.text[start..self.at];
        let number: f64 = digits.parse().expect("digits with a point or an exponent are a decimal");
        let is_zero =
            !digits.split(['e', 'E']).next().unwrap_or_default().bytes().any(|digit| (b'1'..=b'9').contains(&digit));
        if number.is_infinite() || (number == 0.0 && !is_zero) {
            let what = format!("{digits} is out of range: decimals go from {:e} to {:e}", 5e-324, f64::MAX);
            return Err(FilterError::at(self.text, start, what));
        }
        Ok(Word::Decimal(number))
    }

    fn name(&mut self) -> Word {
        let start = self.at;
        self.at += self.rest().bytes().take_while(|letter| is_name_start(*letter) || letter.is_ascii_digit()).count();
        let name = &self.text[start..self.at];
        let keyword = KEYWORDS.iter().find(|(spelling, _)| spelling.eq_ignore_ascii_case(name));
        keyword.map_or_else(|| Word::Name(name.into()), |(_, keyword)| Word::Keyword(*keyword))
    }

    fn sign(&mut self) -> Result<Word, FilterError> {
        // The longer signs first.
        let signs = [
            ("<>", Word::NotEqual),
            ("<=", Word::Relation(Relation::LessOrEqual)),
            (">=", Word::Relation(Relation::GreaterOrEqual)),
            ("<", Word::Relation(Relation::Less)),
            (">", Word::Relation(Relation::Greater)),
            ("=", Word::Equal),
            ("+", Word::Plus),
            ("-", Word::Minus),
            ("(", Word::Open),
            (")", Word::Close),
            (",", Word::Comma),
        ];
        let rest = self.rest();
        for (spelling, word) in signs {
            if rest.starts_with(spelling) {
                self.at += spelling.len();
                return Ok(word);
            }
        }
        let letter = rest.chars().next().unwrap_or_default();
        let cure = match letter {
            '"' => "; texts stand in single quotes",
            '!' => "; write <> for different, NOT for not",
            _ => "",
        };
        Err(FilterError::at(self.text, self.at, format!("{letter:?} means nothing here{cure}")))
    }
}

fn is_name_start(letter: u8) -> bool {
    letter.is_ascii_alphabetic() || letter == b'_' || letter == b'$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<Word>, FilterError> {
        let mut lexer = Lexer::new(text);
        let mut words = Vec::new();
        loop {
            match lexer.next()?.word {
                Word::End => return Ok(words),
                word => words.push(word),
            }
        }
    }

    #[test]
    fn words_are_told_apart() {
        let name = |name: &str| Word::Name(name.into());
        let text = |text: &str| Word::Text(text.into());
        let cases = [
            ("", vec![]),
            ("a<=5", vec![name("a"), Word::Relation(Relation::LessOrEqual), Word::Whole(5)]),
            ("a<>b", vec![name("a"), Word::NotEqual, name("b")]),
            ("$_a1 _", vec![name("$_a1"), name("_")]),
            ("and aNd android", vec![Word::Keyword(Keyword::And), Word::Keyword(Keyword::And), name("android")]),
            ("'' 'it''s' ''''", vec![text(""), text("it's"), text("'")]),
            ("'消 息'", vec![text("消 息")]),
            ("0 5L 9223372036854775807l", vec![Word::Whole(0), Word::Whole(5), Word::Whole(i64::MAX)]),
            ("5. .5 5.5e1 5E+1 0.0", [5.0, 0.5, 55.0, 50.0, 0.0].map(Word::Decimal).to_vec()),
            ("5e", vec![Word::Whole(5), name("e")]),
            ("a--b\n5", vec![name("a"), Word::Whole(5)]),
            ("a--5", vec![name("a"), Word::Minus, Word::Minus, Word::Whole(5)]),
            ("a/* b */c/***/", vec![name("a"), name("c")]),
        ];
        for (text, wanted) in cases {
            assert_eq!(words(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_no_word_is_shown() {
        let cases = [
            ("a > 'x", 5, "the text does not end"),
            ("a /* b", 3, "the comment does not end"),
            ("a = 9223372036854775808", 5, "out of range"),
            ("a = 1e999", 5, "out of range"),
            ("a = 1e-999", 5, "out of range"),
            ("a = 007", 5, "does not begin with 0"),
            ("a.b = 1", 2, "a digit beside its point"),
            ("消 = 1", 1, "means nothing here"),
            ("a = '消' ! 1", 9, "write <>"),
            ("a = \"x\"", 5, "single quotes"),
            ("a = 1;", 6, "means nothing here"),
        ];
        for (text, position, what) in cases {
            let error = words(text).expect_err(text);
            assert_eq!(error.position, position, "{text}: {error}");
            assert!(error.to_string().contains(what), "{text}: {error}");
        }
    }
}
