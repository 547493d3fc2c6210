//! The members of one consumer group and what they subscribed to. Pure: times come in, consequences go out.
//!
//! A member is a client id on one connection, so a second connection with the same client id does not hide the end of
//! the first. The group's subscription to a topic is that of the newest change of mind: a higher version wins, and so
//! does any other version than the same member told before, even when its clock went back. A topic leaves the group
//! when no member lists it any more. Members that differ about a topic lose each other's messages; that is told once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use base::Millis;
use remoting::body::heartbeat::{ConsumeFromWhere, ConsumeType, MessageModel};
use remoting::command::Language;
use remoting::subscription::SubscriptionData;
use remoting::text::Text;

/// Subscriptions by topic. A member that told what its group has, and the views that other cores have, share the group's.
pub(crate) type Subscriptions = Arc<BTreeMap<Text, Arc<SubscriptionData>>>;

/// Who sent a heartbeat, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) id: Text,
    pub(crate) address: SocketAddr,
    pub(crate) language: Language,
    pub(crate) version: i32,
}

/// How a group consumes, as its newest heartbeat says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) consume_type: ConsumeType,
    pub(crate) message_model: MessageModel,
    pub(crate) consume_from_where: ConsumeFromWhere,
}

/// What a heartbeat says about one group.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) client: Client,
    pub(crate) manner: Manner,
    /// 0 of clients that do not know it.
    pub(crate) fingerprint: i32,
    /// `None`: those known under the fingerprint stay.
    pub(crate) subscriptions: Option<Vec<Arc<SubscriptionData>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) client: Client,
    heartbeat_at: Millis,
    fingerprint: i32,
    /// What it told last.
    subscriptions: Subscriptions,
}

/// What followed from a heartbeat, a departure or the passing of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Members or topics are not the same: all members divide the queues anew.
    pub(crate) notify: bool,
    /// What other cores know of the group is out of date.
    pub(crate) publish: bool,
    /// The heartbeat left its subscriptions out and they are not known: the client must send them.
    pub(crate) subscriptions_wanted: bool,
    /// Topics about which members began to differ.
    pub(crate) inconsistent: Vec<Text>,
}

/// The members of a group. `C` names a connection.
#[derive(Debug)]
pub(crate) struct Members<C> {
    members: BTreeMap<(Text, C), Member>,
    manner: Manner,
    subscriptions: Subscriptions,
    /// Topics about which the members differ, as far as it was told.
    inconsistent: Vec<Text>,
}

impl<C> Default for Members<C> {
    fn default() -> Members<C> {
        Members {
            members: BTreeMap::new(),
            manner: Manner::default(),
            subscriptions: Subscriptions::default(),
            inconsistent: Vec::new(),
        }
    }
}

impl<C: Copy + Ord> Members<C> {
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn manner(&self) -> Manner {
        self.manner
    }

    pub(crate) fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    pub(crate) fn is_broadcasting(&self) -> bool {
        self.manner.message_model == MessageModel::Broadcasting
    }

