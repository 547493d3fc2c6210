//! `ringmq bench` as a program: run folders, stops, outages, full disks, nonsense.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::bench::{
    EXIT_CONFIGURATION, EXIT_OK, EXIT_PARTIAL, EXIT_SILENCE, EXIT_USAGE, EXIT_VOID, RUN_WITHIN, assert_clean_or_void,
    bench, ending, number, record, run,
};
use harness::folder::Folder;
use harness::left_out;
use harness::official::Client;
use harness::ports::free_port;
use harness::process::{Dev, Running};
use harness::program::{self, signal, wait_or_kill};
use serde_json::Value;

const READY_WITHIN: Duration = Duration::from_secs(30);
const QUICK: [&str; 8] = ["run", "quick", "--set", "duration=3s", "--set", "warmup=500ms", "--seed", "5"];

#[test]
fn a_plan_leaves_a_folder_that_others_can_read() {
    let dev = Dev::new("bench-folder");
    let _running = dev.start();
    let folder = Folder::new("bench-folder-out");
    let out = folder.path().join("run");
    let finished = run(&QUICK, &dev.broker, &out);
    assert_clean_or_void(&finished);
    let record = record(&out);
    assert_eq!((&record["schema"], &record["state"], &record["seed"]), (&1.into(), &"complete".into(), &5.into()));
    assert!(
        record["target"]["version"].is_string() && record["target"]["configuration_hash"].is_string(),
        "{record:#}"
    );
    assert!(record["host"]["kernel"].is_string() && record["plan"]["text"].is_string(), "{record:#}");
    let names: Vec<&str> =
        record["phases"].as_array().unwrap().iter().filter_map(|phase| phase["name"].as_str()).collect();
    assert_eq!(names, ["saturation", "steady", "end-to-end"]);
    let steady = &record["phases"][1]["figures"];
    let (asked, sent) = (number(&steady["rate_asked"]), number(&steady["rate_sent"]));
    assert!((asked - 2000.0).abs() < 5.0, "{asked}");
    assert!((sent - asked).abs() < 60.0 || finished.code == Some(EXIT_VOID), "{sent} of {asked}");
    assert_eq!(finished.stdout.lines().count(), 3, "{}", finished.stdout);
    assert_eq!((ending(&out, ".hlog").len(), ending(&out, ".omb.json").len()), (3, 3));
    let page = fs::read_to_string(out.join("report.html")).expect("a run leaves a page");
    let foreign = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!foreign.contains("http") && !foreign.contains("<script") && page.ends_with("</html>\n"));
    let result = fs::read_to_string(&ending(&out, ".omb.json")[2]).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    assert!(result["publishRate"].as_array().unwrap().len() >= 3, "{result:#}");
    assert!(number(&result["aggregatedEndToEndLatency99pct"]) > 0.0, "{result:#}");
    read_by_java(&ending(&out, ".hlog")[2], &record["phases"][2]["figures"]);
    // The same folder again is refused, and stays as it is.
    let again = run(&QUICK, &dev.broker, &out);
    assert!(again.code == Some(1) && again.stderr.contains("--out"), "{}", again.text());
}

/// HdrHistogram's own reader must find in a log what the figures say.
fn read_by_java(log: &Path, figures: &Value) {
    let missing = ["java", "mvn"].into_iter().find(|name| Command::new(name).arg("-version").output().is_err());
    if let Some(name) = missing {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "`{name}` is missing");
        left_out(
            "the reader in Java",
            &format!("`{name}` is not on this machine (apt-get install default-jdk-headless maven)"),
        );
        return;
    }
    let client = Client::java("ringmq.HistogramLog").expect("the Java programs can be built");
    let output = client.command().arg(log).stdin(Stdio::null()).output().expect("java can be started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for (tag, figure) in [("send", "latency_us"), ("end-to-end", "end_to_end_us"), ("hiccup", "hiccup_us")] {
        let line =
            text.lines().find(|line| line.starts_with(&format!("{tag} "))).unwrap_or_else(|| panic!("{tag}: {text}"));
        let numbers: Vec<f64> = line.split(' ').skip(1).map(|word| word.parse().expect("a number")).collect();
        let [intervals, count, p50, p99, max] = numbers[..] else { panic!("{line}") };
        let figure = &figures[figure];
        assert!(intervals >= 3.0, "{line}");
        assert!((count - number(&figure["count"])).abs() < 0.5, "{line}: {figure}");
        for (name, ns) in [("p50", p50), ("p99", p99), ("max", max)] {
            let us = number(&figure[name]);
            assert!((ns / 1e3 - us).abs() <= us * 0.002 + 0.1, "{name} {line}: {figure}");
        }
    }
}

