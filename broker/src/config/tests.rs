//! The configuration as a whole: sources in, values, warnings and answers out.

use std::collections::HashSet;
use std::path::PathBuf;

use base::Millis;

use super::*;

fn surroundings() -> Surroundings {
    Surroundings {
        host_name: "host-1".to_owned(),
        local_address: "192.0.2.7".parse().expect("an address"),
        home: "/home/me".to_owned(),
        processors: 2,
    }
}

fn load(file: Option<(&str, &str)>, environment: &[(&str, &str)], arguments: &[&str]) -> Result<Loaded, ConfigErrors> {
    let mut loader = Loader::new(surroundings());
    if let Some((path, text)) = file {
        loader.file(path, text.as_bytes(), FileFormat::of_path(path));
    }
    loader.environment(environment.iter().map(|(name, value)| (name.to_string(), value.to_string())));
    arguments.iter().for_each(|argument| loader.argument(argument));
    loader.finish()
}

fn defaults() -> Settings {
    load(None, &[], &[]).expect("defaults are right").settings
}

/// The file of a real RocketMQ 4 installation, which must start a broker as it is.
const ROCKETMQ_FILE: &str = "\
brokerClusterName=rocketmq-cluster
brokerName=broker-a
brokerId=0
namesrvAddr=rocketmq-nameserver1:9876;127.0.0.1:9876
defaultTopicQueueNums=4
autoCreateTopicEnable=true
autoCreateSubscriptionGroup=true
listenPort=11011
deleteWhen=04
fileReservedTime=48
mapedFileSizeCommitLog=1073741824
mapedFileSizeConsumeQueue=300000
diskMaxUsedSpaceRatio=88
storePathRootDir=/data/store
storePathCommitLog=/data/store/commitlog
storePathConsumeQueue=/data/store/consumequeue
storePathIndex=/data/store/index
storeCheckpoint=/data/store/checkpoint
abortFile=/data/store/abort
maxMessageSize=65536
brokerRole=ASYNC_MASTER
flushDiskType=SYNC_FLUSH
sendMessageThreadPoolNums=128
pullMessageThreadPoolNums=128
";

#[test]
fn a_rocketmq_file_starts_as_it_is() {
    let Loaded { config, settings, warnings } =
        load(Some(("broker.properties", ROCKETMQ_FILE)), &[], &[]).expect("right");
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!((config.identity.cluster.as_str(), config.identity.broker.as_str()), ("rocketmq-cluster", "broker-a"));
    assert_eq!(
        config.registration.nameservers.iter().map(HostPort::to_string).collect::<Vec<_>>(),
        ["rocketmq-nameserver1:9876", "127.0.0.1:9876"]
    );
    assert_eq!((config.topics.default_queue_count, config.topics.auto_create), (4, true));
    assert_eq!(config.network.listen_port, 11011);
    assert_eq!(config.network.advertised_address.to_string(), "192.0.2.7");
    let store = Store {
        root: PathBuf::from("/data/store"),
        commit_logs: vec![PathBuf::from("/data/store/commitlog")],
        segment_bytes: 1 << 30,
        flush: FlushDiskType::Sync,
        flush_kind: None,
        flush_interval: Millis(500),
        index_keys: true,
        cold_bytes_per_second: Some(256 << 20),
        read_cache_bytes: 64 << 20,
        page_cache: false,
        tiers: storage::TierSwitches::default(),
    };
    assert_eq!(config.store, store);
    let retention = Retention {
        delete_hours: vec![4],
        keep_hours: 48,
        used_percent_max: 88,
        used_percent_forcing: 85,
        used_percent_refusing: 90,
        drops_unexpired: true,
        interval: Millis(10_000),
        pause: Millis(100),
        segments_max: 10,
    };
    assert_eq!(config.retention, retention);
    assert_eq!(config.messages.body_bytes_max, 65536);
    let listed = settings.without_effect();
    assert_eq!(listed.len(), 2, "{listed:#?}");
    for (line, names) in listed.iter().zip([
        "abortFile, mapedFileSizeConsumeQueue, storeCheckpoint, storePathConsumeQueue, storePathIndex: accepted, no effect: ",
        "pullMessageThreadPoolNums, sendMessageThreadPoolNums: accepted, no effect: ",
    ]) {
        assert!(line.starts_with(names), "{line}");
    }
}

