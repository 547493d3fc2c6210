//! `ringmq bench peer`: both brokers are started, measured in turn and ended, and the table names what it was made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::bench::{EXIT_OK, EXIT_PARTIAL, EXIT_VOID, RUN_WITHIN, record};
use harness::folder::Folder;
use harness::left_out;
use harness::program::{self, signal, wait_or_kill};

/// A JVM starts, on a machine that is busy with other tests.
const COMPARED_WITHIN: Duration = Duration::from_secs(300);

/// Jars of Apache RocketMQ that are on this machine already: fetching them takes too long for a test.
fn jars() -> Option<PathBuf> {
    let given = ["RINGMQ_APACHE_JARS", "ROCKETMQ_HOME"].into_iter().find_map(std::env::var_os).map(PathBuf::from);
    let cache = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/ringmq/apache-rocketmq-5.4.0"));
    let found = given.or_else(|| cache.filter(|cache| cache.join("complete").exists()).map(|cache| cache.join("lib")));
    let found = found.filter(|_| Command::new("java").arg("-version").output().is_ok());
    if found.is_none() {
        left_out("the comparison", "no Java, or no Apache RocketMQ (`ringmq bench peer --fetch` gets it by Maven)");
    }
    found
}

/// Processes that were started with something below this folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy().into_owned();
    let entries = fs::read_dir("/proc").expect("/proc is there").filter_map(Result::ok);
    let commands = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let commands = commands.map(|command| String::from_utf8_lossy(&command).replace('\0', " "));
    commands.filter(|command| command.contains(&folder)).collect()
}

#[test]
fn both_are_measured_in_turn_and_the_table_names_what_it_is_made_of() {
    let Some(jars) = jars() else { return };
    let folder = Folder::new("bench-peer");
    let out = folder.path().join("peer");
    let mut command = Command::new(program::path());
    command.args(["bench", "peer", "--rounds", "1", "--only", "one-at-a-time", "--warm-up", "0", "--heap", "512m"]);
    command.args(["--set", "duration=1s", "--set", "warmup=0", "--apache"]).arg(jars).arg("--out").arg(&out);
    let finished = program::run_command(command, COMPARED_WITHIN);
    let code = finished.code;
    assert!([EXIT_OK, EXIT_VOID, EXIT_PARTIAL].map(Some).contains(&code), "{code:?}: {}", finished.text());
    let table = fs::read_to_string(out.join("table.md")).expect("the table is left");
    assert_eq!(table, finished.stdout);
    let row = table.lines().find(|line| line.contains("one message at a time")).expect("the row is there");
    assert!(row.matches("µs CPU").count() == 2 && row.split('|').count() == 6, "{row}");
    for product in ["ringmq", "apache"] {
        let run = out.join(format!("peer-sync-{product}"));
        let record = record(&run);
        assert_eq!((&record["state"], &record["target"]["flush"]), (&"complete".into(), &"SYNC_FLUSH".into()));
        let sum = Command::new("sh").arg("-c").arg("cat run.json *.hlog | sha256sum").current_dir(&run).output();
        let sum = String::from_utf8_lossy(&sum.expect("a shell is there").stdout).into_owned();
        let hash = sum.split(' ').next().expect("a hash stands first");
        assert!(hash.len() == 64 && table.contains(hash), "{product} {hash}: {table}");
    }
    assert_eq!(processes_of(folder.path()), Vec::<String>::new(), "all that was started has ended");
    assert!(!out.join("servers/peer-sync-apache/store").exists(), "stores are removed");
}

#[test]
fn a_stop_ends_the_servers_too() {
    let Some(jars) = jars() else { return };
    let folder = Folder::new("bench-peer-stop");
    let out = folder.path().join("peer");
    let mut command = Command::new(program::path());
    command.args(["bench", "peer", "--only", "open-1000", "--warm-up", "0", "--heap", "512m", "--apache"]);
    command.arg(jars).arg("--out").arg(&out).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("ringmq can be started");
    while processes_of(&out).iter().filter(|command| command.starts_with("java")).count() < 2 {
        assert!(child.try_wait().expect("a child can be waited for").is_none(), "it ended before it started Apache's");
        std::thread::sleep(Duration::from_millis(100));
    }
    signal(child.id(), "INT");
    assert_eq!(wait_or_kill(&mut child, RUN_WITHIN), (Some(EXIT_PARTIAL), false));
    assert_eq!(processes_of(folder.path()), Vec::<String>::new());
}

#[test]
fn what_is_no_distribution_is_told() {
    let folder = Folder::new("bench-peer-none");
    let arguments = ["bench", "peer", "--apache", &folder.path().to_string_lossy()];
    let finished = program::run(&arguments, RUN_WITHIN);
    assert!(finished.code == Some(1) && finished.stderr.contains("rocketmq-broker-"), "{}", finished.text());
    assert!(finished.stderr.contains("--apache"), "{}", finished.stderr);
}
