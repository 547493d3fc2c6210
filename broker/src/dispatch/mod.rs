//! From a request to its owner to its processor.

mod owner;
mod table;

use std::rc::Rc;

use base::CoreId;
use remoting::code::{ResponseCode, request};
use remoting::command::Command;
use runtime::Share;
use runtime::clock::Stamp;
use transport::{Connection, Service, Stage, Trip};

use crate::call::{Call, Outcome, Refusal, Request, Responder};
use crate::core::Core;
use crate::parcel::Parcel;
use crate::stages::Watch;
use table::Row;

/// The broker as seen by its connections.
pub(crate) struct Dispatcher {
    pub(crate) core: Rc<Core>,
}

impl Service for Dispatcher {
    fn request(&self, connection: &Rc<Connection>, command: Command, bytes: usize) {
        let row = table::row(command.code);
        if row.as_ref().is_some_and(|row| row.share == Share::Data) {
            connection.hurry();
        }
        let trip = row.as_ref().and_then(|row| row.kind).map(|kind| {
            let mut trip = Trip::begin(kind as u8, command.opaque, self.core.id, connection.arrived());
            trip.pass(Stage::Receive, Stamp::now());
            trip
        });
        let responder = Responder::new(connection.id(), &command, bytes, trip);
        let request = Request { connection: connection.id(), peer: connection.peer(), command };
        dispatch(&self.core, row, Call { request, responder });
    }

    fn wants_arrivals(&self) -> bool {
        self.core.stages.is_on()
    }

    fn sent(&self, connection: &Connection, trips: &mut [Trip], at: Stamp) {
        self.core.stages.answered(connection.peer(), trips, at);
    }

    fn closed(&self, connection: &Rc<Connection>) {
        self.core.pops.waits.connection_closed(connection.id());
        crate::group::connection_closed(&self.core, connection.id());
    }
}

/// Sends a request to its owner: a plain call where that is this core, else it crosses once.
fn dispatch(core: &Rc<Core>, row: Option<Row>, mut call: Call) {
    let Some(row) = row else {
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
fn arrived(core: &Rc<Core>, mut call: Call) {
    if let Some(trip) = call.responder.trip() {
        trip.pass(Stage::Route, Stamp::now());
        trip.owner = core.id;
    }
    let row = table::row(call.request.command.code).expect("only known requests cross");
    (row.process)(core, call);
}

/// Starts a processor in a share of its core; its outcome is the answer.
pub(crate) fn start<Made>(core: &Rc<Core>, share: Share, call: Call, processor: impl FnOnce(Rc<Core>, Request) -> Made)
where
    Made: Future<Output = Outcome> + 'static,
{
    let Call { request, responder } = call;
    let outcome = processor(core.clone(), request);
    let core = core.clone();
    runtime::spawn_in(share, async move { responder.answer(&core, outcome.await) });
}

/// As [`start`] with data, with the times of the request for the processor to pass its stages.
pub(crate) fn start_watched<Made>(core: &Rc<Core>, call: Call, processor: impl FnOnce(Rc<Core>, Request, Watch) -> Made)
where
    Made: Future<Output = Outcome> + 'static,
{
    let Call { request, mut responder } = call;
    let watch = Watch::of(*responder.trip());
    let outcome = processor(core.clone(), request, watch.clone());
    let core = core.clone();
    runtime::spawn(async move {
        let outcome = outcome.await;
        *responder.trip() = watch.trip();
        responder.answer(&core, outcome);
    });
}

/// Handles what other cores sent.
pub(crate) fn parcel(core: &Rc<Core>, _from: CoreId, parcel: Parcel) {
    match parcel {
        Parcel::Connection(accepted) => {
            let core = core.clone();
            runtime::spawn_background(async move {
                if let Err(error) = core.server().serve(accepted) {
                    crate::log::note(format_args!("a connection ended before it began: {error}"));
                }
            });
        }
        Parcel::Call(call) => arrived(core, call),
        Parcel::Reply(reply) => core.deliver(reply),
        Parcel::Send { connection, outgoing } => core.send_to(connection, outgoing),
        Parcel::Run(step) => step(core),
    }
}