/// Starts a run whose output is kept.
fn start(mut command: Command) -> Running {
    command.env("NO_COLOR", "1");
    Running::start_command(command)
}

/// The exit code of a run that ends by itself.
fn end_of(run: &mut Running) -> i32 {
    run.await_end(RUN_WITHIN).unwrap_or_else(|| panic!("the run does not end: {}", run.log()))
}

#[test]
fn a_stop_keeps_what_was_measured() {
    let dev = Dev::new("bench-stop");
    let _running = dev.start();
    let folder = Folder::new("bench-stop-out");
    let out = folder.path().join("run");
    let arguments = ["run", "quick", "--set", "duration=60s", "--set", "warmup=0", "--live"];
    let mut child = start(bench(&arguments, &dev.broker, &out));
    await_lines(&out.join("intervals.csv"), 3);
    signal(child.pid(), "INT");
    assert_eq!(end_of(&mut child), EXIT_PARTIAL, "{}", child.log());
    let told = format!("stopped before the end; 1 of 3 phases are measured and kept in {}", out.display());
    assert!(child.log().contains(&told), "{}", child.log());
    let record = record(&out);
    assert_eq!(record["state"], "stopped");
    assert_eq!(record["phases"].as_array().map(Vec::len), Some(1));
    let phase = &record["phases"][0];
    assert!(phase["faults"][0].as_str().is_some_and(|fault| fault.starts_with("stopped after ")), "{phase:#}");
    let figures = &phase["figures"];
    assert!((0.5..30.0).contains(&number(&figures["seconds"])) && number(&figures["messages"]) > 0.0, "{figures:#}");
    assert!(out.join("report.html").exists());
}

#[test]
fn a_stop_does_not_wait_for_a_target_that_stands_still() {
    let dev = Dev::new("bench-stop-still");
    let running = dev.start();
    let folder = Folder::new("bench-stop-still-out");
    let out = folder.path().join("run");
    let plan = "[[phase]]\nkind = \"tail\"\nrate = 500\nwarmup = 0\nduration = \"60s\"\nclient_duties = true\n";
    let plan = folder.file("still.toml", plan);
    let mut child = start(bench(&["run", plan.to_str().unwrap()], &dev.broker, &out));
    await_lines(&out.join("intervals.csv"), 3);
    signal(running.pid(), "STOP");
    signal(child.pid(), "INT");
    let asked = Instant::now();
    assert_eq!(end_of(&mut child), EXIT_PARTIAL, "{}", child.log());
    // A question to it alone takes 5 s.
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}: {}", asked.elapsed(), child.log());
    let record = record(&out);
    let phase = &record["phases"][0];
    assert_eq!((&record["state"], phase["stages"].is_null()), (&"stopped".into(), true), "{phase:#}");
    assert!(phase["faults"].to_string().contains("stopped after "), "{phase:#}");
    assert!(phase["warnings"].to_string().contains("did not answer where its time goes"), "{phase:#}");
}