#[test]
fn the_same_values_in_toml_are_the_same_configuration() {
    let toml: String = ROCKETMQ_FILE
        .lines()
        .map(|line| {
            let (key, value) = line.split_once('=').expect("a line of the file");
            let bare = value.parse::<i64>().is_ok() && !value.starts_with('0') || value == "true";
            if bare { format!("{key} = {value}\n") } else { format!("{key} = \"{value}\"\n") }
        })
        .collect();
    let from_toml = load(Some(("broker.toml", &toml)), &[], &[]).expect("right");
    let from_properties = load(Some(("broker.conf", ROCKETMQ_FILE)), &[], &[]).expect("right");
    assert_eq!(from_toml.config, from_properties.config);
    assert_eq!(from_toml.settings.text_all(), from_properties.settings.text_all());
}

#[test]
fn defaults_are_rocketmqs_but_for_the_flush() {
    let settings = defaults();
    for (name, text) in [
        ("brokerClusterName", "DefaultCluster"),
        ("brokerName", "host-1"),
        ("brokerId", "0"),
        ("brokerIP1", "192.0.2.7"),
        ("brokerIP2", "192.0.2.7"),
        ("listenPort", "10911"),
        ("haListenPort", "10912"),
        ("namesrvAddr", ""),
        ("storePathRootDir", "/home/me/store"),
        ("storePathCommitLog", "/home/me/store/commitlog"),
        ("maxMessageSize", "4194304"),
        ("flushDiskType", "SYNC_FLUSH"),
        ("sendMessageThreadPoolNums", "2"),
        ("timerWheelEnable", "true"),
    ] {
        assert_eq!(settings.text(name), text, "{name}");
    }
    let config = settings.config().expect("right");
    assert_eq!((config.machine.cores, config.machine.logs, config.machine.tail_cache_bytes), (None, None, None));
    assert_eq!(config.registration.period, Millis(30_000));
    assert!(config.registration.permission.reads() && config.registration.permission.writes());
    assert!(!config.consumers.property_filter);
    assert_eq!((config.delays.levels.len(), config.delays.levels[17]), (18, Millis(7_200_000)));
}

#[test]
fn every_row_of_the_table_is_right() {
    let settings = defaults();
    let mut names = HashSet::new();
    for key in all_keys() {
        for name in std::iter::once(&key.name).chain(key.aliases) {
            assert!(names.insert(*name), "{name} is in the table twice");
        }
        let text = settings.default_text(key);
        if !text.is_empty() {
            assert_eq!(key.kind.normal(&text).as_deref(), Ok(text.as_str()), "the default of {}", key.name);
        }
        if let Effect::Later { in_force: Some(text), .. } = key.effect {
            assert_eq!(key.kind.normal(text).as_deref(), Ok(text), "what {} is meanwhile", key.name);
        }
        assert!(key.effect != Effect::Acts || !key.meaning.is_empty(), "{} has no meaning", key.name);
        assert!(!key.meaning.ends_with('.'), "{}", key.name);
    }
    assert!(names.len() > 400, "{} keys", names.len());
}

