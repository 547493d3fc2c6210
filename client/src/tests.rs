//! The client against servers that follow a script.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use base::CoreId;
use bytes::Bytes;
use remoting::body::MessageQueue;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::Command;
use remoting::fields::Fields;
use remoting::header::send::{SendMessage, SendMessageResponse};
use remoting::properties;
use remoting::record::BatchItems;
use remoting::text::Text;
use runtime::net::Listener;
use transport::{Connection, Server, Service};

use crate::*;

/// Answers by a function, and remembers what it was asked. `None` keeps a request unanswered.
struct Script<F> {
    answer: F,
    asked: Rc<RefCell<Vec<Command>>>,
}

impl<F: Fn(&Command) -> Option<Command>> Service for Script<F> {
    fn request(&self, connection: &Rc<Connection>, request: Command, bytes: usize) {
        if let Some(answer) = (self.answer)(&request)
            && !request.is_oneway()
        {
            connection.send(Command { opaque: request.opaque, ..answer });
        }
        self.asked.borrow_mut().push(request);
        connection.finished(bytes);
    }
}

struct Scripted {
    address: String,
    asked: Rc<RefCell<Vec<Command>>>,
    server: Rc<Server>,
}

impl Scripted {
    fn start(answer: impl Fn(&Command) -> Option<Command> + 'static) -> Scripted {
        let listener = Listener::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = listener.address().to_string();
        let asked = Rc::new(RefCell::new(Vec::new()));
        let service = Rc::new(Script { answer, asked: asked.clone() });
        let server = Server::new(CoreId(0), service, transport::Limits::default());
        let accepting = server.clone();
        runtime::spawn(Server::accept(listener, move |accepted| accepting.serve(accepted).expect("served")));
        Scripted { address, asked, server }
    }

    fn codes(&self) -> Vec<i32> {
        self.asked.borrow().iter().map(|request| request.code).collect()
    }
}

/// A port that nobody listens on.
fn dead_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

fn refusal(code: ResponseCode) -> Option<Command> {
    Some(Command::reply(0, code).with_remark("as scripted"))
}

fn stored(queue_id: i32) -> Option<Command> {
    let header = SendMessageResponse {
        msg_id: Text::from("7F00000100002A9F0000000000000000"),
        queue_id,
        queue_offset: 7,
        transaction_id: None,
        batch_uniq_id: None,
        recall_handle: None,
        region: Text::from("DefaultRegion"),
        trace_on: true,
    };
    Some(Command::reply(0, ResponseCode::SUCCESS).with_fields(header.to_fields()))
}