#[test]
fn a_stop_in_the_warm_up_measures_nothing_and_says_so() {
    let dev = Dev::new("bench-stop-early");
    let _running = dev.start();
    let folder = Folder::new("bench-stop-early-out");
    for kind in ["send", "tail"] {
        let out = folder.path().join(kind);
        let plan = format!("[[phase]]\nkind = \"{kind}\"\nrate = 500\nwarmup = \"60s\"\n");
        let plan = folder.file(&format!("{kind}.toml"), &plan);
        let mut child = start(bench(&["run", plan.to_str().unwrap()], &dev.broker, &out));
        await_lines(&out.join(format!("01-{kind}.hlog")), 1);
        thread::sleep(Duration::from_millis(700));
        signal(child.pid(), "INT");
        assert_eq!(end_of(&mut child), EXIT_PARTIAL, "{}", child.log());
        assert!(child.log().contains("stopped before the end; 0 of 1 phases are measured"), "{}", child.log());
        assert!(!child.log().contains("18446744"), "{}", child.log());
        let record = record(&out);
        assert_eq!((&record["state"], &record["phases"]), (&"stopped".into(), &Value::Array(Vec::new())));
        assert!(ending(&out, ".hlog").is_empty(), "nothing is left of a phase that has no figures");
    }
}

#[test]
fn a_broker_that_dies_for_good_leaves_what_was_measured_of_it() {
    let dev = Dev::new("bench-dead");
    let mut running = dev.start();
    let folder = Folder::new("bench-dead-out");
    let out = folder.path().join("run");
    let phase = |name: &str| format!("[[phase]]\nname = \"{name}\"\nkind = \"tail\"\nrate = 500\n");
    let plan = format!("[defaults]\nwarmup = 0\nduration = \"5s\"\n{}{}", phase("first"), phase("second"));
    let plan = folder.file("dead.toml", &plan);
    let mut child = start(bench(&["run", plan.to_str().unwrap()], &dev.broker, &out));
    await_lines(&out.join("intervals.csv"), 4);
    running.kill();
    assert_eq!(end_of(&mut child), EXIT_PARTIAL, "{}", child.log());
    assert!(child.log().contains("1 of 2 phases are measured and kept in"), "{}", child.log());
    let record = record(&out);
    assert_eq!((&record["state"], record["cause"].is_string()), (&"failed".into(), true));
    assert_eq!(record["phases"].as_array().map(Vec::len), Some(1));
    let phase = &record["phases"][0];
    assert!(number(&phase["figures"]["messages"]) > 100.0, "{phase:#}");
    let faults = phase["faults"].to_string();
    assert!(faults.contains("away at the end") && faults.contains("connections_lost"), "{faults}");
}

#[test]
fn a_broker_that_is_away_between_two_phases_is_awaited() {
    let dev = Dev::new("bench-between");
    let mut running = dev.start();
    let folder = Folder::new("bench-between-out");
    let out = folder.path().join("run");
    let plan = "[defaults]\nwarmup = 0\nduration = \"3s\"\nrate = 300\nkind = \"send\"\n\
                [[phase]]\nname = \"first\"\n[[phase]]\nname = \"second\"\n";
    let plan = folder.file("between.toml", plan);
    let mut child = start(bench(&["run", plan.to_str().unwrap()], &dev.broker, &out));
    await_lines(&out.join("intervals.csv"), 4);
    running.kill();
    // The first phase is over when its figures are there; the second one finds nobody then.
    await_lines(&out.join("phases.csv"), 2);
    thread::sleep(Duration::from_millis(500));
    let _running = dev.start();
    assert_eq!(end_of(&mut child), EXIT_PARTIAL, "{}", child.log());
    let record = record(&out);
    assert_eq!(record["state"], "complete", "{}", child.log());
    let second = &record["phases"][1];
    assert!(number(&second["figures"]["messages"]) > 500.0 && second["faults"][0].is_null(), "{second:#}");
}

