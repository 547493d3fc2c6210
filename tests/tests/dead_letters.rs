//! `ringmq admin dlq`: finding dead letters, sending them once more and exporting them.

use std::time::Duration;

use harness::connection::Connection;
use harness::program::{self, Finished};
use harness::record::Record;
use harness::request::{self, Queue, read_queue_of, send_back};
use harness::target::Target;
use serde_json::Value;

const EXIT_OK: i32 = 0;
const EXIT_FAILURE: i32 = 1;
const EXIT_USAGE: i32 = 2;
const EXIT_PARTIAL: i32 = 5;
const WITHIN: Duration = Duration::from_secs(60);

fn dlq(target: &Target, arguments: &[&str]) -> Finished {
    let mut all = vec!["admin", "dlq"];
    all.extend(arguments);
    all.extend(["-n", &target.namesrv, "--json"]);
    program::run(&all, WITHIN)
}

/// The objects that a command printed, after it ended with `code`.
fn lines(finished: &Finished, code: i32) -> Vec<Value> {
    assert_eq!(finished.code, Some(code), "{}", finished.text());
    finished.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn field<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_else(|| panic!("{name} of {line}"))
}

/// Sends messages and lets each die at once; gives them as they lie among the dead letters.
fn kill(connection: &mut Connection, group: &str, queue: &Queue, messages: &[(&str, &[u8])]) -> Vec<Record> {
    for (index, (key, body)) in messages.iter().enumerate() {
        let properties = format!("KEYS\u{1}{key}\u{2}mine\u{1}kept\u{2}");
        connection.call_ok(&request::send(queue, *body, &properties)).expect("stored");
        let sent = read_queue_of(connection, queue, index + 1).remove(index);
        connection.call_ok(&send_back(group, sent.physical_offset, -1)).expect("taken");
    }
    read_queue_of(connection, &Queue::new(&format!("%DLQ%{group}"), 0), messages.len())
}

struct Scene {
    target: Target,
    connection: Connection,
    group: String,
    queue: Queue,
    dead: Vec<Record>,
}

/// Three dead letters with keys a, b, a; the last one's body is no text.
fn scene(stem: &str) -> Scene {
    let target = Target::start(stem);
    let mut connection = target.connect();
    let queue = target.queue(stem);
    let group = target.group(&mut connection, stem);
    let messages: [(&str, &[u8]); 3] = [("a", b"one"), ("b", b"two"), ("a", &[0xff, 0, 7])];
    let dead = kill(&mut connection, &group, &queue, &messages);
    Scene { target, connection, group, queue, dead }
}

#[test]
fn letters_are_found_by_id_key_and_time_and_exported_whole() {
    let scene = scene("dlq-find");
    let (target, group, dead) = (&scene.target, scene.group.as_str(), &scene.dead);
    let listed = lines(&dlq(target, &["list", "-g", group]), EXIT_OK);
    let ids: Vec<&str> = listed.iter().map(|line| field(line, "msgId")).collect();
    let expected: Vec<_> = dead.iter().map(|record| record.property("UNIQ_KEY").expect("an id")).collect();
    assert_eq!(ids, expected);
    assert!(listed.iter().all(|line| field(line, "originTopic") == scene.queue.topic));
    let cut = lines(&dlq(target, &["list", "-g", group, "-c", "2"]), EXIT_OK);
    assert_eq!((cut.len(), &cut[2]["shown"], &cut[2]["more"]), (3, &Value::from(2), &Value::from(true)));
    assert!(field(&cut[2], "fix").contains(&format!("-b {}", dead[2].store_ms)), "{cut:?}");
    assert_eq!(lines(&dlq(target, &["list", "-g", group, "-c", "3"]), EXIT_OK).len(), 3, "nothing is left out");
    let keyed = lines(&dlq(target, &["list", "-g", group, "-k", "a"]), EXIT_OK);
    assert_eq!(keyed.iter().map(|line| field(line, "msgId")).collect::<Vec<_>>(), [ids[0], ids[2]]);
    let (from, to) = (dead[1].store_ms.to_string(), dead[1].store_ms.to_string());
    let timed = lines(&dlq(target, &["list", "-g", group, "-b", &from, "-e", &to]), EXIT_OK);
    assert!(timed.iter().any(|line| field(line, "msgId") == ids[1]), "{timed:?}");
    let future = (dead[2].store_ms + 60_000).to_string();
    assert!(lines(&dlq(target, &["list", "-g", group, "-b", &future]), EXIT_OK).is_empty());
    for id in [field(&listed[1], "msgId"), field(&listed[1], "offsetMsgId")] {
        let shown = lines(&dlq(target, &["show", "-g", group, "-i", id]), EXIT_OK);
        assert_eq!((shown.len(), field(&shown[0], "body")), (1, "two"));
    }
    let exported = lines(&dlq(target, &["export", "-g", group]), EXIT_OK);
    assert_eq!(exported.len(), 3);
    assert_eq!((field(&exported[0], "body"), field(&exported[2], "bodyHex")), ("one", "ff0007"));
    assert_eq!(exported[0]["properties"]["mine"], "kept");
    let partly = dlq(target, &["show", "-g", group, "-i", ids[0], "-i", "0123456789ABCDEF0123456789ABCDEF"]);
    assert_eq!(lines(&partly, EXIT_PARTIAL).len(), 1);
    let nobody = dlq(target, &["list", "-g", "dlq-nobody"]);
    assert_eq!(nobody.code, Some(EXIT_FAILURE));
    assert!(nobody.stderr.contains("has no dead letters") && nobody.stderr.contains("fix:"), "{}", nobody.stderr);
}

