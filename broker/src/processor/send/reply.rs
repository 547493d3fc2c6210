//! Replies to requests (324, 325): passed on to the client that waits for them (326), and stored like any message.

use std::rc::Rc;
use std::time::Duration;

use base::QueueId;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::Command;
use remoting::fields::Fields;
use remoting::header::reply::PushReplyMessage;
use remoting::header::send::SendMessage;
use remoting::properties::{self, Builder, MSG_REGION, PUSH_REPLY_TIME, REPLY_TO_CLIENT, TRACE_ON};
use remoting::text::Text;
use runtime::clock;
use runtime::sync::once;
use transport::CallError;

use super::{admit, answer, store_one};
use crate::call::{Outcome, Request};
use crate::core::Core;

/// How long a client may take to accept a reply. Beyond it the sender is told that it was not passed on.
const PUSH_TIME_MAX: Duration = Duration::from_secs(10);

/// One reply. Its sender is told whether the client got it, which does not depend on whether it was stored.
pub(crate) async fn send_reply(core: Rc<Core>, request: Request) -> Outcome {
    let header = SendMessage::decode(&request.command.fields)?;
    let (topic, queue) = match admit(&core, &header, &request).await {
        Ok(admitted) => admitted,
        Err(refusal) => return Ok(answer(&core, refusal.code, Some(refusal.remark), refusal.fields)),
    };
    // Both at once: neither has to wait for the other.
    let (told, pushed) = once();
    {
        let (core, header, request) = (core.clone(), header.clone(), request.clone());
        runtime::spawn(async move { told.send(push(&core, &header, queue, &request).await) });
    }
    let mut fields = Fields::new();
    let mut remark = None;
    let stored = if core.config().messages.store_replies {
        match store_one(&core, &header, &topic, queue, &request).await {
            Ok(stored) => Some(stored),
            Err(refusal) => {
                remark = Some(Text::from(format!("the reply was not stored: {}", refusal.remark)));
                None
            }
        }
    } else {
        None
    };
    match stored {
        Some(stored) => stored.push_fields(&mut fields),
        None => {
            fields.push("msgId", "0");
            fields.push("queueId", queue.0 as i32);
            fields.push("queueOffset", 0_i64);
        }
    }
    let code = match pushed.receive().await.expect("a push tells its end") {
        Ok(()) => ResponseCode::SUCCESS,
        Err(why) => {
            core.stats.reply_not_passed_on();
            remark = Some(Text::from(why));
            ResponseCode::SYSTEM_ERROR
        }
    };
    Ok(answer(&core, code, remark, fields))
}

/// Passes a reply on to the client that waits for it; the error says why it does not have it.
async fn push(core: &Rc<Core>, header: &SendMessage, queue: QueueId, request: &Request) -> Result<(), String> {
    let client = properties::get(&header.properties, REPLY_TO_CLIENT)
        .ok_or_else(|| format!("the reply has no property {REPLY_TO_CLIENT}: copy it from the request"))?;
    let client = Text::from(client);
    let (owner, id) = (core.placement.core_of_client(&client), client.clone());
    let connections = core.on(owner, move |core| async move { core.reply_clients.connections_of(&id) }).await;
    let now = clock::now_ms().0 as i64;
    let fields = PushReplyMessage {
        producer_group: header.producer_group.clone(),
        topic: header.topic.clone(),
        default_topic: header.default_topic.clone(),
        default_topic_queue_nums: header.default_topic_queue_nums,
        queue_id: queue.0 as i32,
        sys_flag: header.sys_flag,
        born_timestamp_ms: header.born_timestamp_ms,
        flag: header.flag,
        properties: Some(Text::from(pushed_properties(core, &header.properties, now))),
        reconsume_times: Some(header.reconsume_times),
        unit_mode: header.unit_mode,
        born_host: Text::from(request.peer.to_string()),
        store_host: Text::from(core.advertised().to_string()),
        store_timestamp_ms: now,
    }
    .to_fields();
    let reply = Command::request(RequestCode::PUSH_REPLY_MESSAGE_TO_CLIENT, fields);
    let reply = reply.with_body(request.command.body.clone());
    for connection in connections {
        return match core.call_client(connection, reply.clone(), PUSH_TIME_MAX).await {
            Ok(answer) if answer.code == ResponseCode::SUCCESS.0 => Ok(()),
            Ok(answer) => {
                let told = answer.remark.unwrap_or_default();
                Err(format!("client {client} did not take the reply: it answered {} {told}", answer.code))
            }
            // It just went; its client may have another.
            Err(None | Some(CallError::Closed { .. })) => continue,
            Err(Some(error)) => Err(format!("client {client} did not take the reply: {error}")),
        };
    }
    Err(format!("client {client}, which waits for the reply, is not connected to this broker"))
}

/// What goes out are the properties that came, with what the broker tells whoever gets a message.
fn pushed_properties(core: &Core, properties: &str, now_ms: i64) -> String {
    let config = core.config();
    let kept = properties::without(properties, &[MSG_REGION, TRACE_ON, PUSH_REPLY_TIME]);
    let mut builder = Builder::from_text(&kept, 96);
    builder.push(MSG_REGION, &*config.identity.region);
    builder.push(TRACE_ON, config.topics.trace_on);
    builder.push(PUSH_REPLY_TIME, now_ms);
    builder.finish()
}
