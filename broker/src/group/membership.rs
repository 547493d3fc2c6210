//! Who is in which group: heartbeats in, notices to members and views to all cores out.
//!
//! Whatever changed is published to every core before the heartbeat is answered, so that the client's next pull finds
//! it anywhere. Members are told of changes at once, but not more often than each [`NOTICE_SPAN`].

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use remoting::code::RequestCode;
use remoting::command::Command;
use remoting::header::client::NotifyConsumerIdsChanged;
use remoting::text::Text;
use runtime::clock;
use transport::ConnectionId;

use super::members::{Change, Client, Registration};
use super::offset_file;
use super::views::GroupView;
use crate::core::Core;
use crate::placement::TABLES_CORE;

/// Members of one group are not told more often that they changed; the last change is always told.
const NOTICE_SPAN: Duration = Duration::from_millis(100);
/// How often silent clients and broken connections are looked for.
const SWEEP_PERIOD: Duration = Duration::from_secs(10);

/// A heartbeat's part about one consumer group.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerHeartbeat {
    pub(crate) group: Text,
    pub(crate) connection: ConnectionId,
    pub(crate) registration: Registration,
}

/// A heartbeat's part about one producer group.
#[derive(Clone, Debug)]
pub(crate) struct ProducerHeartbeat {
    pub(crate) group: Text,
    pub(crate) connection: ConnectionId,
    pub(crate) client: Client,
}

/// Registers a consumer with its group's owner. Runs on the connection's core, and does nothing when the connection
/// was closed meanwhile. Returns whether the client must send its subscriptions.
pub(crate) async fn register_consumer(core: &Rc<Core>, heartbeat: ConsumerHeartbeat) -> bool {
    if !core.sessions.is_open(heartbeat.connection) {
        return false;
    }
    // From here to the owner nothing can overtake, so a later end of the connection arrives later.
    let owner = core.placement.core_of_group(&heartbeat.group);
    core.on(owner, move |core| async move {
        let ConsumerHeartbeat { group, connection, registration } = heartbeat;
        let now = clock::now_ms();
        let change = core.groups.change(&group, |group| group.members.register(connection, registration, now));
        let subscriptions_wanted = change.subscriptions_wanted;
        settle(&core, &group, change).await;
        subscriptions_wanted
    })
    .await
}

/// As [`register_consumer`], for a producer.
pub(crate) async fn register_producer(core: &Rc<Core>, heartbeat: ProducerHeartbeat) {
    if !core.sessions.is_open(heartbeat.connection) {
        return;
    }
    let owner = core.placement.core_of_group(&heartbeat.group);
    core.on(owner, move |core| async move {
        let ProducerHeartbeat { group, connection, client } = heartbeat;
        let mut producers = core.groups.producers.borrow_mut();
        producers.entry(group).or_default().register(connection, client, clock::now_ms());
    })
    .await;
}

/// A client with producers may wait for replies on its connection. Told once while the connection has producers.
pub(crate) async fn register_reply_client(core: &Rc<Core>, client_id: &Text, connection: ConnectionId) {
    if !core.sessions.note_reply_client(connection, client_id) {
        return;
    }
    let (owner, client_id) = (core.placement.core_of_client(client_id), client_id.detached());
    core.on(owner, move |core| async move { core.reply_clients.register(client_id, connection) }).await;
}

/// A consumer says goodbye to its group.
pub(crate) async fn unregister_consumer(core: &Rc<Core>, group: Text, client_id: Text, connection: ConnectionId) {
    let owner = core.placement.core_of_group(&group);
    core.on(owner, move |core| async move {
        let left = core.groups.change_known(&group, |group| group.members.unregister(&client_id, connection));
        settle(&core, &group, left.unwrap_or_default()).await;
    })
    .await;
}

/// A producer says goodbye to its group. Runs on the connection's core.
pub(crate) async fn unregister_producer(core: &Rc<Core>, group: Text, client_id: Text, connection: ConnectionId) {
    for client in core.sessions.forget_producer(connection, &group) {
        unregister_reply_client(core, client, connection).await;
    }
    let owner = core.placement.core_of_group(&group);
    core.on(owner, move |core| async move {
        if let Some(producers) = core.groups.producers.borrow_mut().get_mut(&group) {
            producers.unregister(&client_id, connection);
        }
    })
    .await;
}

async fn unregister_reply_client(core: &Rc<Core>, client_id: Text, connection: ConnectionId) {
    let owner = core.placement.core_of_client(&client_id);
    core.on(owner, move |core| async move { core.reply_clients.unregister(&client_id, connection) }).await;
}

