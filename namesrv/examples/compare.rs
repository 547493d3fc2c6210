//! Sends the same requests to two nameservers and prints where their answers differ: `compare IP:PORT IP:PORT`.
//!
//! Both must be fresh, or know the same brokers. A broker named `compare-a` registers at both and leaves again.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use remoting::{Command, Fields, json};
use serde_json::Value;
use transport::{Connection, Limits, Service, connect};

type Failure = Box<dyn std::error::Error>;

const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

struct Silent;

impl Service for Silent {
    fn request(&self, connection: &Rc<Connection>, _request: Command, bytes: usize) {
        connection.finished(bytes);
    }
}

struct Case {
    name: &'static str,
    code: i32,
    version: i32,
    fields: &'static [(&'static str, &'static str)],
    body: &'static str,
}

const fn case(
    name: &'static str,
    code: i32,
    fields: &'static [(&'static str, &'static str)],
    body: &'static str,
) -> Case {
    Case { name, code, version: 493, fields, body }
}

const BROKER: &[(&str, &str)] = &[
    ("brokerName", "compare-a"),
    ("brokerAddr", "127.0.0.1:1"),
    ("clusterName", "compare"),
    ("brokerId", "0"),
    ("haServerAddr", "127.0.0.1:2"),
];
const SLAVE: &[(&str, &str)] = &[
    ("brokerName", "compare-a"),
    ("brokerAddr", "127.0.0.1:3"),
    ("clusterName", "compare"),
    ("brokerId", "1"),
    ("haServerAddr", "127.0.0.1:4"),
    ("enableActingMaster", "true"),
];
const STRANGER: &[(&str, &str)] = &[
    ("brokerName", "compare-b"),
    ("brokerAddr", "127.0.0.1:9"),
    ("clusterName", "compare"),
    ("brokerId", "0"),
    ("haServerAddr", "127.0.0.1:2"),
];
const BODY: &str = r#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1700000000000},"topicConfigTable":{"Tä":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"Tä","topicSysFlag":3,"writeQueueNums":5},"compare-t":{"perm":6,"readQueueNums":1,"topicName":"compare-t","topicSysFlag":2,"writeQueueNums":1}},"topicQueueMappingInfoMap":{}}}"#;
const ONE_TOPIC: &str = r#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1700000000001},"topicConfigTable":{"compare-u":{"perm":4,"readQueueNums":2,"topicName":"compare-u","topicSysFlag":0,"writeQueueNums":2}}}}"#;
const VERSION: &str = r#"{"counter":3,"stateVersion":0,"timestamp":1700000000001}"#;
const OTHER_VERSION: &str = r#"{"counter":4,"stateVersion":0,"timestamp":1700000000001}"#;
const KV: &[(&str, &str)] = &[("namespace", "compare"), ("key", "k"), ("value", "v")];
const KV_GONE: &[(&str, &str)] = &[("namespace", "compare"), ("key", "gone")];
const NAME: &[(&str, &str)] = &[("brokerName", "compare-a"), ("clusterName", "compare")];
const NO_NAME: &[(&str, &str)] = &[("brokerName", "nobody"), ("clusterName", "compare")];
const TOPIC: &[(&str, &str)] = &[("topic", "compare-t"), ("cluster", "compare")];
const TOPIC_ORDER: &[(&str, &str)] =
    &[("namespace", "ORDER_TOPIC_CONFIG"), ("key", "compare-t"), ("value", "compare-a:4")];
const ROUTE_OF_217: &str =
    r#"{"queueDatas":[{"brokerName":"compare-a","perm":6,"readQueueNums":7,"topicSysFlag":0,"writeQueueNums":7}]}"#;
const ROUTE_OF_STRANGER: &str =
    r#"{"queueDatas":[{"brokerName":"nobody","perm":6,"readQueueNums":7,"topicSysFlag":0,"writeQueueNums":7}]}"#;

