//! What a value may be: from the text as given to the text as kept, or a sentence that says what is allowed.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base::Millis;

use super::typed::HostPort;

/// A value's type with its limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Flag,
    /// A whole number, both limits included.
    Whole {
        min: i64,
        max: i64,
        unit: &'static str,
    },
    /// Like `Whole`, but a value beyond a limit means the limit.
    Clamped {
        min: i64,
        max: i64,
        unit: &'static str,
    },
    /// A multiple of `step`, from `step_min` steps on.
    Stepped {
        step: i64,
        min: i64,
        max: i64,
    },
    Decimal,
    Choice(&'static [&'static str]),
    /// May be empty. Has no control letters: values are shown a line each.
    Text,
    /// A name for tables and wire: not empty, without blanks and control letters.
    Name,
    /// One folder; not a list of several.
    Folder,
    /// One or more folders, separated by commas. No two are the same.
    Folders,
    /// An IP address. `wildcard` allows the one that means all.
    Address {
        wildcard: bool,
    },
    /// `host:port;host:port`, may be empty.
    HostPorts,
    /// Hours of the day, `04` or `04;16`.
    Hours,
    /// Spans of time, `1s 10m 2h 1d`, of which the first is that of level 1.
    DelayLevels,
}

/// The longest time that a message may be held back: 30 days.
pub const DELAY_SECONDS_MAX: u64 = 30 * 24 * 3600;
/// Delay levels at most; a longer list is refused.
const DELAY_LEVELS_MAX: usize = 100;

/// 0 or more, as far as RocketMQ's own type reaches.
pub(super) const COUNT: Kind = Kind::Whole { min: 0, max: i32::MAX as i64, unit: "" };
/// Any whole number, for keys that mean nothing here.
pub(super) const ANY: Kind = Kind::Whole { min: i64::MIN, max: i64::MAX, unit: "" };
pub(super) const MS: Kind = Kind::Whole { min: 0, max: i64::MAX, unit: "ms" };
pub(super) const SECONDS: Kind = Kind::Whole { min: 0, max: i32::MAX as i64, unit: "s" };
pub(super) const BYTES: Kind = Kind::Whole { min: 0, max: 1 << 46, unit: "bytes" };
pub(super) const PERCENT: Kind = Kind::Whole { min: 0, max: 100, unit: "%" };
pub(super) const PORT: Kind = Kind::Whole { min: 0, max: 65_535, unit: "" };

impl Kind {
    /// The text as it is kept, without blanks around it and in its usual form. What is allowed instead, if it is wrong.
    pub fn normal(&self, text: &str) -> Result<String, String> {
        let text = text.trim();
        self.accepted(text).ok_or_else(|| {
            let mut allowed = self.allowed();
            if text.contains(" #") || text.contains(" !") {
                allowed.push_str("; a comment needs a line of its own");
            }
            allowed
        })
    }

