//! The running nameserver: its listener, its state, and the tasks that look after both.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use base::CoreId;
use futures_lite::FutureExt;
use remoting::{Command, ResponseCode, Text};
use runtime::clock;
use runtime::net::Listener;
use runtime::sync::Notify;
use thiserror::Error;
use transport::{Connection, ConnectionId, Limits, Server, Service};

use crate::config::Config;
use crate::dispatch::{Reply, Request, Save, dispatch};
use crate::kv::KvStore;
use crate::notify::{Notifier, notice};
use crate::refusal::Refusal;
use crate::route::BrokerAddress;
use crate::route::liveness::Liveness;
use crate::route::table::Table;
use crate::settings_file::SettingsFile;

/// The scan for silent brokers runs no more often than this, whatever the settings say.
const SCAN_TIME_MIN: Duration = Duration::from_millis(100);

/// Why a nameserver does not start.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(
        "the key-value table {} cannot be read: {source}; restore the file or remove it to start with an empty table",
        path.display()
    )]
    KvTable { path: PathBuf, source: io::Error },
}

/// All that requests read and change.
pub(crate) struct State {
    pub(crate) config: RefCell<Config>,
    pub(crate) table: RefCell<Table>,
    pub(crate) liveness: RefCell<Liveness<ConnectionId>>,
    pub(crate) kv: KvStore,
    pub(crate) settings_file: SettingsFile,
    pub(crate) started: Instant,
    notifier: Rc<Notifier>,
}

impl State {
    /// Takes a broker that is gone out of the routes.
    pub(crate) fn remove(&self, broker: &BrokerAddress, broker_name: &Text) {
        let left = self.table.borrow_mut().unregister(broker, broker_name);
        if let Some(left) = left {
            self.minimum_changed(&left.broker_name, Some(left.offline_address), None);
        }
    }

    /// A broker registered with a lower id than its name had.
    pub(crate) fn new_minimum(&self, broker_name: &Text, broker: &BrokerAddress) {
        let ha_address = self.table.borrow().ha_address(broker);
        self.minimum_changed(broker_name, None, ha_address);
    }

    fn minimum_changed(&self, broker_name: &Text, offline: Option<Text>, ha_address: Option<Text>) {
        if !self.config.borrow().notify_min_broker_id_changed {
            return;
        }
        let notice = self.table.borrow().broker(broker_name).and_then(|data| notice(data, offline, ha_address));
        if let Some(notice) = notice {
            self.notifier.send(notice);
        }
    }

    /// As [`State::remove`], for one that is no more than an address.
    fn remove_address(&self, broker: &BrokerAddress) {
        let broker_name = self.table.borrow().broker_name(broker);
        if let Some(broker_name) = broker_name {
            self.remove(broker, &broker_name);
        }
    }

    async fn saved(&self, save: Save) -> Result<(), Refusal> {
        let (what, saved) = match save {
            Save::Kv => ("the key-value table", self.kv.saved().await),
            Save::Config => ("the settings", self.settings_file.saved().await),
        };
        saved.map_err(|error| {
            Refusal::failed(format!(
                "the change acts now but will be lost at the next start, because {what} could not be written: {error}; \
                 free space or correct the permissions, then repeat the request"
            ))
        })
    }
}

/// Answers requests of the connections of this nameserver.
struct Requests {
    state: Rc<State>,
}

impl Service for Requests {
    fn request(&self, connection: &Rc<Connection>, request: Command, bytes: usize) {
        let result = dispatch(&self.state, &Request { command: &request, connection: connection.id() });
        match result {
            Ok(reply) if reply.save.is_some() => {
                let (state, connection) = (self.state.clone(), connection.clone());
                runtime::spawn(async move {
                    let saved = match reply.save {
                        Some(save) => state.saved(save).await,
                        None => Ok(()),
                    };
                    answer(&connection, &request, saved.map(|()| reply), bytes);
                });
            }
            result => answer(connection, &request, result, bytes),
        }
    }

    fn closed(&self, connection: &Rc<Connection>) {
        let gone = self.state.liveness.borrow_mut().closed(connection.id());
        for broker in gone {
            self.state.remove_address(&broker);
        }
    }
}