#[test]
fn an_outage_is_in_the_percentiles_and_the_run_goes_on() {
    let dev = Dev::new("bench-outage");
    let mut running = dev.start();
    let folder = Folder::new("bench-outage-out");
    let out = folder.path().join("run");
    let arguments = ["run", "failover", "--set", "duration=14s", "--set", "warmup=0", "--set", "rate=500"];
    let mut command = bench(&arguments, &dev.broker, &out);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("ringmq can be started");
    await_lines(&out.join("intervals.csv"), 4);
    running.kill();
    let away = Instant::now();
    thread::sleep(Duration::from_millis(1500));
    let _running = dev.start();
    let away_ms = away.elapsed().as_millis() as f64;
    let (code, timed_out) = wait_or_kill(&mut child, RUN_WITHIN);
    let record = record(&out);
    let phase = &record["phases"][0];
    assert!(!timed_out && code == Some(EXIT_PARTIAL), "{code:?} {phase:#}");
    assert_eq!(record["state"], "complete");
    assert!(!phase["faults"].as_array().expect("a list of faults").is_empty(), "{phase:#}");
    let figures = &phase["figures"];
    assert!(number(&figures["connections_lost"]) > 0.0 && number(&figures["away_ms_max"]) > 1000.0, "{figures:#}");
    let max_us = number(&figures["latency_us"]["max"]);
    assert!(max_us > 1_500_000.0 && max_us < (away_ms + 20_000.0) * 1000.0, "{max_us} us of {away_ms} ms");
    // What was due while it was away was sent after: 1.5 s of 14 s are far more than 1 in 100.
    assert!(number(&figures["latency_us"]["p99"]) > 500_000.0, "{figures:#}");
    assert!(number(&figures["messages"]) > 500.0 * 14.0 * 0.8, "{figures:#}");
    assert_eq!(number(&figures["messages_missing"]), 0.0, "{figures:#}");
}

#[test]
fn what_was_popped_before_an_outage_comes_again_and_nothing_is_missing() {
    let dev = Dev::new("bench-pop-outage");
    let mut running = dev.start();
    let folder = Folder::new("bench-pop-outage-out");
    let out = folder.path().join("run");
    let mut arguments = vec!["run", "failover", "--set", "duration=10s", "--set", "warmup=0", "--set", "rate=500"];
    arguments.extend(["--set", "consumers=pop", "--set", "consumer_connections=2", "--set", "invisible=2s"]);
    let mut command = bench(&arguments, &dev.broker, &out);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("ringmq can be started");
    await_lines(&out.join("intervals.csv"), 4);
    running.kill();
    let _running = dev.start();
    let (code, timed_out) = wait_or_kill(&mut child, RUN_WITHIN);
    let record = record(&out);
    let phase = &record["phases"][0];
    assert!(!timed_out && code == Some(EXIT_PARTIAL), "{code:?} {phase:#}");
    let figures = &phase["figures"];
    let value = |name: &str| number(&figures[name]);
    // A connection that is made while the killed broker's listening socket is still there is lost, too.
    assert!(value("pull_connections_lost") >= 2.0 && value("messages_missing") == 0.0, "{figures:#}");
    // Each that came was acknowledged, or its acknowledgement was lost with its connection.
    assert_eq!(value("acknowledged") + value("acks_lost"), value("messages_consumed"), "{figures:#}");
    assert!(value("messages_repeated") <= value("messages_consumed") / 2.0, "{figures:#}");
}

#[test]
fn an_outage_can_be_a_command() {
    let dev = Dev::new("bench-command");
    let running = dev.start();
    let folder = Folder::new("bench-command-out");
    let out = folder.path().join("run");
    let pid = running.pid();
    let outage = format!("kill -STOP {pid}; sleep 1.5; kill -CONT {pid}");
    let mut arguments = vec!["run", "failover", "--set", "duration=6s", "--set", "warmup=0", "--set", "rate=200"];
    arguments.extend(["--outage-command", &outage]);
    assert_clean_or_void(&run(&arguments, &dev.broker, &out));
    let figures = &record(&out)["phases"][0]["figures"];
    assert!(number(&figures["latency_us"]["max"]) > 1_400_000.0, "{figures:#}");
    assert!(number(&figures["latency_us"]["p50"]) < 500_000.0, "{figures:#}");
}

#[test]
fn a_server_that_stands_still_for_a_second_shows_in_full() {
    let dev = Dev::new("bench-stall");
    let running = dev.start();
    let folder = Folder::new("bench-stall-out");
    let out = folder.path().join("run");
    let plan = "[[phase]]\nkind = \"send\"\nrate = 1000\nwarmup = 0\nduration = \"8s\"\n";
    let plan = folder.file("stall.toml", plan);
    let mut child = bench(&["run", plan.to_str().unwrap()], &dev.broker, &out)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ringmq can be started");
    await_lines(&out.join("intervals.csv"), 3);
    signal(running.pid(), "STOP");
    thread::sleep(Duration::from_secs(1));
    signal(running.pid(), "CONT");
    let (code, timed_out) = wait_or_kill(&mut child, RUN_WITHIN);
    assert!(!timed_out && (code == Some(EXIT_OK) || code == Some(EXIT_VOID)), "{code:?}");
    let figures = &record(&out)["phases"][0]["figures"];
    let times = &figures["latency_us"];
    // An eighth of all messages fell into it, evenly from 1 s down to nothing.
    assert!((950_000.0..3_000_000.0).contains(&number(&times["max"])), "{times}");
    assert!(number(&times["p99"]) > 850_000.0 && number(&times["p90"]) > 100_000.0, "{times}");
}

