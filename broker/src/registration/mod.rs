//! The broker's registration at its nameservers.
//!
//! Lives on the tables' core. Each nameserver has a task of its own ([`peer`]), so one that is dead or slow delays no
//! other. A change of topics has a number; whoever made it can wait until the nameservers that are there know of it.

mod body;
mod peer;
mod resolve;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use remoting::body::route::TopicRouteData;
use remoting::text::Text;
use runtime::clock;
use runtime::sync::Notify;

use crate::config::Config;
use crate::core::Core;
pub(crate) use body::Facts;
use peer::Peer;

/// How long the start waits for the first nameserver that accepts. Beyond it the broker starts with a warning.
const START_TIME_MAX: Duration = Duration::from_secs(3);
/// How long the end waits for the farewells.
const STOP_TIME_MAX: Duration = Duration::from_secs(3);

/// The number of a change that nameservers are to know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// All nameservers.
pub(crate) struct Registration {
    facts: RefCell<Facts>,
    answer_time_max: Duration,
    peers: Vec<Rc<Peer>>,
    /// Of the newest change.
    number: Cell<u64>,
    /// Some nameserver got further or failed.
    progress: Notify,
    stopping: Cell<bool>,
    stop: Notify,
}

impl Registration {
    /// `facts` are how the broker is known, with the port that it really listens on.
    pub(crate) fn new(config: &Config, facts: Facts) -> Rc<Registration> {
        let peers = config.registration.nameservers.iter().map(|server| Peer::new(server.host.clone(), server.port));
        Rc::new(Registration {
            facts: RefCell::new(facts),
            answer_time_max: Duration::from_millis(config.registration.timeout.0),
            peers: peers.collect(),
            number: Cell::new(0),
            progress: Notify::new(),
            stopping: Cell::new(false),
            stop: Notify::new(),
        })
    }

    /// Starts to register everywhere, and waits for the first nameserver that accepts. Returns false, after warnings
    /// that name each nameserver and its fault, when none does in time; it goes on trying all the same.
    pub(crate) async fn start(self: &Rc<Self>, core: &Rc<Core>) -> bool {
        for peer in &self.peers {
            runtime::spawn_background(peer.clone().run(core.clone(), self.clone()));
        }
        let settled = async {
            while !self.peers.iter().any(|peer| peer.is_connected())
                && self.peers.iter().any(|peer| peer.attempts.get() == 0)
            {
                self.progress.notified().await;
            }
        };
        let _ = clock::within(START_TIME_MAX, settled).await;
        let accepted = self.peers.iter().any(|peer| peer.is_connected());
        if !accepted {
            self.warn_of_start();
        }
        accepted
    }

    fn warn_of_start(&self) {
        if self.peers.is_empty() {
            crate::log::warn(format_args!(
                "namesrvAddr is empty: no nameserver knows this broker, and no client finds it"
            ));
            return;
        }
        for peer in &self.peers {
            let error = peer.error.borrow();
            let error = error.as_deref().unwrap_or("no answer yet");
            crate::log::warn(format_args!(
                "nameserver {}:{} has not accepted this broker: {error}; trying on",
                peer.host, peer.port
            ));
        }
    }

    /// Takes the broker off all nameservers and ends the tasks.
    pub(crate) async fn stop(&self) {
        self.stopping.set(true);
        self.stop.notify();
        for peer in &self.peers {
            peer.wake();
        }
        let ended = async {
            while self.peers.iter().any(|peer| !peer.ended.get()) {
                self.progress.notified().await;
            }
        };
        let _ = clock::within(STOP_TIME_MAX, ended).await;
    }

    /// The route of a topic, as the first nameserver says that knows it; `None` when none does.
    pub(crate) async fn route_of(&self, topic: &Text) -> Option<TopicRouteData> {
        for peer in &self.peers {
            if let Some(route) = peer.route_of(topic).await {
                return Some(route);
            }
        }
        None
    }

    /// Notes that these topics are new or changed in the table as it is now.
    pub(crate) fn topics_changed(&self, names: &BTreeSet<Text>) -> Ticket {
        let ticket = self.next_ticket();
        for peer in &self.peers {
            peer.want(names);
        }
        ticket
    }

    /// Notes that nameservers must be told everything.
    pub(crate) fn everything_changed(&self) -> Ticket {
        let ticket = self.next_ticket();
        for peer in &self.peers {
            peer.want_everything();
        }
        ticket
    }

    /// Waits until every nameserver that is there knows of a change. One that is lost meanwhile is not waited for.
    pub(crate) async fn reached(&self, ticket: Ticket) {
        while self.peers.iter().any(|peer| peer.is_connected() && !peer.has_reached(ticket.0)) {
            self.progress.notified().await;
        }
    }

    /// The broker's own permission is another one: all nameservers are told everything anew.
    pub(crate) fn set_permission(&self, permission: i32) -> Ticket {
        self.facts.borrow_mut().permission = permission;
        self.everything_changed()
    }

    /// How the broker is known.
    pub(crate) fn facts(&self) -> Facts {
        self.facts.borrow().clone()
    }

    fn next_ticket(&self) -> Ticket {
        self.number.set(self.number.get() + 1);
        Ticket(self.number.get())
    }

    fn number(&self) -> u64 {
        self.number.get()
    }

    fn answer_time_max(&self) -> Duration {
        self.answer_time_max
    }

    fn period(&self, core: &Rc<Core>) -> Duration {
        Duration::from_millis(core.config().registration.period.0)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    async fn stopped(&self) {
        while !self.is_stopping() {
            self.stop.notified().await;
        }
    }

    fn progressed(&self) {
        self.progress.notify();
    }
}
