//! The nameserver over a real socket: what a broker, a client and an administrator see.

#![expect(clippy::unwrap_used, reason = "a test ends when something it needs is not there")]

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use namesrv::{Config, Nameserver};
use remoting::{Command, Fields, RequestCode, ResponseCode};
use runtime::file::TempFolder;
use runtime::net::Listener;
use runtime::sync::{Notify, OnceSender, once};
use transport::{Connection, Limits, Service, connect};

const TIME_MAX: Duration = Duration::from_secs(10);
const BODY: &str = r#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},"topicConfigTable":{"T":{"perm":6,"readQueueNums":4,"topicName":"T","topicSysFlag":0,"writeQueueNums":4},"U":{"perm":6,"readQueueNums":4,"topicName":"U","topicSysFlag":0,"writeQueueNums":4}}}}"#;

/// Hears requests of the nameserver, and the end of its connection.
#[derive(Default)]
struct Ear {
    heard: Cell<Option<OnceSender<Command>>>,
    is_closed: Cell<bool>,
    closed: Notify,
}

impl Service for Ear {
    fn request(&self, connection: &Rc<Connection>, request: Command, bytes: usize) {
        connection.finished(bytes);
        if let Some(heard) = self.heard.take() {
            heard.send(request);
        }
    }

    fn closed(&self, _connection: &Rc<Connection>) {
        self.is_closed.set(true);
        self.closed.notify();
    }
}

impl Ear {
    async fn closed(&self) {
        while !self.is_closed.get() {
            self.closed.notified().await;
        }
    }
}

async fn serve(folder: &Path, settings: &[(&str, &str)]) -> Rc<Nameserver> {
    let mut config = Config::in_folder(folder);
    config.config_store_path = Some(folder.join("namesrv.conf"));
    for (key, value) in settings {
        config.set(key, value).unwrap();
    }
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    Nameserver::start(config, listener).await.unwrap()
}

async fn join(nameserver: &Nameserver) -> Rc<Connection> {
    connect(nameserver.local_address(), Rc::new(Ear::default()), Limits::default()).await.unwrap()
}

fn request(code: RequestCode, fields: &[(&str, &str)], body: &str) -> Command {
    let mut all = Fields::new();
    for (name, value) in fields {
        all.push_named(name, *value);
    }
    Command::request(code, all).with_body(body.as_bytes().to_vec())
}

fn broker(id: &'static str, address: &str) -> Vec<(&'static str, String)> {
    let texts = [("brokerName", "b"), ("clusterName", "c"), ("haServerAddr", "127.0.0.1:9"), ("brokerId", id)];
    let mut fields: Vec<_> = texts.map(|(name, value)| (name, value.to_owned())).into();
    fields.push(("brokerAddr", address.to_owned()));
    fields
}

async fn ask(connection: &Connection, code: RequestCode, fields: &[(&str, &str)], body: &str) -> Command {
    connection.call(request(code, fields, body), TIME_MAX).await.unwrap()
}

async fn ask_as(connection: &Connection, code: RequestCode, broker: &[(&str, String)], body: &str) -> Command {
    let fields: Vec<(&str, &str)> = broker.iter().map(|(name, value)| (*name, value.as_str())).collect();
    ask(connection, code, &fields, body).await
}

async fn register(connection: &Connection, id: &'static str, address: &str) {
    let answer = ask_as(connection, RequestCode::REGISTER_BROKER, &broker(id, address), BODY).await;
    assert_eq!((answer.code, answer.remark), (0, None));
}

async fn route(connection: &Connection, topic: &str) -> Result<String, Command> {
    let answer = ask(connection, RequestCode::GET_ROUTEINFO_BY_TOPIC, &[("topic", topic)], "").await;
    if answer.code == 0 { Ok(String::from_utf8(answer.body.to_vec()).unwrap()) } else { Err(answer) }
}

