//! Pulls (11, 361): who may, what there is, and waiting for more. The records found go out as they lie in the log.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{QueueId, QueueOffset};
use remoting::body::group::SubscriptionGroupConfig;
use remoting::code::ResponseCode;
use remoting::header::pull::{
    PULL_FLAG_COMMIT_OFFSET, PULL_FLAG_SUBSCRIPTION, PULL_FLAG_SUSPEND, PullMessage, PullMessageResponse, forbidden,
};
use remoting::name;
use remoting::subscription::{EXPRESSION_SQL92, SubscriptionData};
use remoting::text::Text;
use runtime::clock;
use storage::{QueueRead, ReadLimits};
use transport::Stage;

use crate::call::{Answer, Call, Outcome, Refusal, Request};
use crate::core::Core;
use crate::dispatch::start_watched;
use crate::filter::{self, Filter};
use crate::group;
use crate::stages::Watch;
use crate::topic::{self, Topic};
use crate::wait::Wish;

/// A waiting pull looks again this often: what its filter drops does not wake it, but moves it on.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// A pull is answered this long after it came at the latest, whatever it asks for: clients give up after 30 s.
const SUSPEND_MS_MAX: i64 = 25_000;
/// Queue entries looked at by one pull, so that a filter that fits little does not hold up its core.
const ENTRIES_SCANNED_MAX: u32 = 800;

/// A pull that may be done.
struct Pull {
    header: PullMessage,
    topic: Rc<Topic>,
    group: Arc<SubscriptionGroupConfig>,
    wanted: Rc<SubscriptionData>,
    /// Of a pull by an SQL92 expression.
    filter: Option<Rc<Filter>>,
    queue: QueueId,
}

/// One pull.
pub(crate) fn pull(core: &Rc<Core>, call: Call) {
    start_watched(core, call, |core, request, watch| async move {
        let outcome = look_and_wait(core, request, &watch).await;
        watch.pass(Stage::Read);
        outcome
    });
}

/// Checks, then reads, and waits while there is nothing and waiting is wanted.
async fn look_and_wait(core: Rc<Core>, request: Request, watch: &Watch) -> Outcome {
    let header = PullMessage::decode(&request.command.fields)?;
    let mut pull = admit(&core, header).await?;
    let header = &pull.header;
    if header.has(PULL_FLAG_COMMIT_OFFSET) {
        group::commit_from_pull(&core, &header.consumer_group, &header.topic, pull.queue, header.commit_offset);
    }
    let until = clock::instant() + suspend_span(&core, header);
    drop(request);
    loop {
        let header = &pull.header;
        if let Some(offset) = group::take_reset(&core, &header.consumer_group, &header.topic, pull.queue) {
            return Ok(pull.moved(&core, QueueOffset(offset)));
        }
        let found = pull.read(&core).await?;
        let remaining = until.saturating_duration_since(clock::instant());
        let waits = found.code == ResponseCode::PULL_NOT_FOUND && !remaining.is_zero() && core.waits.has_room();
        if !waits || core.draining.get() {
            return Ok(found);
        }
        pull.detach();
        watch.pass(Stage::Read);
        core.waits.wait(pull.wish(), remaining.min(LOOK_AGAIN)).await;
        watch.pass(Stage::Park);
        // Topic, group and subscription may be others by now.
        let before = pull.wanted.clone();
        pull = admit(&core, pull.header).await?;
        if pull.wanted.sub_version != before.sub_version && !pull.header.has(PULL_FLAG_SUBSCRIPTION) {
            // The client would look at messages of this answer by what it wanted when it asked: it asks again instead.
            return Ok(pull.ask_again(&core));
        }
    }
}

fn suspend_span(core: &Core, header: &PullMessage) -> Duration {
    if !header.has(PULL_FLAG_SUSPEND) {
        return Duration::ZERO;
    }
    let config = core.config();
    let ms = if config.consumers.long_polling {
        header.suspend_timeout_ms.clamp(0, SUSPEND_MS_MAX)
    } else {
        config.consumers.short_polling.0 as i64
    };
    Duration::from_millis(ms as u64)
}

