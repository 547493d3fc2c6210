//! The table of committed offsets as tools see and copy it (43, 308, 314).

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{QueueId, QueueOffset};
use remoting::body::consume::QueryCorrectionOffset;
use remoting::code::ResponseCode;
use remoting::header::consume::{CloneGroupOffset, CorrectionOffset};
use remoting::json;
use remoting::text::Text;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::group::{self, queue_ends};

/// The offsets of all groups (43); on the tables' core.
pub(crate) async fn all_offsets(core: Rc<Core>, _request: Request) -> Outcome {
    let body = group::offsets_body(&core).await;
    if body.offset_table.is_empty() {
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, "no group has committed an offset yet"));
    }
    Ok(Answer::success().with_body(json::encode(&body)))
}

/// Copies offsets of one group to another (314); on any core.
pub(crate) async fn clone_offsets(core: Rc<Core>, request: Request) -> Outcome {
    let CloneGroupOffset { source_group, target_group, topic, offline } =
        CloneGroupOffset::decode(&request.command.fields)?;
    let topic = topic.filter(|topic| !topic.is_empty());
    let (owner, source) = (core.placement.core_of_group(&source_group), source_group.clone());
    let mut offsets =
        core.on(owner, move |core| async move {
            core.groups.with(&source, |group| group.offsets.all()).unwrap_or_default()
        })
        .await;
    let view = core.group_views.get(&source_group).filter(|_| !offline);
    offsets.retain(|of, _| {
        let asked_for = topic.as_ref().is_none_or(|topic| topic == of);
        let consumed = view.as_ref().is_none_or(|view| view.subscriptions.contains_key(of));
        asked_for && consumed && core.topics.contains(of)
    });
    group::put_offsets(&core, &target_group, offsets).await;
    Ok(Answer::success())
}

/// The least offset that groups committed in each queue of a topic (308); on the connection's core. Where the group
/// compared with is behind it, the answer is the largest number there is.
pub(crate) async fn correction_offsets(core: Rc<Core>, request: Request) -> Outcome {
    let CorrectionOffset { compare_group, topic, filter_groups } = CorrectionOffset::decode(&request.command.fields)?;
    let left_out: Vec<Text> =
        filter_groups.iter().flat_map(|groups| groups.split(',')).map(|group| Text::from(group.trim())).collect();
    let wanted = topic.clone();
    let committed = core
        .on_each(move |core| {
            let topic = wanted.clone();
            async move {
                let mut groups = Vec::new();
                core.groups.for_each(|name, group| {
                    if group.offsets.knows(&topic) {
                        groups.push((name.clone(), group.offsets.of_topic(&topic)));
                    }
                });
                groups
            }
        })
        .await;
    let committed: BTreeMap<Text, BTreeMap<QueueId, QueueOffset>> = committed.into_iter().flatten().collect();
    let mut least: BTreeMap<QueueId, QueueOffset> = BTreeMap::new();
    for (group, offsets) in &committed {
        if left_out.contains(group) {
            continue;
        }
        for (queue, offset) in offsets {
            // An offset in front of the queue's beginning is of messages that are gone.
            if *offset >= queue_ends::ends(&core, &topic, *queue).await.min {
                let least = least.entry(*queue).or_insert(*offset);
                *least = (*least).min(*offset);
            }
        }
    }
    let mut body = QueryCorrectionOffset::default();
    for (queue, offset) in least {
        let compared = committed.get(&compare_group).and_then(|offsets| offsets.get(&queue));
        let ahead = compared.is_some_and(|compared| offset > *compared);
        body.correction_offsets.insert(queue.0 as i32, if ahead { i64::MAX } else { offset.0 as i64 });
    }
    Ok(Answer::success().with_body(json::encode(&body)))
}
