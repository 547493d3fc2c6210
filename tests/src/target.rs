//! What a test talks to: a broker of its own, or one that is named by the environment.

use std::path::PathBuf;

use crate::connection::Connection;
use crate::frame::Frame;
use crate::process::{Dev, Running};
use crate::request::{Queue, create_topic, heartbeat};

/// Variable with `namesrv_address,broker_address` of running servers.
pub const TARGET_VARIABLE: &str = "RINGMQ_TEST_TARGET";
/// Variable with the store folder of those servers, for the tests that look at the disk.
pub const STORE_VARIABLE: &str = "RINGMQ_TEST_STORE";

#[derive(Debug)]
pub struct Target {
    pub namesrv: String,
    pub broker: String,
    /// None when the servers are not ours and nobody said where their store is.
    pub store: Option<PathBuf>,
    // Declared before the folder's owner: the process ends before its folder is removed.
    process: Option<Running>,
    _dev: Option<Dev>,
}

impl Target {
    /// The servers named by the environment, or a new `ringmq dev`.
    pub fn start(stem: &str) -> Target {
        Target::start_with(Dev::new(stem))
    }

    /// As [`Target::start`], with settings for the case that a process is started.
    pub fn start_with(dev: Dev) -> Target {
        if let Ok(addresses) = std::env::var(TARGET_VARIABLE) {
            let (namesrv, broker) = addresses
                .split_once(',')
                .unwrap_or_else(|| panic!("{TARGET_VARIABLE} is {addresses:?}, not `namesrv_address,broker_address`"));
            return Target {
                namesrv: namesrv.to_owned(),
                broker: broker.to_owned(),
                store: std::env::var_os(STORE_VARIABLE).map(PathBuf::from),
                process: None,
                _dev: None,
            };
        }
        let process = dev.start();
        Target {
            namesrv: dev.namesrv.clone(),
            broker: dev.broker.clone(),
            store: Some(dev.store()),
            process: Some(process),
            _dev: Some(dev),
        }
    }

    /// The process, when it is ours.
    pub fn process(&self) -> Option<&Running> {
        self.process.as_ref()
    }

    /// True for servers that the environment named: they may be Apache's, which differs from RingMQ here and there.
    pub fn is_given(&self) -> bool {
        self.process.is_none()
    }

    pub fn connect(&self) -> Connection {
        connect(&self.broker)
    }

    pub fn connect_namesrv(&self) -> Connection {
        connect(&self.namesrv)
    }

    /// A new topic with this many queues.
    pub fn topic(&self, stem: &str, queue_count: u32) -> String {
        let topic = crate::unique_name(stem);
        self.connect().call_ok(&create_topic(&topic, queue_count)).expect("a topic can be made");
        topic
    }

    /// A new topic with one queue.
    pub fn queue(&self, stem: &str) -> Queue {
        Queue::new(&self.topic(stem, 1), 0)
    }

    /// A new consumer group, known to the broker as long as the connection lives.
    pub fn group(&self, connection: &mut Connection, stem: &str) -> String {
        let group = crate::unique_name(stem);
        connection.call_ok(&heartbeat(&format!("client-{group}"), &group)).expect("a heartbeat is taken");
        group
    }

    /// Fails unless both servers answer on new connections.
    pub fn assert_alive(&self) {
        // An unknown request code must be answered, so the answer shows that the whole way works.
        for address in [&self.namesrv, &self.broker] {
            let answer = connect(address).call(&Frame::request(29_999)).expect("the server answers");
            assert_eq!(answer.code, crate::request::CODE_NOT_SUPPORTED, "{address} answers {answer:?}");
        }
    }
}

fn connect(address: &str) -> Connection {
    Connection::open(address).unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
}
