//! Printing what is in a topic, from a place or a time on, and going on as more arrives.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use client::{Client, ClientError, PullAnswer, PullRequest, PullStatus};
use remoting::body::MessageQueue;
use remoting::header::queue_offset::Boundary;
use remoting::text::Text;
use runtime::sync::Notify;

use super::{Session, message};
use crate::failure::{Exit, Failure};
use crate::output::More;
use crate::time;

/// The group of tools; every broker has it.
pub(super) const GROUP_DEFAULT: &str = "TOOLS_CONSUMER";
/// Messages printed without a number given and without following.
const COUNT_DEFAULT: u64 = 128;
const COUNT_A_PULL: i32 = 32;
/// How long a broker holds a pull while its topic is followed.
const SUSPEND: Duration = Duration::from_secs(15);
/// Answers of followed queues that wait to be printed. Beyond it their queues are not pulled.
const ANSWERS_WAITING_MAX: usize = 16;
/// Between attempts at a queue that could not be pulled.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct ConsumeMessage {
    #[arg(short = 't', long = "topic")]
    topic: String,
    /// The group under which to pull; its offsets are neither used nor changed
    #[arg(short = 'g', long = "consumerGroup", default_value = GROUP_DEFAULT)]
    group: String,
    /// Only this broker's queues
    #[arg(short = 'b', long = "brokerName", value_name = "NAME")]
    broker: Option<String>,
    /// Only this queue
    #[arg(short = 'i', long = "queueId")]
    queue_id: Option<i32>,
    /// Begin at this offset of the queue
    #[arg(short = 'o', long = "offset", requires = "queue_id", conflicts_with = "begin_ms")]
    offset: Option<i64>,
    /// Begin at this time: milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS (UTC)
    #[arg(short = 's', long = "beginTimestamp", value_parser = time::parse, value_name = "TIME")]
    begin_ms: Option<i64>,
    /// End with this time
    #[arg(short = 'e', long = "endTimestamp", value_parser = time::parse, value_name = "TIME", conflicts_with = "follow")]
    end_ms: Option<i64>,
    /// Messages to print [default: 128, or any number with --follow]
    #[arg(short = 'c', long = "MessageNumber")]
    count: Option<u64>,
    /// Go on as messages arrive
    #[arg(long)]
    follow: bool,
}

