//! A store that Apache RocketMQ made, imported, and served by RingMQ: what was in it is still there, and what waited comes.
//!
//! Apache's broker is [`fill`]ed with every kind of message, its [`state`] is read from outside, it is stopped or killed;
//! then the same questions go to RingMQ on the imported store, and [`outcome`] waits for what was to come.

pub mod fill;
pub mod outcome;
pub mod state;

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::apache::{Apache, End};
use crate::connection::Connection;
use crate::process::Dev;
use crate::program;

/// Both brokers have segments of so many bytes: the store has several of them.
const SEGMENT_BYTES: u32 = 4 << 20;
/// Apache's keys. The last levels are what waits over the import.
const APACHE: [&str; 13] = [
    "brokerName=broker-a",
    "brokerClusterName=DefaultCluster",
    "brokerIP1=127.0.0.1",
    "mappedFileSizeCommitLog=4194304",
    "mappedFileSizeConsumeQueue=20000",
    "mappedFileSizeTimerLog=1048576",
    "messageDelayLevel=1s 4s 240s",
    "recallMessageEnable=true",
    "transactionTimeOut=600000",
    "deleteCommitLogFilesInterval=10",
    // The machine may be busy, and nobody is in a hurry.
    "brokerFastFailureEnable=false",
    "waitTimeMillsInSendQueue=60000",
    "osPageCacheBusyTimeOutMills=60000",
];
const RINGMQ: [&str; 5] = [
    "brokerName=broker-a",
    "brokerClusterName=DefaultCluster",
    "transactionTimeOut=1000",
    "transactionCheckInterval=1000",
    "recallMessageEnable=true",
];
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// An import of a store of some megabytes, by a debug build on a busy machine.
const IMPORT_WITHIN: Duration = Duration::from_secs(180);

/// Does all of it once.
///
/// # Errors
/// What is not as it should be.
pub fn run(jars: &Path, end: End) -> Result<(), String> {
    let mut apache = Apache::start(jars, &APACHE)?;
    println!("filling Apache's broker {}", apache.broker);
    let filled = fill::fill(&apache.broker)?;
    let before = state::read(&mut open(&apache.broker)?)?;
    println!("{}: {}", if end == End::Kill { "kill -9" } else { "stop" }, before.summary());
    let recent = fill::just_before_the_end(&apache.broker, &filled)?;
    let source = apache.store();
    refused_while_it_runs(&source)?;
    apache.end(end)?;
    let listed = contents(&source)?;

    let dev = Dev::new("import").without_properties().property(&format!("mappedFileSizeCommitLog={SEGMENT_BYTES}"));
    let dev = RINGMQ.iter().fold(dev, |dev, property| dev.property(property));
    fs::create_dir_all(dev.store()).map_err(|error| format!("{}: {error}", dev.store().display()))?;
    let target = dev.store().join("store");
    let (from, to, logs) = (source.to_string_lossy(), target.to_string_lossy(), dev.logs.to_string());
    let imported = program::run(&["store", "import", &from, "--to", &to, "--logs", &logs], IMPORT_WITHIN);
    println!("{}", imported.text());
    if imported.code != Some(0) {
        return Err(format!("the import ends with {:?}", imported.code));
    }
    if contents(&source)? != listed {
        return Err("the import has changed its source".to_owned());
    }
    let _process = dev.try_start()?;
    let mut connection = open(&dev.broker)?;
    let after = state::read(&mut connection)?;
    let differences = before.differences(&after);
    println!("RingMQ: {}; {} differences", after.summary(), differences.len());
    if !differences.is_empty() {
        return Err(differences.join("\n"));
    }
    outcome::check(&dev.broker, &filled, &recent)?;
    println!("all that waited came once, and what was done did not come again");
    Ok(())
}

fn refused_while_it_runs(source: &Path) -> Result<(), String> {
    let from = source.to_string_lossy();
    let refused = program::run(&["store", "import", &from, "--to", "ringmq-never-made"], IMPORT_WITHIN);
    match refused.code {
        Some(7) if refused.stderr.contains("a broker runs on") => Ok(()),
        code => Err(format!("an import of a running broker's store ends with {code:?}: {}", refused.text())),
    }
}

/// A connection with patience: Apache's broker shares a busy machine with us.
fn open(address: &str) -> Result<Connection, String> {
    let connection = Connection::open(address).map_err(|error| format!("{address}: {error}"))?;
    connection.set_patience(ANSWER_WITHIN).map_err(|error| format!("{address}: {error}"))?;
    Ok(connection)
}

/// The names, sizes and times of all files below a folder.
fn contents(folder: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for name in crate::folder::listing(folder) {
        let path = folder.join(&name);
        let metadata = fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        found.push(format!("{name} {} {:?}", metadata.len(), metadata.modified().ok()));
    }
    Ok(found)
}
