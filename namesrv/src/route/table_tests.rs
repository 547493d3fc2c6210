use remoting::body::topic::DataVersion;
use serde_json::json;

use super::*;

const BOTH: i32 = permission::READ_WRITE;

fn topic(name: &'static str) -> (Text, TopicConfig) {
    let config = TopicConfig { topic_name: name.into(), read_queue_nums: 4, write_queue_nums: 4, ..Default::default() };
    (name.into(), config)
}

fn version(counter: i64, state_version: i64) -> DataVersion {
    DataVersion { counter, state_version, timestamp: 1 }
}

/// Broker `b` of cluster `c` with that id, at `b:ID`, holding the topics `T` and `U`.
fn broker(broker_id: i64) -> Registration {
    Registration {
        cluster: "c".into(),
        broker_name: "b".into(),
        broker_id,
        address: format!("b:{broker_id}").into(),
        ha_address: format!("ha:{broker_id}").into(),
        contents: Contents {
            data_version: version(1, 0),
            topics: [topic("T"), topic("U")].into(),
            ..Contents::default()
        },
        fingerprint: 7,
        ..Registration::default()
    }
}

fn with_topics<const N: usize>(base: Registration, counter: i64, topics: [&'static str; N]) -> Registration {
    let contents = Contents { data_version: version(counter, 0), topics: topics.map(topic).into(), ..base.contents };
    Registration { contents, ..base }
}

fn key(address: &str) -> BrokerAddress {
    BrokerAddress { cluster: "c".into(), address: address.into() }
}

fn taken(table: &mut Table, registration: Registration) -> Registered {
    let registered = table.register(registration, false).expect("taken");
    check(table);
    registered
}

/// The invariants of the table.
fn check(table: &Table) {
    assert!(table.brokers.values().all(|data| !data.broker_addrs.is_empty()), "{table:?}");
    assert!(table.clusters.values().all(|names| !names.is_empty()), "{table:?}");
    assert!(table.clusters.values().flatten().all(|name| table.brokers.contains_key(name)), "{table:?}");
    for (name, queues) in &table.topics {
        assert!(!queues.is_empty(), "{name}");
        assert!(queues.keys().all(|name| table.brokers.contains_key(name)), "{name}: {queues:?}");
    }
}

fn permission_of(table: &Table, topic: &str) -> Option<i32> {
    table.topics.get(topic)?.get("b").map(|queue| queue.perm)
}

fn addresses(table: &Table) -> Vec<(i64, String)> {
    let Some(data) = table.brokers.get("b") else { return Vec::new() };
    data.broker_addrs.iter().map(|(id, address)| (*id, address.to_string())).collect()
}

#[test]
fn a_master_brings_its_topics() {
    let mut table = Table::default();
    assert_eq!(taken(&mut table, broker(0)), Registered::Taken { master: None, is_new_minimum: false });
    assert_eq!(table.topics.len(), 2);
    assert_eq!(table.clusters["c"].len(), 1);
    assert_eq!(table.data_version(&key("b:0")), Some(version(1, 0)));
}

#[test]
fn a_single_topic_needs_a_registered_broker() {
    let mut table = Table::default();
    assert_eq!(table.register(with_topics(broker(0), 1, ["T"]), false), Err(PartialFirst));
    assert!(table.brokers.is_empty() && table.clusters.is_empty(), "a refusal leaves no trace");
    taken(&mut table, broker(0));
    assert_eq!(table.register(with_topics(broker(1), 1, ["T"]), false), Err(PartialFirst), "another id");
    taken(&mut table, with_topics(broker(0), 2, ["V"]));
    assert_eq!(table.topics.keys().collect::<Vec<_>>(), ["T", "U", "V"], "an increment removes nothing");
    taken(&mut table, with_topics(broker(1), 1, []));
}

#[test]
fn a_changed_version_replaces_queues_and_an_equal_one_adds_what_is_missing() {
    let mut table = Table::default();
    taken(&mut table, broker(0));
    let mut more_queues = broker(0);
    more_queues.contents.topics.get_mut("T").unwrap().read_queue_nums = 9;
    table.delete_topic("U", None);
    taken(&mut table, more_queues.clone());
    assert_eq!(table.topics["T"]["b"].read_queue_nums, 4, "the version says that nothing changed");
    assert!(table.topics.contains_key("U"), "the topic had no entry of this broker");
    for changed in [version(2, 0), version(2, 1), DataVersion { timestamp: 2, ..version(2, 1) }] {
        more_queues.contents.topics.get_mut("T").unwrap().read_queue_nums += 1;
        more_queues.contents.data_version = changed;
        taken(&mut table, more_queues.clone());
        assert_eq!(table.topics["T"]["b"].read_queue_nums, more_queues.contents.topics["T"].read_queue_nums);
    }
}

#[test]
fn topics_that_are_not_mentioned_stay_unless_configured() {
    let mut table = Table::default();
    taken(&mut table, broker(0));
    taken(&mut table, with_topics(broker(0), 2, ["T", "V"]));
    assert_eq!(table.topics.len(), 3);
    table.register(with_topics(broker(0), 3, ["T", "W"]), true).unwrap();
    assert_eq!(table.topics.keys().collect::<Vec<_>>(), ["T", "W"]);
    let mut with_mapping = with_topics(broker(0), 4, ["T"]);
    with_mapping.contents.mappings = [("S".into(), json!({"bname": "b"}))].into();
    table.register(with_mapping, true).unwrap();
    assert_eq!(table.topics.len(), 2, "with static topics nothing is dropped");
}

#[test]
fn an_address_has_one_role() {
    let mut table = Table::default();
    taken(&mut table, broker(0));
    taken(&mut table, broker(1));
    table.unregister(&key("b:0"), &"b".into());
    let promoted = Registration { address: "b:1".into(), ..broker(0) };
    assert_eq!(taken(&mut table, promoted), Registered::Taken { master: None, is_new_minimum: true });
    assert_eq!(addresses(&table), [(0, "b:1".to_owned())]);
}

#[test]
fn an_address_has_one_name() {
    let mut table = Table::default();
    taken(&mut table, broker(0));
    taken(&mut table, Registration { broker_name: "renamed".into(), ..broker(0) });
    assert_eq!(table.brokers.keys().collect::<Vec<_>>(), ["renamed"]);
}

#[test]
fn a_later_state_keeps_its_id() {
    let with_state = |address: &'static str, state| {
        let mut registration = Registration { address: address.into(), ..broker(0) };
        registration.contents.data_version = version(1, state);
        registration
    };
    let mut table = Table::default();
    taken(&mut table, with_state("b:0", 2));
    taken(&mut table, Registration { address: "x:1".into(), ..broker(1) });
    assert_eq!(taken(&mut table, with_state("x:1", 1)), Registered::Outdated);
    assert_eq!(addresses(&table), [(0, "b:0".to_owned())], "the outdated one lost its other role too");
    assert_eq!(table.data_version(&key("x:1")), None);
    taken(&mut table, with_state("x:1", 2));
    assert_eq!(addresses(&table), [(0, "x:1".to_owned())], "an equal state takes over");
    taken(&mut table, with_state("x:1", 0));
    assert_eq!(table.data_version(&key("x:1")), Some(version(1, 0)), "the same address may go back");
}

