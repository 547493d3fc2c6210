//! Sending, and how messages are printed.

use bytes::Bytes;
use clap::Args;
use client::{Body, Message, SendOptions, body_of};
use remoting::message_id::OffsetId;
use remoting::properties;
use remoting::record::RecordView;
use remoting::text::Text;
use serde_json::{Map, Value, json};

use super::Session;
use crate::failure::Failure;
use crate::output::one_line;
use crate::table::Table;
use crate::time;

#[derive(Debug, Args)]
pub(super) struct SendMessage {
    #[arg(short = 't', long = "topic")]
    topic: String,
    /// The text of the message
    #[arg(short = 'p', long = "body", allow_hyphen_values = true)]
    body: String,
    /// Keys joined by blanks
    #[arg(short = 'k', long = "key")]
    keys: Option<String>,
    /// A tag
    #[arg(short = 'c', long = "tags")]
    tag: Option<String>,
    /// Only this broker
    #[arg(short = 'b', long = "broker", value_name = "NAME")]
    broker: Option<String>,
    /// Only this queue of the broker
    #[arg(short = 'i', long = "qid", requires = "broker")]
    queue_id: Option<i32>,
}

impl SendMessage {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let message = Message::new(self.topic, Bytes::from(self.body))
            .with_tag(self.tag.unwrap_or_default())
            .with_keys(self.keys.unwrap_or_default());
        let options = SendOptions { group: Text::EMPTY, broker: self.broker.map(Text::from), queue_id: self.queue_id };
        let receipt = session.client.send(&message, &options).await?;
        let mut table = Table::new(&[
            ("#Broker Name", "brokerName"),
            ("#QID", "queueId"),
            ("#Send Result", "sendResult"),
            ("#MsgId", "msgId"),
            ("#Offset", "queueOffset"),
            ("#OffsetMsgId", "offsetMsgId"),
        ]);
        table.push([
            Value::from(receipt.queue.broker_name.as_str()),
            Value::from(receipt.queue.queue_id),
            Value::from(receipt.status.name()),
            Value::from(receipt.unique_id),
            Value::from(receipt.queue_offset),
            Value::from(receipt.offset_id.as_str()),
        ]);
        Ok(session.output.table(&table)?)
    }
}

/// The id that a person knows a message by: its sender's, else its broker's.
pub(super) fn message_id(record: &RecordView<'_>) -> String {
    record.property(properties::UNIQUE_KEY).map_or_else(|| offset_id(record), str::to_owned)
}

pub(super) fn offset_id(record: &RecordView<'_>) -> String {
    OffsetId { host: record.store_host(), physical_offset: record.physical_offset() }.encode()
}

/// A received message on one line.
pub(super) fn line(broker_name: &str, record: &RecordView<'_>) -> String {
    let mut line = format!(
        "MSGID: {} BROKER: {broker_name} QID: {} OFFSET: {} STORED: {}",
        message_id(record),
        record.queue_id(),
        record.queue_offset(),
        time::text(record.store_timestamp_ms()),
    );
    for (label, name) in [("TAGS", properties::TAGS), ("KEYS", properties::KEYS)] {
        if let Some(value) = record.property(name) {
            line.push_str(&format!(" {label}: {}", one_line(value)));
        }
    }
    line.push_str(&format!(" BODY: {}", body_text(record)));
    line
}

/// All of a message as an object.
pub(super) fn object(broker_name: &str, record: &RecordView<'_>) -> Value {
    let properties: Map<String, Value> =
        properties::parse(record.properties()).map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    json!({
        "msgId": message_id(record),
        "offsetMsgId": offset_id(record),
        "topic": record.topic(),
        "brokerName": broker_name,
        "queueId": record.queue_id().0,
        "queueOffset": record.queue_offset().0,
        "commitLogOffset": record.physical_offset().0,
        "bornTimestamp": record.born_timestamp_ms(),
        "bornHost": record.born_host().to_string(),
        "storeTimestamp": record.store_timestamp_ms(),
        "storeHost": record.store_host().to_string(),
        "reconsumeTimes": record.reconsume_times(),
        "sysFlag": record.sys_flag(),
        "flag": record.flag(),
        "properties": properties,
        "body": text_of(&body_of(record)),
    })
}

/// As [`object`], with a body that can be restored: as text where it is text, else byte by byte as stored.
pub(super) fn whole_object(record: &RecordView<'_>) -> Value {
    let mut object = object("", record);
    let fields = object.as_object_mut().expect("an object was made");
    fields.remove("brokerName");
    fields.remove("body");
    let (name, text) = match body_of(record) {
        Body::Plain(bytes) if std::str::from_utf8(&bytes).is_ok() => {
            ("body", String::from_utf8_lossy(&bytes).into_owned())
        }
        _ => ("bodyHex", record.body().iter().map(|byte| format!("{byte:02x}")).collect()),
    };
    fields.insert(name.to_owned(), Value::from(text));
    object
}

/// Everything about a message, a line each.
pub(super) fn details(record: &RecordView<'_>) -> String {
    let property = |name| record.property(name).unwrap_or("null");
    let all: Vec<String> =
        properties::parse(record.properties()).map(|(name, value)| format!("{name}={value}")).collect();
    let lines = [
        ("OffsetID", offset_id(record)),
        ("Topic", record.topic().to_owned()),
        ("Tags", format!("[{}]", property(properties::TAGS))),
        ("Keys", format!("[{}]", property(properties::KEYS))),
        ("Queue ID", record.queue_id().to_string()),
        ("Queue Offset", record.queue_offset().to_string()),
        ("CommitLog Offset", record.physical_offset().to_string()),
        ("Reconsume Times", record.reconsume_times().to_string()),
        ("Born Timestamp", time::text(record.born_timestamp_ms())),
        ("Store Timestamp", time::text(record.store_timestamp_ms())),
        ("Born Host", record.born_host().to_string()),
        ("Store Host", record.store_host().to_string()),
        ("System Flag", record.sys_flag().to_string()),
        ("Properties", format!("{{{}}}", one_line(&all.join(", ")))),
        ("Message Body", body_text(record)),
    ];
    let lines: Vec<String> = lines.iter().map(|(name, value)| format!("{:<20} {value}", format!("{name}:"))).collect();
    lines.join("\n")
}

/// The body on one line.
fn body_text(record: &RecordView<'_>) -> String {
    one_line(&text_of(&body_of(record)))
}

fn text_of(body: &Body<'_>) -> String {
    match body {
        Body::Plain(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Body::Packed { kind, bytes } => format!("compressed ({kind}), {bytes} bytes"),
        Body::Damaged { bytes } => format!("said to be compressed but not readable, {bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn bodies_are_text_whatever_they_are() {
        assert_eq!(text_of(&Body::Plain(Cow::Borrowed(b"a\nb"))), "a\nb");
        assert_eq!(text_of(&Body::Plain(Cow::Borrowed(&[0xff, b'x']))), "\u{fffd}x");
        assert_eq!(text_of(&Body::Packed { kind: "lz4", bytes: 12 }), "compressed (lz4), 12 bytes");
    }
}
