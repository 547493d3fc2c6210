//! Which queues a consumer gets (400), and how its group gets their messages (401, 402).

use std::rc::Rc;

use remoting::body::MessageQueue;
use remoting::body::heartbeat::MessageModel;
use remoting::body::pop::{
    MessageQueueAssignment, MessageRequestMode, QueryAssignment, QueryAssignmentResponse, SetMessageRequestMode,
};
use remoting::body::route::permission;
use remoting::code::ResponseCode;
use remoting::json;
use remoting::name;
use remoting::text::Text;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::group;
use crate::placement::TABLES_CORE;
use crate::pop::request_modes;

/// A consumer's part of a topic; on the connection's core.
pub(crate) async fn query_assignment(core: Rc<Core>, request: Request) -> Outcome {
    let asked: QueryAssignment = read(&request)?;
    let mode = mode_of(&core, &asked);
    let queues = queues_of_topic(&core, &asked.topic).await;
    let assigned = match asked.message_model {
        // A client keeps what it has of a topic that nobody knows just now.
        _ if !core.config().pop.assigns_queues || queues.is_empty() => None,
        MessageModel::Broadcasting => Some(queues),
        MessageModel::Clustering => {
            let members = members(&core, &asked.consumer_group).await;
            divide(&asked, &mode, &queues, &members)
        }
    };
    let assignment = |message_queue| MessageQueueAssignment { message_queue, mode: mode.mode };
    let assignments = assigned.map(|queues| queues.into_iter().map(assignment).collect());
    let response = QueryAssignmentResponse { message_queue_assignments: assignments };
    Ok(Answer::success().with_body(json::encode(&response)))
}

/// Sets how a group gets the messages of a topic; on the connection's core.
pub(crate) async fn set_request_mode(core: Rc<Core>, request: Request) -> Outcome {
    let mode: SetMessageRequestMode = read(&request)?;
    let refuse = |code, remark: String| Err(Refusal::new(code, remark));
    if name::is_retry_topic(&mode.topic) {
        let remark = format!("{} is a retry topic: those are always pulled", mode.topic);
        return refuse(ResponseCode::NO_PERMISSION, remark);
    }
    if !core.topics.contains(&mode.topic) {
        return refuse(ResponseCode::TOPIC_NOT_EXIST, format!("topic {} does not exist on this broker", mode.topic));
    }
    group::ensure(&core, &mode.consumer_group).await?;
    request_modes::set(&core, mode).await?;
    Ok(Answer::success())
}

/// All modes that were set; on any core.
pub(crate) async fn request_modes(core: Rc<Core>, _request: Request) -> Outcome {
    Ok(Answer::success().with_body(json::encode(&core.pops.request_modes.to_body())))
}

fn read<Body: serde::de::DeserializeOwned>(request: &Request) -> Result<Body, Refusal> {
    json::decode(&request.command.body).map_err(|error| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string()))
}

fn mode_of(core: &Core, asked: &QueryAssignment) -> SetMessageRequestMode {
    let pulls = SetMessageRequestMode {
        consumer_group: asked.consumer_group.clone(),
        topic: asked.topic.clone(),
        ..SetMessageRequestMode::default()
    };
    if name::is_retry_topic(&asked.topic) {
        return pulls;
    }
    let config = &core.config().pop;
    let usual = SetMessageRequestMode {
        mode: if config.pop_by_default { MessageRequestMode::Pop } else { MessageRequestMode::Pull },
        pop_share_queue_num: config.shared_queues_by_default,
        ..pulls
    };
    core.pops.request_modes.get(&asked.topic, &asked.consumer_group).unwrap_or(usual)
}

/// The readable queues of a topic on all brokers, as a nameserver knows them; without one, those of this broker.
async fn queues_of_topic(core: &Rc<Core>, topic: &Text) -> Vec<MessageQueue> {
    let asked = topic.detached();
    let route = core
        .on(TABLES_CORE, move |core| async move { core.tables().registration.clone().route_of(&asked).await })
        .await;
    let mut queues = Vec::new();
    let mut add = |broker: &Text, count: i32| {
        queues.extend((0..count).map(|queue_id| MessageQueue {
            broker_name: broker.clone(),
            queue_id,
            topic: topic.clone(),
        }));
    };
    match route {
        Some(route) => {
            for data in route.queue_datas.iter().filter(|data| data.perm & permission::READ != 0) {
                add(&data.broker_name, data.read_queue_nums);
            }
        }
        None => {
            if let Some(known) = core.topics.get(topic).filter(|known| known.is_readable()) {
                add(&Text::from(&core.config().identity.broker), known.config.read_queue_nums);
            }
        }
    }
    queues.sort_unstable();
    queues
}

