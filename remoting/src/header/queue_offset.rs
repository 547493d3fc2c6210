//! Headers of calls about the offsets of one queue (29 to 32).

use crate::fields::{FieldValue, FromField, ToFieldText};
use crate::header::header;
use crate::text::Text;

/// Which of the messages around a time is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Boundary {
    /// The first that is not older.
    #[default]
    Lower,
    /// The last that is not younger.
    Upper,
}

impl FromField<'_> for Boundary {
    const KIND: &'static str = "LOWER or UPPER";

    fn from_field(value: FieldValue<'_>) -> Option<Boundary> {
        match value.as_str() {
            word if word.eq_ignore_ascii_case("lower") => Some(Boundary::Lower),
            word if word.eq_ignore_ascii_case("upper") => Some(Boundary::Upper),
            _ => None,
        }
    }
}

impl ToFieldText for Boundary {
    fn write_to(&self, out: &mut String) {
        out.push_str(match self {
            Boundary::Lower => "LOWER",
            Boundary::Upper => "UPPER",
        });
    }
}

header! {
    /// Header of 29.
    SearchOffset {
        topic: Text = required "topic",
        queue_id: i32 = required "queueId",
        timestamp_ms: i64 = required "timestamp",
        boundary: Boundary = or(Boundary::Lower) "boundaryType",
    }
}

header! {
    /// Header of 30.
    GetMaxOffset {
        topic: Text = required "topic",
        queue_id: i32 = required "queueId",
        committed: bool = or(true) "committed",
    }
}

header! {
    /// Header of calls that name a queue and nothing else: 31 and 32.
    QueueRequest {
        topic: Text = required "topic",
        queue_id: i32 = required "queueId",
    }
}

header! {
    /// Answer to 29, 30 and 31.
    OffsetResponse {
        offset: i64 = required "offset",
    }
}

header! {
    /// Answer to 32.
    TimestampResponse {
        /// -1: no message.
        timestamp_ms: i64 = required "timestamp",
    }
}