#[test]
fn later_sources_win_and_are_named() {
    let file = Some(("etc/broker.conf", "# c\nlistenPort=1000\nfileReservedTime=10\nbrokerName=file\nregionId=r\n"));
    let environment = [
        ("RINGMQ_LISTENPORT", "1001"),
        ("ringmq_regionId", "not this"),
        ("RINGMQ_brokerName", "environment"),
        ("NAMESRV_ADDR", "a:1"),
        ("RINGMQ_FILERESERVEDTIME", ""),
        ("RINGMQ_LISTENPRT", "7"),
        ("RINGMQ_REACTOR", "ring"),
        ("PATH", "/bin"),
    ];
    let loaded = load(file, &environment, &["listenPort=1002"]).expect("right");
    for (name, text, origin) in [
        ("listenPort", "1002", "argument"),
        ("brokerName", "environment", "environment RINGMQ_brokerName"),
        ("namesrvAddr", "a:1", "environment NAMESRV_ADDR"),
        ("fileReservedTime", "10", "etc/broker.conf:3"),
        ("regionId", "r", "etc/broker.conf:5"),
        ("brokerRole", "ASYNC_MASTER", "default"),
    ] {
        assert_eq!(loaded.settings.text(name), text, "{name}");
        assert_eq!(loaded.settings.origin(name).to_string(), origin, "{name}");
    }
    assert_eq!(
        loaded.warnings,
        ["environment RINGMQ_LISTENPRT: ignored: unknown key LISTENPRT; did you mean listenPort?"]
    );
    let both = load(None, &[("RINGMQ_NAMESRVADDR", "b:2"), ("NAMESRV_ADDR", "a:1")], &[]).expect("right");
    assert_eq!(both.settings.text("namesrvAddr"), "b:2");
}

#[test]
fn faults_are_told_with_their_place_and_cure() {
    let properties = |text: &'static str| (Some(("b.conf", text)), "");
    let toml = |text: &'static str| (Some(("b.toml", text)), "");
    let argument = |text: &'static str| (None, text);
    for ((file, argument), told) in [
        (
            properties("a=b\nlistenPort=70000"),
            "b.conf:2: listenPort=70000 is not allowed: a whole number from 0 to 65533",
        ),
        (properties("listenPort="), "b.conf:1: listenPort= is not allowed: a whole number"),
        (properties("listenPort=2"), "b.conf:1: listenPort=2 leaves no room"),
        (properties("flushDiskType=sync_flush"), "is not allowed: one of SYNC_FLUSH, ASYNC_FLUSH"),
        (properties("autoCreateTopicEnable=yes"), "is not allowed: true or false"),
        (properties("fileReservedTime=72 # three days"), "a comment needs a line of its own"),
        (
            properties("mapedFileSizeCommitLog=4096"),
            "b.conf:1: mapedFileSizeCommitLog=4096 is not allowed: a multiple of 4096 from 1048576",
        ),
        (properties("mapedFileSizeCommitLog=1048577"), "a multiple of 4096"),
        (
            properties("mapedFileSizeCommitLog=1048576\nmaxMessageSize=1048576"),
            "b.conf:2: maxMessageSize=1048576 does not fit",
        ),
        (properties("maxMessageSize=67108864"), "unwrittenBytesMax=67108864 has no room"),
        (properties("brokerIP1=localhost"), "an IP address that clients can reach"),
        (properties("brokerIP1=0.0.0.0"), "an IP address that clients can reach"),
        (
            properties("namesrvAddr=a:1;b"),
            "b.conf:1: namesrvAddr=a:1;b is not allowed: host:port, several separated by ;",
        ),
        (properties("storePathRootDir=/a,/b"), "one folder"),
        (properties("storePathCommitLog=/a,/a/"), "several different ones"),
        (properties("deleteWhen=25"), "hours from 00 to 23"),
        (properties("brokerRole=SLAVE"), "brokerRole=SLAVE needs replication, which comes in a later version"),
        (properties("x=\\uq"), "b.conf:1: \\uq is not a letter"),
        (toml("\nbrokerIp1 = \"1.2.3.4\""), "b.toml:2: unknown key brokerIp1; did you mean brokerIP1?"),
        (toml("[broker]\nlistenPort = 1"), "b.toml:1: broker is a table"),
        (toml("listenPort = "), "b.toml:1: "),
        (toml("listenPort = \"x\""), "b.toml:1: listenPort=x is not allowed"),
        (argument("lisenPort=1"), "argument: unknown key lisenPort; did you mean listenPort?"),
        (argument("listenPort"), "argument: listenPort is no KEY=VALUE"),
        (argument("qqqqqqqq=1"), "argument: unknown key qqqqqqqq"),
    ] {
        let arguments: &[&str] = if argument.is_empty() { &[] } else { &[argument] };
        let errors = load(file, &[], arguments).expect_err(told);
        assert_eq!(errors.0.len(), 1, "{errors}");
        assert!(errors.to_string().contains(told), "{errors}\nshould tell\n{told}");
    }
    let all = load(Some(("b.conf", "listenPort=x\ndeleteWhen=x")), &[], &["cores=x"]).expect_err("three faults");
    assert_eq!(all.0.len(), 3, "{all}");
}

