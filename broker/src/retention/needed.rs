//! What the broker itself still needs of an old segment: messages that wait for their time, half messages, popped messages,
//! and the journals that tell of them. It is stored anew, or it holds the segment back.

use std::fmt;
use std::rc::Rc;

use storage::{AppendError, Log, OldSegment, StorageError};

use crate::core::Core;
use crate::delay::Anew;
use crate::pop::{self, Revive};
use crate::trouble::Trouble;

/// Of a segment that goes because the disk fills, at most this part is stored anew: with more, nothing would be gained.
const ANEW_PART_MAX: u64 = 2;
/// A journal's state is stored anew in a record of at most this part of a segment …
const JOURNAL_PART_MAX: u64 = 4;
/// … and of at most so many bytes.
const JOURNAL_BYTES_MAX: u64 = 32 << 20;

/// Why a segment stays although it should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// For as long as half messages may be pending: the checks of them are bounded.
    Halves {
        count: usize,
    },
    /// For as long as popped messages are held, a day at most; not when the disk fills.
    Popped,
    /// Until they are delivered.
    Due,
    Waiting {
        bytes: u64,
    },
    Journal,
    NoRoom,
    /// Its entries are not in an extent yet.
    NotDerived,
}

impl fmt::Display for Held {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Held::Halves { count } => write!(
                out,
                "transactions in it are not ended ({count}): let their producers commit or roll back; they are given up \
                 after transactionCheckMax checks"
            ),
            Held::Popped => write!(out, "messages in it are popped and not acknowledged; their time is a day at most"),
            Held::Due => write!(out, "delayed messages in it are due and being delivered"),
            Held::Waiting { bytes } => write!(
                out,
                "{} MiB of it are messages that wait for their time: to store them anew would gain too little; give the \
                 disk more room",
                bytes >> 20
            ),
            Held::Journal => write!(out, "what is in flight is told in it, and is too much for one record"),
            Held::NotDerived => write!(out, "its queue entries are not stored yet"),
            Held::NoRoom => write!(out, "what is needed of it cannot be stored anew, as the log takes no record now"),
        }
    }
}

/// Makes a segment one that nobody needs. Gives why it is needed still, if it is. What was stored anew is durable
/// afterwards.
pub(super) async fn store_anew(
    core: &Rc<Core>,
    log: &Rc<Log>,
    segment: OldSegment,
    is_forced: bool,
) -> Result<Option<Held>, StorageError> {
    let (id, limit) = (log.id(), segment.limit);
    let halves = core.transactions.of(id);
    match halves.pending_before(limit) {
        0 => {}
        count => return Ok(Some(Held::Halves { count })),
    }
    let bytes_max = if is_forced { segment.bytes / ANEW_PART_MAX } else { u64::MAX };
    match core.delays.hold_anew(id, limit, bytes_max, core.advertised()).await {
        Ok(Anew::Held) => {}
        Ok(Anew::Due) => return Ok(Some(Held::Due)),
        Ok(Anew::TooMany { bytes }) => return Ok(Some(Held::Waiting { bytes })),
        Err(trouble) => return held_by(log, trouble),
    }
    let revive = if is_forced { Revive::AtOnce } else { Revive::WhenDue };
    match pop::is_any_before(core, id, limit, revive).await {
        Ok(false) => {}
        Ok(true) => return Ok(Some(Held::Popped)),
        Err(_) => return Ok(Some(Held::NoRoom)),
    }
    let bytes_max = (segment.bytes / JOURNAL_PART_MAX).min(JOURNAL_BYTES_MAX) as usize;
    for left in [halves.leave(limit, bytes_max).await, pop::leave(core, id, limit, bytes_max).await] {
        match left {
            Ok(true) => {}
            Ok(false) => return Ok(Some(Held::Journal)),
            Err(trouble) => return held_by(log, trouble),
        }
    }
    log.make_durable().await?;
    Ok(None)
}

fn held_by(log: &Log, trouble: Trouble) -> Result<Option<Held>, StorageError> {
    match trouble {
        Trouble::Read(error) | Trouble::Append(AppendError::Failed(error)) => Err(error),
        Trouble::Append(AppendError::Stopped) => Err(StorageError::Stopped { log: log.id().0 }),
        Trouble::Append(AppendError::Full { .. } | AppendError::Busy { .. } | AppendError::TooLarge { .. })
        | Trouble::Refused(_) => Ok(Some(Held::NoRoom)),
    }
}
