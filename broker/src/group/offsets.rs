//! How far one group has come in each queue. Pure.
//!
//! An offset is the next one to be consumed. It never lies behind the end of its queue: a commit beyond the highest end
//! seen so far needs the queue's end of now, and is cut to it. A reset from outside stays pending until a pull of that
//! queue has told its consumer; commits of the consumer that does not know yet are ignored until then.

use std::collections::BTreeMap;

use base::{QueueId, QueueOffset};
use remoting::text::Text;

/// Offsets by topic and queue.
pub(crate) type TopicOffsets = BTreeMap<Text, BTreeMap<QueueId, QueueOffset>>;

#[derive(Clone, Copy, Debug)]
struct Place {
    offset: QueueOffset,
    /// The highest end of the queue that was seen.
    end_seen: QueueOffset,
    reset_pending: bool,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    Stored,
    /// It lay behind the end of the queue and was cut to it.
    Cut {
        to: QueueOffset,
    },
    /// A reset is pending that the consumer has not seen.
    Ignored,
}

#[derive(Debug, Default)]
pub(crate) struct Offsets {
    topics: BTreeMap<Text, BTreeMap<QueueId, Place>>,
    /// Something is not yet in the file.
    dirty: bool,
}

impl Offsets {
    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Whether the file does not have all of it.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }

    pub(crate) fn get(&self, topic: &str, queue: QueueId) -> Option<QueueOffset> {
        self.topics.get(topic)?.get(&queue).map(|place| place.offset)
    }

    /// Whether anything of the topic was ever committed.
    pub(crate) fn knows(&self, topic: &str) -> bool {
        self.topics.contains_key(topic)
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = &Text> {
        self.topics.keys()
    }

    pub(crate) fn of_topic(&self, topic: &str) -> BTreeMap<QueueId, QueueOffset> {
        let places = self.topics.get(topic).into_iter().flatten();
        places.map(|(queue, place)| (*queue, place.offset)).collect()
    }

    pub(crate) fn all(&self) -> TopicOffsets {
        self.topics.keys().map(|topic| (topic.clone(), self.of_topic(topic))).collect()
    }

    /// Whether a commit can be done without asking for the end of its queue.
    pub(crate) fn end_is_known(&self, topic: &str, queue: QueueId, offset: QueueOffset) -> bool {
        let place = self.topics.get(topic).and_then(|places| places.get(&queue));
        place.is_some_and(|place| place.reset_pending || offset <= place.end_seen)
    }

    /// Stores an offset. `end` is the end of the queue of now, needed unless [`Offsets::end_is_known`].
    pub(crate) fn commit(
        &mut self,
        topic: &Text,
        queue: QueueId,
        offset: QueueOffset,
        end: Option<QueueOffset>,
    ) -> Commit {
        let place = self.place(topic, queue);
        if place.reset_pending {
            return Commit::Ignored;
        }
        place.end_seen = place.end_seen.max(end.unwrap_or_default());
        let to = offset.min(place.end_seen);
        let changed = place.offset != to;
        place.offset = to;
        self.dirty |= changed;
        if to < offset { Commit::Cut { to } } else { Commit::Stored }
    }

    /// Stores an offset that the consumer has not asked for, to be told by its next pull.
    pub(crate) fn reset(&mut self, topic: &Text, queue: QueueId, to: QueueOffset) {
        let place = self.place(topic, queue);
        *place = Place { offset: to, end_seen: place.end_seen.max(to), reset_pending: true };
        self.dirty = true;
    }

    /// A pull told the consumer.
    pub(crate) fn reset_told(&mut self, topic: &str, queue: QueueId) {
        if let Some(place) = self.topics.get_mut(topic).and_then(|places| places.get_mut(&queue)) {
            place.reset_pending = false;
        }
    }

    /// Takes over the offsets of another group, or of the file.
    pub(crate) fn put(&mut self, topic: &Text, offsets: &BTreeMap<QueueId, QueueOffset>) {
        for (queue, offset) in offsets {
            let place = self.place(topic, *queue);
            *place = Place { offset: *offset, end_seen: place.end_seen.max(*offset), reset_pending: false };
            self.dirty = true;
        }
    }

    pub(crate) fn remove_topic(&mut self, topic: &str) {
        self.dirty |= self.topics.remove(topic).is_some();
    }

    pub(crate) fn clear(&mut self) {
        self.dirty |= !self.topics.is_empty();
        self.topics.clear();
    }

    /// What belongs into the file, if that is not what it was at the last call.
    pub(crate) fn take_dirty(&mut self) -> Option<TopicOffsets> {
        std::mem::take(&mut self.dirty).then(|| self.all())
    }

    /// What there is now is what the file holds.
    pub(crate) fn set_clean(&mut self) {
        self.dirty = false;
    }

    fn place(&mut self, topic: &Text, queue: QueueId) -> &mut Place {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.detached(), BTreeMap::new());
        }
        let places = self.topics.get_mut(topic).expect("just made");
        places.entry(queue).or_insert_with(|| {
            // An offset of 0 is as good as none, but the file must have it.
            self.dirty = true;
            Place { offset: QueueOffset::ZERO, end_seen: QueueOffset::ZERO, reset_pending: false }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const Q: QueueId = QueueId(3);

    fn at(offset: u64) -> QueueOffset {
        QueueOffset(offset)
    }

    #[test]
    fn commits_never_lie_behind_the_end() {
        let topic = Text::from("T");
        let mut offsets = Offsets::default();
        assert!(!offsets.end_is_known("T", Q, at(0)), "the first commit asks for the end");
        assert_eq!(offsets.commit(&topic, Q, at(1_000_000), Some(at(10))), Commit::Cut { to: at(10) });
        assert!(offsets.end_is_known("T", Q, at(10)) && !offsets.end_is_known("T", Q, at(11)));
        assert_eq!(offsets.commit(&topic, Q, at(4), None), Commit::Stored, "going back is allowed");
        assert_eq!(offsets.get("T", Q), Some(at(4)));
        assert_eq!(offsets.commit(&topic, Q, at(12), Some(at(12))), Commit::Stored);
        assert_eq!((offsets.get("T", QueueId(0)), offsets.get("U", Q), offsets.knows("T")), (None, None, true));
    }

    #[test]
    fn a_pending_reset_outlasts_commits() {
        let topic = Text::from("T");
        let mut offsets = Offsets::default();
        offsets.commit(&topic, Q, at(9), Some(at(9)));
        offsets.reset(&topic, Q, at(2));
        assert!(offsets.end_is_known("T", Q, at(99)), "it is ignored anyway");
        assert_eq!(offsets.commit(&topic, Q, at(9), None), Commit::Ignored);
        assert_eq!(offsets.get("T", Q), Some(at(2)));
        offsets.reset_told("T", Q);
        assert_eq!(offsets.commit(&topic, Q, at(3), None), Commit::Stored);
    }

    #[test]
    fn only_changes_go_to_the_file() {
        let topic = Text::from("T");
        let mut offsets = Offsets::default();
        assert_eq!(offsets.take_dirty(), None);
        offsets.commit(&topic, Q, at(0), Some(at(0)));
        assert_eq!(offsets.take_dirty(), Some([(topic.clone(), [(Q, at(0))].into())].into()), "0 is an offset");
        offsets.commit(&topic, Q, at(0), None);
        assert_eq!(offsets.take_dirty(), None, "the same again");
        offsets.put(&topic, &[(Q, at(5)), (QueueId(1), at(7))].into());
        assert_eq!(offsets.take_dirty().map(|all| all["T"].len()), Some(2));
        offsets.remove_topic("T");
        assert_eq!(offsets.take_dirty(), Some(BTreeMap::new()));
        offsets.clear();
        assert_eq!(offsets.take_dirty(), None);
    }
}
