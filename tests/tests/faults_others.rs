//! Public faults of such brokers about names, formats, filters and settings, replayed: each test is named after its entry in
//! the list of them.

use std::thread;
use std::time::{Duration, Instant};

use harness::connection::{Connection, Reaction};
use harness::frame::Frame;
use harness::now_ms;
use harness::pop::{Popped, pop};
use harness::process::Dev;
use harness::program;
use harness::record::{Record, decode_all};
use harness::request::{
    self, CODE_INVALID_PARAMETER, CODE_MESSAGE_ILLEGAL, CODE_OK, CODE_SYSTEM_ERROR, CODE_TOPIC_NOT_EXIST, HEARTBEAT,
    MAX_OFFSET, Pulled, Queue, await_count, create_topic, heartbeat, pull, read_queue_of, route, send, send_back,
};
use harness::target::{TARGET_VARIABLE, Target};
use harness::transaction::{COMMIT, Half, half};
use harness::{left_out, unique_name};
use serde_json::Value;

const CODE_NO_PERMISSION: i32 = 16;
const CODE_SUBSCRIPTION_PARSE_FAILED: i32 = 23;
const UPDATE_BROKER_CONFIG: i32 = 25;
const BROKER_CONFIG: i32 = 26;
const VIEW_MESSAGE: i32 = 33;
const CHECK_CLIENT_CONFIG: i32 = 46;
const TOPIC_STATS: i32 = 202;
const DELETE_TOPIC: i32 = 215;
const TOPIC_CONFIG: i32 = 351;

#[test]
fn f2_keys_that_name_paths_cannot_be_changed_over_the_wire() {
    let target = Target::start("f2");
    if target.is_given() {
        return left_out("f2", "Apache lets the paths of the store be changed");
    }
    let mut connection = target.connect();
    let config = |connection: &mut Connection| {
        String::from_utf8(connection.call_ok(&Frame::request(BROKER_CONFIG)).expect("answered").body).expect("text")
    };
    let before = config(&mut connection);
    for key in ["storePathRootDir", "storePathCommitLog", "storePathConsumeQueue", "namesrvAddr", "brokerIP1"] {
        let update = Frame::request(UPDATE_BROKER_CONFIG).body(format!("{key}=/tmp/elsewhere\n"));
        let answer = connection.call(&update).expect("answered");
        assert_eq!(answer.code, CODE_NO_PERMISSION, "{key}: {answer:?}");
        assert!(answer.remark.contains(key), "{answer:?}");
    }
    assert_eq!(config(&mut connection), before);
    let mut namesrv = target.connect_namesrv();
    for key in ["kvConfigPath", "configStorePath", "rocketmqHome"] {
        let answer = namesrv.call(&Frame::request(318).body(format!("{key}=/tmp/elsewhere\n"))).expect("answered");
        assert_ne!(answer.code, CODE_OK, "{key}: {answer:?}");
    }
}

#[test]
fn f3_the_longest_names_go_all_the_way_to_the_dead_letters() {
    let target = Target::start("f3");
    let mut connection = target.connect();
    let padded = |stem: &str, length: usize| format!("{:x<length$}", unique_name(stem));
    let (topic, group) = (padded("f3", 127), padded("f3g", 120));
    connection.call_ok(&create_topic(&topic, 1)).expect("127 characters are allowed");
    let too_long = connection.call(&create_topic(&padded("f3", 128), 1)).expect("answered");
    assert_ne!(too_long.code, CODE_OK);
    connection.call_ok(&heartbeat("c", &group)).expect("taken");
    let queue = Queue::new(&topic, 0);
    connection.call_ok(&send(&queue, "x", "")).expect("stored");
    let first = read_queue_of(&mut connection, &queue, 1).remove(0);
    connection.call_ok(&send_back(&group, first.physical_offset, 1)).expect("taken");
    let again = read_queue_of(&mut connection, &Queue::new(&format!("%RETRY%{group}"), 0), 1).remove(0);
    connection.call_ok(&send_back(&group, again.physical_offset, -1)).expect("taken");
    assert_eq!(read_queue_of(&mut connection, &Queue::new(&format!("%DLQ%{group}"), 0), 1).len(), 1);
    let popped = |connection: &mut Connection| {
        let request = pop(&group, &topic, 800, 3_000);
        Popped::all_of(&connection.call(&request).expect("answered")).expect("a pop")
    };
    assert_eq!(popped(&mut connection).len(), 1);
    let again = popped(&mut connection);
    assert_eq!(again.len(), 1, "the retry topic of POP has a name of 254 characters");
    connection.call_ok(&again[0].ack(&group)).expect("acknowledged");
}

