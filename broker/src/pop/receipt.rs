//! What a popped message is acknowledged by. Pure.
//!
//! A receipt is a text of eight parts: `startOffset popTime invisibleTime reviveQueue kind broker queue offset`. Clients
//! make most of them from the answer to a pop ([`super::answer`]) and hand them back with an acknowledgement.

use base::QueueOffset;

/// The revive queue that receipts of ordered pops name.
pub(crate) const ORDERED_REVIVE_QUEUE: i32 = 999;
/// The one that all others name here: what is in flight lies in the journal of its log.
pub(crate) const REVIVE_QUEUE: i32 = 0;

/// The topic that a message was popped from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Normal,
    /// The retry topic `%RETRY%group_topic`.
    Retry,
    /// The retry topic `%RETRY%group+topic`.
    RetryNew,
}

impl Kind {
    pub(crate) fn digit(self) -> char {
        match self {
            Kind::Normal => '0',
            Kind::Retry => '1',
            Kind::RetryNew => '2',
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) start: QueueOffset,
    pub(crate) pop_time_ms: u64,
    pub(crate) invisible_ms: u64,
    pub(crate) revive_queue: i32,
    pub(crate) offset: QueueOffset,
}

impl Receipt {
    /// Reads a receipt; `None` when the text is none. Kind, broker and queue are in the request too.
    pub(crate) fn parse(text: &str) -> Option<Receipt> {
        let parts: Vec<&str> = text.split(' ').collect();
        let [start, pop_time, invisible, revive_queue, _kind, _broker, _queue, offset, ..] = parts[..] else {
            return None;
        };
        Some(Receipt {
            start: QueueOffset(start.parse().ok()?),
            pop_time_ms: pop_time.parse().ok()?,
            invisible_ms: invisible.parse().ok()?,
            revive_queue: revive_queue.parse().ok()?,
            offset: QueueOffset(offset.parse().ok()?),
        })
    }

    pub(crate) fn is_ordered(&self) -> bool {
        self.revive_queue == ORDERED_REVIVE_QUEUE
    }

    /// The text that the property POP_CK of a message holds.
    pub(crate) fn text(&self, kind: Kind, broker: &str, queue: u32) -> String {
        format!(
            "{} {} {} {} {} {broker} {queue} {}",
            self.start,
            self.pop_time_ms,
            self.invisible_ms,
            self.revive_queue,
            kind.digit(),
            self.offset
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_come_back() {
        let receipt = Receipt {
            start: QueueOffset(7),
            pop_time_ms: 1_700_000_000_000,
            invisible_ms: 60_000,
            revive_queue: REVIVE_QUEUE,
            offset: QueueOffset(9),
        };
        let text = receipt.text(Kind::Retry, "broker-a", 3);
        assert_eq!(text, "7 1700000000000 60000 0 1 broker-a 3 9");
        assert_eq!(Receipt::parse(&text), Some(receipt));
        assert_eq!(Receipt::parse(&format!("{text} 12345")), Some(receipt), "a proxy adds a part");
        for wrong in ["", "7 1 2 0 1 b 3", "x 1 2 0 1 b 3 9", "-7 1 2 0 1 b 3 9"] {
            assert_eq!(Receipt::parse(wrong), None, "{wrong}");
        }
        assert!(Receipt { revive_queue: 999, ..receipt }.is_ordered() && !receipt.is_ordered());
    }
}
