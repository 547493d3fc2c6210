//! Where the times of a run are gathered: threads hand over what they saw batch by batch, one watcher takes it away each
//! second.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hdrhistogram::Histogram;

/// Times up to an hour, in nanoseconds; what is longer counts as an hour.
const TIME_NS_MAX: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;
/// Threads beyond it share: memory does not grow with the connections, and two of many seldom meet.
const SHARDS: usize = 8;
/// Times that a thread can hold before it asks for more memory, which may take it milliseconds.
const BATCH_TIMES: usize = 1024;

/// What a time is of. Its tag is its name in all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From when a stored message was due to its answer. Of one that was never sent, or that nobody answered until the end, what it
    /// waited at least.
    Send,
    /// From when a message was due to when it was sent, where only the generator was late.
    SendLag,
    /// From when a half message was due until its end was answered.
    Transaction,
    /// From when a message was due to its arrival at a consumer.
    EndToEnd,
    /// Of a message that was delayed: how much later than its time it arrived.
    Late,
    /// Of a message that a consumer sent back: how much later than its time it came again.
    Retry,
    /// Of a pull that found something, from request to answer.
    Pull,
    /// Of a pop that found something, from request to answer.
    Pop,
    /// Of the acknowledgement of a popped message, from request to answer.
    Ack,
    /// How much longer a thread slept than it asked for.
    Hiccup,
}

impl Kind {
    pub(crate) const ALL: [Kind; 10] = [
        Kind::Send,
        Kind::SendLag,
        Kind::Transaction,
        Kind::EndToEnd,
        Kind::Late,
        Kind::Retry,
        Kind::Pull,
        Kind::Pop,
        Kind::Ack,
        Kind::Hiccup,
    ];

    /// What a phase is looked at for, the most telling first.
    const TELLING: [Kind; 6] = [Kind::Late, Kind::EndToEnd, Kind::Transaction, Kind::Send, Kind::Pull, Kind::Pop];

    /// The most telling of those that were seen.
    pub(crate) fn most_telling(is_seen: impl Fn(Kind) -> bool) -> Option<Kind> {
        Kind::TELLING.into_iter().find(|kind| is_seen(*kind))
    }

    pub(crate) fn tag(self) -> &'static str {
        match self {
            Kind::Send => "send",
            Kind::SendLag => "send-lag",
            Kind::Transaction => "transaction",
            Kind::EndToEnd => "end-to-end",
            Kind::Late => "late",
            Kind::Retry => "retry",
            Kind::Pull => "pull",
            Kind::Pop => "pop",
            Kind::Ack => "ack",
            Kind::Hiccup => "hiccup",
        }
    }

    /// The figure that has its percentiles.
    pub(crate) fn figure(self) -> &'static str {
        match self {
            Kind::Send => "latency_us",
            Kind::SendLag => "send_lag_us",
            Kind::Transaction => "transaction_us",
            Kind::EndToEnd => "end_to_end_us",
            Kind::Late => "late_us",
            Kind::Retry => "retry_us",
            Kind::Pull => "pull_us",
            Kind::Pop => "pop_us",
            Kind::Ack => "ack_us",
            Kind::Hiccup => "hiccup_us",
        }
    }
}

pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, TIME_NS_MAX, DIGITS).expect("these bounds are valid")
}

/// What happened between two looks, the warm-up left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Messages sent.
    pub(crate) sent: u64,
    /// Messages acknowledged.
    pub(crate) stored: u64,
    /// Messages refused, or lost with their connection.
    pub(crate) failed: u64,
    /// Messages that consumers got.
    pub(crate) pulled: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.sent += other.sent;
        self.stored += other.stored;
        self.failed += other.failed;
        self.pulled += other.pulled;
    }
}

/// Times and counts of a stretch of a run.
#[derive(Clone, Debug)]
pub(crate) struct Gathered {
    times: [Histogram<u64>; Kind::ALL.len()],
    pub(crate) counts: Counts,
}

impl Gathered {
    /// All its memory is touched: whoever touches a page first waits until it is cleared, and for a huge page that was
    /// up to 20 ms of every new interval, in the thread that read the answers.
    pub(crate) fn new() -> Gathered {
        let mut written = histogram();
        written.saturating_record(1);
        let touched = |_| {
            let mut times = written.clone();
            times.reset();
            times
        };
        Gathered { times: std::array::from_fn(touched), counts: Counts::default() }
    }

    pub(crate) fn times(&self, kind: Kind) -> &Histogram<u64> {
        &self.times[kind as usize]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counts == Counts::default() && self.times.iter().all(Histogram::is_empty)
    }

