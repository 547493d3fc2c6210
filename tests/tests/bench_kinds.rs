//! `ringmq bench` with each kind of load that its plans know, and what it checks of it.

use std::path::Path;

use harness::bench::{assert_clean_or_void, number, record, run};
use harness::folder::Folder;
use harness::process::Dev;
use serde_json::Value;

/// Carries out a plan against a broker of its own, without faults, and returns its phases.
fn phases(stem: &str, plan: &str) -> Vec<Value> {
    let dev = Dev::new(stem);
    let _running = dev.start();
    let folder = Folder::new(&format!("{stem}-out"));
    folder.file("payloads.jsonl", "{\"order\": 1}\n{\"order\": 2, \"name\": \"a longer one than the first\"}\n\n");
    let plan = folder.file("plan.toml", &format!("[defaults]\nwarmup = \"500ms\"\nduration = \"3s\"\n{plan}"));
    let out: &Path = &folder.path().join("run");
    let finished = run(&["run", &plan.to_string_lossy(), "--seed", "7"], &dev.broker, out);
    assert_clean_or_void(&finished);
    let phases = record(out)["phases"].as_array().cloned().unwrap_or_default();
    for phase in &phases {
        assert_eq!(phase["faults"].as_array().map(Vec::len), Some(0), "{phase:#}");
        assert!(number(&phase["figures"]["messages"]) > 0.0, "{phase:#}");
    }
    phases
}

/// A figure of a phase, by the path to it.
fn figure(phase: &Value, path: &str) -> f64 {
    number(phase["figures"].pointer(path).unwrap_or_else(|| panic!("no {path} in {phase:#}")))
}

#[test]
fn half_messages_are_committed_and_rolled_back_as_asked() {
    let plan = "[[phase]]\nname = \"open\"\nkind = \"tail\"\nrate = 200\ntransactions = true\ncommit_share = 0.7\n\
                [[phase]]\nname = \"closed\"\nkind = \"tail\"\nconnections = 2\nwindow = 4\ntransactions = true\n";
    let phases = phases("bench-half", plan);
    let open = &phases[0];
    let (committed, rolled_back) = (figure(open, "/committed"), figure(open, "/rolled_back"));
    assert!((committed / (committed + rolled_back) - 0.7).abs() < 0.01, "{open:#}");
    // All that was committed arrives, and nothing else does.
    assert!((figure(open, "/messages_consumed") - committed).abs() < 0.5, "{open:#}");
    assert!(committed + rolled_back >= 200.0 * 3.0, "{open:#}");
    assert!(figure(open, "/transaction_us/count") > 500.0 && figure(open, "/end_to_end_us/count") > 350.0, "{open:#}");
    assert!(figure(open, "/transaction_us/p50") >= figure(open, "/latency_us/p50"), "{open:#}");
    let closed = &phases[1];
    assert_eq!(figure(closed, "/rolled_back"), 0.0, "without a share all is committed");
    assert!(figure(closed, "/committed") > 10.0, "{closed:#}");
    assert!((figure(closed, "/messages_consumed") - figure(closed, "/committed")).abs() < 0.5, "{closed:#}");
}

#[test]
fn messages_of_a_key_keep_their_queue_and_their_order() {
    let keys = "ordered_keys = 40\nqueues = 3\nconsumer_connections = 2\n";
    let plan = format!(
        "[[phase]]\nname = \"open\"\nkind = \"tail\"\nrate = 500\n{keys}\
         [[phase]]\nname = \"closed\"\nkind = \"tail\"\nconnections = 2\nwindow = 8\nbatch = 3\n{keys}"
    );
    for phase in phases("bench-ordered", &plan) {
        assert_eq!(figure(&phase, "/order_breaks"), 0.0, "{phase:#}");
        assert_eq!(number(&phase["config"]["ordered_keys"]), 40.0);
        assert!(figure(&phase, "/messages_consumed") >= figure(&phase, "/messages"), "{phase:#}");
    }
}

#[test]
fn a_phase_may_have_many_topics() {
    let plan = "[[phase]]\nname = \"many\"\nkind = \"tail\"\ntopics = 7\nqueues = 2\nrate = 300\ngroups = 2\n\
                consumer_connections = 3\n\
                [[phase]]\nname = \"backlog\"\nkind = \"consume\"\ntopics = 3\nbacklog = 3000\n";
    let phases = phases("bench-topics", plan);
    assert_eq!((&phases[0]["config"]["topics"], &phases[0]["config"]["queues"]), (&7.into(), &2.into()));
    let consumed = figure(&phases[0], "/messages_consumed");
    assert!(consumed >= 2.0 * figure(&phases[0], "/messages") && consumed >= 2.0 * 300.0 * 3.0, "{:#}", phases[0]);
    assert!((figure(&phases[1], "/messages") - 3000.0).abs() < 0.5, "{:#}", phases[1]);
}

#[test]
fn consumers_commit_and_send_back_as_real_ones_do() {
    let plan = "[[phase]]\nkind = \"tail\"\nrate = 200\ngroups = 2\nconsumer_connections = 2\nretry_share = 0.1\n";
    let phase = &phases("bench-retries", plan)[0];
    let (sent_back, consumed) = (figure(phase, "/sent_back"), figure(phase, "/messages_consumed"));
    assert!((sent_back / consumed - 0.1).abs() < 0.01, "{phase:#}");
    assert!(figure(phase, "/retry_us/count") > 50.0, "{phase:#}");
    // Each came again, soon after its second, and every offset that was consumed is committed.
    assert!(figure(phase, "/retry_us/p50") < 2_000_000.0, "{phase:#}");
    for missing in ["/retries_missing", "/commits_missing"] {
        assert_eq!(figure(phase, missing), 0.0, "{phase:#}");
    }
}

