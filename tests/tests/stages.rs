//! Where a broker's time goes, as seen from outside: a known stall shows in the stage that it belongs to, the stages sum
//! up to the whole, and `ringmq bench` and `ringmq admin` tell them.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use harness::bench::{self, EXIT_OK, RUN_WITHIN, assert_clean_or_void, number};
use harness::connection::Connection;
use harness::folder::Folder;
use harness::frame::Frame;
use harness::pop::{Popped, pop};
use harness::process::Dev;
use harness::program::{self, Finished, signal};
use harness::request::{self, CODE_PULL_NOT_FOUND, Pulled, Queue, Stored};
use serde_json::Value;

const GET_STAGES: i32 = 30_001;
const RUNTIME_INFO: i32 = 28;
/// A stall that no machine takes for anything else.
const STALL: Duration = Duration::from_millis(400);
const STALL_NS: u64 = STALL.as_nanos() as u64;

/// What a broker has counted so far.
struct Look {
    body: Value,
}

/// How often requests of a kind passed a stage, on all cores, and what they spent there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spent {
    count: u64,
    nanos: u64,
}

impl Look {
    fn at(connection: &mut Connection) -> Look {
        let answer = connection.call_ok(&Frame::request(GET_STAGES)).expect("a broker tells its stages");
        Look { body: serde_json::from_slice(&answer.body).expect("the body is JSON") }
    }

    fn stages(&self, request: &str) -> impl Iterator<Item = &Value> {
        let requests = self.body["cores"].as_array().into_iter().flatten();
        let requests = requests.flat_map(|core| core["requests"].as_array().into_iter().flatten());
        let of_kind = requests.filter(move |times| times["request"] == *request);
        of_kind.flat_map(|times| times["stages"].as_array().into_iter().flatten())
    }

    fn spent(&self, request: &str, stage: &str) -> Spent {
        let mut spent = Spent::default();
        for times in self.stages(request).filter(|times| times["stage"] == *stage) {
            let buckets = times["buckets"].as_array().into_iter().flatten();
            spent.count += buckets.map(|bucket| whole(&bucket["count"])).sum::<u64>();
            spent.nanos += whole(&times["sumNanos"]);
        }
        spent
    }

    /// How often requests of a kind passed a stage on each core.
    fn counts(&self, request: &str, stage: &str) -> Vec<u64> {
        let count = |core: &Value| {
            let requests =
                core["requests"].as_array().into_iter().flatten().filter(|times| times["request"] == *request);
            let stages = requests.flat_map(|times| times["stages"].as_array().into_iter().flatten());
            let buckets = stages.filter(|times| times["stage"] == *stage).flat_map(|times| times["buckets"].as_array());
            buckets.flatten().map(|bucket| whole(&bucket["count"])).sum()
        };
        self.body["cores"].as_array().into_iter().flatten().map(count).collect()
    }

    /// Of all stages but the whole.
    fn sum_nanos(&self, request: &str) -> u64 {
        self.stages(request).filter(|times| times["stage"] != "total").map(|times| whole(&times["sumNanos"])).sum()
    }

    fn assert_sums_agree(&self, request: &str, count: u64) {
        let total = self.spent(request, "total");
        assert_eq!((total.count, total.nanos), (count, self.sum_nanos(request)), "{:#}", self.body);
    }
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a whole number"))
}

fn topic(connection: &mut Connection, name: &str) -> Queue {
    connection.call_ok(&request::create_topic(name, 4)).expect("a topic is made");
    Queue::new(name, 0)
}

fn send(connection: &mut Connection, queue: &Queue, body: impl Into<Vec<u8>>) {
    let answer = connection.call(&request::send(queue, body, "")).expect("a send is answered");
    Stored::of(&answer).expect("a send is stored");
}

/// Sends to all four queues in turn, so that some cross to the other core.
fn send_around(connection: &mut Connection, queue: &Queue, count: u64) {
    for number in 0..count {
        let queue = Queue::new(&queue.topic, (number % 4) as u32);
        send(connection, &queue, "a message");
    }
}

