//! How the program starts, and how it refuses to: each refusal names its cause, its cure and an exit code.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::folder::{Folder, listing};
use harness::ports::{free_address, free_port};
use harness::process::{Dev, END_WITHIN, READY_WITHIN, Running};
use harness::program::{self, Finished};
use harness::request::{
    self, CODE_MESSAGE_ILLEGAL, CODE_OK, MIN_OFFSET, Queue, Stored, create_topic, offset_of, read_queue,
};
use harness::{left_out, unique_name};

/// Exit codes of the manual.
const EXIT_OK: i32 = 0;
const EXIT_FAILURE: i32 = 1;
const EXIT_USAGE: i32 = 2;
const EXIT_CONFIGURATION: i32 = 3;
const EXIT_STORE: i32 = 7;

/// A refusal must come in this time.
const REFUSED_WITHIN: Duration = Duration::from_secs(20);
/// What "no more than seconds" means for a start with dead nameservers.
const DELAYED_BY_MAX: Duration = Duration::from_secs(10);

/// The configuration of a broker that came from RocketMQ, its paths and ports replaced.
const PROPERTIES: &str = "\
brokerClusterName=rocketmq-cluster
brokerName=broker-a
brokerId=0
namesrvAddr=rocketmq-nameserver1:9876;NAMESRV
defaultTopicQueueNums=4
autoCreateTopicEnable=true
autoCreateSubscriptionGroup=true
listenPort=PORT
deleteWhen=04
fileReservedTime=48
mapedFileSizeCommitLog=1073741824
mapedFileSizeConsumeQueue=300000
diskMaxUsedSpaceRatio=88
storePathRootDir=DIR/store
storePathCommitLog=DIR/store/commitlog
storePathConsumeQueue=DIR/store/consumequeue
storePathIndex=DIR/store/index
storeCheckpoint=DIR/store/checkpoint
abortFile=DIR/store/abort
maxMessageSize=65536
brokerRole=ASYNC_MASTER
flushDiskType=SYNC_FLUSH
sendMessageThreadPoolNums=128
pullMessageThreadPoolNums=128
";

fn text(path: &Path) -> &str {
    path.to_str().expect("the test's paths are plain text")
}

/// A refusal: this exit code, and all these words in what is printed, without regard to case.
fn assert_refused(finished: &Finished, codes: &[i32], words: &[&str]) {
    assert!(!finished.timed_out, "it went on instead of refusing:\n{}", finished.text());
    assert!(
        finished.code.is_some_and(|code| codes.contains(&code)),
        "exit {:?}, not {codes:?}: {}",
        finished.code,
        finished.text()
    );
    let printed = finished.text();
    for word in words {
        assert!(printed.to_lowercase().contains(&word.to_lowercase()), "{word:?} is not in:\n{printed}");
    }
    assert!(!printed.contains("panicked") && !printed.contains("stack backtrace"), "a crash, no refusal:\n{printed}");
}

/// A nameserver of its own process.
fn start_namesrv(folder: &Folder) -> (Running, String) {
    let port = free_port();
    let file = folder.file(&format!("namesrv-{port}.properties"), &format!("listenPort={port}\n"));
    let running = Running::start(&["namesrv", "-c", text(&file)]);
    running.await_line("boot success", READY_WITHIN).unwrap_or_else(|log| panic!("no nameserver: {log}"));
    (running, format!("127.0.0.1:{port}"))
}

fn broker_properties(folder: &Folder, namesrv: &str, port: u16, more: &str) -> PathBuf {
    let store = folder.path().join("store");
    let content = format!(
        "brokerName=broker-s\nbrokerIP1=127.0.0.1\nnamesrvAddr={namesrv}\nlistenPort={port}\nstorePathRootDir={}\nmapedFileSizeCommitLog=4194304\n{more}\n",
        store.display()
    );
    folder.file(&format!("broker-{port}.properties"), &content)
}

/// Sends a message to a new topic and reads it back.
fn assert_serves(broker: &str) {
    let topic = unique_name("startup");
    let mut connection = Connection::open(broker).expect("the broker accepts connections");
    connection.call_ok(&create_topic(&topic, 2)).expect("a topic can be made");
    let queue = Queue::new(&topic, 1);
    let answer = connection.call(&request::send(&queue, "hello", "")).expect("a send is answered");
    assert_eq!(Stored::of(&answer).expect("it is stored").queue_offset, 0);
    assert_eq!(read_queue(&mut connection, &queue, 0).expect("it can be read")[0].body, b"hello");
}

