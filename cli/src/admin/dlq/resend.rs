//! Sending dead letters once more. A copy carries the id of its letter, and before a letter is sent the copies there
//! are looked up by the message's own id: so each letter is sent once, whatever became of the command's last run.

use bytes::Bytes;
use clap::{Args, ValueEnum};
use client::{Client, Copied, KeyKind, KeyQuery, Receipt, SendOptions};
use remoting::message_id::OffsetId;
use remoting::name;
use remoting::properties::{self, Builder};
use remoting::record::{RecordView, Records};
use remoting::text::Text;
use serde_json::Value;

use super::super::dead_letters::Selection;
use super::super::{Session, Tally, message};
use super::holder::Holder;
use crate::failure::{Exit, Failure};
use crate::output::one_line;
use crate::table::Table;

/// The property of a copy that names its letter.
const RESENT_FROM: &str = "RESENT_FROM";
/// Copies of one message that are looked through for that of a letter.
const COPIES_MAX: i32 = 64;
/// How far a broker's clock may have gone back between a letter and its copy.
const CLOCK_BACK_MS_MAX: i64 = 600_000;
/// What the life of the letter left in its properties, and a new life must not begin with.
const LEFT_BEHIND: [&str; 21] = [
    RESENT_FROM,
    properties::INNER_MULTI_DISPATCH,
    properties::INNER_MULTI_QUEUE_OFFSET,
    properties::DELAY_LEVEL,
    properties::WAIT_STORE,
    properties::RECONSUME_TIME,
    properties::MAX_RECONSUME_TIMES,
    properties::REAL_TOPIC,
    properties::REAL_QUEUE_ID,
    properties::CONSUME_START_TIME,
    properties::MIN_OFFSET,
    properties::MAX_OFFSET,
    properties::TRANSACTION_PREPARED,
    properties::TIMER_DELAY_SECONDS,
    properties::TIMER_DELAY_MS,
    properties::TIMER_DELIVER_MS,
    properties::TIMER_OUT_MS,
    properties::TIMER_ROLL_TIMES,
    properties::POP_CHECKPOINT,
    properties::FIRST_POP_TIME,
    properties::ORIGIN_GROUP,
];

#[derive(Debug, Args)]
pub(super) struct Resend {
    #[command(flatten)]
    selection: Selection,
    /// Send all dead letters of the group
    #[arg(short = 'a', long = "all")]
    all: bool,
    /// Where to: to the topic the message came from, for all groups, or to the group's retries, for it alone
    #[arg(long = "to", value_enum, default_value_t = To::Topic)]
    to: To,
    /// Send letters too that were sent before
    #[arg(long)]
    again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    Topic,
    Retry,
}

/// What became of a letter.
enum Outcome {
    Sent { topic: Text, receipt: Receipt },
    SentBefore { topic: String, id: String },
}

impl Resend {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        if self.selection.is_whole_group() != self.all {
            let cause = "name the dead letters to send: either --all, or by --msgId, --msgKey or time";
            return Err(Failure::new(Exit::Usage, cause));
        }
        let mut letters = self.selection.open(&session.client).await?;
        let mut holder = Holder::take(&session.client, &self.selection.topic()).await?;
        let mut table = Table::new(&[
            ("#Message ID", "msgId"),
            ("#Dead Letter ID", "offsetMsgId"),
            ("#Topic", "topic"),
            ("#Result", "result"),
            ("#Sent ID", "sentOffsetMsgId"),
            ("#Error", "error"),
        ]);
        let mut tally = Tally::default();
        let mut lost = Ok(());
        'letters: while let Some(page) = letters.next().await {
            let page = match page {
                Ok(page) => page,
                Err(failure) => {
                    tally.take(Err::<(), _>(failure));
                    continue;
                }
            };
            for record in page.records() {
                lost = holder.renew().await;
                if lost.is_err() {
                    break 'letters;
                }
                let outcome = self.resend(&session.client, &record).await;
                table.push(row(&record, &outcome));
                tally.take(outcome);
            }
        }
        holder.give_back().await;
        session.output.table(&table)?;
        if let Err(failure) = lost {
            tally.take(Err::<(), _>(failure));
        }
        tally.end()
    }

    async fn resend(&self, client: &Client, letter: &RecordView<'_>) -> Result<Outcome, Failure> {
        let group = &self.selection.group;
        let (origin, retry) = (origin_topic(letter)?, name::retry_topic(group));
        if !self.again {
            for topic in [origin, retry.as_str()] {
                if let Some(id) = copy_of(client, topic, letter).await? {
                    return Ok(Outcome::SentBefore { topic: topic.to_owned(), id });
                }
            }
        }
        let topic = Text::from(match self.to {
            To::Topic => origin,
            To::Retry => &retry,
        });
        let copied =
            Copied { record: letter, topic: topic.clone(), properties: Text::from(properties_of_copy(letter)) };
        let receipt = client.send_copy(&copied, &SendOptions::default()).await.map_err(|error| {
            let is_silence = error.is_silence();
            let failure = Failure::from(error);
            match is_silence {
                true => failure.with_fix("run the command again: a letter whose copy arrived is not sent again"),
                false => failure,
            }
        })?;
        if self.to == To::Retry {
            check_alive(client, &topic, &receipt, group).await?;
        }
        Ok(Outcome::Sent { topic, receipt })
    }
}