/// Asks until the topic has no route: how long the nameserver takes to see the end of a connection is not ours to say.
async fn route_gone(connection: &Connection, topic: &str) {
    let gone = async { while route(connection, topic).await.is_ok() {} };
    runtime::clock::within(TIME_MAX, gone).await.expect("the route goes");
}

fn run(name: &str, test: impl AsyncFnOnce(&Path) + 'static) {
    let folder = TempFolder::new(name);
    let path = folder.path().to_owned();
    runtime::run_here(async move { test(&path).await }).unwrap();
    drop(folder);
}

#[test]
fn a_broker_comes_and_goes() {
    run("wire-broker", async |folder: &Path| {
        let nameserver = serve(folder, &[]).await;
        let (broker_side, client) = (join(&nameserver).await, join(&nameserver).await);
        let missing = route(&client, "T").await.unwrap_err();
        assert_eq!(missing.code, ResponseCode::TOPIC_NOT_EXIST.0);
        assert!(missing.remark.unwrap().contains("updateTopic"));
        register(&broker_side, "0", "127.0.0.1:1").await;
        let expected = concat!(
            r#"{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:1"},"brokerName":"b","cluster":"c","#,
            r#""enableActingMaster":false}],"filterServerTable":{},"#,
            r#""queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#
        );
        assert_eq!(route(&client, "T").await.unwrap(), expected);
        let answer = ask_as(&broker_side, RequestCode::UNREGISTER_BROKER, &broker("0", "127.0.0.1:1"), "").await;
        assert_eq!(answer.code, 0);
        route(&client, "T").await.expect_err("unregistered at once");
        register(&broker_side, "0", "127.0.0.1:1").await;
        broker_side.close();
        route_gone(&client, "T").await;
        nameserver.stop().await;
        let refused = connect(nameserver.local_address(), Rc::new(Ear::default()), Limits::default()).await;
        assert!(refused.is_err(), "nobody listens after a stop");
    });
}

#[test]
fn a_new_connection_of_a_broker_replaces_the_old_one() {
    run("wire-replace", async |folder: &Path| {
        let nameserver = serve(folder, &[]).await;
        let (old, new, client) = (join(&nameserver).await, join(&nameserver).await, join(&nameserver).await);
        register(&old, "0", "127.0.0.1:1").await;
        register(&new, "0", "127.0.0.1:1").await;
        assert_eq!(nameserver.connection_count(), 3);
        old.close();
        while nameserver.connection_count() > 2 {
            runtime::yield_now().await;
        }
        route(&client, "T").await.expect("the new connection holds it");
        new.close();
        route_gone(&client, "T").await;
        nameserver.stop().await;
    });
}

#[test]
fn a_silent_broker_loses_its_routes_and_its_connection() {
    run("wire-silent", async |folder: &Path| {
        let nameserver = serve(folder, &[("scanNotActiveBrokerInterval", "100")]).await;
        let ear = Rc::new(Ear::default());
        let broker_side = connect(nameserver.local_address(), ear.clone(), Limits::default()).await.unwrap();
        let client = join(&nameserver).await;
        let mut fields = broker("0", "127.0.0.1:1");
        fields.push(("heartbeatTimeoutMillis", "200".to_owned()));
        assert_eq!(ask_as(&broker_side, RequestCode::REGISTER_BROKER, &fields, BODY).await.code, 0);
        route(&client, "T").await.expect("it is there");
        runtime::clock::within(TIME_MAX, ear.closed()).await.expect("its connection is closed");
        route(&client, "T").await.expect_err("its routes are gone");
        nameserver.stop().await;
    });
}

