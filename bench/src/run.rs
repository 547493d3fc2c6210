//! A run from its arguments to what it prints.

use crate::arguments::{Args, Mode};
use crate::error::BenchError;
use crate::report::{Outcome, Report};
use crate::{consume, produce, ready, summary, tail};

/// Runs what is asked for and prints the table and the line of JSON.
///
/// # Errors
/// When the run does not come about; what goes wrong within it is in its figures and in the [`Outcome`].
pub fn run(args: Args) -> Result<Outcome, BenchError> {
    let report: Result<Report, BenchError> = match args.mode {
        Mode::Ready(args) => return ready::run(&args),
        Mode::Summary(args) => return summary::run(&args),
        Mode::Send(args) => produce::run(&args),
        Mode::Consume(args) => consume::run(&args),
        Mode::Tail(args) => tail::run(&args),
    };
    let report = report?;
    report.print().map_err(BenchError::Output)?;
    Ok(report.outcome())
}
