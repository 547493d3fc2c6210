//! The connections that a core accepted or was handed.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use base::CoreId;
use runtime::clock::{self, Stamp};
use runtime::net::{Accepted, Listener, Stream};
use slab::Slab;

use crate::connection::{Connection, ConnectionId, CoreBudget, Service};
use crate::limits::Limits;

/// How often idle connections are looked for.
const IDLE_SWEEP: Duration = Duration::from_secs(5);
/// Accepting failed, most likely for want of descriptors: some may be free after this.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// All server-side connections of one core.
pub struct Server {
    core: CoreId,
    service: Rc<dyn Service>,
    limits: Limits,
    budget: Rc<CoreBudget>,
    connections: RefCell<Slab<Rc<Connection>>>,
    next_generation: Cell<u32>,
}

impl Server {
    pub fn new(core: CoreId, service: Rc<dyn Service>, limits: Limits) -> Rc<Server> {
        let server = Rc::new(Server {
            core,
            service,
            limits,
            budget: Rc::default(),
            connections: RefCell::new(Slab::new()),
            next_generation: Cell::new(0),
        });
        let sweeping = Rc::downgrade(&server);
        runtime::spawn_background(async move {
            loop {
                clock::sleep(IDLE_SWEEP).await;
                let Some(server) = sweeping.upgrade() else { return };
                let now = Stamp::now();
                for connection in server.all() {
                    connection.close_if_idle(now);
                }
            }
        });
        server
    }

    /// Accepts for ever and gives each connection to `take`, which may hand it to another core.
    pub async fn accept(listener: Listener, mut take: impl FnMut(Accepted)) {
        loop {
            match listener.accept().await {
                Ok(accepted) => {
                    take(accepted);
                    runtime::yield_now().await;
                }
                Err(_) => clock::sleep(ACCEPT_RETRY).await,
            }
        }
    }

    /// Serves a connection on this core.
    pub fn serve(self: &Rc<Self>, accepted: Accepted) -> io::Result<()> {
        let mut connections = self.connections.borrow_mut();
        if connections.len() >= self.limits.connections_max {
            return Ok(());
        }
        let generation = self.next_generation.get();
        self.next_generation.set(generation.wrapping_add(1));
        let entry = connections.vacant_entry();
        let slot = entry.key();
        let id = ConnectionId { core: self.core, slot: slot as u32, generation };
        let stream = Stream::from_accepted(accepted)?;
        if self.service.wants_arrivals() {
            stream.stamp_arrivals();
        }
        let connection = Connection::new(id, stream, self.limits.clone(), self.budget.clone())?;
        entry.insert(connection.clone());
        drop(connections);
        let server = self.clone();
        connection.start(self.service.clone(), move |_| {
            server.connections.borrow_mut().remove(slot);
        });
        Ok(())
    }

    /// The connection of a name, unless it is over.
    pub fn connection(&self, id: ConnectionId) -> Option<Rc<Connection>> {
        debug_assert_eq!(id.core, self.core, "connection {id} is another core's");
        let connections = self.connections.borrow();
        connections.get(id.slot as usize).filter(|connection| connection.id() == id).cloned()
    }

    pub fn all(&self) -> Vec<Rc<Connection>> {
        self.connections.borrow().iter().map(|(_, connection)| connection.clone()).collect()
    }

    pub fn count(&self) -> usize {
        self.connections.borrow().len()
    }

