//! One core of the broker: its state, and the ways to reach the others.
//!
//! All state here is touched on its core alone. What a processor needs of another core it gets through [`Core::on`],
//! which runs a step there and brings the result back; no processor names a core itself.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{CoreId, LogId, PhysicalOffset, QueueId, Random};
use remoting::command::Command;
use remoting::message_id::UniqueIdSource;
use runtime::clock;
use runtime::mesh::Mesh;
use runtime::sync::{Notify, OnceSender, once};
use slab::Slab;
use storage::{Log, RecoveryReport, StorageError};
use transport::{CallError, ConnectionId, Outgoing, Server};

use crate::config::Config;
use crate::delay::Delays;
use crate::filter::Filters;
use crate::group::{GroupConfigs, GroupViews, Groups, Pulled, ReplyClients, Sessions};
use crate::handles::Handles;
use crate::parcel::{Parcel, Reply};
use crate::placement::{Placement, TABLES_CORE};
use crate::pop::Pops;
use crate::processor::send::Additions;
use crate::registration::Registration;
use crate::retention::Retention;
use crate::stages::Stages;
use crate::stats::Stats;
use crate::topic::{Topic, TopicOwner, Topics};
use crate::transaction::Transactions;
use crate::wait::Waits;

static STOPPING: AtomicBool = AtomicBool::new(false);

/// Whether the process is on its way out: requests may then end without an answer.
pub(crate) fn is_stopping() -> bool {
    STOPPING.load(Ordering::Relaxed)
}

pub(crate) fn set_stopping() {
    STOPPING.store(true, Ordering::Relaxed);
}

fn additions(config: &Config) -> Additions {
    Additions::new(&config.identity.region, config.topics.trace_on, &config.identity.cluster)
}

/// Ids for messages that come without one; the cores of a process differ in their hash.
struct UniqueKeys {
    source: UniqueIdSource,
    counter: Cell<u16>,
}

impl UniqueKeys {
    fn new(core: CoreId, advertised: SocketAddr) -> UniqueKeys {
        let process = std::process::id();
        let process_hash = process << 8 ^ u32::from(core.0);
        let source = UniqueIdSource { ip: advertised.ip(), process_id: process as u16, process_hash };
        UniqueKeys { source, counter: Cell::new(0) }
    }

    fn next(&self) -> String {
        let counter = self.counter.get();
        self.counter.set(counter.wrapping_add(1));
        self.source.id(clock::now_ms(), counter)
    }
}

/// The state of one core.
pub(crate) struct Core {
    pub(crate) id: CoreId,
    pub(crate) placement: Placement,
    pub(crate) mesh: Rc<Mesh<Parcel>>,
    /// The configuration in force, a copy of this core's own; replaced as a whole when it is updated.
    config: RefCell<Rc<Config>>,
    pub(crate) server: OnceCell<Rc<Server>>,
    /// By log id; only the logs that this core opened are there.
    logs: OnceCell<Vec<Option<Rc<Log>>>>,
    /// Topics as the tables' core published them.
    pub(crate) topics: Topics,
    /// Groups' settings as the tables' core published them.
    pub(crate) group_configs: GroupConfigs,
    /// Subscriptions of online groups as their owners published them.
    pub(crate) group_views: GroupViews,
    /// Members, offsets and locks of the groups that this core owns.
    pub(crate) groups: Groups,
    /// What the clients of this core's connections registered as.
    pub(crate) sessions: Sessions,
    /// Where clients wait for replies; of those whose ids this core owns.
    pub(crate) reply_clients: ReplyClients,
    /// Half messages of this core's logs.
    pub(crate) transactions: Transactions,
    /// What was popped of this core's queues, and who waits for it.
    pub(crate) pops: Pops,
    pub(crate) waits: Waits,
    /// How far groups have pulled in this core's queues.
    pub(crate) pulled: Pulled,
    /// Messages of this core's queues that wait for their time.
    pub(crate) delays: Delays,
    /// Expressions that pulls of this core's queues filter by.
    pub(crate) filters: Filters,
    /// What sends touch of this core's queues.
    pub(crate) handles: Rc<Handles>,
    pub(crate) stats: Stats,
    /// Where the time of this core's requests goes.
    pub(crate) stages: Stages,
    /// How old segments of this core's logs go.
    pub(crate) retention: Retention,
    /// The tables themselves: on the tables' core only.
    pub(crate) tables: OnceCell<Tables>,
    asks: RefCell<Slab<Box<dyn Any>>>,
    /// Set once the logs of this core were opened, or could not be.
    opened: RefCell<Option<Result<Vec<RecoveryReport>, StorageError>>>,
    /// The life of this core went on: its logs are opened, or it is to end.
    stage: Notify,
    ended: Cell<bool>,
    /// No new requests are taken, and none waits.
    pub(crate) draining: Cell<bool>,
    /// The address that clients reach this broker at; it is part of every message id.
    advertised: SocketAddr,
    /// What is added to the properties of every message; follows the configuration.
    additions: RefCell<Rc<Additions>>,
    random: RefCell<Random>,
    unique_keys: UniqueKeys,
    /// Memory of the stored properties of the last plain send, which the next one takes.
    pub(crate) properties_memory: Cell<String>,
}

