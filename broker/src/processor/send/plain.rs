//! The usual send: one message for now, to a topic that is there, into a log that has room. It is appended here and now,
//! and the log calls back when it is safe. A task for each message, with what it must keep, would cost a third of all.

use std::rc::Rc;

use remoting::code::{RequestCode, ResponseCode};
use remoting::header::send::SendMessage;
use remoting::message_id::OffsetId;
use remoting::reply::ReplyWriter;
use runtime::clock;
use storage::{StorageError, Ticket, WriteTimes};
use transport::Stage;

use super::properties::Known;
use super::{accepts_sends, check_body, draft, half, mark_of, record_bytes, unsafe_end, writable_queue};
use crate::call::{Call, Request, Responder};
use crate::core::Core;
use crate::delay::Wish;
use crate::stages;

/// Does a send, or gives it back untouched when it is another one, or one to be refused.
pub(super) fn send(core: &Rc<Core>, call: Call) -> Option<Call> {
    match store(core, &call.request) {
        Some(stored) => {
            stored.answer_when_safe(core, call.responder);
            None
        }
        None => Some(call),
    }
}

/// A message that is appended and not safe yet.
struct Stored {
    ticket: Ticket,
    /// What its sender is told once it is.
    reply: Vec<u8>,
    waits_for_flush: bool,
}

fn store(core: &Rc<Core>, request: &Request) -> Option<Stored> {
    let header = SendMessage::<&str>::decode_as(&request.command.fields).ok()?;
    if header.batch || request.command.code == RequestCode::SEND_BATCH_MESSAGE.0 {
        return None;
    }
    accepts_sends(core).ok()?;
    let topic = core.topics.get(header.topic)?;
    let queue = writable_queue(core, &topic, header.queue_id).ok()?;
    core.handles.prefetch(&topic, queue);
    check_body(core, &request.command.body).ok()?;
    let known = Known::of(header.properties);
    let is_plain = !topic.is_retry
        && known.wish == Wish::default()
        && (known.light_queues.is_none() || !core.config().light_queues.dispatch)
        && !half::is_half(header.sys_flag, header.reconsume_times, &known);
    if !is_plain {
        return None;
    }
    let log = core.log_of_topic_queue(&topic, queue);
    if log.is_waited_for() {
        return None;
    }
    core.handles.prefetch_queue(&topic, queue);
    let mut made = None;
    let make = || made.insert(core.unique_key()).clone();
    let additions = core.additions();
    let mut properties = core.properties_memory.take();
    properties.clear();
    additions.store_in(&mut properties, header.properties, &known, make).ok()?;
    let draft = draft(core, &header, queue, request.peer, &request.command.body, &properties);
    let indexed = known.indexed(&properties, made.as_deref());
    let target = core.handles.queue(&topic, queue, log);
    let ticket = log.append_indexed(&target, &draft, &indexed, clock::now_ms()).ok()?;
    core.stats.sent(&topic, queue, 1, record_bytes(&ticket));
    let unique_key = known.unique_key().or(made.as_deref()).expect("a message without an id was given one");
    let host = core.advertised();
    let mut reply = ReplyWriter::new(ResponseCode::SUCCESS);
    reply.offset_id("msgId", OffsetId { host, physical_offset: ticket.physical_offset });
    reply.number("queueId", i64::from(queue.0));
    reply.number("queueOffset", ticket.queue_offset.0 as i64);
    reply.text("transactionId", unique_key);
    reply.fields(&additions.reply);
    core.properties_memory.set(properties);
    let reply = reply.finish(request.command.opaque);
    Some(Stored { ticket, reply, waits_for_flush: known.waits_for_flush })
}

impl Stored {
    /// Answers when the sender has what it was promised. Nothing about the message changes from here on.
    fn answer_when_safe(self, core: &Rc<Core>, mut responder: Responder) {
        let Stored { ticket, reply, waits_for_flush } = self;
        let mark = mark_of(ticket.flush_policy(), waits_for_flush);
        if let Some(trip) = responder.trip() {
            trip.pass(Stage::Append, ticket.accepted);
        }
        let core = core.clone();
        let answer = move |outcome: Result<WriteTimes, StorageError>| match outcome {
            Ok(write_times) => {
                if let Some(trip) = responder.trip() {
                    stages::pass_write(trip, &write_times);
                    core.stats.send_took(stages::time_of_send(trip));
                }
                responder.answer_frame(&core, reply);
            }
            Err(error) => responder.answer(&core, Ok(super::refused_answer(&core, unsafe_end(&error)))),
        };
        ticket.when_reached(mark, answer);
    }
}
