//! Taking messages of one queue for a group, on the queue's owner.

use std::rc::Rc;

use base::{QueueId, QueueOffset};
use bytes::{Bytes, BytesMut};
use remoting::code::ResponseCode;
use remoting::properties::{self, POP_CHECKPOINT, PROPERTIES_BYTES_MAX};
use remoting::record::{self, Placement, RecordDraft, RecordView, Records};
use remoting::subscription::SubscriptionData;
use remoting::text::Text;
use runtime::clock;
use storage::{QueueRead, ReadLimits};

use super::in_flight::PopQueue;
use super::ledger::{Closed, Ledger, Reading, Times};
use super::peek::peek;
use super::receipt::{Kind, ORDERED_REVIVE_QUEUE, REVIVE_QUEUE, Receipt};
use crate::call::Refusal;
use crate::core::Core;
use crate::filter;
use crate::group::{self, queue_ends};
use crate::processor::send;

/// Queue entries looked at by one pop of one queue, so that a filter that fits little does not hold up its core.
const ENTRIES_SCANNED_MAX: u32 = 800;

/// A queue that another pop reads, or a log with too much in flight, is looked at again after this time.
const CLOSED_MS: u64 = 50;

/// What is wanted of a look at queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Messages, which are the asker's then; with none wanted only their number.
    Pop,
    /// What a pop would give, which stays where it is.
    Peek,
}

/// What a group wants of a queue.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) purpose: Purpose,
    pub(super) group: Text,
    /// The topic that was asked for. Messages of its retry topics come under this name.
    pub(super) topic: Text,
    /// The topic that the queue is of.
    pub(super) source: Text,
    pub(super) kind: Kind,
    pub(super) queue: QueueId,
    pub(super) wanted: SubscriptionData,
    pub(super) count_max: u32,
    pub(super) pop_ms: u64,
    pub(super) invisible_ms: u64,
    /// A group that has consumed nothing begins behind the last message, unless the queue is young.
    pub(super) begins_at_end: bool,
    /// Set for a pop in order, with the name of its attempt.
    pub(super) order: Option<Option<Text>>,
}

/// What a queue gave.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) kind: Kind,
    pub(crate) queue: QueueId,
    pub(crate) start: QueueOffset,
    pub(crate) offsets: Vec<QueueOffset>,
    /// How often messages popped in order came before, of those that did.
    pub(crate) counts: Vec<(QueueOffset, u32)>,
    pub(crate) records: Bytes,
}

/// What one look at a queue came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    pub(super) taken: Option<Taken>,
    /// Messages that are left in the queue.
    pub(super) rest: u64,
    /// Another look at that time may find more, also without a new message.
    pub(super) again_at_ms: Option<u64>,
}

impl Ask {
    pub(super) fn of(&self) -> PopQueue {
        PopQueue { group: self.group.detached(), topic: self.source.detached(), queue: self.queue }
    }
}

/// Takes what there is, up to the number wanted; on the queue's owner. With none wanted it only looks.
///
/// # Errors
/// When the queue cannot be read, or its log takes no note.
pub(super) async fn take(core: &Rc<Core>, ask: &Ask) -> Result<Look, Refusal> {
    let log = core.log_of_queue(&ask.source, ask.queue).clone();
    let Some(queue) = log.find_queue(&ask.source, ask.queue) else { return Ok(Look::default()) };
    let ledger = core.pops.of(log.id());
    if ask.purpose == Purpose::Peek {
        return peek(core, ask, &ledger, &queue).await;
    }
    let of = ask.of();
    if let Some(to) = group::take_reset(core, &of.group, &of.topic, of.queue) {
        ledger.move_to(&of, QueueOffset(to));
        group::commit_from_pull(core, &of.group, &of.topic, of.queue, to as i64);
    }
    if !ledger.knows(&of) {
        let at = beginning(core, ask).await?;
        ledger.begin(of.clone(), at);
    }
    let order = ask.order.as_ref().map(Option::as_ref);
    let reading = match ledger.open(&of, order, clock::now_ms().0) {
        Ok(reading) => reading,
        Err(Closed::Ordered { until_ms }) => return Ok(Look { again_at_ms: Some(until_ms), ..Look::default() }),
        Err(Closed::Read | Closed::Full) => {
            let again_at_ms = Some(clock::now_ms().0 + CLOSED_MS);
            return Ok(Look { rest: left(&queue, &ledger, &of), again_at_ms, ..Look::default() });
        }
    };
    if ask.count_max == 0 {
        return Ok(Look { rest: queue.max().0.saturating_sub(reading.from.0), ..Look::default() });
    }
    let taken = read(core, ask, &ledger, &queue, reading).await?;
    if let Some(consumed) = ledger.consumed(&of) {
        group::commit_from_pop(core, &of.group, &of.topic, of.queue, consumed);
    }
    let rest = left(&queue, &ledger, &of);
    // Its filter wanted nothing of what was looked at, and there is more.
    let again_at_ms = (taken.is_none() && rest > 0).then_some(ask.pop_ms);
    Ok(Look { taken, rest, again_at_ms })
}

fn left(queue: &storage::QueueRef, ledger: &Ledger, of: &PopQueue) -> u64 {
    ledger.next(of).map_or(0, |next| queue.max().0.saturating_sub(next.0))
}

