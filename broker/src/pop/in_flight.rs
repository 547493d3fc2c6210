//! Batches that were popped from the queues of one log and are not wholly acknowledged. Pure.
//!
//! A batch is known by the offset of its note in the journal, and found by the receipt of any of its messages. Until its
//! time is over its messages are nobody's but the one's who popped them; then they are revived.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use base::{QueueId, QueueOffset};
use remoting::text::Text;

use super::receipt::Receipt;

/// Batches in flight of one log. Beyond it pops find nothing until some are acknowledged or revived. Each takes some 300
/// bytes.
pub(crate) const BATCHES_MAX: usize = 200_000;
/// Messages of one batch; a pop that asks for more is refused.
pub(crate) const BATCH_MESSAGES_MAX: usize = 32;

/// A queue as one group pops it. The topic may be a retry topic of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PopQueue {
    pub(crate) group: Text,
    pub(crate) topic: Text,
    pub(crate) queue: QueueId,
}

/// Messages that were popped together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) of: Rc<PopQueue>,
    pub(super) start: QueueOffset,
    pub(super) pop_time_ms: u64,
    pub(super) invisible_ms: u64,
    /// Ascending.
    pub(super) offsets: Vec<QueueOffset>,
    /// A bit for each offset that is acknowledged or revived.
    pub(super) done: u32,
}

const _: () = assert!(BATCH_MESSAGES_MAX <= u32::BITS as usize);

impl Batch {
    pub(super) fn due_ms(&self) -> u64 {
        self.pop_time_ms.saturating_add(self.invisible_ms)
    }

    /// Offsets that are still somebody's.
    pub(super) fn open(&self) -> impl Iterator<Item = QueueOffset> {
        self.offsets.iter().enumerate().filter(|(index, _)| self.done & 1 << index == 0).map(|(_, offset)| *offset)
    }

    fn finish(&mut self, offset: QueueOffset) -> bool {
        let Ok(index) = self.offsets.binary_search(&offset) else { return false };
        let was_open = self.done & 1 << index == 0;
        self.done |= 1 << index;
        was_open
    }
}

type ByReceipt = HashMap<(Rc<PopQueue>, QueueOffset, u64), QueueOffset>;

