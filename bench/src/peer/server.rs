//! A broker of a comparison, with its nameserver: started here, stands still while another one is measured, and is ended by
//! its own process id.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use runtime::process::{Pulse, StopSignal, tell};

use crate::clock::{RunClock, nanoseconds};
use crate::error::BenchError;
use crate::machine::Memory;
use crate::ready;

/// An empty store must take messages after so long; a JVM on a busy machine is slow.
const READY_TIME_MAX: Duration = Duration::from_secs(120);
/// A broker that was asked to end has so long.
const END_TIME_MAX: Duration = Duration::from_secs(40);
const END_PERIOD: Duration = Duration::from_millis(50);
const HOST: [u8; 4] = [127, 0, 0, 1];
const NAMESRV_HEAP: &str = "256m";
/// Of each server: nameserver, one between, two below the broker's, the broker's and one above.
const PORTS_EACH: u16 = 6;
/// What the JVM must open for Apache's broker.
const OPENS: [&str; 3] = [
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
];

/// Which broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Product {
    RingMq,
    Apache,
}

impl Product {
    pub(super) const BOTH: [Product; 2] = [Product::RingMq, Product::Apache];

    /// In names of folders and runs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Product::RingMq => "ringmq",
            Product::Apache => "apache",
        }
    }
}

/// What both are started with.
#[derive(Debug)]
pub(super) struct Site {
    /// Stores and logs of the servers lie below it.
    pub(super) folder: PathBuf,
    /// Of Apache's.
    pub(super) jars: PathBuf,
    pub(super) heap: String,
    /// Of RingMQ's broker beyond its defaults, `KEY=VALUE`.
    pub(super) settings: Vec<String>,
    pub(super) ports: RangeInclusive<u16>,
    pub(super) stop: Arc<StopSignal>,
    pub(super) keeps_stores: bool,
}

/// Processes that run. They end with the value.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) product: Product,
    pub(super) broker: SocketAddr,
    /// From its start until it stored a message.
    pub(super) ready_ms: u64,
    /// The broker's first.
    children: Vec<Child>,
    store: Option<PathBuf>,
}

impl Server {
    /// Starts a broker with an empty store and waits until it stores messages. `name` is that of its folder.
    ///
    /// # Errors
    /// When it cannot be started or does not get ready, with where its log is.
    pub(super) fn start(site: &Site, product: Product, name: &str, flush: &str) -> Result<Server, BenchError> {
        let folder = site.folder.join(name);
        let failed = |error: io::Error| BenchError::Peer { what: format!("{}: {error}", folder.display()) };
        fs::create_dir_all(&folder).map_err(failed)?;
        let ports = free_ports(&site.ports)?;
        let clock = RunClock::start();
        let store = folder.join("store");
        let children = match product {
            Product::RingMq => ring_mq(site, &folder, &store, ports, flush),
            Product::Apache => apache(site, &folder, &store, ports, flush),
        };
        let broker = SocketAddr::from((HOST, ports.broker));
        let removed = (!site.keeps_stores).then_some(store);
        let mut server = Server { product, broker, ready_ms: 0, children: children.map_err(failed)?, store: removed };
        ready::wait(broker, READY_TIME_MAX, || site.stop.is_asked()).map_err(|error| match error {
            BenchError::Stopped => error,
            error => {
                let log = folder.join("broker.log");
                let what = format!("{} does not get ready: {error}; see {}", product.name(), log.display());
                BenchError::Peer { what }
            }
        })?;
        server.ready_ms = clock.now_ns() / 1_000_000;
        Ok(server)
    }

    /// Of the broker.
    pub(super) fn pid(&self) -> u32 {
        self.children[0].id()
    }

    /// Lets its processes stand still, or go on.
    pub(super) fn pulse(&self, pulse: Pulse) {
        for child in &self.children {
            // One that has ended is found by whoever measures it.
            let _ = tell(child.id(), pulse);
        }
    }

    /// Resident memory of all its processes.
    pub(super) fn resident_bytes(&self) -> u64 {
        let memory = self.children.iter().filter_map(|child| Memory::of(&child.id().to_string()).ok());
        memory.map(|memory| memory.resident_bytes).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.children);
        if let Some(store) = &self.store
            && let Err(error) = fs::remove_dir_all(store)
        {
            runtime::console::tell(format_args!("{} cannot be removed: {error}", store.display()));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    namesrv: u16,
    broker: u16,
}

fn ring_mq(site: &Site, folder: &Path, store: &Path, ports: Ports, flush: &str) -> io::Result<Vec<Child>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("dev").arg("--dir").arg(store);
    for (option, port) in [("--namesrv-listen", ports.namesrv), ("--broker-listen", ports.broker)] {
        command.arg(option).arg(SocketAddr::from((HOST, port)).to_string());
    }
    command.arg(format!("flushDiskType={flush}")).args(&site.settings);
    Ok(vec![spawn(command, &folder.join("broker.log"))?])
}