/// Waits until a nameserver routes to a broker: registration is an event of another process.
fn await_registered(namesrv: &str, topic: &str, broker: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut connection = Connection::open(namesrv).expect("the nameserver accepts connections");
    loop {
        let answer = connection.call(&request::route(topic)).expect("a route query is answered");
        if answer.code == CODE_OK && String::from_utf8_lossy(&answer.body).contains(broker) {
            return;
        }
        assert!(Instant::now() < deadline, "{namesrv} has no route of {topic} to {broker}: {answer:?}");
    }
}

#[test]
fn a_first_start_is_quick_and_serves() {
    let dev = Dev::new("first");
    let mut running = dev.start();
    let line = running.await_line("READY in", READY_WITHIN).expect("it is ready");
    let seconds =
        line.split("READY in").nth(1).and_then(|rest| rest.trim().trim_end_matches('s').trim().parse::<f64>().ok());
    let seconds = seconds.unwrap_or_else(|| panic!("no number of seconds in {line:?}"));
    // One second is the aim; a debug build beside other tests gets more.
    assert!(seconds < 5.0, "{line}");
    let boot = running.await_line("The Name Server boot success", READY_WITHIN).expect("it is ready");
    assert!(boot.ends_with(&format!("serializeType=JSON, address {}", dev.namesrv)), "{boot}");
    let boot = running.await_line("The broker[", READY_WITHIN).expect("it is ready");
    assert!(boot.contains("boot success") && boot.contains(&dev.broker), "not the line that scripts wait for: {boot}");
    assert_serves(&dev.broker);
    assert_eq!(running.stop(), Some(EXIT_OK), "{}", running.log());
}