    /// Members in the order of their client ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (C, &Member)> {
        self.members.iter().map(|((_, connection), member)| (*connection, member))
    }

    /// Client ids, each once, sorted.
    pub(crate) fn client_ids(&self) -> Vec<Text> {
        let mut ids: Vec<Text> = self.members.keys().map(|(id, _)| id.clone()).collect();
        ids.dedup();
        ids
    }

    /// The connections of a client id; one, if all is well.
    pub(crate) fn connections_of(&self, client_id: &str) -> impl Iterator<Item = C> {
        self.members.keys().filter(move |(id, _)| id == client_id).map(|(_, connection)| *connection)
    }

    /// A heartbeat came.
    pub(crate) fn register(&mut self, connection: C, registration: Registration, now: Millis) -> Change {
        let Registration { client, manner, fingerprint, subscriptions } = registration;
        let key = (client.id.clone(), connection);
        let known = self.members.get(&key);
        let mut change = Change { notify: known.is_none(), ..Change::default() };
        change.publish = self.members.is_empty() || self.manner != manner;
        self.manner = manner;
        let previous = known.map(|member| member.subscriptions.clone());
        let known_as = known.map_or(0, |member| member.fingerprint);
        let told = match subscriptions {
            Some(list) => by_topic(list),
            None => match self.known_under(&key, fingerprint) {
                Some(subscriptions) => subscriptions,
                None => {
                    change.subscriptions_wanted = true;
                    previous.clone().unwrap_or_default()
                }
            },
        };
        let taken = self.take_subscriptions(&told, previous.as_ref());
        let told_the_same = previous.is_some_and(|previous| previous == told);
        let subscriptions = self.shared(&told);
        // Only what was told in full is known under its fingerprint.
        let fingerprint = if change.subscriptions_wanted { known_as } else { fingerprint };
        self.members.insert(key, Member { client, heartbeat_at: now, fingerprint, subscriptions });
        change.publish |= taken.changed;
        if told_the_same && !taken.changed {
            // Most heartbeats: the other members need not be looked at.
            return change;
        }
        let followed = self.follow_members();
        change.notify |= taken.added || followed.dropped;
        change.publish |= followed.dropped || followed.replaced;
        change.inconsistent = self.newly_inconsistent();
        change
    }

    /// A client says goodbye.
    pub(crate) fn unregister(&mut self, client_id: &Text, connection: C) -> Change {
        self.remove_where(|(id, at), _| id == client_id && *at == connection)
    }

    /// A connection is gone, and all members on it.
    pub(crate) fn connection_closed(&mut self, connection: C) -> Change {
        self.remove_where(|(_, at), _| *at == connection)
    }

    /// Removes members whose last heartbeat is older than `span_ms`.
    pub(crate) fn expire(&mut self, now: Millis, span_ms: u64) -> Change {
        self.remove_where(|_, member| now.0.saturating_sub(member.heartbeat_at.0) > span_ms)
    }

    fn remove_where(&mut self, gone: impl Fn(&(Text, C), &Member) -> bool) -> Change {
        let before = self.members.len();
        self.members.retain(|key, member| !gone(key, member));
        if self.members.len() == before {
            return Change::default();
        }
        let followed = self.follow_members();
        let publish = followed.dropped || followed.replaced || self.members.is_empty();
        let inconsistent = self.newly_inconsistent();
        Change { notify: true, publish, inconsistent, ..Change::default() }
    }

    /// What a client told under a fingerprint, on this connection or on one before it.
    fn known_under(&self, key: &(Text, C), fingerprint: i32) -> Option<Subscriptions> {
        let told = |member: &&Member| member.fingerprint == fingerprint;
        let here = self.members.get(key).filter(told);
        let before = || self.members.iter().filter(|((id, _), _)| *id == key.0).map(|(_, member)| member).find(told);
        here.or_else(before).map(|member| member.subscriptions.clone())
    }

    fn take_subscriptions(&mut self, told: &Subscriptions, previous: Option<&Subscriptions>) -> Taken {
        let mut taken = Taken::default();
        for (topic, subscription) in told.iter() {
            let Some(current) = self.subscriptions.get(topic) else {
                self.subscribe(topic, subscription);
                taken.added = true;
                taken.changed = true;
                continue;
            };
            let version = subscription.sub_version;
            let before = previous.and_then(|previous| previous.get(topic));
            let changed_its_mind = before.is_some_and(|before| before.sub_version != version);
            if version > current.sub_version || (changed_its_mind && version != current.sub_version) {
                self.subscribe(topic, subscription);
                taken.changed = true;
            }
        }
        taken
    }

    fn subscribe(&mut self, topic: &Text, subscription: &Arc<SubscriptionData>) {
        Arc::make_mut(&mut self.subscriptions).insert(topic.clone(), subscription.clone());
    }

    /// The same subscriptions, sharing the group's where they are equal.
    fn shared(&self, told: &Subscriptions) -> Subscriptions {
        if *told == self.subscriptions {
            return self.subscriptions.clone();
        }
        let share = |(topic, subscription): (&Text, &Arc<SubscriptionData>)| match self.subscriptions.get(topic) {
            Some(of_group) if of_group == subscription => (of_group.topic.clone(), of_group.clone()),
            _ => (topic.clone(), subscription.clone()),
        };
        Arc::new(told.iter().map(share).collect())
    }

    /// The members that do not share the group's subscriptions, so that they may differ from it.
    fn others(&self) -> impl Iterator<Item = &Member> + Clone {
        self.members.values().filter(|member| !Arc::ptr_eq(&member.subscriptions, &self.subscriptions))
    }

    /// Drops topics that no member lists, and where the member that the group followed is gone, follows the newest of
    /// the others.
    fn follow_members(&mut self) -> Followed {
        let mut followed = Followed::default();
        if self.others().count() < self.members.len() {
            // One member tells all that the group has.
            return followed;
        }
        let members = &self.members;
        Arc::make_mut(&mut self.subscriptions).retain(|topic, of_group| {
            let told = || members.values().filter_map(|member| member.subscriptions.get(topic));
            let Some(newest) = told().max_by_key(|subscription| subscription.sub_version) else {
                followed.dropped = true;
                return false;
            };
            if !told().any(|subscription| subscription == of_group) {
                *of_group = newest.clone();
                followed.replaced = true;
            }
            true
        });
        followed
    }

    /// Topics about which members differ now and did not before.
    fn newly_inconsistent(&mut self) -> Vec<Text> {
        let others: Vec<&Member> = self.others().collect();
        let differ = |topic: &Text, of_group: &SubscriptionData| {
            others.iter().filter_map(|member| member.subscriptions.get(topic)).any(|of_member| {
                of_member.sub_string != of_group.sub_string || of_member.is_tag_type() != of_group.is_tag_type()
            })
        };
        let now: Vec<Text> = self
            .subscriptions
            .iter()
            .filter(|(topic, of_group)| differ(topic, of_group))
            .map(|(topic, _)| topic.clone())
            .collect();
        let newly = now.iter().filter(|topic| !self.inconsistent.contains(topic)).cloned().collect();
        self.inconsistent = now;
        newly
    }
}

