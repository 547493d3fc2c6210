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
use crate::identity::Identity;
use crate::live::Live;
use crate::outage::Outage;
use crate::page::{self, Page, Painter};
use crate::phase::Phase;
use crate::phase::course::{self, Measured};
use crate::report::Outcome;

pub(crate) const REPORT_FILE: &str = "report.html";

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
    /// What takes the target away and brings it back, in each phase.
    pub(crate) outage: Option<&'a str>,
}

/// A run that goes on.
pub(crate) struct Active<'a> {
    run: &'a Run<'a>,
    folder: Option<(PathBuf, Folder)>,
    desk: Desk,
    outcome: Outcome,
    /// Phases that have figures.
    measured: usize,
}

impl<'a> Run<'a> {
    /// Carries all rounds out. `shown` is called with what came of each phase. A run that ends before its time has what it
    /// measured until then, and is done in part.
    ///
    /// # Errors
    /// When no phase comes about at all.
    pub(crate) fn carry_out(
        &self,
        out: Option<&Path>,
        stop: &Arc<StopSignal>,
        shown: Shown<'_>,
    ) -> Result<Outcome, BenchError> {
        self.check()?;
        let mut active = self.begin(out, stop, &Identity::of(self.target.broker)?)?;
        let came = (1..=self.rounds).try_for_each(|round| active.round(round, shown));
        let ended = active.finish(came.as_ref().err());
        came.map_or_else(|error| ended.ok_or(error), |()| Ok(ended.unwrap_or(Outcome::Partial)))
    }

    /// # Errors
    /// When a phase cannot be carried out at all.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        self.phases.iter().try_for_each(Phase::check)
    }

    /// Makes the folder, for a target that is there.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub(crate) fn begin(
        &'a self,
        out: Option<&Path>,
        stop: &Arc<StopSignal>,
        identity: &Identity,
    ) -> Result<Active<'a>, BenchError> {
        let folder = match out {
            Some(path) => Some((path.to_path_buf(), Folder::create(path, self.record(identity))?)),
            None => None,
        };
        let outage = self.outage.map(Outage::new);
        let desk = Desk { stop: stop.clone(), files: None, live: None, outage };
        Ok(Active { run: self, folder, desk, outcome: Outcome::Clean, measured: 0 })
    }

    /// What is known of the run before its first phase.
    fn record(&self, identity: &Identity) -> Value {
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
        self.run.phases.iter().try_for_each(|phase| self.phase(phase, round, shown))
    }

    /// One of its phases, unless a stop was asked for.
    ///
    /// # Errors
    /// When it does not come about.
    pub(crate) fn phase(&mut self, phase: &Phase, round: u32, shown: Shown<'_>) -> Result<(), BenchError> {
        if self.desk.is_stopped() {
            return Ok(());
        }
        self.desk.files = self.folder.as_mut().map(|(_, folder)| folder.begin(&phase.name, round));
        self.desk.live = self.run.live.then(|| Live::new(&phase.name, phase.duration.as_secs_f64()));
        let seed = self.run.seed.wrapping_add(round.into());
        let came = course::run(phase, self.run.target, seed, &mut self.desk);
        if let Some(live) = self.desk.live.take() {
            live.finish();
        }
        if let Some(outage) = &mut self.desk.outage {
            outage.finish();
        }
        let files = self.folder.as_mut().map(|(_, folder)| folder).zip(self.desk.files.take());
        let measured = match came {
            Ok(measured) => measured,
            Err(error) => {
                if let Some((folder, files)) = files {
                    folder.discard(files);
                }
                return if matches!(error, BenchError::Stopped) { Ok(()) } else { Err(error) };
            }
        };
        if let Some((folder, files)) = files {
            folder.end(files, &measured);
        }
        self.measured += 1;
        shown(&measured)?;
        self.outcome = self.outcome.max(measured.report.outcome());
        Ok(())
    }

    /// Writes how the run ended, and its page. `cause` is what ended it before its time. None: nothing was measured before.
    pub(crate) fn finish(self, cause: Option<&BenchError>) -> Option<Outcome> {
        let stopped = self.desk.is_stopped();
        let state = match cause {
            None if stopped => "stopped",
            None => "complete",
            Some(_) => "failed",
        };
        let mut outcome = self.outcome;
        let mut kept = String::new();
        if let Some((path, folder)) = self.folder {
            kept = format!(" and kept in {}", path.display());
            if folder.finish(state, cause.map(ToString::to_string).as_deref()).is_some() {
                outcome = Outcome::Partial;
            } else if let Err(error) = own_page(path) {
                runtime::console::tell(format_args!("{error}"));
                outcome = Outcome::Partial;
            }
        }
        let (measured, wanted) = (self.measured, self.run.phases.len() * self.run.rounds as usize);
        let told = |what: &str| {
            runtime::console::tell(format_args!("{what}; {measured} of {wanted} phases are measured{kept}"));
        };
        match cause {
            Some(_) if measured == 0 => return None,
            Some(error) => told(&format!("error: {error}")),
            None if stopped => told("stopped before the end"),
            None => return Some(outcome),
        }
        Some(Outcome::Partial)
    }
}

