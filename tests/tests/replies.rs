//! Request and reply: a reply finds the client that waits for it, on whatever core its connection lives.

use harness::connection::Connection;
use harness::frame::{FLAG_ANSWER, Frame};
use harness::request::{
    CODE_OK, CODE_SYSTEM_ERROR, MAX_OFFSET, Queue, SEND_REPLY_V2, await_count, heartbeat, offset_of, send,
};
use harness::target::Target;
use harness::unique_name;

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
        let pushed = loop {
            let frame = requester.receive().expect("the reply comes");
            if frame.code == PUSH_REPLY && !frame.is_answer() {
                break frame;
            }
        };
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
        let mut taken = Frame::request(0).with_opaque(pushed.opaque);
        taken.flag = FLAG_ANSWER;
        requester.send_bytes(&taken.encode()).expect("it is taken");
        let answer = responder.receive().expect("the reply is answered");
        assert_eq!((answer.opaque, answer.code), (opaque, CODE_OK), "{answer:?}");
        assert!(await_count(&mut responder, &reply_queue(), before + 1), "the reply is stored too");
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