fn by_topic(list: Vec<Arc<SubscriptionData>>) -> Subscriptions {
    Arc::new(list.into_iter().map(|subscription| (subscription.topic.clone(), subscription)).collect())
}

#[derive(Default)]
struct Taken {
    /// The group has a topic more.
    added: bool,
    /// The group has another subscription to some topic.
    changed: bool,
}

#[derive(Default)]
struct Followed {
    /// The group has a topic less.
    dropped: bool,
    /// The group has another subscription to some topic.
    replaced: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(topic: &str, expression: &str, version: i64) -> Arc<SubscriptionData> {
        let data = SubscriptionData::parse(Text::from(topic), Some(expression)).expect("a subscription");
        Arc::new(SubscriptionData { sub_version: version, ..data })
    }

    fn heartbeat(id: &str, subscriptions: &[(&str, &str, i64)]) -> Registration {
        Registration {
            client: Client {
                id: Text::from(id),
                address: "127.0.0.1:1".parse().expect("an address"),
                language: Language::Java,
                version: 493,
            },
            manner: Manner::default(),
            fingerprint: 0,
            subscriptions: Some(
                subscriptions.iter().map(|(topic, tags, version)| subscription(topic, tags, *version)).collect(),
            ),
        }
    }

    fn expression(members: &Members<u32>, topic: &str) -> Option<String> {
        members.subscriptions().get(topic).map(|data| data.sub_string.to_string())
    }

    #[test]
    fn members_join_stay_and_leave() {
        let mut members = Members::default();
        let joined = members.register(1, heartbeat("a", &[("T", "*", 1)]), Millis(0));
        assert_eq!((joined.notify, joined.publish), (true, true));
        let again = members.register(1, heartbeat("a", &[("T", "*", 1)]), Millis(30_000));
        assert_eq!(again, Change::default(), "nothing is new");
        let second = members.register(2, heartbeat("b", &[("T", "*", 1)]), Millis(30_000));
        assert_eq!((second.notify, second.publish), (true, false), "the subscription is the same");
        assert_eq!(members.expire(Millis(150_000), 120_000), Change::default(), "exactly 120 s are not too long");
        let late = members.register(2, heartbeat("b", &[("T", "*", 1)]), Millis(100_000));
        assert_eq!(late, Change::default());
        let expired = members.expire(Millis(150_001), 120_000);
        assert_eq!((expired.notify, members.client_ids()), (true, vec![Text::from("b")]));
        let left = members.unregister(&Text::from("b"), 2);
        assert_eq!((left.notify, left.publish, members.is_empty()), (true, true, true));
        assert_eq!(members.unregister(&Text::from("b"), 2), Change::default(), "it is gone already");
    }