fn apache(site: &Site, folder: &Path, store: &Path, ports: Ports, flush: &str) -> io::Result<Vec<Child>> {
    let (home, shown) = (folder.join("home"), store.display());
    fs::create_dir_all(home.join("conf"))?;
    let namesrv_conf = folder.join("namesrv.conf");
    fs::write(&namesrv_conf, format!("listenPort={}\n", ports.namesrv))?;
    let broker_conf = folder.join("broker.conf");
    let lines = [
        "brokerClusterName=DefaultCluster".to_owned(),
        "brokerName=broker-a".to_owned(),
        "brokerId=0".to_owned(),
        "brokerIP1=127.0.0.1".to_owned(),
        format!("namesrvAddr=127.0.0.1:{}", ports.namesrv),
        format!("listenPort={}", ports.broker),
        "brokerRole=ASYNC_MASTER".to_owned(),
        format!("flushDiskType={flush}"),
        format!("storePathRootDir={shown}"),
        format!("storePathCommitLog={shown}/commitlog"),
    ];
    fs::write(&broker_conf, lines.join("\n") + "\n")?;
    let java = |heap: &str, main: &str, conf: &Path| {
        let mut command = Command::new("java");
        command.env("ROCKETMQ_HOME", &home).args(OPENS);
        command.args([format!("-Xms{heap}"), format!("-Xmx{heap}"), format!("-XX:MaxDirectMemorySize={heap}")]);
        command.arg(format!("-Duser.home={}", folder.display())).arg("-cp").arg(site.jars.join("*"));
        command.arg(format!("org.apache.rocketmq.{main}")).arg("-c").arg(conf);
        command
    };
    let namesrv = java(NAMESRV_HEAP, "namesrv.NamesrvStartup", &namesrv_conf);
    let broker = java(&site.heap, "broker.BrokerStartup", &broker_conf);
    let namesrv = spawn(namesrv, &folder.join("namesrv.log"))?;
    match spawn(broker, &folder.join("broker.log")) {
        Ok(broker) => Ok(vec![broker, namesrv]),
        Err(error) => {
            end(&mut [namesrv]);
            Err(error)
        }
    }
}

fn spawn(mut command: Command, log: &Path) -> io::Result<Child> {
    let log = File::create(log)?;
    let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
    child.map_err(|error| {
        let program = command.get_program().to_string_lossy().into_owned();
        let hint = if program == "java" {
            ": install a Java runtime (Debian: apt-get install default-jre-headless)"
        } else {
            ""
        };
        io::Error::new(error.kind(), format!("{program} cannot be started ({error}){hint}"))
    })
}

/// Asks processes to end, and ends those that do not.
fn end(children: &mut [Child]) {
    for child in &*children {
        // An error means that it has ended already. One that stands still ends only when it goes on.
        let _ = tell(child.id(), Pulse::End);
        let _ = tell(child.id(), Pulse::GoOn);
    }
    let clock = RunClock::start();
    for child in children {
        while !matches!(child.try_wait(), Ok(Some(_))) {
            if clock.now_ns() > nanoseconds(END_TIME_MAX) {
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
            clock.sleep(END_PERIOD);
        }
    }
}

/// Two that nothing listens on, nor on those around the broker's, of which Apache's broker takes some besides.
fn free_ports(range: &RangeInclusive<u16>) -> Result<Ports, BenchError> {
    let is_free = |port: u16| TcpListener::bind(SocketAddr::from((HOST, port))).is_ok();
    let mut candidates = range.clone().step_by(PORTS_EACH.into());
    let first = candidates.find(|first| {
        let limit = first.checked_add(PORTS_EACH).filter(|limit| limit - 1 <= *range.end());
        limit.is_some_and(|limit| (*first..limit).all(is_free))
    });
    let wrong = || BenchError::Peer {
        what: format!("no {PORTS_EACH} free ports in a row lie in {range:?}: name others by --ports"),
    };
    first.map(|first| Ports { namesrv: first, broker: first + PORTS_EACH - 2 }).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_lie_in_their_range_and_are_free() {
        let taken = TcpListener::bind(SocketAddr::from((HOST, 0))).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(free_ports(&(port..=port + 4)).is_err(), "the first one is taken");
        assert!(free_ports(&(port + 1..=port + 2)).unwrap_err().to_string().contains("--ports"));
    }
}
