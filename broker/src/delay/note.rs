//! The note in front of a group of deliveries: which held messages the records behind it deliver. Pure.
//!
//! A note and its deliveries are appended in one step and lie one behind the other. A crash cuts the log somewhere, so what
//! survives of the group is its front: the end of the log tells which deliveries of the last note are there, and all of
//! those before it are.
//!
//! The body of a note, big-endian:
//!
//! ```text
//! i64 due ms, i64 queue offset        the first key that was not delivered before
//! for each delivery, in the order of the records behind:
//! i64 due ms, i64 queue offset        its key
//! i32 record bytes                    of the delivered record; 0: it was passed over
//! ```

use base::{LogOffset, Millis, QueueId, QueueOffset};

use super::slot::{DueKey, NOTES_QUEUE};

const KEY_BYTES: usize = 8 + 8;
const ITEM_BYTES: usize = KEY_BYTES + 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// Everything in front of it was delivered before.
    pub(super) from: DueKey,
    pub(super) items: Vec<NoteItem>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoteItem {
    pub(super) key: DueKey,
    pub(super) record_bytes: u32,
}

/// How far delivery had come when a log ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Everything in front of it was delivered.
    pub(super) from: DueKey,
    /// The log ends within the group of the last note: before anything else comes to lie there, a note must say so.
    pub(super) is_torn: bool,
}

impl Note {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(KEY_BYTES + self.items.len() * ITEM_BYTES);
        put_key(&mut bytes, self.from);
        for item in &self.items {
            put_key(&mut bytes, item.key);
            bytes.extend_from_slice(&item.record_bytes.to_be_bytes());
        }
        bytes
    }

    /// `None` when it is no note.
    pub(super) fn decode(bytes: &[u8]) -> Option<Note> {
        let (from, rest) = bytes.split_first_chunk::<KEY_BYTES>()?;
        let (items, left) = rest.as_chunks::<ITEM_BYTES>();
        let item = |bytes: &[u8; ITEM_BYTES]| {
            let (key, record_bytes) = bytes.split_first_chunk::<KEY_BYTES>()?;
            Some(NoteItem { key: key_of(key), record_bytes: u32::from_be_bytes(record_bytes.try_into().ok()?) })
        };
        let items = items.iter().map(item).collect::<Option<Vec<_>>>()?;
        left.is_empty().then_some(Note { from: key_of(from), items })
    }

    /// What a log that ends at `log_end` tells, when this is its last note and ends at `note_end`.
    pub(super) fn progress(&self, note_end: LogOffset, log_end: LogOffset) -> Progress {
        let mut progress = Progress { from: self.from, is_torn: false };
        let mut end = note_end;
        for item in &self.items {
            end = end.plus(u64::from(item.record_bytes));
            if end > log_end {
                return Progress { is_torn: true, ..progress };
            }
            progress.from = item.key.next();
        }
        progress
    }
}

/// A note of a log that was made anew: whatever was due before a time is not in it. The queue of notes, and the note's body.
pub(crate) fn delivered_before(time: Millis) -> (QueueId, Vec<u8>) {
    (NOTES_QUEUE, Note { from: DueKey::first_at(time), items: Vec::new() }.encode())
}

fn put_key(bytes: &mut Vec<u8>, key: DueKey) {
    bytes.extend_from_slice(&key.due.0.to_be_bytes());
    bytes.extend_from_slice(&key.queue_offset.0.to_be_bytes());
}

fn key_of(bytes: &[u8; KEY_BYTES]) -> DueKey {
    let both = u128::from_be_bytes(*bytes);
    DueKey { due: Millis((both >> 64) as u64), queue_offset: QueueOffset(both as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(due: u64, offset: u64) -> DueKey {
        DueKey { due: Millis(due), queue_offset: QueueOffset(offset) }
    }

    fn note() -> Note {
        let items = [(key(5, 1), 100), (key(5, 7), 0), (key(6, 2), 300)];
        let items = items.map(|(key, record_bytes)| NoteItem { key, record_bytes }).to_vec();
        Note { from: key(4, 9), items }
    }

    #[test]
    fn a_note_comes_back_and_other_bytes_are_none() {
        assert_eq!(Note::decode(&note().encode()), Some(note()));
        let empty = Note { from: key(1_700_000_000_000, 1 << 40), items: Vec::new() };
        assert_eq!(Note::decode(&empty.encode()), Some(empty));
        for bytes in [0, 15, 17, 35, 37] {
            assert_eq!(Note::decode(&vec![1; bytes]), None, "{bytes} bytes");
        }
    }

    #[test]
    fn the_end_of_the_log_tells_what_was_delivered() {
        for (log_end, from, is_torn) in [
            (1000, key(4, 9), true),
            (1099, key(4, 9), true),
            (1100, key(5, 8), true),
            (1399, key(5, 8), true),
            (1400, key(6, 3), false),
            (9000, key(6, 3), false),
        ] {
            let progress = note().progress(LogOffset(1000), LogOffset(log_end));
            assert_eq!(progress, Progress { from, is_torn }, "a log of {log_end} bytes");
        }
    }
}
