//! Half messages for the tests of this module.

use base::{LogId, LogOffset, Millis, PhysicalOffset, QueueId, QueueOffset};
use remoting::name::HALF_TOPIC;
use remoting::record::{self, Placement, RecordDraft};

/// When and where [`stored`] says that a record lies.
pub(super) const STORED_MS: u64 = 1_000_000;
pub(super) const LOG: LogId = LogId(2);
pub(super) const OFFSET: LogOffset = LogOffset(700);

pub(super) fn draft<'a>(body: &'a str, properties: &'a str) -> RecordDraft<'a> {
    RecordDraft {
        flag: 5,
        store_host: "127.0.0.1:8".parse().expect("an address"),
        properties,
        ..RecordDraft::own(
            HALF_TOPIC,
            QueueId(1),
            body.as_bytes(),
            "127.0.0.1:7".parse().expect("an address"),
            Millis(11),
        )
    }
}

/// The bytes of a record.
pub(super) fn stored(draft: &RecordDraft<'_>) -> Vec<u8> {
    let mut bytes = vec![0; record::record_bytes(draft)];
    let placement = Placement {
        queue_offset: QueueOffset(9),
        physical_offset: PhysicalOffset::new(LOG, OFFSET),
        store_timestamp_ms: STORED_MS as i64,
    };
    record::encode(draft, placement, &mut bytes);
    bytes
}
