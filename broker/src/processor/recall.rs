//! Timed messages that their producer takes back (370). On the connection's core: the handle does not tell the queue.

use std::rc::Rc;

use remoting::code::ResponseCode;
use remoting::header::recall::{RecallMessage, RecallMessageResponse};
use remoting::recall_handle::RecallHandle;

use super::send;
use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::delay::Recalled;
use crate::topic;

pub(crate) async fn recall(core: Rc<Core>, request: Request) -> Outcome {
    let header = RecallMessage::decode(&request.command.fields)?;
    let config = core.config();
    if !config.delays.recall {
        let remark = "timed messages can't be taken back on this broker: its recallMessageEnable is false";
        return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
    }
    if !config.registration.permission.writes() && !config.delays.recall_when_not_writable {
        let remark = format!("broker {} may not be written: brokerPermission lacks 2", config.identity.broker);
        return Err(Refusal::new(ResponseCode::SERVICE_NOT_AVAILABLE, remark));
    }
    if !core.topics.contains(&header.topic) {
        return Err(topic::no_topic(&header.topic));
    }
    let handle = RecallHandle::decode(&header.recall_handle).map_err(|error| illegal(error.to_string()))?;
    if handle.topic != header.topic || *handle.broker != *config.identity.broker {
        let remark = format!("the handle is of topic {} at broker {}, not of here", handle.topic, handle.broker);
        return Err(illegal(remark));
    }
    if handle.due <= core.delays.now() {
        return Err(illegal(format!("the message was due at {} ms: it is delivered", handle.due)));
    }
    let asked = handle.clone();
    let outcomes = core.on_each(move |core| recall_own(core, asked.clone())).await;
    let mut recalled = 0;
    for outcome in outcomes {
        recalled += outcome?;
    }
    if recalled == 0 {
        return Err(illegal("the message does not wait here any more".to_owned()));
    }
    let answer = RecallMessageResponse { message_id: handle.unique_key };
    Ok(Answer::success().with_fields(answer.to_fields()))
}

/// Takes back what this core's logs hold of it. Answered when it is as safe as a send.
async fn recall_own(core: Rc<Core>, handle: RecallHandle) -> Result<usize, Refusal> {
    let failed = |remark: String| Refusal::new(ResponseCode::SYSTEM_ERROR, remark);
    let mut recalled = 0;
    for log in core.own_logs() {
        let host = core.advertised();
        'finding: loop {
            let named = core.delays.find(log.id(), &handle).await.map_err(|error| failed(error.to_string()))?;
            for key in &named.keys {
                match send::append(&core, log, || core.delays.recall(log.id(), &named, *key, host)).await? {
                    Recalled::Yes(ticket) => {
                        send::reached(log, &ticket, true).await?;
                        recalled += 1;
                    }
                    Recalled::Due => {}
                    Recalled::Moved => continue 'finding,
                }
            }
            break;
        }
    }
    Ok(recalled)
}

fn illegal(remark: String) -> Refusal {
    Refusal::new(ResponseCode::ILLEGAL_OPERATION, remark)
}
