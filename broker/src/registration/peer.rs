//! One nameserver as the broker's peer: its connection, what it is still to be told, and the task that tells it.
//!
//! Registrations at one nameserver follow each other, none is sent before the one before it was answered. So two
//! changes never cross, and the newest state always comes last.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use remoting::body::kv::KvTable;
use remoting::body::route::TopicRouteData;
use remoting::body::topic::DataVersion;
use remoting::code::{RequestCode, ResponseCode};
use remoting::command::Command;
use remoting::header::namesrv::{GetRouteInfo, QueryDataVersionResponse};
use remoting::json;
use remoting::text::Text;
use runtime::clock;
use runtime::sync::Notify;
use transport::{Connection, Limits, Service, connect};

use super::Registration;
use super::body::register_body;
use super::resolve::Resolver;
use crate::core::Core;
use crate::topic::{Change, Topic};

/// After the first registration the second comes so soon, as a nameserver may have been starting too.
const SECOND_AFTER: Duration = Duration::from_secs(10);
/// A nameserver that failed is tried again after the first of these, then after twice as long, up to the second.
const RETRY_WAIT_MIN: Duration = Duration::from_secs(1);
const RETRY_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long the farewell to a nameserver may take.
const UNREGISTER_TIME_MAX: Duration = Duration::from_secs(1);
/// How long the answer to a question about a route may take.
const ROUTE_TIME_MAX: Duration = Duration::from_secs(1);
/// Changed topics that are told one by one. Beyond it all topics are told.
const NAMES_MAX: usize = 1000;
/// Up to so many topics a body is written on the core, in less than a tenth of a millisecond.
const TOPICS_INLINE_MAX: usize = 64;

/// What a nameserver is to be told.
#[derive(Debug, Default)]
struct Wanted {
    everything: bool,
    names: BTreeSet<Text>,
}

/// A nameserver.
pub(super) struct Peer {
    pub(super) host: String,
    pub(super) port: u16,
    wanted: RefCell<Wanted>,
    wake: Notify,
    connection: RefCell<Option<Rc<Connection>>>,
    /// Whether the present connection has taken a registration of everything.
    registered: Cell<bool>,
    /// All changes up to this number are known to it.
    reached: Cell<u64>,
    /// Attempts that have ended.
    pub(super) attempts: Cell<u64>,
    /// Why the last attempt failed.
    pub(super) error: RefCell<Option<String>>,
    pub(super) ended: Cell<bool>,
}

impl Peer {
    pub(super) fn new(host: String, port: u16) -> Rc<Peer> {
        Rc::new(Peer {
            host,
            port,
            wanted: RefCell::new(Wanted { everything: true, names: BTreeSet::new() }),
            wake: Notify::new(),
            connection: RefCell::default(),
            registered: Cell::new(false),
            reached: Cell::new(0),
            attempts: Cell::new(0),
            error: RefCell::default(),
            ended: Cell::new(false),
        })
    }

    /// Whether the nameserver is there and takes registrations.
    pub(super) fn is_connected(&self) -> bool {
        self.registered.get()
    }

    /// Asks for the route of a topic; `None` when the nameserver is not there or does not know it.
    pub(super) async fn route_of(&self, topic: &Text) -> Option<TopicRouteData> {
        let connection = self.connection.borrow().clone().filter(|connection| !connection.is_closed())?;
        let fields =
            GetRouteInfo { topic: topic.clone(), accept_standard_json_only: true, zone_name: None, zone_mode: false };
        let question = Command::request(RequestCode::GET_ROUTEINFO_BY_TOPIC, fields.to_fields());
        let answer = connection.call(question, ROUTE_TIME_MAX).await.ok()?;
        (answer.code == ResponseCode::SUCCESS.0).then(|| json::decode(&answer.body).ok())?
    }

    pub(super) fn has_reached(&self, number: u64) -> bool {
        self.reached.get() >= number
    }

    pub(super) fn want(&self, names: &BTreeSet<Text>) {
        let mut wanted = self.wanted.borrow_mut();
        wanted.names.extend(names.iter().cloned());
        if wanted.names.len() > NAMES_MAX {
            wanted.everything = true;
        }
        drop(wanted);
        self.wake.notify();
    }

