//! The keys of a phase: one table of names, of what they take and of what they mean. A list of values sweeps a key.

use super::source::nearest;

/// The kinds of phases.
pub(crate) const KINDS: [&str; 3] = ["send", "tail", "consume"];

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Takes {
    Count {
        min: u64,
        max: u64,
    },
    /// `"200ms"`, `"3s"`, `"5m"`, or a number of seconds.
    Span,
    /// Between 0 and 1.
    Share,
    Switch,
    OneOf(&'static [&'static str]),
    Text,
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    /// It means nothing in a phase that only reads.
    pub(crate) sends: bool,
    /// It means nothing in a phase that only sends.
    pub(crate) reads: bool,
    pub(crate) about: &'static str,
}

const fn both(name: &'static str, takes: Takes, about: &'static str) -> Key {
    Key { name, takes, sends: true, reads: true, about }
}

const fn of_sends(name: &'static str, takes: Takes, about: &'static str) -> Key {
    Key { name, takes, sends: true, reads: false, about }
}

const fn of_reads(name: &'static str, takes: Takes, about: &'static str) -> Key {
    Key { name, takes, sends: false, reads: true, about }
}

/// Of a phase that sends and reads.
const fn of_tails(name: &'static str, takes: Takes, about: &'static str) -> Key {
    Key { name, takes, sends: false, reads: false, about }
}

const fn count(min: u64, max: u64) -> Takes {
    Takes::Count { min, max }
}

pub(crate) const KEYS: [Key; 38] = [
    both(
        "kind",
        Takes::OneOf(&KINDS),
        "what the phase does: send, tail (send and consume), consume (read the backlog)",
    ),
    both("warmup", Takes::Span, "time before the measured span"),
    both("duration", Takes::Span, "the measured span; of consume, the longest"),
    both("topics", count(1, 10_000), "topics, each with its queues; messages go to all of them"),
    both("queues", count(1, 1024), "queues of each topic"),
    both("wire", Takes::OneOf(&["json", "compact"]), "encoding of request headers"),
    both("backlog", count(0, 1 << 32), "messages that lie in the topics before"),
    both(
        "client_duties",
        Takes::Switch,
        "heartbeats every 30 s and commits of offsets every 5 s, as official clients do",
    ),
    of_sends("connections", count(1, 4096), "connections that send"),
    of_sends("window", count(1, 1024), "requests in flight on each connection, without rate"),
    of_sends("messages", count(1, 1 << 40), "messages after which a phase without rate ends"),
    of_sends("rate", count(1, u32::MAX as u64), "messages a second, whatever the answers do"),
    of_sends("arrivals", Takes::OneOf(&["even", "poisson", "bursts", "ramp"]), "how a rate is spread over time"),
    of_sends("rate_end", count(1, u32::MAX as u64), "of arrivals = \"ramp\": the rate at the end"),
    of_sends("burst", Takes::Span, "of arrivals = \"bursts\": the part of a cycle in which all is sent"),
    of_sends("cycle", Takes::Span, "of arrivals = \"bursts\": from one burst to the next"),
    of_sends("tick", Takes::Span, "what is due within it is due, and sent, together at its end; 0: each by itself"),
    of_sends("size", count(32, 4 << 20), "bytes of a body"),
    of_sends("size_max", count(32, 4 << 20), "bytes of the largest body; sizes are spread from size to it"),
    of_sends("random_share", Takes::Share, "share of a body that does not compress"),
    of_sends(
        "payloads",
        Takes::Text,
        "a file, or a folder of files, each a body behind its 24 bytes of stamp; of .jsonl each line",
    ),
    of_sends("batch", count(1, 1024), "messages of a request"),
    of_sends("keys", Takes::Switch, "each message has a key of its own"),
    of_sends("tags", Takes::Text, "tags that messages take in turn, with commas"),
    of_sends("properties", Takes::Text, "properties of all messages: name=value, with commas"),
    of_sends("delay", Takes::Span, "messages are delivered so much later; what they are later still is their lateness"),
    of_sends(
        "ordered_keys",
        count(1, 1 << 20),
        "all messages of a key into one queue, one after the other; readers check it",
    ),
    of_sends("transactions", Takes::Switch, "messages are half messages whose end follows"),
    of_sends("commit_share", Takes::Share, "of transactions: the share that is committed; the rest is rolled back"),
    of_sends("flushed", Takes::Switch, "false: answered before the flush, also where flushDiskType=SYNC_FLUSH"),
    of_sends("compression", Takes::OneOf(&["none", "zlib"]), "how bodies travel and are stored"),
    of_reads(
        "consumers",
        Takes::OneOf(&["pull", "pop"]),
        "how messages are got: pulled from each queue, or popped from all and acknowledged one by one",
    ),
    of_reads("invisible", Takes::Span, "of consumers = \"pop\": what is not acknowledged comes again after it"),
    of_reads("consumer_connections", count(1, 1024), "connections of each group"),
    of_reads("pull_messages", count(1, 1024), "messages a pull or pop may bring"),
    of_reads("groups", count(1, 64), "groups that each get everything"),
    of_tails(
        "retry_share",
        Takes::Share,
        "the share of messages that each group sends back once; they come again after 1 s",
    ),
    of_reads("cold_groups", count(0, 64), "groups that read the backlog again and again beside"),
];