    fn accepted(&self, text: &str) -> Option<String> {
        match *self {
            Kind::Flag => {
                let lower = text.to_ascii_lowercase();
                matches!(lower.as_str(), "true" | "false").then_some(lower)
            }
            Kind::Whole { min, max, .. } => {
                let number: i64 = text.parse().ok()?;
                (min..=max).contains(&number).then(|| number.to_string())
            }
            Kind::Clamped { min, max, .. } => Some(text.parse::<i64>().ok()?.clamp(min, max).to_string()),
            Kind::Stepped { step, min, max } => {
                let number: i64 = text.parse().ok()?;
                ((min..=max).contains(&number) && number % step == 0).then(|| number.to_string())
            }
            Kind::Decimal => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(|_| text.to_owned()),
            Kind::Choice(choices) => choices.contains(&text).then(|| text.to_owned()),
            Kind::Text => (!text.chars().any(char::is_control)).then(|| text.to_owned()),
            Kind::Name => {
                let good =
                    !text.is_empty() && !text.chars().any(|letter| letter.is_whitespace() || letter.is_control());
                good.then(|| text.to_owned())
            }
            Kind::Folder => {
                let good = !text.is_empty() && !text.contains(',') && !text.chars().any(char::is_control);
                good.then(|| text.to_owned())
            }
            Kind::Folders => {
                let folders: Vec<&str> = text.trim_end_matches([',', ' ']).split(',').map(str::trim).collect();
                let distinct: BTreeSet<&str> = folders.iter().map(|folder| folder.trim_end_matches('/')).collect();
                let good = folders.iter().all(|folder| Kind::Folder.normal(folder).is_ok());
                (good && distinct.len() == folders.len()).then(|| folders.join(","))
            }
            Kind::Address { wildcard } => {
                let address: IpAddr = text.parse().ok()?;
                (wildcard || !address.is_unspecified()).then(|| address.to_string())
            }
            Kind::HostPorts => {
                let entries: Option<Vec<HostPort>> = host_ports(text).collect();
                Some(entries?.iter().map(HostPort::to_string).collect::<Vec<_>>().join(";"))
            }
            Kind::Hours => {
                let hours: Option<Vec<u8>> = hours(text).collect();
                let hours = hours.filter(|hours| !hours.is_empty())?;
                Some(hours.iter().map(|hour| format!("{hour:02}")).collect::<Vec<_>>().join(";"))
            }
            Kind::DelayLevels => {
                let levels: Option<Vec<Millis>> = delay_levels(text).collect();
                let count = levels?.len();
                let whole = (1..=DELAY_LEVELS_MAX).contains(&count);
                whole.then(|| text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
            }
        }
    }

    /// What is allowed, as part of a sentence.
    pub fn allowed(&self) -> String {
        match *self {
            Kind::Flag => "true or false".to_owned(),
            Kind::Whole { min: i64::MIN, max: i64::MAX, .. } => "a whole number".to_owned(),
            Kind::Whole { min, max: i64::MAX, unit } => format!("a whole number from {min} on{}", in_unit(unit)),
            Kind::Whole { min, max, unit } => format!("a whole number from {min} to {max}{}", in_unit(unit)),
            Kind::Clamped { min, max, unit } => {
                format!("a whole number{}; below {min} means {min}, above {max} means {max}", in_unit(unit))
            }
            Kind::Stepped { step, min, max } => format!("a multiple of {step} from {min} to {max} bytes"),
            Kind::Decimal => "a number".to_owned(),
            Kind::Choice(choices) => format!("one of {}", choices.join(", ")),
            Kind::Text => "a text of one line".to_owned(),
            Kind::Name => "a name without blanks".to_owned(),
            Kind::Folder => "one folder (several, separated by commas, are not supported)".to_owned(),
            Kind::Folders => "folders, several different ones separated by commas".to_owned(),
            Kind::Address { wildcard: true } => "an IP address, or 0.0.0.0 for all".to_owned(),
            Kind::Address { wildcard: false } => "an IP address that clients can reach, so not 0.0.0.0".to_owned(),
            Kind::HostPorts => "host:port, several separated by ;".to_owned(),
            Kind::Hours => "hours from 00 to 23, several separated by ;".to_owned(),
            Kind::DelayLevels => format!(
                "1 to {DELAY_LEVELS_MAX} times separated by blanks, each a number with s, m, h or d, from 1s to {}d",
                DELAY_SECONDS_MAX / (24 * 3600)
            ),
        }
    }

    /// Whether a TOML file writes the value without quotes.
    pub(super) fn is_bare_in_toml(&self) -> bool {
        matches!(self, Kind::Flag | Kind::Whole { .. } | Kind::Clamped { .. } | Kind::Stepped { .. })
    }
}

fn in_unit(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" ({unit})") }
}

/// The entries of a `;` list. `None` for an entry that is not `host:port`.
pub(super) fn host_ports(text: &str) -> impl Iterator<Item = Option<HostPort>> {
    entries(text).map(HostPort::parse)
}

/// The hours of a `;` list. `None` for an entry that is no hour.
pub(super) fn hours(text: &str) -> impl Iterator<Item = Option<u8>> {
    entries(text).map(|entry| entry.parse().ok().filter(|hour| *hour < 24))
}