/// The reader of its lines may end before it does, as `ringmq dev | head` or a log collector that is started anew.
#[test]
fn a_server_outlives_the_readers_of_its_lines() {
    let dev = Dev::new("readers");
    for closes_early in [true, false] {
        let mut command = Command::new(program::path());
        command.args(dev.arguments()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        drop(child.stdout.take());
        let stderr = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        if !closes_early {
            assert!(stderr.lines().map_while(Result::ok).any(|line| line.contains("READY in")), "it is ready");
        } else {
            drop(stderr);
        }
        let deadline = Instant::now() + READY_WITHIN;
        while Connection::open(&dev.broker).is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_serves(&dev.broker);
        program::signal(child.id(), "TERM");
        assert_eq!(program::wait_or_kill(&mut child, END_WITHIN).0, Some(EXIT_OK), "closes early: {closes_early}");
    }
}

#[test]
fn a_configuration_from_rocketmq_starts_as_it_is() {
    let folder = Folder::new("properties");
    let (_namesrv, namesrv_address) = start_namesrv(&folder);
    let port = free_port();
    let content = PROPERTIES
        .replace("NAMESRV", &namesrv_address)
        .replace("PORT", &port.to_string())
        .replace("DIR", text(folder.path()));
    let file = folder.file("broker.properties", &content);
    let mut running = Running::start(&["broker", "-c", text(&file)]);
    let took = running.await_ready().unwrap_or_else(|log| panic!("it does not start: {log}"));
    assert!(took < DELAYED_BY_MAX, "a nameserver that cannot be resolved delayed the start by {took:?}");
    let broker = format!("127.0.0.1:{port}");
    let mut connection = Connection::open(&broker).expect("the broker accepts connections");
    let topic = unique_name("properties");
    let queue = Queue::new(&topic, 3);
    for (bytes, code) in [(65_536, CODE_OK), (65_537, CODE_MESSAGE_ILLEGAL)] {
        let answer = connection.call(&request::send(&queue, vec![b'x'; bytes], "")).expect("it is answered");
        assert_eq!(answer.code, code, "maxMessageSize=65536 and a body of {bytes}: {answer:?}");
    }
    await_registered(&namesrv_address, &topic, &format!(":{port}"));
    let log = running.log();
    for word in ["no effect", "sendMessageThreadPoolNums", "pullMessageThreadPoolNums"] {
        assert!(log.contains(word), "the start does not list {word:?}:\n{log}");
    }
    assert!(!listing(&folder.path().join("store")).is_empty(), "the store is not where the file says");
    assert_eq!(running.stop(), Some(EXIT_OK), "{}", running.log());
}

#[test]
fn dead_nameservers_do_not_hold_up_a_start() {
    let folder = Folder::new("dead-namesrv");
    let (_namesrv, live) = start_namesrv(&folder);
    // It completes connections in the kernel and never says a word.
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let mute_address = mute.local_addr().expect("it is bound");
    let all = format!("no-such-host.invalid:9876;{};{mute_address};{live}", free_address());
    let port = free_port();
    let running = Running::start(&["broker", "-c", text(&broker_properties(&folder, &all, port, ""))]);
    let took = running.await_ready().unwrap_or_else(|log| panic!("it does not start: {log}"));
    assert!(took < DELAYED_BY_MAX, "dead nameservers delayed the start by {took:?}");
    assert_serves(&format!("127.0.0.1:{port}"));
    await_registered(&live, "TBW102", &format!(":{port}"));
}

#[test]
fn an_unknown_key_is_refused_in_toml_and_warned_of_in_properties() {
    let folder = Folder::new("unknown-key");
    let store = folder.path().join("store");
    let port = free_port();
    let toml = folder.file(
        "broker.toml",
        &format!("brokerNam = \"a\"\nlistenPort = {port}\nstorePathRootDir = \"{}\"\n", store.display()),
    );
    let finished = program::run(&["broker", "-c", text(&toml)], REFUSED_WITHIN);
    assert_refused(&finished, &[EXIT_CONFIGURATION], &["brokerNam", "did you mean", "brokerName", text(&toml)]);
    assert!(!store.exists(), "a refused start made a store");

    let properties = broker_properties(&folder, "127.0.0.1:1", port, "brokerIP=127.0.0.1");
    let running = Running::start(&["broker", "-c", text(&properties)]);
    let line = running.await_line("did you mean", READY_WITHIN).unwrap_or_else(|log| panic!("no warning: {log}"));
    assert!(line.contains("brokerIP1"), "{line}");
    running.await_line("boot success", READY_WITHIN).unwrap_or_else(|log| panic!("a warning, and no start: {log}"));
}

#[test]
fn a_bad_value_is_refused_with_key_value_and_choice() {
    let folder = Folder::new("bad-value");
    let port = free_port();
    for (setting, words) in [
        ("flushDiskType=SOMETIMES", &["flushDiskType", "SOMETIMES", "SYNC_FLUSH", "ASYNC_FLUSH"][..]),
        ("maxMessageSize=many", &["maxMessageSize", "many", "number"]),
        ("mapedFileSizeCommitLog=-5", &["FileSizeCommitLog", "-5"]),
        ("autoCreateTopicEnable=maybe", &["autoCreateTopicEnable", "maybe", "true", "false"]),
        ("brokerId=", &["brokerId"]),
    ] {
        let file = broker_properties(&folder, "127.0.0.1:1", port, setting);
        let finished = program::run(&["broker", "-c", text(&file)], REFUSED_WITHIN);
        assert_refused(&finished, &[EXIT_CONFIGURATION], words);
        assert!(!folder.path().join("store").exists(), "{setting}: a refused start made a store");
    }
    for (port, words) in [("99999", &["listenPort", "99999"][..]), ("x", &["listenPort", "x"])] {
        let file = folder.file("port.properties", &format!("listenPort={port}\n"));
        let finished = program::run(&["broker", "-c", text(&file)], REFUSED_WITHIN);
        assert_refused(&finished, &[EXIT_CONFIGURATION], words);
    }
    let dev = Dev::new("bad-value").property("flushDiskType=SOMETIMES");
    let arguments = dev.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert_refused(&program::run(&arguments, REFUSED_WITHIN), &[EXIT_CONFIGURATION], &["flushDiskType", "SOMETIMES"]);
    let missing = folder.path().join("missing.properties");
    let finished = program::run(&["broker", "-c", text(&missing)], REFUSED_WITHIN);
    assert_refused(&finished, &[EXIT_CONFIGURATION], &[text(&missing)]);
}

#[test]
fn a_port_in_use_is_named() {
    for broker_port_taken in [true, false] {
        let dev = Dev::new("port");
        let taken = if broker_port_taken { &dev.broker } else { &dev.namesrv };
        let _listener = TcpListener::bind(taken.as_str()).expect("the port was free a moment ago");
        let arguments = dev.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let port = taken.rsplit(':').next().expect("rsplit gives at least one part");
        let finished = program::run(&arguments, REFUSED_WITHIN);
        assert_refused(&finished, &[EXIT_FAILURE], &[port, "in use"]);
    }
}

#[test]
fn a_store_in_use_is_named_and_left_alone() {
    let dev = Dev::new("store-in-use");
    let mut running = dev.start();
    let other = Dev::new("store-in-use-other");
    let mut arguments = other.arguments();
    let own_store = text(&other.store()).to_owned();
    for argument in &mut arguments {
        if *argument == own_store {
            *argument = text(&dev.store()).to_owned();
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let finished = program::run(&arguments, REFUSED_WITHIN);
    assert_refused(&finished, &[EXIT_STORE], &[text(&dev.store()), "in use"]);
    assert!(running.is_alive(), "the refused process harmed the first: {}", running.log());
    assert_serves(&dev.broker);
}

#[test]
fn tables_that_are_lost_while_messages_are_there_are_told() {
    let dev = Dev::new("lost-tables");
    let mut running = dev.start();
    assert!(!running.log().contains("are not there"), "a new store lost nothing: {}", running.log());
    assert_serves(&dev.broker);
    assert_eq!(running.stop(), Some(0));
    let config = dev.store().join("store/config");
    let names = ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "messageRequestMode.json"];
    for name in names {
        for file in [name.to_owned(), format!("{name}.bak")] {
            // Not each was written twice.
            let _ = fs::remove_file(config.join(file));
        }
    }
    let mut running = dev.start();
    for name in names {
        let told = format!("{name} and its .bak are not there, though the store has messages");
        assert!(running.log().contains(&told), "{name}: {}", running.log());
    }
    assert_eq!(running.stop(), Some(0));
    let mut running = dev.start();
    assert!(!running.log().contains("are not there"), "told once: {}", running.log());
    assert_serves(&dev.broker);
    assert_eq!(running.stop(), Some(0));
    fs::create_dir(config.join("topics.new")).expect("made");
    let arguments = dev.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let refused = program::run(&arguments, REFUSED_WITHIN);
    assert_refused(&refused, &[EXIT_FAILURE, EXIT_STORE], &["config/topics.new", "move it away"]);
}

#[test]
fn a_change_of_a_table_that_is_damaged_or_gone_is_told() {
    let dev = Dev::new("damaged-changes");
    let table = dev.store().join("store/config/topics.json");
    let mut running = dev.start();
    let (mut others, last_damaged, middle_gone) = (Vec::new(), "topic-a3", "topic-b2");
    for (round, lost) in [("a", last_damaged), ("b", middle_gone)] {
        let mut connection = Connection::open(&dev.broker).expect("it listens");
        let made = [1, 2, 3].map(|number| format!("topic-{round}{number}"));
        for topic in &made {
            connection.call_ok(&create_topic(topic, 1)).expect("made");
        }
        assert_eq!(running.stop(), Some(0));
        let text = fs::read_to_string(&table).expect("a table of topics");
        let line = text.split_inclusive('\n').find(|line| line.contains(lost)).expect("a topic is a change");
        let instead = if lost == last_damaged { line.replace("topic-a3", "topic-a4") } else { String::new() };
        fs::write(&table, text.replace(line, &instead)).expect("damaged");
        others.extend(made.into_iter().filter(|topic| topic != lost));
        running = dev.start();
        assert!(running.log().contains("topics.json was damaged"), "{lost}: {}", running.log());
        let mut connection = Connection::open(&dev.broker).expect("it listens");
        for topic in &others {
            let answer = connection.call(&request::send(&Queue::new(topic, 0), "hello", "")).expect("answered");
            Stored::of(&answer).expect("the topic is there");
        }
    }
}

/// Changes may be gone in ways that the file itself shows, and in ways that only the messages show.
#[test]
fn changes_that_are_cut_off_a_table_are_told() {
    let dev = Dev::new("cut-changes");
    let table = dev.store().join("store/config/topics.json");
    for is_cut in [true, false] {
        let topic = unique_name("cut");
        let mut running = dev.start();
        let mut connection = Connection::open(&dev.broker).expect("it listens");
        connection.call_ok(&create_topic(&topic, 2)).expect("made");
        let send_one = |connection: &mut Connection| {
            let answer = connection.call(&request::send(&Queue::new(&topic, 1), "hello", "")).expect("answered");
            Stored::of(&answer).expect("stored").queue_offset
        };
        assert_eq!(send_one(&mut connection), 0);
        assert_eq!(running.stop(), Some(0));
        let text = fs::read_to_string(&table).expect("a table of topics");
        let (_, end) = text.match_indices('\n').nth(1).map(|(at, _)| text.split_at(at)).expect("a head and a text");
        let room = if is_cut { String::new() } else { "\n".repeat(end.len()) };
        fs::write(&table, text.replace(end, &room)).expect("damaged");
        let mut running = dev.start();
        assert_eq!(running.log().contains("topics.json was damaged"), is_cut, "{}", running.log());
        assert!(running.log().contains(&format!("topics.json does not have: {topic} (2 queues)")), "{}", running.log());
        let mut connection = Connection::open(&dev.broker).expect("it listens");
        connection.call_ok(&create_topic(&topic, 2)).expect("made");
        assert_eq!(send_one(&mut connection), 1, "its messages are there again");
        assert_eq!(running.stop(), Some(0));
        let mut running = dev.start();
        assert!(!running.log().contains("topics.json"), "{}", running.log());
        assert_eq!(running.stop(), Some(0));
    }
}

#[test]
fn a_table_that_is_damaged_is_told_once_and_kept() {
    let dev = Dev::new("told-once");
    let config = dev.store().join("store/config");
    let mut running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    connection.call_ok(&request::heartbeat("client", "group")).expect("the group makes itself");
    assert_eq!(running.stop(), Some(0));
    let damage = |name: &str, from: &str, to: &str| {
        let path = config.join(name);
        fs::write(&path, fs::read_to_string(&path).expect("a table").replacen(from, to, 1)).expect("damaged");
    };
    damage("subscriptionGroup.json", "TOOLS_CONSUMER", "TOOLS_CONSUMEX");
    // A generation that no other can follow.
    let path = config.join("topics.json");
    let text = fs::read_to_string(&path).expect("a table");
    let generation = text.split(' ').nth(2).expect("a generation");
    fs::write(&path, text.replacen(generation, &u64::MAX.to_string(), 1)).expect("damaged");
    let mut running = dev.start();
    for name in ["subscriptionGroup.json", "topics.json"] {
        assert!(running.log().contains(&format!("{name} was damaged")), "{}", running.log());
        assert!(config.join(format!("{name}.damaged")).exists(), "{name}");
    }
    assert_eq!(running.stop(), Some(0));
    let running = dev.start();
    assert!(!running.log().contains("was damaged"), "{}", running.log());
    assert_serves(&dev.broker);
}

#[test]
fn a_damaged_table_says_what_to_do() {
    let dev = Dev::new("damaged-table");
    let mut running = dev.start();
    assert_eq!(running.stop(), Some(0));
    let config = dev.store().join("store/config");
    let (table, copy) = (config.join("topics.json"), config.join("topics.json.bak"));
    let (damaged, cure) = ("it is damaged, the checksum does not fit", "restore it from a backup, or move");
    fs::write(&table, "nonsense").expect("damaged");
    fs::write(&copy, "nonsense").expect("damaged");
    let refuses = |told: String| {
        let arguments = dev.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let refused = program::run(&arguments, REFUSED_WITHIN);
        assert_refused(&refused, &[EXIT_FAILURE, EXIT_STORE], &[&told]);
        assert_eq!(refused.text().matches("topics.json").count(), 1, "{}", refused.text());
    };
    refuses(format!("topics.json: {damaged}; its .bak: {damaged}; {cure} both away to begin without topics"));
    fs::remove_file(&copy).expect("removed");
    refuses(format!("topics.json: {damaged}; {cure} it away to begin without topics"));
    fs::remove_file(&table).expect("moved away");
    let _running = dev.start();
    assert_serves(&dev.broker);
}

#[test]
fn an_oldest_segment_that_somebody_removed_is_told() {
    const SEGMENT: u64 = 4 << 20;
    let mut dev = Dev::new("lost-segment");
    dev.logs = 1;
    let mut running = dev.start();
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    let queue = Queue::new(&unique_name("lost"), 0);
    connection.call_ok(&create_topic(&queue.topic, 1)).expect("made");
    for _ in 0..20 {
        connection.call_ok(&request::send(&queue, vec![b'x'; 500_000], "")).expect("stored");
    }
    assert_eq!(running.stop(), Some(0));
    let segment = dev.store().join("store/log-00/commitlog").join(format!("{:020}", 0));
    fs::remove_file(&segment).expect("removed");
    let running = dev.start();
    let told = format!("log 0: no file holds offsets 0 to {SEGMENT}");
    assert!(running.log().contains(&told), "{}", running.log());
    let mut connection = Connection::open(&dev.broker).expect("it listens");
    let min = offset_of(&mut connection, MIN_OFFSET, &queue).expect("known");
    assert!((7..=9).contains(&min), "{min}");
    assert_eq!(read_queue(&mut connection, &queue, min).expect("readable").len() as i64, 20 - min);
}

/// A store that lost its table, or a new one that is pointed at the segments of another.
#[test]
fn logs_of_another_store_are_never_taken_for_a_new_ones() {
    let folder = Folder::new("another");
    let (port, disk) = (free_port(), folder.path().join("disk"));
    let broker = |root: &Path, commit_log: &Path| -> Vec<String> {
        let mut arguments = vec!["broker".to_owned(), format!("listenPort={port}"), "brokerIP1=127.0.0.1".to_owned()];
        arguments.extend(["logs=4".to_owned(), "mappedFileSizeCommitLog=4194304".to_owned()]);
        arguments.push(format!("storePathRootDir={}", root.display()));
        arguments.push(format!("storePathCommitLog={}", commit_log.display()));
        arguments
    };
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let mut running = Running::start(&broker(&old, &disk));
    running.await_line("READY in", READY_WITHIN).unwrap_or_else(|log| panic!("not ready: {log}"));
    assert_serves(&format!("127.0.0.1:{port}"));
    assert_eq!(running.stop(), Some(0));
    let before = listing(&disk);
    let refused = |root: &Path, commit_log: &Path| {
        let arguments = broker(root, commit_log);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let finished = program::run(&arguments, REFUSED_WITHIN);
        assert_refused(&finished, &[EXIT_STORE], &["store.json", "a log of a store is there", "log-0"]);
    };
    refused(&new, &disk);
    refused(&disk, &new.join("commitlog"));
    for name in ["store.json", "store.json.bak"] {
        fs::remove_file(old.join(name)).expect("removed");
    }
    refused(&old, &disk);
    // The first log's folder is gone as well.
    fs::remove_dir_all(old.join("log-00")).expect("removed");
    fs::remove_dir_all(disk.join("log-00")).expect("removed");
    refused(&old, &disk);
    refused(&new, &disk);
    let after = listing(&disk);
    assert!(
        after.iter().all(|name| before.contains(name) || name.contains("lock") || name.contains("ballast")),
        "{after:?}"
    );
}

#[test]
fn a_folder_without_write_permission_is_named() {
    let folder = Folder::new("permission");
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("a folder can be made");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("its mode can be set");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its mode can be set");
    let store = closed.join("store");
    // For root every folder is writable, so the program must run as somebody else, from where that user may read it.
    let copy = folder.path().join("ringmq");
    fs::copy(program::path(), &copy).expect("the program can be copied");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("its mode can be set");
    let root = fs::write(closed.join("probe"), "").is_ok();
    let mut command = if root { Command::new("setpriv") } else { Command::new(&copy) };
    if root {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
        if Command::new("setpriv").arg("--version").output().is_err() {
            return left_out("a_folder_without_write_permission_is_named", "root, and no setpriv (package util-linux)");
        }
    }
    command.args([
        "dev",
        "--dir",
        text(&store),
        "--namesrv-listen",
        &free_address(),
        "--broker-listen",
        &free_address(),
    ]);
    let finished = program::run_command(command, REFUSED_WITHIN);
    assert_refused(&finished, &[EXIT_FAILURE, EXIT_CONFIGURATION, 6, EXIT_STORE], &[text(&closed), "permission"]);
}

#[test]
fn a_file_system_without_direct_io_works_with_a_warning_or_is_refused_clearly() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        return left_out("a_file_system_without_direct_io_works", "there is no /dev/shm");
    }
    let folder = Folder::under(shm, "tmpfs");
    let direct = takes_direct_io(folder.path());
    let store = folder.path().join("store");
    let (namesrv, broker) = (free_address(), free_address());
    let running = Running::start(&[
        "dev",
        "--dir",
        text(&store),
        "--namesrv-listen",
        &namesrv,
        "--broker-listen",
        &broker,
        "--cores",
        "2",
        "--logs",
        "2",
        "mapedFileSizeCommitLog=4194304",
    ]);
    running.await_ready().unwrap_or_else(|log| panic!("it does not start on tmpfs: {log}"));
    assert_serves(&broker);
    let log = running.log().to_lowercase();
    assert!(direct || log.contains("direct"), "no word about direct I/O, which this file system refuses:\n{log}");
}

