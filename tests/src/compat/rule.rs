//! What may be different from run to run, and is taken out before two answers are compared: each by a named rule.

use std::collections::BTreeMap;

use super::facts::Facts;
use super::play::Addresses;

/// How a rule finds what it replaces.
enum Finds {
    /// A number of milliseconds within some days of now.
    Time,
    /// A message id: 32 hexadecimal digits in capitals, or 56 where an address is of IPv6.
    MessageId,
    /// The value of a fact whose name ends in one of these words, if it is a number.
    NumberOf(&'static str),
    /// The value of a fact whose name ends in one of these words, whatever it is.
    AnyOf(&'static str),
}

struct Rule {
    name: &'static str,
    finds: Finds,
}

/// Applied in this order. Addresses of this machine are replaced besides.
const RULES: [Rule; 9] = [
    Rule { name: "id", finds: Finds::MessageId },
    Rule { name: "time", finds: Finds::Time },
    // Logs are laid out differently, and records have a different trailer.
    Rule {
        name: "log offset",
        finds: Finds::NumberOf("hysicalOffset physicOffset hyoffset ommitLogOffset ommitLogMaxOffset"),
    },
    Rule { name: "log bytes", finds: Finds::NumberOf("physicSize") },
    // A handle holds a time and an id.
    Rule { name: "handle", finds: Finds::AnyOf("recallHandle") },
    Rule { name: "port", finds: Finds::NumberOf("istenPort") },
    Rule {
        name: "path",
        finds: Finds::AnyOf("storePathRootDir storePathCommitLog rocketmqHome vConfigPath configStorePath"),
    },
    Rule { name: "counter", finds: Finds::NumberOf("ersion.counter") },
    // Rates, times and sums of what the broker did, and the machine's space.
    Rule {
        name: "measured",
        finds: Finds::AnyOf(
            "Tps .tps .sum .avgpt delayTime TimeMills TodayNow TodayMorning YesterdayMorning \
            QueueSize QueueCapacity DirCapacity DiskRatio EntireTimeMax putLatency99 \
            putLatency999 AverageSize DistributeTime FailedTimes SizeTotal TimesTotal \
            DataToFlush table.runtime timerCongestNum ReadBehind OffsetBehind dispatchBehindBytes",
        ),
    },
];

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Lists whose order means nothing.
const UNORDERED: &str = "topicList groupList consumerIdList connectionSet lockOKMQSet consumeStatsList \
    messageQueueAssignments brokerDatas queueDatas consumeTimeSpanSet data.producer";
/// What tells the elements of such a list apart; else it is the first name within the element.
const IDENTIFIERS: [&str; 4] = [".clientId", ".queueId", ".messageQueue.queueId", ".brokerName"];

/// The facts of one side with everything volatile replaced.
pub fn normalised(facts: &Facts, addresses: &Addresses, now_ms: u64) -> Facts {
    let plain =
        facts.iter().map(|(name, value)| (replaced(name, addresses, now_ms), value_of(name, value, addresses, now_ms)));
    by_identifier(plain.collect())
}

fn value_of(name: &str, value: &str, addresses: &Addresses, now_ms: u64) -> String {
    for rule in &RULES {
        let ends = match rule.finds {
            Finds::NumberOf(ends) if value.parse::<f64>().is_ok() => ends,
            Finds::AnyOf(ends) => ends,
            _ => continue,
        };
        if ends.split(' ').any(|end| name.ends_with(end)) {
            return format!("<{}>", rule.name);
        }
    }
    replaced(value, addresses, now_ms)
}

/// A text with its times, ids and addresses replaced.
fn replaced(text: &str, addresses: &Addresses, now_ms: u64) -> String {
    let text = text.replace(&addresses.namesrv, "<namesrv>").replace(&addresses.broker, "<broker>");
    let mut plain = String::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let length = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length);
        if let Some(port) = behind.strip_prefix(".0.0.1:").filter(|_| word == "127") {
            rest = port.trim_start_matches(|letter: char| letter.is_ascii_digit());
            plain.push_str("<address>");
            continue;
        }
        match RULES.iter().find(|rule| matches(&rule.finds, word, now_ms)) {
            Some(rule) => plain.push_str(&format!("<{}>", rule.name)),
            None => plain.push_str(word),
        }
        let mut letters = behind.chars();
        plain.extend(letters.next());
        rest = letters.as_str();
    }
    plain
}