#[test]
fn f4_properties_may_take_32767_bytes_and_not_one_more() {
    const LIMIT: usize = 32_767;
    let target = Target::start("f4");
    let mut connection = target.connect();
    let queue = target.queue("f4");
    let id = "UNIQ_KEY\u{1}7F0000010001AAAAAAAA000000000001\u{2}";
    let of_bytes = |bytes: usize, filler: &str| {
        let rest = bytes - id.len() - "v\u{1}\u{2}".len();
        format!("{id}v\u{1}{}{}\u{2}", filler.repeat(rest / filler.len()), "x".repeat(rest % filler.len()))
    };
    // What readers see: behind the last entry the record may have a checksum.
    let seen_bytes = |record: &Record| {
        let entries = record.properties.split('\u{2}').filter(|entry| entry.contains('\u{1}'));
        entries.map(|entry| entry.len() + 1).sum::<usize>()
    };
    connection.call_ok(&send(&queue, "x", &of_bytes(100, "x"))).expect("stored");
    let stored = read_queue_of(&mut connection, &queue, 1).remove(0);
    // Its own entries the broker adds to every message.
    let added = seen_bytes(&stored) - 100;
    for filler in ["x", "語"] {
        for (bytes, code) in [(LIMIT - added, CODE_OK), (LIMIT - added + 1, CODE_MESSAGE_ILLEGAL)] {
            let answer = connection.call(&send(&queue, "x", &of_bytes(bytes, filler))).expect("it lives");
            assert_eq!(answer.code, code, "{bytes} bytes and {added} of {filler}: {}", answer.remark);
            if code != CODE_OK && !target.is_given() {
                assert!(answer.remark.contains("32768") && answer.remark.contains("32767"), "{}", answer.remark);
            }
        }
    }
    let lengths: Vec<usize> = read_queue_of(&mut connection, &queue, 3).iter().map(seen_bytes).collect();
    assert_eq!(lengths, [100 + added, LIMIT, LIMIT]);
}

#[test]
fn f5_expressions_are_refused_with_the_code_that_clients_know() {
    let off = Target::start("f5-off");
    let on = Target::start_with(Dev::new("f5-on").property("enablePropertyFilter=true"));
    let check = |target: &Target, expression: &str| {
        let body = serde_json::json!({
            "clientId": "c", "group": "g", "namespace": "",
            "subscriptionData": {"topic": "T", "subString": expression, "expressionType": "SQL92",
                "classFilterMode": false, "tagsSet": [], "codeSet": [], "subVersion": 1},
        });
        let request = Frame::request(CHECK_CLIENT_CONFIG).body(body.to_string());
        target.connect().call(&request).expect("answered")
    };
    if !off.is_given() {
        let answer = check(&off, "a > 5");
        assert_eq!(answer.code, CODE_SYSTEM_ERROR);
        assert!(answer.remark.contains("SQL92"), "{}", answer.remark);
    }
    assert_eq!(check(&on, "a > 5 AND b IS NOT NULL").code, CODE_OK);
    for wrong in ["a between 0 3", "a >", "a > 'x", "(a > 5", ""] {
        assert_eq!(check(&on, wrong).code, CODE_SUBSCRIPTION_PARSE_FAILED, "{wrong:?}");
    }
}

#[test]
fn f6_the_topic_of_traces_is_there_when_it_is_wanted() {
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out("f6", "it needs a configuration of its own");
    }
    let on = Target::start_with(Dev::new("f6").property("traceTopicEnable=true"));
    let answer = on.connect_namesrv().call(&route("RMQ_SYS_TRACE_TOPIC")).expect("answered");
    assert_eq!(answer.code, CODE_OK, "{}", answer.remark);
    let route: Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert!(route["queueDatas"][0]["writeQueueNums"].as_u64() >= Some(1), "{route}");
    let trace = Queue::new("RMQ_SYS_TRACE_TOPIC", 0);
    on.connect().call_ok(&send(&trace, "trace", "KEYS\u{1}id\u{2}")).expect("stored");
}