/// The spans of a list of delay levels. `None` for an entry that is none.
pub(super) fn delay_levels(text: &str) -> impl Iterator<Item = Option<Millis>> {
    text.split_ascii_whitespace().map(|entry| {
        let unit_seconds = match entry.as_bytes().last()? {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 24 * 3600,
            _ => return None,
        };
        let seconds = entry[..entry.len() - 1].parse::<u32>().ok().map(|count| u64::from(count) * unit_seconds)?;
        (1..=DELAY_SECONDS_MAX).contains(&seconds).then_some(Millis(seconds * 1000))
    })
}

fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(str::trim).filter(|entry| !entry.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_normal_or_tell_what_is_allowed() {
        let step = Kind::Stepped { step: 4096, min: 1 << 20, max: 1 << 34 };
        let clamp = Kind::Clamped { min: 10_000, max: 60_000, unit: "ms" };
        let whole = Kind::Whole { min: 1, max: 9, unit: "h" };
        let cases: &[(Kind, &str, Option<&str>)] = &[
            (Kind::Flag, " TRUE ", Some("true")),
            (Kind::Flag, "yes", None),
            (whole, "9", Some("9")),
            (whole, "007", Some("7")),
            (whole, "10", None),
            (whole, "0", None),
            (whole, "", None),
            (whole, "4 # four", None),
            (clamp, "1", Some("10000")),
            (clamp, "99999999", Some("60000")),
            (clamp, "30000", Some("30000")),
            (clamp, "soon", None),
            (step, "1048576", Some("1048576")),
            (step, "1048577", None),
            (step, "4096", None),
            (Kind::Decimal, "0.8", Some("0.8")),
            (Kind::Decimal, "NaN", None),
            (Kind::Choice(&["A", "B"]), "B", Some("B")),
            (Kind::Choice(&["A", "B"]), "b", None),
            (Kind::Text, "  a b ", Some("a b")),
            (Kind::Text, "a\nb=c", None),
            (Kind::Name, "", None),
            (Kind::Name, "a b", None),
            (Kind::Name, "broker-a", Some("broker-a")),
            (Kind::Folder, "/a,/b", None),
            (Kind::Folder, "/a b", Some("/a b")),
            (Kind::Folders, "/a b", Some("/a b")),
            (Kind::Folders, " /a , /b, ", Some("/a,/b")),
            (Kind::Folders, "/a,,/b", None),
            (Kind::Folders, "/a,/b,/a/", None),
            (Kind::Folders, "", None),
            (Kind::Address { wildcard: true }, "0.0.0.0", Some("0.0.0.0")),
            (Kind::Address { wildcard: false }, "0.0.0.0", None),
            (Kind::Address { wildcard: false }, "::1", Some("::1")),
            (Kind::Address { wildcard: false }, "localhost", None),
            (Kind::HostPorts, "", Some("")),
            (Kind::HostPorts, " a:1 ; [::1]:9876; ", Some("a:1;[::1]:9876")),
            (Kind::HostPorts, "a", None),
            (Kind::HostPorts, "a:0", None),
            (Kind::HostPorts, "a:1;b:65536", None),
            (Kind::HostPorts, ":9876", None),
            (Kind::Hours, "4;16", Some("04;16")),
            (Kind::Hours, "04", Some("04")),
            (Kind::Hours, "24", None),
            (Kind::Hours, "", None),
            (Kind::DelayLevels, " 1s  5m 2h 30d ", Some("1s 5m 2h 30d")),
            (Kind::DelayLevels, "1s 31d", None),
            (Kind::DelayLevels, "0s", None),
            (Kind::DelayLevels, "1", None),
            (Kind::DelayLevels, "", None),
        ];
        for (kind, text, normal) in cases {
            assert_eq!(kind.normal(text).ok().as_deref(), *normal, "{kind:?} {text:?}");
        }
    }

    #[test]
    fn the_answer_names_limits_units_and_the_trailing_comment() {
        assert_eq!(
            Kind::Whole { min: 1, max: 9, unit: "h" }.normal("4 # four").unwrap_err(),
            "a whole number from 1 to 9 (h); a comment needs a line of its own"
        );
        assert_eq!(MS.normal("-1").unwrap_err(), "a whole number from 0 on (ms)");
        assert_eq!(Kind::Choice(&["A", "B"]).normal("C").unwrap_err(), "one of A, B");
    }
}