/// A value of a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Count(u64),
    Seconds(f64),
    Share(f64),
    Switch(bool),
    Text(String),
}

/// A value as it stands somewhere, before its key is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    Integer(i64),
    Float(f64),
    Switch(bool),
    Text(String),
}

impl Raw {
    /// From a text without quotes, as the command line has it.
    pub(crate) fn read(text: &str) -> Raw {
        let number = || text.replace('_', "").parse().ok().map(Raw::Integer);
        let float = || text.parse().ok().map(Raw::Float);
        let switch = || text.parse().ok().map(Raw::Switch);
        number().or_else(float).or_else(switch).unwrap_or_else(|| Raw::Text(text.to_owned()))
    }
}

/// # Errors
/// What is wrong, and a hint.
pub(crate) fn find(name: &str) -> Result<&'static Key, (String, String)> {
    let known = || KEYS.iter().map(|key| key.name);
    KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
        let hint = match nearest(name, known()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there are {}", known().collect::<Vec<_>>().join(", ")),
        };
        (format!("a phase has no key {name}"), hint)
    })
}

impl Key {
    /// The value that was written, if the key takes it.
    ///
    /// # Errors
    /// What is wrong, and a hint.
    pub(crate) fn value(&self, raw: &Raw) -> Result<Scalar, (String, String)> {
        let scalar = match (self.takes, raw) {
            (Takes::Count { min, max }, Raw::Integer(number)) => {
                u64::try_from(*number).ok().filter(|count| (min..=max).contains(count)).map(Scalar::Count)
            }
            (Takes::Span, Raw::Text(text)) => span(text).map(Scalar::Seconds),
            (Takes::Span, Raw::Integer(seconds)) => (*seconds >= 0).then_some(Scalar::Seconds(*seconds as f64)),
            (Takes::Span, Raw::Float(seconds)) => (*seconds >= 0.0).then_some(Scalar::Seconds(*seconds)),
            (Takes::Share, Raw::Integer(share @ (0 | 1))) => Some(Scalar::Share(*share as f64)),
            (Takes::Share, Raw::Float(share)) => (0.0..=1.0).contains(share).then_some(Scalar::Share(*share)),
            (Takes::Switch, Raw::Switch(on)) => Some(Scalar::Switch(*on)),
            (Takes::OneOf(words), Raw::Text(text)) => {
                words.contains(&text.as_str()).then(|| Scalar::Text(text.clone()))
            }
            (Takes::Text, Raw::Text(text)) => Some(Scalar::Text(text.clone())),
            _ => None,
        };
        scalar.ok_or_else(|| {
            let written = match raw {
                Raw::Integer(number) => number.to_string(),
                Raw::Float(number) => number.to_string(),
                Raw::Switch(on) => on.to_string(),
                Raw::Text(text) => format!("\"{text}\""),
            };
            (format!("{} cannot be {written}", self.name), format!("{}: it takes {}", self.about, self.takes.told()))
        })
    }
}

impl Takes {
    fn told(self) -> String {
        match self {
            Takes::Count { min, max } => format!("a whole number from {min} to {max}"),
            Takes::Span => "a time like \"200ms\", \"3s\" or \"5m\", or a number of seconds".to_owned(),
            Takes::Share => "a number from 0 to 1".to_owned(),
            Takes::Switch => "true or false".to_owned(),
            Takes::OneOf(words) => format!("one of \"{}\"", words.join("\", \"")),
            Takes::Text => "a text in quotes".to_owned(),
        }
    }
}

/// Seconds of a time with its unit.
pub(crate) fn span(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let a_unit = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number: f64 = digits.trim_end().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * a_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_take_what_they_say() {
        for (name, text, expected) in [
            ("rate", "5_000", Some(Scalar::Count(5000))),
            ("rate", "0", None),
            ("rate", "-1", None),
            ("rate", "fast", None),
            ("rate", "1.5", None),
            ("duration", "200ms", Some(Scalar::Seconds(0.2))),
            ("duration", "1.5", Some(Scalar::Seconds(1.5))),
            ("duration", "5 m", Some(Scalar::Seconds(300.0))),
            ("duration", "5 parsecs", None),
            ("duration", "-1s", None),
            ("random_share", "0.25", Some(Scalar::Share(0.25))),
            ("random_share", "1", Some(Scalar::Share(1.0))),
            ("random_share", "2", None),
            ("keys", "true", Some(Scalar::Switch(true))),
            ("keys", "1", None),
            ("wire", "compact", Some(Scalar::Text("compact".to_owned()))),
            ("wire", "xml", None),
        ] {
            let value = find(name).unwrap().value(&Raw::read(text));
            assert_eq!(value.as_ref().ok(), expected.as_ref(), "{name}={text}");
        }
        let (what, hint) = find("rate").unwrap().value(&Raw::read("fast")).unwrap_err();
        assert_eq!(what, "rate cannot be \"fast\"");
        assert!(hint.ends_with("it takes a whole number from 1 to 4294967295"), "{hint}");
        assert_eq!(find("conections").unwrap_err().1, "did you mean connections?");
    }
}