/// A broker buries a retry at once when its group consumes in order, and says nothing of it.
async fn check_alive(client: &Client, topic: &str, receipt: &Receipt, group: &str) -> Result<(), Failure> {
    let Ok(id) = OffsetId::decode(&receipt.offset_id) else { return Ok(()) };
    let body = client.view_message(&id, topic).await?;
    let stored = RecordView::decode(&body).map_err(|error| Failure::new(Exit::Failure, error.to_string()))?;
    if stored.topic() == topic {
        return Ok(());
    }
    let cause =
        format!("the broker stored it as a dead letter again ({}): {group} consumes in order", receipt.offset_id);
    Err(Failure::new(Exit::Failure, cause).with_fix("groups that consume in order need --to topic"))
}

/// The topic that the message was sent to at first.
fn origin_topic<'a>(letter: &RecordView<'a>) -> Result<&'a str, Failure> {
    letter.property(properties::RETRY_TOPIC).ok_or_else(|| {
        let cause = format!("the dead letter {} does not tell its topic (RETRY_TOPIC)", message::offset_id(letter));
        Failure::new(Exit::Failure, cause).with_fix("export it, and send its body with sendMessage")
    })
}

/// The id of the copy of a letter in a topic, if there is one.
async fn copy_of(client: &Client, topic: &str, letter: &RecordView<'_>) -> Result<Option<String>, Failure> {
    let Some(unique_key) = letter.property(properties::UNIQUE_KEY) else { return Ok(None) };
    let query = KeyQuery {
        count_max: COPIES_MAX,
        begin_ms: letter.store_timestamp_ms().saturating_sub(CLOCK_BACK_MS_MAX),
        ..KeyQuery::new(topic, unique_key, KeyKind::UniqueId)
    };
    let bodies: Vec<Bytes> = match client.query_key(&query).await {
        Err(client::ClientError::NoRoute { .. }) => Vec::new(),
        found => found?,
    };
    let letter_id = message::offset_id(letter);
    let mut records = bodies.iter().flat_map(|body| Records::new(body)).filter_map(Result::ok);
    let copy = records.find(|record| record.topic() == topic && record.property(RESENT_FROM) == Some(&letter_id));
    Ok(copy.map(|copy| message::offset_id(&copy)))
}

fn properties_of_copy(letter: &RecordView<'_>) -> String {
    let mut builder = Builder::from_text(&properties::without(letter.properties(), &LEFT_BEHIND), 64);
    builder.push(RESENT_FROM, message::offset_id(letter));
    builder.finish()
}

fn row(letter: &RecordView<'_>, outcome: &Result<Outcome, Failure>) -> [Value; 6] {
    let (topic, result, id, error) = match outcome {
        Ok(Outcome::Sent { topic, receipt }) => (topic.as_str(), receipt.status.name(), receipt.offset_id.as_str(), ""),
        Ok(Outcome::SentBefore { topic, id }) => (topic.as_str(), "SENT_BEFORE", id.as_str(), ""),
        Err(failure) => ("", "FAILED", "", failure.cause.as_str()),
    };
    let (message_id, letter_id) = (message::message_id(letter), message::offset_id(letter));
    [message_id, letter_id, topic.to_owned(), result.to_owned(), id.to_owned(), one_line(error)].map(Value::from)
}