    #[test]
    fn a_second_connection_of_one_client_does_not_hide_the_end_of_the_first() {
        let mut members = Members::default();
        members.register(1, heartbeat("same", &[("T", "*", 1)]), Millis(0));
        assert!(members.register(2, heartbeat("same", &[("T", "*", 1)]), Millis(0)).notify);
        assert_eq!(members.client_ids().len(), 1);
        assert_eq!(members.connections_of("same").collect::<Vec<_>>(), [1, 2]);
        assert!(members.connection_closed(1).notify);
        assert_eq!(members.connections_of("same").collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn members_that_tell_the_same_share_it_with_the_group() {
        let mut members = Members::default();
        let told = [("T", "*", 1), ("U", "a", 1)];
        members.register(1, heartbeat("a", &told), Millis(0));
        let view = members.subscriptions().clone();
        members.register(2, heartbeat("b", &told), Millis(0));
        members.register(2, heartbeat("b", &told), Millis(1));
        assert_eq!(members.others().count(), 0);
        assert!(Arc::ptr_eq(&view, members.subscriptions()), "nothing was copied");
        members.register(3, heartbeat("c", &[("T", "*", 2)]), Millis(2));
        assert_eq!((view["T"].sub_version, members.subscriptions()["T"].sub_version), (1, 2), "a view stays as it is");
        assert_eq!(members.others().count(), 3);
        assert!(Arc::ptr_eq(&members.subscriptions()["T"], &members.members[&(Text::from("c"), 3)].subscriptions["T"]));
    }

    #[test]
    fn the_newest_change_of_mind_counts() {
        let mut members = Members::default();
        members.register(1, heartbeat("a", &[("T", "A", 100)]), Millis(0));
        // A newcomer with an older version does not overrule.
        let other = members.register(2, heartbeat("b", &[("T", "B", 50)]), Millis(0));
        assert_eq!((expression(&members, "T").as_deref(), other.inconsistent), (Some("A"), vec![Text::from("T")]));
        let again = members.register(2, heartbeat("b", &[("T", "B", 50)]), Millis(1));
        assert_eq!(again, Change::default(), "told once");
        members.register(2, heartbeat("b", &[("T", "B", 101)]), Millis(2));
        assert_eq!(expression(&members, "T").as_deref(), Some("B"));
        let left = members.connection_closed(2);
        assert_eq!((expression(&members, "T").as_deref(), left.publish), (Some("A"), true), "nobody wants B any more");
        // Its clock went back an hour, yet it changed its mind.
        let back = members.register(1, heartbeat("a", &[("T", "C", 7)]), Millis(3));
        assert_eq!((expression(&members, "T").as_deref(), back.publish, back.notify), (Some("C"), true, false));
    }

    #[test]
    fn topics_stay_as_long_as_a_member_lists_them() {
        let mut members = Members::default();
        members.register(1, heartbeat("a", &[("T", "*", 1), ("U", "*", 1)]), Millis(0));
        members.register(2, heartbeat("b", &[("T", "*", 1)]), Millis(0));
        assert!(expression(&members, "U").is_some());
        let less = members.register(1, heartbeat("a", &[("T", "*", 1)]), Millis(0));
        assert_eq!((expression(&members, "U"), less.notify, less.publish), (None, true, true));
        let more = members.register(1, heartbeat("a", &[("T", "*", 1), ("V", "*", 1)]), Millis(0));
        assert_eq!((more.notify, more.publish), (true, true));
        let gone = members.connection_closed(1);
        assert_eq!((expression(&members, "V"), gone.publish), (None, true));
    }

    #[test]
    fn short_heartbeats_keep_what_is_known_and_ask_for_what_is_not() {
        let short = |fingerprint| Registration { subscriptions: None, fingerprint, ..heartbeat("a", &[]) };
        let mut members = Members::default();
        let unknown = members.register(1, short(7), Millis(0));
        assert!(unknown.subscriptions_wanted && unknown.notify);
        let full = Registration { fingerprint: 7, ..heartbeat("a", &[("T", "H", 1)]) };
        assert!(!members.register(1, full, Millis(0)).subscriptions_wanted);
        assert_eq!(members.register(1, short(7), Millis(0)), Change::default());
        assert!(!members.register(2, short(7), Millis(0)).subscriptions_wanted, "the same client, connected again");
        members.connection_closed(1);
        assert_eq!(expression(&members, "T").as_deref(), Some("H"));
        for _ in 0..2 {
            assert!(members.register(2, short(8), Millis(0)).subscriptions_wanted, "it changed meanwhile");
        }
        assert_eq!(expression(&members, "T").as_deref(), Some("H"), "what is known stays until then");
    }
}
