//! The watching thread of a phase: each second it takes away what was gathered, and it looks at the processes meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{RunClock, nanoseconds};
use crate::desk::Desk;
use crate::machine::{Memory, Snapshot};
use crate::record::{Gathered, Shelf};
use crate::stages::Look;
use crate::target::Target;
use crate::timeline::{Row, Timeline};

/// How often it is looked whether the phase is over, and at the server's memory.
const PERIOD: Duration = Duration::from_millis(20);
const MEMORY_PERIOD_NS: u64 = 100_000_000;
const INTERVAL_NS: u64 = 1_000_000_000;

/// What generator, server and machine used in the measured span.
pub(crate) struct Watched {
    pub(crate) from: Snapshot,
    pub(crate) to: Snapshot,
    /// The most that the server had.
    pub(crate) memory: Option<Memory>,
    /// The measured span ended here, before its time when the phase was stopped or through; where it began when it ended
    /// in the warm-up.
    pub(crate) end_ns: u64,
    /// When the measured span began, by the wall clock.
    pub(crate) from_ms: u64,
}

/// What a watch writes into, made before the time of the phase begins, since that takes a while.
pub(crate) struct Sheets {
    timeline: Timeline,
    taken: Gathered,
    spare: Gathered,
}

impl Sheets {
    pub(crate) fn new() -> Sheets {
        Sheets { timeline: Timeline::new(), taken: Gathered::new(), spare: Gathered::new() }
    }
}

pub(crate) struct Watch<'a> {
    clock: RunClock,
    shelf: Arc<Shelf>,
    broker: SocketAddr,
    server_pid: Option<u32>,
    desk: &'a mut Desk,
    pub(crate) timeline: Timeline,
    taken: Gathered,
    spare: Gathered,
    /// Where the interval that is being gathered began.
    interval_from_ns: u64,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(
        clock: RunClock,
        shelf: Arc<Shelf>,
        target: &Target,
        sheets: Sheets,
        desk: &'a mut Desk,
    ) -> Watch<'a> {
        let interval_from_ns = shelf.span_ns().start;
        let Sheets { timeline, taken, spare } = sheets;
        let (broker, server_pid) = (target.broker, target.server_pid);
        Watch { clock, shelf, broker, server_pid, desk, timeline, taken, spare, interval_from_ns }
    }

    /// Waits for the end of the measured span, of the phase before it, or for a stop, and for nothing that the target does.
    /// `messages` tells how many there were so far. Where the span began and where it ended the target is asked for its stages.
    pub(crate) fn span(
        &mut self,
        messages: impl Fn() -> u64,
        mut is_over: impl FnMut() -> bool,
    ) -> (Watched, [Look; 2]) {
        let span_ns = self.shelf.span_ns();
        let mut ended = |desk: &Desk| is_over() || desk.is_stopped();
        while self.clock.now_ns() < span_ns.start && !ended(self.desk) {
            self.sleep_until(span_ns.start);
        }
        let (broker, pid, clock, from_ms) = (self.broker, self.server_pid, self.clock, runtime::clock::now_ms().0);
        let from = Snapshot::take(clock.now_ns(), messages(), pid);
        let before = Look::begin(broker, clock);
        let (mut memory, mut looked_ns) = (look_at_memory(None, pid), clock.now_ns());
        while self.clock.now_ns() < span_ns.end && !ended(self.desk) {
            self.sleep_until(span_ns.end);
            let now_ns = self.clock.now_ns();
            self.desk.passed((now_ns - span_ns.start) as f64 / (span_ns.end - span_ns.start) as f64);
            if now_ns >= looked_ns + MEMORY_PERIOD_NS {
                (memory, looked_ns) = (look_at_memory(memory, pid), now_ns);
            }
            if now_ns >= self.interval_from_ns + INTERVAL_NS {
                self.interval();
            }
        }
        let now_ns = clock.now_ns();
        let to = Snapshot::take(now_ns, messages(), pid);
        let looks = [before, Look::begin(broker, clock)];
        let end_ns = now_ns.clamp(span_ns.start, span_ns.end);
        (Watched { from, to, memory: look_at_memory(memory, pid), end_ns, from_ms }, looks)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.desk.is_stopped()
    }

    /// Ends an interval.
    pub(crate) fn interval(&mut self) {
        self.shelf.take(&mut self.taken, &mut self.spare);
        self.add_taken();
    }

    /// What came after the measured span is an interval of its own, if there is anything.
    pub(crate) fn remainder(&mut self) {
        self.shelf.take(&mut self.taken, &mut self.spare);
        if !self.taken.is_empty() {
            self.add_taken();
        }
    }

    fn add_taken(&mut self) {
        let now_ns = self.clock.now_ns();
        let from_s = self.interval_from_ns.saturating_sub(self.shelf.span_ns().start) as f64 / 1e9;
        let seconds = now_ns.saturating_sub(self.interval_from_ns) as f64 / 1e9;
        let row = Row::new(from_s, seconds, &self.taken);
        self.desk.interval(&row, &self.taken);
        self.timeline.add(row, &self.taken);
        self.interval_from_ns = now_ns;
    }

    fn sleep_until(&self, limit_ns: u64) {
        self.clock.sleep_until((self.clock.now_ns() + nanoseconds(PERIOD)).min(limit_ns));
    }
}

/// The most memory of what was seen and what is there now.
fn look_at_memory(seen: Option<Memory>, server_pid: Option<u32>) -> Option<Memory> {
    let now = server_pid.and_then(|pid| Memory::of(&pid.to_string()).ok());
    now.map(|now| seen.unwrap_or(now).max(now)).or(seen)
}