impl ConsumeMessage {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let queues = self.queues(&session.client).await?;
        let count_max = self.count.unwrap_or(if self.follow { u64::MAX } else { COUNT_DEFAULT });
        let mut printer = Printer { session, count_left: count_max, is_cut: false };
        if self.follow {
            return self.follow(&mut printer, queues).await;
        }
        for queue in &queues {
            if printer.is_cut {
                break;
            }
            self.print_queue(&mut printer, queue).await?;
        }
        if printer.is_cut {
            let fix = "-c NUMBER prints as many as it says, -i QUEUE and -o OFFSET go on from anywhere";
            printer.session.output.cut(count_max, More::Certain, fix)?;
        }
        Ok(())
    }

    async fn queues(&self, client: &Client) -> Result<Vec<MessageQueue>, Failure> {
        let route = client.route(&self.topic).await?;
        let mut queues = route.queues_to_read(&self.topic);
        queues.retain(|queue| {
            self.broker.as_ref().is_none_or(|broker| queue.broker_name == *broker)
                && self.queue_id.is_none_or(|queue_id| queue.queue_id == queue_id)
        });
        queues.sort();
        if queues.is_empty() {
            let (topic, broker) = (self.topic.clone(), self.broker.clone());
            return Err(ClientError::NoQueue { topic, purpose: "read", broker }.into());
        }
        Ok(queues)
    }

    async fn start_of(&self, client: &Client, queue: &MessageQueue) -> Result<i64, ClientError> {
        match (self.offset, self.begin_ms) {
            (Some(offset), _) => Ok(offset),
            (None, Some(begin_ms)) => client.search_offset(queue, begin_ms, Boundary::Lower).await,
            (None, None) => client.min_offset(queue).await,
        }
    }

    /// One behind the last wanted offset.
    async fn limit_of(&self, client: &Client, queue: &MessageQueue) -> Result<i64, ClientError> {
        match self.end_ms {
            Some(end_ms) => client.search_offset(queue, end_ms.saturating_add(1), Boundary::Lower).await,
            None => client.max_offset(queue).await,
        }
    }

    fn pull_at(&self, queue: &MessageQueue, offset: i64, suspend: Duration) -> PullRequest {
        PullRequest {
            group: Text::from(&self.group),
            queue: queue.clone(),
            offset,
            count_max: COUNT_A_PULL,
            expression: Text::from_static(remoting::subscription::ALL),
            suspend,
        }
    }

    async fn print_queue(&self, printer: &mut Printer<'_>, queue: &MessageQueue) -> Result<(), Failure> {
        let client = printer.session.client.clone();
        let limit = self.limit_of(&client, queue).await?;
        let mut next = self.start_of(&client, queue).await?;
        while next < limit && !printer.is_cut {
            let answer = client.pull(&self.pull_at(queue, next, Duration::ZERO)).await?;
            printer.print(&queue.broker_name, &answer, limit)?;
            if answer.status == PullStatus::NoNewMessage || answer.next_offset <= next {
                break;
            }
            next = answer.next_offset;
        }
        Ok(())
    }

    /// Pulls all queues at once and prints what arrives, for ever or until enough was printed.
    async fn follow(self, printer: &mut Printer<'_>, queues: Vec<MessageQueue>) -> Result<(), Failure> {
        let client = printer.session.client.clone();
        let arrived = Rc::new(Arrived::default());
        let command = Rc::new(self);
        for queue in queues {
            let start = command.start_of(&client, &queue).await?;
            let followed = follow_queue(client.clone(), command.clone(), queue, start, arrived.clone());
            runtime::spawn(followed);
        }
        while printer.count_left > 0 {
            let next = arrived.answers.borrow_mut().pop_front();
            match next {
                Some((broker_name, Ok(answer))) => printer.print(&broker_name, &answer, i64::MAX)?,
                Some((_, Err(error))) => Failure::from(error).print(),
                None => {
                    printer.session.output.flush()?;
                    arrived.changed.notified().await;
                }
            }
            arrived.changed.notify();
        }
        arrived.over.set(true);
        arrived.changed.notify();
        Ok(())
    }
}

/// What followed queues have given.
#[derive(Default)]
struct Arrived {
    answers: RefCell<VecDeque<(Text, Result<PullAnswer, ClientError>)>>,
    changed: Notify,
    over: Cell<bool>,
}

async fn follow_queue(
    client: Client,
    command: Rc<ConsumeMessage>,
    queue: MessageQueue,
    start: i64,
    arrived: Rc<Arrived>,
) {
    let mut next = start;
    while !arrived.over.get() {
        if arrived.answers.borrow().len() >= ANSWERS_WAITING_MAX {
            arrived.changed.notified().await;
            continue;
        }
        let pulled = client.pull(&command.pull_at(&queue, next, SUSPEND)).await;
        let failed = pulled.is_err();
        let news = match &pulled {
            Ok(answer) => {
                next = answer.next_offset;
                answer.status == PullStatus::Found
            }
            Err(_) => true,
        };
        if news {
            arrived.answers.borrow_mut().push_back((queue.broker_name.clone(), pulled));
            arrived.changed.notify();
        }
        if failed {
            client.forget_route(&queue.topic);
            runtime::clock::sleep(RETRY).await;
        }
    }
}

struct Printer<'a> {
    session: &'a mut Session,
    count_left: u64,
    /// There was a message more than were wanted.
    is_cut: bool,
}

impl Printer<'_> {
    /// Prints the messages of an answer below `limit`, as long as any are wanted.
    fn print(&mut self, broker_name: &str, answer: &PullAnswer, limit: i64) -> Result<(), Failure> {
        for record in answer.records() {
            let record = record.map_err(|error| {
                Failure::new(Exit::Failure, format!("{broker_name} sent a message that is none: {error}"))
            })?;
            if record.queue_offset().0 as i64 >= limit {
                return Ok(());
            }
            if self.count_left == 0 {
                self.is_cut = true;
                return Ok(());
            }
            self.count_left -= 1;
            let line = if self.session.output.is_json() {
                message::object(broker_name, &record).to_string()
            } else {
                message::line(broker_name, &record)
            };
            self.session.output.line(&line)?;
        }
        Ok(())
    }
}