#[test]
fn slaves_publish_only_without_a_master_and_without_the_right_to_write() {
    for (id, acting_master, published) in
        [(1, None, None), (1, Some(false), Some(BOTH)), (1, Some(true), Some(permission::READ)), (0, None, Some(BOTH))]
    {
        let mut table = Table::default();
        taken(&mut table, Registration { acting_master, ..broker(id) });
        assert_eq!(permission_of(&table, "T"), published, "{id} {acting_master:?}");
        let other = Registration { acting_master, ..with_topics(broker(2), 1, ["V", "W"]) };
        taken(&mut table, other);
        assert_eq!(permission_of(&table, "V"), None, "2 is not the lowest");
    }
}

#[test]
fn a_slave_is_told_its_master_while_there_is_one() {
    let mut table = Table::default();
    assert_eq!(taken(&mut table, broker(1)), Registered::Taken { master: None, is_new_minimum: false });
    assert_eq!(taken(&mut table, broker(0)), Registered::Taken { master: None, is_new_minimum: true });
    let master = Some(Master { address: "b:0".into(), ha_address: "ha:0".into() });
    assert_eq!(taken(&mut table, broker(1)), Registered::Taken { master: master.clone(), is_new_minimum: false });
    assert_eq!(table.master_for(&"b".into(), 1), master);
    assert_eq!(table.master_for(&"b".into(), 0), None);
    table.unregister(&key("b:0"), &"b".into());
    assert_eq!(table.master_for(&"b".into(), 1), None);
}

#[test]
fn the_last_address_takes_its_name_along() {
    let mut table = Table::default();
    taken(&mut table, broker(0));
    taken(&mut table, Registration { broker_name: "other".into(), address: "o:0".into(), ..broker(0) });
    taken(&mut table, broker(1));
    assert_eq!(
        table.unregister(&key("b:0"), &"b".into()),
        Some(MinimumLeft { broker_name: "b".into(), offline_address: "b:0".into() })
    );
    assert_eq!(addresses(&table), [(1, "b:1".to_owned())]);
    assert_eq!(permission_of(&table, "T"), Some(BOTH), "the slave still serves what is there");
    assert_eq!(table.unregister(&key("b:1"), &"b".into()), None);
    check(&table);
    assert_eq!(table.topics["T"].keys().collect::<Vec<_>>(), ["other"]);
    assert_eq!(table.unregister(&key("b:1"), &"b".into()), None, "a stranger changes nothing");
    table.unregister(&key("o:0"), &"other".into());
    assert!(table.topics.is_empty() && table.clusters.is_empty() && table.known.is_empty());
}