/// What only the tables' core holds.
pub(crate) struct Tables {
    pub(crate) topics: Rc<TopicOwner>,
    pub(crate) group_configs: Rc<crate::group::GroupConfigOwner>,
    pub(crate) config: Rc<crate::live_config::ConfigOwner>,
    pub(crate) registration: Rc<Registration>,
}

impl Core {
    pub(crate) fn new(
        mesh: Rc<Mesh<Parcel>>,
        placement: Placement,
        config: &Config,
        advertised: SocketAddr,
    ) -> Rc<Core> {
        let handles = Rc::<Handles>::default();
        let seed = clock::now_ms().0 << 16 | u64::from(mesh.here().0);
        Rc::new(Core {
            id: mesh.here(),
            placement,
            advertised,
            additions: RefCell::new(Rc::new(additions(config))),
            random: RefCell::new(Random::new(seed)),
            unique_keys: UniqueKeys::new(mesh.here(), advertised),
            mesh,
            config: RefCell::new(Rc::new(config.clone())),
            server: OnceCell::new(),
            logs: OnceCell::new(),
            topics: Topics::default(),
            group_configs: GroupConfigs::default(),
            group_views: GroupViews::default(),
            groups: Groups::default(),
            sessions: Sessions::default(),
            reply_clients: ReplyClients::default(),
            transactions: Transactions::default(),
            pops: Pops::default(),
            waits: Waits::default(),
            pulled: Pulled::default(),
            delays: Delays::default(),
            filters: Filters::default(),
            stats: Stats::new(handles.clone()),
            handles,
            stages: Stages::new(config.stages),
            retention: Retention::default(),
            tables: OnceCell::new(),
            asks: RefCell::default(),
            opened: RefCell::default(),
            stage: Notify::new(),
            ended: Cell::new(false),
            draining: Cell::new(false),
            properties_memory: Cell::default(),
        })
    }

    pub(crate) fn config(&self) -> Rc<Config> {
        self.config.borrow().clone()
    }

    pub(crate) fn set_config(&self, config: &Config) {
        *self.additions.borrow_mut() = Rc::new(additions(config));
        self.stages.configure(config.stages);
        *self.config.borrow_mut() = Rc::new(config.clone());
    }

    pub(crate) fn additions(&self) -> Rc<Additions> {
        self.additions.borrow().clone()
    }

    pub(crate) fn advertised(&self) -> SocketAddr {
        self.advertised
    }

    /// A number below `limit`, drawn anew each time.
    pub(crate) fn draw_below(&self, limit: u32) -> u32 {
        self.random.borrow_mut().below(u64::from(limit)) as u32
    }

    /// An id for a message whose sender gave it none.
    pub(crate) fn unique_key(&self) -> String {
        self.unique_keys.next()
    }

    /// Tells how opening the logs of this core went.
    pub(crate) fn opened(&self, outcome: Result<Vec<RecoveryReport>, StorageError>) {
        *self.opened.borrow_mut() = Some(outcome);
        self.stage.notify();
    }

    /// Waits until the logs of this core are opened.
    pub(crate) async fn until_opened(&self) -> Result<Vec<RecoveryReport>, StorageError> {
        loop {
            if let Some(outcome) = self.opened.borrow().clone() {
                return outcome;
            }
            self.stage.notified().await;
        }
    }

