//! What each queue holds, by offset, and the bodies that can be told apart.
//!
//! A message's body is made from its identity alone, so the ledger keeps 8 bytes a message and can still compare every byte.

use std::collections::HashMap;

use base::Random;

use crate::connection::Connection;
use crate::request::{MAX_OFFSET, MIN_OFFSET, Queue, offset_of, read_queue};

const IDENTITY_TEXT_BYTES: usize = 16;
const BODY_BYTES_MIN: usize = 64;
const BODY_BYTES_SPREAD: u64 = 6_000;
/// How much of what is known already is read once more in a round that doesn't read everything.
const OVERLAP: usize = 200;

/// Round, sender and number of a message: each message of a run has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity(u64);

impl Identity {
    /// 16 bits of round, 8 bits of sender, 40 bits of count.
    pub(super) fn first_of(round: u32, sender: u32) -> Identity {
        assert!(round < 1 << 16 && sender < 1 << 8, "round {round}, sender {sender}");
        Identity(u64::from(round) << 48 | u64::from(sender) << 40)
    }

    pub(super) fn next(self) -> Identity {
        Identity(self.0 + 1)
    }

    pub(super) fn number(self) -> u64 {
        self.0
    }
}

/// One message at its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) queue_id: u32,
    pub(super) offset: u64,
    pub(super) identity: Identity,
}

/// The identity as text, then bytes drawn from it. Most are far larger than a block, some are tiny.
pub(super) fn body_of(identity: Identity) -> Vec<u8> {
    let mut random = Random::new(identity.0);
    let length = BODY_BYTES_MIN + usize::try_from(random.below(BODY_BYTES_SPREAD)).expect("a small number");
    let mut body = format!("{:016x}", identity.0).into_bytes();
    while body.len() < length {
        body.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    body.truncate(length);
    body
}

/// The identity of a body, if every byte of it is as it was sent.
pub(super) fn identity_of(body: &[u8]) -> Option<Identity> {
    let text = std::str::from_utf8(body.get(..IDENTITY_TEXT_BYTES)?).ok()?;
    let identity = Identity(u64::from_str_radix(text, 16).ok()?);
    (body_of(identity) == body).then_some(identity)
}

#[derive(Debug)]
pub(super) struct Ledger {
    /// For each queue, the identities at offsets 0, 1, 2, …
    queues: Vec<Vec<Identity>>,
    places: HashMap<Identity, (u32, u64)>,
}

impl Ledger {
    pub(super) fn new(queue_count: u32) -> Ledger {
        Ledger { queues: vec![Vec::new(); queue_count as usize], places: HashMap::new() }
    }

    pub(super) fn ends(&self) -> Vec<u64> {
        self.queues.iter().map(|queue| queue.len() as u64).collect()
    }

    pub(super) fn message_count(&self) -> usize {
        self.places.len()
    }

    /// Reads the queues, compares them with what is known, and takes in what is new.
    ///
    /// # Errors
    /// The first difference.
    pub(super) fn read_again(&mut self, connection: &mut Connection, topic: &str, whole: bool) -> Result<(), String> {
        for queue_id in 0..u32::try_from(self.queues.len()).expect("few queues") {
            let start = if whole { 0 } else { self.queues[queue_id as usize].len().saturating_sub(OVERLAP) };
            self.read_queue_again(connection, &Queue::new(topic, queue_id), start)?;
        }
        Ok(())
    }

    fn read_queue_again(&mut self, connection: &mut Connection, queue: &Queue, start: usize) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("queue {}: {error}", queue.id);
        let min = offset_of(connection, MIN_OFFSET, queue).map_err(failed)?;
        let max = offset_of(connection, MAX_OFFSET, queue).map_err(failed)?;
        let records = read_queue(connection, queue, start.try_into().expect("a small offset")).map_err(failed)?;
        let known = &mut self.queues[queue.id as usize];
        if min != 0 || max != i64::try_from(start + records.len()).expect("small") {
            let count = records.len();
            return Err(format!("queue {}: min {min}, max {max}, but {count} messages from {start}", queue.id));
        }
        for (record, offset) in records.iter().zip(start..) {
            let place = format!("queue {}, offset {offset}", queue.id);
            if record.queue_offset != offset as u64 || record.queue_id != queue.id || record.topic != queue.topic {
                let (topic, id, at) = (&record.topic, record.queue_id, record.queue_offset);
                return Err(format!("{place}: the message says topic {topic}, queue {id}, offset {at}"));
            }
            let Some(identity) = identity_of(&record.body) else {
                let length = record.body.len();
                return Err(format!("{place}: a body of {length} bytes that nobody sent"));
            };
            match known.get(offset) {
                Some(before) if *before != identity => {
                    return Err(format!("{place}: {identity:?}, where {before:?} was before the kill"));
                }
                Some(_) => {}
                None => {
                    known.push(identity);
                    if let Some(other) = self.places.insert(identity, (queue.id, offset as u64)) {
                        return Err(format!("{place}: {identity:?} is at {other:?} as well"));
                    }
                }
            }
        }
        if known.len() > start + records.len() {
            let (was, is) = (known.len(), start + records.len());
            return Err(format!("queue {}: it ended at {was} before the kill and ends at {is} now", queue.id));
        }
        Ok(())
    }

    /// Every entry must be at its place.
    ///
    /// # Errors
    /// The first that is not, and how many are not.
    pub(super) fn require(&self, what: &str, entries: &[Entry]) -> Result<(), String> {
        let missing: Vec<&Entry> = entries
            .iter()
            .filter(|entry| {
                let queue = &self.queues[entry.queue_id as usize];
                usize::try_from(entry.offset).ok().and_then(|offset| queue.get(offset)) != Some(&entry.identity)
            })
            .collect();
        let Some(first) = missing.first() else { return Ok(()) };
        let queue = &self.queues[first.queue_id as usize];
        let found = usize::try_from(first.offset).ok().and_then(|offset| queue.get(offset));
        Err(format!(
            "{} of {} messages that were {what} are not at their place; the first is {first:?}: there is {found:?}, and the queue ends at {}",
            missing.len(),
            entries.len(),
            queue.len(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_tells_its_identity_and_any_changed_byte_is_seen() {
        let mut identity = Identity::first_of(49, 5);
        for _ in 0..50 {
            let mut body = body_of(identity);
            assert_eq!(identity_of(&body), Some(identity));
            for place in [0, IDENTITY_TEXT_BYTES, body.len() - 1] {
                body[place] ^= 1;
                assert_ne!(identity_of(&body), Some(identity), "byte {place} of {identity:?}");
                body[place] ^= 1;
            }
            assert_eq!(identity_of(&body[..body.len() - 1]), None);
            identity = identity.next();
        }
    }

    #[test]
    fn a_lost_or_exchanged_message_is_reported() {
        let mut ledger = Ledger::new(1);
        let (one, two) = (Identity::first_of(0, 0), Identity::first_of(0, 1));
        ledger.queues[0] = vec![one];
        let entry = |offset, identity| Entry { queue_id: 0, offset, identity };
        assert!(ledger.require("acknowledged", &[entry(0, one)]).is_ok());
        assert!(ledger.require("acknowledged", &[entry(0, two)]).is_err());
        assert!(ledger.require("acknowledged", &[entry(0, one), entry(1, two)]).is_err());
    }
}
