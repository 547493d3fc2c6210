use remoting::body::topic::TopicConfig;
use remoting::json;
use serde_json::json;

use super::*;
use crate::route::table::{Contents, Registration};

fn registration(name: &'static str, id: i64) -> Registration {
    let config = |name: &'static str, topic_sys_flag| {
        let config = TopicConfig {
            topic_name: name.into(),
            read_queue_nums: 4,
            write_queue_nums: 5,
            topic_sys_flag,
            ..TopicConfig::default()
        };
        (Text::from(name), config)
    };
    Registration {
        cluster: "c".into(),
        broker_name: name.into(),
        broker_id: id,
        address: format!("{name}:{id}").into(),
        contents: Contents {
            topics: [config("T", 1), config("Tä", 2), config("U", 3), config("V", 0)].into(),
            ..Contents::default()
        },
        ..Registration::default()
    }
}

fn table(registrations: impl IntoIterator<Item = Registration>) -> Table {
    let mut table = Table::default();
    for registration in registrations {
        table.register(registration, false).expect("taken");
    }
    table
}

fn text(body: &impl serde::Serialize) -> String {
    String::from_utf8(json::encode(body).to_vec()).unwrap()
}

#[test]
fn a_route_has_the_bytes_that_clients_take_apart() {
    let table = table([registration("b", 0), registration("b", 1), registration("a", 0)]);
    let mut route = table.route("T", false).unwrap();
    assert_eq!(
        text(&route),
        concat!(
            r#"{"brokerDatas":[{"brokerAddrs":{"0":"a:0"},"brokerName":"a","cluster":"c","enableActingMaster":false},"#,
            r#"{"brokerAddrs":{"0":"b:0","1":"b:1"},"brokerName":"b","cluster":"c","enableActingMaster":false}],"#,
            r#""filterServerTable":{},"queueDatas":["#,
            r#"{"brokerName":"a","perm":6,"readQueueNums":4,"topicSysFlag":1,"writeQueueNums":5},"#,
            r#"{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":1,"writeQueueNums":5}]}"#
        )
    );
    route.order_topic_conf = Some("a:4;b:4".into());
    assert!(text(&route).contains(r#""filterServerTable":{},"orderTopicConf":"a:4;b:4","queueDatas":"#));
    assert_eq!(table.route("absent", false), None);
}

#[test]
fn a_route_tells_zones_filter_servers_and_static_topics() {
    let mut one = registration("b", 0);
    one.zone_name = Some("z".into());
    one.contents.filter_servers = vec!["f:1".into()];
    one.contents.mappings = [("T".into(), json!({"bname": "b", "epoch": 1}))].into();
    let text = text(&table([one]).route("T", false).unwrap());
    for part in [
        r#""enableActingMaster":false,"zoneName":"z"}"#,
        r#""filterServerTable":{"b:0":["f:1"]}"#,
        r#","topicQueueMappingByBroker":{"b":{"bname":"b","epoch":1}}}"#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn the_lowest_slave_is_shown_as_the_master_that_is_missing() {
    let acting = |id, acting| Registration { acting_master: Some(acting), ..registration("b", id) };
    for (registrations, supports, shown) in [
        (vec![acting(1, true), acting(2, true)], true, vec![(0, "b:1"), (2, "b:2")]),
        (vec![acting(1, true), acting(2, true)], false, vec![(1, "b:1"), (2, "b:2")]),
        (vec![acting(1, false)], true, vec![(1, "b:1")]),
        (vec![acting(0, true), acting(1, true)], true, vec![(0, "b:0"), (1, "b:1")]),
    ] {
        let route = table(registrations).route("T", supports).unwrap();
        let found: Vec<(i64, &str)> =
            route.broker_datas[0].broker_addrs.iter().map(|(id, address)| (*id, address.as_str())).collect();
        assert_eq!(found, shown);
    }
    let mut writable = table([acting(1, true)]);
    writable.add_write_permission("b");
    let route = writable.route("T", true).unwrap();
    assert!(route.broker_datas[0].broker_addrs.contains_key(&1), "a writable queue is not an acting master's");
}

#[test]
fn a_zone_keeps_what_is_near_and_what_has_no_master() {
    let of_zone = |name, id, zone: &'static str| Registration {
        zone_name: Some(zone.into()),
        acting_master: Some(true),
        ..registration(name, id)
    };
    let mut far = of_zone("far", 0, "z2");
    far.contents.filter_servers = vec!["f:1".into()];
    let table = table([of_zone("near", 0, "Z1"), far, of_zone("headless", 1, "z2")]);
    let mut route = table.route("T", false).unwrap();
    keep_zone(&mut route, "z1");
    let names: Vec<&str> = route.broker_datas.iter().map(|data| data.broker_name.as_str()).collect();
    assert_eq!(names, ["headless", "near"]);
    let names: Vec<&str> = route.queue_datas.iter().map(|queue| queue.broker_name.as_str()).collect();
    assert_eq!(names, ["headless", "near"]);
    assert!(route.filter_server_table.is_empty());
}

#[test]
fn standard_json_is_ascii() {
    for (json, ascii) in
        [(r#"{"a":"b"}"#, r#"{"a":"b"}"#), (r#"{"ä":"😀x"}"#, "{\"\\u00E4\":\"\\uD83D\\uDE00x\"}"), ("", "")]
    {
        assert_eq!(ascii_json(Bytes::from_static(json.as_bytes())), ascii);
    }
}

#[test]
fn clusters_and_groups_are_listed() {
    let table = table([registration("b", 0), registration("b", 1)]);
    assert_eq!(
        text(&table.cluster_info()),
        concat!(
            r#"{"brokerAddrTable":{"b":{"brokerAddrs":{"0":"b:0","1":"b:1"},"brokerName":"b","cluster":"c","#,
            r#""enableActingMaster":false}},"clusterAddrTable":{"c":["b"]}}"#
        )
    );
    assert_eq!(text(&Table::default().cluster_info()), r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#);
    let group = table.member_group(&"c".into(), &"b".into());
    assert_eq!(text(&group), r#"{"brokerAddrs":{"0":"b:0","1":"b:1"},"brokerName":"b","cluster":"c"}"#);
    let nobody = table.member_group(&"c".into(), &"x".into());
    assert_eq!(text(&nobody), r#"{"brokerAddrs":{},"brokerName":"x","cluster":"c"}"#);
}

#[test]
fn topics_are_listed() {
    let table = table([registration("b", 0)]);
    for (list, expected) in [
        (table.topic_list(), r#"{"topicList":["T","Tä","U","V"]}"#),
        (table.topics_of_cluster("c"), r#"{"topicList":["T","Tä","U","V"]}"#),
        (table.topics_of_cluster("x"), r#"{"topicList":[]}"#),
        (table.system_topics(), r#"{"brokerAddr":"b:0","topicList":["b","c"]}"#),
        (Table::default().system_topics(), r#"{"topicList":[]}"#),
        (table.unit_topics(UnitFilter::Unit), r#"{"topicList":["T","U"]}"#),
        (table.unit_topics(UnitFilter::UnitSub), r#"{"topicList":["Tä","U"]}"#),
        (table.unit_topics(UnitFilter::UnitSubButNotUnit), r#"{"topicList":["Tä"]}"#),
    ] {
        assert_eq!(text(&list), expected);
    }
}