#[test]
fn a_send_under_synchronous_flush_waits_for_the_device() {
    let dev = Dev::new("stages-sync").property("flushDiskType=SYNC_FLUSH").property("flushKind=fdatasync");
    let _running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("connected");
    let queue = topic(&mut connection, "stages-sync");
    send_around(&mut connection, &queue, 60);
    let look = Look::at(&mut connection);
    look.assert_sums_agree("send", 60);
    for stage in ["receive", "append", "gather", "reply"] {
        assert_eq!(look.spent("send", stage).count, 60, "{stage}: {:#}", look.body);
    }
    // The end of a flush that is seen together with that of its write has taken no time of its own.
    assert_eq!(look.spent("send", "write").count, 60, "{:#}", look.body);
    assert!((1..=60).contains(&look.spent("send", "flush").count), "{:#}", look.body);
    let crossed = look.spent("send", "route").count;
    assert!(crossed > 0 && crossed < 60, "{crossed} of 60 have crossed to the other core");
    let nanos = |stage: &str| look.spent("send", stage).nanos;
    assert!(nanos("gather") + nanos("write") + nanos("flush") > nanos("append"), "{:#}", look.body);
    assert_eq!(look.spent("send", "replicate"), Spent::default());
    let absent = look.body["absent"]["replicate"].as_str().unwrap_or_default();
    assert!(absent.contains("not replicated"), "{absent}");
}

#[test]
fn one_operation_that_writes_and_flushes_counts_as_a_flush() {
    let dev = Dev::new("stages-dsync").property("flushDiskType=SYNC_FLUSH").property("flushKind=dsync");
    let _running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("connected");
    let queue = topic(&mut connection, "stages-dsync");
    send_around(&mut connection, &queue, 20);
    let look = Look::at(&mut connection);
    look.assert_sums_agree("send", 20);
    assert_eq!((look.spent("send", "write").count, look.spent("send", "flush").count), (0, 20), "{:#}", look.body);
}

#[test]
fn a_send_under_asynchronous_flush_waits_for_no_device() {
    let dev = Dev::new("stages-async").property("flushDiskType=ASYNC_FLUSH");
    let _running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("connected");
    let queue = topic(&mut connection, "stages-async");
    send_around(&mut connection, &queue, 60);
    // One that is not answered is over when it is stored; the send behind it goes the same way and is answered.
    connection.send(&request::send(&queue, "one-way", "").one_way()).expect("sent");
    send(&mut connection, &queue, "behind it");
    let refused = Queue::new(&queue.topic, 99);
    let answer = connection.call(&request::send(&refused, "no such queue", "")).expect("answered");
    assert_ne!(answer.code, 0);
    let look = Look::at(&mut connection);
    look.assert_sums_agree("send", 63);
    for stage in ["gather", "write", "flush"] {
        assert_eq!(look.spent("send", stage).count, 0, "{stage}: {:#}", look.body);
    }
    assert_eq!((look.spent("send", "append").count, look.spent("send", "reply").count), (63, 62), "{:#}", look.body);
    assert_eq!(look.spent("pull", "total"), Spent::default());
}

#[test]
fn a_pull_that_waits_is_parked_and_not_slow() {
    let dev = Dev::new("stages-park").property("traceSlowerThanMicros=200000");
    let _running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("connected");
    let queue = topic(&mut connection, "stages-park");
    send(&mut connection, &queue, "a message");
    let wait = request::pull_waiting("harness-reader", &queue, 1, STALL.as_millis() as u64);
    let pulled = Pulled::of(&connection.call(&wait).expect("answered")).expect("not refused");
    assert_eq!(pulled.code, CODE_PULL_NOT_FOUND);
    let found = connection.call(&request::pull("harness-reader", &queue, 0, 32)).expect("answered");
    assert_eq!(Pulled::of(&found).expect("not refused").records.len(), 1);
    let look = Look::at(&mut connection);
    look.assert_sums_agree("pull", 2);
    let park = look.spent("pull", "park");
    assert!(park.count == 1 && (STALL_NS * 9 / 10..STALL_NS * 20).contains(&park.nanos), "{park:?}");
    assert_eq!(look.spent("pull", "read").count, 2);
    assert_eq!(look.spent("pull", "append"), Spent::default());
    // What was slow on a busy machine was so without its waiting.
    for trace in look.body["slow"].as_array().expect("a list") {
        let stages = trace["stages"].as_array().expect("a list").iter().filter(|stage| stage["stage"] != "park");
        assert!(stages.map(|stage| whole(&stage["nanos"])).sum::<u64>() > 200_000_000, "{trace:#}");
    }
}

