//! What every core knows of all groups that are online: published by their owners, looked at by pulls.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use remoting::body::heartbeat::MessageModel;
use remoting::text::Text;

use super::members::{Manner, Subscriptions};

/// A group that is online, as its owner published it. Never changes; a change makes a new one.
#[derive(Clone, Debug)]
pub(crate) struct GroupView {
    pub(crate) group: Text,
    pub(crate) manner: Manner,
    pub(crate) subscriptions: Subscriptions,
}

impl GroupView {
    pub(crate) fn is_broadcasting(&self) -> bool {
        self.manner.message_model == MessageModel::Broadcasting
    }
}

/// The newest publication about a group. One of a group that went offline stays, without a view, so that a publication
/// that was overtaken cannot bring it back.
struct Published {
    number: u64,
    view: Option<Arc<GroupView>>,
}

/// The views of all groups that are online.
#[derive(Default)]
pub(crate) struct GroupViews {
    published: RefCell<HashMap<Text, Published>>,
}

impl GroupViews {
    /// The view of a group; `None` while it is offline.
    pub(crate) fn get(&self, group: &str) -> Option<Arc<GroupView>> {
        self.published.borrow().get(group)?.view.clone()
    }

    /// Groups online that subscribed to a topic, sorted.
    pub(crate) fn subscribers(&self, topic: &str) -> Vec<Text> {
        let published = self.published.borrow();
        let views = published.values().filter_map(|published| published.view.as_ref());
        let mut groups: Vec<Text> =
            views.filter(|view| view.subscriptions.contains_key(topic)).map(|view| view.group.clone()).collect();
        groups.sort_unstable();
        groups
    }

    /// Takes a publication, unless a newer one of its group is here. Numbers grow with each publication of an owner.
    pub(super) fn put(&self, group: &Text, number: u64, view: Option<Arc<GroupView>>) {
        let mut published = self.published.borrow_mut();
        let newer_is_here = published.get(group).is_some_and(|known| known.number >= number);
        if !newer_is_here {
            published.insert(group.clone(), Published { number, view });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remoting::subscription::SubscriptionData;

    fn view(group: &str, topic: &str) -> Option<Arc<GroupView>> {
        let data = SubscriptionData::parse(Text::from(topic), None).expect("a subscription");
        let subscriptions = Arc::new([(Text::from(topic), Arc::new(data))].into());
        Some(Arc::new(GroupView { group: Text::from(group), manner: Manner::default(), subscriptions }))
    }

    #[test]
    fn an_overtaken_publication_brings_nothing_back() {
        let views = GroupViews::default();
        let (g, h) = (Text::from("g"), Text::from("h"));
        views.put(&g, 1, view("g", "T"));
        views.put(&h, 2, view("h", "T"));
        assert_eq!(views.subscribers("T"), [g.clone(), h]);
        views.put(&g, 4, None);
        views.put(&g, 3, view("g", "T"));
        assert!(views.get("g").is_none());
        views.put(&g, 5, view("g", "U"));
        assert_eq!((views.subscribers("U"), views.subscribers("T").len()), (vec![g], 1));
    }
}