#[test]
fn slaves_learn_of_their_master_and_of_ordered_topics() {
    run("wire-slave", async |folder: &Path| {
        let nameserver = serve(folder, &[]).await;
        let side = join(&nameserver).await;
        register(&side, "0", "127.0.0.1:1").await;
        let put = [("namespace", "ORDER_TOPIC_CONFIG"), ("key", "T"), ("value", "b:4")];
        assert_eq!(ask(&side, RequestCode::PUT_KV_CONFIG, &put, "").await.code, 0);
        for _ in 0..2 {
            let answer = ask_as(&side, RequestCode::REGISTER_BROKER, &broker("1", "127.0.0.1:2"), BODY).await;
            assert_eq!(answer.fields.get("masterAddr"), Some("127.0.0.1:1"));
            assert_eq!(answer.fields.get("haServerAddr"), Some("127.0.0.1:9"));
            assert_eq!(answer.body, r#"{"table":{"T":"b:4"}}"#);
        }
        assert!(!route(&side, "T").await.unwrap().contains("orderTopicConf"));
        let on = ask(&side, RequestCode::UPDATE_NAMESRV_CONFIG, &[], "orderMessageEnable=true\n").await;
        assert_eq!(on.code, 0);
        assert!(route(&side, "T").await.unwrap().contains(r#""orderTopicConf":"b:4""#));
        nameserver.stop().await;
    });
}

#[test]
fn brokers_are_told_of_a_new_lowest_id_when_configured() {
    run("wire-notify", async |folder: &Path| {
        let nameserver = serve(folder, &[("notifyMinBrokerIdChanged", "true")]).await;
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let slave_address = listener.address().to_string();
        let (sender, receiver) = once();
        let ear = Rc::new(Ear { heard: Cell::new(Some(sender)), ..Ear::default() });
        let slave = transport::Server::new(base::CoreId(0), ear, Limits::default());
        let slave_server = slave.clone();
        runtime::spawn(transport::Server::accept(listener, move |accepted| slave_server.serve(accepted).unwrap()));
        let side = join(&nameserver).await;
        register(&side, "1", &slave_address).await;
        register(&side, "0", "127.0.0.1:1").await;
        let told = runtime::clock::within(TIME_MAX, receiver.receive()).await.flatten().expect("the slave is told");
        assert_eq!(told.code, RequestCode::NOTIFY_MIN_BROKER_ID_CHANGE.0);
        assert!(told.is_oneway());
        assert_eq!(told.fields.get("minBrokerId"), Some("0"));
        assert_eq!(told.fields.get("minBrokerAddr"), Some("127.0.0.1:1"));
        assert_eq!(told.fields.get("haBrokerAddr"), Some("127.0.0.1:9"));
        nameserver.stop().await;
    });
}

#[test]
fn refusals_name_what_is_wrong_and_oneway_requests_get_none() {
    run("wire-refusals", async |folder: &Path| {
        let nameserver = serve(folder, &[]).await;
        let side = join(&nameserver).await;
        let one_topic = BODY.replace(r#","U":{"#, r#"},"x":{"U":{"#);
        for (code, fields, body, expected, part) in [
            (9999, &[][..], "", 3, "9999"),
            (105, &[], "", 1, "<topic>"),
            (100, &[("namespace", "n"), ("key", "k")], "", 1, "<value>"),
            (101, &[("namespace", "n"), ("key", "k")], "", 22, "has no key k"),
            (219, &[("namespace", "n")], "", 22, "no namespace n"),
            (318, &[], "kvConfigPath=x", 16, "kvConfigPath"),
            (318, &[], "rocketmqHome=x", 16, "rocketmqHome"),
            (318, &[], "enableTopicLst=x", 1, "did you mean enableTopicList?"),
            (318, &[], "listenPort=x", 1, "listenPort must be a number"),
            (318, &[], "a=\\u1", 1, "line 1"),
            (
                322,
                &[("brokerName", "b"), ("brokerAddr", "a"), ("clusterName", "c"), ("brokerId", "x")],
                "",
                1,
                "<brokerId>",
            ),
            (217, &[("topic", "V")], r#"{"queueDatas":[{"brokerName":"nobody"}]}"#, 1, "nobody"),
        ] {
            let answer = ask(&side, RequestCode(code), fields, body).await;
            let remark = answer.remark.unwrap_or_default();
            assert_eq!(answer.code, expected, "{code}: {remark}");
            assert!(remark.contains(part), "{code}: {remark}");
        }
        let answer = ask_as(&side, RequestCode::REGISTER_BROKER, &broker("0", "127.0.0.1:1"), &one_topic).await;
        assert_eq!(answer.code, 1);
        for code in [9999, 105, 100] {
            side.send(request(RequestCode(code), &[("namespace", "n"), ("key", "k"), ("value", "v")], "").oneway());
        }
        let answer = ask(&side, RequestCode::GET_KV_CONFIG, &[("namespace", "n"), ("key", "k")], "").await;
        assert_eq!(answer.fields.get("value"), Some("v"), "the one-way request was done, and this is the next answer");
        nameserver.stop().await;
    });
}

#[test]
fn what_was_changed_is_there_after_a_restart() {
    run("wire-restart", async |folder: &Path| {
        let key = [("namespace", "n"), ("key", "k"), ("value", "v")];
        let nameserver = serve(folder, &[]).await;
        let side = join(&nameserver).await;
        assert_eq!(ask(&side, RequestCode::PUT_KV_CONFIG, &key, "").await.code, 0);
        let update = ask(&side, RequestCode::UPDATE_NAMESRV_CONFIG, &[], "enableTopicList=false\n").await;
        assert_eq!(update.code, 0);
        let refused = ask(&side, RequestCode::GET_TOPICS_BY_CLUSTER, &[("cluster", "c")], "").await;
        assert_eq!(refused.code, 1);
        nameserver.stop().await;
        let text = std::fs::read_to_string(folder.join("namesrv.conf")).unwrap();
        assert_eq!(text, "enableTopicList=false\n");
        let again = serve(folder, &[]).await;
        let side = join(&again).await;
        assert_eq!(ask(&side, RequestCode::GET_KV_CONFIG, &key[..2], "").await.fields.get("value"), Some("v"));
        assert_eq!(ask(&side, RequestCode::DELETE_KV_CONFIG, &key[..2], "").await.code, 0);
        let config = ask(&side, RequestCode::GET_NAMESRV_CONFIG, &[], "").await;
        let listen_port = format!("\nlistenPort={}\n", again.local_address().port());
        assert!(String::from_utf8_lossy(&config.body).contains(&listen_port), "{config:?}");
        again.stop().await;
        let third = serve(folder, &[]).await;
        let side = join(&third).await;
        assert_eq!(ask(&side, RequestCode::GET_KV_CONFIG, &key[..2], "").await.code, 22);
        third.stop().await;
    });
}

#[test]
fn routes_wait_for_brokers_only_when_configured() {
    run("wire-wait", async |folder: &Path| {
        for (seconds, is_told) in [("45", false), ("0", true)] {
            let settings = [("needWaitForService", "true"), ("waitSecondsForService", seconds)];
            let nameserver = serve(folder, &settings).await;
            let side = join(&nameserver).await;
            register(&side, "0", "127.0.0.1:1").await;
            let answer = route(&side, "T").await;
            assert_eq!(answer.is_ok(), is_told, "{seconds}");
            if let Err(refusal) = answer {
                assert_eq!(refusal.code, 1);
                assert!(refusal.remark.unwrap().contains("needWaitForService=false"));
            }
            nameserver.stop().await;
        }
    });
}

#[test]
fn a_damaged_key_value_table_is_no_empty_one() {
    run("wire-damaged", async |folder: &Path| {
        std::fs::write(folder.join("kvConfig.json"), "damaged").unwrap();
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let started = Nameserver::start(Config::in_folder(folder), listener).await;
        let error = started.err().expect("it does not start").to_string();
        assert!(error.contains("kvConfig.json") && error.contains("restore the file"), "{error}");
    });
}
