//! Whether what is told is true: of a target that takes a known time for each answer.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use clap::{Args as _, FromArgMatches};
use serde_json::Value;

/// Far above what a thread that sleeps wakes late on a busy machine.
const DELAY: Duration = Duration::from_millis(20);

/// `ringmq bench send` with these options; the first and the middle of its latencies, in microseconds.
fn latencies_of(broker: &str, name: &str, options: &[&str]) -> (f64, f64) {
    let out = std::env::temp_dir().join(format!("ringmq-known-delay-{}-{name}", std::process::id()));
    let command = bench::Args::augment_args(clap::Command::new("bench"));
    let words =
        ["bench", "send", "--no-create", "--no-offset-check", "--topic", "T", "--duration", "2", "--warmup", "0.2"];
    let folder = out.to_string_lossy();
    let matches = command.get_matches_from(words.iter().chain(&["--broker", broker, "--out", &folder]).chain(options));
    let args = bench::Args::from_arg_matches(&matches).expect("these are its arguments");
    bench::run(args).expect("the target answers");
    let record = fs::read_to_string(out.join("run.json")).expect("a run leaves run.json");
    let record: Value = serde_json::from_str(&record).expect("it is JSON");
    let middle = record["phases"][0]["figures"]["latency_us"]["p50"].as_f64().expect("a number");
    let percentiles = fs::read_to_string(out.join("01-send.send.hgrm")).expect("a run leaves percentiles");
    let mut values = percentiles.lines().filter_map(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let first = values.next().expect("there are some");
    fs::remove_dir_all(&out).expect("the folder is there");
    (first, middle)
}

#[test]
fn what_a_target_takes_is_what_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let broker = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || bench::canned::serve(&listener, DELAY));
    let delay_us = DELAY.as_micros() as f64;
    for (name, options) in [
        ("ticks", &["--rate", "300"][..]),
        ("even", &["--rate", "300", "--tick-us", "0"]),
        ("closed", &["--connections", "4", "--window", "1"]),
        ("waiting", &["--connections", "1", "--window", "1"]),
    ] {
        let (first, middle) = latencies_of(&broker, name, options);
        // Whatever the machine does, none is quicker than the target.
        assert!(first >= delay_us, "{name}: one took {first} us of {delay_us}");
        assert!(middle <= 2.0 * delay_us, "{name}: the middle is {middle} us of {delay_us}");
    }
}
