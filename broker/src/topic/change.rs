//! What can be asked of the table of topics, and what each of it does to a topic. Pure.

use std::collections::BTreeMap;

use remoting::body::route::{permission, topic_sys_flag};
use remoting::body::topic::TopicConfig;
use remoting::code::ResponseCode;
use remoting::name;
use remoting::text::Text;

use super::attributes;
use super::{TOPIC_QUEUES_MAX, Topic};
use crate::call::Refusal;

/// Bits that a topic's permission may have.
const PERMISSION_BITS: i32 = permission::READ_WRITE | permission::INHERIT | permission::PRIORITY;

/// One change of the table.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// An operator's wish. Attributes are a modification; all other fields replace what is there.
    Update(TopicConfig),
    /// Several wishes of one request: all or none.
    UpdateList(Vec<TopicConfig>),
    /// A topic that a send names and nobody made: made after its template if that allows it.
    AutoCreate {
        topic: Text,
        template: Text,
        queues: i32,
        unit: bool,
    },
    /// A topic that the broker needs itself; one that exists stays as it is.
    Fixed(FixedTopic),
    /// These topics have an order configuration at the nameserver.
    MarkOrdered(Vec<Text>),
    Delete(Text),
}

impl Change {
    /// The topics that it looks at.
    pub(super) fn names(&self) -> Vec<&Text> {
        match self {
            Change::Update(wish) => vec![&wish.topic_name],
            Change::UpdateList(wishes) => wishes.iter().map(|wish| &wish.topic_name).collect(),
            Change::AutoCreate { topic, template, .. } => vec![topic, template],
            Change::Fixed(wanted) => vec![&wanted.topic],
            Change::MarkOrdered(topics) => topics.iter().collect(),
            Change::Delete(topic) => vec![topic],
        }
    }
}

/// A topic with given queues, readable and writable.
#[derive(Clone, Debug)]
pub(crate) struct FixedTopic {
    pub(crate) topic: Text,
    pub(crate) queues: u32,
}

/// What of the configuration decides about changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) auto_create: bool,
    /// Operators may not change system topics.
    pub(crate) protect_system_topics: bool,
}

/// Whether an operator may touch the topic at all.
pub(crate) fn check_named(topic: &str, is_system: bool, rules: Rules) -> Result<(), Refusal> {
    name::check_topic(topic).map_err(|error| Refusal::new(ResponseCode::INVALID_PARAMETER, error.to_string()))?;
    if rules.protect_system_topics && is_system {
        let remark = format!("topic {topic} belongs to the system and cannot be changed or deleted");
        return Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark));
    }
    Ok(())
}

/// The topic as an operator wishes it.
pub(crate) fn updated(current: Option<&TopicConfig>, wish: &TopicConfig) -> Result<TopicConfig, Refusal> {
    let invalid = |remark: String| Refusal::new(ResponseCode::INVALID_PARAMETER, remark);
    for (what, queues) in [("readQueueNums", wish.read_queue_nums), ("writeQueueNums", wish.write_queue_nums)] {
        if !(0..=TOPIC_QUEUES_MAX).contains(&queues) {
            return Err(invalid(format!("{what} is {queues}; allowed are 0 to {TOPIC_QUEUES_MAX}")));
        }
    }
    if wish.perm & !PERMISSION_BITS != 0 {
        return Err(invalid(format!("perm is {}; allowed are sums of 4 (read), 2 (write) and 1 (inherit)", wish.perm)));
    }
    let current = current.map(|config| &config.attributes);
    let attributes = attributes::modify(attributes::OF_TOPICS, current, &wish.attributes)
        .map_err(|error| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string()))?;
    if attributes.get(attributes::MESSAGE_TYPE).is_some_and(|value| *value == attributes::MESSAGE_TYPE_MIXED) {
        return Err(invalid("message.type MIXED is not allowed on this broker; give the topic one type".to_owned()));
    }
    Ok(TopicConfig { attributes, topic_name: wish.topic_name.detached(), ..wish.clone() })
}

/// A topic made by sending to it.
pub(crate) fn auto_created(
    topic: &Text,
    template: Option<&Topic>,
    queues: i32,
    unit: bool,
    rules: Rules,
) -> Result<TopicConfig, Refusal> {
    let may_inherit = |template: &&Topic| {
        template.config.perm & permission::INHERIT != 0
            && (rules.auto_create || *template.name() != name::AUTO_CREATE_TOPIC)
    };
    if let Some(template) = template.filter(may_inherit) {
        let queues = queues.min(template.config.write_queue_nums).max(0);
        return Ok(TopicConfig {
            attributes: BTreeMap::new(),
            order: false,
            perm: template.config.perm & !permission::INHERIT,
            read_queue_nums: queues,
            topic_filter_type: template.config.topic_filter_type,
            topic_name: topic.detached(),
            topic_sys_flag: if unit { topic_sys_flag::UNIT } else { 0 },
            write_queue_nums: queues,
        });
    }
    if name::is_retry_topic(topic) {
        return Ok(fixed(&FixedTopic { topic: topic.clone(), queues: 1 }));
    }
    Err(no_topic(topic))
}