/// All that can be refused, in the order that clients know.
async fn admit(core: &Rc<Core>, header: PullMessage) -> Result<Pull, Refusal> {
    if !core.config().registration.permission.reads() {
        let remark = format!("broker {} may not be read: brokerPermission lacks 4", core.config().identity.broker);
        return Err(no_permission(forbidden::BROKER, remark));
    }
    let group = match core.group_configs.get(&header.consumer_group) {
        Some(group) => group,
        None => group::ensure(core, &header.consumer_group).await?,
    };
    if !group.consume_enable {
        let remark = format!("group {} may not consume: its consumeEnable is false", header.consumer_group);
        return Err(no_permission(forbidden::GROUP, remark));
    }
    let topic = match core.topics.get(&header.topic) {
        Some(topic) => topic,
        None if core.config().light_queues.enabled && name::is_light_topic(&header.topic) => {
            topic::ensure_light_topic(core, &header.topic).await?
        }
        None => return Err(no_topic(&header.topic)),
    };
    if !topic.is_readable() {
        let remark = format!("topic {} may not be read: its perm {} lacks 4", header.topic, topic.config.perm);
        return Err(no_permission(forbidden::TOPIC, remark));
    }
    let queue = match u32::try_from(header.queue_id) {
        Ok(queue) if queue < topic.read_queues() => QueueId(queue),
        _ => {
            let remark = format!(
                "queue {} of topic {} can't be read: it has {} readable queues",
                header.queue_id,
                header.topic,
                topic.read_queues()
            );
            return Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark));
        }
    };
    let wanted = subscription(core, &header, &group)?;
    let filter = filter_of(core, &header, &wanted)?;
    if group::is_read_forbidden(core, &header.consumer_group, &header.topic) {
        let remark = format!("group {} may not read topic {}", header.consumer_group, header.topic);
        return Err(no_permission(forbidden::SUBSCRIPTION, remark));
    }
    Ok(Pull { header, topic, group, wanted, filter, queue })
}

/// What the pull wants: as it says itself, or as its group's heartbeat said.
fn subscription(
    core: &Core,
    header: &PullMessage,
    group: &SubscriptionGroupConfig,
) -> Result<Rc<SubscriptionData>, Refusal> {
    let subscription = if header.has(PULL_FLAG_SUBSCRIPTION) {
        subscription_of_pull(header)?
    } else {
        subscription_of_group(core, header, group)?
    };
    Ok(Rc::new(subscription))
}

fn subscription_of_pull(header: &PullMessage) -> Result<SubscriptionData, Refusal> {
    if header.expression_type.as_deref().is_some_and(filter::is_sql) {
        return Ok(SubscriptionData {
            topic: header.topic.clone(),
            expression_type: Text::from_static(EXPRESSION_SQL92),
            // The pull may wait for long, without the buffer that it arrived in.
            sub_string: header.subscription.as_ref().map(Text::detached).unwrap_or_default(),
            ..SubscriptionData::default()
        });
    }
    SubscriptionData::parse(header.topic.clone(), header.subscription.as_deref())
        .map_err(|error| Refusal::new(ResponseCode::SUBSCRIPTION_PARSE_FAILED, error.to_string()))
}

fn subscription_of_group(
    core: &Core,
    header: &PullMessage,
    group: &SubscriptionGroupConfig,
) -> Result<SubscriptionData, Refusal> {
    let name = &header.consumer_group;
    let missing = |what: String| Refusal::new(ResponseCode::SUBSCRIPTION_NOT_EXIST, what);
    let view = core.group_views.get(name).ok_or_else(|| {
        missing(format!(
            "group {name} is not online here: no heartbeat has told its subscriptions; pull again after one"
        ))
    })?;
    if view.is_broadcasting() && !group.consume_broadcast_enable {
        let remark = format!("group {name} may not consume in broadcasting: its consumeBroadcastEnable is false");
        return Err(no_permission(forbidden::BROADCAST, remark));
    }
    let subscription = view
        .subscriptions
        .get(&header.topic)
        .ok_or_else(|| missing(format!("group {name} has not subscribed to topic {}", header.topic)))?;
    if subscription.sub_version < header.subscription_version {
        let remark = format!(
            "the subscription of group {name} to topic {} is of version {}, the pull asks for {}: send a heartbeat",
            header.topic, subscription.sub_version, header.subscription_version
        );
        return Err(Refusal::new(ResponseCode::SUBSCRIPTION_NOT_LATEST, remark));
    }
    Ok(SubscriptionData::clone(subscription))
}

/// The filter of a pull by an SQL92 expression. A wrong expression is told by the code that fits where it came from.
fn filter_of(core: &Core, header: &PullMessage, wanted: &SubscriptionData) -> Result<Option<Rc<Filter>>, Refusal> {
    if wanted.is_tag_type() || !filter::is_sql(&wanted.expression_type) {
        return Ok(None);
    }
    filter::check_enabled(core)?;
    let code = if header.has(PULL_FLAG_SUBSCRIPTION) {
        ResponseCode::SUBSCRIPTION_PARSE_FAILED
    } else {
        ResponseCode::FILTER_DATA_NOT_EXIST
    };
    let filter = core.filters.get(&wanted.sub_string).map_err(|error| Refusal::new(code, error.to_string()))?;
    Ok(Some(filter))
}

impl Pull {
    /// Lets go of the buffer that the request arrived in: a pull may wait for long.
    fn detach(&mut self) {
        self.header.topic = self.topic.name().clone();
        self.header.consumer_group = self.group.group_name.clone();
        self.header.subscription = self.header.subscription.take().map(|text| text.detached());
        self.header.expression_type = self.header.expression_type.take().map(|text| text.detached());
    }

    /// What it waits for when there is nothing. Keeps no frame alive.
    fn wish(&self) -> Wish {
        Wish {
            group: self.group.group_name.clone(),
            topic: self.topic.name().clone(),
            queue: self.queue,
            wanted: self.wanted.clone(),
        }
    }