fn matches(finds: &Finds, word: &str, now_ms: u64) -> bool {
    match finds {
        Finds::Time => word.parse().is_ok_and(|time: u64| time.abs_diff(now_ms) < 8 * DAY_MS),
        Finds::MessageId => {
            let is_hexadecimal = word.bytes().all(|letter| letter.is_ascii_digit() || (b'A'..=b'F').contains(&letter));
            [32, 56].contains(&word.len()) && is_hexadecimal
        }
        Finds::NumberOf(_) | Finds::AnyOf(_) => false,
    }
}

/// Names the elements of lists without an order by what they are, not by their place.
fn by_identifier(facts: Facts) -> Facts {
    let mut elements: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut others = Facts::new();
    for (name, value) in facts {
        match element_of(&name) {
            Some((element, inner)) => {
                elements.entry(element.to_owned()).or_default().insert(inner.to_owned(), value);
            }
            None => {
                others.insert(name, value);
            }
        }
    }
    for (element, leaves) in elements {
        let list = element.rsplit_once('[').map_or(&*element, |(list, _)| list);
        let identifier = IDENTIFIERS.iter().find_map(|name| leaves.get(*name));
        for (inner, value) in &leaves {
            let first = inner.trim_start_matches('.').split(['.', '[']).next().unwrap_or_default();
            let identifier = if inner.is_empty() { value } else { identifier.map_or(first, String::as_str) };
            let value = if inner.is_empty() { "there" } else { value };
            others.insert(format!("{list}{{{identifier}}}{inner}"), value.to_owned());
        }
    }
    others
}

/// The element of an unordered list that a fact belongs to, as `list[n]`, and its name within it.
fn element_of(name: &str) -> Option<(&str, &str)> {
    UNORDERED.split(' ').find_map(|list| {
        let start = name.find(&format!("{list}["))? + list.len();
        let end = start + name[start..].find(']')? + 1;
        Some((&name[..end], &name[end..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(facts: &[(&str, &str)]) -> Vec<(String, String)> {
        let addresses = Addresses { namesrv: "127.0.0.1:1".to_owned(), broker: "127.0.0.1:2".to_owned() };
        let facts = facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        normalised(&facts, &addresses, 1_700_000_000_000).into_iter().collect()
    }

    #[test]
    fn only_what_is_volatile_is_replaced() {
        for (name, value, wanted) in [
            ("field.msgId", "7F00000100002A9F0000000000000000", "<id>"),
            ("field.msgId", "7F00000100002A9F0000000000000000,7F00000100002A9F00000000000000E0", "<id>,<id>"),
            ("body.time", "1699999999999", "<time>"),
            ("body.time", "1600000000000", "1600000000000"),
            ("body.at", "at 127.0.0.1:1, 127.0.0.1:2 and 127.0.0.1:33", "at <namesrv>, <broker> and <address>"),
            ("body[0].physicalOffset", "77", "<log offset>"),
            ("field.queueOffset", "77", "77"),
            ("body.dataVersion.counter", "3", "<counter>"),
            ("body.listenPort", "none", "none"),
        ] {
            assert_eq!(normal(&[(name, value)]), [(name.to_owned(), wanted.to_owned())], "{name}={value}");
        }
    }

    #[test]
    fn lists_without_an_order_have_none() {
        let pairs = [
            ("body.topicList[0]", "b"),
            ("body.topicList[1]", "a"),
            ("body.connectionSet[0].clientId", "x"),
            ("body.connectionSet[0].version", "1"),
            ("body.consumeStatsList[3].g[0].n", "5"),
            ("body.tags[1]", "kept"),
        ];
        let names: Vec<String> = normal(&pairs).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let wanted = [
            "body.connectionSet{x}.clientId=x",
            "body.connectionSet{x}.version=1",
            "body.consumeStatsList{g}.g[0].n=5",
            "body.tags[1]=kept",
            "body.topicList{a}=there",
            "body.topicList{b}=there",
        ];
        assert_eq!(names, wanted);
    }
}
