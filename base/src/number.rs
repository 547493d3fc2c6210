//! Kinds of numbers as types, so that an offset of one kind cannot be stored as another.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }
    };
}

number!(
    /// A persistent log: a folder in the store. Their number is fixed when the store is made.
    LogId(u16)
);
number!(
    /// A running thread with its own executor, from 0.
    CoreId(u16)
);
number!(
    /// Bytes from the beginning of one log. Never reused, never goes back.
    LogOffset(u64)
);
number!(
    /// The number of a message within its queue, counted from 0.
    QueueOffset(u64)
);
number!(
    /// A queue of a topic, counted from 0.
    QueueId(u32)
);
number!(
    /// Milliseconds since 1970-01-01 UTC, or a span of milliseconds.
    Millis(u64)
);
number!(
    /// What the wire calls a commit log offset: the log in the upper 16 bits, the offset in it in the lower 48.
    /// Log 0 therefore looks exactly like the only log of another broker.
    PhysicalOffset(u64)
);

/// Bits of a physical offset that hold the offset within the log: 256 TiB a log.
const LOG_OFFSET_BITS: u32 = 48;

impl LogOffset {
    pub const ZERO: LogOffset = LogOffset(0);

    /// The offset `bytes` further on.
    pub fn plus(self, bytes: u64) -> LogOffset {
        LogOffset(self.0 + bytes)
    }

    /// Bytes from `start` to here.
    ///
    /// # Panics
    /// When `start` lies behind this offset.
    pub fn since(self, start: LogOffset) -> u64 {
        assert!(start <= self, "offset {start} lies behind {self}");
        self.0 - start.0
    }
}

impl QueueOffset {
    pub const ZERO: QueueOffset = QueueOffset(0);

    pub fn plus(self, count: u64) -> QueueOffset {
        QueueOffset(self.0 + count)
    }
}

impl PhysicalOffset {
    pub fn new(log: LogId, offset: LogOffset) -> PhysicalOffset {
        assert!(offset.0 < 1 << LOG_OFFSET_BITS, "log offset {offset} does not fit into {LOG_OFFSET_BITS} bits");
        PhysicalOffset(u64::from(log.0) << LOG_OFFSET_BITS | offset.0)
    }

    pub fn log(self) -> LogId {
        LogId((self.0 >> LOG_OFFSET_BITS) as u16)
    }

    pub fn offset(self) -> LogOffset {
        LogOffset(self.0 & ((1 << LOG_OFFSET_BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_physical_offset_keeps_both_parts() {
        for (log, offset) in [(0, 0), (0, 77), (3, 1 << 40), (u16::MAX >> 1, (1 << 48) - 1)] {
            let physical = PhysicalOffset::new(LogId(log), LogOffset(offset));
            assert_eq!((physical.log(), physical.offset()), (LogId(log), LogOffset(offset)));
        }
        assert_eq!(PhysicalOffset::new(LogId(0), LogOffset(4096)).0, 4096, "log 0 looks like a single log");
    }
}
