//! A run: phases in rounds against one target, and the run folder that is left of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use runtime::process::StopSignal;
use serde_json::{Value, json};

use crate::arguments::TargetArgs;
use crate::desk::Desk;
use crate::error::BenchError;
use crate::folder::Folder;
use crate::folder::stored::StoredRun;
use crate::host;
use crate::live::Live;
use crate::page;
use crate::phase::Phase;
use crate::phase::course::{self, Measured};
use crate::report::Outcome;
use crate::target::Identity;

const REPORT_FILE: &str = "report.html";

/// Who is shown what came of each phase.
pub(crate) type Shown<'a> = &'a dyn Fn(&Measured) -> Result<(), BenchError>;

/// What is asked of a target.
pub(crate) struct Run<'a> {
    pub(crate) name: &'a str,
    /// As `run.json` tells it.
    pub(crate) plan: Value,
    pub(crate) phases: &'a [Phase],
    pub(crate) rounds: u32,
    pub(crate) target: &'a TargetArgs,
    pub(crate) seed: u64,
    pub(crate) live: bool,
}

/// A run that goes on.
pub(crate) struct Active<'a> {
    run: &'a Run<'a>,
    folder: Option<(PathBuf, Folder)>,
    desk: Desk,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    /// Carries all rounds out. `shown` is called with what came of each phase.
    ///
    /// # Errors
    /// When a phase does not come about. The folder has the phases before it, and the cause.
    pub(crate) fn carry_out(
        &self,
        out: Option<&Path>,
        stop: &Arc<StopSignal>,
        shown: Shown<'_>,
    ) -> Result<Outcome, BenchError> {
        let mut active = self.begin(out, stop)?;
        let came = (1..=self.rounds).try_for_each(|round| active.round(round, shown));
        let outcome = active.finish(cause_of(&came).as_deref());
        came.map(|()| outcome)
    }

    /// Makes the folder.
    ///
    /// # Errors
    /// When a phase cannot be carried out at all, or the folder cannot be made.
    pub(crate) fn begin(&'a self, out: Option<&Path>, stop: &Arc<StopSignal>) -> Result<Active<'a>, BenchError> {
        self.phases.iter().try_for_each(Phase::check)?;
        let folder = match out {
            Some(path) => Some((path.to_path_buf(), Folder::create(path, self.record())?)),
            None => None,
        };
        let desk = Desk { stop: stop.clone(), files: None, live: None };
        Ok(Active { run: self, folder, desk, outcome: Outcome::Clean })
    }

    /// What is known of the run before its first phase.
    fn record(&self) -> Value {
        let identity = Identity::of(self.target.broker);
        let is_here = self.target.broker.ip().is_loopback();
        let store = identity.setting("storePathRootDir").filter(|_| is_here).map(Path::new);
        let host = host::describe(store.filter(|store| store.exists()));
        json!({
            "name": self.name,
            "generator": {"name": "ringmq bench", "version": env!("CARGO_PKG_VERSION")},
            "command": std::env::args().collect::<Vec<_>>(),
            "began_ms": runtime::clock::now_ms().0,
            "seed": self.seed,
            "rounds": self.rounds,
            "plan": self.plan,
            "target": {
                "name": self.target.target.clone().unwrap_or_else(|| self.target.broker.to_string()),
                "broker": self.target.broker.to_string(),
                "version": identity.version,
                "flush": identity.setting("flushDiskType"),
                "configuration_hash": identity.configuration_hash(),
            },
            "warnings": host::warnings(&host, is_here),
            "host": host,
        })
    }
}

impl Active<'_> {
    /// All phases once, or those before a stop.
    ///
    /// # Errors
    /// When a phase does not come about.
    pub(crate) fn round(&mut self, round: u32, shown: Shown<'_>) -> Result<(), BenchError> {
        for phase in self.run.phases {
            if self.desk.is_stopped() {
                break;
            }
            self.desk.files = self.folder.as_mut().map(|(_, folder)| folder.begin(&phase.name, round));
            self.desk.live = self.run.live.then(|| Live::new(&phase.name, phase.duration.as_secs_f64()));
            let seed = self.run.seed.wrapping_add(round.into());
            let measured = course::run(phase, self.run.target, seed, &mut self.desk)?;
            if let Some(live) = self.desk.live.take() {
                live.finish();
            }
            if let (Some((_, folder)), Some(files)) = (self.folder.as_mut(), self.desk.files.take()) {
                folder.end(files, &measured);
            }
            shown(&measured)?;
            self.outcome = self.outcome.max(measured.report.outcome());
        }
        Ok(())
    }

    /// Writes how the run ended, and its page. `cause` is what ended it before its time.
    pub(crate) fn finish(self, cause: Option<&str>) -> Outcome {
        let state = match cause {
            None if self.desk.is_stopped() => "stopped",
            None => "complete",
            Some(_) => "failed",
        };
        let mut outcome = self.outcome;
        if let Some((path, folder)) = self.folder {
            if folder.finish(state, cause).is_some() {
                outcome = outcome.max(Outcome::Faulty);
            } else if let Err(error) = write_page(&[path], None) {
                runtime::console::tell(format_args!("{error}"));
                outcome = outcome.max(Outcome::Faulty);
            }
        }
        outcome
    }
}

/// What ended a run before its time, for [`Active::finish`].
pub(crate) fn cause_of<T>(came: &Result<T, BenchError>) -> Option<String> {
    came.as_ref().err().map(ToString::to_string)
}

/// Writes the page of some run folders, by default into the first, and tells where it is.
///
/// # Errors
/// When a folder is none, or the page cannot be written.
pub(crate) fn write_page(folders: &[PathBuf], output: Option<&Path>) -> Result<PathBuf, BenchError> {
    let runs = folders.iter().map(|folder| StoredRun::read(folder)).collect::<Result<Vec<_>, _>>()?;
    let path = output.map_or_else(|| folders[0].join(REPORT_FILE), Path::to_path_buf);
    let failed = |source| BenchError::Page { path: path.display().to_string(), source };
    std::fs::write(&path, page::html(&runs)?).map_err(failed)?;
    Ok(path)
}