#[test]
fn f7_a_missing_field_of_a_query_is_named() {
    let target = Target::start("f7");
    if target.is_given() {
        return left_out("f7", "Apache answers with its null pointer");
    }
    let mut connection = target.connect();
    let topic = target.topic("f7", 1);
    let query = Frame::request(12).field("topic", &topic).field("key", "k").field("maxNum", 32);
    let answer = connection.call(&query.field("begin", 0).field("end", now_ms())).expect("the connection lives");
    assert_eq!(answer.code, CODE_SYSTEM_ERROR);
    assert!(answer.remark.contains("beginTimestamp"), "{}", answer.remark);
    connection.call_ok(&send(&Queue::new(&topic, 0), "x", "")).expect("it still does");
}

#[test]
fn f8_calls_about_a_topic_that_never_was_are_answered() {
    let target = Target::start("f8");
    let mut connection = target.connect();
    let topic = unique_name("f8");
    for _ in 0..30 {
        for code in [TOPIC_CONFIG, TOPIC_STATS] {
            let answer = connection.call(&Frame::request(code).field("topic", &topic)).expect("answered");
            assert_eq!(answer.code, CODE_TOPIC_NOT_EXIST, "{code}: {answer:?}");
        }
        connection.call(&request::about_queue(MAX_OFFSET, &Queue::new(&topic, 0))).expect("answered");
        connection.call_ok(&Frame::request(DELETE_TOPIC).field("topic", &topic)).expect("nothing to delete");
    }
    target.assert_alive();
}

#[test]
fn f9_a_one_way_request_is_answered_by_nothing() {
    let target = Target::start("f9");
    let mut connection = target.connect();
    let queue = target.queue("f9");
    let sent = Half::of(&connection.call(&half(&queue, "x", "")).expect("answered")).expect("stored");
    let one_way = [
        heartbeat("c", "f9").one_way(),
        sent.end(COMMIT).one_way(),
        sent.end(COMMIT).field("producerGroup", "stranger").one_way(),
        Frame::request(HEARTBEAT).body("no json").one_way(),
        send(&queue, "y", "").one_way(),
    ];
    for request in &one_way {
        connection.send(request).expect("sent");
    }
    // The broker has requests of its own: it tells members of a group that there is a new one.
    while let Reaction::Answered(frame) = connection.reaction(Duration::from_millis(500)).expect("readable") {
        assert!(!frame.is_answer(), "{frame:?}");
    }
    assert_eq!(read_queue_of(&mut connection, &queue, 2).len(), 2, "they were done all the same");
}

#[test]
fn f10_message_ids_carry_the_address_that_clients_reach() {
    let name = "f10_message_ids_carry_the_address_that_clients_reach";
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(name, "it needs a configuration of its own");
    }
    let dev = Dev::new("f10").property("bindAddress=0.0.0.0").property("brokerIP1=127.0.0.1");
    let _process = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    let topic = unique_name("f10");
    connection.call_ok(&create_topic(&topic, 1)).expect("made");
    let answer = connection.call_ok(&send(&Queue::new(&topic, 0), "seen", "")).expect("stored");
    let id = answer.text("msgId").expect("an id");
    assert!(id.starts_with("7F000001"), "{id}");
    let offset = u64::from_str_radix(&id[16..], 16).expect("hex");
    let view = Frame::request(VIEW_MESSAGE).field("offset", offset).field("topic", &topic);
    let answer = Connection::open(&dev.broker).expect("it listens").call_ok(&view).expect("found");
    assert_eq!(decode_all(&answer.body).expect("a record")[0].body, b"seen");
}