fn answer(connection: &Connection, request: &Command, result: Result<Reply, Refusal>, bytes: usize) {
    if !request.is_oneway() {
        connection.send(match result {
            Ok(Reply { fields, body, .. }) => {
                Command::reply_to(request, ResponseCode::SUCCESS).with_fields(fields).with_body(body)
            }
            Err(Refusal { code, remark }) => Command::reply_to(request, code).with_remark(remark),
        });
    }
    connection.finished(bytes);
}

/// A nameserver on this core.
pub struct Nameserver {
    state: Rc<State>,
    server: Rc<Server>,
    address: SocketAddr,
    stop: Notify,
    is_stopping: Cell<bool>,
    is_listening: Cell<bool>,
    /// The listener was closed.
    stopped: Notify,
}

impl Nameserver {
    /// Serves on `listener` until [`Nameserver::stop`]. Must be called on a core.
    ///
    /// # Errors
    /// When the key-value table is there but cannot be read.
    pub async fn start(mut config: Config, listener: Listener) -> Result<Rc<Nameserver>, StartError> {
        // Tools are shown where it really listens.
        config.listen_port = listener.address().port();
        let path = config.kv_file();
        let kv = KvStore::open(path.clone()).await.map_err(|source| StartError::KvTable { path, source })?;
        let idle_time_max = Duration::from_secs(config.server_channel_max_idle_time_seconds.into());
        let state = Rc::new(State {
            settings_file: SettingsFile::new(config.config_store_path.clone()),
            config: RefCell::new(config),
            table: RefCell::default(),
            liveness: RefCell::new(Liveness::new()),
            kv,
            started: clock::instant(),
            notifier: Rc::default(),
        });
        let service = Rc::new(Requests { state: state.clone() });
        let nameserver = Rc::new(Nameserver {
            state,
            server: Server::new(CoreId(0), service, Limits { idle_time_max, ..Limits::default() }),
            address: listener.address(),
            stop: Notify::new(),
            is_stopping: Cell::new(false),
            is_listening: Cell::new(true),
            stopped: Notify::new(),
        });
        runtime::spawn(nameserver.clone().accept(listener));
        runtime::spawn_background(scan(Rc::downgrade(&nameserver)));
        Ok(nameserver)
    }

    /// Where it listens.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Clients and brokers connected now.
    pub fn connection_count(&self) -> usize {
        self.server.count()
    }

    /// Closes the listener and all connections, and waits until the last one is over.
    pub async fn stop(&self) {
        self.is_stopping.set(true);
        self.stop.notify();
        while self.is_listening.get() {
            self.stopped.notified().await;
        }
        self.state.notifier.close();
        for connection in self.server.all() {
            connection.close();
        }
        while self.server.count() > 0 {
            runtime::yield_now().await;
        }
    }

    async fn accept(self: Rc<Self>, listener: Listener) {
        let server = self.server.clone();
        // A connection that ended before it was served needs no service.
        let serve = move |accepted| drop(server.serve(accepted));
        let stopped = async {
            while !self.is_stopping.get() {
                self.stop.notified().await;
            }
        };
        Server::accept(listener, serve).or(stopped).await;
        self.is_listening.set(false);
        self.stopped.notify();
    }

    /// Takes out brokers that were silent for too long, and closes their connections.
    fn drop_silent(&self, now: Instant) {
        let late = self.state.liveness.borrow_mut().expired(now);
        for (broker, connection) in late {
            self.state.remove_address(&broker);
            if let Some(connection) = self.server.connection(connection) {
                connection.close();
            }
        }
    }
}

async fn scan(nameserver: Weak<Nameserver>) {
    loop {
        let Some(pause) = nameserver.upgrade().filter(|nameserver| !nameserver.is_stopping.get()).map(|nameserver| {
            let interval_ms = nameserver.state.config.borrow().scan_not_active_broker_interval_ms;
            Duration::from_millis(interval_ms.into()).max(SCAN_TIME_MIN)
        }) else {
            return;
        };
        clock::sleep(pause).await;
        if let Some(nameserver) = nameserver.upgrade() {
            nameserver.drop_silent(clock::instant());
        }
    }
}