    pub(super) fn want_everything(&self) {
        self.wanted.borrow_mut().everything = true;
        self.wake.notify();
    }

    pub(super) fn wake(&self) {
        self.wake.notify();
    }

    fn wants_something(&self) -> bool {
        let wanted = self.wanted.borrow();
        wanted.everything || !wanted.names.is_empty()
    }

    /// Registers whenever something changed and once a period, until the broker stops.
    pub(super) async fn run(self: Rc<Peer>, core: Rc<Core>, registration: Rc<Registration>) {
        let mut resolver = Resolver::default();
        let mut retry_wait = RETRY_WAIT_MIN;
        let mut everything_at = clock::instant() + SECOND_AFTER;
        while !registration.is_stopping() {
            if self.wants_something() {
                match self.register(&core, &registration, &mut resolver).await {
                    Ok(ordered) => {
                        self.succeeded(&core, ordered);
                        retry_wait = RETRY_WAIT_MIN;
                    }
                    Err(error) => self.failed(&error),
                }
                self.attempts.set(self.attempts.get() + 1);
                registration.progressed();
            }
            if !self.is_connected() {
                let _ = clock::within(retry_wait, registration.stopped()).await;
                retry_wait = (retry_wait * 2).min(RETRY_WAIT_MAX);
                continue;
            }
            let span = everything_at.saturating_duration_since(clock::instant());
            if clock::within(span, self.wanted_or_stopped(&registration)).await.is_none() {
                everything_at = clock::instant() + registration.period(&core);
                if core.config().registration.unchanged_too || self.is_behind(&core, &registration).await {
                    self.wanted.borrow_mut().everything = true;
                }
            }
        }
        self.unregister(&registration).await;
        self.ended.set(true);
        registration.progressed();
    }

    async fn wanted_or_stopped(&self, registration: &Registration) {
        while !self.wants_something() && !registration.is_stopping() {
            self.wake.notified().await;
        }
    }

    /// Asks whether the nameserver knows the present version; that alone keeps the broker alive there.
    async fn is_behind(&self, core: &Rc<Core>, registration: &Registration) -> bool {
        let Some(connection) = self.connection.borrow().clone() else { return true };
        let fields = registration.facts().version_header().to_fields();
        let body = json::encode(&core.tables().topics.version());
        let request = Command::request(RequestCode::QUERY_DATA_VERSION, fields).with_body(body);
        match connection.call(request, registration.answer_time_max()).await {
            Ok(answer) => QueryDataVersionResponse::decode(&answer.fields).map_or(true, |answer| answer.changed),
            Err(_) => true,
        }
    }

    /// One registration of what is wanted. Gives the topics that have an order configuration.
    async fn register(
        self: &Rc<Peer>,
        core: &Rc<Core>,
        registration: &Registration,
        resolver: &mut Resolver,
    ) -> Result<Vec<Text>, String> {
        let connection = self.connected(resolver).await?;
        let (number, topics, version) = self.take_wanted(core, registration);
        let facts = registration.facts();
        let permission = facts.permission;
        let body = if topics.len() <= TOPICS_INLINE_MAX {
            register_body(&topics, version, permission)
        } else {
            runtime::blocking(move || register_body(&topics, version, permission)).await
        };
        let request =
            Command::request(RequestCode::REGISTER_BROKER, facts.register_header().to_fields()).with_body(body);
        let answer =
            connection.call(request, registration.answer_time_max()).await.map_err(|error| error.to_string())?;
        if answer.code != i32::from(ResponseCode::SUCCESS) {
            let remark = answer.remark.unwrap_or_default();
            return Err(format!("it refused with {}: {remark}", ResponseCode(answer.code)));
        }
        self.reached.set(number);
        self.registered.set(!connection.is_closed());
        if answer.body.is_empty() {
            return Ok(Vec::new());
        }
        let ordered: KvTable = json::decode(&answer.body).map_err(|error| format!("its answer is wrong: {error}"))?;
        Ok(ordered.table.into_keys().collect())
    }

