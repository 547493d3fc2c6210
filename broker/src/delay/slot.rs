//! Where held messages lie: a queue of the timer topic for each stretch of due times, in each log. Pure.
//!
//! The queues are a ring, used again when their time has long passed. What is left in them of the time before is told
//! apart by its due times alone.

use base::{Millis, QueueId, QueueOffset};

use crate::config::DELAY_SECONDS_MAX;

/// Messages due within so long lie in one queue. Longer: more entries are looked at to find those due next. Shorter: more
/// queues.
pub(super) const SLOT_MS: u64 = 10 * 60 * 1000;
/// Queues of the ring: 56 days.
const SLOTS: u64 = 8192;
/// The queue of the notes that say what was delivered.
pub(super) const NOTES_QUEUE: QueueId = QueueId(SLOTS as u32);
/// The queues of what was taken back, one for each of the ring.
const RECALLS_QUEUE_FIRST: u32 = SLOTS as u32 + 1;

/// The longest time that a message may be held.
pub(crate) const DELAY_MS_MAX: u64 = DELAY_SECONDS_MAX * 1000;
/// Store times and due times come from clocks that may differ by this much: see [`super::clock`].
pub(super) const CLOCKS_APART_MS: u64 = 24 * 3600 * 1000;

// Of two messages in one queue that are due a ring apart, the second is appended when the first is due already.
const _: () = assert!(SLOTS * SLOT_MS > DELAY_MS_MAX + CLOCKS_APART_MS + 2 * SLOT_MS);

/// The order of delivery, and the name of a held message within its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DueKey {
    pub(super) due: Millis,
    /// In the queue of its slot.
    pub(super) queue_offset: QueueOffset,
}

impl DueKey {
    /// In front of everything that is due then or later.
    pub(super) fn first_at(due: Millis) -> DueKey {
        DueKey { due, queue_offset: QueueOffset::ZERO }
    }

    /// Behind this key and in front of every other that follows it.
    pub(super) fn next(self) -> DueKey {
        DueKey { queue_offset: self.queue_offset.plus(1), ..self }
    }
}

/// A stretch of due times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u64);

impl Slot {
    pub(super) fn of(due: Millis) -> Slot {
        Slot(due.0 / SLOT_MS)
    }

    /// Whether messages of a slot are held in a queue of the timer topic.
    pub(super) fn is_of(queue: QueueId) -> bool {
        queue < NOTES_QUEUE
    }

    pub(super) fn queue(self) -> QueueId {
        QueueId((self.0 % SLOTS) as u32)
    }

    /// Of the records that take messages of the slot back.
    pub(super) fn recalls_queue(self) -> QueueId {
        QueueId(RECALLS_QUEUE_FIRST + self.queue().0)
    }

    /// In front of everything of the next slot.
    pub(super) fn limit(self) -> DueKey {
        DueKey::first_at(Millis((self.0 + 1) * SLOT_MS))
    }

    /// What was stored earlier is of an earlier round of the ring.
    pub(super) fn stored_from_ms(self) -> u64 {
        (self.0 * SLOT_MS).saturating_sub(DELAY_MS_MAX + CLOCKS_APART_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_its_stretch_and_the_ring_comes_round() {
        let key = |due, offset| DueKey { due: Millis(due), queue_offset: QueueOffset(offset) };
        let slot = Slot::of(Millis(SLOT_MS - 1));
        assert_eq!((slot, slot.queue(), slot.limit()), (Slot::of(Millis(0)), QueueId(0), key(SLOT_MS, 0)));
        assert_eq!(Slot::of(Millis(SLOT_MS)).queue(), QueueId(1));
        assert_eq!(Slot::of(Millis(SLOTS * SLOT_MS)).queue(), QueueId(0));
        assert!(key(5, 9).next() > key(5, 9) && key(5, 9).next() < key(6, 0), "time counts before the offset");
        let last = Slot::of(Millis(1_700_000_000_000));
        let round_before = 1_700_000_000_000 - SLOTS * SLOT_MS;
        assert!(last.stored_from_ms() > round_before, "nothing of the round before is stored so late");
    }
}