#[test]
fn consumers_pop_and_acknowledge_each_message_once() {
    let pops = "consumers = \"pop\"\nconsumer_connections = 3\n";
    let plan = format!(
        "[[phase]]\nname = \"tail\"\nkind = \"tail\"\nrate = 300\ntopics = 2\ngroups = 2\nclient_duties = true\n{pops}\
         [[phase]]\nname = \"consume\"\nkind = \"consume\"\nbacklog = 3000\npull_messages = 10\n{pops}\
         [[phase]]\nname = \"behind\"\nkind = \"tail\"\nrate = 100\nbacklog = 500\ncold_groups = 1\nwire = \"compact\"\n{pops}"
    );
    let phases = phases("bench-pops", &plan);
    let [tail, consume, behind] = &phases[..] else { panic!("{phases:#?}") };
    for phase in [tail, consume, behind] {
        assert_eq!(phase["config"]["consumers"], "pop");
        for fault in ["/messages_missing", "/messages_repeated", "/acks_lost", "/receipts_wrong", "/commits_missing"] {
            assert_eq!(figure(phase, fault), 0.0, "{fault}: {phase:#}");
        }
        assert!(figure(phase, "/ack_us/count") > 100.0, "{phase:#}");
    }
    let consumed = figure(tail, "/messages_consumed");
    assert!(consumed >= 2.0 * 300.0 * 3.0, "{tail:#}");
    assert_eq!(figure(tail, "/acknowledged"), consumed, "{tail:#}");
    assert!(figure(tail, "/end_to_end_us/count") >= 2.0 * 300.0 * 2.9, "{tail:#}");
    assert_eq!((figure(consume, "/messages"), figure(consume, "/acknowledged")), (3000.0, 3000.0), "{consume:#}");
    // Ten at most, so at least so many.
    assert!(figure(consume, "/pop_us/count") >= 300.0, "{consume:#}");
    assert!((1.0..=10.0).contains(&figure(consume, "/messages_per_pop")), "{consume:#}");
    // A group that joins at the end gets nothing of what was there before; another one reads that again and again.
    assert!(figure(behind, "/messages_consumed") < 500.0 && figure(behind, "/cold_messages_per_s") > 0.0, "{behind:#}");
    for (phase, kinds) in [(tail, &["send", "pop", "ack"][..]), (consume, &["pop", "ack"])] {
        let requests = phase["stages"]["requests"].as_array().expect("a list");
        let names: Vec<&str> = requests.iter().filter_map(|request| request["request"].as_str()).collect();
        assert!(kinds.iter().all(|kind| names.contains(kind)), "{kinds:?} of {names:?}");
    }
    let asked = |phase: &Value, request: &str| {
        let requests = phase["stages"]["requests"].as_array().into_iter().flatten();
        requests.into_iter().find(|told| told["request"] == *request).map(|told| number(&told["client_us"]))
    };
    assert!(asked(consume, "pop").is_some_and(|us| us > 0.0) && asked(consume, "ack").is_some_and(|us| us > 0.0));
    let files = consume["files"].to_string();
    assert!(files.contains("pop.hgrm") && files.contains("ack.hgrm"), "{files}");
}

#[test]
fn lateness_is_a_kind_of_its_own() {
    let plan = "[[phase]]\nkind = \"tail\"\nrate = 100\ndelay = \"1s\"\n";
    let phase = &phases("bench-late", plan)[0];
    assert!(figure(phase, "/late_us/count") >= 300.0 && figure(phase, "/late_us/p50") < 500_000.0, "{phase:#}");
    assert!(phase["figures"]["end_to_end_us"].is_null(), "{phase:#}");
    let files = phase["files"].to_string();
    assert!(files.contains("late.hgrm"), "{files}");
}

#[test]
fn what_messages_may_have_and_how_they_may_come() {
    let phase = |name: &str, keys: &str| format!("[[phase]]\nname = \"{name}\"\nkind = \"tail\"\nrate = 300\n{keys}\n");
    let plan = [
        phase("sizes", "size = 64\nsize_max = 3000\nkeys = true\ntags = \"red,green\"\nproperties = \"region=eu\""),
        phase("payloads", "payloads = \"payloads.jsonl\"\narrivals = \"poisson\"\ntick = 0"),
        phase("packed", "compression = \"zlib\"\nrandom_share = 0.1\narrivals = \"bursts\"\nwire = \"compact\""),
        phase("batches", "batch = 10\narrivals = \"ramp\"\nrate_end = 600\nclient_duties = true"),
    ];
    let phases = phases("bench-extras", &plan.concat());
    assert_eq!(phases.len(), 4);
    let config = &phases[0]["config"];
    assert_eq!((&config["tags"], &config["properties"]), (&"red,green".into(), &"region=eu".into()));
    // Each line of the file is a body, behind its stamp of 24 bytes: 13 and 55 of them on average.
    let a_message = figure(&phases[1], "/mb_per_s") * 1e6 / figure(&phases[1], "/messages_per_s");
    assert!((20.0..80.0).contains(&a_message), "{a_message}");
}
