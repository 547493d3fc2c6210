//! Ends of transactions (37), and checks that begin anew (323).

use std::rc::Rc;

use remoting::code::ResponseCode;
use remoting::header::stats::ResumeCheckHalfMessage;
use remoting::header::transaction::EndTransaction;
use remoting::record::sys_flag;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::transaction::{self, Verdict};

/// 37, on the core of the half message's log. Clients send it one-way.
pub(crate) async fn end_transaction(core: Rc<Core>, request: Request) -> Outcome {
    let wish = EndTransaction::decode(&request.command.fields)?;
    let verdict = match wish.commit_or_rollback {
        sys_flag::TRANSACTION_COMMIT => Verdict::Commit,
        sys_flag::TRANSACTION_ROLLBACK => Verdict::Rollback,
        sys_flag::TRANSACTION_NONE => {
            // The producer does not know yet: it will be asked.
            return Ok(Answer::success().with_remark("the transaction stays pending"));
        }
        other => {
            let remark = format!("commitOrRollback is {other}; it must be 8 (commit), 12 (rollback) or 0 (not known)");
            return Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark));
        }
    };
    transaction::end(&core, &wish, verdict).await?;
    Ok(Answer::success())
}

/// 323, on any core.
pub(crate) async fn resume_check(core: Rc<Core>, request: Request) -> Outcome {
    let header = ResumeCheckHalfMessage::decode(&request.command.fields)?;
    transaction::resume(&core, &header.message_id).await?;
    Ok(Answer::success())
}
