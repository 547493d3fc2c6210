//! RingMQ beside Apache RocketMQ on this machine: both are started here, measured in alternating rounds, one standing still
//! while the other is measured, and put into the table that is published.

mod jars;
mod server;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use runtime::process::{Pulse, StopSignal};
use serde_json::Value;

use crate::arguments::{PeerArgs, TargetArgs};
use crate::brief;
use crate::clock::RunClock;
use crate::error::BenchError;
use crate::folder::stored::StoredRun;
use crate::identity::Identity;
use crate::machine::machine_cpu_us;
use crate::phase::course::Measured;
use crate::phase::{Phase, usage};
use crate::plan::Plan;
use crate::report::Outcome;
use crate::run::{Active, Run, begin_both, finish_both, turns};
use server::{Product, Server, Site};
use table::{Measurements, Start};

/// The plans, by the flush mode that both brokers run with.
const PLANS: [(&str, &str); 2] = [("ASYNC_FLUSH", "peer-async"), ("SYNC_FLUSH", "peer-sync")];
/// What is measured of starts is called so.
const START: &str = "start";
/// A broker that is ready settles for so long before its memory is looked at.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// Before a phase the machine shall use less than this share of a core for a second; it is awaited for so many seconds.
const QUIET_CORES: f64 = 0.3;
const QUIET_SECONDS_MAX: u32 = 20;
/// Of the warm-up, the part without a consumer.
const WARM_UP_SENDS: f64 = 0.6;

/// Carries the comparison out.
///
/// # Errors
/// When a server cannot be started, or nothing could be measured.
pub(crate) fn run(args: &PeerArgs, stop: &Arc<StopSignal>) -> Result<Outcome, BenchError> {
    let jars = jars::find(args.apache.as_deref())?;
    if args.fetch {
        println!("{}", jars.display());
        return Ok(Outcome::Clean);
    }
    let out = args.out.clone().unwrap_or_else(|| crate::folder::default_path("peer", runtime::clock::now_ms().0));
    std::fs::create_dir_all(out.parent().unwrap_or(Path::new("")))
        .and_then(|()| std::fs::create_dir(&out))
        .map_err(|source| BenchError::Folder { path: out.display().to_string(), source })?;
    let out = out.canonicalize().map_err(|source| BenchError::Folder { path: out.display().to_string(), source })?;
    let site = Site {
        folder: out.join("servers"),
        jars,
        heap: args.heap.clone(),
        settings: args.settings.clone(),
        ports: args.ports.clone(),
        keeps_stores: args.keep_stores,
        stop: stop.clone(),
    };
    let mut comparison =
        Comparison { args, site, out, stop, starts: Vec::new(), runs: Vec::new(), outcome: Outcome::Clean };
    let mut came = comparison.starts();
    for (flush, plan) in PLANS {
        came = came.and_then(|()| comparison.plan(flush, plan));
    }
    match came {
        Ok(()) => comparison.tell(),
        // What was measured before is told all the same.
        Err(error) if comparison.has_figures() => {
            runtime::console::tell(format_args!("error: {error}"));
            comparison.tell().map(|_| Outcome::Partial)
        }
        Err(error) => Err(error),
    }
}

struct Comparison<'a> {
    args: &'a PeerArgs,
    site: Site,
    out: PathBuf,
    stop: &'a Arc<StopSignal>,
    starts: Vec<Start>,
    /// Run folders, with the plan and the product of each.
    runs: Vec<(&'static str, Product, PathBuf)>,
    outcome: Outcome,
}

