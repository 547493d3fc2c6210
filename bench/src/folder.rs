//! What is left of a run: a folder that is true at every moment, also of a run that was stopped or whose disk was full.
//!
//! The measurement goes on without its files: the first thing that cannot be written is told once, and the run ends with
//! the exit code of one that is done in part.

pub(crate) mod forms;
pub(crate) mod interval_log;
pub(crate) mod stored;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::error::BenchError;
use crate::phase::course::Measured;
use crate::record::{Gathered, Kind};
use crate::timeline::Row;
use interval_log::IntervalLog;

/// Of `run.json`. A reader knows the members of its own version; new members do not make a new version.
pub(crate) const SCHEMA: u64 = 1;
pub(crate) const RUN_FILE: &str = "run.json";
const INTERVALS_FILE: &str = "intervals.csv";
const PHASES_FILE: &str = "phases.csv";

pub(crate) struct Folder {
    path: PathBuf,
    /// All of `run.json`.
    record: Value,
    phases: usize,
    failed: Option<String>,
}

/// The files of the phase that runs.
pub(crate) struct PhaseFiles {
    name: String,
    round: u32,
    began_ms: u64,
    stem: String,
    log: Option<IntervalLog>,
    intervals: Option<File>,
    failed: Option<String>,
}

impl Folder {
    /// Makes the folder. `record` is what is known before the first phase.
    ///
    /// # Errors
    /// When it cannot be made, or is there already.
    pub(crate) fn create(path: &Path, mut record: Value) -> Result<Folder, BenchError> {
        let failed = |source| BenchError::Folder { path: path.display().to_string(), source };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::create_dir(path).map_err(failed)?;
        record["schema"] = json!(SCHEMA);
        record["state"] = json!("running");
        record["phases"] = json!([]);
        let mut folder = Folder { path: path.to_path_buf(), record, phases: 0, failed: None };
        folder.write_record();
        folder.write(INTERVALS_FILE, forms::INTERVALS_HEADER.as_bytes());
        folder.write(PHASES_FILE, forms::PHASES_HEADER.as_bytes());
        Ok(folder)
    }

    /// Opens the files of the next phase.
    pub(crate) fn begin(&mut self, name: &str, round: u32) -> PhaseFiles {
        self.phases += 1;
        let stem = format!("{:02}-{}", self.phases, file_name(name));
        let began_ms = runtime::clock::now_ms().0;
        let mut failed = None;
        let log = IntervalLog::create(&self.path.join(format!("{stem}.hlog")), began_ms);
        let log = log.map_err(|error| failed = Some(format!("{stem}.hlog: {error}"))).ok();
        let intervals = File::options().append(true).open(self.path.join(INTERVALS_FILE));
        let intervals = intervals.map_err(|error| failed = Some(format!("{INTERVALS_FILE}: {error}"))).ok();
        PhaseFiles { name: name.to_owned(), round, began_ms, stem, log, intervals, failed }
    }

    /// Writes what came of a phase.
    pub(crate) fn end(&mut self, files: PhaseFiles, measured: &Measured) {
        let PhaseFiles { name, round, began_ms, stem, log, failed, .. } = files;
        self.note(failed.map_or(Ok(()), Err));
        if let Some(log) = log {
            self.note(log.finish().map_err(|error| format!("{stem}.hlog: {error}")));
        }
        let mut written = vec![format!("{stem}.hlog")];
        for kind in Kind::ALL {
            let times = measured.timeline.total.times(kind);
            if !times.is_empty() {
                let file = format!("{stem}.{}.hgrm", kind.tag());
                self.write(&file, forms::percentiles(times).as_bytes());
                written.push(file);
            }
        }
        let mut phase = measured.report.json();
        let target = phase["target"].as_str().unwrap_or_default();
        let result = forms::open_messaging(&name, target, &phase["config"], &measured.timeline);
        let file = format!("{stem}.omb.json");
        self.write(&file, format!("{result:#}\n").as_bytes());
        written.push(file);
        let lines = forms::figure_lines(&name, round, measured.report.mode, &phase["figures"]);
        let appended = File::options().append(true).open(self.path.join(PHASES_FILE));
        let appended = appended.and_then(|mut file| file.write_all(lines.as_bytes()));
        self.note(appended.map_err(|error| format!("{PHASES_FILE}: {error}")));
        phase["name"] = json!(name);
        phase["round"] = json!(round);
        phase["began_ms"] = json!(began_ms);
        phase["ended_ms"] = json!(runtime::clock::now_ms().0);
        phase["files"] = json!(written);
        self.record["phases"].as_array_mut().expect("it was made an array").push(phase);
        self.write_record();
    }