#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// By the offsets of their notes.
    batches: BTreeMap<QueueOffset, Batch>,
    by_receipt: ByReceipt,
    due: BTreeSet<(u64, QueueOffset)>,
    /// Starts and notes of the batches of each queue.
    by_queue: HashMap<Rc<PopQueue>, BTreeSet<(QueueOffset, QueueOffset)>>,
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (QueueOffset, &Batch)> {
        self.batches.iter().map(|(id, batch)| (*id, batch))
    }

    pub(super) fn insert(&mut self, id: QueueOffset, batch: Batch) {
        self.by_receipt.insert((batch.of.clone(), batch.start, batch.pop_time_ms), id);
        self.due.insert((batch.due_ms(), id));
        self.by_queue.entry(batch.of.clone()).or_default().insert((batch.start, id));
        let before = self.batches.insert(id, batch);
        assert!(before.is_none(), "note {id} of the journal tells of two batches");
    }

    /// The batch whose receipt this is, if the message in it is still open.
    pub(super) fn find(&self, of: &Rc<PopQueue>, receipt: &Receipt) -> Option<QueueOffset> {
        let id = *self.by_receipt.get(&(of.clone(), receipt.start, receipt.pop_time_ms))?;
        self.batches[&id].open().any(|offset| offset == receipt.offset).then_some(id)
    }

    /// Whether another batch has the receipts of this start and time.
    pub(super) fn is_taken(&self, of: &Rc<PopQueue>, start: QueueOffset, pop_time_ms: u64) -> bool {
        self.by_receipt.contains_key(&(of.clone(), start, pop_time_ms))
    }

    /// A message is acknowledged or revived; false when it was before.
    pub(super) fn finish(&mut self, id: QueueOffset, offset: QueueOffset) -> bool {
        let Some(batch) = self.batches.get_mut(&id) else { return false };
        let was_open = batch.finish(offset);
        if batch.open().next().is_none() {
            self.remove(id);
        }
        was_open
    }

    fn remove(&mut self, id: QueueOffset) {
        let Some(batch) = self.batches.remove(&id) else { return };
        self.due.remove(&(batch.due_ms(), id));
        let receipt = (batch.of.clone(), batch.start, batch.pop_time_ms);
        if self.by_receipt.get(&receipt) == Some(&id) {
            self.by_receipt.remove(&receipt);
        }
        if let Some(of_queue) = self.by_queue.get_mut(&batch.of) {
            of_queue.remove(&(batch.start, id));
            if of_queue.is_empty() {
                self.by_queue.remove(&batch.of);
            }
        }
    }

    /// Each queue of which something is in flight, with its first open message.
    pub(super) fn first_open_of_all(&self) -> Vec<(Rc<PopQueue>, QueueOffset)> {
        let mut all: Vec<_> = self.by_queue.keys().filter_map(|of| Some((of.clone(), self.first_open(of)?))).collect();
        all.sort_unstable();
        all
    }

    /// A batch of a queue with the open message that `first_open` names.
    pub(super) fn batch_with(&self, of: &Rc<PopQueue>, open: QueueOffset) -> Option<(QueueOffset, &Batch)> {
        let of_queue = self.by_queue.get(of)?;
        let batches = of_queue.iter().map(|(_, id)| (*id, &self.batches[id]));
        let mut holding = batches.filter(|(_, batch)| batch.open().any(|offset| offset == open));
        holding.next()
    }

    /// Forgets what is in flight of some queues.
    pub(super) fn forget(&mut self, gone: impl Fn(&PopQueue) -> bool) {
        let ids: Vec<_> = self.iter().filter(|(_, batch)| gone(&batch.of)).map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| self.remove(id));
    }

    /// The batch whose time is over first, if it is over by now.
    pub(super) fn first_due(&self, now_ms: u64) -> Option<(QueueOffset, &Batch)> {
        let (due_ms, id) = self.due.first()?;
        (*due_ms <= now_ms).then(|| (*id, &self.batches[id]))
    }

    /// When the next batch is due.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// The first message of a queue that is still open: up to there everything is done.
    pub(super) fn first_open(&self, of: &Rc<PopQueue>) -> Option<QueueOffset> {
        let mut first: Option<QueueOffset> = None;
        for (start, id) in self.by_queue.get(of)? {
            if first.is_some_and(|first| first <= *start) {
                break;
            }
            first = first.into_iter().chain(self.batches[id].open().next()).min();
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(topic: &str) -> Rc<PopQueue> {
        Rc::new(PopQueue { group: Text::from("g"), topic: Text::from(topic), queue: QueueId(0) })
    }

    fn batch(of: &Rc<PopQueue>, pop_time_ms: u64, offsets: &[u64]) -> Batch {
        let offsets: Vec<_> = offsets.iter().map(|offset| QueueOffset(*offset)).collect();
        Batch { of: of.clone(), start: offsets[0], pop_time_ms, invisible_ms: 100, offsets, done: 0 }
    }

    fn receipt(start: u64, pop_time_ms: u64, offset: u64) -> Receipt {
        let (start, offset) = (QueueOffset(start), QueueOffset(offset));
        Receipt { start, pop_time_ms, invisible_ms: 100, revive_queue: 0, offset }
    }

    #[test]
    fn messages_are_acknowledged_once_by_their_receipts() {
        let (t, u) = (queue("T"), queue("U"));
        let mut in_flight = InFlight::default();
        in_flight.insert(QueueOffset(0), batch(&t, 5, &[10, 12, 13]));
        in_flight.insert(QueueOffset(1), batch(&t, 5, &[14]));
        assert_eq!(in_flight.find(&t, &receipt(10, 5, 12)), Some(QueueOffset(0)));
        for wrong in [receipt(10, 6, 12), receipt(10, 5, 11), receipt(11, 5, 12), receipt(10, 5, 14)] {
            assert_eq!(in_flight.find(&t, &wrong), None, "{wrong:?}");
        }
        assert_eq!(in_flight.find(&u, &receipt(10, 5, 12)), None);
        assert_eq!(in_flight.first_open(&t), Some(QueueOffset(10)));
        assert!(in_flight.finish(QueueOffset(0), QueueOffset(10)));
        assert!(!in_flight.finish(QueueOffset(0), QueueOffset(10)), "once");
        assert!(in_flight.finish(QueueOffset(0), QueueOffset(13)));
        assert_eq!(in_flight.first_open(&t), Some(QueueOffset(12)));
        assert_eq!(in_flight.find(&t, &receipt(10, 5, 13)), None, "it is acknowledged");
        assert!(in_flight.finish(QueueOffset(0), QueueOffset(12)));
        assert_eq!((in_flight.first_open(&t), in_flight.len()), (Some(QueueOffset(14)), 1));
        assert!(in_flight.finish(QueueOffset(1), QueueOffset(14)));
        assert_eq!((in_flight.first_open(&t), in_flight.next_due_ms()), (None, None));
        assert!(in_flight.by_queue.is_empty() && in_flight.by_receipt.is_empty());
    }

    #[test]
    fn batches_are_due_in_the_order_of_their_times() {
        let t = queue("T");
        let mut in_flight = InFlight::default();
        in_flight.insert(QueueOffset(0), batch(&t, 50, &[1]));
        in_flight.insert(QueueOffset(1), batch(&t, 20, &[2]));
        assert_eq!(in_flight.first_due(119).map(|(id, _)| id), None);
        assert_eq!(in_flight.first_due(120).map(|(id, _)| id), Some(QueueOffset(1)));
        in_flight.finish(QueueOffset(1), QueueOffset(2));
        assert_eq!(in_flight.next_due_ms(), Some(150));
        in_flight.forget(|of| of.topic == *"T");
        assert_eq!((in_flight.len(), in_flight.next_due_ms()), (0, None));
    }
}