#[test]
fn odd_values_are_warned_of_and_accepted() {
    for (text, told) in [
        ("brokerIp1=1.2.3.4", "b.conf:1: ignored: unknown key brokerIp1; did you mean brokerIP1?"),
        ("brokerId=3", "b.conf:1: brokerId=3 means nothing for a master; it is 0."),
        ("brokerRole=SYNC_MASTER", "b.conf:1: brokerRole=SYNC_MASTER acts like ASYNC_MASTER"),
        ("slaveReadEnable=true", "slaveReadEnable=true has no effect: it is of a later version (replication)"),
        ("filterSupportRetry=true", "It stays false."),
        ("messageStorePlugIn=org.example.Tiered", "It stays empty."),
    ] {
        let loaded = load(Some(("b.conf", text)), &[], &[]).expect("accepted");
        assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
        assert!(loaded.warnings[0].contains(told), "{} should tell {told}", loaded.warnings[0]);
        assert_eq!(loaded.settings.without_effect(), Vec::<String>::new(), "{text} is told once");
    }
    for (text, listed) in [
        (
            "userCacheMaxNum=2000",
            "userCacheMaxNum: accepted, no effect yet: later version (authentication and authorization)",
        ),
        ("slaveReadEnable=false", "slaveReadEnable: accepted, no effect yet: later version (replication)"),
    ] {
        let loaded = load(Some(("b.conf", text)), &[], &[]).expect("accepted");
        assert_eq!((loaded.warnings.len(), loaded.settings.without_effect()), (0, vec![listed.to_owned()]));
    }
}

#[test]
fn the_list_of_idle_keys_has_a_dozen_lines_at_most() {
    let idle = |key: &&Key| key.effect != Effect::Acts && key.kind != Kind::Flag;
    let settings = defaults();
    let text: String = all_keys()
        .filter(idle)
        .map(|key| (key.name, settings.default_text(key)))
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| format!("{name}={text}\n"))
        .collect();
    let lines = load(Some(("b.conf", &text)), &[], &[]).expect("defaults are right").settings.without_effect();
    assert_eq!(lines.len(), 12, "{lines:#?}");
    assert!(lines[11].contains("more keys: accepted, no effect"), "{}", lines[11]);
}