#[test]
fn results_that_find_no_room_end_the_files_and_not_the_measurement() {
    let folder = Folder::new("bench-full-disk");
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&disk).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        left_out("a full disk for results", "the right to mount is missing");
        return;
    }
    let dev = Dev::new("bench-full-disk");
    let _running = dev.start();
    let finished = run(&QUICK, &dev.broker, &disk.join("run"));
    let unmounted = Command::new("umount").arg(&disk).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert_eq!(finished.code, Some(EXIT_PARTIAL), "{}", finished.text());
    assert_eq!(finished.stderr.matches("results cannot be written to").count(), 1, "{}", finished.stderr);
    assert_eq!(finished.stdout.lines().count(), 3, "{}", finished.text());
}

#[test]
fn nonsense_and_silence_have_their_exit_codes() {
    let folder = Folder::new("bench-nonsense");
    let nobody = harness::ports::free_address();
    let out = folder.path().join("run");
    let finished = run(&["run", "quick"], &nobody, &out);
    assert_eq!(finished.code, Some(EXIT_SILENCE), "{}", finished.text());
    assert!(finished.stderr.contains(&nobody), "{}", finished.stderr);
    assert!(!out.exists(), "nothing was measured, so nothing is left");
    let plan = folder.file("p.toml", "[[phase]]\nkind = \"send\"\nrat = 5\n");
    let finished = run(&["run", plan.to_str().unwrap()], &nobody, &folder.path().join("none"));
    assert_eq!(finished.code, Some(EXIT_CONFIGURATION), "{}", finished.text());
    assert!(finished.stderr.contains("p.toml:3:1: a phase has no key rat"), "{}", finished.stderr);
    assert!(finished.stderr.contains("did you mean rate?"), "{}", finished.stderr);
    assert!(!folder.path().join("none").exists());
    let finished = program::run(&["bench", "report", folder.path().to_str().unwrap()], RUN_WITHIN);
    assert!(finished.code == Some(1) && finished.stderr.contains("run.json"), "{}", finished.text());
}

#[test]
fn who_is_no_broker_is_told_apart_before_anything_is_made() {
    let dev = Dev::new("bench-wrong-kind");
    let _running = dev.start();
    let folder = Folder::new("bench-wrong-kind-out");
    let out = folder.path().join("run");
    let finished = run(&["run", "quick"], &dev.namesrv, &out);
    assert_eq!(finished.code, Some(EXIT_USAGE), "{}", finished.text());
    let told =
        format!("{} is a nameserver; messages are measured at a broker: --broker {} for", dev.namesrv, dev.broker);
    assert!(finished.stderr.contains(&told), "{}", finished.stderr);
    // Somebody who says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = silent.local_addr().expect("it is bound").to_string();
    let finished = run(&["send"], &address, &out);
    assert_eq!(finished.code, Some(EXIT_SILENCE), "{}", finished.text());
    assert!(finished.stderr.contains("give a broker's own address"), "{}", finished.stderr);
    assert!(!out.exists());
    let finished = program::run(&["bench", "send", "--broker", "nonsense"], RUN_WITHIN);
    assert!(finished.code == Some(EXIT_USAGE) && finished.stderr.contains("host:port"), "{}", finished.text());
    // A topic that is not there.
    let arguments = ["consume", "--topic", "bench_nothing", "--queues", "2"];
    let finished = run(&arguments, &dev.broker, &out);
    assert!(finished.code == Some(EXIT_USAGE) && finished.stderr.contains("bench_nothing"), "{}", finished.text());
}

