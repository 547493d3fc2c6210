//! The half messages of one log that nobody has ended yet, and when each is asked about next. Pure.
//!
//! A half message is known by its offset in the half queue of its log, which never changes. Whoever ends it takes it
//! first, so the first end wins; an end that cannot be stored gives it back.

use std::collections::{BTreeMap, BTreeSet};

use base::{LogOffset, QueueOffset};

/// Half messages of one log that may be pending. Beyond it a new one is refused as busy. Each takes about 100 bytes.
pub(super) const HALVES_MAX: usize = 500_000;

/// A half message that is not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Half {
    /// Where its record lies.
    pub(super) offset: LogOffset,
    pub(super) stored_ms: u64,
    /// How often its producers were asked.
    pub(super) checks: u32,
    due_ms: u64,
    taken: bool,
}

impl Half {
    pub(super) fn new(offset: LogOffset, stored_ms: u64, due_ms: u64) -> Half {
        Half { offset, stored_ms, checks: 0, due_ms, taken: false }
    }
}

/// Why a half message cannot be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    /// It was ended before, or never was.
    NotPending,
    /// Somebody is ending it right now.
    Taken,
}

#[derive(Debug, Default)]
pub(super) struct Pending {
    halves: BTreeMap<QueueOffset, Half>,
    /// Those that are not taken, by the time of their next check.
    due: BTreeSet<(u64, QueueOffset)>,
}

impl Pending {
    pub(super) fn len(&self) -> usize {
        self.halves.len()
    }

    pub(super) fn insert(&mut self, at: QueueOffset, half: Half) {
        self.due.insert((half.due_ms, at));
        let before = self.halves.insert(at, half);
        assert!(before.is_none(), "half message {at} is pending twice: {before:?}");
    }

    /// In the order of their offsets.
    pub(super) fn iter(&self) -> impl Iterator<Item = (QueueOffset, &Half)> {
        self.halves.iter().map(|(at, half)| (*at, half))
    }

    /// Takes the half message whose record lies at `offset`, to end it.
    pub(super) fn take(&mut self, at: QueueOffset, offset: LogOffset) -> Result<Half, Missed> {
        let half = self.halves.get_mut(&at).filter(|half| half.offset == offset).ok_or(Missed::NotPending)?;
        if half.taken {
            return Err(Missed::Taken);
        }
        half.taken = true;
        self.due.remove(&(half.due_ms, at));
        Ok(*half)
    }

    /// It was not ended after all.
    pub(super) fn give_back(&mut self, at: QueueOffset) {
        if let Some(half) = self.halves.get_mut(&at) {
            half.taken = false;
            self.due.insert((half.due_ms, at));
        }
    }

    /// It is ended.
    pub(super) fn remove(&mut self, at: QueueOffset) {
        if let Some(half) = self.halves.remove(&at) {
            self.due.remove(&(half.due_ms, at));
        }
    }

    /// The one that is due first, if it is due by now.
    pub(super) fn first_due(&self, now_ms: u64) -> Option<(QueueOffset, Half)> {
        let (due_ms, at) = self.due.first()?;
        (*due_ms <= now_ms).then(|| (*at, self.halves[at]))
    }

    /// Whether it is pending and nobody is ending it.
    pub(super) fn is_open(&self, at: QueueOffset) -> bool {
        self.halves.get(&at).is_some_and(|half| !half.taken)
    }

    pub(super) fn set_due(&mut self, at: QueueOffset, due_ms: u64) {
        let Some(half) = self.halves.get_mut(&at) else { return };
        if self.due.remove(&(half.due_ms, at)) {
            self.due.insert((due_ms, at));
        }
        half.due_ms = due_ms;
    }

    pub(super) fn set_checks(&mut self, at: QueueOffset, checks: u32) {
        if let Some(half) = self.halves.get_mut(&at) {
            half.checks = checks;
        }
    }

    /// How often producers were asked about it; 0 when it is not pending.
    pub(super) fn checks_of(&self, at: QueueOffset) -> u32 {
        self.halves.get(&at).map_or(0, |half| half.checks)
    }

    /// Its producers were asked once more.
    pub(super) fn count_check(&mut self, at: QueueOffset) {
        if let Some(half) = self.halves.get_mut(&at) {
            half.checks += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(dues: &[u64]) -> Pending {
        let mut pending = Pending::default();
        for (number, due) in (0..).zip(dues) {
            pending.insert(QueueOffset(number), Half::new(LogOffset(number * 100), 0, *due));
        }
        pending
    }

    #[test]
    fn the_first_end_wins() {
        let mut pending = pending(&[10, 20]);
        let (at, offset) = (QueueOffset(1), LogOffset(100));
        assert_eq!(pending.take(at, LogOffset(99)), Err(Missed::NotPending), "another record");
        assert_eq!(pending.take(at, offset).map(|half| half.offset), Ok(offset));
        assert_eq!(pending.take(at, offset), Err(Missed::Taken));
        assert!(!pending.is_open(at));
        pending.give_back(at);
        assert!(pending.is_open(at) && pending.take(at, offset).is_ok());
        pending.remove(at);
        assert_eq!((pending.take(at, offset), pending.len()), (Err(Missed::NotPending), 1));
        pending.give_back(at);
        assert_eq!(pending.due.len(), 1, "what is ended does not come back");
    }

    #[test]
    fn what_is_due_comes_in_order_and_never_while_it_is_being_ended() {
        let mut pending = pending(&[30, 10, 20]);
        assert_eq!(pending.first_due(9), None);
        assert_eq!(pending.first_due(30).map(|(at, _)| at.0), Some(1));
        pending.count_check(QueueOffset(1));
        pending.set_due(QueueOffset(1), 40);
        assert_eq!(pending.first_due(30).map(|(at, half)| (at.0, half.checks)), Some((2, 0)));
        pending.take(QueueOffset(2), LogOffset(200)).expect("it is open");
        assert_eq!(pending.first_due(30).map(|(at, _)| at.0), Some(0));
        pending.set_due(QueueOffset(2), 5);
        assert_eq!(pending.first_due(29), None, "a new time does not free it");
        pending.give_back(QueueOffset(2));
        assert_eq!(pending.first_due(29).map(|(at, _)| at.0), Some(2));
        pending.remove(QueueOffset(2));
        pending.remove(QueueOffset(0));
        assert_eq!(pending.first_due(50).map(|(at, half)| (at.0, half.checks)), Some((1, 1)));
    }
}