    pub(crate) fn add(&mut self, other: &Gathered) {
        for (own, other) in self.times.iter_mut().zip(&other.times) {
            if !other.is_empty() {
                own.add(other).expect("all have the same bounds");
            }
        }
        self.counts.add(other.counts);
    }

    pub(crate) fn clear(&mut self) {
        self.times.iter_mut().filter(|times| !times.is_empty()).for_each(Histogram::reset);
        self.counts = Counts::default();
    }
}

/// What all threads of a run hand over to.
pub(crate) struct Shelf {
    /// Of what was due in here the times are kept.
    span_ns: Range<u64>,
    shards: Vec<Mutex<Gathered>>,
    recorders: AtomicUsize,
}

/// The memory of a shelf, made before the time of its span is known, since that takes a while.
pub(crate) struct Boards {
    shards: Vec<Mutex<Gathered>>,
}

impl Boards {
    pub(crate) fn new() -> Boards {
        Boards { shards: (0..SHARDS).map(|_| Mutex::new(Gathered::new())).collect() }
    }

    pub(crate) fn shelf(self, span_ns: Range<u64>) -> Arc<Shelf> {
        Arc::new(Shelf { span_ns, shards: self.shards, recorders: AtomicUsize::new(0) })
    }
}

impl Shelf {
    pub(crate) fn new(span_ns: Range<u64>) -> Arc<Shelf> {
        Boards::new().shelf(span_ns)
    }

    pub(crate) fn span_ns(&self) -> Range<u64> {
        self.span_ns.clone()
    }

    /// A recorder for one more thread.
    pub(crate) fn recorder(self: &Arc<Shelf>) -> Recorder {
        let shard = self.recorders.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let times = Vec::with_capacity(BATCH_TIMES);
        Recorder { shelf: self.clone(), shard, times, counts: Counts::default() }
    }

    /// Puts times there that nobody saw end, each with how often: lower bounds.
    pub(crate) fn add(&self, kind: Kind, times: impl Iterator<Item = (u64, u64)>) {
        let mut gathered = self.shards[0].lock().expect("no holder panics");
        times.for_each(|(nanoseconds, count)| {
            gathered.times[kind as usize].saturating_record_n(nanoseconds.max(1), count);
        });
    }

    /// Puts all that was handed over since the last look into `taken`, which is cleared before.
    pub(crate) fn take(&self, taken: &mut Gathered, spare: &mut Gathered) {
        taken.clear();
        for shard in &self.shards {
            spare.clear();
            // The lock is held for an exchange only: whoever hands over does not wait for the addition.
            std::mem::swap(spare, &mut *shard.lock().expect("no holder panics"));
            taken.add(spare);
        }
    }
}

/// One thread's hand. What it holds is handed over with [`Recorder::hand_over`], at the latest when it is dropped.
pub(crate) struct Recorder {
    shelf: Arc<Shelf>,
    shard: usize,
    times: Vec<(Kind, u64)>,
    pub(crate) counts: Counts,
}

impl Recorder {
    pub(crate) fn record(&mut self, kind: Kind, nanoseconds: u64) {
        self.times.push((kind, nanoseconds.max(1)));
    }

    pub(crate) fn hand_over(&mut self) {
        if self.times.is_empty() && self.counts == Counts::default() {
            return;
        }
        let mut gathered = self.shelf.shards[self.shard].lock().expect("no holder panics");
        for (kind, nanoseconds) in self.times.drain(..) {
            gathered.times[kind as usize].saturating_record(nanoseconds);
        }
        gathered.counts.add(std::mem::take(&mut self.counts));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.hand_over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_handed_over_is_taken_once() {
        let shelf = Shelf::new(0..10);
        let (mut taken, mut spare, mut total) = (Gathered::new(), Gathered::new(), Gathered::new());
        let mut recorders: Vec<Recorder> = (0..40).map(|_| shelf.recorder()).collect();
        for round in 0..3 {
            for (index, recorder) in (1..).zip(&mut recorders) {
                recorder.record(Kind::Send, index * 1000);
                recorder.record(Kind::Hiccup, 0);
                recorder.counts.stored += 2;
                if round < 2 {
                    recorder.hand_over();
                }
            }
            shelf.take(&mut taken, &mut spare);
            total.add(&taken);
        }
        assert_eq!((total.times(Kind::Send).len(), total.counts.stored), (80, 160));
        drop(recorders);
        shelf.take(&mut taken, &mut spare);
        total.add(&taken);
        assert_eq!((total.times(Kind::Send).len(), total.times(Kind::Send).max() / 100), (120, 400));
        assert_eq!((total.times(Kind::Hiccup).max(), total.times(Kind::Pull).len()), (1, 0));
        shelf.take(&mut taken, &mut spare);
        assert_eq!(taken.counts, Counts::default());
    }
}