    /// Lets the main task of this core end.
    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.stage.notify();
    }

    pub(crate) async fn until_ended(&self) {
        while !self.ended.get() {
            self.stage.notified().await;
        }
    }

    pub(crate) fn set_logs(&self, logs: Vec<Option<Rc<Log>>>) {
        assert!(self.logs.set(logs).is_ok(), "core {} opens its logs once", self.id);
    }

    /// The tables.
    ///
    /// # Panics
    /// On any core but the tables' core.
    pub(crate) fn tables(&self) -> &Tables {
        assert!(self.id == TABLES_CORE, "core {} asks for the tables of core {TABLES_CORE}", self.id);
        self.tables.get().expect("the tables are loaded before the first request")
    }

    /// A log of this core.
    ///
    /// # Panics
    /// When another core opened it: whoever asks went to the wrong owner.
    pub(crate) fn log(&self, log: LogId) -> &Rc<Log> {
        let logs = self.logs.get().expect("logs are opened before the first request");
        logs[usize::from(log.0)].as_ref().unwrap_or_else(|| panic!("log {log} is not opened by core {}", self.id))
    }

    pub(crate) fn own_logs(&self) -> impl Iterator<Item = &Rc<Log>> {
        self.logs.get().into_iter().flatten().flatten()
    }

    /// The log of a queue that this core owns.
    pub(crate) fn log_of_queue(&self, topic: &str, queue: QueueId) -> &Rc<Log> {
        self.log(self.placement.log_of(base::stable_hash(topic), queue))
    }

    /// As [`Core::log_of_queue`], without hashing the topic's name again.
    pub(crate) fn log_of_topic_queue(&self, topic: &Topic, queue: QueueId) -> &Rc<Log> {
        self.log(self.placement.log_of(topic.hash, queue))
    }

    /// The core that opened the log of a physical offset, if there is such a log.
    pub(crate) fn core_of_offset(&self, offset: PhysicalOffset) -> Option<CoreId> {
        (offset.log().0 < self.placement.logs).then(|| self.placement.core_of_log(offset.log()))
    }

    /// Does a step on a core without waiting for it; at once where it is this one.
    pub(crate) fn tell(self: &Rc<Core>, to: CoreId, step: impl FnOnce(&Rc<Core>) + Send + 'static) {
        if to == self.id {
            step(self);
        } else {
            self.mesh.send(to, Parcel::Run(Box::new(step)));
        }
    }

    /// Runs a step on a core and brings its result back. Runs it at once where it is this one. The step has the share of
    /// whoever asks, there too.
    pub(crate) async fn on<T, Made>(
        self: &Rc<Core>,
        to: CoreId,
        work: impl FnOnce(Rc<Core>) -> Made + Send + 'static,
    ) -> T
    where
        T: Send + 'static,
        Made: Future<Output = T> + 'static,
    {
        if to == self.id {
            return work(self.clone()).await;
        }
        let (sender, receiver) = once::<T>();
        let key = self.asks.borrow_mut().insert(Box::new(sender));
        let (from, share) = (self.id, runtime::share());
        let step = move |core: &Rc<Core>| {
            let core = core.clone();
            runtime::spawn_in(share, async move {
                let result = work(core.clone()).await;
                core.mesh.send(from, Parcel::Run(Box::new(move |asking| asking.give(key, result))));
            });
        };
        self.mesh.send(to, Parcel::Run(Box::new(step)));
        receiver.receive().await.expect("a core that was asked answers or the process ends")
    }

    /// Runs a step on every core, this one included, and gathers the results in the order of the cores.
    pub(crate) async fn on_each<T, Made>(
        self: &Rc<Core>,
        work: impl Fn(Rc<Core>) -> Made + Clone + Send + 'static,
    ) -> Vec<T>
    where
        T: Send + 'static,
        Made: Future<Output = T> + 'static,
    {
        let ask = |to| {
            let (sender, receiver) = once();
            let (core, work) = (self.clone(), work.clone());
            runtime::spawn_in(runtime::share(), async move { sender.send(core.on(to, work).await) });
            receiver
        };
        let asked: Vec<_> = self.placement.all_cores().map(ask).collect();
        let mut results = Vec::with_capacity(asked.len());
        for receiver in asked {
            results.push(receiver.receive().await.expect("each core answers or the process ends"));
        }
        results
    }

    fn give<T: 'static>(&self, key: usize, result: T) {
        let sender = self.asks.borrow_mut().remove(key);
        sender.downcast::<OnceSender<T>>().expect("an answer has the type that was asked for").send(result);
    }

    /// Sends a request of ours to a client, wherever its connection lives. To one that is gone it sends nothing.
    pub(crate) fn send_to(&self, connection: ConnectionId, outgoing: impl Into<Outgoing>) {
        let outgoing = outgoing.into();
        if connection.core == self.id {
            if let Some(connection) = self.server().connection(connection) {
                connection.send(outgoing);
            }
        } else {
            self.mesh.send(connection.core, Parcel::Send { connection, outgoing });
        }
    }

    /// Calls a client wherever its connection lives.
    ///
    /// # Errors
    /// When it did not answer in time or left meanwhile; `None`: the connection was gone before.
    pub(crate) async fn call_client(
        self: &Rc<Core>,
        connection: ConnectionId,
        question: Command,
        time_max: Duration,
    ) -> Result<Command, Option<CallError>> {
        self.on(connection.core, move |core| async move {
            let connection = core.server().connection(connection).ok_or(None)?;
            connection.call(question, time_max).await.map_err(Some)
        })
        .await
    }

    /// Gives an answer to a connection of this core.
    pub(crate) fn deliver(&self, reply: Reply) {
        let Some(connection) = self.server().connection(reply.connection) else { return };
        match (reply.outgoing, reply.trip) {
            (Some(outgoing), trip) => connection.send(outgoing.with_trip(trip)),
            (None, Some(trip)) => self.stages.ended(connection.peer(), &trip),
            (None, None) => {}
        }
        connection.finished(reply.bytes);
    }

    pub(crate) fn server(&self) -> &Rc<Server> {
        self.server.get().expect("the server is made before the first connection")
    }
}