    /// Bytes of requests that are not answered yet.
    pub fn in_flight_bytes(&self) -> usize {
        self.budget.bytes.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use remoting::command::Command;
    use remoting::fields::Fields;
    use std::collections::VecDeque;

    use crate::connection::{CallError, connect};
    use runtime::net::Part;

    const ECHO: i32 = 1;
    const SILENCE: i32 = 2;
    const CALL_BACK: i32 = 3;

    /// Answers `ECHO` with its body, keeps `SILENCE` unanswered, and calls back for `CALL_BACK`.
    struct Echo;

    impl Service for Echo {
        fn request(&self, connection: &Rc<Connection>, request: Command, bytes: usize) {
            match request.code {
                ECHO => {
                    connection.send(Command::reply_to(&request, 0).with_body(request.body.clone()));
                    connection.finished(bytes);
                }
                SILENCE => {}
                _ => {
                    let connection = connection.clone();
                    runtime::spawn(async move {
                        let question = Command::request(ECHO, Fields::default()).with_body(request.body.clone());
                        let answer = connection.call(question, Duration::from_secs(5)).await.expect("answered");
                        connection.send(Command::reply_to(&request, 0).with_body(answer.body));
                        connection.finished(bytes);
                    });
                }
            }
        }
    }

    fn serve(limits: Limits) -> (std::net::SocketAddr, Rc<Server>) {
        let listener = Listener::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = listener.address();
        let server = Server::new(CoreId(0), Rc::new(Echo), limits);
        let accepting = server.clone();
        runtime::spawn(Server::accept(listener, move |accepted| accepting.serve(accepted).expect("served")));
        (address, server)
    }

    fn request(code: i32, body: &'static str) -> Command {
        Command::request(code, Fields::default()).with_body(body.as_bytes())
    }

    #[test]
    fn calls_go_both_ways_and_say_why_they_fail() {
        runtime::run_here(async {
            let (address, server) = serve(Limits::default());
            let connection = connect(address, Rc::new(Echo), Limits::default()).await.expect("connected");
            let time_max = Duration::from_millis(5000);
            for code in [ECHO, CALL_BACK] {
                let answer = connection.call(request(code, "hello"), time_max).await.expect("answered");
                assert_eq!(&answer.body[..], b"hello");
            }
            let short = Duration::from_millis(20);
            let late = connection.call(request(SILENCE, ""), short).await.expect_err("no answer");
            assert_eq!(late, CallError::Late { peer: address, time_max: short });
            assert!(server.in_flight_bytes() > 0, "a request without an answer is in flight");
            for peer in server.all() {
                peer.close();
            }
            let closed = connection.call(request(ECHO, ""), time_max).await.expect_err("closed");
            assert_eq!(closed, CallError::Closed { peer: address });
            while server.count() > 0 {
                runtime::yield_now().await;
            }
            assert_eq!(server.in_flight_bytes(), 0, "a connection that is over gives its budget back");
        })
        .expect("an executor");
    }

    #[test]
    fn what_is_no_frame_ends_its_connection_only() {
        runtime::run_here(async {
            let (address, _server) = serve(Limits::default());
            let good = connect(address, Rc::new(Echo), Limits::default()).await.expect("connected");
            for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 16], &[0, 0, 0, 8, 0, 0, 0, 9, 1, 2, 3, 4]] {
                let bad = Stream::connect(address).await.expect("connected");
                let mut parts: VecDeque<Part> = [Part::Bytes(bytes::Bytes::from_static(bytes))].into();
                bad.send(&mut parts).await.expect("sent");
                let ended = bad.receive(&mut BytesMut::new(), 1).await;
                assert!(matches!(ended, Ok(0) | Err(_)), "{bytes:?} was answered");
                let answer = good.call(request(ECHO, "still"), Duration::from_secs(5)).await.expect("answered");
                assert_eq!(&answer.body[..], b"still");
            }
        })
        .expect("an executor");
    }

    #[test]
    fn a_connection_over_its_budget_is_not_read_until_it_is_answered() {
        runtime::run_here(async {
            let (address, server) = serve(Limits { in_flight_requests_max: 3, ..Limits::default() });
            let connection = connect(address, Rc::new(Echo), Limits::default()).await.expect("connected");
            for _ in 0..3 {
                connection.send(request(SILENCE, "x"));
            }
            let blocked = connection.call(request(ECHO, "x"), Duration::from_millis(50)).await;
            assert!(matches!(blocked, Err(CallError::Late { .. })), "{blocked:?}");
            let served = server.all().pop().expect("one connection");
            served.finished(0);
            let answer = connection.call(request(ECHO, "again"), Duration::from_secs(5)).await.expect("answered");
            assert_eq!(&answer.body[..], b"again");
        })
        .expect("an executor");
    }
}