/// A connection of this core is gone: its groups' owners hear of it.
pub(crate) fn connection_closed(core: &Rc<Core>, connection: ConnectionId) {
    let Some(session) = core.sessions.close(connection) else { return };
    for client in session.reply_clients {
        let core = core.clone();
        runtime::spawn_background(async move { unregister_reply_client(&core, client, connection).await });
    }
    for group in session.consumer_groups {
        let core = core.clone();
        runtime::spawn_background(async move {
            let owner = core.placement.core_of_group(&group);
            core.on(owner, move |core| async move {
                let left = core.groups.change_known(&group, |group| group.members.connection_closed(connection));
                settle(&core, &group, left.unwrap_or_default()).await;
            })
            .await;
        });
    }
    for group in session.producer_groups {
        let core = core.clone();
        runtime::spawn_background(async move {
            let owner = core.placement.core_of_group(&group);
            core.on(owner, move |core| async move {
                if let Some(producers) = core.groups.producers.borrow_mut().get_mut(&group) {
                    producers.connection_closed(connection);
                }
            })
            .await;
        });
    }
}

/// Starts what runs beside the requests of a core; once, on every core.
pub(crate) fn start_background(core: &Rc<Core>) {
    let sweeping = core.clone();
    runtime::spawn_background(async move {
        loop {
            clock::sleep(SWEEP_PERIOD).await;
            sweep(&sweeping).await;
        }
    });
    if core.id == TABLES_CORE {
        runtime::spawn_background(offset_file::save_often(core.clone()));
    }
}

/// Drops clients that have been silent for too long, and those of connections that ended while their first heartbeat
/// was on its way.
async fn sweep(core: &Rc<Core>) {
    for connection in core.sessions.connections() {
        if core.server().connection(connection).is_none() {
            connection_closed(core, connection);
        }
    }
    let (now, span_ms) = (clock::now_ms(), core.config().consumers.heartbeat_timeout.0);
    for producers in core.groups.producers.borrow_mut().values_mut() {
        producers.expire(now, span_ms);
    }
    for group in core.groups.names() {
        let change = core.groups.change_known(&group, |group| group.members.expire(now, span_ms)).unwrap_or_default();
        settle(core, &group, change).await;
        runtime::yield_if_needed().await;
    }
    core.groups.tidy(now);
}

/// Does what must follow from a change of a group's members, on its owner.
async fn settle(core: &Rc<Core>, group: &Text, change: Change) {
    for topic in &change.inconsistent {
        core.groups.inconsistencies.set(core.groups.inconsistencies() + 1);
        crate::log::warn(format_args!(
            "inconsistent subscription: members of group {group} ask for different messages of topic {topic}, so each \
             loses what only the others want; give all of them the same expression (inconsistentSubscriptions of \
             the broker's runtime info counts them)"
        ));
    }
    if change.notify {
        notify(core, group);
    }
    if change.publish {
        publish(core, group).await;
    }
}

/// Makes every core know the group as it is now.
async fn publish(core: &Rc<Core>, group: &Text) {
    // The view must not keep the frame alive that named the group.
    let group = group.detached();
    let view = core.groups.with(&group, |known| {
        let members = &known.members;
        (!members.is_empty()).then(|| {
            let subscriptions = members.subscriptions().clone();
            Arc::new(GroupView { group: group.clone(), manner: members.manner(), subscriptions })
        })
    });
    let (view, number) = (view.flatten(), core.groups.next_publication());
    core.on_each(move |core| {
        let (view, group) = (view.clone(), group.clone());
        async move {
            core.group_views.put(&group, number, view.clone());
            // Pulls that wait look again, by the group's new subscriptions.
            if let Some(view) = view {
                core.waits.wake_group(&group, |topic| view.subscriptions.contains_key(topic));
            }
        }
    })
    .await;
}

/// Tells the members of a group that they changed, or makes sure that a task which is about to do so does it later.
fn notify(core: &Rc<Core>, group: &Text) {
    let now = clock::instant();
    let wait = core.groups.change_known(group, |group| {
        let notice = &mut group.notice;
        if std::mem::replace(&mut notice.pending, true) {
            return None;
        }
        let since = notice.told_at.map_or(NOTICE_SPAN, |told_at| now.saturating_duration_since(told_at));
        Some(NOTICE_SPAN.saturating_sub(since))
    });
    let Some(wait) = wait.flatten() else { return };
    let (core, group) = (core.clone(), group.clone());
    runtime::spawn_background(async move {
        if !wait.is_zero() {
            clock::sleep(wait).await;
        }
        tell_members(&core, &group);
    });
}

fn tell_members(core: &Rc<Core>, group: &Text) {
    let members = core.groups.change_known(group, |group| {
        group.notice.pending = false;
        group.notice.told_at = Some(clock::instant());
        if group.members.is_broadcasting() {
            return Vec::new();
        }
        group.members.iter().map(|(connection, _)| connection).collect()
    });
    let wanted = core.config().consumers.notify_members_changed
        && core.group_configs.get(group).is_none_or(|config| config.notify_consumer_ids_changed_enable);
    if !wanted {
        return;
    }
    let fields = NotifyConsumerIdsChanged { consumer_group: group.clone() }.to_fields();
    let notice = Command::request(RequestCode::NOTIFY_CONSUMER_IDS_CHANGED, fields).oneway();
    for connection in members.unwrap_or_default() {
        core.send_to(connection, notice.clone());
    }
}