#[test]
fn what_a_phase_made_for_itself_is_gone_after_it() {
    let dev = Dev::new("bench-topics");
    let _running = dev.start();
    let topics = || program::run(&["admin", "topicList", "-n", &dev.namesrv], RUN_WITHIN).stdout;
    let groups = || program::run(&["admin", "consumerProgress", "-n", &dev.namesrv], RUN_WITHIN).stdout;
    let before = [topics(), groups()];
    let folder = Folder::new("bench-topics-out");
    let tail = ["tail", "--rate", "500", "--set", "duration=1s", "--set", "topics=2", "--set", "client_duties=true"];
    assert_clean_or_void(&run(&tail, &dev.broker, &folder.path().join("gone")));
    assert_eq!([topics(), groups()], before);
    let kept: Vec<&str> = tail.into_iter().chain(["--keep-topics"]).collect();
    assert_clean_or_void(&run(&kept, &dev.broker, &folder.path().join("kept")));
    let (topics, groups) = (topics(), groups());
    assert!(topics.contains("_1\n") && topics.contains("%RETRY%bench_consumer_"), "{topics}");
    assert!(groups.contains("bench_consumer_"), "{groups}");
}

/// One of the broker's nameservers is not there: what can be deleted is, and the rest is told.
#[test]
fn a_nameserver_that_is_away_keeps_nothing_else_from_being_deleted() {
    let dev = Dev::new("bench-clear");
    let _running = dev.start();
    let (folder, port) = (Folder::new("bench-clear-out"), free_port());
    let arguments = [
        "broker".to_owned(),
        format!("namesrvAddr=127.0.0.1:{};{}", free_port(), dev.namesrv),
        format!("listenPort={port}"),
        "brokerIP1=127.0.0.1".to_owned(),
        "brokerName=other".to_owned(),
        format!("storePathRootDir={}", folder.path().join("store").display()),
    ];
    let running = Running::start(&arguments);
    running.await_line("READY in", READY_WITHIN).unwrap_or_else(|log| panic!("not ready: {log}"));
    let topics = || program::run(&["admin", "topicList", "-n", &dev.namesrv], RUN_WITHIN).stdout;
    let send = ["send", "--duration", "1", "--warmup", "0", "--set", "topics=4"];
    let finished = run(&send, &format!("127.0.0.1:{port}"), &folder.path().join("out"));
    assert_clean_or_void(&finished);
    assert!(finished.stderr.contains("may be left"), "{}", finished.stderr);
    assert!(!topics().contains("bench_"), "{}", topics());
}

#[test]
fn a_comparison_says_what_it_cannot_compare() {
    let dev = Dev::new("bench-compare");
    let _running = dev.start();
    let folder = Folder::new("bench-compare-out");
    let out = folder.path().join("run");
    let arguments = ["send", "--duration", "1", "--warmup", "0"];
    assert_clean_or_void(&run(&arguments, &dev.broker, &out));
    let out = out.to_str().unwrap();
    let compare = |first: &str, second: &str| program::run(&["bench", "compare", first, second], RUN_WITHIN);
    let same = compare(out, &format!("{out}/."));
    assert_eq!(same.code, Some(EXIT_USAGE), "{}", same.text());
    assert!(same.stderr.contains("is the same run on both sides"), "{}", same.stderr);
    let mixed = compare(out, &dev.broker);
    assert_eq!(mixed.code, Some(EXIT_USAGE), "{}", mixed.text());
    assert!(mixed.stderr.contains("is a folder") && mixed.stderr.contains("is a broker's address"), "{}", mixed.stderr);
    let missing = compare(out, "not-there");
    assert!(missing.code == Some(1) && missing.stderr.contains("run.json"), "{}", missing.text());
}

/// Waits until a run has written so many lines.
fn await_lines(file: &Path, count: usize) {
    let began = Instant::now();
    while fs::read_to_string(file).unwrap_or_default().lines().count() < count {
        assert!(began.elapsed() < RUN_WITHIN, "{} does not grow to {count} lines", file.display());
        thread::sleep(Duration::from_millis(50));
    }
}
