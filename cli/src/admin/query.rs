//! Finding single messages.

use bytes::Bytes;
use clap::Args;
use client::{Client, KeyKind, KeyQuery, MESSAGES_OF_KEY_MAX};
use remoting::message_id::OffsetId;
use remoting::properties;
use remoting::record::{RecordView, Records};
use serde_json::Value;

use super::{Session, message};
use crate::failure::{Exit, Failure};
use crate::output::More;
use crate::table::Table;

#[derive(Debug, Args)]
pub(super) struct QueryById {
    #[arg(short = 't', long = "topic")]
    topic: String,
    /// The id made by the broker, or by the sender
    #[arg(short = 'i', long = "msgId")]
    id: String,
}

impl QueryById {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        if let Some(id) = offset_id_of(&session.client, &self.topic, &self.id).await? {
            let body = session.client.view_message(&id, &self.topic).await?;
            let record = RecordView::decode(&body)
                .map_err(|error| Failure::new(Exit::Failure, format!("{} sent no message: {error}", id.host)))?;
            return print(session, &record);
        }
        print_by_unique_key(session, &self.topic, &self.id, Shown::Latest).await
    }
}

#[derive(Debug, Args)]
pub(super) struct QueryByUniqueKey {
    #[arg(short = 't', long = "topic")]
    topic: String,
    /// The id that the sender's client made
    #[arg(short = 'i', long = "msgId")]
    id: String,
    /// Print all messages with that id, not only the latest
    #[arg(short = 'a', long = "showAll")]
    all: bool,
}

impl QueryByUniqueKey {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let shown = if self.all { Shown::All } else { Shown::Latest };
        print_by_unique_key(session, &self.topic, &self.id, shown).await
    }
}

#[derive(Debug, Args)]
pub(super) struct QueryByKey {
    #[arg(short = 't', long = "topic")]
    topic: String,
    #[arg(short = 'k', long = "msgKey")]
    key: String,
    /// Stored at this time or later; milliseconds
    #[arg(short = 'b', long = "beginTimestamp", default_value_t = 0)]
    begin_ms: i64,
    /// Stored at this time or earlier; milliseconds
    #[arg(short = 'e', long = "endTimestamp", default_value_t = i64::MAX, hide_default_value = true)]
    end_ms: i64,
    /// Messages of each broker
    #[arg(short = 'm', long = "maxNum", default_value_t = MESSAGES_OF_KEY_MAX)]
    count_max: i32,
}

impl QueryByKey {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let query = KeyQuery {
            count_max: self.count_max,
            begin_ms: self.begin_ms,
            end_ms: self.end_ms,
            ..KeyQuery::new(&self.topic, &self.key, KeyKind::Key)
        };
        let bodies = session.client.query_key(&query).await?;
        let records = matching(&bodies, |record| self.has(record));
        if records.is_empty() {
            return Err(not_found(&self.topic, &format!("the key {}", self.key)));
        }
        let mut table = Table::new(&[
            ("#Message ID", "msgId"),
            ("#QID", "queueId"),
            ("#Offset", "queueOffset"),
            ("#OffsetMsgId", "offsetMsgId"),
        ]);
        for record in &records {
            table.push([
                Value::from(message::message_id(record)),
                Value::from(record.queue_id().0),
                Value::from(record.queue_offset().0),
                Value::from(message::offset_id(record)),
            ]);
        }
        session.output.table(&table)?;
        if let Some(before_ms) = self.may_be_cut_at(&bodies) {
            let fix =
                format!("a broker gives its newest {MESSAGES_OF_KEY_MAX} at most; -e {before_ms} shows older ones");
            session.output.cut(records.len() as u64, More::Possible, &fix)?;
        }
        Ok(())
    }

    fn has(&self, record: &RecordView<'_>) -> bool {
        record.topic() == self.topic && properties::keys(record.properties()).any(|key| key == self.key)
    }

    /// When an answer has as many messages as a broker gives: the time of its oldest one.
    fn may_be_cut_at(&self, bodies: &[Bytes]) -> Option<i64> {
        let count_max = usize::try_from(self.count_max.min(MESSAGES_OF_KEY_MAX)).unwrap_or(0);
        let oldest_of_full = |body: &Bytes| {
            let times: Vec<i64> =
                Records::new(body).filter_map(Result::ok).map(|record| record.store_timestamp_ms()).collect();
            if times.len() < count_max { None } else { times.into_iter().min() }
        };
        bodies.iter().filter_map(oldest_of_full).max()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Latest,
    All,
}

/// An id that the broker made. Both kinds of ids look alike: the broker's own names one of the topic's brokers.
pub(super) async fn offset_id_of(client: &Client, topic: &str, id: &str) -> Result<Option<OffsetId>, Failure> {
    let Ok(id) = OffsetId::decode(id) else { return Ok(None) };
    let host = id.host.to_string();
    let route = client.route(topic).await?;
    let known = route.data.broker_datas.iter().any(|broker| broker.broker_addrs.values().any(|known| *known == host));
    Ok(known.then_some(id))
}

async fn print_by_unique_key(session: &mut Session, topic: &str, id: &str, shown: Shown) -> Result<(), Failure> {
    let bodies = session.client.query_key(&KeyQuery::new(topic, id, KeyKind::UniqueId)).await?;
    let mut records = matching(&bodies, |record| record.property(properties::UNIQUE_KEY) == Some(id));
    if records.is_empty() {
        return Err(not_found(topic, &format!("the id {id}")));
    }
    records.sort_by_key(RecordView::store_timestamp_ms);
    let first = match shown {
        Shown::Latest => records.len() - 1,
        Shown::All => 0,
    };
    for record in &records[first..] {
        print(session, record)?;
    }
    Ok(())
}

/// The messages of some answers that really are what was asked for: an index finds by a hash.
fn matching<'a>(bodies: &'a [Bytes], wanted: impl Fn(&RecordView<'_>) -> bool) -> Vec<RecordView<'a>> {
    bodies.iter().flat_map(|body| Records::new(body)).filter_map(Result::ok).filter(wanted).collect()
}

fn print(session: &mut Session, record: &RecordView<'_>) -> Result<(), Failure> {
    let text =
        if session.output.is_json() { message::object("", record).to_string() } else { message::details(record) };
    Ok(session.output.line(&text)?)
}

pub(super) fn not_found(topic: &str, what: &str) -> Failure {
    Failure::new(Exit::Failure, format!("no message of the topic {topic} has {what}"))
        .with_fix("what was just sent may take a moment to be indexed; what is old may have been deleted")
}
