//! A generator that allocates for each message measures its allocator. This program has one test, as all of it is counted.

use std::net::TcpListener;
use std::time::Duration;

use clap::{Args as _, FromArgMatches};
use runtime::allocations::{self, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// `ringmq bench send` with these options; how often it asked for memory.
fn allocations_of(broker: &str, options: &[&str]) -> u64 {
    let command = bench::Args::augment_args(clap::Command::new("bench"));
    let words =
        ["bench", "send", "--no-create", "--no-offset-check", "--topic", "T", "--size", "128", "--warmup", "0.1"];
    let matches = command.get_matches_from(words.iter().chain(&["--broker", broker]).chain(options));
    let args = bench::Args::from_arg_matches(&matches).expect("these are its arguments");
    let before = allocations::count();
    bench::run(args).expect("the target answers");
    allocations::count() - before
}

#[test]
fn a_message_needs_no_memory_of_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let broker = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || bench::canned::serve(&listener, Duration::ZERO));
    for (load, fewer, more) in [
        ("closed loop", &["--messages", "100000"][..], &["--messages", "200000"][..]),
        ("open loop", &["--rate", "50000", "--duration", "2"], &["--rate", "50000", "--duration", "4"]),
    ] {
        // What is made once a process is made.
        allocations_of(&broker, fewer);
        let [fewer, more] = [fewer, more].map(|options| allocations_of(&broker, options));
        println!("{load}: {fewer} allocations, and {more} with 100,000 messages more");
        // Each second has a line, and tables grow by doubling.
        assert!(more < fewer + 1000, "{load}: {fewer} allocations, and {more} with 100,000 messages more");
    }
}
