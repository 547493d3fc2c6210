//! A run from its arguments to what it prints.

use crate::arguments::{Args, Mode};
use crate::error::BenchError;
use crate::report::{Outcome, Report};
use crate::{consume, produce, ready, summary, tail};

/// Runs what is asked for on an executor of this thread, and prints the table and the line of JSON.
///
/// # Errors
/// When the run does not come about; what goes wrong within it is in its figures and in the [`Outcome`].
pub fn run(args: Args) -> Result<Outcome, BenchError> {
    let report: Result<Report, BenchError> = match args.mode {
        Mode::Ready(args) => return runtime::run_here(ready::run(args)).map_err(BenchError::Executor)?,
        Mode::Summary(args) => return summary::run(&args),
        Mode::Send(args) => runtime::run_here(produce::run(args)).map_err(BenchError::Executor)?,
        Mode::Consume(args) => runtime::run_here(consume::run(args)).map_err(BenchError::Executor)?,
        Mode::Tail(args) => runtime::run_here(tail::run(args)).map_err(BenchError::Executor)?,
    };
    let report = report?;
    report.print().map_err(BenchError::Output)?;
    Ok(report.outcome())
}
