//! `compat replies`: plays `tests/compat/scenario.txt` on Apache RocketMQ and on RingMQ and compares what they answer.
//! `compat import [stop|kill]`: lets Apache make a store, imports it, and compares what both serve from it.
//! `compat sql92 FILE`: writes filter expressions with Apache's verdicts into a file.
//!
//! Both sides are started here, unless addresses are given. It fails on a difference that is not in
//! `tests/compat/differences.tsv`, and on one that is there and did not occur.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use harness::compat::apache::{self, Apache, End};
use harness::compat::difference::{Accepted, between, sort};
use harness::compat::play::{Addresses, Played, play};
use harness::compat::{import as stores, rule, scenario, sql92};
use harness::now_ms;
use harness::process::Dev;

const USAGE: &str = "\
usage: compat replies [--apache NAMESRV,BROKER] [--ringmq NAMESRV,BROKER] [--known]
       compat import [stop|kill]
       compat sql92 FILE [--seed N] [--count N]";

/// What both brokers are started with.
const PROPERTIES: [&str; 14] = [
    "brokerName=broker-a",
    "brokerClusterName=DefaultCluster",
    "brokerId=0",
    "brokerIP1=127.0.0.1",
    "brokerIP2=127.0.0.1",
    "brokerRole=ASYNC_MASTER",
    "flushDiskType=ASYNC_FLUSH",
    "autoCreateTopicEnable=true",
    "autoCreateSubscriptionGroup=true",
    "enablePropertyFilter=true",
    "recallMessageEnable=true",
    "transactionTimeOut=2000",
    "transactionCheckInterval=1000",
    "mappedFileSizeCommitLog=67108864",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["replies", options @ ..] => replies(options),
        ["import"] => import(&[End::Stop, End::Kill]),
        ["import", "stop"] => import(&[End::Stop]),
        ["import", "kill"] => import(&[End::Kill]),
        ["sql92", file, options @ ..] => judge(file, options),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("compat: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("compat")
}

fn read(name: &str) -> Result<String, String> {
    let path = folder().join(name);
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn replies(options: &[&str]) -> Result<(), String> {
    let (mut apache, mut ringmq, mut show_known) = (None, None, false);
    let mut words = options.iter();
    while let Some(word) = words.next() {
        match *word {
            "--apache" => apache = Some(addresses(words.next().ok_or(USAGE)?)?),
            "--ringmq" => ringmq = Some(addresses(words.next().ok_or(USAGE)?)?),
            "--known" => show_known = true,
            other => return Err(format!("unknown argument {other}\n{USAGE}")),
        }
    }
    let steps = scenario::parse(&read("scenario.txt")?).map_err(|error| format!("scenario.txt: {error}"))?;
    let accepted = Accepted::parse(&read("differences.tsv")?).map_err(|error| format!("differences.tsv: {error}"))?;
    let on_apache = match apache {
        Some(addresses) => played(&steps, &addresses)?,
        None => {
            let servers = Apache::start(&apache::jars()?, &PROPERTIES)?;
            played(&steps, &Addresses { namesrv: servers.namesrv, broker: servers.broker })?
        }
    };
    let on_ringmq = match ringmq {
        Some(addresses) => played(&steps, &addresses)?,
        None => {
            let dev =
                PROPERTIES.iter().fold(Dev::new("compat").without_properties(), |dev, property| dev.property(property));
            let _process = dev.try_start()?;
            played(&steps, &Addresses { namesrv: dev.namesrv, broker: dev.broker })?
        }
    };
    let differences = between(&on_apache, &on_ringmq);
    let (new, known, gone) = sort(&differences, &accepted);
    let table = if show_known { differences.iter().collect() } else { new.clone() };
    println!("step\tcode\tfact\tApache\tRingMQ");
    table.iter().for_each(|difference| println!("{difference}"));
    gone.iter().for_each(|accepted| println!("accepted, but it did not occur: {} {}", accepted.step, accepted.fact));
    let codes: std::collections::BTreeSet<i32> = on_apache.iter().map(|(_, code, _)| *code).collect();
    println!(
        "{} answers of {} request codes compared: {} differences, {} of them accepted; {} accepted ones did not occur",
        on_apache.len(),
        codes.len(),
        differences.len(),
        known.len(),
        gone.len()
    );
    match new.is_empty() && gone.is_empty() {
        true => Ok(()),
        false => Err("the differences are not those of tests/compat/differences.tsv".to_owned()),
    }
}

fn addresses(text: &str) -> Result<Addresses, String> {
    let (namesrv, broker) = text.split_once(',').ok_or_else(|| format!("{text} is not NAMESRV,BROKER"))?;
    Ok(Addresses { namesrv: namesrv.to_owned(), broker: broker.to_owned() })
}

/// The normalised answers. As they are, they go to a file in the folder that `RINGMQ_COMPAT_RAW` names.
fn played(steps: &[scenario::Step], addresses: &Addresses) -> Result<Played, String> {
    let raw =
        std::env::var_os("RINGMQ_COMPAT_RAW").map(|folder| Path::new(&folder).join(addresses.broker.replace(':', "-")));
    let mut raw =
        raw.map(|path| File::create(&path).map_err(|error| format!("{}: {error}", path.display()))).transpose()?;
    let played = play(steps, addresses, &mut |step, facts| {
        if let Some(file) = &mut raw {
            writeln!(file, "{step} {facts:?}").expect("the file takes all");
        }
    })?;
    let now_ms = now_ms();
    Ok(played
        .into_iter()
        .map(|(step, code, facts)| (step, code, rule::normalised(&facts, addresses, now_ms)))
        .collect())
}

fn import(ends: &[End]) -> Result<(), String> {
    let jars = apache::jars()?;
    ends.iter().try_for_each(|end| stores::run(&jars, *end))
}

fn judge(file: &str, options: &[&str]) -> Result<(), String> {
    let (mut seed, mut count) = (1, 5_000);
    for pair in options.chunks(2) {
        let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is no number\n{USAGE}"));
        match pair {
            ["--seed", value] => seed = number(value)?,
            ["--count", value] => count = number(value)?,
            other => return Err(format!("unknown arguments {other:?}\n{USAGE}")),
        }
    }
    let cases = sql92::draw(seed, usize::try_from(count).expect("a number of cases fits"));
    let judged = sql92::judge(&cases, &apache::jars()?)?;
    std::fs::write(file, judged).map_err(|error| format!("{file}: {error}"))
}