#[test]
fn a_pop_is_read_by_each_owner_and_waits_where_its_connection_is() {
    let dev = Dev::new("stages-pop").property("flushDiskType=SYNC_FLUSH").property("traceSlowerThanMicros=200000");
    let _running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("connected");
    let queue = topic(&mut connection, "stages-pop");
    let take = |connection: &mut Connection, wait: Duration| {
        let answer = connection.call(&pop("stages-poppers", "stages-pop", 60_000, wait.as_millis() as u64));
        Popped::all_of(&answer.expect("a pop is answered")).expect("the answer of a pop")
    };
    // It is answered somewhat earlier than it asks for.
    assert!(take(&mut connection, STALL + Duration::from_millis(50)).is_empty());
    send_around(&mut connection, &queue, 8);
    let popped = take(&mut connection, Duration::ZERO);
    assert_eq!(popped.len(), 8);
    // The second time there is nothing to note.
    for message in popped.iter().chain(&popped[..1]) {
        connection.call_ok(&message.ack("stages-poppers")).expect("acknowledged");
    }
    let look = Look::at(&mut connection);
    look.assert_sums_agree("pop", 2);
    let park = look.spent("pop", "park");
    assert!(park.count == 1 && (STALL_NS * 9 / 10..STALL_NS * 20).contains(&park.nanos), "{park:?}");
    let (read, route) = (look.counts("pop", "read"), look.counts("pop", "route"));
    let home = look.counts("pop", "receive").iter().position(|count| *count == 2).expect("where the connection is");
    for core in 0..read.len() {
        // Three looks of the one that waits, one of the other.
        assert!(read[core] >= 4, "{read:?}");
        assert_eq!(route[core], if core == home { 0 } else { read[core] }, "{route:?}");
        assert_eq!(look.counts("pop", "park")[core], u64::from(core == home));
    }
    look.assert_sums_agree("ack", 9);
    for (stage, count) in [("receive", 9), ("append", 9), ("gather", 8), ("reply", 9), ("park", 0)] {
        assert_eq!(look.spent("ack", stage).count, count, "{stage}: {:#}", look.body);
    }
    // Its waiting makes no pop slow.
    for trace in look.body["slow"].as_array().expect("a list") {
        let stages = trace["stages"].as_array().expect("a list").iter().filter(|stage| stage["stage"] != "park");
        assert!(stages.map(|stage| whole(&stage["nanos"])).sum::<u64>() > 200_000_000, "{trace:#}");
    }
    let info = connection.call_ok(&Frame::request(RUNTIME_INFO)).expect("answered");
    let info: Value = serde_json::from_slice(&info.body).expect("JSON");
    assert_eq!(info["table"]["stage_pop_park_count"], "1", "{info:#}");
}

#[test]
fn what_waits_in_the_socket_of_a_stopped_broker_is_received_late_and_traced() {
    let dev = Dev::new("stages-stopped").property("traceSlowerThanMicros=200000");
    let running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("connected");
    let queue = topic(&mut connection, "stages-stopped");
    send(&mut connection, &queue, "a quick one");
    let (mut opaque, mut look) = (0, Look::at(&mut connection));
    // On a busy machine the kernel may not have begun to stamp what arrives, so soon after it was asked.
    for attempt in 2..10 {
        let before = look.spent("send", "receive").nanos;
        signal(running.pid(), "STOP");
        opaque = connection.send(&request::send(&queue, "a slow one", "")).expect("sent");
        thread::sleep(STALL);
        signal(running.pid(), "CONT");
        let answer = connection.receive().expect("answered");
        assert_eq!((answer.opaque, answer.code), (opaque, 0));
        look = Look::at(&mut connection);
        look.assert_sums_agree("send", attempt);
        if look.spent("send", "receive").nanos - before >= STALL_NS * 9 / 10 {
            break;
        }
    }
    let slow = look.body["slow"].as_array().expect("a list");
    let port = connection.local_address().expect("an address").port();
    let end = format!(":{port}");
    let mine =
        |trace: &&Value| trace["peer"].as_str().is_some_and(|peer| peer.ends_with(&end)) && trace["opaque"] == opaque;
    let traces: Vec<&Value> = slow.iter().filter(mine).collect();
    assert_eq!(traces.len(), 1, "{slow:#?}");
    assert_eq!(traces[0]["request"], "send");
    let first = &traces[0]["stages"][0];
    assert!(first["stage"] == "receive" && whole(&first["nanos"]) >= STALL_NS * 9 / 10, "{first}");
}

