//! `ringmq bench` as a program of its own: `cargo run --release -p ringmq-bench --example bench -- send --help`.

use std::process::ExitCode;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Arguments {
    #[command(flatten)]
    bench: bench::Args,
}

fn main() -> ExitCode {
    match bench::run(Arguments::parse().bench) {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
