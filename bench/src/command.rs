//! The commands of `ringmq bench`, from their arguments to what they print.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use runtime::process::StopSignal;
use serde_json::Value;

use crate::arguments::{Args, CompareArgs, DeskArgs, Mode, ReportArgs, RunArgs, TargetArgs};
use crate::compare::Comparison;
use crate::error::BenchError;
use crate::folder::stored::StoredRun;
use crate::phase::Phase;
use crate::phase::course::Measured;
use crate::plan::Plan;
use crate::report::Outcome;
use crate::run::{Active, Run, cause_of, write_page};
use crate::{brief, folder, phase, ready, single, summary};

/// Runs what is asked for and prints tables and lines of JSON.
///
/// # Errors
/// When the run does not come about; what goes wrong within it is in its figures and in the [`Outcome`].
pub fn run(args: Args) -> Result<Outcome, BenchError> {
    match args.mode {
        Mode::Run(args) => planned(&args),
        Mode::Plans => print(&Plan::list()).map(|()| Outcome::Clean),
        Mode::Report(args) => report(&args),
        Mode::Compare(args) => compare(&args),
        Mode::Ready(args) => ready::run(&args),
        Mode::Summary(args) => summary::run(&args),
        Mode::Send(args) => one(single::send(&args)?, &args.target, &args.desk),
        Mode::Consume(args) => one(single::consume(&args)?, &args.target, &args.desk),
        Mode::Tail(args) => one(single::tail(&args)?, &args.target, &args.desk),
    }
}

/// A run of one phase that has no plan.
fn one(phase: Phase, target: &TargetArgs, args: &DeskArgs) -> Result<Outcome, BenchError> {
    let name = phase.name.clone();
    let DeskArgs { live, seed, .. } = *args;
    let run = Run { name: &name, plan: Value::Null, phases: &[phase], rounds: 1, target, seed, live };
    let shown = |measured: &Measured| {
        measured.report.print_table();
        print_line(measured)
    };
    run.carry_out(args.out.as_deref(), &stop_on_signals()?, &shown)
}

/// A run of a plan.
fn planned(args: &RunArgs) -> Result<Outcome, BenchError> {
    let plan = Plan::load(&args.plan, &args.overrides)?;
    let out = out_folder(args.desk.out.as_ref(), &plan);
    let rounds = args.rounds.unwrap_or(plan.rounds);
    let run = plan_run(&plan, rounds, &args.target, &args.desk);
    eprintln!("{}: {} phase(s), {rounds} round(s), results in {}", plan.name, plan.phases.len(), out.display());
    eprint!("{}", brief::HEADER);
    let shown = |measured: &Measured| {
        eprint!("{}", brief::lines(measured));
        print_line(measured)
    };
    run.carry_out(Some(&out), &stop_on_signals()?, &shown)
}

fn print_line(measured: &Measured) -> Result<(), BenchError> {
    measured.report.print_line().map_err(BenchError::Output)
}

fn plan_run<'a>(plan: &'a Plan, rounds: u32, target: &'a TargetArgs, args: &DeskArgs) -> Run<'a> {
    let DeskArgs { live, seed, .. } = *args;
    Run { name: &plan.name, plan: plan.record(), phases: &plan.phases, rounds, target, seed, live }
}

fn out_folder(asked: Option<&PathBuf>, plan: &Plan) -> PathBuf {
    asked.cloned().unwrap_or_else(|| folder::default_path(&plan.name, runtime::clock::now_ms().0))
}

/// Ctrl-C ends a run and keeps what was measured; a second one ends the process at once.
fn stop_on_signals() -> Result<Arc<StopSignal>, BenchError> {
    let stop = StopSignal::new().map_err(BenchError::Executor)?;
    runtime::process::stop_on_signals(stop.clone()).map_err(BenchError::Executor)?;
    Ok(stop)
}

/// The page of some run folders.
fn report(args: &ReportArgs) -> Result<Outcome, BenchError> {
    let path = write_page(&args.folders, args.output.as_deref())?;
    eprintln!("{}", path.display());
    Ok(Outcome::Clean)
}

