//! `dlq`: looking at the dead letters of a group, sending them once more, and taking them elsewhere.

mod holder;
mod resend;

use clap::{Args, Subcommand};
use remoting::properties;
use remoting::record::RecordView;
use serde_json::Value;

use super::dead_letters::Selection;
use super::{Session, Tally, message};
use crate::failure::Failure;
use crate::output::More;
use crate::table::Table;
use crate::time;

/// Letters listed without a number given.
const COUNT_DEFAULT: u64 = 128;

#[derive(Debug, Args)]
pub(super) struct Dlq {
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Debug, Subcommand)]
enum DlqCommand {
    /// List dead letters, a line each
    List(List),
    /// Print everything about dead letters
    Show(Show),
    /// Send dead letters once more; a letter that was sent before is left alone
    Resend(resend::Resend),
    /// Print dead letters as JSON, one object a line
    Export(Export),
}

impl Dlq {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        match self.command {
            DlqCommand::List(command) => command.run(session).await,
            DlqCommand::Show(command) => command.run(session).await,
            DlqCommand::Resend(command) => command.run(session).await,
            DlqCommand::Export(command) => command.run(session).await,
        }
    }
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    selection: Selection,
    /// Letters to list
    #[arg(short = 'c', long = "MessageNumber", default_value_t = COUNT_DEFAULT)]
    count: u64,
}

impl List {
    async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let mut table = Table::new(&[
            ("#Message ID", "msgId"),
            ("#Dead Letter ID", "offsetMsgId"),
            ("#Origin Topic", "originTopic"),
            ("#Tries", "reconsumeTimes"),
            ("#Dead Since", "storeTime"),
            ("#Keys", "keys"),
        ]);
        let (mut shown, mut next_ms) = (0, None);
        let tally = visit(session, &self.selection, |_, record| {
            if shown == self.count {
                next_ms = Some(record.store_timestamp_ms());
                return Ok(false);
            }
            shown += 1;
            table.push(row(record));
            Ok(true)
        });
        let tally = tally.await?;
        session.output.table(&table)?;
        if let Some(next_ms) = next_ms {
            session.output.cut(shown, More::Certain, &self.fix(next_ms))?;
        }
        tally.end()
    }

    /// How to see the letters that are left out, the first of which died at a time.
    fn fix(&self, next_ms: i64) -> String {
        let by_time =
            if self.selection.is_by_id() { String::new() } else { format!(", -b {next_ms} goes on from here") };
        format!("-c NUMBER lists as many as it says{by_time}, and export prints all")
    }
}

fn row(record: &RecordView<'_>) -> [Value; 6] {
    let text = |name| record.property(name).map_or(Value::Null, Value::from);
    [
        Value::from(message::message_id(record)),
        Value::from(message::offset_id(record)),
        text(properties::RETRY_TOPIC),
        Value::from(record.reconsume_times()),
        Value::from(time::text(record.store_timestamp_ms())),
        text(properties::KEYS),
    ]
}

#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    selection: Selection,
}

impl Show {
    async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let tally = visit(session, &self.selection, |session, record| {
            let is_json = session.output.is_json();
            let text = if is_json { message::object("", record).to_string() } else { message::details(record) };
            session.output.line(&text)?;
            Ok(true)
        });
        tally.await?.end()
    }
}

#[derive(Debug, Args)]
struct Export {
    #[command(flatten)]
    selection: Selection,
}

impl Export {
    async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let tally = visit(session, &self.selection, |session, record| {
            session.output.line(&message::whole_object(record).to_string())?;
            Ok(true)
        });
        tally.await?.end()
    }
}

/// Gives every selected letter to `each`, until it wants no more. What cannot be read is told of at the end.
async fn visit(
    session: &mut Session,
    selection: &Selection,
    mut each: impl FnMut(&mut Session, &RecordView<'_>) -> Result<bool, Failure>,
) -> Result<Tally, Failure> {
    let mut letters = selection.open(&session.client).await?;
    let mut tally = Tally::default();
    while let Some(page) = letters.next().await {
        let Some(page) = tally.take(page) else { continue };
        for record in page.records() {
            if !each(session, &record)? {
                return Ok(tally);
            }
        }
    }
    Ok(tally)
}