    /// One look at the queue.
    async fn read(&self, core: &Rc<Core>) -> Outcome {
        let Ok(from) = u64::try_from(self.header.queue_offset) else {
            return Ok(self.moved(core, self.ends(core).0));
        };
        let config = core.config();
        let count_max = u32::try_from(self.header.message_count_max).unwrap_or(0).max(1);
        let bytes_max = match self.header.message_bytes_max {
            Some(bytes) if bytes > 0 => config.consumers.pull_bytes_max.min(bytes as u32),
            _ => config.consumers.pull_bytes_max,
        };
        let limits = ReadLimits {
            messages_max: count_max.min(config.consumers.pull_messages_max),
            bytes_max: u64::from(bytes_max),
            scan_max: ENTRIES_SCANNED_MAX,
        };
        let log = core.log_of_topic_queue(&self.topic, self.queue);
        let Some(queue) = log.find_queue(&self.header.topic, self.queue) else {
            return Ok(self.empty(core, from));
        };
        let (from_offset, wanted) = (QueueOffset(from), &self.wanted);
        let began = clock::instant();
        let (read, parts) = match &self.filter {
            None => log
                .pull(&queue, from_offset, limits, |code| wanted.matches(code))
                .await
                .map_err(|error| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string()))?,
            Some(filter) => filter::read_matching(log, &queue, from_offset, limits, filter).await?,
        };
        core.stats.pull_took(began.elapsed());
        Ok(match read {
            QueueRead::Found(found) => {
                core.stats.pulled(&self.header.consumer_group, &self.topic, u64::from(found.messages), found.bytes);
                core.pulled.note(&self.group.group_name, self.topic.name(), self.queue, found.next);
                Answer { parts, ..self.answer(core, ResponseCode::SUCCESS, found.next, "FOUND") }
            }
            QueueRead::NoMatch { next } => {
                core.pulled.note(&self.group.group_name, self.topic.name(), self.queue, next);
                self.answer(core, ResponseCode::PULL_RETRY_IMMEDIATELY, next, "NO_MATCHED_MESSAGE")
            }
            QueueRead::AtEnd { max } => {
                core.stats.pull_missed();
                self.answer(core, ResponseCode::PULL_NOT_FOUND, max, "OFFSET_OVERFLOW_ONE")
            }
            QueueRead::Empty => self.empty(core, from),
            QueueRead::TooSmall { min } => {
                core.stats.skipped(from_offset, min);
                self.moved(core, min)
            }
            QueueRead::TooLarge { max } => self.moved(core, max),
        })
    }

    fn empty(&self, core: &Rc<Core>, from: u64) -> Answer {
        let code = if from == 0 { ResponseCode::PULL_NOT_FOUND } else { ResponseCode::PULL_OFFSET_MOVED };
        self.answer(core, code, QueueOffset::ZERO, "NO_MESSAGE_IN_QUEUE")
    }

    fn ask_again(&self, core: &Rc<Core>) -> Answer {
        let from = QueueOffset(self.header.queue_offset.max(0) as u64);
        self.answer(core, ResponseCode::PULL_RETRY_IMMEDIATELY, from, "SUBSCRIPTION_CHANGED")
    }

    fn moved(&self, core: &Rc<Core>, to: QueueOffset) -> Answer {
        self.answer(core, ResponseCode::PULL_OFFSET_MOVED, to, "OFFSET_MOVED")
    }

    fn ends(&self, core: &Rc<Core>) -> (QueueOffset, QueueOffset) {
        let log = core.log_of_topic_queue(&self.topic, self.queue);
        match log.find_queue(&self.header.topic, self.queue) {
            Some(queue) => (queue.min(), queue.max()),
            None => (QueueOffset::ZERO, QueueOffset::ZERO),
        }
    }

    fn answer(&self, core: &Rc<Core>, code: ResponseCode, next: QueueOffset, status: &'static str) -> Answer {
        let (min, max) = self.ends(core);
        let response = PullMessageResponse {
            suggest_which_broker_id: 0,
            next_begin_offset: next.0 as i64,
            min_offset: min.0 as i64,
            max_offset: max.0 as i64,
            offset_delta: None,
            topic_sys_flag: Some(self.topic.config.topic_sys_flag),
            group_sys_flag: Some(self.group.group_sys_flag),
            forbidden_type: None,
        };
        Answer::of(code).with_remark(Text::from_static(status)).with_fields(response.to_fields())
    }
}

fn no_permission(kind: i32, remark: String) -> Refusal {
    let mut fields = remoting::fields::Fields::new();
    fields.push("forbiddenType", kind);
    Refusal::new(ResponseCode::NO_PERMISSION, remark).with_fields(fields)
}

fn no_topic(topic: &str) -> Refusal {
    Refusal::new(ResponseCode::TOPIC_NOT_EXIST, format!("topic {topic} does not exist on this broker: create it first"))
}
