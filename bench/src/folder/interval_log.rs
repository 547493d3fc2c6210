//! HdrHistogram's interval log, version 1.2: a line for each second and tag, nanoseconds, V2 deflate in base64.
//!
//! Written by hand so that a line can be added to an open file; read by the library, which others wrote.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};

use crate::record::{Gathered, Kind};

/// Intervals of one kind that are kept of a log, each a whole histogram of 270 KB: when there are more, neighbours are
/// merged. A chart has fewer columns.
const INTERVALS_MAX: usize = 240;
/// The column of the greatest value is in milliseconds, as the format's other writers have it.
const MAX_COLUMN_NS: f64 = 1e6;

pub(crate) struct IntervalLog {
    file: File,
    serializer: V2DeflateSerializer,
}

/// An interval that was read.
#[derive(Clone, Debug)]
pub(crate) struct LoggedInterval {
    pub(crate) kind: Kind,
    pub(crate) from_s: f64,
    pub(crate) seconds: f64,
    pub(crate) times: Histogram<u64>,
}

impl IntervalLog {
    /// A log whose intervals count from `began_ms`, milliseconds since 1970.
    pub(crate) fn create(path: &Path, began_ms: u64) -> io::Result<IntervalLog> {
        let mut file = File::create_new(path)?;
        let seconds = began_ms as f64 / 1e3;
        writeln!(file, "#[Logged by ringmq bench {}]", env!("CARGO_PKG_VERSION"))?;
        writeln!(file, "#[Histogram log format version 1.2]")?;
        writeln!(file, "#[StartTime: {seconds:.3} (seconds since epoch)]")?;
        writeln!(file, "#[BaseTime: {seconds:.3} (seconds since epoch)]")?;
        writeln!(file, r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#)?;
        Ok(IntervalLog { file, serializer: V2DeflateSerializer::new() })
    }

    /// Adds what was gathered, a line a tag that has anything.
    pub(crate) fn add(&mut self, from_s: f64, seconds: f64, gathered: &Gathered) -> io::Result<()> {
        let mut lines = String::new();
        for kind in Kind::ALL {
            let times = gathered.times(kind);
            if times.is_empty() {
                continue;
            }
            let mut bytes = Vec::new();
            self.serializer.serialize(times, &mut bytes).map_err(io::Error::other)?;
            let max = times.max() as f64 / MAX_COLUMN_NS;
            lines.push_str(&format!("Tag={},{from_s:.3},{seconds:.3},{max:.6},", kind.tag()));
            STANDARD.encode_string(&bytes, &mut lines);
            lines.push('\n');
        }
        self.file.write_all(lines.as_bytes())
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// The intervals of one kind, all of the same count of lines but for the last.
struct Kept {
    intervals: Vec<LoggedInterval>,
    lines_each: usize,
    lines_of_last: usize,
}

impl Kept {
    fn new() -> Kept {
        Kept { intervals: Vec::new(), lines_each: 1, lines_of_last: 1 }
    }

    fn add(&mut self, interval: LoggedInterval) {
        if self.lines_of_last == self.lines_each && self.intervals.len() == INTERVALS_MAX {
            self.merge_pairs();
        }
        match self.intervals.last_mut() {
            Some(last) if self.lines_of_last < self.lines_each => {
                last.take_in(&interval);
                self.lines_of_last += 1;
            }
            _ => {
                self.intervals.push(interval);
                self.lines_of_last = 1;
            }
        }
    }

    fn merge_pairs(&mut self) {
        const { assert!(INTERVALS_MAX.is_multiple_of(2)) };
        for pair in 0..self.intervals.len() / 2 {
            self.intervals.swap(pair, pair * 2);
            let (merged, rest) = self.intervals.split_at_mut(pair + 1);
            merged[pair].take_in(&rest[pair]);
        }
        self.intervals.truncate(INTERVALS_MAX / 2);
        self.lines_each *= 2;
        self.lines_of_last = self.lines_each;
    }
}

impl LoggedInterval {
    /// Takes in a later one of its kind, and what lies between the two.
    fn take_in(&mut self, later: &LoggedInterval) {
        self.seconds = later.from_s + later.seconds - self.from_s;
        add_times(&mut self.times, &later.times);
    }
}

/// Logs of other bounds come from another version; what does not fit is counted as the longest.
pub(crate) fn add_times(all: &mut Histogram<u64>, times: &Histogram<u64>) {
    if all.add(times).is_err() {
        times.iter_recorded().for_each(|step| {
            all.saturating_record_n(step.value_iterated_to(), step.count_at_value());
        });
    }
}

/// Reads a log, in the order of time; lines of tags that are not ours are passed over. Of a long log neighbouring
/// intervals are merged.
///
/// # Errors
/// What is wrong with it. A last line that is cut, as a full disk or a crash leaves it, is passed over.
pub(crate) fn read(path: &Path) -> Result<Vec<LoggedInterval>, String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut kept = Kind::ALL.map(|_| Kept::new());
    for entry in IntervalLogIterator::new(&text[..whole]) {
        let entry = entry.map_err(|error| format!("{error:?}"))?;
        let LogEntry::Interval(interval) = entry else { continue };
        let tag = interval.tag().map(|tag| tag.as_str().to_owned()).unwrap_or_default();
        let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.tag() == tag) else { continue };
        let bytes = STANDARD.decode(interval.encoded_histogram()).map_err(|error| error.to_string())?;
        let times = Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| format!("{error:?}"))?;
        let (from_s, seconds) = (interval.start_timestamp().as_secs_f64(), interval.duration().as_secs_f64());
        kept[kind as usize].add(LoggedInterval { kind, from_s, seconds, times });
    }
    let mut intervals: Vec<_> = kept.into_iter().flat_map(|kept| kept.intervals).collect();
    intervals.sort_by(|left, right| left.from_s.total_cmp(&right.from_s));
    Ok(intervals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Shelf;
    use runtime::file::TempFolder;

    #[test]
    fn what_was_logged_is_read_back_but_for_a_line_that_is_cut() {
        let folder = std::env::temp_dir().join(format!("ringmq-interval-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.hlog");
        let shelf = Shelf::new(0..10);
        let (mut taken, mut spare) = (Gathered::new(), Gathered::new());
        let mut log = IntervalLog::create(&path, 1_700_000_000_123).unwrap();
        for second in 0..3_u64 {
            let mut recorder = shelf.recorder();
            (1..=1000).for_each(|step| recorder.record(Kind::Send, step * 1000 * (second + 1)));
            recorder.record(Kind::Hiccup, 55_000);
            drop(recorder);
            shelf.take(&mut taken, &mut spare);
            log.add(second as f64, 1.0, &taken).unwrap();
        }
        log.finish().unwrap();
        let intervals = read(&path).unwrap();
        let seen: Vec<_> = intervals.iter().map(|logged| (logged.kind, logged.from_s, logged.times.len())).collect();
        let of = |second: f64| [(Kind::Send, second, 1000), (Kind::Hiccup, second, 1)];
        assert_eq!(seen, [of(0.0), of(1.0), of(2.0)].concat());
        assert_eq!(intervals[4].times, *taken.times(Kind::Send));
        let text = std::fs::read(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        assert_eq!(read(&path).unwrap().len(), 5);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_long_log_is_read_in_few_intervals_and_loses_nothing() {
        let folder = TempFolder::new("long-log");
        for (seconds, expected, seconds_each) in [(240, 240, 1.0), (241, 121, 2.0), (1000, 125, 8.0)] {
            let path = folder.path().join(format!("{seconds}.hlog"));
            let shelf = Shelf::new(0..10);
            let (mut taken, mut spare) = (Gathered::new(), Gathered::new());
            let mut log = IntervalLog::create(&path, 0).unwrap();
            for second in 0..seconds {
                let mut recorder = shelf.recorder();
                (1..=3).for_each(|step| recorder.record(Kind::Send, step * 1_000_000 + second));
                drop(recorder);
                shelf.take(&mut taken, &mut spare);
                log.add(second as f64, 1.0, &taken).unwrap();
            }
            log.finish().unwrap();
            let intervals = read(&path).unwrap();
            assert!(intervals.len() <= INTERVALS_MAX && intervals.len() == expected, "{seconds}: {}", intervals.len());
            assert_eq!(intervals.iter().map(|interval| interval.times.len()).sum::<u64>(), seconds * 3);
            let mut end_s = 0.0;
            for (index, interval) in intervals.iter().enumerate() {
                assert_eq!(interval.from_s, end_s, "{seconds}: nothing is left out or counted twice");
                end_s = interval.from_s + interval.seconds;
                assert!(interval.seconds == seconds_each || index == expected - 1, "{seconds}: all are as long");
            }
            assert_eq!(end_s, seconds as f64);
        }
    }
}
