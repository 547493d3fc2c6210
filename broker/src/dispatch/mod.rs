//! From a request to its owner to its processor.

mod owner;
mod table;

use std::rc::Rc;

use base::CoreId;
use remoting::code::{ResponseCode, request};
use remoting::command::Command;
use transport::{Connection, Service};

use crate::call::{Call, Outcome, Refusal, Request, Responder};
use crate::core::Core;
use crate::parcel::Parcel;

/// The broker as seen by its connections.
pub(crate) struct Dispatcher {
    pub(crate) core: Rc<Core>,
}

impl Service for Dispatcher {
    fn request(&self, connection: &Rc<Connection>, command: Command, bytes: usize) {
        let responder = Responder::new(connection.id(), &command, bytes);
        let request = Request { connection: connection.id(), peer: connection.peer(), command };
        dispatch(&self.core, Call { request, responder });
    }

    fn closed(&self, connection: &Rc<Connection>) {
        crate::group::connection_closed(&self.core, connection.id());
    }
}

/// Sends a request to its owner: a plain call where that is this core, else it crosses once.
fn dispatch(core: &Rc<Core>, mut call: Call) {
    let Some(row) = table::row(call.request.command.code) else {
        let code = call.request.command.code;
        let remark = format!(
            "request code {code} ({}) is not supported by this broker",
            request::name(code).unwrap_or("unknown")
        );
        call.responder.answer(core, Err(Refusal::new(ResponseCode::REQUEST_CODE_NOT_SUPPORTED, remark)));
        return;
    };
    match (row.owner)(core, &mut call.request) {
        Ok(owner) if owner == core.id => (row.process)(core, call),
        Ok(owner) => core.mesh.send(owner, Parcel::Call(call)),
        Err(refusal) => call.responder.answer(core, Err(refusal)),
    }
}

/// Processes a request that crossed to this core as its owner.
fn arrived(core: &Rc<Core>, call: Call) {
    let row = table::row(call.request.command.code).expect("only known requests cross");
    (row.process)(core, call);
}

/// Starts a processor; its outcome is the answer.
pub(crate) fn start<Made>(core: &Rc<Core>, call: Call, processor: impl FnOnce(Rc<Core>, Request) -> Made)
where
    Made: Future<Output = Outcome> + 'static,
{
    let Call { request, responder } = call;
    let outcome = processor(core.clone(), request);
    let core = core.clone();
    runtime::spawn(async move { responder.answer(&core, outcome.await) });
}

/// Handles what other cores sent.
pub(crate) fn parcel(core: &Rc<Core>, _from: CoreId, parcel: Parcel) {
    match parcel {
        Parcel::Connection(accepted) => {
            if let Err(error) = core.server().serve(accepted) {
                crate::log::note(format_args!("a connection ended before it began: {error}"));
            }
        }
        Parcel::Call(call) => arrived(core, call),
        Parcel::Reply { connection, bytes, outgoing } => core.deliver_reply(connection, bytes, outgoing),
        Parcel::Send { connection, outgoing } => core.send_to(connection, outgoing),
        Parcel::Run(step) => step(core),
    }
}