#[test]
fn a_client_that_does_not_read_has_slow_replies() {
    const PULLS: usize = 80;
    let dev = Dev::new("stages-reply");
    let _running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("connected");
    let queue = topic(&mut connection, "stages-reply");
    send(&mut connection, &queue, vec![b'x'; 200 << 10]);
    let mut reader = Connection::open(&dev.broker).expect("connected");
    for _ in 0..PULLS {
        reader.send(&request::pull("harness-reader", &queue, 0, 32)).expect("sent");
    }
    thread::sleep(STALL);
    for _ in 0..PULLS {
        assert_eq!(Pulled::of(&reader.receive().expect("answered")).expect("not refused").records.len(), 1);
    }
    let look = Look::at(&mut reader);
    look.assert_sums_agree("pull", PULLS as u64);
    let reply = look.spent("pull", "reply");
    assert!(reply.nanos >= STALL_NS * 8 / 10, "{reply:?}");
}

#[test]
fn tools_tell_the_stages_and_a_switch_ends_them() {
    let dev = Dev::new("stages-tools").property("traceSlowerThanMicros=1");
    let _running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("connected");
    let queue = topic(&mut connection, "stages-tools");
    send_around(&mut connection, &queue, 20);
    let admin = |arguments: &[&str]| -> Finished {
        let mut command = Command::new(program::path());
        command.arg("admin").args(arguments).args(["-b", &dev.broker]);
        program::run_command(command, RUN_WITHIN)
    };
    let table = admin(&["stages", "--cores"]);
    assert_eq!(table.code, Some(EXIT_OK), "{}", table.text());
    for word in ["send", "flush", "total", "100.0%", "no replicate", "all"] {
        assert!(table.stdout.contains(word), "{word}: {}", table.text());
    }
    let every = admin(&["stages", "--every", "1", "--times", "1"]);
    assert!(every.code == Some(EXIT_OK) && !every.stdout.contains("flush"), "nothing was sent: {}", every.text());
    let slow = admin(&["stages", "--slow", "--json"]);
    assert_eq!(slow.stdout.lines().count(), 20, "{}", slow.text());
    let info = connection.call_ok(&Frame::request(RUNTIME_INFO)).expect("answered");
    let info: Value = serde_json::from_slice(&info.body).expect("JSON");
    assert_eq!(info["table"]["stage_send_append_count"], "20", "{info:#}");
    let sum: u64 = info["table"]["stage_send_total_micros_total"].as_str().expect("a text").parse().expect("a number");
    assert!(sum > 0);
    let off = admin(&["updateBrokerConfig", "-k", "stageTimes", "-v", "false"]);
    assert_eq!(off.code, Some(EXIT_OK), "{}", off.text());
    send_around(&mut connection, &queue, 20);
    Look::at(&mut connection).assert_sums_agree("send", 20);
}

#[test]
fn what_holds_a_core_is_seen_and_told() {
    let dev = Dev::new("stages-turns");
    let _running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("connected");
    // One heartbeat with more in it than a core reads in a millisecond.
    let topics: Vec<String> = (0..5000).map(|number| format!("topic-of-a-large-heartbeat-{number}")).collect();
    let subscriptions: Vec<(&str, &str, u64)> = topics.iter().map(|topic| (&**topic, "*", 1)).collect();
    let before = Look::at(&mut connection);
    let large = request::heartbeat_of("large@1", "stages-turns", "CLUSTERING", &subscriptions);
    assert!(large.body.len() < 1 << 20, "{} bytes are refused", large.body.len());
    connection.call_ok(&large).expect("answered");
    let after = Look::at(&mut connection);
    let long_count = |look: &Look| -> u64 {
        let cores = look.body["cores"].as_array().into_iter().flatten();
        cores.map(|core| whole(&core["turns"]["longCount"])).sum()
    };
    for core in after.body["cores"].as_array().expect("cores") {
        let turns = &core["turns"];
        assert!(whole(&turns["count"]) > 0 && whole(&turns["sumNanos"]) > 0, "{turns:#}");
        for turn in turns["long"].as_array().expect("a list") {
            assert!(whole(&turn["nanos"]) > whole(&turns["longFromNanos"]), "{turn:#}");
            assert!(whole(&turn["waitedNanosMax"]) <= whole(&turn["nanos"]), "{turn:#}");
        }
    }
    assert!(long_count(&after) > long_count(&before), "{:#}", after.body);
    let told = program::run(&["admin", "stages", "--turns", "-b", &dev.broker], RUN_WITHIN);
    assert_eq!((told.code, told.stdout.lines().count()), (Some(EXIT_OK), 4), "{}", told.text());
    let long = program::run(&["admin", "stages", "--turns", "--slow", "--json", "-b", &dev.broker], RUN_WITHIN);
    assert!(long.code == Some(EXIT_OK) && long.stdout.lines().count() > 0, "{}", long.text());
}

