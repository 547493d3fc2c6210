//! Request and reply: a reply finds the client that waits for it, on whatever core its connection lives.

use std::time::Duration;

use harness::connection::Connection;
use harness::frame::{FLAG_ANSWER, Frame};
use harness::request::{
    CODE_OK, CODE_SYSTEM_ERROR, MAX_OFFSET, Queue, SEND_REPLY_V2, await_count, heartbeat, offset_of, send,
};
use harness::target::Target;
use harness::unique_name;

const UNREGISTER_CLIENT: i32 = 35;
const PUSH_REPLY: i32 = 326;

fn reply(client: &str, body: &str) -> Frame {
    let properties = format!(
        "CORRELATION_ID\u{1}c-1\u{2}REPLY_TO_CLIENT\u{1}{client}\u{2}TTL\u{1}3000\u{2}MSG_TYPE\u{1}reply\u{2}mine\u{1}yes\u{2}"
    );
    let mut frame = send(&reply_queue(), body, &properties);
    frame.code = SEND_REPLY_V2;
    frame
}

fn reply_queue() -> Queue {
    Queue::new("DefaultCluster_REPLY_TOPIC", 0)
}

fn stored(connection: &mut Connection) -> i64 {
    offset_of(connection, MAX_OFFSET, &reply_queue()).expect("the queue's end is known")
}

fn pushed(requester: &mut Connection) -> Frame {
    loop {
        let frame = requester.receive().expect("the reply comes");
        if frame.code == PUSH_REPLY && !frame.is_answer() {
            return frame;
        }
    }
}

fn take(requester: &mut Connection, pushed: &Frame) {
    let mut taken = Frame::request(0).with_opaque(pushed.opaque);
    taken.flag = FLAG_ANSWER;
    requester.send_bytes(&taken.encode()).expect("it is taken");
}

#[test]
fn a_reply_goes_to_the_client_that_waits_and_is_stored() {
    let target = Target::start("replies");
    let mut responder = target.connect();
    // Connections are handed out in turn, so these live on both cores.
    for number in 0..4 {
        let client = unique_name("requester");
        let mut requester = target.connect();
        requester.call_ok(&heartbeat(&client, "harness-consumer")).expect("a heartbeat is answered");
        let before = stored(&mut responder);
        let body = format!("reply {number}");
        let opaque = responder.send(&reply(&client, &body)).expect("a reply can be sent");
        let pushed = pushed(&mut requester);
        assert_eq!(pushed.body, body.as_bytes());
        let properties = pushed.text("properties").expect("properties");
        let told = ["MSG_REGION\u{1}DefaultRegion\u{2}", "TRACE_ON\u{1}true\u{2}", "PUSH_REPLY_TIME\u{1}"];
        for property in ["CORRELATION_ID\u{1}c-1\u{2}", "mine\u{1}yes\u{2}"].into_iter().chain(told) {
            assert!(properties.contains(property), "{property} in {pushed:?}");
        }
        for name in ["producerGroup", "defaultTopic", "defaultTopicQueueNums", "queueId", "flag", "storeTimestamp"] {
            pushed.text(name).expect("a field that clients demand");
        }
        assert!(pushed.text("bornHost").expect("the sender's address").contains(':'), "{pushed:?}");
        take(&mut requester, &pushed);
        let answer = responder.receive().expect("the reply is answered");
        assert_eq!((answer.opaque, answer.code), (opaque, CODE_OK), "{answer:?}");
        assert!(await_count(&mut responder, &reply_queue(), before + 1), "the reply is stored too");
    }
}

/// A client that connects anew is on two connections for a while: whichever ends, its replies come on the other.
#[test]
fn a_client_on_two_connections_gets_its_replies_when_one_ends() {
    let target = Target::start("two-connections");
    let mut responder = target.connect();
    for newer_ends in [true, false] {
        for says_goodbye in [true, false] {
            let client = unique_name("twice");
            let mut connections = [target.connect(), target.connect()];
            for connection in &mut connections {
                connection.call_ok(&heartbeat(&client, "harness-consumer")).expect("a heartbeat is answered");
            }
            let [older, newer] = connections;
            let (mut left, mut ended) = if newer_ends { (older, newer) } else { (newer, older) };
            if says_goodbye {
                let goodbye = Frame::request(UNREGISTER_CLIENT)
                    .field("clientID", &client)
                    .field("producerGroup", "harness-producer")
                    .field("consumerGroup", "harness-consumer");
                ended.call_ok(&goodbye).expect("a goodbye is answered");
            } else {
                drop(ended);
                std::thread::sleep(Duration::from_millis(300));
            }
            left.call_ok(&heartbeat(&client, "harness-consumer")).expect("a heartbeat is answered");
            let opaque = responder.send(&reply(&client, "to the one left")).expect("a reply can be sent");
            let pushed = pushed(&mut left);
            assert_eq!(pushed.body, b"to the one left");
            take(&mut left, &pushed);
            let answer = responder.receive().expect("the reply is answered");
            assert_eq!((answer.opaque, answer.code), (opaque, CODE_OK), "{answer:?}");
        }
    }
}

#[test]
fn a_reply_that_nobody_waits_for_is_stored_and_told() {
    let target = Target::start("no-requester");
    let mut responder = target.connect();
    let before = stored(&mut responder);
    let answer = responder.call(&reply(&unique_name("gone"), "late")).expect("it is answered");
    assert_eq!(answer.code, CODE_SYSTEM_ERROR, "{answer:?}");
    assert!(await_count(&mut responder, &reply_queue(), before + 1), "it is stored all the same");
}
