//! The commands of `ringmq bench`, from their arguments to what they print.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use runtime::process::StopSignal;
use serde_json::Value;

use crate::arguments::{Args, CannedArgs, CompareArgs, DeskArgs, Mode, ReportArgs, RunArgs, TargetArgs, address};
use crate::compare::Comparison;
use crate::error::BenchError;
use crate::folder::stored::StoredRun;
use crate::identity::Identity;
use crate::phase::Phase;
use crate::phase::course::Measured;
use crate::plan::Plan;
use crate::report::Outcome;
use crate::run::{Pictures, REPORT_FILE, Run, begin_both, finish_both, page_of, turns, write_page, write_pictures};
use crate::{brief, canned, folder, peer, phase, ready, single, summary};

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
        Mode::Peer(args) => peer::run(&args, &stop_on_signals()?),
        Mode::Ready(args) => ready::run(&args),
        Mode::Canned(args) => canned(&args),
        Mode::Summary(args) => summary::run(&args),
        Mode::Send(args) => one("send", &single::send(&args)?, &args.target, &args.desk),
        Mode::Consume(args) => one("consume", &single::consume(&args)?, &args.target, &args.desk),
        Mode::Tail(args) => one("tail", &single::tail(&args)?, &args.target, &args.desk),
    }
}

/// A run without a plan.
fn one(name: &str, phases: &[Phase], target: &TargetArgs, args: &DeskArgs) -> Result<Outcome, BenchError> {
    let DeskArgs { live, seed, .. } = *args;
    let run = Run { name, plan: Value::Null, phases, rounds: 1, target, seed, live, outage: None };
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
    let outage = args.outage_command.as_deref();
    let run = Run { outage, ..plan_run(&plan, rounds, &args.target, &args.desk) };
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
    Run { name: &plan.name, plan: plan.record(), phases: &plan.phases, rounds, target, seed, live, outage: None }
}

fn out_folder(asked: Option<&PathBuf>, plan: &Plan) -> PathBuf {
    asked.cloned().unwrap_or_else(|| folder::default_path(&plan.name, runtime::clock::now_ms().0))
}

/// Ctrl-C ends a run and keeps what was measured; a second one ends the process at once.
fn stop_on_signals() -> Result<Arc<StopSignal>, BenchError> {
    let stop = StopSignal::new();
    runtime::process::stop_on_signals(stop.clone()).map_err(BenchError::Executor)?;
    Ok(stop)
}

/// The page of some run folders.
fn report(args: &ReportArgs) -> Result<Outcome, BenchError> {
    let page = page_of(&args.folders)?;
    let path = args.output.clone().unwrap_or_else(|| args.folders[0].join(REPORT_FILE));
    write_page(&page, &path)?;
    eprintln!("{}", path.display());
    let pictures = Pictures { svg: args.svg.as_deref(), png: args.png.as_deref() };
    if pictures.svg.is_some() || pictures.png.is_some() {
        let count = write_pictures(&page, pictures)?;
        pictures
            .svg
            .into_iter()
            .chain(pictures.png)
            .for_each(|folder| eprintln!("{count} pictures in {}", folder.display()));
    }
    Ok(Outcome::Clean)
}

/// Two run folders, or two targets that are measured for it.
fn compare(args: &CompareArgs) -> Result<Outcome, BenchError> {
    let (folders, measured) = match [&args.first, &args.second].map(|text| Side::of(text)) {
        [Side::Broker(first), Side::Broker(second)] => in_turn([first, second], args)?,
        [Side::Folder(first), Side::Folder(second)] => {
            let [at_first, at_second] = [&first, &second].map(|folder| folder.canonicalize().ok());
            if at_first.is_some() && at_first == at_second {
                let what = "is the same run on both sides, which cannot differ from itself; to see how much a target \
                            differs from itself, give the address of its broker twice";
                return Err(phase::usage(&format!("{} {what}", first.display())));
            }
            ([first, second], Outcome::Clean)
        }
        [first, second] => {
            let what = "compare takes two run folders, or the addresses of two brokers (host:port), and no mixture";
            return Err(phase::usage(&format!("{what}: {} is {first}, {} is {second}", args.first, args.second)));
        }
    };
    let [first, second] = &folders;
    let (first, second) = (StoredRun::read(first)?, StoredRun::read(second)?);
    let comparison = Comparison::of(&first, &second)?;
    let name = |run: &StoredRun| format!("{} {}", run.target(), run.path.display());
    print(&comparison.text(&name(&first), &name(&second)))?;
    Ok(if comparison.has_regression() { Outcome::Partial } else { measured })
}

/// One side of a comparison.
enum Side {
    Broker(SocketAddr),
    Folder(PathBuf),
}

impl Side {
    /// What is there as a folder is one; else an address is a broker.
    fn of(text: &str) -> Side {
        let path = PathBuf::from(text);
        if path.exists() {
            return Side::Folder(path);
        }
        address(text).map_or(Side::Folder(path), Side::Broker)
    }
}

impl std::fmt::Display for Side {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Side::Broker(_) => "a broker's address",
            Side::Folder(path) if path.exists() => "a folder",
            Side::Folder(_) => "neither a folder nor an address",
        })
    }
}

/// Measures two targets in alternating rounds, so that what the machine does meets both.
fn in_turn(brokers: [SocketAddr; 2], args: &CompareArgs) -> Result<([PathBuf; 2], Outcome), BenchError> {
    let plan = Plan::load(&args.plan, &args.overrides)?;
    let out = out_folder(args.desk.out.as_ref(), &plan);
    let folders = [out.join("a"), out.join("b")];
    let stop = stop_on_signals()?;
    let targets = brokers.map(|broker| TargetArgs { target: Some(broker.to_string()), ..TargetArgs::of(broker) });
    let runs = [&targets[0], &targets[1]].map(|target| plan_run(&plan, args.rounds, target, &args.desk));
    runs[0].check()?;
    let identities = [Identity::of(brokers[0])?, Identity::of(brokers[1])?];
    let mut active = begin_both(&runs, &folders, &identities, &stop)?;
    eprintln!("{}: {} round(s) of each, results in {}", plan.name, args.rounds, out.display());
    eprint!("{}", brief::HEADER);
    let shown = |name: &'static str| {
        move |measured: &Measured| {
            eprint!("{name}{}", &brief::lines(measured)[1..]);
            Ok(())
        }
    };
    let came: Result<(), BenchError> = (1..=args.rounds).try_for_each(|round| {
        turns(round, [0, 1]).into_iter().try_for_each(|side| active[side].round(round, &shown(["A", "B"][side])))
    });
    match finish_both(active, came.as_ref().err()) {
        [Some(first), Some(second)] => Ok((folders, first.max(second))),
        _ => Err(came.err().unwrap_or(BenchError::Stopped)),
    }
}

/// Answers until the process is ended.
fn canned(args: &CannedArgs) -> Result<Outcome, BenchError> {
    let listener = TcpListener::bind(args.listen).map_err(BenchError::Executor)?;
    print(&format!("{}\n", listener.local_addr().map_err(BenchError::Executor)?))?;
    canned::serve(&listener, args.delay.unwrap_or_default()).map(|()| Outcome::Clean).map_err(BenchError::Executor)
}

fn print(text: &str) -> Result<(), BenchError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(BenchError::Output)
}
