//! A lean client: routes, sends, pulls and the calls of the administration tools.
//!
//! Everything belongs to the core it was made on. A [`Client`] is cheap to clone; its clones share connections and
//! routes. It starts no thread and no timer of its own: who wants heartbeats or a fresh route asks for them.
//!
//! It neither compresses what it sends nor balances queues among consumers.

mod address;
mod admin;
mod body;
mod consumer;
mod error;
mod link;
mod lock;
mod message;
mod nameserver;
mod offset;
mod producer;
mod query;
mod route;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use remoting::text::Text;

pub use address::{AddressError, parse_list};
pub use admin::TopicSettings;
pub use body::{Body, body_of};
pub use consumer::{PullAnswer, PullRequest, PullStatus};
pub use error::{Attempt, ClientError};
pub use message::Message;
pub use producer::{Copied, GROUP_DEFAULT, Receipt, SendOptions, StoreStatus};
pub use query::{KeyKind, KeyQuery, MESSAGES_OF_KEY_MAX};
pub use route::Route;

use link::Links;
use message::UniqueIds;
use route::CachedRoute;

/// How long this client waits, and for how much.
#[derive(Clone, Debug)]
pub struct Limits {
    /// One nameserver, from its name to an open connection. Beyond it the next one is tried.
    pub nameserver_reach_time_max: Duration,
    /// One broker, from its name to an open connection. Beyond it the call fails or goes to another broker.
    pub broker_reach_time_max: Duration,
    /// One answer, of a nameserver or a broker. Beyond it the call fails as late; a send tries another broker.
    pub answer_time_max: Duration,
    /// A route older than this is asked for again before it is used.
    pub route_age_max: Duration,
    /// Times that one send is tried.
    pub send_attempts_max: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            nameserver_reach_time_max: Duration::from_secs(1),
            broker_reach_time_max: Duration::from_secs(3),
            answer_time_max: Duration::from_secs(5),
            route_age_max: Duration::from_secs(30),
            send_attempts_max: 3,
        }
    }
}

/// A client of one cluster: its nameservers and, through their routes, its brokers.
#[derive(Clone)]
pub struct Client {
    inner: Rc<Inner>,
}

struct Inner {
    nameservers: Vec<String>,
    /// Where the search for a nameserver that answers begins: with the last that did.
    nameserver_turn: Cell<usize>,
    limits: Limits,
    links: Links,
    routes: RefCell<HashMap<Text, CachedRoute>>,
    ids: UniqueIds,
    /// Moves sends without a chosen queue around the queues.
    queue_turn: Cell<usize>,
}

impl Client {
    /// A client of these nameservers, each `host:port`; [`parse_list`] makes them of one text. Connects to nothing yet.
    ///
    /// # Panics
    /// When the list is empty.
    pub fn new(nameservers: Vec<String>) -> Client {
        Client::with_limits(nameservers, Limits::default())
    }

    /// As [`Client::new`], with other limits.
    ///
    /// # Panics
    /// When the list is empty or no attempt is allowed.
    pub fn with_limits(nameservers: Vec<String>, limits: Limits) -> Client {
        assert!(!nameservers.is_empty(), "a client needs a nameserver");
        assert!(limits.send_attempts_max > 0, "a send needs an attempt");
        let inner = Inner {
            nameservers,
            nameserver_turn: Cell::new(0),
            limits,
            links: Links::default(),
            routes: RefCell::default(),
            ids: UniqueIds::new(),
            queue_turn: Cell::new(0),
        };
        Client { inner: Rc::new(inner) }
    }

    /// As given.
    pub fn nameservers(&self) -> &[String] {
        &self.inner.nameservers
    }

    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Closes every connection. The client may be used again and opens new ones then.
    pub fn close(&self) {
        self.inner.links.close_all();
    }
}
