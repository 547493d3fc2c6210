//! What a store must hold so that a broker goes on with it: for a program that makes one from another broker's. Pure.
//!
//! Where a queue lies, and how a message waits for its time.

use base::{LogId, Millis, QueueId, stable_hash};
use remoting::record::RecordDraft;

use crate::delay::{self, DELAY_MS_MAX, Due, Held};
use crate::placement::Placement;

/// The log of a queue in a store of so many logs.
pub fn log_of(logs: u16, topic: &str, queue: QueueId) -> LogId {
    placement(logs).log_of(stable_hash(topic), queue)
}

/// The queue of a topic of the broker's own that belongs to a log.
pub fn own_queue(logs: u16, topic: &str, log: LogId) -> QueueId {
    placement(logs).queue_in_log(stable_hash(topic), log)
}

fn placement(logs: u16) -> Placement {
    Placement { logs, cores: 1 }
}

/// Why a message waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It has one of the delay levels.
    Level,
    /// It has a time.
    Time,
}

/// A message that waits for its time, under its address in the timer topic. It lies in the log of its own queue.
pub struct Waiting {
    held: Held,
}

impl Waiting {
    /// Of a message under its own address. A time too far ahead becomes the latest that can be waited for.
    ///
    /// # Errors
    /// When its properties leave no room.
    pub fn new(message: &RecordDraft<'_>, reason: Reason, due: Millis, now: Millis) -> Result<Waiting, String> {
        let due = Millis(due.0.clamp(now.0, now.0 + DELAY_MS_MAX));
        let due = match reason {
            Reason::Level => Due::Level(due),
            Reason::Time => Due::Timer(due),
        };
        let held = Held::of(message, due).map_err(|refusal| refusal.remark.to_string())?;
        Ok(Waiting { held: held.expect("it is due at a time") })
    }

    /// The record under which `message` waits.
    pub fn draft<'a>(&'a self, message: &RecordDraft<'a>) -> RecordDraft<'a> {
        self.held.draft(message)
    }
}

/// Queue and body of the record that says, in a log, that nothing waits there which was due before a time. Without it a
/// start looks for such messages from the log's oldest record on.
pub fn nothing_waits_before(time: Millis) -> (QueueId, Vec<u8>) {
    delay::delivered_before(time)
}

#[cfg(test)]
mod tests {
    use remoting::name::TIMER_TOPIC;
    use remoting::properties;

    use super::*;

    fn message(properties: &str) -> RecordDraft<'_> {
        let host = "127.0.0.1:1".parse().expect("an address");
        RecordDraft { properties, ..RecordDraft::own("T", QueueId(3), b"b", host, Millis(1)) }
    }

    #[test]
    fn times_are_kept_within_what_can_be_waited_for() {
        let now = Millis(1_700_000_000_000);
        for (due, expected) in [(5, now.0), (now.0 + 5, now.0 + 5), (u64::MAX / 2, now.0 + DELAY_MS_MAX)] {
            let message = message("DELAY\u{1}3\u{2}");
            let waiting = Waiting::new(&message, Reason::Level, Millis(due), now).expect("room");
            let draft = waiting.draft(&message);
            assert_eq!(draft.topic, TIMER_TOPIC);
            let found = properties::get(draft.properties, properties::TIMER_OUT_MS).and_then(|text| text.parse().ok());
            assert_eq!(found, Some(expected));
        }
    }

    #[test]
    fn a_topics_own_queue_lies_in_the_log() {
        for log in (0..4).map(LogId) {
            assert_eq!(log_of(4, "T", own_queue(4, "T", log)), log);
        }
    }
}
