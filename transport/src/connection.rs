//! One connection: its reader, its writer, its calls, its budget.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::CoreId;
use bytes::BytesMut;
use remoting::command::Command;
use remoting::frame;
use runtime::clock::{self, Stamp};
use runtime::net::Stream;
use runtime::sync::{Notify, OnceSender, once};
use runtime::{Share, Standing};

use crate::limits::Limits;
use crate::outbox::Outbox;
use crate::outgoing::Outgoing;
use crate::trip::Trip;

/// Bytes asked of a socket at first; grows while reads fill the buffer.
const RECEIVE_BYTES_MIN: usize = 4 << 10;
const RECEIVE_BYTES_MAX: usize = 64 << 10;
/// A connection whose reads ask for more keeps its buffer while it waits; of all others none has memory then.
const RECEIVE_BYTES_KEPT_FROM: usize = 16 << 10;
/// Frames handled before other tasks have their turn.
const FRAMES_AT_ONCE: usize = 64;
/// After the peer's last byte its unanswered requests may still be answered for so long.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(3);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Names a connection from any core. Never names another one later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    pub core: CoreId,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}.{}", self.core, self.slot, self.generation)
    }
}

/// What is done with requests that arrive.
pub trait Service {
    /// Takes a request of `bytes` bytes. Whoever is done with it calls [`Connection::finished`] with that number.
    fn request(&self, connection: &Rc<Connection>, request: Command, bytes: usize);
    /// Whether the kernel is asked when the requests of a new connection arrive.
    fn wants_arrivals(&self) -> bool {
        false
    }
    /// The socket has taken the answers of these trips, and by then all in front of them.
    fn sent(&self, _connection: &Connection, _trips: &mut [Trip], _at: Stamp) {}
    /// The peer is gone. Comes once for every connection.
    fn closed(&self, _connection: &Rc<Connection>) {}
}

/// Why a call got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("{peer} did not answer within {} ms", time_max.as_millis())]
    Late { peer: SocketAddr, time_max: Duration },
    #[error("the connection to {peer} was closed before the answer came")]
    Closed { peer: SocketAddr },
}

/// Requests in flight of all connections of a core.
#[derive(Default)]
pub(crate) struct CoreBudget {
    pub(crate) bytes: Cell<usize>,
    pub(crate) room: Notify,
}

pub struct Connection {
    id: ConnectionId,
    peer: SocketAddr,
    local: SocketAddr,
    stream: Stream,
    limits: Limits,
    budget: Rc<CoreBudget>,
    outbox: RefCell<Outbox>,
    sending_bytes: Cell<usize>,
    to_send: Notify,
    in_flight_bytes: Cell<usize>,
    in_flight_requests: Cell<usize>,
    /// The peer answered, read or was closed: a reader that paused looks again.
    progress: Notify,
    calls: RefCell<HashMap<i32, OnceSender<Command>>>,
    next_opaque: Cell<i32>,
    at_end: Cell<bool>,
    closed: Cell<bool>,
    /// The connection is over and its share of the core's budget given back.
    over: Cell<bool>,
    last_use: Cell<Stamp>,
    /// Who comes and goes lets messages go first.
    standing: Standing,
}

/// Opens a connection as a client; `service` gets the requests that the server makes.
pub async fn connect(address: SocketAddr, service: Rc<dyn Service>, limits: Limits) -> io::Result<Rc<Connection>> {
    let Some(stream) = clock::within(CONNECT_TIME_MAX, Stream::connect(address)).await else {
        let text = format!("{address} did not accept a connection within {} ms", CONNECT_TIME_MAX.as_millis());
        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
    };
    let id = ConnectionId { core: CoreId(0), slot: 0, generation: 0 };
    let connection = Connection::new(id, stream?, limits, Rc::default())?;
    connection.hurry();
    connection.clone().start(service, |_| ());
    Ok(connection)
}

