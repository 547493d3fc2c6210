//! Where a derived extent ends and the next begins.
//!
//! It is a function of the log, whenever an extent is cut: at multiples of some bytes. Where a stretch between two of them
//! holds a record or two of each of very many queues, every record would have a run of its own to make, to write and to keep.
//! So an extent goes on over the next multiple until it has several records of each queue.

/// So many records of each of its queues make an extent worth its runs.
const RECORDS_PER_QUEUE: u64 = 8;
/// It ends at multiples of so many stretches in any case: memory and the next start depend on its length.
const STRETCHES_MAX: u64 = 4;

/// What an extent has by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    /// Where its last record begins; `None` when there is none yet.
    last: Option<u64>,
    records: u64,
    /// Those that have records in it.
    queues: u64,
}

impl Span {
    pub(crate) fn new(start: u64) -> Span {
        Span { start, last: None, records: 0, queues: 0 }
    }

    /// One that has something already.
    pub(crate) fn with(start: u64, last: u64, records: u64, queues: u64) -> Span {
        Span { start, last: Some(last), records, queues }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    pub(crate) fn add(&mut self, offset: u64, is_first_of_queue: bool) {
        self.last = Some(offset);
        self.records += 1;
        self.queues += u64::from(is_first_of_queue);
    }

    /// Passes over a record that counts no more.
    pub(crate) fn pass(&mut self, offset: u64) {
        self.last = Some(offset);
    }

    /// Whether a record at `offset` begins the next extent.
    pub(crate) fn ends_before(&self, offset: u64, stretch_bytes: u64) -> bool {
        let Some(last) = self.last else { return false };
        let crosses = |bytes| last / bytes != offset / bytes;
        let is_worth_it = self.records >= self.queues * RECORDS_PER_QUEUE;
        crosses(stretch_bytes) && (is_worth_it || crosses(stretch_bytes * STRETCHES_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The starts of the extents of records of 10 bytes that go to the queues in turn.
    fn starts(queues: u64, records: u64) -> Vec<u64> {
        let mut span = Span::new(0);
        let mut starts = vec![0];
        let mut seen = 0;
        for number in 0..records {
            if span.ends_before(number * 10, 100) {
                span = Span::new(number * 10);
                starts.push(span.start);
                seen = 0;
            }
            span.add(number * 10, seen < queues);
            seen += 1;
        }
        starts
    }

    #[test]
    fn extents_end_at_multiples() {
        assert_eq!(starts(1, 35), [0, 100, 200, 300]);
    }

    #[test]
    fn with_many_queues_they_go_on() {
        assert_eq!(starts(2, 60), [0, 200, 400], "after 16 records the next multiple");
        assert_eq!(starts(1000, 100), [0, 400, 800], "never over more than four");
    }

    #[test]
    fn what_counts_no_more_is_passed_over() {
        let mut span = Span::new(50);
        assert!(span.is_empty() && !span.ends_before(1000, 100));
        span.pass(60);
        assert!(!span.is_empty() && !span.ends_before(70, 100) && span.ends_before(100, 100));
        let resumed = Span::with(0, 90, 7, 1);
        assert!(!resumed.ends_before(110, 100) && resumed.ends_before(400, 100));
    }
}
