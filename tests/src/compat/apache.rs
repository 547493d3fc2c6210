//! Apache RocketMQ itself: its jars, and a nameserver and a broker of it on free ports.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::folder::Folder;
use crate::ports::free_address;
use crate::process::Running;
use crate::program;

/// How long a server of Apache's may take to accept connections: it starts a JVM and fills its pools.
const READY_WITHIN: Duration = Duration::from_secs(90);
const HEAP: &str = "1g";
/// What the JVM must open for its broker.
const OPENS: [&str; 3] = [
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
];

/// The folder with the jars: that of `RINGMQ_APACHE_JARS`, or one that Maven fills.
///
/// # Errors
/// What `ringmq bench peer --fetch` says when it cannot get them.
pub fn jars() -> Result<PathBuf, String> {
    let mut command = Command::new(program::path());
    command.args(["bench", "peer", "--fetch"]);
    if let Some(jars) = std::env::var_os("RINGMQ_APACHE_JARS") {
        command.arg("--apache").arg(jars);
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{} cannot be started: {error}", program::path().display()))?;
    if !output.status.success() {
        return Err(format!("ringmq bench peer --fetch failed ({})", output.status));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end()))
}

/// A nameserver and a broker; they die with the value.
#[derive(Debug)]
pub struct Apache {
    pub namesrv: String,
    pub broker: String,
    // Declared before the folder's owner: the processes end before their folder is removed.
    server: Running,
    _nameserver: Running,
    folder: Folder,
}

/// How a broker is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// SIGTERM.
    Stop,
    /// SIGKILL.
    Kill,
}

impl Apache {
    /// Starts both with `KEY=VALUE` properties for the broker, and waits until they accept connections.
    ///
    /// # Errors
    /// The log of the one that does not.
    pub fn start(jars: &Path, properties: &[&str]) -> Result<Apache, String> {
        let folder = Folder::new("apache");
        let (namesrv, broker) = (free_address(), free_address());
        let port = |address: &str| address.rsplit(':').next().unwrap_or_default().to_owned();
        let root = folder.path().display();
        fs::create_dir_all(folder.path().join("home/conf")).map_err(|error| format!("{root}: {error}"))?;
        let namesrv_conf = folder.file("namesrv.conf", &format!("listenPort={}\n", port(&namesrv)));
        let mut keys = vec![
            format!("namesrvAddr={namesrv}"),
            format!("listenPort={}", port(&broker)),
            format!("storePathRootDir={root}/store"),
            format!("storePathCommitLog={root}/store/commitlog"),
        ];
        keys.extend(properties.iter().map(|property| (*property).to_owned()));
        let broker_conf = folder.file("broker.conf", &(keys.join("\n") + "\n"));
        let launch = |main: &str, heap: &str, conf: &Path| {
            let mut command = Command::new("java");
            command
                .args([format!("-Xms{heap}"), format!("-Xmx{heap}"), format!("-XX:MaxDirectMemorySize={heap}")])
                .args(OPENS);
            command
                .arg(format!("-Duser.home={root}"))
                .args(["-cp", &format!("{}/*", jars.display()), main, "-c"])
                .arg(conf);
            command.env("ROCKETMQ_HOME", folder.path().join("home")).current_dir(folder.path());
            Running::start_command(command)
        };
        let mut nameserver = launch("org.apache.rocketmq.namesrv.NamesrvStartup", "256m", &namesrv_conf);
        await_open(&mut nameserver, &namesrv)?;
        let mut server = launch("org.apache.rocketmq.broker.BrokerStartup", HEAP, &broker_conf);
        await_open(&mut server, &broker)?;
        Ok(Apache { namesrv, broker, server, _nameserver: nameserver, folder })
    }

    /// The folder of the broker's store.
    pub fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Ends the broker; its store stays as long as the value.
    ///
    /// # Errors
    /// When it does not end.
    pub fn end(&mut self, end: End) -> Result<(), String> {
        match end {
            End::Kill => self.server.kill(),
            // Java ends with 128 and the number of the signal.
            End::Stop if self.server.stop().is_some() => {}
            End::Stop => return Err(format!("Apache's broker does not end:\n{}", self.server.log())),
        }
        Ok(())
    }
}

fn await_open(process: &mut Running, address: &str) -> Result<(), String> {
    let deadline = Instant::now() + READY_WITHIN;
    while TcpStream::connect(address).is_err() {
        if !process.is_alive() || Instant::now() > deadline {
            return Err(format!("Apache RocketMQ does not open {address}:\n{}", process.log()));
        }
        // Nothing else tells that a foreign process listens now.
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
