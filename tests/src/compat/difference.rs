//! What two plays of a scenario differ in, and which of it is known.

use std::fmt;

use super::facts::Facts;
use super::play::Played;

/// Facts that are for people: their words are each product's own.
const FOR_PEOPLE: &str = "remark";

/// A fact that is not the same on both sides; `None` where it does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub step: String,
    pub code: i32,
    pub fact: String,
    pub apache: Option<String>,
    pub ringmq: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |value: &Option<String>| value.as_deref().unwrap_or("(absent)").escape_debug().to_string();
        let Difference { step, code, fact, .. } = self;
        write!(f, "{step}\t{code}\t{fact}\t{}\t{}", side(&self.apache), side(&self.ringmq))
    }
}

/// All differences of two plays whose facts are normalised.
///
/// # Panics
/// When the two are of different scenarios.
pub fn between(apache: &Played, ringmq: &Played) -> Vec<Difference> {
    let mut differences = Vec::new();
    for ((step, code, left), (other, _, right)) in apache.iter().zip(ringmq) {
        assert_eq!(step, other, "both played the same scenario");
        for fact in names(left, right) {
            let (apache, ringmq) = (left.get(fact).cloned(), right.get(fact).cloned());
            if apache != ringmq && fact != FOR_PEOPLE {
                differences.push(Difference { step: step.clone(), code: *code, fact: fact.clone(), apache, ringmq });
            }
        }
    }
    differences
}

fn names<'a>(left: &'a Facts, right: &'a Facts) -> impl Iterator<Item = &'a String> {
    left.keys().chain(right.keys().filter(|name| !left.contains_key(*name)))
}

/// Where a fact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// On both sides, with different values.
    Both,
    Apache,
    RingMq,
}

/// Differences that are meant, by patterns of step and fact in which `*` stands for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub step: String,
    pub fact: String,
    side: Side,
    /// It depends on the time whether it occurs.
    is_unsteady: bool,
    pub reason: String,
}

impl Difference {
    fn side(&self) -> Side {
        match (&self.apache, &self.ringmq) {
            (Some(_), None) => Side::Apache,
            (None, Some(_)) => Side::RingMq,
            _ => Side::Both,
        }
    }
}

impl Accepted {
    /// Reads lines of `step TAB fact TAB both|apache|ringmq TAB reason`; `#` begins a comment. A `?` behind the side says
    /// that the difference does not always occur.
    ///
    /// # Errors
    /// The first line that is none.
    pub fn parse(text: &str) -> Result<Vec<Accepted>, String> {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|(number, line)| {
                let wrong =
                    || format!("line {number} is not `step TAB fact TAB both|apache|ringmq TAB reason`: {line}");
                let [step, fact, side, reason] = line.split('\t').collect::<Vec<_>>()[..] else { return Err(wrong()) };
                let is_unsteady = side.ends_with('?');
                let side = match side.trim_end_matches('?') {
                    "both" => Side::Both,
                    "apache" => Side::Apache,
                    "ringmq" => Side::RingMq,
                    _ => return Err(wrong()),
                };
                Ok(Accepted {
                    step: step.to_owned(),
                    fact: fact.to_owned(),
                    side,
                    is_unsteady,
                    reason: reason.to_owned(),
                })
            })
            .collect()
    }

    fn covers(&self, difference: &Difference) -> bool {
        self.side == difference.side() && fits(&self.step, &difference.step) && fits(&self.fact, &difference.fact)
    }
}

/// Splits differences into new ones and known ones, and names what is accepted but did not occur.
pub fn sort<'a>(
    differences: &'a [Difference],
    accepted: &'a [Accepted],
) -> (Vec<&'a Difference>, Vec<&'a Difference>, Vec<&'a Accepted>) {
    let (known, new): (Vec<_>, Vec<_>) =
        differences.iter().partition(|difference| accepted.iter().any(|one| one.covers(difference)));
    let gone = accepted
        .iter()
        .filter(|one| !one.is_unsteady && !differences.iter().any(|difference| one.covers(difference)))
        .collect();
    (new, known, gone)
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((front, rest)) => text
            .strip_prefix(front)
            .is_some_and(|text| (0..=text.len()).any(|at| text.is_char_boundary(at) && fits(rest, &text[at..]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(step: &str, facts: &[(&str, &str)]) -> Played {
        let facts = facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        vec![(step.to_owned(), 10, facts)]
    }

    #[test]
    fn differences_are_found_accepted_and_missed() {
        let apache = played("send", &[("code", "0"), ("field.a", "1"), ("field.b", "2"), ("remark", "fine")]);
        let ringmq = played("send", &[("code", "0"), ("field.a", "2"), ("field.c", "3")]);
        let differences = between(&apache, &ringmq);
        let shown: Vec<String> = differences.iter().map(ToString::to_string).collect();
        let wanted = ["send\t10\tfield.a\t1\t2", "send\t10\tfield.b\t2\t(absent)", "send\t10\tfield.c\t(absent)\t3"];
        assert_eq!(shown, wanted);

        let accepted = Accepted::parse(
            "# known\ns*\tfield.a\tboth\twhy\nsend\t*.b\tapache\twhy\npull*\tcode\tboth\twhy\nsend\t*\tringmq\twhy\nend*\tcode\tboth?\twhy",
        )
        .expect("a list");
        let (new, known, gone) = sort(&differences, &accepted);
        assert_eq!((new.len(), known.len(), gone.len()), (0, 3, 1));
        assert_eq!(gone[0].step, "pull*");
        let (new, _, _) = sort(&differences, &accepted[..1]);
        assert_eq!(new.iter().map(|difference| &*difference.fact).collect::<Vec<_>>(), ["field.b", "field.c"]);
        assert!(Accepted::parse("a\tb\tboth\n").is_err(), "a reason is needed");
    }

    #[test]
    fn patterns_cover_whole_names() {
        for (pattern, text, wanted) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c*", "abd", false),
            ("*消", "x消", true),
        ] {
            assert_eq!(fits(pattern, text), wanted, "{pattern} {text}");
        }
    }
}