#[test]
fn f11_permissions_of_a_topic_and_of_the_broker_act() {
    let target = Target::start("f11");
    let mut connection = target.connect();
    let queue = target.queue("f11");
    connection.call_ok(&send(&queue, "x", "")).expect("stored");
    assert!(await_count(&mut connection, &queue, 1));
    let with_perm = |perm: i32| create_topic(&queue.topic, 1).field("perm", perm);
    let published = || {
        let answer = target.connect_namesrv().call_ok(&route(&queue.topic)).expect("a route");
        let route: Value = serde_json::from_slice(&answer.body).expect("JSON");
        route["queueDatas"][0]["perm"].as_i64().expect("a permission")
    };
    for (perm, readable) in [(4, true), (2, false), (6, true)] {
        connection.call_ok(&with_perm(perm)).expect("changed");
        assert_eq!(published(), i64::from(perm), "producers find out by the route");
        let answer = connection.call(&pull("harness-reader", &queue, 0, 1)).expect("answered");
        assert_eq!(answer.code, if readable { CODE_OK } else { CODE_NO_PERMISSION }, "perm {perm}: {answer:?}");
    }
    if target.is_given() {
        return left_out("f11: brokerPermission", "the given servers' settings are not ours to change");
    }
    let set = |connection: &mut Connection, permission: i32| {
        let update = Frame::request(UPDATE_BROKER_CONFIG).body(format!("brokerPermission={permission}\n"));
        connection.call_ok(&update).expect("changed");
    };
    let ordered = Queue::new(&unique_name("f11-order"), 0);
    connection.call_ok(&create_topic(&ordered.topic, 1).field("order", true)).expect("made");
    set(&mut connection, 4);
    let until = Instant::now() + Duration::from_secs(10);
    while published() != 4 {
        assert!(Instant::now() < until, "the route tells the broker's permission");
    }
    let refused = connection.call(&send(&ordered, "x", "")).expect("answered");
    assert_eq!(refused.code, CODE_NO_PERMISSION, "{refused:?}");
    assert_eq!(connection.call(&send(&queue, "x", "")).expect("answered").code, CODE_OK, "only the route says so");
    set(&mut connection, 2);
    assert_eq!(connection.call(&pull("harness-reader", &queue, 0, 1)).expect("answered").code, CODE_NO_PERMISSION);
    set(&mut connection, 6);
    connection.call_ok(&send(&ordered, "x", "")).expect("stored");
    let pulled = Pulled::of(&connection.call(&pull("harness-reader", &queue, 0, 1)).expect("answered"));
    assert_eq!(pulled.expect("a pull").records.len(), 1);
}

#[test]
fn message_types_of_topics_are_told_and_not_enforced_on_this_path() {
    let target = Target::start("message-type");
    let mut connection = target.connect();
    for (kind, code) in
        [("NORMAL", CODE_OK), ("FIFO", CODE_OK), ("DELAY", CODE_OK), ("TRANSACTION", CODE_OK), ("PRIORITY", CODE_OK)]
    {
        let queue = Queue::new(&unique_name("message-type"), 0);
        let make = create_topic(&queue.topic, 1).field("attributes", format!("+message.type={kind}"));
        assert_eq!(connection.call(&make).expect("answered").code, code, "{kind}");
        let answer = connection.call_ok(&Frame::request(TOPIC_CONFIG).field("topic", &queue.topic)).expect("answered");
        assert!(String::from_utf8_lossy(&answer.body).contains(kind), "{answer:?}");
        for properties in ["", "__SHARDINGKEY\u{1}k\u{2}", "DELAY\u{1}1\u{2}", "TIMER_DELAY_MS\u{1}100\u{2}"] {
            connection.call_ok(&send(&queue, "x", properties)).expect("Apache's remoting path takes all of them");
        }
        Half::of(&connection.call(&half(&queue, "x", "")).expect("answered")).expect("stored");
    }
    let wrong = create_topic(&unique_name("message-type"), 1).field("attributes", "+message.type=ODD");
    assert_ne!(connection.call(&wrong).expect("answered").code, CODE_OK);
}

