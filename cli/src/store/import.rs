//! `ringmq store import`: the store of another broker, with progress and a report.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use import::{ImportError, Options, Progress, Report};
use runtime::clock;

use super::bytes_text;
use crate::failure::{Exit, Failure};

/// How often the bar moves, and how often a line is printed where there is no terminal.
const BAR_EVERY: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(5);
const BAR_CELLS: u64 = 30;
/// Lines of one kind in the report; the others are counted.
const LINES_MAX: usize = 50;

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The folder of the other broker's store (storePathRootDir)
    dir: PathBuf,
    /// The folder to make: it must not exist, or be empty
    #[arg(long, value_name = "STORE")]
    to: PathBuf,
    /// Where the other broker's log lies, if not in DIR/commitlog (storePathCommitLog); several with commas
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    commit_log: Vec<PathBuf>,
    /// Logs of the new store, each with a segment at least; it keeps them for ever [default: one for each core of this
    /// machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    logs: Option<u16>,
    /// Bytes of a segment, the broker's mappedFileSizeCommitLog [default: that of the other broker]
    #[arg(long, value_name = "BYTES")]
    segment_bytes: Option<u64>,
}

pub(crate) fn run(arguments: &Import) -> Result<(), Failure> {
    let options = Options {
        source: arguments.dir.clone(),
        commit_logs: arguments.commit_log.clone(),
        target: arguments.to.clone(),
        logs: arguments.logs.unwrap_or_else(runtime::process::cpu_count),
        segment_bytes: arguments.segment_bytes,
    };
    let began = clock::instant();
    let mut bar = Bar::new(began);
    let outcome = import::run(&options, &mut |progress| bar.show(progress));
    bar.end();
    let report = outcome.map_err(Failure::from)?;
    crate::print(&text(arguments, &report, began.elapsed()))?;
    if report.is_whole() {
        return Ok(());
    }
    let (damages, differences) = (report.damages.len(), report.differences.len() + report.without_queue.len());
    let tables = report.restored.len();
    let cause = format!(
        "{damages} parts of the log and {tables} tables could not be read, and {differences} queues have not all their \
         messages; the store was made without them"
    );
    Err(Failure::new(Exit::Partial, cause)
        .with_fix("use it as it is; or remove it, put whole files in the place of the damaged ones and import again"))
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Failure {
        match error {
            ImportError::Storage(error) => Failure::from(error),
            ImportError::Source(_) | ImportError::Target(_) => Failure::new(Exit::Store, error.to_string()),
            ImportError::Io { .. } => Failure::new(Exit::Failure, error.to_string()),
        }
    }
}

/// Where the import is: a bar on a terminal, lines elsewhere.
struct Bar {
    began: Instant,
    told: Instant,
    terminal: bool,
    shown: bool,
}

impl Bar {
    fn new(began: Instant) -> Bar {
        Bar { began, told: began, terminal: std::io::stderr().is_terminal(), shown: false }
    }

    fn show(&mut self, progress: Progress) {
        let every = if self.terminal { BAR_EVERY } else { LINE_EVERY };
        if self.told.elapsed() < every {
            return;
        }
        self.told = clock::instant();
        let text = progress_text(progress, self.began.elapsed());
        // Where nobody reads the error output, nobody misses it.
        if self.terminal {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{} {text}", cells(progress));
            self.shown = true;
        } else {
            runtime::console::tell(format_args!("{text}"));
        }
    }

    fn end(&self) {
        if self.shown {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

fn cells(progress: Progress) -> String {
    let filled = progress.bytes * BAR_CELLS / progress.bytes_total.max(1);
    (0..BAR_CELLS).map(|cell| if cell < filled { '#' } else { '.' }).collect()
}

fn progress_text(progress: Progress, elapsed: Duration) -> String {
    let Progress { bytes, bytes_total } = progress;
    let rate = bytes as f64 / elapsed.as_secs_f64().max(0.001);
    let mut text = format!(
        "{:3} %  {} of {}  {}/s",
        bytes * 100 / bytes_total.max(1),
        bytes_text(bytes),
        bytes_text(bytes_total),
        bytes_text(rate as u64)
    );
    // Before the first bytes nobody knows.
    if bytes > 0 {
        let left_seconds = ((bytes_total - bytes) as f64 / rate) as u64;
        write!(text, "  {}:{:02} left", left_seconds / 60, left_seconds % 60).expect("a text takes all");
    }
    text
}

fn text(arguments: &Import, report: &Report, elapsed: Duration) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a text takes all");
    line(format!(
        "{} is a store now: {} of {} in {:.1} s",
        arguments.to.display(),
        bytes_text(report.source_bytes),
        arguments.dir.display(),
        elapsed.as_secs_f64()
    ));
    line(format!("messages    {} in {} queues of {} topics", report.records, report.queues, report.topics));
    line(format!("groups      {}, {} committed offsets", report.groups, report.offsets));
    line(format!(
        "waiting     {} with a delay level, {} with a time, {} half messages, {} popped and not acknowledged",
        report.delayed, report.timed, report.halves, report.popped
    ));
    line(format!(
        "made with   {} logs, segments of {} bytes: start the broker with mappedFileSizeCommitLog={}",
        report.logs, report.segment_bytes, report.segment_bytes
    ));
    for (why, count) in &report.left_out {
        line(format!("left out    {count} records {}", why.text()));
    }
    if report.cut_bytes > 0 {
        line(format!("left out    {} bytes of a torn tail, as the other broker would", report.cut_bytes));
    }
    report.notes.iter().take(LINES_MAX).for_each(|note| line(format!("note        {note}")));
    for lost in report.damages.iter().take(LINES_MAX) {
        line(format!("damaged     offsets {} to {}: {}", lost.start, lost.limit, lost.reason));
    }
    for queue in report.differences.iter().take(LINES_MAX) {
        line(format!(
            "difference  {} {}: its consume queue knows {} messages, {} were taken over",
            queue.topic, queue.queue, queue.expected, queue.taken
        ));
    }
    for ((topic, queue), count) in report.without_queue.iter().take(LINES_MAX) {
        line(format!(
            "left out    {count} records of {topic} {queue}: no consume queue of the topic is there; if it was not deleted and \
             made again, put its folder in consumequeue/ back, or move all of consumequeue/ away, and import again"
        ));
    }
    report.restored.iter().for_each(|table| line(format!("damaged     {table}")));
    if report.unknown > 0 {
        line(format!("note        {} messages were taken over that their consume queues have lost", report.unknown));
    }
    for (count, what) in [
        (report.notes.len(), "notes"),
        (report.damages.len(), "damaged parts"),
        (report.differences.len(), "queues that differ"),
    ] {
        if count > LINES_MAX {
            line(format!("and {} more {what}", count - LINES_MAX));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_how_far_how_fast_and_how_long() {
        let progress = Progress { bytes: 1 << 30, bytes_total: 4 << 30 };
        let text = progress_text(progress, Duration::from_secs(10));
        assert_eq!(text, " 25 %  1.0 GiB of 4.0 GiB  102.4 MiB/s  0:30 left");
        assert_eq!(cells(progress), "#######.......................");
        let nothing = Progress { bytes: 0, bytes_total: 0 };
        assert_eq!(progress_text(nothing, Duration::ZERO), "  0 %  0 B of 0 B  0 B/s", "nothing is divided by nothing");
    }
}
