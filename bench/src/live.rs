//! The live view: a line that is written over on a terminal, a line a second elsewhere.

use std::io::{IsTerminal, Write};

use crate::record::Kind;
use crate::timeline::Row;

const BAR_CELLS: usize = 20;

#[derive(Clone, Debug)]
pub(crate) struct Live {
    name: String,
    /// Seconds of the measured span.
    seconds: f64,
    over: bool,
}

impl Live {
    pub(crate) fn new(name: &str, seconds: f64) -> Live {
        Live { name: name.to_owned(), seconds, over: std::io::stderr().is_terminal() }
    }

    pub(crate) fn interval(&self, row: &Row) {
        let line = self.line(row);
        let mut out = std::io::stderr().lock();
        // That nobody looks any more is no reason to stop.
        let _ = if self.over { write!(out, "\r\x1b[K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }

    /// Leaves the line where it is.
    pub(crate) fn finish(&self) {
        if self.over {
            let _ = std::io::stderr().lock().write_all(b"\n");
        }
    }

    fn line(&self, row: &Row) -> String {
        let passed = (row.from_s + row.seconds).min(self.seconds);
        let cells = (passed / self.seconds.max(1e-9) * BAR_CELLS as f64) as usize;
        let bar = format!("{}{}", "█".repeat(cells), "░".repeat(BAR_CELLS.saturating_sub(cells)));
        let kind = Kind::most_telling(|kind| row.quantiles(kind).count > 0);
        let times = kind.map(|kind| row.quantiles(kind)).copied().unwrap_or_default();
        let us = |ns: u64| format!("{:.0}", ns as f64 / 1e3);
        format!(
            "{} {bar} {:.0} s left  sent {:.0}/s  stored {:.0}/s  got {:.0}/s  failed {}  {} us p50 {} p99 {} max {}",
            self.name,
            self.seconds - passed,
            row.a_second(row.counts.sent),
            row.a_second(row.counts.stored),
            row.a_second(row.counts.pulled),
            row.counts.failed,
            kind.map_or("-", Kind::tag),
            us(times.p50),
            us(times.p99),
            us(times.max),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Gathered, Shelf};

    #[test]
    fn a_line_tells_rates_times_and_what_is_left() {
        let shelf = Shelf::new(0..10);
        let mut recorder = shelf.recorder();
        recorder.record(Kind::Send, 1_000_000);
        (recorder.counts.sent, recorder.counts.stored) = (500, 250);
        drop(recorder);
        let (mut taken, mut spare) = (Gathered::new(), Gathered::new());
        shelf.take(&mut taken, &mut spare);
        let live = Live { name: "quick".to_owned(), seconds: 4.0, over: false };
        let line = live.line(&Row::new(0.5, 0.5, &taken));
        assert!(line.starts_with("quick █████░░░░░░░░░░░░░░░ 3 s left  sent 1000/s  stored 500/s"), "{line}");
        assert!(line.ends_with("send us p50 1000 p99 1000 max 1000"), "{line}");
    }
}