/// Runs an admin command. Gives what it printed without `--json`, a line each, and its objects with it.
fn listed(target: &Target, arguments: &[&str]) -> (Vec<String>, Vec<Value>) {
    let mut all = vec!["admin"];
    all.extend(arguments);
    all.extend(["-n", &target.namesrv]);
    let text = program::run(&all, WITHIN);
    assert_eq!(text.code, Some(EXIT_OK), "{}", text.text());
    all.push("--json");
    (text.stdout.lines().map(str::to_owned).collect(), lines(&program::run(&all, WITHIN), EXIT_OK))
}

#[test]
fn a_list_that_leaves_something_out_says_so_and_how_to_get_it() {
    let target = Target::start("cut-lists");
    let mut connection = target.connect();
    let queue = target.queue("cut");
    // As many as a list shows unasked, and as many as a broker gives of a key.
    let (consumed, of_key) = (128, 64);
    for number in 0..consumed {
        let properties = if number < of_key - 1 { "KEYS\u{1}a\u{2}" } else { "" };
        connection.call_ok(&request::send(&queue, format!("m{number}"), properties)).expect("stored");
    }
    read_queue_of(&mut connection, &queue, consumed);
    let by_key = ["queryMsgByKey", "-t", &queue.topic, "-k", "a"];
    let whole = ["consumeMessage", "-t", &queue.topic];
    let (text, objects) = listed(&target, &whole);
    assert_eq!((text.len(), objects.len()), (consumed, consumed), "nothing is left out");
    let (text, objects) = listed(&target, &by_key);
    assert_eq!((text.len(), objects.len()), (of_key, of_key - 1), "a heading, and nothing is left out");
    connection.call_ok(&request::send(&queue, "last", "KEYS\u{1}a\u{2}")).expect("stored");
    read_queue_of(&mut connection, &queue, consumed + 1);
    for (arguments, shown, told, more) in [
        (&whole[..], consumed, "there are more", Value::from(true)),
        (&by_key[..], of_key, "there may be more", Value::from("perhaps")),
    ] {
        let (text, objects) = listed(&target, arguments);
        let last = text.last().expect("a line");
        assert!(last.starts_with(&format!("# {shown} shown, {told}: ")), "{last}");
        assert_eq!((objects.len(), &objects[shown]["shown"]), (shown + 1, &Value::from(shown)));
        assert_eq!(objects[shown]["more"], more);
    }
}

