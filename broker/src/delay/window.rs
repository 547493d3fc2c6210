//! The held messages of one log that are due soon, in their order. Pure.
//!
//! Everything that waits in the log in front of `known_until` is here; what lies behind is looked up in the log when its
//! time comes near. So memory holds a bounded number of keys, however many messages wait.

use std::collections::BTreeMap;

use base::{LogOffset, Millis};

use super::slot::DueKey;

pub(super) struct Window {
    waiting: BTreeMap<DueKey, LogOffset>,
    /// Nothing in front of it waits but what is in `waiting`.
    known_until: DueKey,
    /// Keys held at most. Beyond it the latest leaves, and is looked up again later.
    keys_max: usize,
}

impl Window {
    /// Nothing is known yet of what follows `from`.
    pub(super) fn new(from: DueKey, keys_max: usize) -> Window {
        Window { waiting: BTreeMap::new(), known_until: from, keys_max }
    }

    pub(super) fn known_until(&self) -> DueKey {
        self.known_until
    }

    /// From now on all that is added in front of `limit` counts. The caller adds what waits there already.
    pub(super) fn extend(&mut self, limit: DueKey) {
        assert!(limit >= self.known_until, "the window goes back from {:?} to {limit:?}", self.known_until);
        self.known_until = limit;
    }

    /// What lies behind `from` is not known after all.
    pub(super) fn forget_from(&mut self, from: DueKey) {
        self.waiting.split_off(&from);
        self.known_until = self.known_until.min(from);
    }

    /// Whether so few are left that looking further ahead is worth a walk through a queue.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() <= self.keys_max / 4
    }

    /// Adds a message, unless it lies behind the window. True when it is the next to be delivered.
    pub(super) fn add(&mut self, key: DueKey, at: LogOffset) -> bool {
        if key >= self.known_until {
            return false;
        }
        self.waiting.insert(key, at);
        if self.waiting.len() > self.keys_max
            && let Some((latest, _)) = self.waiting.pop_last()
        {
            self.known_until = latest;
        }
        self.waiting.first_key_value().is_some_and(|(first, _)| *first == key)
    }

    pub(super) fn first_due(&self) -> Option<Millis> {
        self.waiting.first_key_value().map(|(key, _)| key.due)
    }

    /// The first messages that are due, in their order.
    pub(super) fn due(&self, now: Millis, count_max: usize) -> Vec<(DueKey, LogOffset)> {
        let due = self.waiting.range(..DueKey::first_at(Millis(now.0 + 1)));
        due.take(count_max).map(|(key, at)| (*key, *at)).collect()
    }

    /// Whether something is due by now that lies in front of an offset of the log, or may be.
    pub(super) fn is_late(&self, now: Millis, limit: LogOffset) -> bool {
        let mut due = self.waiting.range(..DueKey::first_at(Millis(now.0 + 1)));
        self.known_until.due <= now || due.any(|(_, at)| *at < limit)
    }

    pub(super) fn contains(&self, key: DueKey) -> bool {
        self.waiting.contains_key(&key)
    }

    /// The message waits no more.
    pub(super) fn remove(&mut self, key: DueKey) {
        self.waiting.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base::{QueueOffset, Random};

    use super::*;

    fn key(due: u64, offset: u64) -> DueKey {
        DueKey { due: Millis(due), queue_offset: QueueOffset(offset) }
    }

    #[test]
    fn what_is_due_in_front_of_an_offset_is_late() {
        let mut window = Window::new(key(10, 0), 100);
        assert!(window.is_late(Millis(10), LogOffset(0)), "nothing is known of what is due");
        window.extend(key(20, 0));
        window.add(key(15, 0), LogOffset(7));
        for (now, limit, is_late) in [(14, 99, false), (15, 7, false), (15, 8, true), (19, 8, true), (20, 7, true)] {
            assert_eq!(window.is_late(Millis(now), LogOffset(limit)), is_late, "{now} {limit}");
        }
    }

    #[test]
    fn what_lies_behind_is_not_kept_and_the_next_one_is_told() {
        let mut window = Window::new(key(10, 0), 100);
        assert!(!window.add(key(10, 0), LogOffset(1)), "nothing is known of it");
        window.extend(key(20, 0));
        assert!(window.add(key(15, 3), LogOffset(2)));
        assert!(!window.add(key(15, 4), LogOffset(3)) && window.add(key(12, 9), LogOffset(4)));
        assert!(!window.add(key(20, 0), LogOffset(5)));
        assert_eq!(window.first_due(), Some(Millis(12)));
        assert_eq!(window.due(Millis(11), 9), []);
        assert_eq!(window.due(Millis(12), 9), [(key(12, 9), LogOffset(4))], "due to the millisecond");
        assert_eq!(window.due(Millis(15), 2), [(key(12, 9), LogOffset(4)), (key(15, 3), LogOffset(2))]);
        window.remove(key(12, 9));
        assert!(!window.contains(key(12, 9)) && window.contains(key(15, 4)));
        window.forget_from(key(15, 4));
        assert!(window.contains(key(15, 3)) && !window.contains(key(15, 4)));
        assert_eq!(window.known_until(), key(15, 4));
    }

    /// A log's messages as a set, looked up as the scheduler looks them up: everything comes once and in order, though the
    /// window holds eight keys.
    #[test]
    fn a_small_window_misses_nothing() {
        let mut random = Random::new(7);
        let mut log: BTreeSet<DueKey> = BTreeSet::new();
        let mut window = Window::new(key(0, 0), 8);
        let (mut delivered, mut added) = (Vec::new(), 0);
        for now in 0..2000 {
            for _ in 0..random.below(4) {
                let new = key(now + 1 + random.below(300), added);
                added += 1;
                log.insert(new);
                window.add(new, LogOffset(new.queue_offset.0));
            }
            while window.has_room() && window.known_until().due.0 < now + 50 {
                let from = window.known_until();
                let limit = key(from.due.0 / 100 * 100 + 100, 0);
                window.extend(limit);
                for waiting in log.range(from..limit) {
                    window.add(*waiting, LogOffset(waiting.queue_offset.0));
                }
            }
            while let [(next, at), ..] = window.due(Millis(now), 3)[..] {
                assert_eq!((at.0, next.due.0), (next.queue_offset.0, now), "neither early nor late");
                window.remove(next);
                assert!(log.remove(&next));
                delivered.push(next);
                if window.has_room() {
                    let from = window.known_until();
                    let limit = key(from.due.0.max(now) / 100 * 100 + 100, 0);
                    window.extend(limit.max(from));
                    for waiting in log.range(from..limit.max(from)) {
                        window.add(*waiting, LogOffset(waiting.queue_offset.0));
                    }
                }
            }
        }
        assert!(delivered.is_sorted() && delivered.len() > 2500, "{}", delivered.len());
        assert!(log.iter().all(|left| left.due.0 >= 2000), "all that was due came");
        assert!(window.waiting.len() <= 8);
    }
}
