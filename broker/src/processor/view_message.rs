//! One message by its place in the log (33).

use std::rc::Rc;

use base::PhysicalOffset;
use remoting::code::ResponseCode;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;

pub(crate) async fn view_message(core: Rc<Core>, request: Request) -> Outcome {
    let offset: i64 = request.command.fields.required("offset")?;
    let missing = || {
        let remark = format!("no message begins at offset {offset}: it was never there or its time is over");
        Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
    };
    let physical = PhysicalOffset(u64::try_from(offset).map_err(|_| missing())?);
    if core.core_of_offset(physical) != Some(core.id) {
        return Err(missing());
    }
    let record = core.log(physical.log()).record_at(physical.offset()).await;
    let record = record.map_err(|error| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string()))?;
    Ok(Answer::success().with_body(record.ok_or_else(missing)?))
}