#[test]
fn values_follow_from_each_other() {
    for (arguments, name, text) in [
        (&["listenPort=0"][..], "haListenPort", "0"),
        (&["bindAddress=127.0.0.1"], "brokerIP1", "127.0.0.1"),
        (&["bindAddress=127.0.0.1", "brokerIP1=192.0.2.9"], "brokerIP1", "192.0.2.9"),
        (&["storePathRootDir=/s/"], "storePathCommitLog", "/s/commitlog"),
        (&["mappedFileSizeCommitLog=1048576"], "maxMessageSize", "983040"),
        (&["registerNameServerPeriod=1"], "registerNameServerPeriod", "10000"),
        (&["brokerId=4"], "brokerId", "0"),
        (&["diskMaxUsedSpaceRatio=99"], "diskMaxUsedSpaceRatio", "95"),
        (&["diskSpaceCleanForciblyRatio=99"], "diskSpaceCleanForciblyRatio", "85"),
        (&["diskSpaceWarningLevelRatio=1"], "diskSpaceWarningLevelRatio", "35"),
    ] {
        assert_eq!(load(None, &[], arguments).expect("right").settings.text(name), text, "{arguments:?}");
    }
    let apart = load(None, &[], &["storePathRootDir=/s", "storePathCommitLog=/fast/log, /big"]).expect("right").config;
    assert_eq!(apart.store.commit_logs, ["/fast/log", "/big"].map(PathBuf::from));
    let names: Surroundings = Surroundings { host_name: String::new(), ..surroundings() };
    assert_eq!(Loader::new(names).finish().expect("right").config.identity.broker, "DEFAULT");
}

#[test]
fn a_chosen_port_is_shown() {
    let mut settings = load(None, &[], &["listenPort=0"]).expect("right").settings;
    settings.port_chosen(40_001);
    assert!(settings.text_all().contains("\nlistenPort=40001\n"));
    assert!(settings.text_all().contains("\nhaListenPort=40002\n"));
    let high = load(None, &[], &["listenPort=0"]).map(|mut loaded| {
        loaded.settings.port_chosen(u16::MAX);
        loaded.settings.text("haListenPort")
    });
    assert_eq!(high.as_deref(), Ok("0"), "there is no port above the last one");
}

#[test]
fn all_keys_are_shown_sorted_a_line_each() {
    let settings = load(None, &[], &["enablePropertyFilter=true", "maxMessageSize=65536"]).expect("right").settings;
    let text = settings.text_all();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), all_keys().count());
    let lower: Vec<String> =
        lines.iter().map(|line| line.split('=').next().unwrap_or("").to_ascii_lowercase()).collect();
    assert!(lower.is_sorted());
    for line in [
        "maxMessageSize=65536",
        "haListenPort=10912",
        "brokerIP1=192.0.2.7",
        "enablePropertyFilter=true",
        "namesrvAddr=",
    ] {
        assert!(lines.contains(&line), "{line}");
    }
    assert_eq!(settings.print_all(), text, "nothing waits for a restart");
    let important = settings.print_important();
    assert!(important.contains("listenPort=10911\n") && !important.contains("serverWorkerThreads"), "{important}");
    assert_eq!(
        settings.print_origins(true),
        "enablePropertyFilter=true  (argument)\nmaxMessageSize=65536  (argument)\n"
    );
}

#[test]
fn a_key_is_explained() {
    let settings = load(Some(("b.conf", "mapedFileSizeCommitLog=2097152")), &[], &[]).expect("right").settings;
    let told = settings.explain("mapedFileSizeCommitLog").expect("a key");
    assert_eq!(
        told,
        "mappedFileSizeCommitLog = 2097152  (b.conf:1)\n  bytes of one segment of a log\n  \
         allowed: a multiple of 4096 from 1048576 to 68719476736 bytes\n  default: 1073741824\n  \
         while running: a change is kept for the next start\n  also spelled mapedFileSizeCommitLog\n"
    );
    assert!(
        settings.explain("sendMessageThreadPoolNums").expect("a key").contains("no effect: there is one pinned thread")
    );
    assert!(
        settings.explain("brokerName").expect("a key").contains("default: the host's name, or DEFAULT (here host-1)")
    );
    assert_eq!(settings.explain("listenport").unwrap_err(), "there is no key listenport; did you mean listenPort?");
}

