//! A run folder that is read again.

use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use serde_json::Value;

use super::interval_log::{self, LoggedInterval};
use super::{RUN_FILE, SCHEMA};
use crate::error::BenchError;
use crate::record::{Kind, histogram};

#[derive(Clone, Debug)]
pub(crate) struct StoredRun {
    pub(crate) path: PathBuf,
    /// All of `run.json`.
    pub(crate) record: Value,
    pub(crate) phases: Vec<StoredPhase>,
}

/// A phase in one round.
#[derive(Clone, Debug)]
pub(crate) struct StoredPhase {
    pub(crate) name: String,
    /// What `run.json` tells of it.
    pub(crate) record: Value,
    log: PathBuf,
}

impl StoredRun {
    /// # Errors
    /// When it is no run folder, or one of another version.
    pub(crate) fn read(path: &Path) -> Result<StoredRun, BenchError> {
        let wrong = |what: String| BenchError::Results { file: path.display().to_string(), what };
        let text = std::fs::read_to_string(path.join(RUN_FILE)).map_err(|error| {
            wrong(format!("{RUN_FILE}: {error}; a run folder is what `ringmq bench run` or --out makes"))
        })?;
        let record: Value = serde_json::from_str(&text).map_err(|error| wrong(format!("{RUN_FILE}: {error}")))?;
        if record["schema"] != SCHEMA {
            let found = &record["schema"];
            return Err(wrong(format!("{RUN_FILE} has schema version {found}; this program reads {SCHEMA}")));
        }
        let phases = record["phases"].as_array().map_or(&[][..], Vec::as_slice);
        let phases = phases.iter().map(|record| StoredPhase {
            name: record["name"].as_str().unwrap_or_default().to_owned(),
            log: path.join(record["files"][0].as_str().unwrap_or_default()),
            record: record.clone(),
        });
        Ok(StoredRun { path: path.to_path_buf(), phases: phases.collect(), record })
    }

    pub(crate) fn name(&self) -> &str {
        self.record["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn target(&self) -> &str {
        self.record["target"]["name"].as_str().unwrap_or_default()
    }

    /// Names of its phases, each once, in their order.
    pub(crate) fn phase_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for phase in &self.phases {
            if !names.contains(&phase.name.as_str()) {
                names.push(&phase.name);
            }
        }
        names
    }

    /// A phase in all of its rounds.
    pub(crate) fn rounds<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a StoredPhase> {
        self.phases.iter().filter(move |phase| phase.name == name)
    }
}

impl StoredPhase {
    /// # Errors
    /// When its log cannot be read.
    pub(crate) fn intervals(&self) -> Result<Vec<LoggedInterval>, BenchError> {
        let failed = |what| BenchError::Results { file: self.log.display().to_string(), what };
        interval_log::read(&self.log).map_err(failed)
    }

    /// A number of its figures, by the path to it.
    pub(crate) fn figure(&self, path: &str) -> Option<f64> {
        path.split('/').try_fold(&self.record["figures"], |value, name| value.get(name))?.as_f64()
    }

    pub(crate) fn is_void(&self) -> bool {
        self.tells("void")
    }

    pub(crate) fn has_faults(&self) -> bool {
        self.tells("faults")
    }

    fn tells(&self, reasons: &str) -> bool {
        self.record[reasons].as_array().is_some_and(|reasons| !reasons.is_empty())
    }
}

/// All times of one kind, merged.
pub(crate) fn merged<'a>(intervals: impl IntoIterator<Item = &'a LoggedInterval>, kind: Kind) -> Histogram<u64> {
    let mut all = histogram();
    for interval in intervals.into_iter().filter(|interval| interval.kind == kind) {
        interval_log::add_times(&mut all, &interval.times);
    }
    all
}