#[test]
fn a_letter_is_sent_once_to_its_topic_however_often_it_is_asked_for() {
    let Scene { target, mut connection, group, queue, dead } = scene("dlq-resend");
    assert_eq!(dlq(&target, &["resend", "-g", &group]).code, Some(EXIT_USAGE), "nothing is selected");
    let sent = lines(&dlq(&target, &["resend", "-g", &group, "-k", "a"]), EXIT_OK);
    assert_eq!(sent.iter().map(|line| field(line, "result")).collect::<Vec<_>>(), ["SEND_OK", "SEND_OK"]);
    let all = lines(&dlq(&target, &["resend", "-g", &group, "--all"]), EXIT_OK);
    let results: Vec<&str> = all.iter().map(|line| field(line, "result")).collect();
    assert_eq!(results, ["SENT_BEFORE", "SEND_OK", "SENT_BEFORE"]);
    let retried = lines(&dlq(&target, &["resend", "-g", &group, "--all", "--to", "retry"]), EXIT_OK);
    assert!(retried.iter().all(|line| field(line, "result") == "SENT_BEFORE"), "{retried:?}");
    let copies = read_queue_of(&mut connection, &queue, 6).split_off(3);
    assert_eq!(copies.len(), 3, "{copies:?}");
    let mut bodies: Vec<&[u8]> = copies.iter().map(|copy| copy.body.as_slice()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, [&b"one"[..], b"two", &[0xff, 0, 7]]);
    for copy in &copies {
        let letter = dead.iter().find(|letter| letter.body == copy.body).expect("a copy of a letter");
        assert_eq!(copy.property("UNIQ_KEY"), letter.property("UNIQ_KEY"));
        assert_eq!((copy.property("mine"), copy.reconsume_times), (Some("kept"), 0));
        assert!(copy.property("DELAY").is_none(), "{copy:?}");
    }
    // A copy that dies is a letter of its own.
    connection.call_ok(&send_back(&group, copies[0].physical_offset, -1)).expect("taken");
    read_queue_of(&mut connection, &Queue::new(&format!("%DLQ%{group}"), 0), 4);
    let again = lines(&dlq(&target, &["resend", "-g", &group, "--all"]), EXIT_OK);
    let results: Vec<&str> = again.iter().map(|line| field(line, "result")).collect();
    assert_eq!(results, ["SENT_BEFORE", "SENT_BEFORE", "SENT_BEFORE", "SEND_OK"]);
}

#[test]
fn letters_go_to_the_groups_retries_and_those_that_fail_are_told() {
    let Scene { target, mut connection, group, queue, dead } = scene("dlq-retry");
    let id = dead[0].property("UNIQ_KEY").expect("an id");
    let sent = lines(&dlq(&target, &["resend", "-g", &group, "-i", id, "--to", "retry"]), EXIT_OK);
    assert_eq!((field(&sent[0], "result"), sent.len()), ("SEND_OK", 1));
    let retry = read_queue_of(&mut connection, &Queue::new(&format!("%RETRY%{group}"), 0), 1).remove(0);
    assert_eq!((retry.body.as_slice(), retry.property("RETRY_TOPIC")), (&b"one"[..], Some(queue.topic.as_str())));
    assert_eq!(retry.reconsume_times, 0, "its tries begin anew");
    // Without their topic, two cannot be sent; the third was.
    let delete = harness::frame::Frame::request(215).field("topic", &queue.topic);
    connection.call_ok(&delete).expect("deleted");
    let gone = harness::frame::Frame::request(216).field("topic", &queue.topic);
    target.connect_namesrv().call_ok(&gone).expect("deleted");
    let partly = dlq(&target, &["resend", "-g", &group, "--all"]);
    let results = lines(&partly, EXIT_PARTIAL);
    let results: Vec<&str> = results.iter().map(|line| field(line, "result")).collect();
    assert_eq!(results, ["SENT_BEFORE", "FAILED", "FAILED"]);
    assert!(partly.stderr.contains("2 of 3 failed") && partly.stderr.contains(&queue.topic), "{}", partly.stderr);
}

#[test]
fn one_command_at_a_time_sends_the_letters_of_a_group() {
    let Scene { target, mut connection, group, .. } = scene("dlq-lock");
    let broker = target.connect_namesrv().call_ok(&request::route(&format!("%DLQ%{group}"))).expect("a route");
    let broker: Value = serde_json::from_slice(&broker.body).expect("JSON");
    let name = broker["brokerDatas"][0]["brokerName"].as_str().expect("a name");
    let lock = format!(
        "{{\"consumerGroup\":\"TOOLS_CONSUMER\",\"clientId\":\"other\",\"onlyThisBroker\":true,\"mqSet\":[{{\"topic\":\"%DLQ%{group}\",\"brokerName\":\"{name}\",\"queueId\":0}}]}}"
    );
    connection.call_ok(&harness::frame::Frame::request(request::LOCK_QUEUES).body(lock.as_str())).expect("locked");
    let refused = dlq(&target, &["resend", "-g", &group, "--all"]);
    assert_eq!(refused.code, Some(EXIT_FAILURE), "{}", refused.text());
    assert!(refused.stderr.contains("another command") && refused.stderr.contains("fix:"), "{}", refused.stderr);
    connection.call_ok(&harness::frame::Frame::request(42).body(lock)).expect("unlocked");
    assert_eq!(lines(&dlq(&target, &["resend", "-g", &group, "--all"]), EXIT_OK).len(), 3);
    // The lock ends with the command.
    assert_eq!(lines(&dlq(&target, &["resend", "-g", &group, "--all"]), EXIT_OK).len(), 3);
}
