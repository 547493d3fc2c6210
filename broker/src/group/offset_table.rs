//! The text of `consumerOffset.json`: `{"dataVersion":{…},"offsetTable":{"topic@group":{"0":123}}}`. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Millis, QueueId, QueueOffset};
use bytes::Bytes;
use remoting::body::consume::ConsumerOffsetTable;
use remoting::body::topic::DataVersion;
use remoting::json::{self, JsonError};
use remoting::text::Text;

use super::offsets::TopicOffsets;

/// Between topic and group in a key; neither name can hold it.
const SEPARATOR: char = '@';

/// The offsets of all groups, as the file has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OffsetTable {
    version: DataVersion,
    /// A copy of the table shares them.
    groups: BTreeMap<Text, Arc<TopicOffsets>>,
}

impl OffsetTable {
    /// Reads a text. What makes no sense in it is told, not kept.
    ///
    /// # Errors
    /// When it is not such a text.
    pub(crate) fn parse(text: &str) -> Result<(OffsetTable, Vec<String>), JsonError> {
        let body: ConsumerOffsetTable = json::decode(text.as_bytes())?;
        let mut groups: BTreeMap<Text, TopicOffsets> = BTreeMap::new();
        let mut senseless = Vec::new();
        for (key, queues) in body.offset_table {
            let Some((topic, group)) = key.split_once(SEPARATOR) else {
                senseless.push(format!("\"{key}\" is not topic@group"));
                continue;
            };
            let topics = groups.entry(Text::from(group)).or_default();
            let offsets = topics.entry(Text::from(topic)).or_default();
            for (queue, offset) in queues {
                match (u32::try_from(queue), u64::try_from(offset)) {
                    (Ok(queue), Ok(offset)) => {
                        offsets.insert(QueueId(queue), QueueOffset(offset));
                    }
                    _ => senseless.push(format!("offset {offset} in queue {queue} of {key}")),
                }
            }
        }
        let groups = groups.into_iter().map(|(group, topics)| (group, Arc::new(topics))).collect();
        Ok((OffsetTable { version: body.data_version, groups }, senseless))
    }

    pub(crate) fn to_text(&self) -> Bytes {
        json::encode(&self.to_body())
    }

    pub(crate) fn to_body(&self) -> ConsumerOffsetTable {
        let mut offset_table = BTreeMap::new();
        for (group, topics) in &self.groups {
            for (topic, queues) in topics.iter() {
                let queues = queues.iter().map(|(queue, offset)| (queue.0 as i32, offset.0 as i64)).collect();
                offset_table.insert(Text::from(format!("{topic}{SEPARATOR}{group}")), queues);
            }
        }
        ConsumerOffsetTable { data_version: self.version, offset_table }
    }

    /// Puts the offsets of these groups in place of those they had, which are given back: to drop many takes long.
    pub(crate) fn replace(&mut self, groups: Vec<(Text, TopicOffsets)>, now: Millis) -> Vec<Arc<TopicOffsets>> {
        self.version.counter += 1;
        self.version.timestamp = now.0 as i64;
        let put = |(group, topics): (Text, TopicOffsets)| match topics.is_empty() {
            true => self.groups.remove(&group),
            false => self.groups.insert(group, Arc::new(topics)),
        };
        groups.into_iter().filter_map(put).collect()
    }

    /// Sets an offset that is there.
    pub(crate) fn set(&mut self, group: &str, topic: &str, queue: QueueId, to: QueueOffset) {
        let topics = self.groups.get_mut(group);
        let offset =
            topics.and_then(|topics| Arc::make_mut(topics).get_mut(topic)).and_then(|queues| queues.get_mut(&queue));
        *offset.expect("the offset is in the table") = to;
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = (&Text, &TopicOffsets)> {
        self.groups.iter().map(|(group, topics)| (group, &**topics))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_numbers_as_keys_are_read() {
        let text = r#"{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":9},
            "offsetTable":{"T@g":{0:123,1:98},"%RETRY%g@g":{"0":7},"U@ns%h":{"2":0}}}"#;
        let (mut table, senseless) = OffsetTable::parse(text).expect("a table");
        assert_eq!((senseless, table.groups.len()), (Vec::new(), 2));
        assert_eq!(table.groups["g"]["T"], [(QueueId(0), QueueOffset(123)), (QueueId(1), QueueOffset(98))].into());
        let written = table.to_text();
        let text = std::str::from_utf8(&written).expect("text");
        assert_eq!(OffsetTable::parse(text).expect("a table").0, table);
        assert!(text.contains(r#""U@ns%h":{"2":0}"#), "{text}");
        assert_eq!(table.replace(vec![(Text::from("g"), TopicOffsets::new())], Millis(10)).len(), 1);
        let text = table.to_text();
        let text = std::str::from_utf8(&text).expect("text");
        assert_eq!(
            text,
            r#"{"dataVersion":{"counter":4,"stateVersion":0,"timestamp":10},"offsetTable":{"U@ns%h":{"2":0}}}"#
        );
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let (table, senseless) =
            OffsetTable::parse(r#"{"offsetTable":{"T":{"0":1},"T@g":{"0":-1,"-2":5,"1":4}}}"#).expect("a table");
        assert_eq!((senseless.len(), &table.groups["g"]["T"]), (3, &[(QueueId(1), QueueOffset(4))].into()));
        assert!(OffsetTable::parse("{\"offsetTable\":[]}").is_err());
        assert!(OffsetTable::parse("").is_err());
    }
}