impl Connection {
    pub(crate) fn new(
        id: ConnectionId,
        stream: Stream,
        limits: Limits,
        budget: Rc<CoreBudget>,
    ) -> io::Result<Rc<Connection>> {
        Ok(Rc::new(Connection {
            id,
            peer: stream.peer_address()?,
            local: stream.local_address()?,
            stream,
            limits,
            budget,
            outbox: RefCell::default(),
            sending_bytes: Cell::new(0),
            to_send: Notify::new(),
            in_flight_bytes: Cell::new(0),
            in_flight_requests: Cell::new(0),
            progress: Notify::new(),
            calls: RefCell::default(),
            next_opaque: Cell::new(0),
            at_end: Cell::new(false),
            closed: Cell::new(false),
            over: Cell::new(false),
            last_use: Cell::new(Stamp::now()),
            standing: Standing::new(Share::Background),
        }))
    }

    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// The address of the other side.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The address of this side, as the peer reached it.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Nothing comes any more: the peer ended, though it may still take answers, or it is closed.
    pub fn is_ending(&self) -> bool {
        self.at_end.get() || self.closed.get()
    }

    /// When the requests that are handed out just now had arrived.
    pub fn arrived(&self) -> Stamp {
        self.stream.received().arrived
    }

    /// Sends a frame. Never waits; to a closed connection it sends nothing.
    pub fn send(&self, outgoing: impl Into<Outgoing>) {
        if self.closed.get() {
            return;
        }
        let mut outbox = self.outbox.borrow_mut();
        outbox.push(outgoing.into());
        let waiting = outbox.bytes() + self.sending_bytes.get();
        drop(outbox);
        if waiting > self.limits.out_bytes_max {
            self.close();
            return;
        }
        self.to_send.notify();
    }

    /// Messages pass here from now on: what this connection reads and writes goes before all that is in the background.
    pub fn hurry(&self) {
        self.standing.set(Share::Data);
    }

    /// Gives back the budget of a request that was answered or needs no answer.
    pub fn finished(&self, bytes: usize) {
        if self.over.get() {
            return;
        }
        let (in_flight, requests) = (self.in_flight_bytes.get(), self.in_flight_requests.get());
        assert!(bytes <= in_flight && requests > 0, "{bytes} of {in_flight} bytes of {requests} requests finished");
        self.in_flight_bytes.set(in_flight - bytes);
        self.in_flight_requests.set(requests - 1);
        self.give_back(bytes);
        self.progress.notify();
    }

    fn give_back(&self, bytes: usize) {
        let before = self.budget.bytes.get();
        self.budget.bytes.set(before - bytes);
        if before >= self.limits.core_in_flight_bytes_max {
            self.budget.room.notify();
        }
    }

    /// Sends a request and waits for its answer.
    pub async fn call(&self, request: Command, time_max: Duration) -> Result<Command, CallError> {
        let (sender, receiver) = once();
        let opaque = self.next_opaque.get();
        self.next_opaque.set(opaque.wrapping_add(1));
        if self.closed.get() {
            return Err(CallError::Closed { peer: self.peer });
        }
        self.calls.borrow_mut().insert(opaque, sender);
        self.send(Command { opaque, ..request });
        let answer = clock::within(time_max, receiver.receive()).await;
        self.calls.borrow_mut().remove(&opaque);
        match answer {
            Some(Some(command)) => Ok(command),
            Some(None) => Err(CallError::Closed { peer: self.peer }),
            None => Err(CallError::Late { peer: self.peer, time_max }),
        }
    }

    /// Ends the connection at once.
    pub fn close(&self) {
        if !self.closed.replace(true) {
            self.stream.shut_down();
            self.calls.borrow_mut().clear();
            self.to_send.notify();
            self.progress.notify();
            // It may wait for the requests of others.
            self.budget.room.notify();
        }
    }

    /// Closes it if nothing came or went for the longest allowed time.
    pub(crate) fn close_if_idle(&self, now: Stamp) {
        if Duration::from_nanos(now.since(self.last_use.get())) >= self.limits.idle_time_max {
            self.close();
        }
    }

    /// Starts the tasks of this connection; `ended` comes when it is over.
    pub(crate) fn start(self: Rc<Self>, service: Rc<dyn Service>, ended: impl FnOnce(&Connection) + 'static) {
        runtime::spawn_with(&self.standing, self.clone().write_frames(service.clone()));
        runtime::spawn_with(&self.standing.clone(), async move {
            let at_end = self.read_frames(&service).await;
            self.at_end.set(true);
            self.standing.set(Share::Background);
            runtime::yield_now().await;
            service.closed(&self);
            if at_end {
                self.drain().await;
            }
            self.close();
            self.over.set(true);
            self.give_back(self.in_flight_bytes.get());
            ended(&self);
        });
    }