async fn members(core: &Rc<Core>, group: &Text) -> Vec<Text> {
    let (owner, group) = (core.placement.core_of_group(group), group.detached());
    core.on(owner, move |core| async move {
        core.groups.with(&group, |group| group.members.client_ids()).unwrap_or_default()
    })
    .await
}

/// A client's part of the queues. `None` when it cannot be told: the client keeps what it has.
fn divide(
    asked: &QueryAssignment,
    mode: &SetMessageRequestMode,
    queues: &[MessageQueue],
    members: &[Text],
) -> Option<Vec<MessageQueue>> {
    let at = members.iter().position(|member| *member == asked.client_id);
    if mode.mode == MessageRequestMode::Pull {
        return at.map_or(Some(Vec::new()), |at| share(&asked.strategy_name, queues, members.len(), at));
    }
    let shared = usize::try_from(mode.pop_share_queue_num).unwrap_or(0);
    if shared == 0 || shared + 1 >= members.len() {
        // Everybody pops everything: one queue stands for all of a broker.
        let mut any: Vec<MessageQueue> =
            queues.iter().map(|queue| MessageQueue { queue_id: -1, ..queue.clone() }).collect();
        any.dedup();
        return Some(any);
    }
    let at = at?;
    let mut own = share(&asked.strategy_name, queues, members.len(), at)?;
    if members.len() <= queues.len() {
        for next in 1..=shared {
            own.extend(share(&asked.strategy_name, queues, members.len(), (at + next) % members.len())?);
        }
    }
    Some(own)
}

/// What one of several members gets; `None` for a strategy that is not known here.
fn share(strategy: &str, queues: &[MessageQueue], members: usize, at: usize) -> Option<Vec<MessageQueue>> {
    match strategy {
        "AVG" => {
            let (each, more) = (queues.len() / members, queues.len() % members);
            let start = at * each + at.min(more);
            Some(queues[start..start + each + usize::from(at < more)].to_vec())
        }
        "AVG_BY_CIRCLE" => Some(queues.iter().skip(at).step_by(members).cloned().collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(count: i32) -> Vec<MessageQueue> {
        let queue = |queue_id| MessageQueue { broker_name: Text::from("b"), queue_id, topic: Text::from("T") };
        (0..count).map(queue).collect()
    }

    fn divided(client: &str, mode: MessageRequestMode, shared: i32, strategy: &str, members: &str) -> Option<Vec<i32>> {
        let asked = QueryAssignment {
            client_id: Text::from(client),
            strategy_name: Text::from(strategy),
            ..QueryAssignment::default()
        };
        let mode = SetMessageRequestMode { mode, pop_share_queue_num: shared, ..SetMessageRequestMode::default() };
        let members: Vec<Text> = members.split_whitespace().map(Text::from).collect();
        let own = divide(&asked, &mode, &queues(5), &members)?;
        Some(own.into_iter().map(|queue| queue.queue_id).collect())
    }

    #[test]
    fn queues_are_divided_as_clients_do_it() {
        use MessageRequestMode::{Pop, Pull};
        for (client, mode, shared, strategy, members, expected) in [
            ("a", Pull, 0, "AVG", "a b", Some(vec![0, 1, 2])),
            ("b", Pull, 0, "AVG", "a b", Some(vec![3, 4])),
            ("b", Pull, 0, "AVG_BY_CIRCLE", "a b", Some(vec![1, 3])),
            ("c", Pull, 0, "AVG", "a b", Some(vec![])),
            ("a", Pull, 0, "HASH", "a b", None),
            ("f", Pull, 0, "AVG", "a b c d e f", Some(vec![])),
            ("a", Pop, 0, "AVG", "a b c", Some(vec![-1])),
            ("a", Pop, 2, "AVG", "a b c", Some(vec![-1])),
            ("x", Pop, -1, "AVG", "", Some(vec![-1])),
            ("c", Pop, 1, "AVG", "a b c", Some(vec![4, 0, 1])),
            ("x", Pop, 1, "AVG", "a b c", None),
            ("a", Pop, 1, "AVG", "a b c d e f", Some(vec![0])),
        ] {
            let own = divided(client, mode, shared, strategy, members);
            assert_eq!(own, expected, "{client} {mode:?} {shared} {strategy} {members}");
        }
    }
}