/// Two run folders, or two targets that are measured for it.
fn compare(args: &CompareArgs) -> Result<Outcome, BenchError> {
    let addresses = [&args.first, &args.second].map(|text| text.parse::<SocketAddr>().ok());
    let folders = match addresses {
        [Some(first), Some(second)] => in_turn([first, second], args)?,
        [None, None] => [PathBuf::from(&args.first), PathBuf::from(&args.second)],
        _ => return Err(phase::usage("compare takes two run folders, or the addresses of two brokers")),
    };
    let [first, second] = &folders;
    let (first, second) = (StoredRun::read(first)?, StoredRun::read(second)?);
    let comparison = Comparison::of(&first, &second)?;
    let name = |run: &StoredRun| format!("{} {}", run.target(), run.path.display());
    print(&comparison.text(&name(&first), &name(&second)))?;
    Ok(if comparison.has_regression() { Outcome::Faulty } else { Outcome::Clean })
}

/// Measures two targets in alternating rounds, so that what the machine does meets both.
fn in_turn(brokers: [SocketAddr; 2], args: &CompareArgs) -> Result<[PathBuf; 2], BenchError> {
    let plan = Plan::load(&args.plan, &args.overrides)?;
    let out = out_folder(args.desk.out.as_ref(), &plan);
    let folders = [out.join("a"), out.join("b")];
    let stop = stop_on_signals()?;
    let targets = brokers.map(|broker| TargetArgs {
        broker,
        server_pid: None,
        label: String::new(),
        target: Some(broker.to_string()),
        trace_slower_than: None,
    });
    let runs = [&targets[0], &targets[1]].map(|target| plan_run(&plan, args.rounds, target, &args.desk));
    let [mut first, mut second] = begin_both(&runs, &folders, &stop)?;
    eprintln!("{}: {} round(s) of each, results in {}", plan.name, args.rounds, out.display());
    eprint!("{}", brief::HEADER);
    let shown = |name: &'static str| {
        move |measured: &Measured| {
            eprint!("{name}{}", &brief::lines(measured)[1..]);
            Ok(())
        }
    };
    let came = (1..=args.rounds).try_for_each(|round| {
        // Who comes first changes each round.
        if round % 2 == 1 {
            first.round(round, &shown("A"))?;
            second.round(round, &shown("B"))
        } else {
            second.round(round, &shown("B"))?;
            first.round(round, &shown("A"))
        }
    });
    let cause = cause_of(&came);
    second.finish(cause.as_deref());
    first.finish(cause.as_deref());
    came.map(|()| folders)
}

/// Makes both folders. When the second run cannot begin, the first has failed with it, and its folder says so.
fn begin_both<'a>(
    runs: &'a [Run<'a>; 2],
    folders: &[PathBuf; 2],
    stop: &Arc<StopSignal>,
) -> Result<[Active<'a>; 2], BenchError> {
    let first = runs[0].begin(Some(&folders[0]), stop)?;
    match runs[1].begin(Some(&folders[1]), stop) {
        Ok(second) => Ok([first, second]),
        Err(error) => {
            first.finish(Some(&error.to_string()));
            Err(error)
        }
    }
}

fn print(text: &str) -> Result<(), BenchError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(BenchError::Output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::file::TempFolder;

    #[test]
    fn when_the_second_of_two_runs_cannot_begin_the_first_has_failed() {
        let out = TempFolder::new("begin-both");
        let folders = ["a", "b"].map(|name| out.path().join(name));
        std::fs::create_dir(&folders[1]).unwrap();
        let broker = SocketAddr::from(([127, 0, 0, 1], 1));
        let target =
            TargetArgs { broker, server_pid: None, label: String::new(), target: None, trace_slower_than: None };
        let run =
            || Run { name: "r", plan: Value::Null, phases: &[], rounds: 1, target: &target, seed: 0, live: false };
        let runs = [run(), run()];
        let error = begin_both(&runs, &folders, &StopSignal::new().unwrap()).err().unwrap();
        let record = StoredRun::read(&folders[0]).unwrap().record;
        assert_eq!((&record["state"], &record["cause"]), (&"failed".into(), &error.to_string().into()));
    }
}
