//! A half message that an operator wants to be asked about anew (323).

use std::rc::Rc;

use base::PhysicalOffset;
use remoting::code::ResponseCode;
use remoting::message_id::OffsetId;
use remoting::name::{CHECK_MAX_TIME_TOPIC, HALF_TOPIC};
use remoting::properties::{self, TRANSACTION_CHECK_TIMES};
use remoting::record::{RecordDraft, RecordView};
use storage::Mark;

use super::ledger::Ledger;
use crate::call::Refusal;
use crate::core::Core;

/// Resumes the checks of the half message that `id` names, from the first on: of one that is pending, or of the copy of
/// one that was given up, which becomes a new half message. Any core may ask.
///
/// # Errors
/// When there is no such message, or it was ended by its producer.
pub(crate) async fn resume(core: &Rc<Core>, id: &str) -> Result<(), Refusal> {
    let id = OffsetId::decode(id).map_err(|error| failed(error.to_string()))?;
    let offset = id.physical_offset;
    let owner = core.core_of_offset(offset).ok_or_else(|| failed(format!("no log holds offset {offset}")))?;
    core.on(owner, move |core| async move { resume_here(&core, offset).await }).await
}

async fn resume_here(core: &Rc<Core>, offset: PhysicalOffset) -> Result<(), Refusal> {
    let ledger = core.transactions.of(offset.log());
    let bytes = core.log(offset.log()).record_at(offset.offset()).await.map_err(|error| failed(error.to_string()))?;
    let record = bytes.as_deref().and_then(|bytes| RecordView::decode(bytes).ok());
    let record = record.ok_or_else(|| failed(format!("no message begins at offset {offset}")))?;
    match record.topic() {
        HALF_TOPIC => resume_pending(&ledger, &record),
        CHECK_MAX_TIME_TOPIC => resume_given_up(core, &ledger, &record).await,
        topic => Err(failed(format!("the message at offset {offset} is of topic {topic}: it is no half message"))),
    }
}

fn resume_pending(ledger: &Ledger, record: &RecordView<'_>) -> Result<(), Refusal> {
    let at = record.queue_offset();
    let mut pending = ledger.pending.borrow_mut();
    if !pending.is_open(at) {
        return Err(failed(format!("half message {at} is not pending: its transaction was ended")));
    }
    pending.set_checks(at, 0);
    Ok(())
}

async fn resume_given_up(core: &Core, ledger: &Ledger, record: &RecordView<'_>) -> Result<(), Refusal> {
    let properties = properties::without(record.properties(), &[TRANSACTION_CHECK_TIMES]);
    let draft = RecordDraft {
        topic: HALF_TOPIC,
        queue_id: ledger.own_queue(HALF_TOPIC),
        flag: record.flag(),
        sys_flag: record.sys_flag(),
        born_timestamp_ms: record.born_timestamp_ms(),
        born_host: record.born_host(),
        store_host: core.advertised(),
        reconsume_times: record.reconsume_times(),
        prepared_transaction_offset: 0,
        body: record.body(),
        properties: &properties,
    };
    let ticket = ledger.append_half(&draft, core.config().transactions.immune_time.0);
    let ticket = ticket.map_err(|error| failed(format!("{error}; try again later")))?;
    ticket.reached(Mark::Durable).await.map_err(|error| failed(error.to_string()))
}

fn failed(remark: String) -> Refusal {
    Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
}
