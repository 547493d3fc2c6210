//! Offsets of groups: committed by consumers, reset by operators, copied and deleted.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{QueueId, QueueOffset};
use remoting::text::Text;

use super::offset_file;
use super::offsets::{Commit, TopicOffsets};
use super::queue_ends;
use crate::call::Refusal;
use crate::core::Core;

/// Commits an offset; on the group's owner. Beyond the end of its queue it is cut to it.
pub(crate) async fn commit(core: &Rc<Core>, group: &Text, topic: &Text, queue: QueueId, offset: QueueOffset) {
    let known = core.groups.with(group, |group| group.offsets.end_is_known(topic, queue, offset));
    let end = match known {
        Some(true) => None,
        _ => Some(queue_ends::ends(core, topic, queue).await.max),
    };
    store(core, group, topic, (queue, offset, end));
    let committed = core.groups.with(group, |group| group.offsets.get(topic, queue)).flatten();
    tell_pops(core, group, topic, queue, committed.unwrap_or(offset));
}

/// Pops of a group go on behind what it committed; on the group's owner.
pub(crate) fn tell_pops(core: &Rc<Core>, group: &Text, topic: &Text, queue: QueueId, committed: QueueOffset) {
    let owner = core.placement.core_of_queue(topic, queue);
    let (group, topic) = (group.clone(), topic.clone());
    core.tell(owner, move |core| core.pops.committed(core, &group, &topic, queue, committed));
}

/// Commits the offset that a pull carries, without waiting for it; on the queue's owner. What makes no sense is ignored.
pub(crate) fn commit_from_pull(core: &Rc<Core>, group: &Text, topic: &Text, queue: QueueId, offset: i64) {
    let Ok(offset) = u64::try_from(offset) else { return };
    let end = queue_ends::ends_here(core, topic, queue).max;
    let commit = (queue, QueueOffset(offset), Some(end));
    at_owner(core, group, topic, move |core, group, topic| store(core, group, topic, commit));
    core.pops.committed(core, group, topic, queue, end.min(QueueOffset(offset)));
}

/// Commits how far a group has popped a queue, without waiting for it; on the queue's owner. What the group committed
/// itself beyond that holds: it pulled meanwhile.
pub(crate) fn commit_from_pop(core: &Rc<Core>, group: &Text, topic: &Text, queue: QueueId, offset: QueueOffset) {
    let end = queue_ends::ends_here(core, topic, queue).max;
    at_owner(core, group, topic, move |core, group, topic| {
        let known = core.groups.with(group, |group| group.offsets.get(topic, queue)).flatten();
        if known.is_none_or(|known| known < offset) {
            store(core, group, topic, (queue, offset, Some(end)));
        }
    });
}

/// Does something with a group's offsets, on its owner.
fn at_owner(core: &Rc<Core>, group: &Text, topic: &Text, step: impl FnOnce(&Rc<Core>, &Text, &Text) + Send + 'static) {
    let owner = core.placement.core_of_group(group);
    let (group, topic) = (group.clone(), topic.clone());
    core.tell(owner, move |core| step(core, &group, &topic));
}

fn store(core: &Rc<Core>, group: &Text, topic: &Text, commit: (QueueId, QueueOffset, Option<QueueOffset>)) {
    let (queue, offset, end) = commit;
    let stored = core.groups.change(group, |group| group.offsets.commit(topic, queue, offset, end));
    if let Commit::Cut { to } = stored {
        crate::log::warn(format_args!(
            "group {group} committed offset {offset} of queue {queue} of topic {topic}, which ends at {to}: cut to it"
        ));
    }
}

/// The offset that a pull must be moved to, since somebody reset it: told once, by the pull that asks. Runs on the
/// queue's owner and costs a look at a number while there are no resets.
pub(crate) fn take_reset(core: &Rc<Core>, group: &Text, topic: &Text, queue: QueueId) -> Option<u64> {
    let to = core.groups.resets.borrow_mut().take(group, topic, queue)?;
    at_owner(core, group, topic, move |core, group, topic| {
        core.groups.change_known(group, |group| group.offsets.reset_told(topic, queue));
    });
    Some(to.0)
}

/// Resets offsets of a group in a topic; on the group's owner. They are stored when this returns, and the next pull of
/// each queue is told.
///
/// # Errors
/// When they cannot be stored. They hold all the same, until the process ends.
pub(crate) async fn reset_offsets(
    core: &Rc<Core>,
    group: &Text,
    topic: &Text,
    offsets: &BTreeMap<QueueId, QueueOffset>,
) -> Result<(), Refusal> {
    let (group, topic) = (group.detached(), topic.detached());
    core.groups.change(&group, |group| {
        for (queue, to) in offsets {
            group.offsets.reset(&topic, *queue, *to);
        }
    });
    let marks = offsets.iter().map(|(queue, to)| (topic.clone(), *queue, *to)).collect();
    queue_ends::ask(core, marks, move |core, topic, queue, to| {
        let group = group.clone();
        async move {
            core.groups.resets.borrow_mut().put(&group, &topic, queue, to);
            // Pulls that wait already look again.
            core.waits.wake_group(&group, |waited| *waited == topic);
        }
    })
    .await;
    offset_file::persist_now(core).await
}

/// Puts offsets of a group in place of those that it has in the same queues. Any core may ask.
pub(crate) async fn put_offsets(core: &Rc<Core>, group: &Text, offsets: TopicOffsets) {
    let (owner, group) = (core.placement.core_of_group(group), group.detached());
    core.on(owner, move |core| async move {
        core.groups.change(&group, |group| {
            for (topic, queues) in &offsets {
                group.offsets.put(topic, queues);
            }
        });
    })
    .await;
}

/// Deletes all offsets of a group. Any core may ask. They are gone from the file when this returns.
///
/// # Errors
/// When the file cannot be written.
pub(crate) async fn delete_group_offsets(core: &Rc<Core>, group: &Text) -> Result<(), Refusal> {
    let group = group.detached();
    core.on_each(move |core| {
        let group = group.clone();
        async move {
            core.groups.resets.borrow_mut().forget_group(&group);
            core.groups.change_known(&group, |group| group.offsets.clear());
            core.pops.forget_group(&group);
            core.pulled.forget_group(&group);
        }
    })
    .await;
    offset_file::persist_now(core).await
}