const CASES: &[Case] = &[
    case("unknown code", 9999, &[], ""),
    case("missing field", 105, &[], ""),
    case("kv put", 100, KV, ""),
    case("kv put without value", 100, KV_GONE, ""),
    case("kv get", 101, KV, ""),
    case("kv get missing", 101, KV_GONE, ""),
    case("kv list", 219, KV, ""),
    case("kv list missing", 219, &[("namespace", "nobody")], ""),
    case("kv delete", 102, KV, ""),
    case("kv delete missing", 102, KV_GONE, ""),
    case("kv list of what became empty", 219, KV, ""),
    case("single topic first", 103, STRANGER, ONE_TOPIC),
    case("register", 103, BROKER, BODY),
    case("register slave", 103, SLAVE, BODY),
    case("register again", 103, BROKER, BODY),
    case("register one topic", 103, BROKER, ONE_TOPIC),
    case("register without body", 103, SLAVE, ""),
    case("register broken", 103, BROKER, "{"),
    case("version same", 322, BROKER, VERSION),
    case("version other", 322, BROKER, OTHER_VERSION),
    case("version of nobody", 322, STRANGER, VERSION),
    case("heartbeat", 904, BROKER, ""),
    case("heartbeat of nobody", 904, STRANGER, ""),
    case("route", 105, TOPIC, ""),
    case("route new topic", 105, &[("topic", "compare-u")], ""),
    case("route beyond ASCII", 105, &[("topic", "Tä")], ""),
    Case { version: 317, ..case("route beyond ASCII, old client", 105, &[("topic", "Tä")], "") },
    case("route missing", 105, &[("topic", "nobody")], ""),
    case("route of zone", 105, &[("topic", "compare-t"), ("__ZONE_MODE", "true"), ("__ZONE_NAME", "z")], ""),
    case("order topics", 100, TOPIC_ORDER, ""),
    case("register with order topics", 103, BROKER, BODY),
    case("order on", 318, &[], "orderMessageEnable=true\n"),
    case("route with order", 105, TOPIC, ""),
    case("order off", 318, &[], "orderMessageEnable=false\n"),
    case("order topic away", 102, TOPIC_ORDER, ""),
    case("black list", 318, &[], "kvConfigPath=/tmp/x\n"),
    case("home", 318, &[], "rocketmqHome=/tmp/x\n"),
    case("config nothing", 318, &[], ""),
    case("config unknown key", 318, &[], "noSuchKey=1\n"),
    case("config bad value", 318, &[], "enableTopicList=maybe\n"),
    case("lists on", 318, &[], "enableTopicList=true\n"),
    case("cluster info", 106, &[], ""),
    case("member group", 901, NAME, ""),
    case("member group of nobody", 901, NO_NAME, ""),
    case("wipe", 205, NAME, ""),
    case("route wiped", 105, TOPIC, ""),
    case("add", 327, NAME, ""),
    case("route added", 105, TOPIC, ""),
    case("wipe nobody", 205, NO_NAME, ""),
    case("all topics", 206, &[], ""),
    case("topics of cluster", 224, TOPIC, ""),
    case("topics of no cluster", 224, &[("cluster", "nobody")], ""),
    case("system topics", 304, &[], ""),
    case("unit topics", 311, &[], ""),
    case("unit sub topics", 312, &[], ""),
    case("unit sub but not unit topics", 313, &[], ""),
    case("register topic", 217, &[("topic", "compare-v")], ROUTE_OF_217),
    case("route of it", 105, &[("topic", "compare-v")], ""),
    case("register topic of stranger", 217, &[("topic", "compare-w")], ROUTE_OF_STRANGER),
    case("register topic without body", 217, &[("topic", "compare-w")], ""),
    case("delete topic of other cluster", 216, &[("topic", "compare-v"), ("clusterName", "other")], ""),
    case("route still there", 105, &[("topic", "compare-v")], ""),
    case("delete topic of cluster", 216, &[("topic", "compare-v"), ("clusterName", "compare")], ""),
    case("route gone", 105, &[("topic", "compare-v")], ""),
    case("delete topic", 216, TOPIC, ""),
    case("register brings it back", 103, BROKER, BODY),
    case("route back", 105, TOPIC, ""),
    case("unregister master", 104, BROKER, ""),
    case("PAUSE", 0, &[], ""),
    case("route of slave", 105, TOPIC, ""),
    case("register slave alone", 103, SLAVE, BODY),
    case("unregister slave", 104, SLAVE, ""),
    case("PAUSE", 0, &[], ""),
    case("route of nobody", 105, TOPIC, ""),
    case("unregister again", 104, SLAVE, ""),
    case("cluster info at the end", 106, &[], ""),
];

fn main() -> ExitCode {
    let addresses: Vec<SocketAddr> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let [one, other] = addresses[..] else {
        eprintln!("usage: compare IP:PORT IP:PORT");
        return ExitCode::from(2);
    };
    match runtime::run_here(compare(one, other)) {
        Ok(Ok(0)) => ExitCode::SUCCESS,
        Ok(Ok(count)) => {
            println!("{count} of {} answers differ", CASES.len());
            ExitCode::FAILURE
        }
        Ok(Err(error)) => {
            eprintln!("compare: {error}");
            ExitCode::from(4)
        }
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn compare(one: SocketAddr, other: SocketAddr) -> Result<usize, Failure> {
    let one = connect(one, Rc::new(Silent), Limits::default()).await?;
    let other = connect(other, Rc::new(Silent), Limits::default()).await?;
    let mut differing = 0;
    for case in CASES {
        if case.name == "PAUSE" {
            // The peer unregisters in a thread of its own.
            runtime::clock::sleep(Duration::from_millis(500)).await;
            continue;
        }
        let (first, second) = (ask(&one, case).await?, ask(&other, case).await?);
        if first == second {
            continue;
        }
        differing += 1;
        println!("{} ({}):\n  {first}\n  {second}", case.name, case.code);
    }
    Ok(differing)
}

/// The answer without its remark and its version, which may differ, and with its body in one form.
async fn ask(connection: &Connection, case: &Case) -> Result<String, Failure> {
    let mut fields = Fields::new();
    for (name, value) in case.fields {
        fields.push(name, *value);
    }
    let mut request = Command::request(case.code, fields).with_body(case.body.as_bytes());
    request.version = case.version;
    let answer = connection.call(request, ANSWER_TIME_MAX).await?;
    let mut fields: Vec<_> = answer.fields.iter().collect();
    fields.sort_unstable();
    let body = match json::parse(&answer.body) {
        Ok(mut value) => {
            sort_lists(&mut value);
            value.to_string()
        }
        Err(_) => String::from_utf8_lossy(&answer.body).into_owned(),
    };
    Ok(format!("{} {fields:?} {body}", answer.code))
}

/// The peer's sets come in any order.
fn sort_lists(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(sort_lists);
            items.sort_by_key(Value::to_string);
        }
        Value::Object(members) => members.values_mut().for_each(sort_lists),
        _ => {}
    }
}
