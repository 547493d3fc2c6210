//! The dead letters of a group that a command is about: which ones, and reading them page by page.

use std::collections::VecDeque;

use bytes::Bytes;
use clap::Args;
use client::{Client, ClientError, KeyKind, KeyQuery, PullRequest, PullStatus};
use remoting::body::MessageQueue;
use remoting::header::queue_offset::Boundary;
use remoting::record::{RecordView, Records};
use remoting::text::Text;
use remoting::{name, properties};

use super::{consume, message, query};
use crate::failure::{Exit, Failure};
use crate::time;

const COUNT_A_PULL: i32 = 32;

/// Dead letters by group, and by id, key or time.
#[derive(Debug, Args)]
pub(super) struct Selection {
    /// The group whose dead letters they are
    #[arg(short = 'g', long = "groupName")]
    pub(super) group: String,
    /// Only the letter with this id, made by the broker or by the sender; may be given several times
    #[arg(short = 'i', long = "msgId", value_name = "ID", conflicts_with_all = ["key", "begin_ms", "end_ms"])]
    pub(super) ids: Vec<String>,
    /// Only letters with this key
    #[arg(short = 'k', long = "msgKey", value_name = "KEY")]
    pub(super) key: Option<String>,
    /// Only letters that died at this time or later: milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS (UTC)
    #[arg(short = 'b', long = "beginTimestamp", value_parser = time::parse, value_name = "TIME")]
    pub(super) begin_ms: Option<i64>,
    /// Only letters that died at this time or earlier
    #[arg(short = 'e', long = "endTimestamp", value_parser = time::parse, value_name = "TIME")]
    pub(super) end_ms: Option<i64>,
}

impl Selection {
    /// Whether nothing but the group is named.
    pub(super) fn is_whole_group(&self) -> bool {
        self.ids.is_empty() && self.key.is_none() && self.begin_ms.is_none() && self.end_ms.is_none()
    }

    /// Whether letters are named one by one.
    pub(super) fn is_by_id(&self) -> bool {
        !self.ids.is_empty()
    }

    pub(super) fn topic(&self) -> String {
        name::dlq_topic(&self.group)
    }

    /// The letters there are now. Those that arrive later are not read.
    pub(super) async fn open(&self, client: &Client) -> Result<DeadLetters, Failure> {
        name::check_group(&self.group).map_err(|error| Failure::new(Exit::Failure, error.to_string()))?;
        let topic = self.topic();
        let route = client.route(&topic).await.map_err(|error| self.explained(error))?;
        let mut places: VecDeque<Place> = self.ids.iter().map(|id| Place::Id(id.clone())).collect();
        if places.is_empty() {
            let queues = route.queues_to_read(&topic);
            if queues.is_empty() {
                let unreadable = ClientError::NoQueue { topic, purpose: "read", broker: None };
                return Err(Failure::from(unreadable).with_fix(
                    "let it be read with updateTopic -p 6: some brokers make topics of dead letters write-only",
                ));
            }
            for queue in queues {
                let start = match self.begin_ms {
                    Some(begin_ms) => client.search_offset(&queue, begin_ms, Boundary::Lower).await?,
                    None => client.min_offset(&queue).await?,
                };
                let limit = match self.end_ms {
                    Some(end_ms) => client.search_offset(&queue, end_ms.saturating_add(1), Boundary::Lower).await?,
                    None => client.max_offset(&queue).await?,
                };
                places.push_back(Place::Range { queue, next: start, limit });
            }
        }
        Ok(DeadLetters { client: client.clone(), topic, key: self.key.clone(), places })
    }

    fn explained(&self, error: ClientError) -> Failure {
        match error {
            ClientError::NoRoute { .. } => {
                let cause = format!("the group {} has no dead letters", self.group);
                Failure::new(Exit::Failure, cause).with_fix("consumerProgress lists the groups; names are exact")
            }
            other => Failure::from(other),
        }
    }
}

/// Where letters are still to be read.
#[derive(Clone, Debug)]
enum Place {
    Id(String),
    Range { queue: MessageQueue, next: i64, limit: i64 },
}

/// Selected dead letters, some of them read already.
pub(super) struct DeadLetters {
    client: Client,
    topic: String,
    key: Option<String>,
    places: VecDeque<Place>,
}

impl DeadLetters {
    /// The next letters, or why those of one place cannot be read; `None` when all places are done.
    pub(super) async fn next(&mut self) -> Option<Result<Page, Failure>> {
        let place = self.places.pop_front()?;
        Some(match place {
            Place::Id(id) => self.by_id(&id).await,
            Place::Range { queue, next, limit } => self.of_range(queue, next, limit).await,
        })
    }

    async fn by_id(&self, id: &str) -> Result<Page, Failure> {
        let bodies = match query::offset_id_of(&self.client, &self.topic, id).await? {
            Some(offset_id) => vec![self.client.view_message(&offset_id, &self.topic).await?],
            None => self.client.query_key(&KeyQuery::new(&self.topic, id, KeyKind::UniqueId)).await?,
        };
        let page = Page { bodies, wanted: Wanted::Id { topic: self.topic.clone(), id: id.to_owned() } };
        if page.records().next().is_none() {
            return Err(query::not_found(&self.topic, &format!("the id {id}")));
        }
        Ok(page)
    }

    async fn of_range(&mut self, queue: MessageQueue, start: i64, limit: i64) -> Result<Page, Failure> {
        if start >= limit {
            return Ok(Page { bodies: Vec::new(), wanted: Wanted::Below { limit, key: None } });
        }
        let pull = PullRequest {
            group: Text::from_static(consume::GROUP_DEFAULT),
            queue,
            offset: start,
            count_max: COUNT_A_PULL,
            expression: Text::from_static(remoting::subscription::ALL),
            suspend: std::time::Duration::ZERO,
        };
        let answer = self.client.pull(&pull).await?;
        if answer.status != PullStatus::NoNewMessage && answer.next_offset > start {
            self.places.push_front(Place::Range { queue: pull.queue, next: answer.next_offset, limit });
        }
        Ok(Page { bodies: vec![answer.body().clone()], wanted: Wanted::Below { limit, key: self.key.clone() } })
    }
}

/// Some letters, as they came.
pub(super) struct Page {
    bodies: Vec<Bytes>,
    wanted: Wanted,
}

/// What of a page was asked for: an index finds by a hash, and a pull gives what follows.
enum Wanted {
    Id { topic: String, id: String },
    Below { limit: i64, key: Option<String> },
}

impl Page {
    pub(super) fn records(&self) -> impl Iterator<Item = RecordView<'_>> {
        let all = self.bodies.iter().flat_map(|body| Records::new(body)).filter_map(Result::ok);
        all.filter(|record| self.wanted.has(record))
    }
}

impl Wanted {
    fn has(&self, record: &RecordView<'_>) -> bool {
        match self {
            Wanted::Id { topic, id } => {
                record.topic() == topic
                    && (record.property(properties::UNIQUE_KEY) == Some(id) || message::offset_id(record) == *id)
            }
            Wanted::Below { limit, key } => {
                let has_key = |key| properties::keys(record.properties()).any(|own| own == key);
                (record.queue_offset().0 as i64) < *limit && key.as_deref().is_none_or(has_key)
            }
        }
    }
}
