//! Topics made on demand: by a send, and by the broker itself. Any core may ask.

use std::rc::Rc;

use remoting::code::ResponseCode;
use remoting::name;
use remoting::text::Text;

use super::Topic;
use super::change::{Change, no_topic};
use super::table::fixed_change;
use crate::call::Refusal;
use crate::core::Core;
use crate::placement::TABLES_CORE;

/// The topic of a send: as it is, or made after its template where that is allowed. The name is checked before
/// anything else, as it becomes a key on disk.
pub(crate) async fn ensure_for_send(
    core: &Rc<Core>,
    topic: &str,
    template: &str,
    queues: i32,
    unit: bool,
) -> Result<Rc<Topic>, Refusal> {
    if let Some(topic) = core.topics.get(topic) {
        return Ok(topic);
    }
    if core.config().light_queues.enabled && name::is_light_topic(topic) {
        return ensure_light_topic(core, topic).await;
    }
    check(topic)?;
    if !may_be_made(core, topic, template) {
        return Err(no_topic(topic));
    }
    let (topic, template) = (Text::from(topic), Text::from(template));
    made(core, Change::AutoCreate { topic, template, queues, unit }).await
}

/// The topic that brings a group what it failed to consume. `None` when the group is to have no such topic.
pub(crate) async fn ensure_retry_topic(
    core: &Rc<Core>,
    group: &str,
    queues: u32,
) -> Result<Option<Rc<Topic>>, Refusal> {
    if queues == 0 {
        return Ok(None);
    }
    ensure_own_topic(core, &name::retry_topic(group), queues).await.map(Some)
}

/// The topic that keeps what a group could not consume.
pub(crate) async fn ensure_dlq_topic(core: &Rc<Core>, group: &str) -> Result<Rc<Topic>, Refusal> {
    ensure_own_topic(core, &name::dlq_topic(group), 1).await
}

/// A light queue: a topic of one queue that makes itself while there are not too many.
pub(crate) async fn ensure_light_topic(core: &Rc<Core>, topic: &str) -> Result<Rc<Topic>, Refusal> {
    let count_max = core.config().light_queues.count_max;
    if !core.topics.contains(topic) && core.topics.light_count() >= count_max as usize {
        let remark =
            format!("there are {count_max} light queues already (maxLmqConsumeQueueNum): delete some, or raise it");
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
    }
    ensure_own_topic(core, topic, 1).await
}

/// A topic that the broker itself needs: as it is, or made with so many queues, readable and writable.
pub(crate) async fn ensure_own_topic(core: &Rc<Core>, topic: &str, queues: u32) -> Result<Rc<Topic>, Refusal> {
    if let Some(topic) = core.topics.get(topic) {
        return Ok(topic);
    }
    check(topic)?;
    made(core, fixed_change(topic, queues)).await
}

fn check(topic: &str) -> Result<(), Refusal> {
    name::check_topic(topic).map_err(|error| Refusal::new(ResponseCode::INVALID_PARAMETER, error.to_string()))
}

/// Whether asking the owner can help: spares the tables' core the requests for topics that nobody will make.
fn may_be_made(core: &Rc<Core>, topic: &str, template: &str) -> bool {
    name::is_retry_topic(topic) || core.topics.contains(template)
}

async fn made(core: &Rc<Core>, change: Change) -> Result<Rc<Topic>, Refusal> {
    let topics = core
        .on(TABLES_CORE, |core| async move {
            let owner = core.tables().topics.clone();
            owner.change(&core, change).await
        })
        .await?;
    let topic = topics.first().expect("a change that makes one topic gives one");
    Ok(Rc::new(Topic::clone(topic)))
}