pub(crate) fn fixed(wanted: &FixedTopic) -> TopicConfig {
    let queues = i32::try_from(wanted.queues).map_or(TOPIC_QUEUES_MAX, |queues| queues.min(TOPIC_QUEUES_MAX));
    TopicConfig {
        topic_name: wanted.topic.detached(),
        read_queue_nums: queues,
        write_queue_nums: queues,
        ..TopicConfig::default()
    }
}

/// What a request for a topic that is not there is answered with.
pub(crate) fn no_topic(topic: &str) -> Refusal {
    let remark =
        format!("topic {topic} does not exist on this broker and cannot be made by sending to it; create it first");
    Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { auto_create: true, protect_system_topics: true };

    fn template(perm: i32, queues: i32) -> Topic {
        let config = TopicConfig {
            topic_name: Text::from("TBW102"),
            perm,
            read_queue_nums: queues,
            write_queue_nums: queues,
            ..TopicConfig::default()
        };
        Topic::new(0, config, true)
    }

    #[test]
    fn a_send_makes_a_topic_after_its_template() {
        let made = |topic: &str, template: Option<&Topic>, queues, rules| {
            auto_created(&Text::from(topic), template, queues, false, rules)
                .map(|config| (config.read_queue_nums, config.write_queue_nums, config.perm))
                .map_err(|refusal| refusal.code)
        };
        let off = Rules { auto_create: false, ..RULES };
        let missing = Err(ResponseCode::TOPIC_NOT_EXIST);
        for (topic, template, queues, rules, expected) in [
            ("T", Some(template(7, 8)), 4, RULES, Ok((4, 4, 6))),
            ("T", Some(template(7, 8)), 16, RULES, Ok((8, 8, 6))),
            ("T", Some(template(7, 8)), -1, RULES, Ok((0, 0, 6))),
            ("T", Some(template(6, 8)), 4, RULES, missing),
            ("T", Some(template(7, 8)), 4, off, missing),
            ("T", None, 4, RULES, missing),
            ("%RETRY%g", None, 4, RULES, Ok((1, 1, 6))),
            ("%RETRY%g", Some(template(7, 8)), 4, off, Ok((1, 1, 6))),
        ] {
            assert_eq!(made(topic, template.as_ref(), queues, rules), expected, "{topic} {template:?} {queues}");
        }
        let unit = auto_created(&Text::from("T"), Some(&template(7, 8)), 1, true, RULES).unwrap();
        assert_eq!(unit.topic_sys_flag, topic_sys_flag::UNIT);
    }

    #[test]
    fn an_update_replaces_fields_and_merges_attributes() {
        let with = |pairs: &[(&str, &str)]| TopicConfig {
            topic_name: Text::from("T"),
            attributes: pairs.iter().map(|(name, value)| (Text::from(*name), Text::from(*value))).collect(),
            ..TopicConfig::default()
        };
        let current = TopicConfig { order: true, ..with(&[("message.type", "FIFO")]) };
        let wish = TopicConfig { perm: 4, read_queue_nums: 3, ..with(&[("+reserve.time", "5")]) };
        let made = updated(Some(&current), &wish).unwrap();
        assert_eq!((made.perm, made.read_queue_nums, made.order), (4, 3, false));
        assert_eq!(made.attributes, with(&[("message.type", "FIFO"), ("reserve.time", "5")]).attributes);
        for (wish, code) in [
            (TopicConfig { perm: 16, ..with(&[]) }, ResponseCode::INVALID_PARAMETER),
            (TopicConfig { read_queue_nums: -1, ..with(&[]) }, ResponseCode::INVALID_PARAMETER),
            (TopicConfig { write_queue_nums: i32::MAX, ..with(&[]) }, ResponseCode::INVALID_PARAMETER),
            (with(&[("+message.type", "MIXED")]), ResponseCode::INVALID_PARAMETER),
            (with(&[("+nothing", "x")]), ResponseCode::SYSTEM_ERROR),
        ] {
            assert_eq!(updated(Some(&current), &wish).unwrap_err().code, code, "{wish:?}");
        }
    }

    #[test]
    fn operators_do_not_touch_the_systems_topics() {
        assert!(check_named("T", false, RULES).is_ok());
        for (topic, is_system) in [("a b", false), ("../x", false), ("", false), ("TBW102", true)] {
            let refusal = check_named(topic, is_system, RULES).unwrap_err();
            assert_eq!(refusal.code, ResponseCode::INVALID_PARAMETER, "{topic}");
        }
        assert!(check_named("TBW102", true, Rules { protect_system_topics: false, ..RULES }).is_ok());
    }
}
