//! The programs that use RocketMQ's official clients, in `tests/java`, `tests/java-bench` and `tests/go`: how to build and to
//! call them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The command line of a client program, to which its own arguments are added.
#[derive(Debug)]
pub struct Client {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Client {
    /// A class of `tests/java`, built first.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn java(class: &str) -> Result<Client, String> {
        let mut client = Client::java_of("java")?;
        client.arguments.push(class.to_owned());
        Ok(client)
    }

    /// RocketMQ's own benchmark programs, built first: the first argument of a command is the class.
    ///
    /// # Errors
    /// When they cannot be fetched or built.
    pub fn benchmarks() -> Result<Client, String> {
        Client::java_of("java-bench")
    }

    fn java_of(folder_name: &str) -> Result<Client, String> {
        let folder = folder(folder_name);
        build(Command::new("mvn").args(["--quiet", "--batch-mode", "package"]).current_dir(&folder))?;
        let target = folder.join("target");
        let logs = std::env::temp_dir().join("ringmq-java-client");
        let classes = format!("{0}/classes:{0}/lib/*", target.display());
        let arguments = [
            "-Xmx512m",
            &format!("-Duser.home={}", logs.display()),
            "-Drocketmq.client.logLevel=ERROR",
            // The client looks for its share of the queues each 20 s; members of new groups need not wait that long here.
            "-Drocketmq.client.rebalance.waitInterval=2000",
            "-cp",
            &classes,
        ];
        Ok(Client { program: "java".into(), arguments: arguments.map(String::from).to_vec() })
    }

    /// The program of `tests/go`, built first.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn go() -> Result<Client, String> {
        let own = std::env::current_exe().map_err(|error| format!("own path: {error}"))?;
        let program = own.with_file_name("official-go-client");
        let output = program.to_string_lossy().into_owned();
        let mut command = Command::new("go");
        build(
            command.args(["build", "-mod=readonly", "-buildvcs=false", "-o", &output, "."]).current_dir(folder("go")),
        )?;
        Ok(Client { program, arguments: Vec::new() })
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }
}

fn folder(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(language)
}

fn build(command: &mut Command) -> Result<(), String> {
    println!("building: {command:?}");
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}
