//! Messages of topics that the table does not have: it has lost them, whatever became of it.

use std::collections::BTreeMap;
use std::rc::Rc;

use remoting::name;

use crate::core::Core;
use crate::table_path::TableFile;

/// So many are named.
const TOLD_MAX: usize = 5;

/// Tells of them; at the start, when every core knows the topics of the table.
pub(crate) async fn tell_unknown(core: &Rc<Core>) {
    let mut unknown: BTreeMap<String, u32> = BTreeMap::new();
    for (topic, queues) in core.on_each(|core| async move { unknown_here(&core) }).await.into_iter().flatten() {
        let known = unknown.entry(topic).or_default();
        *known = queues.max(*known);
    }
    if !unknown.is_empty() {
        let path = TableFile::TOPICS.path(&core.config());
        crate::log::warn(format_args!("{}", told(&unknown, &path.display().to_string())));
    }
}

/// Those of this core's logs, each with the number of its queues as far as they have messages.
fn unknown_here(core: &Core) -> Vec<(String, u32)> {
    let mut unknown = Vec::new();
    for log in core.own_logs() {
        for topic in log.topics() {
            // Those of the system make themselves.
            if core.topics.contains(&topic) || name::is_system_topic(&topic) {
                continue;
            }
            let queues = log.queues_of_topic(&topic);
            let last = queues.iter().filter(|queue| !queue.is_empty()).map(|queue| queue.id().0).max();
            unknown.extend(last.map(|last| (topic.to_string(), last.saturating_add(1))));
        }
    }
    unknown
}

fn told(unknown: &BTreeMap<String, u32>, path: &str) -> String {
    let named: Vec<String> =
        unknown.iter().take(TOLD_MAX).map(|(topic, queues)| format!("{topic} ({queues} queues)")).collect();
    let others = match unknown.len() - named.len() {
        0 => String::new(),
        others => format!(" and {others} others"),
    };
    format!(
        "the store has messages of topics that {path} does not have: {}{others}; restore it from a backup, or make each topic \
         with at least so many queues (`ringmq admin updateTopic`): its messages are there again then",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_named_and_the_others_counted() {
        let unknown = |count: u32| (0..count).map(|number| (format!("T{number}"), number + 1)).collect();
        let few = told(&unknown(1), "topics.json");
        assert!(few.contains("topics.json does not have: T0 (1 queues); restore"), "{few}");
        let many = told(&unknown(7), "topics.json");
        assert!(many.contains("T3 (4 queues), T4 (5 queues) and 2 others; restore"), "{many}");
    }
}