/// Makes both folders. When the second run cannot begin, the first has failed with it, and its folder says so.
pub(crate) fn begin_both<'a>(
    runs: &'a [Run<'a>; 2],
    folders: &[PathBuf; 2],
    identities: &[Identity; 2],
    stop: &Arc<StopSignal>,
) -> Result<[Active<'a>; 2], BenchError> {
    let first = runs[0].begin(Some(&folders[0]), stop, &identities[0])?;
    match runs[1].begin(Some(&folders[1]), stop, &identities[1]) {
        Ok(second) => Ok([first, second]),
        Err(error) => {
            first.finish(Some(&error));
            Err(error)
        }
    }
}

/// Both have ended, for one cause or as they should.
pub(crate) fn finish_both(pair: [Active<'_>; 2], cause: Option<&BenchError>) -> [Option<Outcome>; 2] {
    pair.map(|active| active.finish(cause))
}

/// Who comes first changes each round.
pub(crate) fn turns<T>(round: u32, [first, second]: [T; 2]) -> [T; 2] {
    if round % 2 == 1 { [first, second] } else { [second, first] }
}

/// Leaves a run's page in its folder.
fn own_page(folder: PathBuf) -> Result<(), BenchError> {
    let path = folder.join(REPORT_FILE);
    write_page(&page_of(&[folder])?, &path)
}

/// The page of some run folders.
///
/// # Errors
/// When a folder is none.
pub(crate) fn page_of(folders: &[PathBuf]) -> Result<Page, BenchError> {
    let runs = folders.iter().map(|folder| StoredRun::read(folder)).collect::<Result<Vec<_>, _>>()?;
    page::page(&runs)
}

/// # Errors
/// When the page cannot be written.
pub(crate) fn write_page(page: &Page, path: &Path) -> Result<(), BenchError> {
    let failed = |source| BenchError::Page { path: path.display().to_string(), source };
    std::fs::write(path, &page.text).map_err(failed)
}

/// Writes the pictures of a page, each a file, and tells how many.
///
/// # Errors
/// When a picture cannot be made or written.
pub(crate) fn write_pictures(page: &Page, pictures: Pictures<'_>) -> Result<usize, BenchError> {
    let write = |path: PathBuf, bytes: &[u8]| {
        std::fs::write(&path, bytes).map_err(|source| BenchError::Page { path: path.display().to_string(), source })
    };
    // A program that cannot do it leaves no folder.
    let as_png = || {
        let painter = Painter::new()?;
        page.pictures.iter().map(|picture| painter.png(&picture.svg)).collect::<Result<Vec<_>, _>>()
    };
    let png = pictures.png.map(|_| as_png()).transpose()?.unwrap_or_default();
    for folder in pictures.svg.into_iter().chain(pictures.png) {
        let failed = |source| BenchError::Page { path: folder.display().to_string(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    for (index, picture) in page.pictures.iter().enumerate() {
        if let Some(folder) = pictures.svg {
            write(folder.join(format!("{}.svg", picture.file_stem)), picture.svg.as_bytes())?;
        }
        if let (Some(folder), Some(png)) = (pictures.png, png.get(index)) {
            write(folder.join(format!("{}.png", picture.file_stem)), png)?;
        }
    }
    Ok(page.pictures.len())
}

/// Folders for pictures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pictures<'a> {
    pub(crate) svg: Option<&'a Path>,
    pub(crate) png: Option<&'a Path>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    use runtime::file::TempFolder;

    #[test]
    fn when_the_second_of_two_runs_cannot_begin_the_first_has_failed() {
        let out = TempFolder::new("begin-both");
        let folders = ["a", "b"].map(|name| out.path().join(name));
        std::fs::create_dir(&folders[1]).unwrap();
        let broker = SocketAddr::from(([127, 0, 0, 1], 1));
        let target = TargetArgs::of(broker);
        let run = || Run {
            name: "r",
            plan: Value::Null,
            phases: &[],
            rounds: 1,
            target: &target,
            seed: 0,
            live: false,
            outage: None,
        };
        let runs = [run(), run()];
        let identities = [Identity::default(), Identity::default()];
        let error = begin_both(&runs, &folders, &identities, &StopSignal::new()).err().unwrap();
        let record = StoredRun::read(&folders[0]).unwrap().record;
        assert_eq!((&record["state"], &record["cause"]), (&"failed".into(), &error.to_string().into()));
    }
}