/// Where a group begins that has not popped the queue in this process: at its committed offset, else as it wishes.
pub(super) async fn beginning(core: &Rc<Core>, ask: &Ask) -> Result<QueueOffset, Refusal> {
    let (group, topic, queue) = (ask.group.clone(), ask.source.clone(), ask.queue);
    let owner = core.placement.core_of_group(&group);
    let committed =
        core.on(owner, move |core| async move {
            core.groups.with(&group, |group| group.offsets.get(&topic, queue)).flatten()
        })
        .await;
    let ends = queue_ends::ends_here(core, &ask.source, queue);
    if let Some(committed) = committed {
        return Ok(committed.clamp(ends.min, ends.max));
    }
    let is_young = ends.min == QueueOffset::ZERO && queue_ends::is_young_here(core, &ask.source, queue).await?;
    let at_end = ask.begins_at_end && ask.kind == Kind::Normal && !is_young;
    // As the peer does: the last message is the first one.
    Ok(if at_end { QueueOffset(ends.max.0.saturating_sub(1)).max(ends.min) } else { ends.min })
}

async fn read(
    core: &Rc<Core>,
    ask: &Ask,
    ledger: &Rc<Ledger>,
    queue: &storage::QueueRef,
    mut reading: Reading,
) -> Result<Option<Taken>, Refusal> {
    let failed = |error: String| Refusal::new(ResponseCode::SYSTEM_ERROR, error);
    let limits = ReadLimits {
        messages_max: ask.count_max,
        bytes_max: u64::from(core.config().consumers.pull_bytes_max),
        scan_max: ENTRIES_SCANNED_MAX,
    };
    let (read, parts) = loop {
        let wanted = &ask.wanted;
        let (read, parts) = if wanted.is_tag_type() || !filter::is_sql(&wanted.expression_type) {
            let pulled = ledger.log.pull(queue, reading.from, limits, |code| wanted.matches(code)).await;
            pulled.map_err(|error| failed(error.to_string()))?
        } else {
            let filter = core.filters.get(&wanted.sub_string).map_err(|error| failed(error.to_string()))?;
            filter::read_matching(&ledger.log, queue, reading.from, limits, &filter).await?
        };
        match read {
            QueueRead::TooSmall { min } => {
                core.stats.skipped(reading.from, min);
                reading.from = min;
            }
            QueueRead::TooLarge { max } => reading.from = max,
            QueueRead::NoMatch { next } => {
                ledger.passed(&reading, next);
                return Ok(None);
            }
            QueueRead::AtEnd { .. } | QueueRead::Empty => return Ok(None),
            QueueRead::Found(found) => break (found, parts),
        }
    };
    let bytes = filter::copy(parts, read.bytes).await?;
    let mut offsets = Vec::with_capacity(read.messages as usize);
    for record in Records::new(&bytes) {
        offsets.push(record.map_err(|error| failed(error.to_string()))?.queue_offset());
    }
    let times = Times { pop_ms: ask.pop_ms, invisible_ms: ask.invisible_ms };
    let counts = match &ask.order {
        Some(attempt) => {
            let note = || ledger.popped_in_order(&reading, &offsets, read.next, times, attempt.as_ref());
            send::append(core, &ledger.log, note).await?
        }
        None => {
            send::append(core, &ledger.log, || ledger.popped(&reading, &offsets, read.next, times)).await?;
            Vec::new()
        }
    };
    if let Some(topic) = core.topics.get(&ask.source) {
        core.stats.pulled(&ask.group, &topic, u64::from(read.messages), read.bytes);
    }
    let records = if ask.kind == Kind::Normal { bytes } else { under_their_topic(core, ask, reading.from, &bytes) };
    Ok(Some(Taken { kind: ask.kind, queue: ask.queue, start: reading.from, offsets, counts, records }))
}

/// Messages of a retry topic as consumers want to see them: of the topic that they asked for, with their receipts.
fn under_their_topic(core: &Core, ask: &Ask, start: QueueOffset, records: &[u8]) -> Bytes {
    let config = core.config();
    let mut all = BytesMut::with_capacity(records.len() + 512);
    for record in Records::new(records).filter_map(Result::ok) {
        let receipt = Receipt {
            start,
            pop_time_ms: ask.pop_ms,
            invisible_ms: ask.invisible_ms,
            revive_queue: if ask.order.is_some() { ORDERED_REVIVE_QUEUE } else { REVIVE_QUEUE },
            offset: record.queue_offset(),
        };
        let text = receipt.text(ask.kind, &config.identity.broker, ask.queue.0);
        let with_receipt = properties::with(record.properties(), POP_CHECKPOINT, text.as_str());
        // Clients find the receipt of a message without room for it in the answer's header.
        let fits = with_receipt.len() <= PROPERTIES_BYTES_MAX;
        let properties = if fits { with_receipt.as_str() } else { record.properties() };
        push_record(&mut all, &record, &ask.topic, properties);
    }
    all.freeze()
}

fn push_record(all: &mut BytesMut, record: &RecordView<'_>, topic: &str, properties: &str) {
    let draft = RecordDraft { topic, properties, ..RecordDraft::of(record) };
    let at = all.len();
    all.resize(at + record::record_bytes(&draft), 0);
    let placement = Placement {
        queue_offset: record.queue_offset(),
        physical_offset: record.physical_offset(),
        store_timestamp_ms: record.store_timestamp_ms(),
    };
    record::encode(&draft, placement, &mut all[at..]);
}