#[test]
fn without_its_master_an_acting_group_is_read_only() {
    let acting = |id| Registration { acting_master: Some(true), ..broker(id) };
    let mut table = Table::default();
    taken(&mut table, acting(0));
    taken(&mut table, acting(1));
    assert_eq!(table.unregister(&key("b:1"), &"b".into()), None);
    assert_eq!(permission_of(&table, "T"), Some(BOTH), "the master is there");
    taken(&mut table, acting(1));
    table.unregister(&key("b:0"), &"b".into());
    assert_eq!(permission_of(&table, "T"), Some(permission::READ));
    taken(&mut table, acting(0));
    assert_eq!(permission_of(&table, "T"), Some(BOTH), "the master is back");
}

#[test]
fn permissions_change_on_all_topics_of_a_name() {
    let mut table = Table::default();
    taken(&mut table, broker(0));
    taken(&mut table, Registration { broker_name: "other".into(), address: "o:0".into(), ..broker(0) });
    assert_eq!(table.wipe_write_permission("b"), 2);
    assert_eq!(permission_of(&table, "T"), Some(permission::READ));
    assert_eq!(table.topics["T"]["other"].perm, BOTH);
    taken(&mut table, broker(0));
    assert_eq!(permission_of(&table, "T"), Some(permission::READ), "an unchanged registration does not undo it");
    assert_eq!(table.add_write_permission("b"), 2);
    assert_eq!(permission_of(&table, "U"), Some(BOTH));
    table.wipe_write_permission("b");
    taken(&mut table, with_topics(broker(0), 2, ["T", "U"]));
    assert_eq!(permission_of(&table, "T"), Some(BOTH), "a changed one does");
    assert_eq!((table.wipe_write_permission("nobody"), table.add_write_permission("nobody")), (0, 0));
}

#[test]
fn topics_are_deleted_everywhere_or_in_a_cluster() {
    let mut table = Table::default();
    taken(&mut table, broker(0));
    let other = Registration { broker_name: "other".into(), cluster: "d".into(), address: "o:0".into(), ..broker(0) };
    taken(&mut table, other);
    table.delete_topic("T", Some("nobody"));
    assert_eq!(table.topics["T"].len(), 2);
    table.delete_topic("T", Some("d"));
    assert_eq!(table.topics["T"].keys().collect::<Vec<_>>(), ["b"]);
    table.delete_topic("T", Some("c"));
    assert!(!table.topics.contains_key("T"));
    table.delete_topic("U", None);
    table.delete_topic("U", None);
    assert!(table.topics.is_empty());
}

#[test]
fn topics_are_entered_by_hand_for_registered_brokers() {
    let queue = |name: &'static str| QueueData { broker_name: name.into(), perm: BOTH, ..QueueData::default() };
    let mut table = Table::default();
    taken(&mut table, broker(0));
    assert_eq!(table.register_topic(&"V".into(), vec![queue("b"), queue("nobody")]), Err("nobody".into()));
    assert_eq!(table.register_topic(&"V".into(), Vec::new()), Ok(()));
    assert!(!table.topics.contains_key("V"));
    assert_eq!(table.register_topic(&"V".into(), vec![queue("b")]), Ok(()));
    assert_eq!(permission_of(&table, "V"), Some(BOTH));
}

#[test]
fn static_topics_are_kept_by_their_holder() {
    let mut table = Table::default();
    let mut registration = broker(0);
    registration.contents.mappings =
        [("S".into(), json!({"bname": "x", "epoch": 1})), ("R".into(), json!({"epoch": 1}))].into();
    taken(&mut table, registration.clone());
    assert_eq!(table.mappings["S"].keys().collect::<Vec<_>>(), ["x"]);
    assert_eq!(table.mappings["R"].keys().collect::<Vec<_>>(), ["b"]);
    registration.contents.mappings = [("R".into(), json!({"epoch": 2}))].into();
    taken(&mut table, registration.clone());
    assert_eq!(table.mappings["R"]["b"]["epoch"], 1, "the version says that nothing changed");
    registration.contents.data_version = version(2, 0);
    taken(&mut table, registration);
    assert_eq!(table.mappings["R"]["b"]["epoch"], 2);
}

/// A registration that is known may be skipped exactly when taking it again would change nothing.
#[test]
fn a_repeated_registration_is_recognized_until_something_else_changes() {
    let mut table = Table::default();
    taken(&mut table, broker(0));
    let known = |table: &Table| table.is_unchanged(&key("b:0"), 7);
    assert!(known(&table) && !table.is_unchanged(&key("b:0"), 8) && !table.is_unchanged(&key("b:1"), 7));
    type Change = fn(&mut Table);
    let changes: [(&str, Change); 5] = [
        ("a topic was deleted", |table| table.delete_topic("T", None)),
        ("a slave came", |table| drop(taken(table, broker(1)))),
        ("a slave went", |table| drop(table.unregister(&key("b:1"), &"b".into()))),
        ("one topic changed", |table| drop(taken(table, Registration { fingerprint: 9, ..broker(0) }))),
        ("it went", |table| drop(table.unregister(&key("b:0"), &"b".into()))),
    ];
    for (what, change) in changes {
        change(&mut table);
        assert!(!known(&table), "{what}");
        taken(&mut table, broker(0));
        assert!(known(&table), "after {what}");
    }
    table.wipe_write_permission("b");
    table.delete_topic("nobody", None);
    assert!(known(&table), "an unchanged registration does not undo these");
}