#[test]
fn levels_and_times_that_make_no_sense_are_answered_as_clients_know_it() {
    let target = Target::start("wishes");
    let mut connection = target.connect();
    let queue = target.queue("wishes");
    for (name, value, code) in [
        ("DELAY", "-1", CODE_OK),
        ("DELAY", "2147483648", CODE_SYSTEM_ERROR),
        ("DELAY", "abc", CODE_SYSTEM_ERROR),
        ("DELAY", "1.5", CODE_SYSTEM_ERROR),
        ("TIMER_DELAY_SEC", "-1", CODE_OK),
        ("TIMER_DELAY_SEC", "259201", CODE_MESSAGE_ILLEGAL),
        ("TIMER_DELAY_SEC", "2147483648", CODE_MESSAGE_ILLEGAL),
        ("TIMER_DELAY_SEC", "abc", CODE_MESSAGE_ILLEGAL),
        ("TIMER_DELAY_MS", "-9223372036854775808", CODE_OK),
        ("TIMER_DELAY_MS", "99999999999999999999", CODE_MESSAGE_ILLEGAL),
        ("TIMER_DELIVER_MS", "-1", CODE_OK),
        ("TIMER_DELIVER_MS", "9223372036854775807", CODE_MESSAGE_ILLEGAL),
    ] {
        let answer = connection.call(&send(&queue, "x", &format!("{name}\u{1}{value}\u{2}"))).expect("answered");
        assert_eq!(answer.code, code, "{name}={value}: {}", answer.remark);
        if code == CODE_MESSAGE_ILLEGAL && value == "259201" {
            let known = "timer message illegal, the delay time should not be bigger than the max delay 259200000ms";
            assert!(answer.remark.starts_with(known), "{}", answer.remark);
        }
    }
    let answer = connection.call(&send(&Queue::new(&queue.topic, 9), "x", "")).expect("answered");
    assert_eq!(answer.code, CODE_INVALID_PARAMETER);
}

#[test]
fn an_ordered_topic_is_told_to_the_nameservers() {
    let target = Target::start("order-conf");
    if target.is_given() {
        return left_out(
            "an_ordered_topic_is_told_to_the_nameservers",
            "the brokers of the given servers are not known",
        );
    }
    let topic = unique_name("order-conf");
    let arguments =
        ["admin", "updateTopic", "-b", &target.broker, "-t", &topic, "-w", "3", "-o", "true", "-n", &target.namesrv];
    let made = program::run(&arguments, Duration::from_secs(30));
    assert_eq!(made.code, Some(0), "{}", made.text());
    let asked = Frame::request(101).field("namespace", "ORDER_TOPIC_CONFIG").field("key", &topic);
    let value = target.connect_namesrv().call_ok(&asked).expect("it is known");
    assert!(value.text("value").expect("a value").ends_with(":3"), "{value:?}");
    let config = target.connect().call_ok(&Frame::request(TOPIC_CONFIG).field("topic", &topic)).expect("there");
    assert!(String::from_utf8_lossy(&config.body).contains("\"order\":true"), "{config:?}");
}

#[test]
fn the_lag_of_a_pop_group_is_never_negative() {
    let target = Target::start("pop-lag");
    let mut connection = target.connect();
    let (topic, group) = (target.topic("pop-lag", 1), target.group(&mut connection, "pop-lag"));
    for _ in 0..10 {
        connection.call_ok(&send(&Queue::new(&topic, 0), "x", "")).expect("stored");
    }
    assert!(await_count(&mut connection, &Queue::new(&topic, 0), 10));
    let request = pop(&group, &topic, 60_000, 200).field("maxMsgNums", 6);
    let popped = Popped::all_of(&connection.call(&request).expect("answered")).expect("a pop");
    for message in &popped[..4] {
        connection.call_ok(&message.ack(&group)).expect("acknowledged");
    }
    if target.is_given() {
        return left_out("the_lag_of_a_pop_group", "Apache shows lags of -1");
    }
    let arguments = ["admin", "consumerProgress", "-g", &group, "-n", &target.namesrv, "--json"];
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let printed = program::run(&arguments, Duration::from_secs(30));
        assert_eq!(printed.code, Some(0), "{}", printed.text());
        let lines: Vec<Value> = printed.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let of_topic: Vec<i64> =
            lines.iter().filter(|line| line["topic"] == *topic).filter_map(|line| line["diff"].as_i64()).collect();
        assert!(lines.iter().filter_map(|line| line["diff"].as_i64()).all(|lag| lag >= 0), "{}", printed.stdout);
        if of_topic == [6] {
            return;
        }
        assert!(Instant::now() < until, "the lag is what is not acknowledged: {}", printed.stdout);
        thread::sleep(Duration::from_millis(200));
    }
}