/// Whether files in a folder can be opened for direct I/O.
fn takes_direct_io(folder: &Path) -> bool {
    let flag = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(flag).open(folder.join("probe")).is_ok()
}

#[test]
fn the_names_and_flags_of_apaches_scripts_work() {
    let folder = Folder::new("symlinks");
    for name in ["mqnamesrv", "mqbroker"] {
        symlink(program::path(), folder.path().join(name)).expect("a link can be made");
    }
    let namesrv_port = free_port();
    let namesrv_file = folder.file("namesrv.properties", &format!("listenPort={namesrv_port}\n"));
    let mut command = Command::new(folder.path().join("mqnamesrv"));
    command.args(["-c", text(&namesrv_file)]);
    let namesrv = Running::start_command(command);
    namesrv.await_line("boot success", READY_WITHIN).unwrap_or_else(|log| panic!("mqnamesrv: {log}"));

    let port = free_port();
    // The flag wins over the file, which names a nameserver that is not there.
    let file = broker_properties(&folder, "127.0.0.1:1", port, "");
    let address = format!("127.0.0.1:{namesrv_port}");
    let mut command = Command::new(folder.path().join("mqbroker"));
    command.args(["-n", &address, "-c", text(&file)]);
    let broker = Running::start_command(command);
    broker.await_line("boot success", READY_WITHIN).unwrap_or_else(|log| panic!("mqbroker: {log}"));
    assert_serves(&format!("127.0.0.1:{port}"));
    await_registered(&address, "TBW102", &format!(":{port}"));

    let run = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(folder.path().join(name));
        command.args(arguments);
        program::run_command(command, REFUSED_WITHIN)
    };
    let all = run("mqbroker", &["-c", text(&file), "-p"]);
    let important = run("mqbroker", &["-c", text(&file), "-m"]);
    for (finished, words) in
        [(&all, &["brokerName=broker-s", "listenPort", "flushDiskType"][..]), (&important, &["brokerName"])]
    {
        assert_eq!(finished.code, Some(EXIT_OK), "{}", finished.text());
        for word in words {
            assert!(finished.text().contains(word), "{word:?} is not in:\n{}", finished.text());
        }
    }
    assert!(important.text().lines().count() < all.text().lines().count(), "-m prints as much as -p");
}

#[test]
fn help_is_help_and_a_wrong_command_is_a_usage_error() {
    let help = program::run(&["--help"], REFUSED_WITHIN);
    assert_eq!(help.code, Some(EXIT_OK), "{}", help.text());
    for word in ["dev", "broker", "namesrv", "admin"] {
        assert!(help.stdout.contains(word), "{word:?} is not in:\n{}", help.stdout);
    }
    for command in ["dev", "broker", "namesrv", "admin"] {
        let help = program::run(&[command, "--help"], REFUSED_WITHIN);
        assert_eq!(help.code, Some(EXIT_OK), "{command}: {}", help.text());
    }
    for arguments in [&["no-such-command"][..], &["dev", "--no-such-flag"], &["dev", "--cores", "many"]] {
        let finished = program::run(arguments, REFUSED_WITHIN);
        assert_refused(&finished, &[EXIT_USAGE], &[arguments[arguments.len() - 1]]);
    }
}