#[test]
fn bench_tells_the_stages_of_each_phase() {
    let dev = Dev::new("stages-bench").property("flushDiskType=SYNC_FLUSH").property("traceSlowerThanMicros=1");
    let _running = dev.start();
    let folder = Folder::new("stages-bench-out");
    let out = folder.path().join("run");
    let arguments = ["tail", "--rate", "200", "--duration", "2", "--warmup", "0.5", "--trace-slower-than", "100us"];
    assert_clean_or_void(&bench::run(&arguments, &dev.broker, &out));
    let record = bench::record(&out);
    let phase = &record["phases"][0];
    let request = |name: &str| {
        let requests = phase["stages"]["requests"].as_array().expect("a list");
        requests.iter().find(|request| request["request"] == *name).unwrap_or_else(|| panic!("{name}: {phase:#}"))
    };
    for (name, stages) in [("send", &["receive", "append", "flush", "reply"][..]), ("pull", &["read", "park", "reply"])]
    {
        let rows = request(name)["stages"].as_array().expect("rows");
        let row = |stage: &str| rows.iter().find(|row| row["stage"] == *stage);
        for stage in stages {
            assert!(row(stage).is_some_and(|row| number(&row["count"]) > 0.0), "{stage}: {rows:#?}");
        }
        let whole = number(&row("total").expect("the whole")["a_request_us"]);
        let sum: f64 = rows.iter().filter(|row| row["stage"] != "total").map(|row| number(&row["a_request_us"])).sum();
        // Requests that were on their way at the ends of the span are counted in some of their stages.
        assert!((sum - whole).abs() <= whole / 4.0, "{name}: {sum} of {whole}");
        assert!(!request(name)["cores"].as_array().expect("cores").is_empty());
    }
    let send = request("send");
    let (sum, client) = (
        ["send_lag_us", "server_us", "client_wake_us", "network_us"]
            .map(|part| number(&send[part]))
            .iter()
            .sum::<f64>(),
        number(&send["client_us"]),
    );
    assert!((sum - client).abs() < 0.5, "{sum} of {client}");
    assert!(number(&send["explained"]) > 0.0, "{send:#}");
    assert!(phase["stages"]["absent"]["replicate"].is_string());
    let slow = phase["slow"].as_array().expect("a list");
    assert!(slow.iter().any(|send| send["stages"].is_array() && number(&send["server_us"]) > 0.0), "{slow:#?}");
    let page = fs::read_to_string(out.join("report.html")).expect("a run leaves a page");
    for words in
        ["Where the time of a send goes", "Where the time of a pull goes", "No replicate", "Slow sends", "flush"]
    {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn bench_tells_the_stages_of_pops() {
    let dev = Dev::new("stages-bench-pops");
    let _running = dev.start();
    let folder = Folder::new("stages-bench-pops-out");
    let out = folder.path().join("run");
    let arguments = ["tail", "--rate", "200", "--duration", "2", "--warmup", "0.5", "--set", "consumers=pop"];
    assert_clean_or_void(&bench::run(&arguments, &dev.broker, &out));
    let phase = &bench::record(&out)["phases"][0];
    for (name, stages) in [("pop", &["receive", "read", "park", "reply"][..]), ("ack", &["receive", "append", "reply"])]
    {
        let requests = phase["stages"]["requests"].as_array().expect("a list");
        let request = requests.iter().find(|request| request["request"] == *name);
        let rows = request.unwrap_or_else(|| panic!("{name}: {phase:#}"))["stages"].as_array().expect("rows");
        for stage in stages {
            let row = rows.iter().find(|row| row["stage"] == *stage);
            assert!(row.is_some_and(|row| number(&row["count"]) > 0.0), "{name} {stage}: {rows:#?}");
        }
    }
    let page = fs::read_to_string(out.join("report.html")).expect("a run leaves a page");
    for words in ["Where the time of a pop goes", "Where the time of an ack goes"] {
        assert!(page.contains(words), "{words}");
    }
}
