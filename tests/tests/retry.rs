//! Messages that a consumer could not consume: sent back, sent again by the client, and dead.

use harness::connection::Connection;
use harness::frame::Frame;
use harness::record::Record;
use harness::request::{self, CODE_OK, CODE_SYSTEM_ERROR, LOCK_QUEUES, Queue, UPDATE_GROUP, read_queue_of, send_back};
use harness::target::Target;

fn send(connection: &mut Connection, queue: &Queue, body: &str) -> Record {
    let properties = "TAGS\u{1}t\u{2}KEYS\u{1}k\u{2}mine\u{1}kept\u{2}";
    connection.call_ok(&request::send(queue, body, properties)).expect("stored");
    read_queue_of(connection, queue, 1).remove(0)
}

fn retry_queue(group: &str) -> Queue {
    Queue::new(&format!("%RETRY%{group}"), 0)
}

fn dlq(group: &str) -> Queue {
    Queue::new(&format!("%DLQ%{group}"), 0)
}

/// What every hop keeps.
fn check_kept(record: &Record, topic: &str, origin: &Record) {
    for (name, value) in [("TAGS", "t"), ("KEYS", "k"), ("mine", "kept"), ("RETRY_TOPIC", topic)] {
        assert_eq!(record.property(name), Some(value), "{name} of {record:?}");
    }
    assert_eq!(record.property("UNIQ_KEY"), origin.property("UNIQ_KEY"));
    let id = record.property("ORIGIN_MESSAGE_ID").expect("the id of the first");
    let offset = u64::from_str_radix(&id[id.len() - 16..], 16).expect("an offset id");
    assert_eq!(offset, origin.physical_offset, "{id}");
    assert_eq!(record.body, origin.body);
}

#[test]
fn c3_a_message_sent_back_keeps_its_origin_until_it_is_dead() {
    let target = Target::start("send-back");
    let mut connection = target.connect();
    let queue = target.queue("send-back");
    let group = target.group(&mut connection, "send-back");
    let first = send(&mut connection, &queue, "again");
    let back = |offset| send_back(&group, offset, 1).field("maxReconsumeTimes", 2).field("originTopic", &queue.topic);
    connection.call_ok(&back(first.physical_offset)).expect("taken");
    let second = read_queue_of(&mut connection, &retry_queue(&group), 1).remove(0);
    assert_eq!(second.reconsume_times, 1);
    check_kept(&second, &queue.topic, &first);
    assert!(second.store_ms >= first.store_ms + 1_000, "level 1 is a second");
    connection.call_ok(&back(second.physical_offset)).expect("taken");
    let third = read_queue_of(&mut connection, &retry_queue(&group), 2).remove(1);
    assert_eq!(third.reconsume_times, 2);
    check_kept(&third, &queue.topic, &first);
    connection.call_ok(&back(third.physical_offset)).expect("taken");
    let dead = read_queue_of(&mut connection, &dlq(&group), 1).remove(0);
    assert_eq!((dead.reconsume_times, &dead.topic), (3, &dlq(&group).topic));
    check_kept(&dead, &queue.topic, &first);
}

#[test]
fn a_negative_level_means_dead_and_another_offset_is_refused() {
    let target = Target::start("send-back-dead");
    let mut connection = target.connect();
    let queue = target.queue("send-back-dead");
    let group = target.group(&mut connection, "send-back-dead");
    let first = send(&mut connection, &queue, "dead");
    connection.call_ok(&send_back(&group, first.physical_offset, -1)).expect("taken");
    let dead = read_queue_of(&mut connection, &dlq(&group), 1).remove(0);
    assert_eq!((dead.reconsume_times, dead.body.as_slice()), (1, &b"dead"[..]));
    for offset in [first.physical_offset + 1, u64::try_from(i64::MAX).expect("positive")] {
        let answer = connection.call(&send_back(&group, offset, 0)).expect("answered");
        assert_eq!(answer.code, CODE_SYSTEM_ERROR, "{}", answer.remark);
    }
}

#[test]
fn a_clients_own_retry_goes_where_its_tries_lead() {
    let target = Target::start("own-retry");
    let mut connection = target.connect();
    let group = target.group(&mut connection, "own-retry");
    let retry = |times: i32, body: &str| {
        request::send(&retry_queue(&group), body, "RETRY_TOPIC\u{1}T\u{2}DELAY\u{1}1\u{2}")
            .field("j", times)
            .field("l", 2)
    };
    for (times, body) in [(2, "again"), (3, "dead")] {
        let answer = connection.call(&retry(times, body)).expect("answered");
        assert_eq!(answer.code, CODE_OK, "{}", answer.remark);
    }
    let again = read_queue_of(&mut connection, &retry_queue(&group), 1).remove(0);
    assert_eq!((again.reconsume_times, again.body.as_slice()), (2, &b"again"[..]));
    let dead = read_queue_of(&mut connection, &dlq(&group), 1).remove(0);
    assert_eq!((dead.reconsume_times, dead.property("RETRY_TOPIC")), (3, Some("T")));
    // A group that holds queues consumes in order, and tries again by itself: what it sends it has given up.
    let lock = format!(
        "{{\"consumerGroup\":\"{group}\",\"clientId\":\"c\",\"mqSet\":[{{\"topic\":\"T\",\"brokerName\":\"b\",\"queueId\":0}}]}}"
    );
    connection.call_ok(&Frame::request(LOCK_QUEUES).body(lock)).expect("locked");
    connection.call_ok(&retry(1, "given up")).expect("stored");
    let dead = read_queue_of(&mut connection, &dlq(&group), 2).remove(1);
    assert_eq!((dead.reconsume_times, dead.body.as_slice()), (1, &b"given up"[..]));
}

#[test]
fn a_groups_settings_decide_when_the_client_names_no_limit() {
    let target = Target::start("retry-settings");
    let mut connection = target.connect();
    let queue = target.queue("retry-settings");
    let first = send(&mut connection, &queue, "x");
    let made = |times: i32, queues: i32| {
        let group = harness::unique_name("retry-settings");
        let body = format!(
            "{{\"groupName\":\"{group}\",\"consumeEnable\":true,\"retryQueueNums\":{queues},\"retryMaxTimes\":{times}}}"
        );
        (group, Frame::request(UPDATE_GROUP).body(body))
    };
    let (dead_at_once, update) = made(0, 1);
    connection.call_ok(&update).expect("a group can be made");
    connection.call_ok(&send_back(&dead_at_once, first.physical_offset, 0)).expect("taken");
    assert_eq!(read_queue_of(&mut connection, &dlq(&dead_at_once), 1).len(), 1);
    let (never_again, update) = made(16, 0);
    connection.call_ok(&update).expect("a group can be made");
    connection.call_ok(&send_back(&never_again, first.physical_offset, 0)).expect("a group without retries takes it");
}