    /// Reads until the end. Returns whether the peer ended orderly and may still want answers.
    async fn read_frames(self: &Rc<Self>, service: &Rc<dyn Service>) -> bool {
        let mut buffer = BytesMut::new();
        let mut receive_bytes = RECEIVE_BYTES_MIN;
        while !self.closed.get() {
            self.admitted().await;
            let Ok(wanted) = frame::bytes_wanted(&buffer) else { return false };
            let ask = receive_bytes.max(wanted.saturating_sub(buffer.len()).min(RECEIVE_BYTES_MAX));
            match self.stream.receive(&mut buffer, ask).await {
                Ok(0) => return !self.closed.get(),
                Err(_) => return false,
                Ok(received) => {
                    self.last_use.set(self.stream.received().read);
                    receive_bytes = next_receive_bytes(receive_bytes, ask, received);
                }
            }
            if !self.take_frames(&mut buffer, service).await {
                return false;
            }
            if buffer.is_empty() && receive_bytes <= RECEIVE_BYTES_KEPT_FROM {
                buffer = BytesMut::new();
            }
        }
        false
    }

    /// Hands out the whole frames of the buffer. False: what came is not our protocol.
    async fn take_frames(self: &Rc<Self>, buffer: &mut BytesMut, service: &Rc<dyn Service>) -> bool {
        for taken in 1.. {
            let frame = match frame::split(buffer) {
                Ok(Some(frame)) => frame,
                Ok(None) => return true,
                Err(_) => return false,
            };
            let bytes = frame.len();
            let Ok(command) = Command::decode(frame) else { return false };
            if command.is_response() {
                if let Some(caller) = self.calls.borrow_mut().remove(&command.opaque) {
                    caller.send(command);
                }
            } else {
                self.started(bytes);
                service.request(self, command, bytes);
            }
            if self.closed.get() {
                return false;
            }
            self.admitted().await;
            if taken % FRAMES_AT_ONCE == 0 {
                runtime::yield_if_needed().await;
            }
        }
        true
    }

    fn started(&self, bytes: usize) {
        self.in_flight_bytes.set(self.in_flight_bytes.get() + bytes);
        self.in_flight_requests.set(self.in_flight_requests.get() + 1);
        self.budget.bytes.set(self.budget.bytes.get() + bytes);
    }

    /// Waits while a budget is used up: what is not read waits in the socket, at the peer's cost.
    async fn admitted(&self) {
        while !self.closed.get() {
            let out = self.outbox.borrow().bytes() + self.sending_bytes.get();
            if self.in_flight_bytes.get() >= self.limits.in_flight_bytes_max
                || self.in_flight_requests.get() >= self.limits.in_flight_requests_max
                || out >= self.limits.out_bytes_pause
            {
                self.progress.notified().await;
            } else if self.budget.bytes.get() >= self.limits.core_in_flight_bytes_max {
                self.budget.room.notified().await;
            } else {
                return;
            }
        }
    }

    async fn write_frames(self: Rc<Self>, service: Rc<dyn Service>) {
        let (mut parts, mut trips) = (VecDeque::new(), Vec::new());
        loop {
            while self.outbox.borrow().is_empty() {
                if self.closed.get() {
                    return;
                }
                self.to_send.notified().await;
            }
            self.sending_bytes.set(self.outbox.borrow_mut().take(&mut parts, &mut trips));
            let sent = self.stream.send(&mut parts).await;
            self.sending_bytes.set(0);
            let now = Stamp::now();
            self.last_use.set(now);
            if sent.is_err() {
                self.close();
                return;
            }
            if !trips.is_empty() {
                service.sent(&self, &mut trips, now);
                trips.clear();
            }
            self.progress.notify();
        }
    }

    async fn drain(&self) {
        let all_sent = async {
            while !self.closed.get()
                && (self.in_flight_requests.get() > 0
                    || self.sending_bytes.get() > 0
                    || !self.outbox.borrow().is_empty())
            {
                self.progress.notified().await;
            }
        };
        let _ = clock::within(DRAIN_TIME_MAX, all_sent).await;
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "connection {} of {}", self.id, self.peer)
    }
}

/// Asks for more while reads fill what was asked for, and for less when they hardly do.
fn next_receive_bytes(current: usize, asked: usize, received: usize) -> usize {
    if received == asked {
        (current * 2).min(RECEIVE_BYTES_MAX)
    } else if received < current / 4 {
        (current / 2).max(RECEIVE_BYTES_MIN)
    } else {
        current
    }
}