impl Comparison<'_> {
    fn wants(&self, name: &str) -> bool {
        self.args.only.is_empty() || self.args.only.iter().any(|only| name.starts_with(only))
    }

    /// Starts of both on empty stores, nothing else running.
    fn starts(&mut self) -> Result<(), BenchError> {
        if !self.wants(START) {
            return Ok(());
        }
        for round in 1..=self.args.rounds {
            for product in turns(round, Product::BOTH) {
                if self.stop.is_asked() {
                    return Ok(());
                }
                self.await_quiet();
                let server =
                    Server::start(&self.site, product, &format!("{START}-{round}-{}", product.name()), "ASYNC_FLUSH")?;
                RunClock::start().sleep(SETTLE_TIME);
                let start = Start { product, ready_ms: server.ready_ms, resident_bytes: server.resident_bytes() };
                eprintln!("start {}, round {round}: {} ms", product.name(), start.ready_ms);
                self.starts.push(start);
            }
        }
        Ok(())
    }

    /// One plan with both brokers in one flush mode.
    fn plan(&mut self, flush: &str, name: &'static str) -> Result<(), BenchError> {
        let mut plan = Plan::load(name, &self.args.overrides)?;
        plan.phases.retain(|phase| self.wants(&phase.name));
        if plan.phases.is_empty() || self.stop.is_asked() {
            return Ok(());
        }
        let servers = [self.server(Product::RingMq, flush, name)?, self.server(Product::Apache, flush, name)?];
        let targets = [target_of(&servers[0]), target_of(&servers[1])];
        servers.iter().zip(&targets).try_for_each(|(server, target)| {
            let others = Others::still(&servers, server.product);
            let warmed = self.warm_up(target);
            drop(others);
            warmed
        })?;
        let rounds = self.args.rounds;
        let runs = [0, 1].map(|index: usize| Run {
            name,
            plan: plan.record(),
            phases: &plan.phases,
            rounds,
            target: &targets[index],
            seed: self.args.seed,
            live: false,
            outage: None,
        });
        runs[0].check()?;
        let folders = Product::BOTH.map(|product| self.out.join(format!("{name}-{}", product.name())));
        let identities = [Identity::of(targets[0].broker)?, Identity::of(targets[1].broker)?];
        let mut active = begin_both(&runs, &folders, &identities, self.stop)?;
        eprint!("{name}\n{}", brief::HEADER);
        let came = self.rounds(&plan.phases, &servers, &mut active);
        let ended = finish_both(active, came.as_ref().err());
        for ((outcome, product), folder) in ended.into_iter().zip(Product::BOTH).zip(folders) {
            let Some(outcome) = outcome else { return Err(came.err().unwrap_or(BenchError::Stopped)) };
            self.outcome = self.outcome.max(outcome);
            self.runs.push((name, product, folder));
        }
        Ok(())
    }

    fn server(&self, product: Product, flush: &str, plan: &str) -> Result<Server, BenchError> {
        Server::start(&self.site, product, &format!("{plan}-{}", product.name()), flush)
    }

    fn rounds(&self, phases: &[Phase], servers: &[Server; 2], active: &mut [Active<'_>]) -> Result<(), BenchError> {
        for round in 1..=self.args.rounds {
            for phase in phases {
                for product in turns(round, Product::BOTH) {
                    let others = Others::still(servers, product);
                    self.await_quiet();
                    let shown = |measured: &Measured| {
                        eprint!("{:<7}{}", product.name(), &brief::lines(measured)[2..]);
                        Ok(())
                    };
                    active[product as usize].phase(phase, round, &shown)?;
                    drop(others);
                }
            }
        }
        Ok(())
    }

    /// What others do is not to be measured, nor what of another broker's pages the kernel has still to write.
    fn await_quiet(&self) {
        // Where that does not succeed, whoever writes next tells.
        let _ = runtime::file::sync_file_system(&self.out);
        for _ in 0..QUIET_SECONDS_MAX {
            let (before_us, _) = machine_cpu_us();
            RunClock::start().sleep(Duration::from_secs(1));
            let (after_us, _) = machine_cpu_us();
            if ((after_us - before_us) as f64) < QUIET_CORES * 1e6 || self.stop.is_asked() {
                return;
            }
        }
    }

    /// A load of which nothing is kept.
    fn warm_up(&self, target: &TargetArgs) -> Result<(), BenchError> {
        let seconds = f64::from(self.args.warm_up);
        if seconds == 0.0 {
            return Ok(());
        }
        eprintln!("warming {} up for {seconds} s", target.target.as_deref().unwrap_or_default());
        for (kind, share, rate) in [("send", WARM_UP_SENDS, None), ("tail", 1.0 - WARM_UP_SENDS, Some(5000))] {
            let options = [format!("duration={}", seconds * share), "warmup=0".to_owned()];
            let rate = rate.map(|rate| format!("rate={rate}"));
            let options: Vec<String> = options.into_iter().chain(rate).collect();
            let phases = crate::plan::single(kind, &options, &[], &crate::target::TopicForm::own())?;
            let run = Run {
                name: "warm-up",
                plan: Value::Null,
                phases: &phases,
                rounds: 1,
                target,
                seed: 0,
                live: false,
                outage: None,
            };
            let mut active = run.begin(None, self.stop, &Identity::default())?;
            active.round(1, &|_| Ok(()))?;
        }
        Ok(())
    }

    fn has_figures(&self) -> bool {
        !self.runs.is_empty() || !self.starts.is_empty()
    }

    /// Prints the tables, and leaves them in the folder.
    fn tell(&self) -> Result<Outcome, BenchError> {
        let mut runs = Vec::new();
        for (plan, product, folder) in &self.runs {
            runs.push((*plan, *product, StoredRun::read(folder)?));
        }
        if !self.has_figures() {
            return Err(if self.stop.is_asked() {
                BenchError::Stopped
            } else {
                usage("--only leaves nothing to measure")
            });
        }
        let version = jars::version(&self.site.jars).unwrap_or_else(|| "of unknown version".to_owned());
        let measurements = Measurements {
            runs,
            starts: &self.starts,
            rounds: self.args.rounds,
            apache: format!("Apache RocketMQ {version} ({}, {} heap)", java_version(), self.site.heap),
        };
        let text = measurements.text()?;
        let path = self.out.join("table.md");
        std::fs::write(&path, &text).map_err(|source| BenchError::Page { path: path.display().to_string(), source })?;
        print!("{text}");
        eprintln!("tables, runs and logs: {}", self.out.display());
        Ok(if self.stop.is_asked() { Outcome::Partial } else { self.outcome })
    }
}

fn target_of(server: &Server) -> TargetArgs {
    let name = server.product.name().to_owned();
    TargetArgs { server_pid: Some(server.pid()), target: Some(name), ..TargetArgs::of(server.broker) }
}

fn java_version() -> String {
    let output = Command::new("java").arg("-version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).unwrap_or_default();
    let quoted = text.split('"').nth(1).unwrap_or("?");
    format!("Java {quoted}")
}

/// All servers but one stand still as long as this lives: an idle broker is not idle, a JVM's took up to 0.65 of a core.
struct Others<'a> {
    servers: Vec<&'a Server>,
}

impl Others<'_> {
    fn still<'a>(servers: &'a [Server; 2], product: Product) -> Others<'a> {
        let servers: Vec<&Server> = servers.iter().filter(|server| server.product != product).collect();
        servers.iter().for_each(|server| server.pulse(Pulse::Stop));
        Others { servers }
    }
}

impl Drop for Others<'_> {
    fn drop(&mut self) {
        self.servers.iter().for_each(|server| server.pulse(Pulse::GoOn));
    }
}