    /// What is to be told now, as it is now; all in one step, so that no change falls between.
    fn take_wanted(&self, core: &Rc<Core>, registration: &Registration) -> (u64, Vec<Arc<Topic>>, DataVersion) {
        let wanted = self.wanted.take();
        let everything = wanted.everything || !self.registered.get();
        let names = (!everything).then_some(&wanted.names);
        let (topics, version) = core.tables().topics.snapshot(names);
        (registration.number(), topics, version)
    }

    /// The connection in use if its address is still one of the host's, or a new one.
    async fn connected(self: &Rc<Peer>, resolver: &mut Resolver) -> Result<Rc<Connection>, String> {
        let current = self.connection.borrow().clone().filter(|connection| !connection.is_closed());
        let addresses = match (resolver.addresses(&self.host, self.port).await, &current) {
            (Ok(addresses), _) => addresses,
            // A name that cannot be resolved just now is no reason to leave a server that answers.
            (Err(_), Some(current)) => vec![current.peer()],
            (Err(error), None) => return Err(error.to_string()),
        };
        if let Some(current) = current.filter(|current| addresses.contains(&current.peer()) && !current.is_closed()) {
            return Ok(current);
        }
        if let Some(old) = self.connection.take() {
            old.close();
        }
        self.registered.set(false);
        let mut error = format!("{} has no address", self.host);
        for address in addresses {
            let service = Rc::new(FromNameserver { peer: Rc::downgrade(self) });
            match connect(address, service, Limits::default()).await {
                Ok(connection) => {
                    *self.connection.borrow_mut() = Some(connection.clone());
                    return Ok(connection);
                }
                Err(failed) => error = failed.to_string(),
            }
        }
        Err(error)
    }

    fn succeeded(&self, core: &Rc<Core>, ordered: Vec<Text>) {
        if self.error.take().is_some() {
            crate::log::note(format_args!("registered at nameserver {}:{}", self.host, self.port));
        }
        let unmarked = |topic: &Text| core.topics.get(topic).is_some_and(|topic| !topic.config.order);
        let ordered: Vec<Text> = ordered.into_iter().filter(unmarked).collect();
        if ordered.is_empty() {
            return;
        }
        let core = core.clone();
        runtime::spawn(async move {
            let owner = core.tables().topics.clone();
            if let Err(refusal) = owner.change(&core, Change::MarkOrdered(ordered)).await {
                crate::log::warn(format_args!("topics are not marked as ordered: {}", refusal.remark));
            }
        });
    }

    fn failed(&self, error: &str) {
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
        self.registered.set(false);
        self.wanted.borrow_mut().everything = true;
        let before = self.error.replace(Some(error.to_owned()));
        if before.as_deref() != Some(error) {
            crate::log::warn(format_args!("no registration at nameserver {}:{}: {error}", self.host, self.port));
        }
    }

    async fn unregister(&self, registration: &Registration) {
        let Some(connection) = self.connection.take() else { return };
        let fields = registration.facts().unregister_header().to_fields();
        let request = Command::request(RequestCode::UNREGISTER_BROKER, fields);
        if let Err(error) = connection.call(request, UNREGISTER_TIME_MAX).await {
            crate::log::note(format_args!("nameserver {}:{} was not told of the end: {error}", self.host, self.port));
        }
        connection.close();
    }
}

/// Nameservers ask nothing that this broker knows; an end of the connection means to register anew.
struct FromNameserver {
    peer: Weak<Peer>,
}

impl Service for FromNameserver {
    fn request(&self, connection: &Rc<Connection>, request: Command, bytes: usize) {
        if !request.is_oneway() {
            connection.send(Command::reply_to(&request, ResponseCode::REQUEST_CODE_NOT_SUPPORTED));
        }
        connection.finished(bytes);
    }

    fn closed(&self, connection: &Rc<Connection>) {
        let Some(peer) = self.peer.upgrade() else { return };
        let is_current = peer.connection.borrow().as_ref().is_some_and(|current| Rc::ptr_eq(current, connection));
        if is_current {
            peer.registered.set(false);
            peer.want_everything();
        }
    }
}
