//! A broker killed under load loses nothing that it acknowledged or showed, with what tears leave behind the end of its logs
//! (A5 in the list of public faults). `cargo xtask kill9 --rounds 50` does more of it.

use std::fs;

use harness::connection::Connection;
use harness::frame::Frame;
use harness::kill9::{Flush, Settings, run};
use harness::process::Dev;
use harness::request::{CODE_OK, UPDATE_GROUP, create_topic};
use harness::target::TARGET_VARIABLE;
use harness::{left_out, now_ms};
use serde_json::Value;

const DELETE_TOPIC: i32 = 215;
const TOPIC_CONFIG: i32 = 351;
const GROUP_CONFIG: i32 = 352;

/// Rounds when the environment does not say otherwise; the fifth is a long one.
const ROUNDS: u32 = 5;

fn kill_again_and_again(test: &str, flush: Flush) {
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out(test, "the given servers are not ours to kill");
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = number("RINGMQ_KILL9_ROUNDS").map_or(ROUNDS, |rounds| u32::try_from(rounds).expect("few rounds"));
    let seed = number("RINGMQ_KILL9_SEED").unwrap_or_else(now_ms);
    println!("{test}: RINGMQ_KILL9_SEED={seed}");
    let report = run(&Settings { flush, rounds, seed, damage: true, verbose: true });
    if let Some(fault) = report.fault {
        panic!("{fault}");
    }
    assert_eq!(report.rounds_passed, rounds);
    assert!(report.acknowledged > 0 && report.seen > 0, "the load did nothing: {report:?}");
}

#[test]
fn synchronous_flush_keeps_what_it_acknowledged() {
    kill_again_and_again("synchronous_flush_keeps_what_it_acknowledged", Flush::Sync);
}

#[test]
fn asynchronous_flush_keeps_what_it_acknowledged() {
    kill_again_and_again("asynchronous_flush_keeps_what_it_acknowledged", Flush::Async);
}

/// Who made a table's file how often: the number in its first line.
fn generation(dev: &Dev, table: &str) -> u64 {
    let path = dev.store().join("store/config").join(table);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let number = text.split_whitespace().nth(2).and_then(|word| word.parse().ok());
    number.unwrap_or_else(|| panic!("{} begins with no generation", path.display()))
}

#[test]
fn topics_and_groups_made_one_by_one_survive_a_kill_and_cost_the_same_however_many_there_are() {
    const ROUNDS: u32 = 3;
    const EACH: u32 = 300;
    const DELETED_OF: u32 = 100;
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out("topics_and_groups_made_one_by_one", "the given servers are not ours to kill");
    }
    let dev = Dev::new("many-topics");
    for round in 0..ROUNDS {
        let running = dev.start();
        let mut connection = Connection::open(&dev.broker).expect("it listens");
        let before = ["topics.json", "subscriptionGroup.json"].map(|table| generation(&dev, table));
        for number in round * EACH..(round + 1) * EACH {
            let topic = format!("topic-{number}");
            connection.call_ok(&create_topic(&topic, 1 + number % 7)).expect("made");
            let group = format!(r#"{{"groupName":"group-{number}","retryMaxTimes":{}}}"#, number % 9);
            connection.call_ok(&Frame::request(UPDATE_GROUP).body(group)).expect("made");
            if number % DELETED_OF == 0 {
                connection.call_ok(&Frame::request(DELETE_TOPIC).field("topic", topic)).expect("deleted");
            }
        }
        let after = ["topics.json", "subscriptionGroup.json"].map(|table| generation(&dev, table));
        assert!(
            after.iter().zip(before).all(|(after, before)| after - before <= 2),
            "the tables were written as a whole again and again: {before:?} to {after:?}"
        );
        // With SIGKILL.
        drop(running);
        let running = dev.start();
        assert!(!running.log().contains("was damaged"), "{}", running.log());
        let mut connection = Connection::open(&dev.broker).expect("it listens");
        for number in 0..(round + 1) * EACH {
            let answer = connection.call(&Frame::request(TOPIC_CONFIG).field("topic", format!("topic-{number}")));
            let answer = answer.expect("answered");
            if number % DELETED_OF == 0 {
                assert_ne!(answer.code, CODE_OK, "topic-{number} was deleted");
                continue;
            }
            let topic: Value = serde_json::from_slice(&answer.body).expect("a topic's configuration");
            assert_eq!(topic["writeQueueNums"], 1 + number % 7, "topic-{number}: {topic}");
            let group = Frame::request(GROUP_CONFIG).field("group", format!("group-{number}"));
            let group: Value =
                serde_json::from_slice(&connection.call_ok(&group).expect("there").body).expect("a group's settings");
            assert_eq!(group["retryMaxTimes"], number % 9, "group-{number}: {group}");
        }
    }
}
