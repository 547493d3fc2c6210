//! Open connections by address.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use remoting::code::{RequestCode, ResponseCode};
use remoting::command::Command;
use runtime::clock;
use transport::{CallError, Connection, Service, connect};

use crate::address::resolve;
use crate::error::{Attempt, ClientError};

/// Requests that a server makes of its clients: this client has nothing that they could ask for.
struct NothingToAsk;

impl Service for NothingToAsk {
    fn request(&self, connection: &Rc<Connection>, request: Command, bytes: usize) {
        if !request.is_oneway() {
            let remark = format!("{} is not answered by this client", RequestCode(request.code));
            let reply = Command::reply_to(&request, ResponseCode::REQUEST_CODE_NOT_SUPPORTED).with_remark(remark);
            connection.send(reply);
        }
        connection.finished(bytes);
    }
}

/// Open connections by the address as it was written.
#[derive(Default)]
pub(crate) struct Links {
    open: RefCell<HashMap<String, Rc<Connection>>>,
}

impl Links {
    /// The open connection to `address`, or a new one made within `time_max`.
    pub(crate) async fn reach(&self, address: &str, time_max: Duration) -> Result<Rc<Connection>, Attempt> {
        let known = self.open.borrow().get(address).cloned();
        if let Some(connection) = known.filter(|connection| !connection.is_closed()) {
            return Ok(connection);
        }
        let attempt = |error: String| Attempt { address: address.to_owned(), error };
        let connection = match clock::within(time_max, open(address.to_owned())).await {
            Some(Ok(connection)) => connection,
            Some(Err(error)) => return Err(attempt(error)),
            None => return Err(attempt(format!("no connection within {} ms", time_max.as_millis()))),
        };
        self.open.borrow_mut().insert(address.to_owned(), connection.clone());
        Ok(connection)
    }

    pub(crate) fn close_all(&self) {
        for (_, connection) in self.open.take() {
            connection.close();
        }
    }

    /// Forgets a connection that no longer answers, so that the next call opens a new one.
    pub(crate) fn drop_silent(&self, address: &str) {
        if let Some(connection) = self.open.borrow_mut().remove(address) {
            connection.close();
        }
    }
}

async fn open(address: String) -> Result<Rc<Connection>, String> {
    let socket_address = match address.parse() {
        Ok(socket_address) => socket_address,
        Err(_) => runtime::blocking(move || resolve(&address)).await.map_err(|error| error.to_string())?,
    };
    connect(socket_address, Rc::new(NothingToAsk), transport::Limits::default())
        .await
        .map_err(|error| error.to_string())
}

/// Calls over an open connection; a refusal is an answer here.
pub(crate) async fn call(
    links: &Links,
    connection: &Rc<Connection>,
    address: &str,
    command: Command,
    time_max: Duration,
) -> Result<Command, ClientError> {
    let request = RequestCode(command.code);
    match connection.call(command, time_max).await {
        Ok(answer) => Ok(answer),
        Err(CallError::Late { .. }) => {
            links.drop_silent(address);
            Err(ClientError::TimedOut { address: address.to_owned(), request, time_max })
        }
        Err(CallError::Closed { .. }) => {
            links.drop_silent(address);
            Err(ClientError::Closed { address: address.to_owned(), request })
        }
    }
}

/// The answer itself when it is a success, else what it refuses with.
pub(crate) fn accepted(answer: Command, address: &str, request: RequestCode) -> Result<Command, ClientError> {
    if answer.code == ResponseCode::SUCCESS.0 { Ok(answer) } else { Err(refused(&answer, address, request)) }
}

pub(crate) fn refused(answer: &Command, address: &str, request: RequestCode) -> ClientError {
    ClientError::Refused {
        address: address.to_owned(),
        request,
        code: ResponseCode(answer.code),
        remark: answer.remark.as_ref().map(|remark| remark.as_str().to_owned()).unwrap_or_default(),
    }
}
