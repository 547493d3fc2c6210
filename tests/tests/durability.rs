//! A broker killed under load loses nothing that it acknowledged or showed, with what tears leave behind the end of its logs
//! (A5 in the list of public faults). `cargo xtask kill9 --rounds 50` does more of it.

use harness::kill9::{Flush, Settings, run};
use harness::target::TARGET_VARIABLE;
use harness::{left_out, now_ms};

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