    /// Removes the files of a phase that has no figures.
    pub(crate) fn discard(&mut self, files: PhaseFiles) {
        self.phases -= 1;
        let name = format!("{}.hlog", files.stem);
        self.note(files.failed.map_or(Ok(()), Err));
        if files.log.is_some() {
            let removed = fs::remove_file(self.path.join(&name));
            self.note(removed.map_err(|error| format!("{name}: {error}")));
        }
    }

    /// Writes how the run ended. Tells what could not be written at all.
    pub(crate) fn finish(mut self, state: &str, cause: Option<&str>) -> Option<String> {
        self.record["state"] = json!(state);
        self.record["cause"] = json!(cause);
        self.record["ended_ms"] = json!(runtime::clock::now_ms().0);
        self.write_record();
        self.failed
    }

    /// Writes a file that is not there yet or is replaced as a whole.
    pub(crate) fn write(&mut self, name: &str, bytes: &[u8]) {
        let written = replace(&self.path.join(name), bytes);
        self.note(written.map_err(|error| format!("{name}: {error}")));
    }

    fn write_record(&mut self) {
        self.write(RUN_FILE, format!("{:#}\n", self.record).as_bytes());
    }

    /// Tells the first failure; the later ones come of it.
    fn note(&mut self, written: Result<(), String>) {
        if let Err(what) = written
            && self.failed.is_none()
        {
            let folder = self.path.display();
            runtime::console::tell(format_args!(
                "results cannot be written to {folder}: {what}; measuring goes on, figures are printed only"
            ));
            self.failed = Some(what);
        }
    }
}

impl PhaseFiles {
    /// Adds an interval; after a failure nothing more is added.
    pub(crate) fn interval(&mut self, row: &Row, gathered: &Gathered) {
        if self.failed.is_some() {
            return;
        }
        let logged = self.log.as_mut().map_or(Ok(()), |log| log.add(row.from_s, row.seconds, gathered));
        let lines = forms::interval_lines(&self.name, self.round, row);
        let listed = self.intervals.as_mut().map_or(Ok(()), |file| file.write_all(lines.as_bytes()));
        if let Err(error) = logged.and(listed) {
            self.failed = Some(format!("{}.hlog: {error}", self.stem));
        }
    }
}

/// Readers see the old file or the new one, never a part.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let written = File::create(&part).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    let replaced = written.and_then(|()| fs::rename(&part, path));
    if replaced.is_err() {
        // What there is of it is of no use; that it cannot be removed changes nothing.
        let _ = fs::remove_file(&part);
    }
    replaced
}

/// Where the results of a run go that names no folder: its name and when it began, in UTC.
pub(crate) fn default_path(name: &str, began_ms: u64) -> PathBuf {
    let seconds = began_ms / 1000;
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let time = format!("{year}{month:02}{day:02}-{hour:02}{minute:02}{second:02}");
    Path::new("bench-results").join(format!("{}-{time}", file_name(name)))
}

/// Year, month and day of a day since 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that a leap day is the last of its year; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// A name as part of a file's.
pub(crate) fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    name.chars().map(plain).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_after_the_run_and_its_time() {
        for (began_ms, expected) in [
            (0, "bench-results/a-b-19700101-000000"),
            (951_782_399_000, "bench-results/a-b-20000228-235959"),
            (951_868_799_000, "bench-results/a-b-20000229-235959"),
            (1_796_025_468_962, "bench-results/a-b-20261130-075748"),
        ] {
            assert_eq!(default_path("a b", began_ms), Path::new(expected));
        }
    }
}