/// A route over brokers named `b0`, `b1` … at these addresses, one queue each.
fn route_over(addresses: &[String]) -> Bytes {
    let brokers: Vec<String> = addresses
        .iter()
        .enumerate()
        .map(|(number, address)| {
            format!(r#"{{"brokerAddrs":{{"0":"{address}"}},"brokerName":"b{number}","cluster":"C"}}"#)
        })
        .collect();
    let queues: Vec<String> = (0..addresses.len())
        .map(|number| format!(r#"{{"brokerName":"b{number}","perm":7,"readQueueNums":8,"writeQueueNums":8}}"#))
        .collect();
    format!(r#"{{"brokerDatas":[{}],"queueDatas":[{}]}}"#, brokers.join(","), queues.join(",")).into()
}

/// A nameserver that knows one topic.
fn nameserver(topic: &'static str, brokers: &[&Scripted]) -> Scripted {
    let addresses: Vec<String> = brokers.iter().map(|broker| broker.address.clone()).collect();
    Scripted::start(move |request| match request.fields.get("topic") {
        Some(asked) if asked == topic => {
            Some(Command::reply(0, ResponseCode::SUCCESS).with_body(route_over(&addresses)))
        }
        _ => refusal(ResponseCode::TOPIC_NOT_EXIST),
    })
}

fn client_of(nameservers: &[&str]) -> Client {
    let nameservers = nameservers.iter().map(|address| (*address).to_owned()).collect();
    let answer_time_max = Duration::from_millis(200);
    Client::with_limits(nameservers, Limits { answer_time_max, ..Limits::default() })
}

#[test]
fn dead_and_unresolvable_nameservers_are_passed_by() {
    runtime::run_here(async {
        let broker = Scripted::start(|_| stored(0));
        let live = nameserver("T", &[&broker]);
        let client = client_of(&[&dead_address(), "no-such-host.invalid:9876", &live.address]);
        let started = runtime::clock::instant();
        client.route("T").await.expect("a route");
        let limit = client.limits().nameserver_reach_time_max * 2 + Duration::from_secs(1);
        assert!(started.elapsed() < limit, "{:?}", started.elapsed());
        client.refresh_route("T").await.expect("a route");
        assert_eq!(live.codes().len(), 2);
        let dead = client_of(&[&dead_address(), "no-such-host.invalid:9876"]);
        match dead.route("T").await {
            Err(ClientError::Unreachable { attempts, .. }) => assert_eq!(attempts.len(), 2),
            other => panic!("{other:?}"),
        }
    })
    .expect("an executor");
}

#[test]
fn a_silent_nameserver_is_passed_by_and_a_refusal_is_not() {
    runtime::run_here(async {
        let silent = Scripted::start(|_| None);
        let live = nameserver("T", &[]);
        let client = client_of(&[&silent.address, &live.address]);
        client.route("T").await.expect("a route");
        let error = client.route("U").await.expect_err("unknown");
        assert_eq!(error, ClientError::NoRoute { topic: "U".to_owned() });
        assert_eq!(silent.codes().len(), 1, "the one that answered is asked first next time");
        let only = client_of(&[&silent.address]);
        assert!(matches!(only.route("T").await, Err(ClientError::TimedOut { .. })));
    })
    .expect("an executor");
}

#[test]
fn a_send_is_retried_on_another_broker_when_that_may_help() {
    for (code, attempts) in [
        (ResponseCode::SYSTEM_BUSY, 2),
        (ResponseCode::SERVICE_NOT_AVAILABLE, 2),
        (ResponseCode::TOPIC_NOT_EXIST, 2),
        (ResponseCode::MESSAGE_ILLEGAL, 1),
        (ResponseCode::INVALID_PARAMETER, 1),
    ] {
        runtime::run_here(async move {
            let bad = Scripted::start(move |_| refusal(code));
            let good = Scripted::start(|_| stored(3));
            let names = nameserver("T", &[&bad, &good]);
            let client = client_of(&[&names.address]);
            let sent = client.send(&Message::new("T", "body"), &SendOptions::default()).await;
            assert_eq!(bad.codes().len() + good.codes().len(), attempts, "{code}");
            match attempts {
                1 => assert_eq!(sent.expect_err("refused").refusal(), Some(code)),
                _ => {
                    let receipt = sent.expect("stored by the other");
                    assert_eq!((receipt.queue.broker_name.as_str(), receipt.queue.queue_id), ("b1", 3));
                }
            }
        })
        .expect("an executor");
    }
}

#[test]
fn the_last_failure_is_told_when_all_brokers_fail() {
    runtime::run_here(async {
        let silent = Scripted::start(|_| None);
        let names = nameserver("T", &[&silent]);
        let client = client_of(&[&names.address]);
        let error = client.send(&Message::new("T", "body"), &SendOptions::default()).await.expect_err("silence");
        assert!(matches!(error, ClientError::TimedOut { request: RequestCode::SEND_MESSAGE_V2, .. }), "{error}");
        assert_eq!(silent.codes().len(), 3);
        let options = SendOptions { broker: Some(Text::from("b7")), ..SendOptions::default() };
        let error = client.send(&Message::new("T", "body"), &options).await.expect_err("no such broker");
        assert!(matches!(error, ClientError::NoQueue { .. }), "{error}");
    })
    .expect("an executor");
}

#[test]
fn a_closed_connection_is_opened_again() {
    runtime::run_here(async {
        let broker = Scripted::start(|_| stored(0));
        let names = nameserver("T", &[&broker]);
        let client = client_of(&[&names.address]);
        for _ in 0..2 {
            client.send(&Message::new("T", "body"), &SendOptions::default()).await.expect("stored");
            for connection in broker.server.all().into_iter().chain(names.server.all()) {
                connection.close();
            }
        }
        assert!(broker.codes().len() >= 2);
    })
    .expect("an executor");
}

#[test]
fn a_new_topic_is_sent_to_brokers_that_make_topics() {
    runtime::run_here(async {
        let broker = Scripted::start(|request| {
            let header = SendMessage::decode(&request.fields).expect("a send");
            assert_eq!((header.default_topic, header.topic), ("TBW102", "New"));
            stored(header.queue_id)
        });
        let names = nameserver("TBW102", &[&broker]);
        let client = client_of(&[&names.address]);
        let mut queue_ids = Vec::new();
        for _ in 0..8 {
            let receipt = client.send(&Message::new("New", "body"), &SendOptions::default()).await.expect("stored");
            queue_ids.push(receipt.queue.queue_id);
        }
        assert_eq!(queue_ids, [0, 1, 2, 3, 0, 1, 2, 3]);
    })
    .expect("an executor");
}

#[test]
fn a_batch_is_one_request_and_a_oneway_send_waits_for_nothing() {
    runtime::run_here(async {
        let broker = Scripted::start(|_| stored(0));
        let names = nameserver("T", &[&broker]);
        let client = client_of(&[&names.address]);
        let messages = [Message::new("T", "one").with_tag("a"), Message::new("T", "two")];
        let receipt = client.send_batch(&messages, &SendOptions::default()).await.expect("stored");
        let ids: Vec<&str> = receipt.unique_id.split(',').collect();
        let asked = broker.asked.borrow_mut().pop().expect("a request");
        assert_eq!((asked.code, SendMessage::decode(&asked.fields).expect("a send").batch), (320, true));
        let items: Vec<_> = BatchItems::new(&asked.body).map(|item| item.expect("an item")).collect();
        assert_eq!((items[0].body, items[1].body, items.len()), (&b"one"[..], &b"two"[..], 2));
        assert_eq!(properties::get(items[0].properties, properties::TAGS), Some("a"));
        assert_eq!(properties::get(items[1].properties, properties::UNIQUE_KEY), Some(ids[1]));
        let mixed = [Message::new("T", "one"), Message::new("U", "two")];
        let error = client.send_batch(&mixed, &SendOptions::default()).await.expect_err("two topics");
        assert!(matches!(error, ClientError::BadMessage { .. }), "{error}");
        client.send_oneway(&messages[0], &SendOptions::default()).await.expect("sent");
        while broker.asked.borrow().is_empty() {
            runtime::yield_now().await;
        }
        assert!(broker.asked.borrow()[0].is_oneway());
    })
    .expect("an executor");
}

#[test]
fn pulls_say_what_they_found() {
    let statuses = [
        (ResponseCode::SUCCESS, PullStatus::Found),
        (ResponseCode::PULL_NOT_FOUND, PullStatus::NoNewMessage),
        (ResponseCode::PULL_RETRY_IMMEDIATELY, PullStatus::NoMatchedMessage),
        (ResponseCode::PULL_OFFSET_MOVED, PullStatus::OffsetMoved),
    ];
    for (code, status) in statuses {
        runtime::run_here(async move {
            let broker = Scripted::start(move |_| {
                let mut fields = Fields::new();
                for (name, value) in
                    [("suggestWhichBrokerId", 0), ("nextBeginOffset", 5), ("minOffset", 1), ("maxOffset", 9)]
                {
                    fields.push(name, value);
                }
                Some(Command::reply(0, code).with_fields(fields))
            });
            let names = nameserver("T", &[&broker]);
            let client = client_of(&[&names.address]);
            let queue = MessageQueue { broker_name: Text::from("b0"), queue_id: 0, topic: Text::from("T") };
            let pull = PullRequest {
                group: Text::from("G"),
                queue,
                offset: 3,
                count_max: 32,
                expression: Text::from("*"),
                suspend: Duration::ZERO,
            };
            let answer = client.pull(&pull).await.expect("an answer");
            assert_eq!((answer.status, answer.next_offset, answer.min_offset, answer.max_offset), (status, 5, 1, 9));
            assert_eq!(answer.records().count(), 0);
            assert_eq!(broker.asked.borrow()[0].fields.get("sysFlag"), Some("4"));
        })
        .expect("an executor");
    }
}

#[test]
fn a_missing_offset_is_no_error_and_other_refusals_are() {
    runtime::run_here(async {
        let broker = Scripted::start(|request| match request.fields.get("consumerGroup") {
            Some("new") => refusal(ResponseCode::QUERY_NOT_FOUND),
            Some("odd") => Some(Command::reply(0, ResponseCode::SUCCESS)),
            _ => refusal(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST),
        });
        let names = nameserver("T", &[&broker]);
        let client = client_of(&[&names.address]);
        let queue = MessageQueue { broker_name: Text::from("b0"), queue_id: 0, topic: Text::from("T") };
        assert_eq!(client.consumer_offset("new", &queue).await, Ok(None));
        let unreadable = client.consumer_offset("odd", &queue).await.expect_err("no offset in the answer");
        assert!(matches!(unreadable, ClientError::Unreadable { .. }), "{unreadable}");
        let refused = client.consumer_offset("other", &queue).await.expect_err("refused");
        let text = refused.to_string();
        assert!(text.contains("26 SUBSCRIPTION_GROUP_NOT_EXIST: as scripted"), "{text}");
    })
    .expect("an executor");
}