#[test]
fn an_update_acts_at_once_or_waits_for_the_start() {
    let mut settings = defaults();
    let text = "maxMessageSize=8388608\nfileReservedTime=72\nlistenPort=1234\nmapedFileSizeConsumeQueue=1\nnoSuchKey=1\n\
                slaveReadEnable=true\n";
    let update = apply_update(&mut settings, text).expect("accepted");
    assert_eq!(update.config.messages.body_bytes_max, 8_388_608);
    assert_eq!(update.config.network.listen_port, 10911, "the port changes at the next start");
    let pairs: Vec<_> = update.changed.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let expected = [("maxMessageSize", "8388608"), ("listenPort", "1234"), ("mappedFileSizeConsumeQueue", "1")];
    assert_eq!(pairs, expected, "fileReservedTime stayed as it was");
    assert_eq!(update.needs_restart, ["listenPort"]);
    assert_eq!(update.ignored, ["noSuchKey", "slaveReadEnable"]);
    assert!(settings.text_all().contains("\nlistenPort=1234\n"));
    assert!(settings.text_all().contains("\nslaveReadEnable=false\n"));
    assert_eq!(settings.text("listenPort"), "10911");
    assert_eq!(settings.origin("maxMessageSize").to_string(), "update");
    let back = apply_update(&mut settings, "listenPort=10911").expect("accepted");
    assert_eq!(back.changed, [("listenPort".to_owned(), "10911".to_owned())]);
}

#[test]
fn an_update_of_a_path_an_address_or_a_command_is_forbidden() {
    let mut settings =
        load(None, &[], &["configBlackList=configBlackList;traceOn;mapedFileSizeCommitLog"]).expect("right").settings;
    let before = settings.text_all();
    for key in [
        "rocketmqHome",
        "brokerConfigPath",
        "configBlackList",
        "configStorePath",
        "kvConfigPath",
        "storePathRootDir",
        "storePathCommitLog",
        "storePathConsumeQueue",
        "storePathSomethingNew",
        "abortFile",
        "filterServerNums",
        "brokerIP1",
        "bindAddress",
        "namesrvAddr",
        "messageStorePlugIn",
        "authenticationProvider",
        "traceOn",
        "mappedFileSizeCommitLog",
    ] {
        let refused = apply_update(&mut settings, &format!("fileReservedTime=1\n{key}=1\n")).expect_err(key);
        assert_eq!(refused, UpdateRefused::Forbidden { key: key.to_owned() });
        assert!(refused.to_string().starts_with("Can not update config in black list"), "{refused}");
    }
    assert_eq!(settings.text_all(), before, "nothing changed");
}

#[test]
fn an_update_with_a_bad_value_changes_nothing() {
    let mut settings = defaults();
    let before = settings.text_all();
    for (text, told) in [
        ("maxMessageSize=1\nfileReservedTime=soon", "fileReservedTime=soon is not allowed: a whole number"),
        ("brokerRole=SLAVE", "needs replication"),
        ("maxMessageSize=67108864", "has no room for one message"),
        ("listenPort=1", "leaves no room"),
        ("a=\\u1", "line 1 of the update"),
    ] {
        let refused = apply_update(&mut settings, text).expect_err(text);
        assert!(matches!(&refused, UpdateRefused::Invalid { what } if what.contains(told)), "{refused}");
    }
    assert_eq!(settings.text_all(), before);
}

#[test]
fn a_changed_file_loads_as_what_was_changed() {
    let mut settings = load(Some(("b.conf", ROCKETMQ_FILE)), &[], &[]).expect("right").settings;
    let update = apply_update(&mut settings, "fileReservedTime=24\nlistenPort=12000\ntraceOn=false").expect("accepted");
    let file = rewrite_file(ROCKETMQ_FILE, FileFormat::Properties, &update.changed).expect("readable");
    let again = load(Some(("b.conf", &file)), &[], &[]).expect("right").settings;
    assert_eq!(again.text_all(), settings.text_all());
    assert_eq!(again.text("haListenPort"), "12001");
}
