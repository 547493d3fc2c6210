//! `ringmq`: the one program, and what it is called through other names.

mod admin;
mod arguments;
mod broker;
mod config;
mod dev;
mod failure;
mod namesrv;
mod output;
mod start;
mod store;
mod table;
mod time;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Program};
use failure::{Exit, Failure};

fn main() -> ExitCode {
    let began = runtime::clock::instant();
    runtime::heap::settle();
    let arguments = match Arguments::try_parse_from(arguments::as_called(std::env::args_os())) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are printed to standard output and are no failure; a closed one is not ours to report.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Exit::Usage } else { Exit::Ok } as u8);
        }
    };
    arguments.reactor().choose();
    let ended = match arguments.program {
        Program::Dev(arguments) => dev::run(&arguments, began),
        Program::Broker(arguments) => broker::run(arguments, began),
        Program::Namesrv(arguments) => namesrv::run(&arguments),
        Program::Config { command } => config::run(&command),
        Program::Store { command } => store::run(&command),
        Program::Admin(arguments) => admin::run(arguments),
        Program::Bench(arguments) => return measure(arguments),
        Program::Version => print(&version()),
        Program::Completions { shell } => print(&completions(shell)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Its exit codes tell a faulty or void run from a clean one.
fn measure(arguments: bench::Args) -> ExitCode {
    match bench::run(arguments) {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) => {
            runtime::console::tell(format_args!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn version() -> String {
    let (own, spoken) = (env!("CARGO_PKG_VERSION"), remoting::command::VERSION_NAME);
    format!("ringmq {own}\nspeaks as {spoken} (protocol version {})\n", remoting::VERSION_ORDINAL)
}

fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "ringmq", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_know_the_commands() {
        let script = completions(clap_complete::Shell::Bash);
        assert!(script.contains("sendMessage") && script.contains("consumerProgress"));
    }

    #[test]
    fn the_version_names_the_protocol() {
        assert!(version().starts_with("ringmq 0.") && version().contains("493"), "{}", version());
    }
}
